"""The training example: what it judges, and what a short run leaves. Whole runs are tests of the documentation."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from wavecast.kernels import formats

SOURCE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "train_llama.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_llama", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_llama"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def falling(example: ModuleType, name: str, last: float) -> object:
    return example.Run(name, [5.5] * 100 + [last] * 200, 1.0)


@pytest.mark.parametrize(
    ("bf16", "fp8", "wrong"),
    [
        (1.5, 1.5, []),
        (1.5, 1.52, []),
        (1.5, 1.56, ["FP8's loss is +4.00% from bf16's, outside of 2%"]),
        (1.5, math.nan, ["FP8's loss is +nan% from bf16's, outside of 2%"]),
        (4.0, 4.0, ["bf16's loss fell by 1.50 nats, less than 2.0"]),
    ],
)
def test_judgement(example: ModuleType, bf16: float, fp8: float, wrong: list[str]) -> None:
    assert example.judge(falling(example, "bf16", bf16), falling(example, "fp8", fp8), 0.02) == wrong


def test_every_run_sees_the_same_text_in_the_same_order(example: ModuleType) -> None:
    text, size = example.python_text(least=1 << 20), example.Size(64, 1, 16, 3, False)
    one, two = (list(example.batches(text, size, 4, seed=1)) for _ in range(2))
    assert [batch.shape for batch in one] == [(3, 17)] * 4
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not torch.equal(one[0], one[1])


def test_too_little_text_names_the_way_out(example: ModuleType) -> None:
    with pytest.raises(SystemExit, match="are wanted; pass a file with --text"):
        example.python_text(least=1 << 40)


def losses(example: ModuleType, folder: Path, *arguments: str) -> list[list[float]]:
    """Of bf16 and of FP8, of a run of 2 steps."""
    paths = ["--json", str(folder / "run.json"), "--plot", str(folder / "run.png")]
    assert example.main(["--steps", "2", "--layers", "1", "--sequence", "16", *paths, *arguments]) == 0
    assert (folder / "run.png").read_bytes().startswith(b"\x89PNG")
    return [run["loss"] for run in json.loads((folder / "run.json").read_text())["runs"]]


@pytest.mark.parametrize("arguments", [[], ["--moe", "--recipe", "rowwise_hp_wgrad", "--compile"]])
def test_a_run_starts_both_from_the_same_weights(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    compiled = nn.Module.compile
    traced: list[nn.Module] = []

    def trace(model: nn.Module, *, mode: str, fullgraph: bool) -> None:
        """As one graph, but without the code generators, which take a minute here."""
        assert mode == "reduce-overhead"
        traced.append(model)
        compiled(model, backend="eager", fullgraph=fullgraph)

    monkeypatch.setattr(nn.Module, "compile", trace)
    bf16, fp8 = losses(example, tmp_path, *arguments)
    assert bf16[0] == pytest.approx(math.log(256), rel=0.02)
    assert fp8[0] == pytest.approx(bf16[0], rel=1e-3)
    assert fp8 != bf16
    assert len(traced) == 2 * ("--compile" in arguments)


def test_the_planted_fault_reaches_fp8_alone(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = losses(example, tmp_path)
    monkeypatch.setattr(formats, "FORMATS", formats.FORMATS)  # put back at the end
    wrong = losses(example, tmp_path, "--plant-scale-fault")
    assert wrong[0] == right[0]
    assert wrong[1] != right[1]

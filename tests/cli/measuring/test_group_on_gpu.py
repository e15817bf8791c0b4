"""Experiments over several GPUs, whose ranks are two processes that share one GPU and take turns on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from wavecast.cli.app import run
from wavecast.cli.measuring import group_session, ranks
from wavecast.cli.measuring.gpu import find_machine
from wavecast.cli.records import read_records

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("experiment", ["async-tp", "matmul-reduce-scatter"])
def test_every_option_and_many_calls(experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gloo moves no GPU's memory from rank to rank and is in no graph: the other variants may fail here."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")

    def one_gpu(*, gpus: int) -> Any:
        return find_machine()

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setattr(ranks, "gpu_places", lambda count: ["cuda:0"] * count)
    monkeypatch.setattr("wavecast.cli.measuring.gpu.find_machine", one_gpu)
    monkeypatch.setattr("wavecast.cli.measuring.gpu.GpuBench", first_gpu())
    monkeypatch.setattr(group_session, "CALLS", 50)
    monkeypatch.setattr(group_session, "REPLAYS", 20)
    options = ["--gpus", "2", "--shape", "m=1024,n=512,k=256", "--variant", "wavecast", "--seconds", "0"]
    run(["measure", experiment, *options, "--no-predict", "--records", str(tmp_path)])
    (record,) = read_records(tmp_path).values()
    assert record.measurement is not None
    checks = {one.variant: one.check for one in record.measurement.rows}
    assert "50 calls, 20 replays" in checks["wavecast"], checks
    (ours,) = [one for one in record.measurement.rows if one.variant == "wavecast"]
    assert ours.cold_us is not None and len(ours.gpus_us) == 2


def first_gpu() -> Any:
    from wavecast.cli.measuring.gpu import GpuBench

    return lambda index: GpuBench(0)

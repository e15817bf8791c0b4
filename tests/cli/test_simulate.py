"""The adapter with the real simulator behind it, on shapes that take a second."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from wavecast.cli import simulate
from wavecast.cli.app import run
from wavecast.cli.errors import CliError
from wavecast.cli.rows import document_from_json

pytestmark = [pytest.mark.compile, pytest.mark.execute]


ROWWISE = ("predict", "rowwise", "--shape", "tokens=64,n=512", "--json", "--jobs")


@pytest.fixture(scope="module")
def printed() -> str:
    """What one process predicts of ``rowwise``; made once."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run([*ROWWISE, "1"]) == 0
    return out.getvalue()


def test_predicting_an_experiment_end_to_end(printed: str) -> None:
    chain, fused = document_from_json(json.loads(printed)).rows
    assert (chain.variant, fused.variant) == ("separate-kernels", "wavecast")
    assert (chain.launches, fused.launches) == (4, 1)
    assert [kernel.launches for kernel in chain.kernels] == [1, 1, 1, 1]
    for row in (chain, fused):
        assert (row.path, row.arch, row.device) == ("triton", "gfx942", "mi300x")
        assert row.dtype == "bf16 -> e4m3fnuz"
        assert row.spec is not None
        assert row.spec.startswith("mi300x-")
        assert row.predicted_us == pytest.approx(sum(kernel.predicted_us or 0 for kernel in row.kernels))
        assert row.bound
        assert row.cause
        assert row.fence_release == row.fence_acquire == 0
        assert row.code_object is not None
        assert row.code_object.split(",") == [kernel.code_object for kernel in row.kernels]
    assert chain.speedup == 1.0
    assert fused.hbm_read_bytes is not None
    assert fused.hbm_write_bytes is not None
    assert fused.minimum_bytes is not None
    assert fused.hbm_read_bytes + fused.hbm_write_bytes >= fused.minimum_bytes


def test_only_the_first_launch_pays_for_waking_the_queue(printed: str) -> None:
    from wavecast.simulator.devices.loader import load_device

    chain, _ = document_from_json(json.loads(printed)).rows
    first, *others = (kernel.predicted_us or 0 for kernel in chain.kernels)
    launch = load_device("mi300x").launch
    assert first >= launch.first_us
    assert all(launch.back_to_back_us <= time < launch.first_us for time in others)


def test_fences_are_counted_as_executed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["weight-transpose", "--shape", "experts=1,k=128,n=256", "--json", "--jobs", "1"]
    assert run(["predict", *arguments]) == 0
    ordered, relaxed, ours = document_from_json(json.loads(capsys.readouterr().out)).rows
    # Two tiles, whose 128 scales are lanes of 2 waves. Of the two atomics a float minimum compiles to (smin, umax),
    # positive scales take one, and skip the other with its fences.
    assert (ordered.fence_release, ordered.fence_acquire) == (4, 4)
    assert relaxed.fence_release == ours.fence_release == 0


def test_processes_give_the_same_rows(printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ROWWISE, "2"]) == 0
    assert capsys.readouterr().out == printed


def test_an_error_in_another_process_comes_back_whole(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["weight-transpose", "--shape", "experts=1,k=65536,n=65536", "--jobs", "2"]
    assert run(["predict", *arguments]) == 2
    message, _, _ = capsys.readouterr().err.partition("\n")
    assert message.startswith("error: K * N of one expert")


def test_a_function_that_launches_nothing() -> None:
    with pytest.raises(CliError, match="nothing was launched on mi300x"):
        simulate.predict_run(lambda: None, device="mi300x")

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


def test_every_option_and_many_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a minute, most of which goes into compiling. gloo is in no graph: the other variants may fail here."""
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
    experiments = ["async-tp", "matmul-reduce-scatter"]
    run(["measure", *experiments, *options, "--no-predict", "--records", str(tmp_path)])
    records = [record.measurement for record in read_records(tmp_path).values()]
    ours = [row for record in records if record for row in record.rows if row.variant == "wavecast"]
    assert [row.experiment for row in ours] == experiments
    for row in ours:
        assert "50 calls, 20 replays" in row.check, row
        assert row.cold_us is not None and len(row.gpus_us) == 2


def first_gpu() -> Any:
    from wavecast.cli.measuring.gpu import GpuBench

    return lambda index: GpuBench(0)

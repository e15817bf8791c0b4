from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fakes import MACHINE, FakeGpu, Variants

from wavecast.cli.measuring import session


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Put a fake where the command line looks for a GPU, and plain copies where the operators are."""
    gpu = FakeGpu()
    module = SimpleNamespace(VARIANTS=Variants(), last_path=lambda: "triton")
    monkeypatch.setattr("wavecast.cli.experiments.operators.import_module", lambda name: module)
    monkeypatch.setattr("wavecast.cli.measuring.gpu.find_machine", lambda **_: MACHINE)
    monkeypatch.setattr("wavecast.cli.measuring.gpu.GpuBench", lambda index: gpu)
    monkeypatch.setattr(session.new_measurement, "__kwdefaults__", {"launch": lambda: None})
    return gpu

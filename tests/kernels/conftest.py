"""What the kernel tests share: helper modules of this folder can be imported, and virtual devices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

VIRTUAL_DEVICES = {"gfx942": "mi300x", "gfx950": "mi355x"}


@pytest.fixture(params=VIRTUAL_DEVICES)
def virtual_arch(request: pytest.FixtureRequest) -> Iterator[str]:
    """Architecture of a virtual device that is active during the test; skips where the simulator is not installed."""
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    pytest.importorskip("wavecast.simulator.launch")
    with virtual.virtual_device(VIRTUAL_DEVICES[request.param]):
        yield request.param

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The corpus beside this folder has the kernels.
sys.path.insert(0, str(Path(__file__).parents[1]))

from wavecast.simulator.virtual import VirtualDevice, virtual_device

DEVICES = {"gfx942": "mi300x", "gfx950": "mi355x"}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[VirtualDevice]:
    """A virtual device of each architecture, active for the test."""
    with virtual_device(DEVICES[request.param]) as active:
        yield active

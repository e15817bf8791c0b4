from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from gather_cases import OneRank


@pytest.fixture(params=[("gfx942", "mi300x"), ("gfx950", "mi355x")], ids=lambda pair: pair[0])
def one_rank(request: pytest.FixtureRequest) -> Iterator[OneRank]:
    """For kernels whose programs fetch: they wait for each other, and run at a time here, in a drawn order."""
    node = pytest.importorskip("wavecast.simulator.virtual.node")
    arch, device = request.param
    with node.virtual_node(device, 1, 5) as found, found.rank(0).active():
        yield OneRank(arch, found.rank(0))

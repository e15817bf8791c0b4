"""No operator does what the simulator's checks look for: races, stray reads, missing fences and the like."""

from __future__ import annotations

import pytest
from every_operator import every_operator

from wavecast.kernels.formats import E4M3FN, E4M3FNUZ

pytestmark = [pytest.mark.compile, pytest.mark.execute]
FORMATS = {"mi300x": E4M3FNUZ, "mi355x": E4M3FN}


@pytest.mark.parametrize("device", FORMATS)
@pytest.mark.parametrize("name", every_operator(E4M3FNUZ))
def test_operator_has_no_finding(device: str, name: str) -> None:
    """Scratch and results are allocated without being written, and count as never written."""
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    marked_allocations = pytest.importorskip("wavecast.cli.virtual_torch.memory").marked_allocations
    for seed in (0, 1):
        call = every_operator(FORMATS[device], seed=seed)[name]
        with virtual.virtual_device(device, check=True) as active, marked_allocations():
            call.operator(*call.tensors)
        assert active.launches
        assert [str(finding) for finding in active.findings] == []

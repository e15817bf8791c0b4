"""Constraints on hand-made resources, where no compiler would let it come to that."""

from __future__ import annotations

import dataclasses

from wavecast.simulator.devices import load_device
from wavecast.simulator.program.kernel import Resources
from wavecast.simulator.traffic import Residency
from wavecast.simulator.traffic.residency import Limiter
from wavecast.simulator.tune.constraint import Constraint, Limits, check_resources, check_workgroup

DEVICE = load_device("mi300x")
MODEST = Resources(64, 64, 0, 64, 32, 0, 0, 0, 0)
FULL = Residency(4, 8, 8, Limiter.WAVE_SLOTS)


def test_sixteen_waves_are_the_largest_workgroup() -> None:
    assert check_workgroup(16, DEVICE) is None
    refused = check_workgroup(17, DEVICE)
    assert refused is not None and refused.constraint is Constraint.WAVEFRONT


def test_code_of_which_no_workgroup_fits_is_ruled_out_by_its_registers() -> None:
    refused = check_resources(dataclasses.replace(MODEST, vgpr=136), None, DEVICE, Limits())
    assert refused is not None and refused.constraint is Constraint.REGISTERS
    assert refused.reason.startswith("136 vector and 32 scalar registers")


def test_all_of_the_lds_may_be_used_and_not_a_byte_more() -> None:
    capacity = int(DEVICE.lds.bytes_per_cu)
    assert check_resources(dataclasses.replace(MODEST, lds_bytes=capacity), FULL, DEVICE, Limits()) is None
    refused = check_resources(dataclasses.replace(MODEST, lds_bytes=capacity + 1), None, DEVICE, Limits())
    assert refused is not None and refused.constraint is Constraint.LDS


def test_a_few_spilled_bytes_may_be_allowed() -> None:
    spilling = dataclasses.replace(MODEST, scratch_bytes=64, vgpr_spills=16)
    refused = check_resources(spilling, FULL, DEVICE, Limits())
    assert refused is not None and refused.constraint is Constraint.SPILLS and "16 vector" in refused.reason
    assert check_resources(spilling, FULL, DEVICE, Limits(spill_bytes=64)) is None

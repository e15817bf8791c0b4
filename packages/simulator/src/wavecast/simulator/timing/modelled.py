"""Time of a kernel that hands its work to units beside the warps, and is not executed: from what it works on.

Tensor cores that a group of warps feeds and copies by the tensor memory accelerator have no instructions whose lanes
could be followed. What such a kernel moves and multiplies is known from its operands, and when from its tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.combine import combine_us
from wavecast.simulator.timing.gemm import Configuration, GemmProblem, predict_gemm
from wavecast.simulator.timing.memory_time import mixed_us
from wavecast.simulator.timing.model import launch_us
from wavecast.simulator.timing.prediction import Bound, ModelledTime, Position
from wavecast.simulator.timing.uncertainty import interval, sensitivities
from wavecast.simulator.traffic.dirty import Residue, held_bytes, writes_back, written_among

_BYTES_PER_US = 1e6  # of one TB/s
# What passes through L2 when the parts of a group agree: the maximum and the count are updated, each after a fence of
# those that wrote or before that of those that read, the count is read until it is full, and then the maximum.
_UPDATES, _FENCES, _READS = 2, 2, 2


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """A product by tensor cores, whose operands a copy unit fetches.

    Attributes:
        problem: What is computed.
        configuration: With which tiles.
    """

    problem: GemmProblem
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class StagedCopy:
    """A copy that changes what it copies, by persistent workgroups, one a compute unit, which take item after item.

    An item lies in LDS as a whole before it is written, since something of all of it has to be known first.

    Attributes:
        items: How many there are.
        programs: Workgroups.
        read_bytes: Read, all items together.
        write_bytes: Written.
        joined: Whether items wait for one another, as parts of a group do.
    """

    items: int
    programs: int
    read_bytes: int
    write_bytes: int
    joined: bool


Work = TiledProduct | StagedCopy


def predict_modelled(
    work: Work,
    device: Device,
    *,
    position: Position = Position.BACK_TO_BACK,
    rested: bool = False,
    before: Residue | None = None,
) -> ModelledTime:
    """Predict how long a launch takes that is not executed.

    Args:
        work: What it does.
        device: Where.
        position: Where it stands in its stream.
        rested: Whether nothing hot came before, as where single calls are measured.
        before: What earlier launches of the stream left in the L2, see ``written_among``.
    """
    if isinstance(work, StagedCopy):
        return _copy(work, device, position, before)
    how = work.configuration
    return predict_gemm(work.problem, device, how, position=position, rested=rested, before=before)


def kept_bytes(time: ModelledTime, device: Device) -> float:
    """Of what a launch wrote, the bytes that the L2 still holds at its end and nobody has written to HBM."""
    return 0.0 if writes_back(device) else held_bytes(time.hbm_read_bytes, time.written_bytes, device)


def _copy(work: StagedCopy, device: Device, position: Position, before: Residue | None) -> ModelledTime:
    def time_us(changed: Device) -> float:
        return combine_us(_copy_terms(work, changed, position, before), changed)

    terms = _copy_terms(work, device, position, before)
    point_us = combine_us(terms, device)
    moved = sensitivities(time_us, device, point_us=point_us)
    low, high = interval(time_us, device, moved, point_us=point_us)
    rounds = -(-work.items // work.programs)
    each_us = _waits_us(work, device)
    return ModelledTime(
        predicted_us=point_us,
        low_us=low,
        high_us=high,
        bound=max((Bound.HBM, Bound.OVERLAP), key=lambda name: terms[name]),
        cause=f"HBM moves {work.read_bytes / 1e6:,.1f} MB in and {work.write_bytes / 1e6:,.1f} MB out, in {rounds:,} "
        f"rounds of {work.programs} items, between which {each_us:.1f} µs pass in which a unit asks for nothing",
        terms=MappingProxyType(terms),
        l2_read_bytes=work.read_bytes,
        hbm_read_bytes=work.read_bytes,
        written_bytes=work.write_bytes,
        left=written_among(work.read_bytes, work.write_bytes, device, before=before)[1],
        sensitivity=moved,
        device=device.digest,
    )


def _waits_us(work: StagedCopy, device: Device) -> float:
    """How long a unit asks for nothing between two items.

    The last bytes of one have to come, what has to be known of it is found out, with other units if items are joined,
    and its first bytes are written.
    """
    waits_clk = device.hbm.latency_clk + device.l2.store_ack_clk
    if work.joined:
        waits_clk += _UPDATES * device.atomics.latency_clk + _FENCES * device.fences.writeback_clk
        waits_clk += _READS * device.l2.latency_clk
    return waits_clk / device.clk_per_us


def _copy_terms(work: StagedCopy, device: Device, position: Position, before: Residue | None) -> dict[Bound, float]:
    """µs by resource: an item is read while the one before it is written."""
    written, _ = written_among(work.read_bytes, work.write_bytes, device, before=before)
    rounds = -(-work.items // work.programs)
    terms = dict.fromkeys(Bound, 0.0)
    moving_us = mixed_us(work.read_bytes, written, device.hbm)
    terms[Bound.HBM] = moving_us
    terms[Bound.L2] = (
        work.read_bytes / (device.l2.bulk_read_tb_s or device.l2.read_tb_s) + work.write_bytes / device.l2.write_tb_s
    ) / _BYTES_PER_US
    terms[Bound.WORKGROUP_LAUNCH] = work.programs * device.launch.workgroup_clk / device.clk_per_us
    # Equal items on as many units: the last round takes as long as a full one.
    unfilled_us = moving_us * (rounds * work.programs / work.items - 1)
    terms[Bound.OVERLAP] = unfilled_us + rounds * _waits_us(work, device)
    terms[Bound.LAUNCH] = launch_us(device, position, working_us=combine_us(terms, device))
    return terms

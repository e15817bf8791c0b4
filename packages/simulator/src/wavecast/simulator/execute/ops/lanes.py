"""Data from one lane to another, or between a lane and a scalar register."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.registry import raw

_ROW = 16


def _lane(e: Emitter, position: int, lane: ir.Value) -> ir.Value:
    """Pointer to a lane (i64) of a vector register."""
    return e.at(e.row(position), e.b.shl(lane, I64(2)))


@raw("v_readfirstlane_b32", "b32 b32")
def _(e: Emitter) -> None:
    # Without an active lane the count is 64, which wraps to lane 0: what the hardware reads then.
    first = e.call("llvm.cttz.i64", I64, [e.exec_mask(), I1(0)])
    lane = e.b.and_(first, I64(LANES - 1))
    e.write_scalar(0, e.b.load(_lane(e, 1, lane), typ=I32, align=4))


@raw("v_readlane_b32", "b32 b32 b32")
def _(e: Emitter) -> None:
    lane = e.b.and_(e.convert(e.read_scalar(2, "b32"), I64), I64(LANES - 1))
    e.write_scalar(0, e.b.load(_lane(e, 1, lane), typ=I32, align=4))


@raw("v_writelane_b32", "b32 b32 b32")
def _(e: Emitter) -> None:
    lane = e.b.and_(e.convert(e.read_scalar(2, "b32"), I64), I64(LANES - 1))
    e.b.store(e.read_scalar(1, "b32"), _lane(e, 0, lane), align=4)


def _swap(name: str, rows: int) -> None:
    """Swap the odd groups of ``rows`` rows of the first register with the even groups of the second."""
    lanes = rows * _ROW

    @raw(name, "b32 b32")
    def _(e: Emitter) -> None:
        first, second = e.read(0, "b32"), e.read(1, "b32")
        odd = [lane // lanes % 2 for lane in range(LANES)]
        new_first = [LANES + lane - lanes if odd[lane] else lane for lane in range(LANES)]
        new_second = [LANES + lane if odd[lane] else lane + lanes for lane in range(LANES)]
        # A lane receives only if the lane it receives from is active too. Only the lanes that receive are written, so
        # that one register in both places has its own halves swapped.
        partner = e.shuffle(e.exec_lanes(), [lane ^ lanes for lane in range(LANES)])
        for position, order, receives in ((0, new_first, 1), (1, new_second, 0)):
            receiving = ir.Constant(partner.type, [int(odd[lane] == receives) for lane in range(LANES)])
            e.store_rows(e.row(position), e.shuffle(first, order, second), e.b.and_(partner, receiving))


_swap("v_permlane16_swap_b32", 1)
_swap("v_permlane32_swap_b32", 2)


@raw("v_swap_b32", "b32 b32")
def _(e: Emitter) -> None:
    first, second = e.read(0, "b32"), e.read(1, "b32")
    e.write(0, "b32", second)
    e.write(1, "b32", first)

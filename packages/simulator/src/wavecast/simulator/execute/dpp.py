"""Data-parallel primitives: a source operand taken from another lane.

``row_mask`` and ``bank_mask`` switch off the destination in rows of 16 lanes and banks of 4. A source lane that lies
outside the row, or is switched off by EXEC, reads 0 with ``bound_ctrl`` and otherwise leaves the destination as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from wavecast.simulator.execute.layout import LANES

if TYPE_CHECKING:
    from wavecast.simulator.execute.emitter import Emitter
    from wavecast.simulator.execute.form import Form

_ROW = 16


def source_lane(form: Form, lane: int) -> int | None:
    """Lane that ``lane`` reads from, or None if it is out of bounds; None everywhere is never returned for no DPP."""
    row, position = lane - lane % _ROW, lane % _ROW
    quad = form.modifier("quad_perm", ())
    if isinstance(quad, tuple) and quad:
        return lane - lane % 4 + quad[lane % 4]
    for name in ("row_shr", "row_shl", "row_ror", "row_newbcast", "row_share"):
        amount = form.modifier(name, -1)
        if not isinstance(amount, int) or amount < 0:
            continue
        if name == "row_shr":
            return row + position - amount if position >= amount else None
        if name == "row_shl":
            return row + position + amount if position + amount < _ROW else None
        if name == "row_ror":
            return row + (position - amount) % _ROW
        return row + amount
    return _whole_wave_source(form, lane, row, position)


def _whole_wave_source(form: Form, lane: int, row: int, position: int) -> int | None:
    if form.modifier("row_mirror"):
        return row + _ROW - 1 - position
    if form.modifier("row_half_mirror"):
        return row + (position & 8) + 7 - (position & 7)
    broadcast = form.modifier("row_bcast")
    if broadcast == 15:
        return row - 1 if row else None
    if broadcast == 31:
        return 31 if lane >= 32 else None
    for name, step in (("wave_shr", -1), ("wave_shl", 1)):
        if form.modifier(name):
            other = lane + step
            return other if 0 <= other < LANES else None
    for name, step in (("wave_ror", -1), ("wave_rol", 1)):
        if form.modifier(name):
            return (lane + step) % LANES
    raise NotImplementedError("DPP without a control that is known here")


def _is_dpp(form: Form) -> bool:
    return form.encoding.endswith("dpp")


def _zero_fills(form: Form) -> bool:
    """Whether ``bound_ctrl`` is set: this encoding's text says so with any value, even ``bound_ctrl:0``."""
    return form.modifier("bound_ctrl", -1) != -1


def source(e: Emitter, position: int, raw: ir.Value) -> ir.Value:
    """The first source as DPP hands it to each lane."""
    if not _is_dpp(e.form) or position != e.results:
        return raw
    lanes = [source_lane(e.form, lane) for lane in range(LANES)]
    moved = e.shuffle(raw, [lane if lane is not None else index for index, lane in enumerate(lanes)])
    return e.select(_valid(e, lanes), moved, e.like(moved, 0))


def write_enable(e: Emitter) -> ir.Value | None:
    """Lanes whose destination DPP leaves enabled, or None if it does not restrict them."""
    if not _is_dpp(e.form):
        return None
    row_mask, bank_mask = e.form.modifier("row_mask", 0xF), e.form.modifier("bank_mask", 0xF)
    assert isinstance(row_mask, int)
    assert isinstance(bank_mask, int)
    bounded = _zero_fills(e.form)
    if bounded and row_mask == bank_mask == 0xF:
        return None
    enabled = [bool(row_mask >> (lane // _ROW) & 1 and bank_mask >> (lane % _ROW // 4) & 1) for lane in range(LANES)]
    result: ir.Value = ir.Constant(ir.VectorType(ir.IntType(1), LANES), enabled)
    if not bounded:
        result = e.b.and_(result, _valid(e, [source_lane(e.form, lane) for lane in range(LANES)]))
    return result


def _valid(e: Emitter, lanes: list[int | None]) -> ir.Value:
    inside = ir.Constant(ir.VectorType(ir.IntType(1), LANES), [lane is not None for lane in lanes])
    active = e.shuffle(e.exec_lanes(), [lane if lane is not None else index for index, lane in enumerate(lanes)])
    return e.b.and_(inside, active)

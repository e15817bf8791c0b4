"""Moves with a register index in M0, and the scalar opcodes that set it. ``execute/register_index.py`` says how."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import ROW_BYTES
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.program.instruction import M0

_MODES = {"gpr_idx(SRC0)": 1, "gpr_idx(DST)": 8}


@raw("s_set_gpr_idx_on", "b32 b32")
def _(e: Emitter) -> None:
    mode = _MODES.get(e.form.operands[1].kind.replace(" ", ""))
    if mode is None:
        raise NotImplementedError(f"register index mode {e.form.operands[1].kind}")
    kept = e.b.and_(e.scalar_load(M0), I32(0xFFFF0F00))
    index = e.b.and_(e.read_scalar(0, "b32"), I32(0xFF))
    e.scalar_store(M0, e.b.or_(e.b.or_(kept, index), I32(mode << 12)))


@raw("s_set_gpr_idx_idx", "b32")
def _(e: Emitter) -> None:
    kept = e.b.and_(e.scalar_load(M0), I32(0xFFFFFF00))
    e.scalar_store(M0, e.b.or_(kept, e.b.and_(e.read_scalar(0, "b32"), I32(0xFF))))


@raw("s_set_gpr_idx_off", "")
def _(e: Emitter) -> None:
    """The moves before it know that they are indexed."""


def _index(e: Emitter) -> tuple[ir.Value, ir.Value]:
    """Offset in bytes that the index makes, and whether the register exists."""
    if len(e.form.operands) != 3:
        raise NotImplementedError("no instruction of this architecture, but a name for what s_set_gpr_idx_on makes")
    index = e.convert(e.b.and_(e.scalar_load(M0), I32(0xFF)), I64)
    return e.b.mul(index, I64(ROW_BYTES)), e.b.icmp_unsigned("<", index, e.argument(2))


@raw("v_movreld_b32", "b32 b32 b32")
def _(e: Emitter) -> None:
    offset, exists = _index(e)
    value = e.read(1, "b32")
    # A destination beyond the wave's registers is not written.
    with e.b.if_then(exists):
        e.store_rows(e.at(e.row(0), offset), value)


@raw("v_movrels_b32", "b32 b32 b32")
def _(e: Emitter) -> None:
    offset, exists = _index(e)
    # A source beyond the wave's registers is v0.
    place = e.b.select(exists, e.b.add(e.argument(1), offset), I64(0))
    e.store_rows(e.row(0), e.load_rows(e.at(e.vectors, place)))

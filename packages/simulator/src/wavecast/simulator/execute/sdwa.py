"""Sub-dword addressing: a byte or word of a source, and a byte or word of the destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

if TYPE_CHECKING:
    from wavecast.simulator.execute.emitter import Emitter
    from wavecast.simulator.execute.form import OperandForm

# Name of a selector → (first bit, bits).
SELECTORS = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def source(e: Emitter, position: int, raw: ir.Value, operand: OperandForm) -> ir.Value:
    """The part of a source that its selector names, zero- or sign-extended to 32 bits."""
    if e.form.encoding != "sdwa":
        if operand.sign_extend:
            raise NotImplementedError("sext(…) outside SDWA")
        return raw
    name = e.form.modifier(f"src{position - e.results}_sel", "DWORD")
    first, bits = SELECTORS[str(name)]
    if bits == 32:
        return raw
    if operand.sign_extend:
        up = e.b.shl(raw, e.like(raw, 32 - first - bits))
        return e.b.ashr(up, e.like(up, 32 - bits))
    down = e.b.lshr(raw, e.like(raw, first)) if first else raw
    return e.b.and_(down, e.like(down, (1 << bits) - 1))


def destination(e: Emitter, raw: ir.Value, pointer: ir.Value) -> ir.Value:
    """The whole register after the result went into the part that ``dst_sel`` names."""
    if e.form.encoding != "sdwa":
        return raw
    first, bits = SELECTORS[str(e.form.modifier("dst_sel", "DWORD"))]
    unused = str(e.form.modifier("dst_unused", "UNUSED_PAD"))
    if bits == 32:
        return raw
    field = e.b.and_(raw, e.like(raw, (1 << bits) - 1))
    placed = e.b.shl(field, e.like(field, first)) if first else field
    if unused == "UNUSED_PAD":
        return placed
    if unused == "UNUSED_SEXT":
        up = e.b.shl(raw, e.like(raw, 32 - bits))
        return e.b.shl(e.b.ashr(up, e.like(up, 32 - bits)), e.like(up, first))
    old = e.load_rows(pointer)
    keep = ~(((1 << bits) - 1) << first) & 0xFFFFFFFF
    return e.b.or_(e.b.and_(old, e.like(old, keep)), placed)

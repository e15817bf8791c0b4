"""Dot products of packed values inside a lane.

The integer ones are exact. For the float ones the products are exact in single precision and are added one after the
other, each sum rounded, in the order that the ISA text writes; the hardware may keep more bits in between.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.builder import F32, I32
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import bfloat_part, half_part
from wavecast.simulator.execute.ops.packed import pair_source
from wavecast.simulator.execute.registry import raw

Elements = Callable[[Emitter, ir.Value], list[ir.Value]]


def _halves(e: Emitter, word: ir.Value) -> list[ir.Value]:
    return [half_part(e, word, part) for part in range(2)]


def _bfloats(e: Emitter, word: ir.Value) -> list[ir.Value]:
    return [bfloat_part(e, word, part) for part in range(2)]


def _integers(width: int, *, signed: bool) -> Elements:
    def elements(e: Emitter, word: ir.Value) -> list[ir.Value]:
        parts = []
        for first in range(0, 32, width):
            top = e.b.shl(word, e.like(word, 32 - width - first))
            down = e.like(word, 32 - width)
            parts.append(e.b.ashr(top, down) if signed else e.b.lshr(top, down))
        return parts

    return elements


def _sources(e: Emitter, *, floats: bool) -> tuple[ir.Value, ir.Value]:
    """Both packed sources: floats with op_sel and signs, integers as they are (their other modifiers are refused)."""
    if floats and len(e.form.operands) == 4:
        return pair_source(e, 0, 3), pair_source(e, 1, 3)
    return e.read(1, "b32"), e.read(2, "b32")


def _dot(name: str, elements: Elements, result: str, *, products_first: bool = False) -> None:
    accumulating = name.split("_")[1].endswith("c")

    @raw(name, " ".join([result, "b32", "b32"] + ([] if accumulating else [result])))
    def _(e: Emitter) -> None:
        first, second = _sources(e, floats=result == "f32")
        element = F32 if result == "f32" else I32
        total = e.bitcast(e.load_rows(e.row(0)), element) if accumulating else e.read(3, result)
        terms = list(zip(elements(e, first), elements(e, second), strict=True))
        if result != "f32":
            for a, b in terms:
                total = e.b.add(total, e.b.mul(a, b))
        else:
            products = [e.b.fmul(a, b) for a, b in terms]
            ordered = [*products, total] if products_first else [total, *products]
            total = ordered[0]
            for value in ordered[1:]:
                total = e.b.fadd(total, value)
        e.write(0, result, total)


for _form in ("v_dot2_f32_f16", "v_dot2c_f32_f16"):
    _dot(_form, _halves, "f32")
_dot("v_dot2_f32_bf16", _bfloats, "f32", products_first=True)
_dot("v_dot2c_f32_bf16", _bfloats, "f32")
for _count, _width in ((2, 16), (4, 8), (8, 4)):
    for _letter in ("i", "u"):
        _type = f"{_letter}{_width}"
        _dot(f"v_dot{_count}_{_letter}32_{_type}", _integers(_width, signed=_letter == "i"), f"{_letter}32")
    _dot(f"v_dot{_count}c_i32_i{_width}", _integers(_width, signed=True), "i32")

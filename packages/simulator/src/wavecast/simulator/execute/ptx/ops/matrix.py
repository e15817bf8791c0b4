"""Small matrices of a warp: ``ldmatrix``, ``stmatrix`` and ``mma.sync``.

``mma`` adds its products one after another in ascending k, each with one fp32 (or wrapping 32-bit) rounding; the
hardware's order and the bits it keeps inside are not published.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, I8, I16, I32, I64, lanes_of
from wavecast.simulator.execute.layout import RowKind
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.ops.memory import groups_of, shared_access, skip_if_idle
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.small_float import E4M3_OCP, E5M2_OCP, decode
from wavecast.simulator.execute.transfer import fetch, spread

_ROW_BYTES, _ROWS, _ROW_WORDS = 16, 8, 4
_SHAPE = re.compile(r"^m(\d+)n(\d+)k(\d+)$")


def _rows_mask(e: WarpEmitter, matrices: int) -> ir.Value:
    """Lanes that name a row of one of the matrices."""
    return e.b.and_(e.active, I64((1 << (_ROWS * matrices)) - 1))


@ptx("ldmatrix", kind=RowKind.MEMORY)
def _(e: WarpEmitter) -> None:
    e.expect_parts("sync", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta")
    skip_if_idle(e)
    matrices = groups_of(e)[0]
    places = shared_access(e, matrices, _ROW_BYTES, _rows_mask(e, matrices))
    block = fetch(e, places, _ROW_BYTES, clear=True)
    for matrix in range(matrices):
        if e.has("trans"):
            halves = e.b.load(block, typ=lanes_of(I16, 2 * _ROW_WORDS * e.lanes), align=1)
            order = [
                (_ROWS * matrix + 2 * (lane % 4) + part) * 8 + lane // 4 for lane in range(e.lanes) for part in (0, 1)
            ]
            word = e.b.bitcast(e.shuffle(halves, order), lanes_of(I32, e.lanes))
        else:
            words = e.b.load(block, typ=lanes_of(I32, _ROW_WORDS * e.lanes), align=1)
            word = e.shuffle(words, [(_ROWS * matrix + lane // 4) * 4 + lane % 4 for lane in range(e.lanes)])
        e.write_bits(matrix, word)


@ptx("stmatrix", kind=RowKind.MEMORY)
def _(e: WarpEmitter) -> None:
    e.expect_parts("sync", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta")
    skip_if_idle(e)
    matrices = groups_of(e)[1]
    places = shared_access(e, 0, _ROW_BYTES, _rows_mask(e, matrices))
    staging = e.allocate(I8, _ROW_BYTES * e.lanes)
    rows = _ROWS * e.lanes // 32
    for matrix in range(matrices):
        word = e.bits(1 + matrix, 32)
        if e.has("trans"):
            halves = e.b.bitcast(word, lanes_of(I16, 2 * e.lanes))
            # Row r, column c of the stored matrix is element c, r of the one in registers.
            order = [2 * (column * 4 + row // 2) + row % 2 for row in range(rows) for column in range(8)]
            word = e.b.bitcast(e.shuffle(halves, order), lanes_of(I32, e.lanes))
        e.b.store(word, e.at(staging, matrix * _ROWS * _ROW_BYTES), align=64)
    block = e.b.load(staging, typ=lanes_of(I32, _ROW_WORDS * e.lanes), align=64)
    spread(e, places, _ROW_BYTES, block)


@dataclass(frozen=True, slots=True)
class _Fragment:
    """Elements of a matrix operand by register, lane and part.

    Attributes:
        values: One vector of lanes for each register and part.
        parts: Elements of a 32-bit register.
    """

    values: list[list[ir.Value]]
    parts: int


@ptx("mma")
def _(e: WarpEmitter) -> None:
    e.expect_parts("sync", "row", "col", "satfinite", *(part for part in e.parts if _SHAPE.match(part)))
    shape = next((found for found in map(_SHAPE.match, e.parts) if found), None)
    d, a, b, c = (e.types[0], e.types[1], e.types[2], e.types[3]) if len(e.types) == 4 else ("", "", "", "")
    if shape is None or (shape[1], shape[2]) != ("16", "8") or not e.has("row") or d not in ("f32", "s32") or d != c:
        raise NotImplementedError(f"mma of this shape or with {', '.join(e.types)}")
    depth = int(shape[3])
    groups = groups_of(e)
    starts = [sum(groups[:index]) for index in range(4)]
    fragment_a = _fragment(e, a, starts[1], groups[1])
    fragment_b = _fragment(e, b, starts[2], groups[2])
    if groups[1] * fragment_a.parts * e.lanes != 16 * depth or groups[2] * fragment_b.parts * e.lanes != 8 * depth:
        raise NotImplementedError(f"mma of .{a} with k {depth}")
    for item in range(4):
        total = e.read(starts[3] + item, c)
        for k in range(depth):
            left, right = _at_a(e, fragment_a, item, k), _at_b(e, fragment_b, item, k)
            if d == "f32":
                total = e.intrinsic("llvm.fma", total.type, [left, right, total])
            else:
                total = e.b.add(total, e.b.mul(left, right))
        e.write(item, d, total)


def _fragment(e: WarpEmitter, kind: str, first: int, count: int) -> _Fragment:
    """Registers of an operand taken apart into fp32, or into 32-bit integers."""
    values = []
    parts = {"f16": 2, "bf16": 2, "tf32": 1, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}.get(kind)
    if parts is None:
        raise NotImplementedError(f"mma of .{kind}")
    for register in range(count):
        word = e.bits(first + register, 32)
        width = 32 // parts
        pieces = [e.b.lshr(word, e.like(word, width * part)) for part in range(parts)]
        values.append([_element(e, kind, piece) for piece in pieces])
    return _Fragment(values, parts)


def _element(e: WarpEmitter, kind: str, piece: ir.Value) -> ir.Value:
    if kind == "tf32":
        # The multiplier reads 19 of the 32 bits.
        return e.bitcast(e.b.and_(piece, e.like(piece, 0xFFFFE000)), F32)
    if kind == "bf16":
        return e.bitcast(e.b.shl(piece, e.like(piece, 16)), F32)
    if kind == "f16":
        return e.b.fpext(e.bitcast(e.convert(piece, I16), F16), lanes_of(F32, e.lanes))
    if kind in ("s8", "u8"):
        return e.convert(e.convert(piece, I8), I32, signed=kind == "s8")
    return decode(e, e.b.and_(piece, e.like(piece, 0xFF)), E4M3_OCP if kind == "e4m3" else E5M2_OCP)


def _at_a(e: WarpEmitter, fragment: _Fragment, item: int, k: int) -> ir.Value:
    """A[row, k] for each lane, of the row in which its result number ``item`` lies."""
    half, rest = divmod(k, 4 * fragment.parts)
    group, part = divmod(rest, fragment.parts)
    value = fragment.values[2 * half + item // 2][part]
    return e.shuffle(value, [lane // 4 * 4 + group for lane in range(e.lanes)])


def _at_b(e: WarpEmitter, fragment: _Fragment, item: int, k: int) -> ir.Value:
    """B[k, column] for each lane, of the column in which its result number ``item`` lies."""
    half, rest = divmod(k, 4 * fragment.parts)
    group, part = divmod(rest, fragment.parts)
    value = fragment.values[half][part]
    return e.shuffle(value, [(2 * (lane % 4) + item % 2) * 4 + group for lane in range(e.lanes)])

"""Matrix fused multiply-add (MFMA): D = A·B + C on a whole wave, EXEC ignored.

Layout (lane l, N columns, G = 64/N lane groups; AMD's matrix instruction calculator gives the same): row of A and
column of B are l % N; a lane holds K/G consecutive k, those of group l / N; D row of register r is
4G·(r/4) + 4·(l/N) + r%4 (f64: G·r + l/N), its column l % N.

Accumulation order here: k ascending, one fused multiply-add each, starting from C. The hardware's internal order is
not documented; results agree bit for bit where every partial sum is representable, and otherwise differ by rounding
of at most K additions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.builder import F32, F64, I8, I32, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, ROW_BYTES
from wavecast.simulator.execute.numeric import bfloat_part, half_part
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.small_float import decode, format_of

_UNROLLED = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """One MFMA instruction.

    Attributes:
        size: Rows of A and columns of B.
        depth: K.
        source: Element type of A and B: bf16, f16, f32, xf32, f64, i8, fp8, bf8.
        source_b: Element type of B where it differs.
        blocks: Independent products side by side.
    """

    size: int
    depth: int
    source: str
    source_b: str = ""
    blocks: int = 1

    @property
    def groups(self) -> int:
        """Lane groups that hold different k of one block."""
        return LANES // (self.size * self.blocks)

    @property
    def per_lane(self) -> int:
        """Elements of A (and of B) a lane holds."""
        return self.depth // self.groups

    @property
    def registers(self) -> int:
        """Result elements a lane holds."""
        return self.size * self.size * self.blocks // LANES


_SHAPES = {
    "v_mfma_f32_32x32x2_f32": Shape(32, 2, "f32"),
    "v_mfma_f32_16x16x4_f32": Shape(16, 4, "f32"),
    "v_mfma_f32_32x32x4_xf32": Shape(32, 4, "xf32"),
    "v_mfma_f32_16x16x8_xf32": Shape(16, 8, "xf32"),
    "v_mfma_f64_16x16x4_f64": Shape(16, 4, "f64"),
    "v_mfma_i32_32x32x16_i8": Shape(32, 16, "i8"),
    "v_mfma_i32_16x16x32_i8": Shape(16, 32, "i8"),
    "v_mfma_i32_32x32x32_i8": Shape(32, 32, "i8"),
    "v_mfma_i32_16x16x64_i8": Shape(16, 64, "i8"),
}
for _type in ("bf16", "f16"):
    _SHAPES[f"v_mfma_f32_32x32x8_{_type}"] = Shape(32, 8, _type)
    _SHAPES[f"v_mfma_f32_16x16x16_{_type}"] = Shape(16, 16, _type)
    _SHAPES[f"v_mfma_f32_32x32x16_{_type}"] = Shape(32, 16, _type)
    _SHAPES[f"v_mfma_f32_16x16x32_{_type}"] = Shape(16, 32, _type)
    _SHAPES[f"v_mfma_f32_4x4x4_16b_{_type}"] = Shape(4, 4, _type, blocks=16)
for _a in ("fp8", "bf8"):
    for _b in ("fp8", "bf8"):
        _SHAPES[f"v_mfma_f32_32x32x16_{_a}_{_b}"] = Shape(32, 16, _a, _b)
        _SHAPES[f"v_mfma_f32_16x16x32_{_a}_{_b}"] = Shape(16, 32, _a, _b)


def accumulator_type(shape: Shape) -> ir.Type:
    """Element type of C and D."""
    return {"f64": F64, "i8": I32}.get(shape.source, F32)


def unpack(e: Emitter, position: int, count: int, source: str) -> Iterator[ir.Value]:
    """The ``count`` elements each lane holds in a register operand, one <64 x accumulator type> after the other."""
    if source in ("f32", "xf32"):
        for index in range(count):
            bits = e.b.load(e.row(position, index), typ=lanes_of(I32), align=64)
            # xf32 drops the low 13 bits of the mantissa: 10 are multiplied.
            yield e.bitcast(e.b.and_(bits, e.like(bits, 0xFFFFE000)) if source == "xf32" else bits, F32)
    elif source == "f64":
        for index in range(count):
            yield e.bitcast(e.load_rows(e.row(position, 2 * index), 64), F64)
    else:
        per_word = 2 if source in ("bf16", "f16") else 4
        for index in range(0, count, per_word):
            word = e.b.load(e.row(position, index // per_word), typ=lanes_of(I32), align=64)
            for part in range(per_word):
                yield element(e, word, part, source)


def element(e: Emitter, word: ir.Value, part: int, source: str) -> ir.Value:
    """Element ``part`` of each packed word as an accumulator value."""
    if source == "bf16":
        return bfloat_part(e, word, part)
    if source == "f16":
        return half_part(e, word, part)
    byte = e.b.lshr(word, e.like(word, 8 * part))
    if source == "i8":
        return e.b.sext(e.convert(byte, I8), lanes_of(I32))
    return decode(e, byte, format_of(e, source))


def _pack(e: Emitter, position: int, shape: Shape, source: str) -> ir.Value:
    """A or B as a stack array [k][row or column] of accumulator values."""
    element = accumulator_type(shape)
    lanes = shape.size * shape.blocks
    array = e.allocate(element, shape.depth * lanes)
    for j, values in enumerate(unpack(e, position, shape.per_lane, source)):
        for group in range(shape.groups):
            k = shape.per_lane * group + j
            part = e.shuffle(values, list(range(group * lanes, (group + 1) * lanes))) if shape.groups > 1 else values
            e.b.store(part, e.at(array, k * lanes * _bytes(element)), align=64)
    return array


def _bytes(element: ir.Type) -> int:
    return 8 if element is F64 else 4


def multiply_add(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a·b + c, fused for floats."""
    if isinstance(c.type.element, ir.IntType):
        return e.b.add(e.b.mul(a, b), c)
    return e.intrinsic("llvm.fma", c.type, [a, b, c])


def product(e: Emitter, shape: Shape, a: ir.Value, b: ir.Value) -> None:
    """D = A·B + C from the packed arrays (single block).

    The code holds one result register and at most ``_UNROLLED`` k; loops do the rest, so that deep instructions
    neither take seconds to compile nor leave the instruction cache.
    """
    element = accumulator_type(shape)
    # An accumulation in place, as nearly all are, has C in D already.
    in_place = e.b.icmp_unsigned("==", e.argument(0), e.argument(3))
    is_register = e.form.operands[3].kind == "v"
    with e.b.if_then(e.b.not_(in_place)) if is_register else contextlib.nullcontext():
        # Compilers let a D of four registers begin inside C: all of C is read before any of D is written.
        for register, value in enumerate([_c_register(e, register, element) for register in range(shape.registers)]):
            _store_d(e, register, value)
    registers = 2 if element is F64 else 1
    depth = min(shape.depth, _UNROLLED)
    with e.for_each(shape.depth // depth) as chunk, e.for_each(shape.registers) as register:
        row = e.at(e.row(0), e.b.mul(register, I64(ROW_BYTES * registers)))
        before = e.bitcast(e.load_rows(row, 32 * registers), element)
        _write_rows(
            e, row, _partial(e, shape, a, b, first=e.b.mul(chunk, I64(depth)), register=register, before=before)
        )


def _partial(
    e: Emitter, shape: Shape, a: ir.Value, b: ir.Value, *, first: ir.Value, register: ir.Value, before: ir.Value
) -> ir.Value:
    """One result register of every lane, with up to ``_UNROLLED`` k from ``first`` on added."""
    element = before.type.element
    size, width = shape.size, _bytes(element)
    columns = lanes_of(element, size)
    start = e.b.mul(first, I64(size * width))
    a_start, b_start = e.at(a, start), e.at(b, start)
    parts = []
    for group in range(shape.groups):
        column = e.at(a_start, e.b.mul(_result_row(e, shape, register, group), I64(width)))
        total = e.shuffle(before, list(range(group * size, (group + 1) * size)))
        for k in range(min(shape.depth, _UNROLLED)):
            single = e.b.load(e.at(column, k * size * width), typ=element)
            values = e.b.load(e.at(b_start, k * size * width), typ=columns, align=64)
            total = multiply_add(e, e.splat(single, size), values, total)
        parts.append(total)
    return _concatenate(e, parts)


def _result_row(e: Emitter, shape: Shape, register: ir.Value, group: int) -> ir.Value:
    """Row of D that a lane group holds in a register."""
    if shape.source == "f64":
        return e.b.add(e.b.mul(register, I64(shape.groups)), I64(group))
    quad = e.b.mul(e.b.lshr(register, I64(2)), I64(4 * shape.groups))
    return e.b.add(e.b.add(quad, e.b.and_(register, I64(3))), I64(4 * group))


def _concatenate(e: Emitter, parts: list[ir.Value]) -> ir.Value:
    while len(parts) > 1:
        count = parts[0].type.count * 2
        parts = [e.shuffle(low, list(range(count)), high) for low, high in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _c_register(e: Emitter, register: int, element: ir.Type) -> ir.Value:
    operand = e.form.operands[3]
    if operand.kind == "v":
        if element is F64:
            return e.bitcast(e.load_rows(e.row(3, 2 * register), 64), F64)
        return e.bitcast(e.b.load(e.row(3, register), typ=lanes_of(I32), align=64), element)
    if operand.kind != "k":
        raise NotImplementedError("C of a matrix product must be a vector register or a constant")
    bits = e.argument(3)
    return e.bitcast(e.splat(bits if element is F64 else e.b.trunc(bits, I32)), element)


def _store_d(e: Emitter, register: int, value: ir.Value) -> None:
    """Store one result register of every lane."""
    _write_rows(e, e.row(0, register * (2 if value.type.element is F64 else 1)), value)


def _write_rows(e: Emitter, pointer: ir.Value, value: ir.Value) -> None:
    """Store a value of 32 or 64 bits a lane in all lanes: EXEC does not matter to a matrix instruction."""
    if value.type.element is F64:
        bits = e.bitcast(value, I64)
        e.b.store(e.convert(bits, I32), pointer, align=64)
        e.b.store(e.convert(e.b.lshr(bits, e.like(bits, 32)), I32), e.at(pointer, ROW_BYTES), align=64)
    else:
        e.b.store(e.bitcast(value, I32), pointer, align=64)


def _small_blocks(e: Emitter, shape: Shape) -> None:
    """4x4 with 16 blocks: lane l holds row or column l%4 of block l/4; ``cbsz``/``abid`` let blocks share A."""
    cbsz, abid = int(e.form.modifier("cbsz")), int(e.form.modifier("abid"))  # type: ignore[arg-type]
    a = list(unpack(e, 1, shape.per_lane, shape.source))
    b = list(unpack(e, 2, shape.per_lane, shape.source))
    totals = []
    for register in range(shape.registers):
        total = _c_register(e, register, F32)
        sources = []
        for lane in range(LANES):
            block = lane // 4
            shared = (block >> cbsz << cbsz) + abid if cbsz else block
            sources.append(shared * 4 + register)
        for k in range(shape.depth):
            total = multiply_add(e, e.shuffle(a[k], sources), b[k], total)
        totals.append(total)
    for register, total in enumerate(totals):
        _store_d(e, register, total)


def _check(e: Emitter, shape: Shape) -> None:
    for name in ("neg", "blgp"):
        if e.form.modifier(name):
            raise NotImplementedError(f"modifier {name} of a matrix instruction")
    if shape.blocks == 1 and (e.form.modifier("cbsz") or e.form.modifier("abid")):
        raise NotImplementedError("cbsz and abid of a single-block matrix instruction")


def _register(name: str, shape: Shape) -> None:
    c_type = {"f64": "f64", "i8": "i32"}.get(shape.source, "f32")

    @raw(name, f"b32 b32 b32 {c_type}", by_architecture=shape.source in ("fp8", "bf8"))
    def _(e: Emitter) -> None:
        _check(e, shape)
        if shape.blocks > 1:
            _small_blocks(e, shape)
            return
        a = _pack(e, 1, shape, shape.source)
        b = _pack(e, 2, shape, shape.source_b or shape.source)
        product(e, shape, a, b)


for _name, _shape in _SHAPES.items():
    _register(_name, _shape)

"""Conversions between single precision and 8-bit floats without a block scale, and what those with one share."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import two_rows
from wavecast.simulator.execute.registry import vector
from wavecast.simulator.execute.small_float import SmallFloat, decode, encode, format_of

# ---- placing ---------------------------------------------------------------------------------------------------------


def field(e: Emitter, old: ir.Value, value: ir.Value, first: int, bits: int) -> ir.Value:
    """``old`` with ``bits`` bits from ``first`` on replaced by ``value``, which has no bits above."""
    keep = ~(((1 << bits) - 1) << first) & 0xFFFFFFFF
    return e.b.or_(e.b.and_(old, e.like(old, keep)), e.b.shl(value, e.like(value, first)))


def joined(e: Emitter, low: ir.Value, high: ir.Value, bits: int) -> ir.Value:
    """Two codes of ``bits`` bits side by side."""
    return e.b.or_(low, e.b.shl(high, e.like(high, bits)))


def result_part(e: Emitter, bits: int) -> int:
    """First bit of the result: op_sel counts sources, then the destination; bytes take its last two entries."""
    if bits == 16:
        sources = len(e.form.operands) - 1
        return 16 * e.form.bits("op_sel", sources + 1)[sources]
    select = e.form.bits("op_sel", 4)
    return 8 * (select[2] + 2 * select[3])


def source_part(e: Emitter, word: ir.Value, bits: int) -> ir.Value:
    """The word or byte of the first source that op_sel names, in the low bits."""
    select = e.form.bits("op_sel", 2)
    first = 16 * select[0] if bits == 16 else 8 * (select[0] + 2 * select[1])
    return e.b.lshr(word, e.like(word, first)) if first else word


# ---- without a scale -------------------------------------------------------------------------------------------------


def _plain(name: str) -> None:
    @vector(f"v_cvt_pk_{name}_f32", "b32", "f32 f32", accumulate=True, by_architecture=True)
    def _(e: Emitter, a: ir.Value, b: ir.Value, old: ir.Value) -> ir.Value:
        format_ = format_of(e, name)
        codes = joined(e, encode(e, a, format_), encode(e, b, format_), 8)
        return field(e, old, codes, result_part(e, 16), 16)

    @vector(f"v_cvt_sr_{name}_f32", "b32", "f32 b32", accumulate=True, by_architecture=True)
    def _(e: Emitter, a: ir.Value, seed: ir.Value, old: ir.Value) -> ir.Value:
        format_ = format_of(e, name)
        code = encode(e, a, format_, seed=random_bits(e, seed, format_))
        return field(e, old, code, result_part(e, 8), 8)

    @vector(f"v_cvt_f32_{name}", "f32", "b32", by_architecture=True)
    def _(e: Emitter, word: ir.Value) -> ir.Value:
        return decode(e, word, format_of(e, name))

    @vector(f"v_cvt_pk_f32_{name}", "b64", "b32", by_architecture=True)
    def _(e: Emitter, word: ir.Value) -> ir.Value:
        part, format_ = source_part(e, word, 16), format_of(e, name)
        return two_rows(e, decode(e, part, format_), decode(e, e.b.lshr(part, e.like(part, 8)), format_))


def random_bits(e: Emitter, seed: ir.Value, format_: SmallFloat) -> ir.Value:
    """The high bits of the seed, as many as the rounding drops."""
    return e.b.lshr(seed, e.like(seed, 9 + format_.fraction))


for _name in ("fp8", "bf8"):
    _plain(_name)

"""PTX arithmetic, bits, comparisons and conversions against numpy, ml_dtypes and exact integers."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from warps import lanewise

RNG = np.random.default_rng(7)
F32 = np.float32


def patterns(dtype: type, count: int = 4096) -> np.ndarray:
    """All kinds of numbers: random bit patterns, and values at the edges."""
    size = np.dtype(dtype).itemsize
    bits = RNG.integers(0, 1 << 8 * size, count, dtype=np.uint64).astype(f"u{size}")
    edges = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 65504.0, 3e38], dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.concatenate([bits.view(dtype), edges.astype(dtype), RNG.normal(size=501).astype(dtype)])


def pairs(dtype: type, count: int = 2) -> list[np.ndarray]:
    first = patterns(dtype)
    return [first, *(RNG.permutation(first) for _ in range(count - 1))]


def same(have: np.ndarray, want: np.ndarray) -> None:
    """Equal bit for bit, but for the bits of a NaN."""
    size = have.dtype.itemsize
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(have), nan)
    assert np.array_equal(have[~nan].view(f"u{size}"), want[~nan].view(f"u{size}"))


@pytest.mark.parametrize(("opcode", "function"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_sums_and_products_are_those_of_ieee(opcode: str, function: np.ufunc, kind: str) -> None:
    dtype = np.dtype(kind.replace("f", "float")).type
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        same(lanewise(f"{opcode}.rn.{kind} {{0}}, {{1}}, {{2}};", a, b, result=dtype), function(a, b))


def test_quotients_and_roots_round_correctly() -> None:
    a, b = pairs(F32)
    with np.errstate(all="ignore"):
        same(lanewise("div.rn.f32 {0}, {1}, {2};", a, b, result=F32), a / b)
        same(lanewise("sqrt.rn.f32 {0}, {1};", a, result=F32), np.sqrt(a))


def test_a_nan_result_is_the_one_pattern_that_ptx_has() -> None:
    a = np.array([np.inf, np.nan], dtype=F32)
    assert set(lanewise("sub.f32 {0}, {1}, {1};", a, result=np.uint32)) == {0x7FFFFFFF}


def test_flush_to_zero_keeps_the_sign() -> None:
    a = np.array([1e-40, -1e-40, 1e-30, -0.0], dtype=F32)
    have = lanewise("mul.ftz.f32 {0}, {1}, 0f3F800000;", a, result=np.uint32)
    assert list(have) == [0, 0x80000000, int(a[2:3].view(np.uint32)[0]), 0x80000000]


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_a_packed_fused_multiply_add_rounds_once(kind: str, dtype: type) -> None:
    a, b, c = (RNG.normal(size=4096).astype(F32).astype(dtype) for _ in range(3))
    a[:3], b[:3], c[:3] = 3.0, 1.0, [2.0**-12, -(2.0**-12), 2.0**-20]
    words = [source.view(np.uint32) for source in (a, b, c)]
    have = lanewise(f"fma.rn.{kind}x2 {{0}}, {{1}}, {{2}}, {{3}};", *words, result=np.uint32).view(dtype)
    for item, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = [have[item], *np.nextafter(np.repeat(have[item], 2), np.array([np.inf, -np.inf], dtype=dtype))]
        distances = [abs(Fraction(float(value)) - exact) for value in near]
        assert distances[0] == min(distances)


@pytest.mark.parametrize("opcode", ["add", "mul", "sub"])
def test_packed_bf16_rounds_as_ml_dtypes_does(opcode: str) -> None:
    a, b = pairs(ml_dtypes.bfloat16)
    size = len(a) // 2 * 2
    function = {"add": np.add, "mul": np.multiply, "sub": np.subtract}[opcode]
    words = [source[:size].copy().view(np.uint32) for source in (a, b)]
    have = lanewise(f"{opcode}.bf16x2 {{0}}, {{1}}, {{2}};", *words, result=np.uint32).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        same(have, function(a[:size], b[:size]).astype(ml_dtypes.bfloat16))


def test_minimum_and_maximum_differ_in_what_a_nan_does() -> None:
    a, b = pairs(F32)
    with np.errstate(all="ignore"):
        same(lanewise("max.f32 {0}, {1}, {2};", a, b, result=F32) + F32(0), np.fmax(a, b) + F32(0))
        same(lanewise("min.NaN.f32 {0}, {1}, {2};", a, b, result=F32) + F32(0), np.minimum(a, b) + F32(0))


def test_magnitudes_are_compared_and_signs_multiplied() -> None:
    a, b = pairs(F32)
    numbers = ~(np.isnan(a) | np.isnan(b))
    have = lanewise("min.xorsign.abs.f32 {0}, {1}, {2};", a, b, result=F32)
    sign = np.where(np.signbit(a) ^ np.signbit(b), F32(-1), F32(1))
    wanted = np.copysign(np.minimum(np.abs(a), np.abs(b)), sign)
    assert np.array_equal(have[numbers].view(np.uint32), wanted[numbers].view(np.uint32))


@pytest.mark.parametrize(
    ("text", "function", "bound"),
    [
        ("ex2.approx.ftz.f32", np.exp2, 2.0**-22),
        ("rcp.approx.ftz.f32", lambda x: 1 / x, 2.0**-23),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 2.0**-22.4),
        ("lg2.approx.f32", np.log2, None),
        ("tanh.approx.f32", np.tanh, 2.0**-10.987),
        ("sin.approx.f32", np.sin, None),
        ("cos.approx.f32", np.cos, None),
    ],
)
def test_approximate_functions_stay_within_the_manuals_bounds(text: str, function, bound: float | None) -> None:  # type: ignore[no-untyped-def]
    x = RNG.uniform(0.01, 3.0, 4096).astype(F32)
    if text.startswith(("tanh", "sin", "cos")):
        x = RNG.uniform(-3.0, 3.0, 4096).astype(F32)
    have, want = lanewise(f"{text} {{0}}, {{1}};", x, result=F32).astype(np.float64), function(x.astype(np.float64))
    error = np.abs(have - want)
    assert (error <= (bound * np.abs(want) if bound is not None else 2.0**-20.5)).all()


INTEGERS = {"s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64}


def integers(kind: str, count: int = 2048) -> np.ndarray:
    info = np.iinfo(INTEGERS[kind])
    values = RNG.integers(info.min, info.max, count, dtype=INTEGERS[kind], endpoint=True)
    small = RNG.integers(0, 100, 96).astype(INTEGERS[kind])
    return np.concatenate([values, small, np.array([info.min, info.max, 0, 1], dtype=INTEGERS[kind])])


@pytest.mark.parametrize("kind", list(INTEGERS))
def test_integer_products_sums_and_quotients_wrap_and_truncate(kind: str) -> None:
    a, b = integers(kind), RNG.permutation(integers(kind))
    b[b == 0] = 3
    width, dtype = np.iinfo(a.dtype).bits, a.dtype.type

    def wrapped(values: list[int]) -> np.ndarray:
        return np.array([value & (1 << width) - 1 for value in values], dtype=f"u{width // 8}").view(dtype)

    whole = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    assert np.array_equal(
        lanewise(f"add.{kind} {{0}}, {{1}}, {{2}};", a, b, result=dtype), wrapped([x + y for x, y in whole])
    )
    low = lanewise(f"mul.lo.{kind} {{0}}, {{1}}, {{2}};", a, b, result=dtype)
    assert np.array_equal(low, wrapped([x * y for x, y in whole]))
    high = lanewise(f"mul.hi.{kind} {{0}}, {{1}}, {{2}};", a, b, result=dtype)
    assert np.array_equal(high, wrapped([x * y >> width for x, y in whole]))
    quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in whole]
    assert np.array_equal(lanewise(f"div.{kind} {{0}}, {{1}}, {{2}};", a, b, result=dtype), wrapped(quotients))
    rest = [x - y * q for (x, y), q in zip(whole, quotients, strict=True)]
    assert np.array_equal(lanewise(f"rem.{kind} {{0}}, {{1}}, {{2}};", a, b, result=dtype), wrapped(rest))


def test_a_wide_product_has_both_halves_and_mad_adds_to_it() -> None:
    a, b = integers("s32"), RNG.permutation(integers("s32"))
    c = np.resize(integers("s64"), len(a))
    want = a.astype(np.int64) * b.astype(np.int64)
    assert np.array_equal(lanewise("mul.wide.s32 {0}, {1}, {2};", a, b, result=np.int64), want)
    with np.errstate(over="ignore"):
        assert np.array_equal(lanewise("mad.wide.s32 {0}, {1}, {2}, {3};", a, b, c, result=np.int64), want + c)


def test_a_carry_goes_from_a_low_product_to_the_high_one() -> None:
    a, b, c = (integers("u32") for _ in range(3))
    text = "{{ mad.lo.cc.u32 %r20, {1}, {2}, {3}; madc.hi.u32 %r21, {1}, {2}, 0; }} mov.b64 {0}, {{%r20, %r21}};"
    want = [int(x) * int(y) + int(z) for x, y, z in zip(a, b, c, strict=True)]
    assert lanewise(text, a, b, c, result=np.uint64).tolist() == want


def test_shifts_beyond_the_width_give_zero_or_the_sign() -> None:
    a = np.repeat(np.array([-5, 5], dtype=np.int32), 64)
    amount = np.tile(np.arange(64, dtype=np.uint32), 2)
    want = [int(x) >> min(int(n), 31) for x, n in zip(a, amount, strict=True)]
    assert lanewise("shr.s32 {0}, {1}, {2};", a, amount, result=np.int32).tolist() == want
    left = [(int(x) << int(n)) & 0xFFFFFFFF if n < 32 else 0 for x, n in zip(a, amount, strict=True)]
    assert lanewise("shl.b32 {0}, {1}, {2};", a, amount, result=np.uint32).tolist() == left


@pytest.mark.parametrize("kind", ["u32", "s32", "u64"])
def test_a_bit_field_is_taken_out_and_put_in(kind: str) -> None:
    a = integers(kind)
    width, dtype = np.iinfo(a.dtype).bits, a.dtype.type
    start, length = (RNG.integers(0, width + 8, len(a)).astype(np.uint32) for _ in range(2))
    have = lanewise(f"bfe.{kind} {{0}}, {{1}}, {{2}}, {{3}};", a, start, length, result=dtype)
    for x, begin, size, found in zip(a.tolist(), start.tolist(), length.tolist(), have.tolist(), strict=True):
        bits = [
            x >> min(begin + place, 10 * width if kind[0] == "s" else 10**6) & 1 for place in range(min(size, width))
        ]
        want = sum(bit << place for place, bit in enumerate(bits))
        if kind[0] == "s" and bits:
            want -= bits[-1] << len(bits)
        assert found == want
    if kind == "s32":
        return
    base = RNG.permutation(a)
    have = lanewise(f"bfi.b{width} {{0}}, {{1}}, {{2}}, {{3}}, {{4}};", a, base, start, length, result=dtype)
    mask = [
        ((1 << min(int(n), width)) - 1) << min(int(s), width) & (1 << width) - 1
        for s, n in zip(start, length, strict=True)
    ]
    want = [
        y & ~m | (x << min(int(s), width)) & m
        for x, y, s, m in zip(a.tolist(), base.tolist(), start, mask, strict=True)
    ]
    assert have.tolist() == want


@pytest.mark.parametrize("selector", [0x5410, 0x7632, 0x0123, 0x7531, 0x8888, 0xBA98, 0x4040])
@pytest.mark.parametrize("constant", [True, False])
def test_bytes_are_permuted_as_the_selector_says(selector: int, constant: bool) -> None:
    a, b = integers("u32", 64), integers("u32", 64)
    chosen = np.full(len(a), selector, dtype=np.uint32)
    text = "prmt.b32 {0}, {1}, {2}, " + (f"{selector:#x};" if constant else "{3};")
    have = lanewise(text, a, b, chosen, result=np.uint32)
    for x, y, found in zip(a.tolist(), b.tolist(), have.tolist(), strict=True):
        data, want = (y << 32 | x).to_bytes(8, "little"), 0
        for place in range(4):
            nibble = selector >> 4 * place & 15
            byte = data[nibble & 7]
            want |= ((0xFF if byte & 0x80 else 0) if nibble & 8 else byte) << 8 * place
        assert found == want


def test_lop3_follows_its_truth_table_and_shf_its_funnel() -> None:
    a, b, c = (integers("u32", 64) for _ in range(3))
    assert np.array_equal(lanewise("lop3.b32 {0}, {1}, {2}, {3}, 0x96;", a, b, c, result=np.uint32), a ^ b ^ c)
    assert np.array_equal(lanewise("lop3.b32 {0}, {1}, {2}, {3}, 0xEA;", a, b, c, result=np.uint32), (a & b) | c)
    amount = np.resize(np.arange(40, dtype=np.uint32), len(a))
    for mode, limit in (("wrap", 31), ("clamp", 32)):
        steps = [int(n) & 31 if mode == "wrap" else min(int(n), limit) for n in amount]
        both = [int(y) << 32 | int(x) for x, y in zip(a, b, strict=True)]
        left = [(v << n >> 32) & 0xFFFFFFFF for v, n in zip(both, steps, strict=True)]
        right = [(v >> n) & 0xFFFFFFFF for v, n in zip(both, steps, strict=True)]
        assert (
            lanewise(f"shf.l.{mode}.b32 {{0}}, {{1}}, {{2}}, {{3}};", a, b, amount, result=np.uint32).tolist() == left
        )
        assert (
            lanewise(f"shf.r.{mode}.b32 {{0}}, {{1}}, {{2}}, {{3}};", a, b, amount, result=np.uint32).tolist() == right
        )


@pytest.mark.parametrize("name", ["lt", "leu", "neu", "eq", "num", "nan", "gtu"])
def test_comparisons_of_floats_say_what_a_nan_makes_of_them(name: str) -> None:
    a, b = pairs(F32)
    a[:64] = b[:64]
    nan = np.isnan(a) | np.isnan(b)
    with np.errstate(invalid="ignore"):
        want = {
            "lt": a < b,
            "leu": (a <= b) | nan,
            "neu": (a != b) | nan,
            "eq": a == b,
            "num": ~nan,
            "nan": nan,
            "gtu": (a > b) | nan,
        }[name]
    have = lanewise(f"setp.{name}.f32 %p1, {{1}}, {{2}}; selp.b32 {{0}}, 1, 0, %p1;", a, b, result=np.uint32)
    assert np.array_equal(have.astype(bool), want)


def test_a_comparison_is_combined_with_another_predicate() -> None:
    a, b = integers("s32"), RNG.permutation(integers("s32"))
    text = "setp.gt.s32 %p2, {1}, 0; setp.lt.and.s32 %p1|%p3, {1}, {2}, !%p2; selp.b32 %r20, 1, 0, %p1; "
    text += "selp.b32 %r21, 2, 0, %p3; or.b32 {0}, %r20, %r21;"
    want = ((a < b) & ~(a > 0)) * 1 + (~(a < b) & ~(a > 0)) * 2
    assert np.array_equal(lanewise(text, a, b, result=np.int32), want)


@pytest.mark.parametrize(
    ("kind", "dtype", "most"), [("e4m3x2", ml_dtypes.float8_e4m3fn, 448.0), ("e5m2x2", ml_dtypes.float8_e5m2, 57344.0)]
)
def test_eight_bit_floats_round_to_even_and_saturate(kind: str, dtype: type, most: float) -> None:
    a, b = pairs(F32)
    scale = F32(2.0) ** RNG.integers(-12, 18, len(a)).astype(F32)
    a, b = (np.where(np.arange(len(x)) % 2, x, RNG.normal(size=len(x)).astype(F32) * scale) for x in (a, b))
    have = lanewise(f"cvt.rn.satfinite.{kind}.f32 {{0}}, {{1}}, {{2}};", a, b, result=np.uint16)
    for values, codes in ((a, have >> 8), (b, have & 0xFF)):
        nan = np.isnan(values)
        want = np.clip(np.where(nan, 0, values), -most, most).astype(dtype).view(np.uint8)
        assert np.array_equal(codes[~nan], want[~nan])
        assert set(codes[nan]) <= {0x7F}
    back = lanewise(f"cvt.rn.f16x2.{kind} {{0}}, {{1}};", have, result=np.uint32).view(np.float16)
    same(back, have.view(np.uint8).view(dtype).astype(np.float16))


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_sixteen_bit_floats_convert_both_ways(kind: str, dtype: type) -> None:
    a, b = pairs(F32)
    with np.errstate(all="ignore"):
        same(lanewise(f"cvt.rn.{kind}.f32 {{0}}, {{1}};", a, result=dtype), a.astype(dtype))
        packed = lanewise(f"cvt.rn.{kind}x2.f32 {{0}}, {{1}}, {{2}};", a, b, result=np.uint32)
        same(packed.view(dtype)[1::2].copy(), a.astype(dtype))
        halves = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        same(lanewise(f"cvt.f32.{kind} {{0}}, {{1}};", halves, result=F32), halves.astype(F32))


@pytest.mark.parametrize(
    ("mode", "function"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)]
)
def test_a_float_becomes_an_integer_within_its_range(mode: str, function: np.ufunc) -> None:
    a = np.concatenate([patterns(F32), RNG.uniform(-1e4, 1e4, 512).astype(F32)])
    with np.errstate(invalid="ignore"):
        integral = function(a.astype(np.float64))
    want = [0 if np.isnan(x) else int(np.clip(x, -(2**31), 2**31 - 1)) for x in integral]
    assert lanewise(f"cvt.{mode}.s32.f32 {{0}}, {{1}};", a, result=np.int32).tolist() == want
    same(lanewise(f"cvt.{mode}.f32.f32 {{0}}, {{1}};", a, result=F32), integral.astype(F32))


def test_integers_convert_with_their_sign_and_saturate_where_asked() -> None:
    a = integers("s32")
    assert np.array_equal(lanewise("cvt.s64.s32 {0}, {1};", a, result=np.int64), a.astype(np.int64))
    assert np.array_equal(lanewise("cvt.rn.f32.s32 {0}, {1};", a, result=F32), a.astype(F32))
    have = lanewise("cvt.sat.s8.s32 %h9, {1}; cvt.s32.s8 {0}, %h9;", a, result=np.int32)
    assert np.array_equal(have, np.clip(a, -128, 127))


def test_registers_are_packed_and_taken_apart() -> None:
    a, b = integers("u32", 64), integers("u32", 64)
    both = lanewise("mov.b64 {0}, {{{1}, {2}}};", a, b, result=np.uint64)
    assert np.array_equal(both, b.astype(np.uint64) << 32 | a)
    swapped = lanewise("mov.b32 {{%h1, %h2}}, {1}; mov.b32 {0}, {{%h2, %h1}};", a, result=np.uint32)
    assert np.array_equal(swapped, a >> 16 | (a & 0xFFFF) << 16)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("popc.b32", lambda x: x.bit_count()),
        ("clz.b32", lambda x: 32 - x.bit_length()),
        ("brev.b32", lambda x: int(f"{x:032b}"[::-1], 2)),
        ("bfind.u32", lambda x: (x.bit_length() - 1) & 0xFFFFFFFF),
        ("not.b32", lambda x: ~x & 0xFFFFFFFF),
    ],
)
def test_bits_are_counted_and_turned(text: str, function) -> None:  # type: ignore[no-untyped-def]
    a = integers("u32", 64)
    assert lanewise(f"{text} {{0}}, {{1}};", a, result=np.uint32).tolist() == [function(int(x)) for x in a]

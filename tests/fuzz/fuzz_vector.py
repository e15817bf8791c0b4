"""Vector instructions with random operands, encodings and modifiers, one random instruction a call.

Integers follow ``semantics_integer.py``, floats numpy and the exact arithmetic of ``semantics_float.py``, 8-bit floats
``ml_dtypes``; sources of other lanes and parts of registers are taken as the ISA text says it.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import semantics_float as exact
from fuzz_program import (
    DOUBLES,
    FLOAT_TYPES,
    HALVES,
    INLINE_FLOATS,
    LANES,
    PAIRS,
    S_DOUBLES,
    S_PAIRS,
    S_SINGLES,
    SATURATE,
    SINGLES,
    Program,
    lanes_of,
    mask_of,
    s,
    v,
)
from semantics_integer import VECTOR, Opcode, lookup, signed
from semantics_lanes import DPP_CONTROLS, dpp_lanes

_WORD = (1 << 32) - 1
_GFX950_ONLY = {"v_prng_b32_e32"}
_NO_SDWA_DPP = {"v_mov_b64", "v_prng_b32"}
_SELECTORS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16)}
_SELECTORS |= {"WORD_1": (16, 16), "DWORD": (0, 32)}
_SATURATING = {
    "v_add_u32": (0, _WORD, lambda a, b: a + b),
    "v_sub_u32": (0, _WORD, lambda a, b: a - b),
    "v_add_u16": (0, 65535, lambda a, b: a + b),
    "v_sub_u16": (0, 65535, lambda a, b: a - b),
    "v_add_i32": (-(1 << 31), (1 << 31) - 1, lambda a, b: signed(a) + signed(b)),
    "v_sub_i32": (-(1 << 31), (1 << 31) - 1, lambda a, b: signed(a) - signed(b)),
    "v_add_i16": (-32768, 32767, lambda a, b: signed(a, 16) + signed(b, 16)),
    "v_sub_i16": (-32768, 32767, lambda a, b: signed(a, 16) - signed(b, 16)),
}


@dataclass(slots=True)
class Source:
    """A source operand: text, and bits in every lane (uint32 or uint64)."""

    text: str
    bits: np.ndarray


def _register(p: Program, width: int) -> Source:
    if width == 64:
        row = p.rng.choice(list(PAIRS))
        return Source(v(row, 2), p.pair(row))
    row = p.rng.choice(p.words)
    return Source(v(row), p.state.vector[row].copy())


def _integer_source(p: Program, width: int, *, constants: bool) -> tuple[Source, bool]:
    """A source of an integer instruction, and whether it is a constant or scalar: a VOP3 may have one scalar."""
    choice = p.rng.random()
    dtype = np.uint64 if width == 64 else np.uint32
    if not constants or choice < 0.7:
        return _register(p, width), False
    if choice < 0.85:
        if width == 64:
            register = p.rng.choice(list(S_PAIRS))
            value = p.scalar_pair(register)
        else:
            register = p.rng.choice(p.s_words)
            value = p.state.scalar[register]
        return Source(s(register, width // 32 or 1), np.full(LANES, value, dtype)), True
    value = p.rng.randint(-16, 64)
    return Source(str(value), np.full(LANES, value & ((1 << max(width, 32)) - 1), dtype)), False


def _mask_source(p: Program) -> tuple[str, np.ndarray]:
    register = p.rng.choice(list(S_PAIRS))
    return s(register, 2), lanes_of(p.scalar_pair(register))


def _compute(opcode: Opcode, columns: list[np.ndarray]) -> list[list[int]]:
    """Results lane by lane, cut to the width of each destination."""
    outcomes: list[list[int]] = [[] for _ in opcode.results]
    for lane in range(LANES):
        values = [int(column[lane]) & ((1 << width) - 1) for column, width in zip(columns, opcode.sources, strict=True)]
        result = opcode.compute(*values)
        results = result if isinstance(result, tuple) else (result,)
        for number, (value, width) in enumerate(zip(results, opcode.results, strict=True)):
            outcomes[number].append(value & ((1 << width) - 1))
    return outcomes


def integer(p: Program) -> None:
    """An opcode of the table of integer semantics."""
    names = [name for name in VECTOR if p.arch == "gfx950" or name not in _GFX950_ONLY]
    name = p.rng.choice(names)
    _integer(p, name, VECTOR[name])


def bitop3(p: Program) -> None:
    """The three-source truth table of gfx950."""
    table = p.rng.randrange(256)
    opcode = Opcode((32,), (32, 32, 32), lookup(table))
    _integer(p, "v_bitop3_b32", opcode, f" bitop3:{table:#x}")


def _integer(p: Program, name: str, opcode: Opcode, tail: str = "") -> None:
    stem = name.removesuffix("_e32").removesuffix("_e64")
    if name.endswith("_e32"):
        small = max(*opcode.sources, *opcode.results) <= 32 and stem not in _NO_SDWA_DPP
        encoding = p.rng.choice(["e32", "e64", *(["sdwa", "dpp"] * small)])
    else:
        encoding = ""
    if encoding == "sdwa":
        _sdwa(p, stem, opcode)
        return
    if encoding == "dpp":
        _dpp(p, stem, opcode)
        return
    scalars, sources = 0, []
    for number, width in enumerate(opcode.sources):
        if width == 1:
            text, lanes = _mask_source(p)
            sources.append(Source(text, lanes.astype(np.uint32)))
            continue
        # An instruction reads one scalar register (a mask is one); e32 has a register as its second source.
        allowed = not scalars and (encoding != "e32" or number == 0) and 1 not in opcode.sources
        source, is_scalar = _integer_source(p, width, constants=allowed)
        scalars += is_scalar
        sources.append(source)
    if encoding == "e32" and p.rng.random() < 0.15 and max(opcode.sources) <= 32 and opcode.sources[0] == 32:
        value = p.rng.getrandbits(32)
        sources[0] = Source(f"{value:#x}", np.full(LANES, value, np.uint32))
    suffix = f"_{encoding}" if encoding else "_e64" * name.endswith("_e64")
    modifiers = tail
    high = False
    if not encoding and opcode.results == (16,) and opcode.keeps_high and p.rng.random() < 0.6:
        selects = [int(src.text.startswith("v") and p.rng.randrange(2)) for src in sources]
        high = bool(p.rng.randrange(2))
        modifiers += f" op_sel:[{','.join(map(str, [*selects, int(high)]))}]"
        for src, select in zip(sources, selects, strict=True):
            if select:
                src.bits = src.bits >> 16
    columns = [src.bits for src in sources]
    limits = _SATURATING.get(stem)
    if limits and encoding != "e32" and p.rng.random() < 0.3:
        low, top, total = limits
        modifiers += " clamp"
        width = opcode.sources[0]
        opcode = Opcode(
            opcode.results,
            opcode.sources,
            lambda a, b: min(max(total(a, b), low), top) & ((1 << width) - 1),
            opcode.keeps_high,
        )
    outcomes = _compute(opcode, columns)
    destinations: list[str] = []
    writes: list[Callable[[], None]] = []
    for width, values in zip(opcode.results, outcomes, strict=True):
        if width == 1:
            register = p.scalar_results(2)
            destinations.append(s(register, 2))
            mask = mask_of(np.array(values, dtype=bool)) & p.state.exec
            writes.append(lambda register=register, mask=mask: p.set_scalar(register, mask, 2))
            continue
        row = _destination(p, sources, width)
        destinations.append(v(row, 2 if width == 64 else 1))
        bits = np.array(values, np.uint64 if width == 64 else np.uint32)
        if width == 16 and opcode.keeps_high:
            old = p.state.vector[row]
            bits = (old & 0xFFFF) | bits << 16 if high else (old & 0xFFFF0000) | bits
        writes.append(lambda row=row, bits=bits: p.write(row, bits.astype(bits.dtype)))
        if width <= 32:
            p.words.append(row)
    p.add(f"{stem}{suffix} {', '.join([*destinations, *(src.text for src in sources)])}{modifiers}")
    for write in writes:
        write()


def _destination(p: Program, sources: list[Source], width: int) -> int:
    """A fresh register; now and then a source is copied there first, so that one register is both."""
    count = 2 if width == 64 else 1
    row = p.results(count)
    fitting = [
        src for src in sources if src.text.startswith("v[" if count == 2 else "v") and src.bits.itemsize == 4 * count
    ]
    fitting = [src for src in fitting if ("[" in src.text) == (count == 2)]
    if fitting and p.rng.random() < 0.25:
        chosen = p.rng.choice(fitting)
        number = int(chosen.text.strip("v[").split(":")[0])
        full = np.ones(LANES, dtype=bool)
        for part in range(count):
            p.add("s_mov_b64 exec, -1")
            p.add(f"v_mov_b32_e32 {v(row + part)}, {v(number + part)}")
            p.add("s_mov_b64 exec, s[32:33]")
            p.state.vector[row + part] = np.where(full, p.state.vector[number + part], 0)
        chosen.text = v(row, count)
    return row


def _select(bits: np.ndarray, selector: str, sign: bool) -> np.ndarray:
    first, size = _SELECTORS[selector]
    field = bits.astype(np.uint64) >> np.uint64(first) & np.uint64((1 << size) - 1)
    if sign and size < 32:
        field = np.where(
            field >> np.uint64(size - 1) & np.uint64(1), field | np.uint64(_WORD ^ ((1 << size) - 1)), field
        )
    return field.astype(np.uint32)


def _place(p: Program, row: int, bits: np.ndarray, selector: str, unused: str) -> np.ndarray:
    """A result in the part of the destination that ``dst_sel`` names."""
    first, size = _SELECTORS[selector]
    if size == 32:
        return bits
    field = bits & ((1 << size) - 1)
    if unused == "UNUSED_PAD":
        return (field << first).astype(np.uint32)
    if unused == "UNUSED_SEXT":
        return (_select(bits, "BYTE_0" if size == 8 else "WORD_0", True).astype(np.uint64) << np.uint64(first)).astype(
            np.uint32
        )
    keep = _WORD ^ (((1 << size) - 1) << first)
    return ((p.state.vector[row] & keep) | (field << first)).astype(np.uint32)


def _sdwa_text(p: Program, count: int) -> tuple[str, list[str], str, str]:
    selectors = [p.rng.choice(list(_SELECTORS)) for _ in range(count)]
    target = p.rng.choice(list(_SELECTORS))
    unused = p.rng.choice(["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
    parts = "".join(f" src{number}_sel:{name}" for number, name in enumerate(selectors))
    return f" dst_sel:{target} dst_unused:{unused}{parts}", selectors, target, unused


def _sdwa(p: Program, stem: str, opcode: Opcode) -> None:
    sources = [_register(p, 32) for _ in opcode.sources]
    text, selectors, target, unused = _sdwa_text(p, len(sources))
    signs = [bool(p.rng.randrange(2)) for _ in sources]
    columns = [_select(src.bits, *how) for src, *how in zip(sources, selectors, signs, strict=True)]
    row = p.results(1)
    values = np.array(_compute(opcode, columns)[0], np.uint32)
    shown = [f"sext({src.text})" if sign else src.text for src, sign in zip(sources, signs, strict=True)]
    p.add(f"{stem}_sdwa {', '.join([v(row), *shown])}{text}")
    p.write(row, _place(p, row, values, target, unused))
    p.words.append(row)


def _dpp_text(p: Program) -> tuple[str, str, str, str]:
    control = p.rng.choice(list(DPP_CONTROLS))
    masks = p.rng.choice(
        ["row_mask:0xf bank_mask:0xf"] * 2 + ["row_mask:0xa bank_mask:0xf", "row_mask:0xd bank_mask:0x5"]
    )
    bound = p.rng.choice(["", " bound_ctrl:1"])
    return f" {control} {masks}{bound}", control, masks, bound


def _dpp(p: Program, stem: str, opcode: Opcode) -> None:
    sources = [_register(p, 32) for _ in opcode.sources]
    text, control, masks, bound = _dpp_text(p)
    moved = dpp_lanes(control, masks, bound, sources[0].bits, p.state.exec)
    columns = [np.array([value for _, value in moved], np.uint32), *(src.bits for src in sources[1:])]
    row = p.results(1)
    p.add(f"{stem}_dpp {', '.join([v(row), *(src.text for src in sources)])}{text}")
    p.write(row, np.array(_compute(opcode, columns)[0], np.uint32), np.array([on for on, _ in moved]))
    p.words.append(row)


# ---- floats ---------------------------------------------------------------------------------------------------------

Floats = Callable[..., np.ndarray]


def _each(function: Callable[..., object]) -> Callable[[type], Floats]:
    return lambda dtype: lambda *sources: exact.each(function, *sources, dtype=dtype)


def _same(function: Floats) -> Callable[[type], Floats]:
    return lambda dtype: function


def _keeps_nan(function: Callable[..., object]) -> Callable[[type], Floats]:
    def make(dtype: type) -> Floats:
        def compute(*sources: np.ndarray) -> np.ndarray:
            result = exact.each(function, *sources, dtype=dtype)
            result[np.any([np.isnan(source) for source in sources], axis=0)] = np.nan
            return result

        return compute

    return make


def _legacy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Zero times anything is zero."""
    return np.where((a == 0) | (b == 0), np.float32(0), a * b)


def _mantissa(a: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(a), np.frexp(a)[0], a)


@dataclass(frozen=True, slots=True)
class FloatOpcode:
    """Types that an opcode has, sources, meaning, whether it has the short encodings, and where it exists."""

    kinds: str
    sources: int
    make: Callable[[type], Floats]
    short: bool = False
    gfx950: bool = False
    keeps_high: bool = False


_FLOATS: dict[str, FloatOpcode] = {
    "add": FloatOpcode("f16 f32", 2, _same(np.add), True),
    "sub": FloatOpcode("f16 f32", 2, _same(np.subtract), True),
    "subrev": FloatOpcode("f16 f32", 2, _same(lambda a, b: b - a), True),
    "mul": FloatOpcode("f16 f32", 2, _same(np.multiply), True),
    "max": FloatOpcode("f16 f32", 2, _each(exact.maximum), True),
    "min": FloatOpcode("f16 f32", 2, _each(exact.minimum), True),
    "mul_legacy": FloatOpcode("f32", 2, _same(_legacy)),
    "fma": FloatOpcode("f32 f64", 3, _each(exact.fused)),
    "max3": FloatOpcode("f32", 3, _each(exact.maximum3)),
    "min3": FloatOpcode("f32", 3, _each(exact.minimum3)),
    "med3": FloatOpcode("f32", 3, _each(exact.median)),
    "maximum3": FloatOpcode("f32", 3, _keeps_nan(exact.maximum3), gfx950=True),
    "minimum3": FloatOpcode("f32", 3, _keeps_nan(exact.minimum3), gfx950=True),
    "floor": FloatOpcode("f16 f32 f64", 1, _same(np.floor), True),
    "ceil": FloatOpcode("f16 f32 f64", 1, _same(np.ceil), True),
    "trunc": FloatOpcode("f16 f32 f64", 1, _same(np.trunc), True),
    "rndne": FloatOpcode("f16 f32 f64", 1, _same(np.rint), True),
    "fract": FloatOpcode("f16 f32 f64", 1, _each(exact.fraction), True),
    "frexp_mant": FloatOpcode("f16 f32 f64", 1, _same(_mantissa), True),
}
_DOUBLE: dict[str, FloatOpcode] = {
    "add": FloatOpcode("f64", 2, _same(np.add)),
    "mul": FloatOpcode("f64", 2, _same(np.multiply)),
    "max": FloatOpcode("f64", 2, _each(exact.maximum)),
    "min": FloatOpcode("f64", 2, _each(exact.minimum)),
}


def _float_source(p: Program, kind: str, *, constants: bool) -> tuple[Source, bool]:
    rows = {"f16": HALVES, "f32": SINGLES, "f64": DOUBLES}[kind]
    count = 2 if kind == "f64" else 1
    choice = p.rng.random()
    if constants and choice < 0.12 and kind != "f16":
        register = p.rng.choice(list(S_DOUBLES if kind == "f64" else S_SINGLES))
        value = p.scalar_pair(register) if count == 2 else p.state.scalar[register]
        return Source(s(register, count), np.full(LANES, value, np.uint64 if count == 2 else np.uint32)), True
    if constants and choice < 0.25:
        number = p.rng.choice(INLINE_FLOATS)
        raw = np.full(LANES, number, FLOAT_TYPES[kind]).view(exact.unsigned(FLOAT_TYPES[kind]))
        return Source(str(number), raw.astype(np.uint32) if kind == "f16" else raw), False
    row = p.rng.choice(list(rows))
    return Source(v(row, count), p.pair(row) if count == 2 else p.state.vector[row].copy()), False


def _as_floats(bits: np.ndarray, kind: str) -> np.ndarray:
    narrow = bits.astype(exact.unsigned(FLOAT_TYPES[kind]))
    return narrow.view(FLOAT_TYPES[kind])


def _signs(p: Program, src: Source, kind: str) -> np.ndarray:
    """Random source modifiers, applied to text and value."""
    value = _as_floats(src.bits, kind)
    raw = value.view(exact.unsigned(FLOAT_TYPES[kind]))
    top = raw.dtype.type(1 << (8 * raw.itemsize - 1))
    if src.text[0] in "-0123456789":
        return value
    if p.rng.random() < 0.25:
        src.text, raw = f"|{src.text}|", raw & ~top
    if p.rng.random() < 0.25:
        src.text, raw = f"-{src.text}", raw ^ top
    return raw.view(FLOAT_TYPES[kind])


def _unit(values: np.ndarray) -> np.ndarray:
    """Clamp to 0…1, NaN to 0."""
    return np.where(values > 0, np.minimum(values, values.dtype.type(1)), values.dtype.type(0)).astype(values.dtype)


def floating(p: Program) -> None:
    """Arithmetic, order and rounding of 16, 32 and 64 bits."""
    table = _DOUBLE if p.rng.random() < 0.15 else _FLOATS
    name = p.rng.choice([name for name, op in table.items() if p.arch == "gfx950" or not op.gfx950])
    opcode = table[name]
    kind = p.rng.choice(opcode.kinds.split())
    encoding = p.rng.choice(["e32", "e64", *(["dpp"] if kind != "f64" else [])]) if opcode.short else ""
    sources, values, scalars = [], [], 0
    for number in range(opcode.sources):
        allowed = encoding != "dpp" and not scalars and (encoding != "e32" or number == 0)
        src, is_scalar = _float_source(p, kind, constants=allowed)
        scalars += is_scalar
        sources.append(src)
        values.append(_signs(p, src, kind) if encoding in ("e64", "") else _as_floats(src.bits, kind))
    tail, lanes = "", None
    if encoding == "dpp":
        tail, control, masks, bound = _dpp_text(p)
        moved = dpp_lanes(control, masks, bound, sources[0].bits, p.state.exec)
        values[0] = _as_floats(np.array([value for _, value in moved], np.uint32), kind)
        lanes = np.array([on for on, _ in moved])
    with np.errstate(all="ignore"):
        result = opcode.make(FLOAT_TYPES[kind])(*values).astype(FLOAT_TYPES[kind])
        if encoding in ("e64", "") and p.rng.random() < 0.15:
            result, tail = _unit(result), tail + " clamp"
    row = p.results(2 if kind == "f64" else 1)
    suffix = f"_{encoding}" if encoding else ""
    texts = ", ".join(src.text for src in sources)
    p.add(f"v_{name}_{kind}{suffix} {v(row, 2 if kind == 'f64' else 1)}, {texts}{tail}")
    _write_floats(p, row, result, lanes)


def _write_floats(p: Program, row: int, result: np.ndarray, lanes: np.ndarray | None = None) -> None:
    kind = {2: "f16", 4: "f32", 8: "f64"}[result.itemsize]
    raw = result.view(exact.unsigned(type(result[0])))
    p.write(row, raw.astype(np.uint32) if kind == "f16" else raw, lanes, kind)


_OF_THREE_HALVES = {"fma": exact.fused, "max3": exact.maximum3, "min3": exact.minimum3, "med3": exact.median}


def three_halves(p: Program) -> None:
    """Half precision with three sources: selects halves and keeps the other one of its destination."""
    name = p.rng.choice(list(_OF_THREE_HALVES))
    sources = [_float_source(p, "f16", constants=False)[0] for _ in range(3)]
    selects = [p.rng.randrange(2) for _ in range(4)]
    for src, select in zip(sources, selects[:3], strict=True):
        src.bits = src.bits >> (16 * select)
    values = [_signs(p, src, "f16") for src in sources]
    row = p.results(1)
    result = exact.each(_OF_THREE_HALVES[name], *values, dtype=np.float16).view(np.uint16).astype(np.uint32)
    old = p.state.vector[row]
    bits = (old & 0xFFFF) | result << 16 if selects[3] else (old & 0xFFFF0000) | result
    p.add(f"v_{name}_f16 {v(row)}, {', '.join(src.text for src in sources)} op_sel:[{','.join(map(str, selects))}]")
    p.write(row, bits, kind="f16")


def accumulate(p: Program) -> None:
    """Multiply-add into the destination, or with a literal."""
    choice = p.rng.randrange(3)
    (a, _), (b, _) = _float_source(p, "f32", constants=False), _float_source(p, "f32", constants=False)
    x, y = _as_floats(a.bits, "f32"), _as_floats(b.bits, "f32")
    if choice == 0:
        # The destination already holds a sum.
        c, _ = _float_source(p, "f32", constants=False)
        row = p.results(1)
        p.add(f"v_add_f32_e32 {v(row)}, 0, {c.text}")
        with np.errstate(all="ignore"):
            _write_floats(p, row, _as_floats(c.bits, "f32") + np.float32(0))
        z = p.state.vector[row].view(np.float32)
        p.add(f"v_fmac_f32_e32 {v(row)}, {a.text}, {b.text}")
        _write_floats(p, row, exact.each(exact.fused, x, y, z, dtype=np.float32))
        return
    number = np.float32(p.rng.uniform(-100, 100))
    literal = np.full(LANES, number, np.float32)
    row = p.results(1)
    text = f"{int(number.view(np.uint32)):#x}"
    if choice == 1:
        p.add(f"v_fmaak_f32 {v(row)}, {a.text}, {b.text}, {text}")
        _write_floats(p, row, exact.each(exact.fused, x, y, literal, dtype=np.float32))
    else:
        p.add(f"v_fmamk_f32 {v(row)}, {a.text}, {text}, {b.text}")
        _write_floats(p, row, exact.each(exact.fused, x, literal, y, dtype=np.float32))


def scale(p: Program) -> None:
    """Multiplication by a power of two, and the exponent of a number."""
    kind = p.rng.choice(["f32", "f64"])
    src, _ = _float_source(p, kind, constants=False)
    values = _as_floats(src.bits, kind)
    if p.rng.random() < 0.5:
        row = p.results(1)
        regular = np.isfinite(values) & (values != 0)
        exponents = np.where(regular, np.frexp(np.where(regular, values, 1))[1], 0).astype(np.int32)
        p.add(f"v_frexp_exp_i32_{kind}_e32 {v(row)}, {src.text}")
        p.write(row, exponents.view(np.uint32))
        return
    places = _register(p, 32)
    small = p.rng.random() < 0.7
    if small:
        count = p.rng.randint(-16, 64)
        places = Source(str(count), np.full(LANES, count & _WORD, np.uint32))
    row = p.results(2 if kind == "f64" else 1)
    result = np.array(
        [exact.scaled(a, signed(int(n))) for a, n in zip(values, places.bits, strict=True)], FLOAT_TYPES[kind]
    )
    p.add(f"v_ldexp_{kind} {v(row, 2 if kind == 'f64' else 1)}, {src.text}, {places.text}")
    _write_floats(p, row, result)


# ---- comparisons ----------------------------------------------------------------------------------------------------

_PLAIN = {"eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_ORDERED = {**_PLAIN, "lg": lambda a, b: a < b or a > b}
_INTEGER_RELATIONS = {**_PLAIN, "ne": operator.ne, "f": lambda a, b: False, "t": lambda a, b: True}
_FLOAT_RELATIONS = {
    **_ORDERED,
    **{f"n{name}": (lambda a, b, r=relation: not r(a, b)) for name, relation in _ORDERED.items()},
    "o": lambda a, b: not (math.isnan(a) or math.isnan(b)),
    "u": lambda a, b: math.isnan(a) or math.isnan(b),
    "f": lambda a, b: False,
    "tru": lambda a, b: True,
}


def compare(p: Program) -> None:
    """A comparison into a lane mask, into VCC, or into EXEC, which is looked at and put back."""
    kind = p.rng.choice(["i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64"])
    relations = _FLOAT_RELATIONS if kind[0] == "f" else _INTEGER_RELATIONS
    name = p.rng.choice(list(relations))
    encoding = p.rng.choice(["e32", "e64", "cmpx", *(["sdwa"] if kind in ("i32", "u32") else [])])
    width = int(kind[1:])
    tail, scalars = "", 0
    sources, columns = [], []
    for number in range(2):
        constants = encoding != "sdwa" and not scalars and (encoding == "e64" or number == 0)
        if kind[0] == "f":
            src, is_scalar = _float_source(p, kind, constants=constants)
            columns.append(_signs(p, src, kind) if encoding in ("e64", "cmpx") else _as_floats(src.bits, kind))
        else:
            src, is_scalar = _integer_source(p, width, constants=constants)
            columns.append(src.bits)
        scalars += is_scalar
        sources.append(src)
    if encoding == "sdwa":
        selectors = [p.rng.choice(list(_SELECTORS)) for _ in sources]
        signs = [bool(p.rng.randrange(2)) for _ in sources]
        columns = [_select(src.bits, *how) for src, *how in zip(sources, selectors, signs, strict=True)]
        for src, sign in zip(sources, signs, strict=True):
            src.text = f"sext({src.text})" if sign else src.text
        tail = "".join(f" src{number}_sel:{selector}" for number, selector in enumerate(selectors))
    if kind[0] == "i":
        columns = [[signed(int(x) & ((1 << width) - 1), width) for x in column] for column in columns]
    elif kind[0] == "u":
        columns = [[int(x) & ((1 << width) - 1) for x in column] for column in columns]
    else:
        columns = [[float(x) for x in column] for column in columns]
    truths = np.array([bool(relations[name](a, b)) for a, b in zip(*columns, strict=True)])
    _to_mask(p, f"{name}_{kind}", encoding, sources, truths, tail)


def _to_mask(p: Program, name: str, encoding: str, sources: list[Source], truths: np.ndarray, tail: str = "") -> None:
    mask = mask_of(truths) & p.state.exec
    texts = ", ".join(src.text for src in sources)
    count = int(np.count_nonzero(p.active))
    if encoding == "cmpx":
        register, seen = p.scalar_results(2), p.scalar_results(2)
        p.add(f"v_cmpx_{name}_e64 {s(register, 2)}, {texts}{tail}")
        p.add(f"s_mov_b64 {s(seen, 2)}, exec")
        p.add("s_mov_b64 exec, s[32:33]")
        p.set_scalar(register, mask, 2)
        p.set_scalar(seen, mask, 2)
        p.cases += count - 2
    elif encoding == "e32":
        p.add(f"v_cmp_{name}_e32 vcc, {texts}")
        p.state.vcc = mask
        register = p.scalar_results(2)
        p.add(f"s_mov_b64 {s(register, 2)}, vcc")
        p.set_scalar(register, mask, 2)
        p.cases += count - 1
    else:
        register = p.scalar_results(2)
        p.add(f"v_cmp_{name}_{encoding} {s(register, 2)}, {texts}{tail}")
        p.set_scalar(register, mask, 2)
        p.cases += count - 1


def classify(p: Program) -> None:
    """Class tests: bits 0…9 are signalling and quiet NaN, -inf, -normal, -subnormal, -0, +0 … +inf."""
    kind = p.rng.choice(["f16", "f32", "f64"])
    (src, _), wanted = _float_source(p, kind, constants=False), _register(p, 32)
    values = _signs(p, src, kind)
    tiny = np.finfo(FLOAT_TYPES[kind]).tiny
    quiet = exact.QUIET[FLOAT_TYPES[kind]]

    def class_of(value: np.floating) -> int:
        if np.isnan(value):
            return 1 if exact.bits(value) & quiet else 0
        size = abs(value)
        order = 0 if np.isinf(value) else 3 if value == 0 else 1 if size >= tiny else 2
        return 2 + order if np.signbit(value) else 9 - order

    truths = np.array([bool(int(w) >> class_of(x) & 1) for x, w in zip(values, wanted.bits, strict=True)])
    _to_mask(p, f"class_{kind}", p.rng.choice(["e64", "cmpx"]), [src, wanted], truths)


# ---- conversions ----------------------------------------------------------------------------------------------------


def _to_integer(dtype: type) -> Callable[[np.ndarray], np.ndarray]:
    """Towards zero, to the ends of the type, NaN to 0."""
    info = np.iinfo(dtype)

    def convert(values: np.ndarray) -> np.ndarray:
        numbers = [
            0 if math.isnan(x) else info.max if x > info.max else info.min if x < info.min else int(x)
            for x in map(float, values)
        ]
        return np.array(numbers, dtype)

    return convert


def _rounded(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """An exact integer of a single that is rounded first."""
    to = _to_integer(np.int32)

    def convert(values: np.ndarray) -> np.ndarray:
        wide = values.astype(np.float64)
        return to(np.array([function(x) if math.isfinite(x) else x for x in wide]))

    return convert


def _cast(dtype: type) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values.astype(dtype)


# Opcode → element type of the source, conversion.
_CONVERSIONS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "v_cvt_f32_i32": ("i32", _cast(np.float32)),
    "v_cvt_f32_u32": ("u32", _cast(np.float32)),
    "v_cvt_f64_i32": ("i32", _cast(np.float64)),
    "v_cvt_f64_u32": ("u32", _cast(np.float64)),
    "v_cvt_f16_i16": ("i16", _cast(np.float16)),
    "v_cvt_f16_u16": ("u16", _cast(np.float16)),
    "v_cvt_i16_f16": ("f16", _to_integer(np.int16)),
    "v_cvt_u16_f16": ("f16", _to_integer(np.uint16)),
    "v_cvt_i32_f32": ("f32", _to_integer(np.int32)),
    "v_cvt_u32_f32": ("f32", _to_integer(np.uint32)),
    "v_cvt_i32_f64": ("f64", _to_integer(np.int32)),
    "v_cvt_u32_f64": ("f64", _to_integer(np.uint32)),
    "v_cvt_flr_i32_f32": ("f32", _rounded(math.floor)),
    # The sum is one of singles: compilers take the instruction for that (13819807 gives 13819808).
    "v_cvt_rpi_i32_f32": ("f32", _rounded(lambda x: math.floor(np.float32(x) + np.float32(0.5)))),
    "v_cvt_f16_f32": ("f32", _cast(np.float16)),
    "v_cvt_f32_f16": ("f16", _cast(np.float32)),
    "v_cvt_f32_f64": ("f64", _cast(np.float32)),
    "v_cvt_f64_f32": ("f32", _cast(np.float64)),
    **{
        f"v_cvt_f32_ubyte{byte}": ("u32", lambda values, byte=byte: (values >> 8 * byte & 255).astype(np.float32))
        for byte in range(4)
    },
}


def convert(p: Program) -> None:
    """Between integers and floats, and between floats of different width."""
    name = p.rng.choice(list(_CONVERSIONS))
    kind, conversion = _CONVERSIONS[name]
    encoding = p.rng.choice(["e32", "e64"])
    if kind[0] == "f":
        src, _ = _float_source(p, kind, constants=kind != "f16")
        values = _signs(p, src, kind) if encoding == "e64" else _as_floats(src.bits, kind)
    else:
        src, _ = _integer_source(p, 32, constants=kind.endswith("32"))
        width = int(kind[1:])
        values = src.bits.astype(f"u{width // 8}").view(f"{kind[0]}{width // 8}")
    with np.errstate(all="ignore"):
        result = conversion(values)
    if result.dtype == np.float16:
        result = _saturated(p, result, values)
    row = p.results(2 if result.itemsize == 8 else 1)
    p.add(f"{name}_{encoding} {v(row, 2 if result.itemsize == 8 else 1)}, {src.text}")
    if result.dtype.kind == "f":
        _write_floats(p, row, result)
    else:
        raw = result.view(f"u{result.itemsize}")
        p.write(row, raw.astype(np.uint32))


_SMALL_FLOATS = {
    ("gfx942", "fp8"): ml_dtypes.float8_e4m3fnuz,
    ("gfx942", "bf8"): ml_dtypes.float8_e5m2fnuz,
    ("gfx950", "fp8"): ml_dtypes.float8_e4m3fn,
    ("gfx950", "bf8"): ml_dtypes.float8_e5m2,
}


def small_floats(p: Program) -> None:
    """To 8 bits in pairs, into either half of the destination, and back."""
    name = p.rng.choice(["fp8", "bf8"])
    dtype = _SMALL_FLOATS[p.arch, name]
    row, register = p.results(2), p.scalar_results(2)
    choice = p.rng.randrange(3)
    if choice == 0:
        (a, _), (b, _) = _float_source(p, "f32", constants=True), _float_source(p, "f32", constants=False)
        x, y = _signs(p, a, "f32"), _signs(p, b, "f32")
        top = np.float32(ml_dtypes.finfo(dtype).max)
        codes = []
        for values in (x, y):
            if p.mode & SATURATE:
                values = np.where(np.isfinite(values), np.clip(values, -top, top), values)
            with np.errstate(all="ignore"):
                code = values.astype(dtype).view(np.uint8).astype(np.uint32)
            codes.append(code)
        # Which of several codes of NaN it is, is left open: such lanes are not compared.
        half = p.rng.randrange(2)
        old = p.state.vector[row]
        pair = codes[0] | codes[1] << 8
        bits = (old & 0xFFFF) | pair << 16 if half else (old & 0xFFFF0000) | pair
        p.add(f"v_cvt_pk_{name}_f32 {v(row)}, {a.text}, {b.text} op_sel:[0,0,{half}]")
        p.write(row, bits)
        nans = np.isnan(codes[0].astype(np.uint8).view(dtype).astype(np.float32))
        nans |= np.isnan(codes[1].astype(np.uint8).view(dtype).astype(np.float32))
        if nans.any():
            # Lanes with a NaN get a constant on both sides.
            mask = mask_of(nans)
            p.add(f"s_mov_b32 {s(register)}, {mask & _WORD:#x}")
            p.add(f"s_mov_b32 {s(register + 1)}, {mask >> 32:#x}")
            p.add(f"v_cndmask_b32_e64 {v(row)}, {v(row)}, 1, {s(register, 2)}")
            p.state.scalar[register], p.state.scalar[register + 1] = mask & _WORD, mask >> 32
            p.state.vector[row] = np.where(nans & p.active, 1, p.state.vector[row])
            p.cases -= int(np.count_nonzero(nans & p.active))
        return
    src = _register(p, 32)
    octets = np.ascontiguousarray(src.bits).view(np.uint8).reshape(LANES, 4).view(dtype).astype(np.float32)
    if choice == 1:
        byte = p.rng.randrange(4)
        p.add(f"v_cvt_f32_{name}_sdwa {v(row)}, {src.text} src0_sel:BYTE_{byte}")
        _write_floats(p, row, octets[:, byte].copy())
        return
    half = p.rng.randrange(2)
    p.add(f"v_cvt_pk_f32_{name}_e64 {v(row, 2)}, {src.text} op_sel:[{half},0]")
    for number in range(2):
        _write_floats(p, row + number, octets[:, 2 * half + number].copy())


def pack(p: Program) -> None:
    """Two results in one register: halves towards zero or to nearest, brain floats, saturated integers."""
    names = ["v_cvt_pkrtz_f16_f32", "v_cvt_pk_u16_u32", "v_cvt_pk_i16_i32", "v_pack_b32_f16"]
    names += ["v_cvt_pk_bf16_f32", "v_cvt_pk_f16_f32"] * (p.arch == "gfx950")
    name = p.rng.choice(names)
    row = p.results(1)
    if name in ("v_cvt_pk_u16_u32", "v_cvt_pk_i16_i32"):
        sources = [_register(p, 32), _register(p, 32)]
        if name.endswith("u32"):
            parts = [np.minimum(src.bits, 65535) for src in sources]
        else:
            parts = [np.clip(src.bits.view(np.int32), -32768, 32767).view(np.uint32) & 0xFFFF for src in sources]
        p.add(f"{name} {v(row)}, {sources[0].text}, {sources[1].text}")
        p.write(row, (parts[0] | parts[1] << 16).astype(np.uint32))
        return
    kind = "f16" if name == "v_pack_b32_f16" else "f32"
    sources = [_float_source(p, kind, constants=False)[0] for _ in range(2)]
    values = [_signs(p, src, kind) if name != "v_cvt_pkrtz_f16_f32" else _as_floats(src.bits, kind) for src in sources]
    with np.errstate(all="ignore"):
        if name == "v_cvt_pkrtz_f16_f32":
            halves = [_towards_zero(value) for value in values]
        elif name == "v_cvt_pk_bf16_f32":
            halves = [value.astype(ml_dtypes.bfloat16).view(np.uint16) for value in values]
        else:
            halves = [_saturated(p, value.astype(np.float16), value).view(np.uint16) for value in values]
    suffix = "_e32" if name == "v_cvt_pkrtz_f16_f32" else ""
    p.add(f"{name}{suffix} {v(row)}, {sources[0].text}, {sources[1].text}")
    bits = halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << 16
    p.write(row, bits, kind="bf16" if name == "v_cvt_pk_bf16_f32" else "f16")


def _saturated(p: Program, halves: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where MODE says so, a finite value does not become infinite."""
    if p.mode & SATURATE:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            overflow = np.isinf(halves) & np.isfinite(values.astype(np.float64))
        halves[overflow] = np.copysign(np.float16(65504), halves[overflow])
    return halves


def _towards_zero(values: np.ndarray) -> np.ndarray:
    nearest = values.astype(np.float16)
    above = np.abs(nearest.astype(np.float32)) > np.abs(values)
    return nearest.view(np.uint16) - above.astype(np.uint16)


# ---- packed ---------------------------------------------------------------------------------------------------------

_PACKED_FLOATS = {
    "add": (2, _same(np.add)),
    "mul": (2, _same(np.multiply)),
    "fma": (3, _each(exact.fused)),
    "max": (2, _each(exact.maximum)),
    "min": (2, _each(exact.minimum)),
}
_PACKED_INTEGERS: dict[str, Callable[..., int]] = {
    "add_u16": lambda a, b: a + b,
    "add_i16": lambda a, b: a + b,
    "sub_u16": lambda a, b: a - b,
    "sub_i16": lambda a, b: a - b,
    "mul_lo_u16": lambda a, b: a * b,
    "max_u16": max,
    "min_u16": min,
    "max_i16": lambda a, b: max(signed(a, 16), signed(b, 16)),
    "min_i16": lambda a, b: min(signed(a, 16), signed(b, 16)),
    "lshlrev_b16": lambda n, a: a << n % 16,
    "lshrrev_b16": lambda n, a: a >> n % 16,
    "ashrrev_i16": lambda n, a: signed(a, 16) >> n % 16,
    "mad_u16": lambda a, b, c: a * b + c,
    "mad_i16": lambda a, b, c: a * b + c,
}


def _lists(p: Program, count: int, *, signs: bool) -> tuple[str, list[list[int]]]:
    names = ["op_sel", "op_sel_hi"] + ["neg_lo", "neg_hi"] * signs
    bits = [[p.rng.randrange(2) for _ in range(count)] for _ in names]
    text = "".join(f" {name}:[{','.join(map(str, values))}]" for name, values in zip(names, bits, strict=True))
    return text, bits + [[0] * count] * (4 - len(bits))


def packed(p: Program) -> None:
    """Two halves, two singles or two 16-bit integers, with any choice of halves and signs."""
    choice = p.rng.randrange(3)
    if choice == 2:
        _packed_integers(p)
        return
    kind = "f16" if choice == 0 else "f32"
    name = p.rng.choice(list(_PACKED_FLOATS) if kind == "f16" else ["add", "mul", "fma"])
    count, make = _PACKED_FLOATS[name]
    text, (low, high, neg_low, neg_high) = _lists(p, count, signs=True)
    dtype = FLOAT_TYPES[kind]
    sources, halves = [], []
    for _ in range(count):
        row = p.rng.choice(list(HALVES) if kind == "f16" else list(SINGLES)[::2])
        words = 1 if kind == "f16" else 2
        sources.append(v(row, words))
        halves.append(np.ascontiguousarray(p.state.vector[row : row + words].T).view(dtype).reshape(LANES, 2))
    parts = []
    with np.errstate(all="ignore"):
        for select, negate in ((low, neg_low), (high, neg_high)):
            values = [-half[:, select[n]] if negate[n] else half[:, select[n]] for n, half in enumerate(halves)]
            parts.append(make(dtype)(*values).astype(dtype))
    if kind == "f16" and p.rng.random() < 0.2:
        parts, text = [_unit(part) for part in parts], text + " clamp"
    row = p.results(len(sources[0].split(":")))
    both = np.ascontiguousarray(np.stack(parts, axis=1))
    p.add(f"v_pk_{name}_{kind} {v(row, 1 if kind == 'f16' else 2)}, {', '.join(sources)}{text}")
    if kind == "f16":
        p.write(row, both.view(np.uint32)[:, 0], kind="f16")
    else:
        for number in range(2):
            _write_floats(p, row + number, both[:, number].copy())


def _packed_integers(p: Program) -> None:
    name = p.rng.choice(list(_PACKED_INTEGERS))
    function = _PACKED_INTEGERS[name]
    count = 3 if name.startswith("mad") else 2
    text, (low, high, _, _) = _lists(p, count, signs=False)
    sources = [_register(p, 32) for _ in range(count)]
    result = np.zeros(LANES, np.uint32)
    for shift, select in ((0, low), (16, high)):
        columns = [src.bits >> (16 * select[n]) & 0xFFFF for n, src in enumerate(sources)]
        part = [function(*(int(x) for x in values)) & 0xFFFF for values in zip(*columns, strict=True)]
        result |= np.array(part, np.uint32) << np.uint32(shift)
    row = p.results(1)
    p.add(f"v_pk_{name} {v(row)}, {', '.join(src.text for src in sources)}{text}")
    p.write(row, result)
    p.words.append(row)


def dot(p: Program) -> None:
    """Integer dot products of 2, 4 and 8 elements."""
    bits, kind = p.rng.choice([(8, "i"), (8, "u"), (4, "i"), (4, "u"), (16, "i"), (16, "u")])
    sources = [_register(p, 32) for _ in range(3)]
    count = 32 // bits
    total = []
    for a, b, c in zip(*(src.bits for src in sources), strict=True):
        value = int(c)
        for element in range(count):
            x, y = (int(word) >> bits * element & ((1 << bits) - 1) for word in (a, b))
            value += signed(x, bits) * signed(y, bits) if kind == "i" else x * y
        total.append(value & _WORD)
    row = p.results(1)
    p.add(f"v_dot{count}_{kind}32_{kind}{bits} {v(row)}, {', '.join(src.text for src in sources)}")
    p.write(row, np.array(total, np.uint32))
    p.words.append(row)


def mixed(p: Program) -> None:
    """Multiply-add of singles and halves."""
    sources, values, low, high = [], [], [], []
    for _ in range(3):
        half = p.rng.randrange(2)
        src, _ = _float_source(p, "f16" if half else "f32", constants=False)
        select = p.rng.randrange(2) if half else 0
        src.bits = src.bits >> (16 * select)
        values.append(_signs(p, src, "f16" if half else "f32").astype(np.float32))
        sources.append(src)
        low.append(select)
        high.append(half)
    result = exact.each(exact.fused, *values, dtype=np.float32)
    name = p.rng.choice(["mix_f32", "mixlo_f16", "mixhi_f16"])
    row = p.results(1)
    text = f"op_sel:[{','.join(map(str, low))}] op_sel_hi:[{','.join(map(str, high))}]"
    p.add(f"v_fma_{name} {v(row)}, {', '.join(src.text for src in sources)} {text}")
    if name == "mix_f32":
        _write_floats(p, row, result)
        return
    with np.errstate(all="ignore"):
        half_bits = result.astype(np.float16).view(np.uint16).astype(np.uint32)
    old = p.state.vector[row]
    bits = (old & 0xFFFF0000) | half_bits if name == "mixlo_f16" else (old & 0xFFFF) | half_bits << 16
    p.write(row, bits, kind="f16")


def accumulating_dot(p: Program) -> None:
    """Dot products into their addend, and those of floats, whose sums are exact here."""
    names = ["dot2c_i32_i16", "dot4c_i32_i8", "dot8c_i32_i4", "dot2_f32_f16", "dot2c_f32_f16"]
    name = p.rng.choice(names + ["dot2_f32_bf16", "dot2c_f32_bf16"] * (p.arch == "gfx950"))
    accumulates, rng = name[4] == "c", np.random.default_rng(p.rng.getrandbits(32))
    if "f32" not in name:
        bits = int(name[name.rindex("i") + 1 :])
        sources = [p.given(rng.integers(0, 1 << 32, LANES)) for _ in range(2)]
        row = p.given(rng.integers(0, 1 << 32, LANES))
        total = p.state.vector[row].astype(np.int64)
        for first in range(0, 32, bits):
            a, b = (
                (p.state.vector[source] << np.uint32(32 - bits - first)).view(np.int32) >> (32 - bits)
                for source in sources
            )
            total = total + a.astype(np.int64) * b
        p.add(f"v_{name}_e32 {v(row)}, {v(sources[0])}, {v(sources[1])}")
        p.write(row, (total & _WORD).astype(np.uint32))
        return
    kind = ml_dtypes.bfloat16 if name.endswith("bf16") else np.float16
    a, b = (rng.integers(-32, 33, (LANES, 2)).astype(kind) for _ in range(2))
    c = rng.integers(-999, 1000, LANES).astype(np.float32)
    texts = [v(p.given(np.ascontiguousarray(pair).view(np.uint32)[:, 0])) for pair in (a, b)]
    addend = p.given(c.view(np.uint32))
    result = (a.astype(np.float64) * b.astype(np.float64)).sum(axis=1) + c
    row = addend if accumulates else p.results(1)
    p.add(
        f"v_{name}{'_e32' if accumulates else ''} {v(row)}, {', '.join(texts)}{'' if accumulates else ', ' + v(addend)}"
    )
    _write_floats(p, row, result.astype(np.float32))


def halves(p: Program) -> None:
    """Of half precision alone: exponents, the older multiply-add, and packed forms without choice of halves."""
    names = ["ldexp", "frexp", "legacy", "fmac"] + ["maximum3", "minimum3"] * (p.arch == "gfx950")
    name, rng = p.rng.choice(names), np.random.default_rng(p.rng.getrandbits(32))
    rows = [p.rng.choice(list(HALVES)) for _ in range(3)]
    pairs = [np.ascontiguousarray(p.state.vector[row]).view(np.float16).reshape(LANES, 2) for row in rows]
    low = [pair[:, 0].copy() for pair in pairs]
    row = p.results(1)
    if name == "ldexp":
        places = rng.integers(-40, 41, LANES)
        source = p.given(places & 0xFFFF)
        result = exact.each(lambda a, n: exact.scaled(a, int(n)), low[0], places, dtype=np.float16)
        p.add(f"v_ldexp_f16_e32 {v(row)}, {v(rows[0])}, {v(source)}")
        p.write(row, result.view(np.uint16).astype(np.uint32), kind="f16")
    elif name == "frexp":
        regular = np.isfinite(low[0]) & (low[0] != 0)
        exponents = np.where(regular, np.frexp(np.where(regular, low[0], 1))[1], 0)
        p.add(f"v_frexp_exp_i16_f16_e32 {v(row)}, {v(rows[0])}")
        p.write(row, (exponents & 0xFFFF).astype(np.uint32))
    elif name == "legacy":
        result = exact.each(exact.fused, *low, dtype=np.float16)
        p.add(f"v_fma_legacy_f16 {v(row)}, {', '.join(map(v, rows))}")
        p.write(row, result.view(np.uint16).astype(np.uint32), kind="f16")
    elif name == "fmac":
        row = p.given(p.state.vector[rows[2]])
        parts = [exact.each(exact.fused, *(pair[:, n] for pair in pairs), dtype=np.float16) for n in range(2)]
        p.add(f"v_pk_fmac_f16 {v(row)}, {v(rows[0])}, {v(rows[1])}")
        p.write(row, np.ascontiguousarray(np.stack(parts, axis=1)).view(np.uint32)[:, 0], kind="f16")
    else:
        # A NaN among them makes the result one.
        extreme = np.maximum if name == "maximum3" else np.minimum
        parts = []
        for n in range(2):
            values = [pair[:, n].copy() for pair in pairs]
            with np.errstate(all="ignore"):
                result = extreme(extreme(values[0], values[1]), values[2])
            zero = np.all([value == 0 for value in values], axis=0) | (result == 0)
            zeros = [np.where(value == 0, np.copysign(1.0, value), np.nan) for value in values]
            sign = np.fmax.reduce(zeros) if name == "maximum3" else np.fmin.reduce(zeros)
            parts.append(np.where(zero, np.copysign(np.float16(0), sign), result).astype(np.float16))
        p.add(f"v_pk_{name}_f16 {v(row)}, {', '.join(map(v, rows))}")
        p.write(row, np.ascontiguousarray(np.stack(parts, axis=1)).view(np.uint32)[:, 0], kind="f16")


def stochastic(p: Program) -> None:
    """To 8 bits with a seed, which changes nothing where a code is exact."""
    name, rng = p.rng.choice(["fp8", "bf8"]), np.random.default_rng(p.rng.getrandbits(32))
    dtype = _SMALL_FLOATS[p.arch, name]
    codes = np.arange(256, dtype=np.uint8)
    codes = rng.choice(codes[np.isfinite(codes.view(dtype).astype(np.float32))], LANES)
    source = p.given(codes.view(dtype).astype(np.float32).view(np.uint32))
    seed, row, octet = p.given(rng.integers(0, 1 << 32, LANES)), p.results(1), p.rng.randrange(4)
    old = p.state.vector[row]
    p.add(f"v_cvt_sr_{name}_f32 {v(row)}, {v(source)}, {v(seed)} op_sel:[0,0,{octet & 1},{octet >> 1}]")
    p.write(row, (old & (_WORD ^ 0xFF << 8 * octet)) | codes.astype(np.uint32) << np.uint32(8 * octet))


# ---- approximate functions ------------------------------------------------------------------------------------------


def _exact_points(name: str, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Arguments at which a function has a value that its format can hold, and the values, float64 (64,)."""
    top = {"f16": 12, "f32": 120, "f64": 900}[kind]
    exponents = rng.integers(-top, top + 1, LANES).astype(np.float64)
    signs = rng.choice([-1.0, 1.0], LANES)
    if name == "exp":
        return exponents, np.exp2(exponents)
    if name == "log":
        return np.exp2(exponents), exponents
    if name in ("sin", "cos"):
        # Where it is not zero, of which the sign is left open.
        quarters = 2 * rng.integers(-500, 501, LANES) + (name == "sin")
        return quarters / 4, np.array([0.0, 1.0, 0.0, -1.0])[(quarters + (name == "cos")) % 4]
    if name == "sqrt":
        roots = rng.integers(0, 1 << {"f16": 5, "f32": 12, "f64": 26}[kind], LANES).astype(np.float64)
        return roots * roots, roots
    if name == "rsq":
        even = 2 * (exponents // 2)
        return np.exp2(even), np.exp2(-even / 2)
    return signs * np.exp2(exponents), signs * np.exp2(-exponents)


def approximate(p: Program) -> None:
    """Functions whose tables are not published, where the value can be told exactly."""
    name = p.rng.choice(["rcp", "rcp_iflag", "rsq", "sqrt", "exp", "log", "sin", "cos"])
    kinds = ["f32"] if name == "rcp_iflag" else ["f16", "f32"] + ["f64"] * (name in ("rcp", "rsq", "sqrt"))
    kind = p.rng.choice(kinds)
    dtype = FLOAT_TYPES[kind]
    arguments, values = _exact_points(name, kind, np.random.default_rng(p.rng.getrandbits(32)))
    count = 2 if kind == "f64" else 1
    raw = arguments.astype(dtype)
    words = raw.view(np.uint16).astype(np.uint32)[None] if kind == "f16" else raw.view(np.uint32).reshape(LANES, -1).T
    source, row = p.given(words), p.results(count)
    encoding = p.rng.choice(["e32", "e64"])
    sign = p.rng.choice(["", "-"]) if encoding == "e64" and name in ("rcp", "rcp_iflag") else ""
    p.add(f"v_{name}_{kind}_{encoding} {v(row, count)}, {sign}{v(source, count)}")
    result = (-values if sign else values).astype(dtype)
    _write_floats(p, row, result)


def _two_over_pi(bits: int) -> int:
    """The first bits of the fraction of 2/π, by π/4 = 2·arctan(1/3) + arctan(1/7)."""
    one = 1 << bits + 64

    def inverse_tangent(n: int) -> int:
        terms = (one // n ** (2 * k + 1) // (2 * k + 1) * (-1) ** k for k in range(bits))
        return sum(itertools.takewhile(bool, terms))

    return one * one // (2 * (2 * inverse_tangent(3) + inverse_tangent(7))) >> 64


_REDUCTION_BITS = 37 * 32
_REDUCTION = _two_over_pi(_REDUCTION_BITS)


def _part_of_two_over_pi(angle: np.float64, segment: int) -> float:
    """53 bits of 2/π, from where the angle's exponent says on; LLVM has 37 words of it, and zero beyond."""
    if np.isnan(angle):
        return math.nan
    exponent = exact.bits(angle) >> 52 & 0x7FF
    first = 53 * (segment & 31) + max(0, exponent - 1077)
    if first // 32 + 2 >= _REDUCTION_BITS // 32:
        return 0.0
    part = _REDUCTION >> _REDUCTION_BITS - 53 - first & (1 << 53) - 1
    return math.ldexp(part, -53 - first + (128 if exponent >= 1968 else 0))


def reduction(p: Program) -> None:
    """The part of 2/π that the reduction of a large angle takes; angles of every size."""
    rng = np.random.default_rng(p.rng.getrandbits(32))
    low = p.rng.choice([0, 1070, 1960])
    exponents = rng.integers(low, min(low + p.rng.choice([30, 2048]), 2048), LANES, dtype=np.uint64)
    raw = rng.integers(0, 1 << 52, LANES, dtype=np.uint64) | exponents << np.uint64(52)
    raw |= rng.integers(0, 2, LANES, dtype=np.uint64) << np.uint64(63)
    segments = rng.integers(0, p.rng.choice([3, 64]), LANES)
    angle, segment, row = p.given(raw.view(np.uint32).reshape(LANES, 2).T), p.given(segments), p.results(2)
    p.add(f"v_trig_preop_f64 {v(row, 2)}, {v(angle, 2)}, {v(segment)}")
    parts = [_part_of_two_over_pi(a, int(b)) for a, b in zip(raw.view(np.float64), segments, strict=True)]
    _write_floats(p, row, np.array(parts))


# ---- conversions by a scale (gfx950) --------------------------------------------------------------------------------

_SCALED = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2, "fp4": ml_dtypes.float4_e2m1fn}
_WIDE = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def _finite_codes(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Codes (64, count) of numbers; NaN and infinity are tested elsewhere."""
    codes = np.arange(16 if name == "fp4" else 256, dtype=np.uint8)
    values = codes.view(_SCALED[name]).astype(np.float32)
    return rng.choice(codes[np.isfinite(values)], (LANES, count))


def _scale(p: Program, wide: str, rng: np.random.Generator) -> tuple[str, float]:
    """A power of two, in a scalar register or as a constant, that keeps results normal; other bits do not count."""
    exponent = int(rng.integers(-6, 1)) if wide == "f16" else int(rng.integers(-40, 41))
    if p.rng.random() < 0.3:
        return "1.0", 1.0
    register = p.scalar_results(1)
    word = (exponent + 127) << 23 | p.rng.getrandbits(23)
    p.add(f"s_mov_b32 s{register}, {word:#x}")
    p.set_scalar(register, word)
    p.cases -= 1
    return f"s{register}", 2.0**exponent


def widen_scaled(p: Program) -> None:
    """Two numbers of 8 or 4 bits, or one of 8, times a scale."""
    rng = np.random.default_rng(p.rng.getrandbits(32))
    name, wide = p.rng.choice(list(_SCALED)), p.rng.choice(list(_WIDE))
    text, factor = _scale(p, wide, rng)
    if name != "fp4" and wide != "bf16" and p.rng.random() < 0.3:
        codes = _finite_codes(name, rng, 4)
        octet = p.rng.randrange(4)
        source = p.given(np.ascontiguousarray(codes).view(np.uint32)[:, 0])
        values = codes[:, octet].copy().view(_SCALED[name]).astype(np.float64) * factor
        row = p.results(1)
        high = p.rng.randrange(2) if wide == "f16" else 0
        p.add(f"v_cvt_scalef32_{wide}_{name} {v(row)}, {v(source)}, {text} op_sel:[{octet & 1},{octet >> 1},{high}]")
        if wide == "f32":
            _write_floats(p, row, values.astype(np.float32))
            return
        half = values.astype(np.float16).view(np.uint16).astype(np.uint32)
        old = p.state.vector[row]
        p.write(row, (old & 0xFFFF) | half << 16 if high else (old & 0xFFFF0000) | half)
        return
    if name == "fp4":
        codes = _finite_codes(name, rng, 8)
        octet, select = p.rng.randrange(4), 0
        pair, select = codes[:, 2 * octet : 2 * octet + 2], octet
        source = p.given(np.ascontiguousarray(codes[:, 0::2] | codes[:, 1::2] << 4).view(np.uint32)[:, 0])
        tail = f"op_sel:[{select & 1},{select >> 1},0]"
    else:
        codes, half = _finite_codes(name, rng, 4), p.rng.randrange(2)
        pair = codes[:, 2 * half : 2 * half + 2]
        source = p.given(np.ascontiguousarray(codes).view(np.uint32)[:, 0])
        tail = f"op_sel:[{half},0,0]"
    values = np.ascontiguousarray(pair).view(_SCALED[name]).astype(np.float64) * factor
    count = 2 if wide == "f32" else 1
    row = p.results(count)
    p.add(f"v_cvt_scalef32_pk_{wide}_{name} {v(row, count)}, {v(source)}, {text} {tail}")
    if wide == "f32":
        for number in range(2):
            _write_floats(p, row + number, values[:, number].astype(np.float32))
    else:
        p.write(row, np.ascontiguousarray(values.astype(_WIDE[wide])).view(np.uint32)[:, 0])


def narrow_scaled(p: Program) -> None:
    """Pairs, or one number with a seed, to 8 or 4 bits: codes times the scale, so that nothing rounds."""
    rng = np.random.default_rng(p.rng.getrandbits(32))
    name, wide = p.rng.choice(list(_SCALED)), p.rng.choice(list(_WIDE))
    if wide == "f16":
        # Such codes times a scale between 2^-6 and 2^6 are halves, denormal ones included, or exactly representable.
        text, factor = "1.0", 1.0
    else:
        text, factor = _scale(p, wide, rng)
    codes = _finite_codes(name, rng, 2)
    values = (np.ascontiguousarray(codes).view(_SCALED[name]).astype(np.float64) * factor).astype(_WIDE[wide])
    parts = [codes[:, n].astype(np.uint32) for n in range(2)]
    row = p.results(1)
    old = p.state.vector[row]
    if wide == "f32":
        sources = [v(p.given(values[:, n].copy().view(np.uint32))) for n in range(2)]
    else:
        sources = [v(p.given(np.ascontiguousarray(values).view(np.uint32)[:, 0]))]
    if name != "fp4" and p.rng.random() < 0.4:
        octet = p.rng.randrange(4)
        seed = v(p.given(rng.integers(0, 1 << 32, LANES)))
        tail = f"op_sel:[0,0,{octet & 1},{octet >> 1}]"
        p.add(f"v_cvt_scalef32_sr_{name}_{wide} {v(row)}, {sources[0]}, {seed}, {text} {tail}")
        p.write(row, (old & (_WORD ^ 0xFF << 8 * octet)) | parts[0] << np.uint32(8 * octet))
        return
    if name == "fp4":
        octet = p.rng.randrange(4)
        tail = f"op_sel:[0,0,{octet & 1},{octet >> 1}]"
        bits = (old & (_WORD ^ 0xFF << 8 * octet)) | (parts[0] | parts[1] << 4) << np.uint32(8 * octet)
    else:
        half = p.rng.randrange(2)
        tail = f"op_sel:[0,0,0,{half}]" if wide == "f32" else f"op_sel:[0,0,{half}]"
        pair = parts[0] | parts[1] << 8
        bits = (old & 0xFFFF) | pair << 16 if half else (old & 0xFFFF0000) | pair
    p.add(f"v_cvt_scalef32_pk_{name}_{wide} {v(row)}, {', '.join(sources)}, {text} {tail}")
    p.write(row, bits)

"""Atomics on LDS, global and buffer memory: read, modify, write in lane order.

One thread executes a workgroup, so nothing comes between; results are the same in every run. Float sums round after
each lane. Float minimum and maximum prefer a number over NaN and order -0 below +0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.address import global_places, record
from wavecast.simulator.execute.builder import F16, F32, F64, I16, I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, RowKind
from wavecast.simulator.execute.ops.buffer_memory import buffer_access
from wavecast.simulator.execute.ops.global_memory import global_addresses, recorded_places, skip_if_idle
from wavecast.simulator.execute.ops.lds import lds_addresses, lds_places, record_lds
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.transfer import Places, is_checked, note_lanes, write_rows

# New memory value from the old one and the lane's data (integers of the access width).
Update = Callable[..., ir.Value]
_FLOATS = {32: F32, 64: F64}


def _integer(name: str) -> Update:
    def update(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
        return getattr(e.b, name)(old, data)

    return update


def _extreme(name: str) -> Update:
    """``smin``, ``umax``, …"""

    def update(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
        return e.intrinsic(f"llvm.{name}", old.type, [old, data])

    return update


def float_update(name: str) -> Update:
    """``fadd``, or a minimum or maximum intrinsic."""

    def update(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
        kind = _FLOATS[old.type.width]
        a, b = e.b.bitcast(old, kind), e.b.bitcast(data, kind)
        result = e.b.fadd(a, b) if name == "fadd" else e.intrinsic(f"llvm.{name}", kind, [a, b])
        return e.b.bitcast(result, old.type)

    return update


def _reverse_subtract(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
    return e.b.sub(data, old)


def _increment(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
    """Count up, wrapping to 0 at the limit that the data holds."""
    return e.select(e.b.icmp_unsigned(">=", old, data), e.like(old, 0), e.b.add(old, e.like(old, 1)))


def _decrement(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
    """Count down, wrapping from 0 (or from beyond the limit) to the limit."""
    wrap = e.b.or_(e.b.icmp_unsigned("==", old, e.like(old, 0)), e.b.icmp_unsigned(">", old, data))
    return e.select(wrap, data, e.b.sub(old, e.like(old, 1)))


def _exchange(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
    return data


def _exchange_if_equal(e: Emitter, old: ir.Value, new: ir.Value, expected: ir.Value) -> ir.Value:
    return e.select(e.b.icmp_unsigned("==", old, expected), new, old)


def _compare_store(e: Emitter, old: ir.Value, expected: ir.Value, new: ir.Value) -> ir.Value:
    """LDS names the expected value first, global memory the new one."""
    return _exchange_if_equal(e, old, new, expected)


def _compare_store_float(e: Emitter, old: ir.Value, expected: ir.Value, new: ir.Value) -> ir.Value:
    kind = _FLOATS[old.type.width]
    return e.select(e.b.fcmp_ordered("==", e.b.bitcast(old, kind), e.b.bitcast(expected, kind)), new, old)


def _masked_or(e: Emitter, old: ir.Value, mask: ir.Value, data: ir.Value) -> ir.Value:
    return e.b.or_(e.b.and_(old, e.b.not_(mask)), data)


def add_pairs(add: Callable[[Emitter, ir.Value, ir.Value], ir.Value]) -> Update:
    """The two 16-bit halves of a word, each by itself."""

    def update(e: Emitter, old: ir.Value, data: ir.Value) -> ir.Value:
        halves = []
        for shift in (0, 16):
            a, b = (e.b.trunc(e.b.lshr(value, I32(shift)), I16) for value in (old, data))
            halves.append(e.b.zext(add(e, a, b), I32))
        return e.b.or_(halves[0], e.b.shl(halves[1], I32(16)))

    return update


def add_half(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """Of halves as i16."""
    return e.b.bitcast(e.b.fadd(e.b.bitcast(a, F16), e.b.bitcast(b, F16)), I16)


def add_bfloat(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """The fp32 sum rounded to nearest even: 24 bits are enough for the double rounding not to matter."""
    wide = [e.b.bitcast(e.b.shl(e.b.zext(value, I32), I32(16)), F32) for value in (a, b)]
    total = e.b.fadd(wide[0], wide[1])
    bits = e.b.bitcast(total, I32)
    odd = e.b.and_(e.b.lshr(bits, I32(16)), I32(1))
    rounded = e.b.add(bits, e.b.add(odd, I32(0x7FFF)))
    quiet = e.b.or_(bits, I32(1 << 22))
    chosen = e.select(e.b.fcmp_unordered("uno", total, total), quiet, rounded)
    return e.b.trunc(e.b.lshr(chosen, I32(16)), I16)


@dataclass(frozen=True, slots=True)
class Source:
    """Data of an atomic: ``words`` rows of a vector-register operand from row ``first`` on."""

    position: int
    words: int
    first: int = 0


def update_lanes(e: Emitter, places: Places, update: Update, sources: list[Source], result: int | None) -> None:
    """Run the lanes of the mask one after the other.

    Args:
        e: The helper.
        places: Where the lanes' memory lies.
        update: New value from old value and one value per source.
        sources: Where the lane's data lies.
        result: Operand that takes the old values, or None. Active lanes outside the mask get 0.
    """
    words = sources[0].words
    rows = [[e.row(source.position, source.first + word) for word in range(words)] for source in sources]
    olds = [e.allocate(I32, LANES) for _ in range(words if result is not None else 0)]
    changed = e.allocate(I64, 1)
    e.b.store(I64(0), changed)
    for old_row in olds:
        e.b.store(e.constant(ir.VectorType(I32, LANES), 0), old_row, align=64)

    def step(lane: ir.Value) -> None:
        place = e.b.mul(lane, I64(4))
        pointer = places.pointer(lane)
        old = e.b.load(pointer, typ=I32 if words == 1 else I64, align=1)
        data = [_join(e, [e.b.load(e.at(row, place), typ=I32, align=4) for row in source]) for source in rows]
        new = update(e, old, *data)
        e.b.store(new, pointer, align=1)
        bit = e.b.select(e.b.icmp_unsigned("!=", new, old), e.b.shl(I64(1), lane), I64(0))
        e.b.store(e.b.or_(e.b.load(changed, typ=I64), bit), changed)
        for word, old_row in enumerate(olds):
            part = old if words == 1 else e.b.trunc(e.b.lshr(old, I64(32 * word)), I32)
            e.b.store(part, e.at(old_row, place), align=4)

    with e.for_each_lane(places.mask) as lane:
        step(lane)
    with e.b.if_then(e.b.and_(is_checked(e), e.b.icmp_unsigned("!=", places.mask, I64(0))), likely=False):
        note_lanes(e, e.b.load(changed, typ=I64), "changed")
    if result is not None:
        write_rows(e, result, [e.load_rows(old_row) for old_row in olds])


def _join(e: Emitter, words: list[ir.Value]) -> ir.Value:
    if len(words) == 1:
        return words[0]
    low, high = (e.b.zext(word, I64) for word in words)
    return e.b.or_(low, e.b.shl(high, I64(32)))


def _sources(opcode_has_compare: bool, position: int, words: int) -> list[Source]:
    """Data of a global or buffer atomic: a compare value follows in the same register group."""
    return [Source(position, words, words * group) for group in range(2 if opcode_has_compare else 1)]


def _global(segment: str, name: str, update: Update, words: int) -> None:
    operands = 3 if segment == "global" else 2

    @raw(f"{segment}_atomic_{name}", "b32 b64 b64 b64", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        returns = len(e.form.operands) == operands + 1
        vector = int(returns)
        addresses = global_addresses(e, vector, vector + 2 if segment == "global" else None)
        places = recorded_places(e, segment, addresses, 4 * words)
        sources = _sources(update is _exchange_if_equal, vector + 1, words)
        update_lanes(e, places, update, sources, 0 if returns else None)


def _buffer(name: str, update: Update, words: int) -> None:
    @raw(f"buffer_atomic_{name}", "b32 b32 b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        returns = bool(e.form.modifier("sc0"))
        access = buffer_access(e, 1, 4 * words)
        record(e, access.addresses, access.whole)
        places = global_places(e, access.addresses, access.whole, 4 * words)
        update_lanes(e, places, update, _sources(update is _exchange_if_equal, 0, words), 0 if returns else None)


def _lds(name: str, update: Update, words: int, *, returns: bool, operands: int = 1) -> None:
    @raw(f"ds_{name}", "b32 " * (1 + operands + returns), kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        vector = int(returns)
        addresses = lds_addresses(e, vector)
        record_lds(e, addresses)
        places = lds_places(e, addresses, 4 * words)
        sources = [Source(vector + 1 + operand, words) for operand in range(operands)]
        update_lanes(e, places, update, sources, 0 if returns else None)


BOTH_WIDTHS: dict[str, Update] = {
    "swap": _exchange,
    "cmpswap": _exchange_if_equal,
    "add": _integer("add"),
    "sub": _integer("sub"),
    "smin": _extreme("smin"),
    "umin": _extreme("umin"),
    "smax": _extreme("smax"),
    "umax": _extreme("umax"),
    "and": _integer("and_"),
    "or": _integer("or_"),
    "xor": _integer("xor"),
    "inc": _increment,
    "dec": _decrement,
}
_ONE_WIDTH: dict[str, tuple[Update, int]] = {
    "add_f32": (float_update("fadd"), 1),
    "add_f64": (float_update("fadd"), 2),
    "min_f64": (float_update("minimumnum"), 2),
    "max_f64": (float_update("maximumnum"), 2),
    "pk_add_f16": (add_pairs(add_half), 1),
    "pk_add_bf16": (add_pairs(add_bfloat), 1),
}
# LDS opcodes by the type letter of their suffix.
_LDS: dict[str, tuple[str, Update, int]] = {
    "add": ("u", _integer("add"), 1),
    "sub": ("u", _integer("sub"), 1),
    "rsub": ("u", _reverse_subtract, 1),
    "inc": ("u", _increment, 1),
    "dec": ("u", _decrement, 1),
    "min_i": ("i", _extreme("smin"), 1),
    "max_i": ("i", _extreme("smax"), 1),
    "min_u": ("u", _extreme("umin"), 1),
    "max_u": ("u", _extreme("umax"), 1),
    "and": ("b", _integer("and_"), 1),
    "or": ("b", _integer("or_"), 1),
    "xor": ("b", _integer("xor"), 1),
    "mskor": ("b", _masked_or, 2),
    "cmpst": ("b", _compare_store, 2),
    "cmpst_f": ("f", _compare_store_float, 2),
    "add_f": ("f", float_update("fadd"), 1),
    "min_f": ("f", float_update("minimumnum"), 1),
    "max_f": ("f", float_update("maximumnum"), 1),
}


def _register() -> None:
    for words, tail in ((1, ""), (2, "_x2")):
        for name, update in BOTH_WIDTHS.items():
            _global("global", name + tail, update, words)
            _global("flat", name + tail, update, words)
            _buffer(name + tail, update, words)
        for key, (letter, update, operands) in _LDS.items():
            base, suffix = key.split("_")[0], f"{letter}{32 * words}"
            _lds(f"{base}_{suffix}", update, words, returns=False, operands=operands)
            _lds(f"{base}_rtn_{suffix}", update, words, returns=True, operands=operands)
        _lds(f"wrxchg_rtn_b{32 * words}", _exchange, words, returns=True)
    for name, (update, words) in _ONE_WIDTH.items():
        _global("global", name, update, words)
        _global("flat", name, update, words)
        _buffer(name, update, words)
    for kind, add in (("f16", add_half), ("bf16", add_bfloat)):
        _lds(f"pk_add_{kind}", add_pairs(add), 1, returns=False)
        _lds(f"pk_add_rtn_{kind}", add_pairs(add), 1, returns=True)


_register()

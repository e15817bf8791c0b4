"""LDS loads and stores.

An access that does not lie in the workgroup's allocation as a whole reads 0 or is dropped, and is counted in
``Context.LDS_STRAY``. Addresses are 32-bit sums; any alignment is served (the unaligned access mode that the HSA
kernels run in).
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.address import record
from wavecast.simulator.execute.builder import I8, I16, I32, I64, POINTER
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, Context, RowKind
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.transfer import (
    Places,
    SmallLoad,
    consecutive,
    fetch_small,
    fetch_words,
    read_rows,
    spread_small,
    spread_words,
    write_rows,
)


def lds_addresses(e: Emitter, position: int) -> ir.Value:
    """LDS byte address of each lane, <64 x i32>: the register plus ``offset``."""
    offset = e.convert(e.runtime_modifier("offset"), I32)
    return e.b.add(e.load_rows(e.row(position)), e.splat(offset))


def record_lds(e: Emitter, addresses: ir.Value) -> None:
    """Trace record of LDS byte addresses; nothing if no lane is active."""
    with e.b.if_then(e.b.icmp_unsigned("==", e.exec_mask(), I64(0)), likely=False):
        e.b.ret_void()
    record(e, e.convert(addresses, I64))


def lds_places(e: Emitter, addresses: ir.Value, width: int) -> Places:
    """The active lanes whose ``width`` bytes lie in the allocation; the others are counted as stray."""
    size = e.context_load(Context.LDS_BYTES)
    fits = e.b.sext(e.b.icmp_unsigned(">=", size, I64(width)), I64)
    limit = e.splat(e.convert(e.b.sub(size, I64(width)), I32))
    inside = e.b.and_(e.b.bitcast(e.b.icmp_unsigned("<=", addresses, limit), I64), fits)
    stray = e.b.and_(e.exec_mask(), e.b.not_(inside))
    with e.b.if_then(e.b.icmp_unsigned("!=", stray, I64(0)), likely=False):
        count = e.b.add(e.context_load(Context.LDS_STRAY), e.call("llvm.ctpop.i64", I64, [stray]))
        e.context_store(Context.LDS_STRAY, count)
    base = e.b.inttoptr(e.context_load(Context.LDS), POINTER)
    mask = e.b.and_(e.exec_mask(), inside)
    slots = e.allocate(I32, LANES)
    e.b.store(addresses, slots, align=64)

    def pointer(lane: ir.Value) -> ir.Value:
        address = e.b.load(e.at(slots, e.b.mul(lane, I64(4))), typ=I32, align=4)
        return e.at(base, e.b.zext(address, I64))

    return Places(mask, pointer, lambda step: consecutive(e, addresses, mask, step))


def _two_addresses(e: Emitter, position: int, scale: int) -> tuple[ir.Value, ir.Value]:
    """Addresses of a two-address opcode, whose offsets count elements (or 64 of them); records the register's value."""
    base = e.load_rows(e.row(position))
    record_lds(e, base)
    first, second = (
        e.b.add(base, e.splat(e.convert(e.b.mul(e.runtime_modifier(name), I64(scale)), I32)))
        for name in ("offset0", "offset1")
    )
    return first, second


def _read(suffix: str, words: int) -> None:
    @raw(f"ds_read_{suffix}", "b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        addresses = lds_addresses(e, 1)
        record_lds(e, addresses)
        places = lds_places(e, addresses, 4 * words)
        write_rows(e, 0, fetch_words(e, places, words, clear=True))


def _read_small(suffix: str, load: SmallLoad) -> None:
    @raw(f"ds_read_{suffix}", "b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        addresses = lds_addresses(e, 1)
        record_lds(e, addresses)
        places = lds_places(e, addresses, load.element.width // 8)
        old = e.load_rows(e.row(0))
        write_rows(e, 0, [fetch_small(e, places, load, old, clear=True)])


def _write(suffix: str, words: int) -> None:
    @raw(f"ds_write_{suffix}", "b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        addresses = lds_addresses(e, 0)
        record_lds(e, addresses)
        spread_words(e, lds_places(e, addresses, 4 * words), read_rows(e, 1, words))


def _write_small(suffix: str, element: ir.IntType, half: int) -> None:
    @raw(f"ds_write_{suffix}", "b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        addresses = lds_addresses(e, 0)
        record_lds(e, addresses)
        places = lds_places(e, addresses, element.width // 8)
        spread_small(e, places, element, e.load_rows(e.row(1)), half=half)


def _two(stride: str, words: int) -> None:
    scale = 4 * words * (LANES if stride else 1)

    @raw(f"ds_read2{stride}_b{32 * words}", "b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        rows: list[ir.Value] = []
        for addresses in _two_addresses(e, 1, scale):
            rows += fetch_words(e, lds_places(e, addresses, 4 * words), words, clear=True)
        write_rows(e, 0, rows)

    @raw(f"ds_write2{stride}_b{32 * words}", "b32 b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        for position, addresses in enumerate(_two_addresses(e, 0, scale), start=1):
            spread_words(e, lds_places(e, addresses, 4 * words), read_rows(e, position, words))


for _suffix, _words in (("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)):
    _read(_suffix, _words)
    _write(_suffix, _words)
for _stride in ("", "st64"):
    for _words in (1, 2):
        _two(_stride, _words)
for _name, _element, _signed in (("u8", I8, False), ("i8", I8, True), ("u16", I16, False), ("i16", I16, True)):
    _read_small(_name, SmallLoad(_element, _signed))
    if _name != "i16":
        _read_small(f"{_name}_d16", SmallLoad(_element, _signed, half=0))
        _read_small(f"{_name}_d16_hi", SmallLoad(_element, _signed, half=1))
for _name, _element, _half in (("b8", I8, 0), ("b8_d16_hi", I8, 1), ("b16", I16, 0), ("b16_d16_hi", I16, 1)):
    _write_small(_name, _element, _half)

"""Buffer loads and stores: addresses from a descriptor, with a range check that reads 0 or drops the store.

A raw access is in range if it ends within ``num_records`` bytes of the base: address register plus instruction offset,
a sum of 32 bits, plus the scalar offset, which does not wrap. Accesses of several words are checked word by word,
atomic ones as a whole. An indexed access is in range if its index is below ``num_records``. Triton's masks rely on it:
a masked lane gets an offset beyond any buffer. That the scalar offset counts is what the authors of AMD's emulator
found on gfx950 (ROCm/rocm-systems, pull request 10928); the ISA text ("Range Checking") leaves it open.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.address import global_places, record
from wavecast.simulator.execute.builder import I8, I32, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, Context, Fault, RowKind
from wavecast.simulator.execute.ops.global_memory import (
    LOADS,
    STORES,
    WORDS,
    load,
    skip_if_idle,
    store,
    width_of_load,
    width_of_store,
)
from wavecast.simulator.execute.ops.lds_direct import load_to_lds
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.transfer import (
    Places,
    each_lane,
    interleave,
    is_checked,
    note_lanes,
    read_rows,
    write_rows,
)

_STRIDE_BITS = 14
_SWIZZLE = 1 << 31  # word 1
_ADD_THREAD_ID = 1 << 23  # word 3


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """What a buffer instruction touches.

    Attributes:
        addresses: <64 x i64> device addresses.
        begin: i64, active lanes whose first word is in range.
        whole: i64, active lanes of which every word is.
        offsets: <64 x i32>, what is checked.
        limit: i32, end of the range: ``offsets`` plus the bytes of the access must not be beyond it.
        end: i64, device address of the end of the range of a raw access; the highest there is for an indexed one.
    """

    addresses: ir.Value
    begin: ir.Value
    whole: ir.Value
    offsets: ir.Value
    limit: ir.Value
    end: ir.Value


def buffer_access(e: Emitter, vector: int, width: int) -> BufferAccess:
    """Addresses and range check; operands from ``vector`` on: address register or ``off``, descriptor, scalar offset.

    Leaves the helper with a fault if the descriptor is of a kind that is not modelled.
    """
    descriptor = e.slot(vector + 1)
    low, high, records, flags = (e.b.load(e.at(descriptor, 4 * word), typ=I32, align=4) for word in range(4))
    indexed, offset_enabled = (bool(e.form.modifier(name)) for name in ("idxen", "offen"))
    _refuse_unknown(e, high, flags, indexed=indexed)
    if (e.form.operands[vector].kind == "off") == (indexed or offset_enabled):
        raise NotImplementedError("an address register goes with offen or idxen, off with neither")
    base = e.b.or_(e.b.shl(e.b.zext(e.b.and_(high, I32(0xFFFF)), I64), I64(32)), e.b.zext(low, I64))
    scalar_offset = e.read_scalar(vector + 2, "b32")
    base = e.b.add(base, e.b.zext(scalar_offset, I64))
    offsets = e.splat(e.convert(e.runtime_modifier("offset"), I32))
    if offset_enabled:
        offsets = e.b.add(e.load_rows(e.row(vector, int(indexed))), offsets)
    addresses = e.b.add(e.splat(base), e.convert(offsets, I64))
    if indexed:
        index = e.load_rows(e.row(vector))
        stride = e.b.zext(e.b.and_(e.b.lshr(high, I32(16)), I32((1 << _STRIDE_BITS) - 1)), I64)
        addresses = e.b.add(addresses, e.b.mul(e.convert(index, I64), e.splat(stride)))
        inside = _below(e, index, records)
        return BufferAccess(addresses, inside, inside, index, records, I64(-1))
    limit = _less(e, records, scalar_offset)
    begin = _below(e, offsets, _less(e, limit, I32(min(width, 4) - 1)))
    whole = _below(e, offsets, _less(e, limit, I32(width - 1))) if width > 4 else begin
    return BufferAccess(addresses, begin, whole, offsets, limit, e.b.add(base, e.b.zext(limit, I64)))


def _refuse_unknown(e: Emitter, word1: ir.Value, word3: ir.Value, *, indexed: bool) -> None:
    special = e.b.or_(e.b.and_(word1, I32(_SWIZZLE)), e.b.and_(word3, I32(_ADD_THREAD_ID)))
    unknown = e.b.icmp_unsigned("!=", special, I32(0))
    if indexed:
        # Such a descriptor is checked as a raw one.
        stride = e.b.and_(word1, I32(((1 << _STRIDE_BITS) - 1) << 16))
        unknown = e.b.or_(unknown, e.b.icmp_unsigned("==", stride, I32(0)))
    with e.b.if_then(unknown, likely=False):
        e.context_store(Context.FAULT, I64(Fault.DESCRIPTOR))
        e.b.ret_void()


def _less(e: Emitter, value: ir.Value, amount: ir.Value) -> ir.Value:
    """``value - amount``, not below 0: then nothing is in range."""
    return e.call("llvm.usub.sat.i32", I32, [value, amount])


def _below(e: Emitter, offsets: ir.Value, limit: ir.Value) -> ir.Value:
    """Active lanes whose offset is below the limit."""
    return e.b.and_(e.b.bitcast(e.b.icmp_unsigned("<", offsets, e.splat(limit)), I64), e.exec_mask())


def _each_word(e: Emitter, access: BufferAccess, words: int, staging: ir.Value, *, write: bool) -> None:
    """Move word by word between memory and ``staging`` (64 elements, lane after lane): some lanes are cut off."""
    with e.for_each(words) as word:
        step = e.b.mul(word, I64(4))
        mask = _below(e, access.offsets, _less(e, access.limit, e.convert(e.b.add(step, I64(3)), I32)))
        places = global_places(e, e.b.add(access.addresses, e.splat(step)), mask, 4)

        def move(lane: ir.Value, places: Places = places, step: ir.Value = step) -> None:
            slot = e.at(staging, e.b.add(e.b.mul(lane, I64(4 * words)), step))
            source, target = (slot, places.pointer(lane)) if write else (places.pointer(lane), slot)
            e.b.store(e.b.load(source, typ=I32, align=1), target, align=1)

        each_lane(e, mask, move)


def _load_words(e: Emitter, access: BufferAccess, words: int, position: int) -> None:
    with e.b.if_else(e.b.icmp_unsigned("==", access.begin, access.whole), likely=True) as (plain, clipped):
        with plain:
            places = global_places(e, access.addresses, access.whole, 4 * words)
            load(e, f"dwordx{words}", position, places, clear=True)
        with clipped:
            staging = e.allocate(I8, LANES * 4 * words)
            block = lanes_of(I32, LANES * words)
            e.b.store(e.constant(block, 0), staging, align=64)
            _each_word(e, access, words, staging, write=False)
            data = e.b.load(staging, typ=block, align=64)
            write_rows(e, position, [e.shuffle(data, list(range(word, LANES * words, words))) for word in range(words)])


def _store_words(e: Emitter, access: BufferAccess, words: int, position: int) -> None:
    with e.b.if_else(e.b.icmp_unsigned("==", access.begin, access.whole), likely=True) as (plain, clipped):
        with plain:
            store(e, f"dwordx{words}", position, global_places(e, access.addresses, access.whole, 4 * words))
        with clipped:
            staging = e.allocate(I8, LANES * 4 * words)
            e.b.store(interleave(e, read_rows(e, position, words)), staging, align=64)
            with e.b.if_then(e.b.and_(is_checked(e), e.b.icmp_unsigned("!=", access.begin, I64(0))), likely=False):
                note_lanes(e, access.begin, "changed")
            _each_word(e, access, words, staging, write=True)


def _loader(suffix: str) -> None:
    width = width_of_load(suffix)

    @raw(f"buffer_load_{suffix}", "b32 b32 b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        to_lds = bool(e.form.modifier("lds"))
        access = buffer_access(e, 0 if to_lds else 1, width)
        record(e, access.addresses, access.begin, end=access.end)
        if to_lds:
            # Direct loads are all or nothing a lane here: their words would need a range check of their own.
            load_to_lds(e, suffix, global_places(e, access.addresses, access.whole, width))
        elif WORDS.get(suffix, 1) > 1:
            _load_words(e, access, WORDS[suffix], 0)
        else:
            load(e, suffix, 0, global_places(e, access.addresses, access.whole, width), clear=True)


def _storer(suffix: str) -> None:
    width = width_of_store(suffix)

    @raw(f"buffer_store_{suffix}", "b32 b32 b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        access = buffer_access(e, 1, width)
        record(e, access.addresses, access.begin, end=access.end)
        if WORDS.get(suffix, 1) > 1:
            _store_words(e, access, WORDS[suffix], 0)
        else:
            store(e, suffix, 0, global_places(e, access.addresses, access.whole, width))


for _suffix in LOADS:
    _loader(_suffix)
for _suffix in STORES:
    _storer(_suffix)

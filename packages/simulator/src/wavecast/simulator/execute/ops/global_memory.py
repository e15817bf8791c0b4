"""Global loads and stores."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.address import record, resolve
from wavecast.simulator.execute.emitter import I8, I16, I32, I64, POINTER, Emitter, lanes_of
from wavecast.simulator.execute.layout import LANES, RowKind
from wavecast.simulator.execute.registry import raw


def global_addresses(e: Emitter, vector: int, scalar: int) -> ir.Value:
    """Device addresses <64 x i64>: a 64-bit vector address, or a scalar base plus a 32-bit vector offset; plus ``offset``."""
    offset = e.splat(e.runtime_modifier("offset"))
    if e.form.operands[scalar].kind == "off":
        return e.b.add(e.read(vector, "b64"), offset)
    base = e.splat(e.read_scalar(scalar, "b64"))
    return e.b.add(e.b.add(base, e.convert(e.read(vector, "b32"), I64)), offset)


def skip_if_idle(e: Emitter) -> None:
    """Leave the helper if no lane is active: nothing is touched and nothing recorded."""
    with e.b.if_then(e.b.icmp_unsigned("==", e.exec_mask(), I64(0)), likely=False):
        e.b.ret_void()


def contiguous(e: Emitter, host: ir.Value, one_buffer: ir.Value, width: int) -> ir.Value:
    """Whether all 64 lanes are active and touch consecutive elements: the common case, served by wide moves."""
    values = e.b.load(host, typ=lanes_of(I64), align=64)
    first = e.splat(e.b.extract_element(values, I32(0)))
    steps = ir.Constant(lanes_of(I64), [lane * width for lane in range(LANES)])
    equal = e.b.bitcast(e.b.icmp_unsigned("==", values, e.b.add(first, steps)), I64)
    everyone = e.b.icmp_unsigned("==", e.b.and_(equal, e.exec_mask()), I64(-1))
    return e.b.and_(everyone, one_buffer)


def host_pointer(e: Emitter, host: ir.Value, lane: ir.Value) -> ir.Value:
    """Pointer to a lane's data."""
    return e.b.inttoptr(e.b.load(e.at(host, e.b.mul(lane, I64(8))), typ=I64), POINTER)


def lane_slot(e: Emitter, position: int, lane: ir.Value, row: int = 0) -> ir.Value:
    """Pointer to a lane's 32 bits in a vector-register operand."""
    return e.at(e.row(position, row), e.b.mul(lane, I64(4)))


def load_words(e: Emitter, position: int, host: ir.Value, one_buffer: ir.Value, words: int) -> None:
    """Load ``words`` x 32 bits a lane into consecutive rows."""
    width = 4 * words
    with e.b.if_else(contiguous(e, host, one_buffer, width), likely=True) as (wide, narrow):
        with wide:
            start = host_pointer(e, host, I64(0))
            block = e.b.load(start, typ=lanes_of(I32, LANES * words), align=1)
            for word in range(words):
                row = e.shuffle(block, [lane * words + word for lane in range(LANES)]) if words > 1 else block
                e.b.store(row, e.row(position, word), align=64)
        with narrow, e.for_each_lane(e.exec_mask()) as lane:
            data = e.b.load(host_pointer(e, host, lane), typ=lanes_of(I32, words), align=1)
            for word in range(words):
                e.b.store(e.b.extract_element(data, I32(word)), lane_slot(e, position, lane, word), align=4)


def store_words(e: Emitter, position: int, host: ir.Value, one_buffer: ir.Value, words: int) -> None:
    """Store ``words`` x 32 bits a lane from consecutive rows."""
    width = 4 * words
    with e.b.if_else(contiguous(e, host, one_buffer, width), likely=True) as (wide, narrow):
        with wide:
            rows = [e.b.load(e.row(position, word), typ=lanes_of(I32), align=64) for word in range(words)]
            block = interleave(e, rows)
            e.b.store(block, host_pointer(e, host, I64(0)), align=1)
        with narrow, e.for_each_lane(e.exec_mask()) as lane:
            data = ir.Constant(lanes_of(I32, words), ir.Undefined)
            for word in range(words):
                value = e.b.load(lane_slot(e, position, lane, word), typ=I32, align=4)
                data = e.b.insert_element(data, value, I32(word))
            e.b.store(data, host_pointer(e, host, lane), align=1)


def interleave(e: Emitter, rows: list[ir.Value]) -> ir.Value:
    """Rows of 64 words as one vector with each lane's words side by side."""
    if len(rows) == 1:
        return rows[0]
    if len(rows) == 3:
        rows = [*rows, rows[0]]
        quads = interleave(e, rows)
        return e.shuffle(quads, [4 * lane + word for lane in range(LANES) for word in range(3)])
    half = len(rows) // 2
    low = e.shuffle(rows[0], list(range(2 * LANES)), rows[1])
    if len(rows) == 2:
        return e.shuffle(low, [word * LANES + lane for lane in range(LANES) for word in range(2)])
    high = e.shuffle(rows[half], list(range(2 * LANES)), rows[half + 1])
    return e.shuffle(low, [word * LANES + lane for lane in range(LANES) for word in range(4)], high)


def load_small(e: Emitter, position: int, host: ir.Value, element: ir.IntType, *, signed: bool, half: int | None) -> None:
    """Load 8 or 16 bits a lane, extended to 32, or into one half of the register (the other is kept)."""
    with e.for_each_lane(e.exec_mask()) as lane:
        value = e.b.load(host_pointer(e, host, lane), typ=element, align=1)
        slot = lane_slot(e, position, lane)
        if half is None:
            e.b.store(e.convert(value, I32, signed=signed), slot, align=4)
        else:
            e.b.store(e.convert(value, I16, signed=signed), e.at(slot, 2 * half), align=2)


def store_small(e: Emitter, position: int, host: ir.Value, element: ir.IntType, *, half: int) -> None:
    """Store the low 8 or 16 bits of one half of the register."""
    with e.for_each_lane(e.exec_mask()) as lane:
        value = e.b.load(e.at(lane_slot(e, position, lane), 2 * half), typ=I16, align=2)
        e.b.store(e.convert(value, element), host_pointer(e, host, lane), align=1)


_WORDS = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4}
_SMALL_LOADS: dict[str, tuple[ir.IntType, bool, int | None]] = {
    "ubyte": (I8, False, None),
    "sbyte": (I8, True, None),
    "ushort": (I16, False, None),
    "sshort": (I16, True, None),
    "ubyte_d16": (I8, False, 0),
    "ubyte_d16_hi": (I8, False, 1),
    "sbyte_d16": (I8, True, 0),
    "sbyte_d16_hi": (I8, True, 1),
    "short_d16": (I16, False, 0),
    "short_d16_hi": (I16, False, 1),
}
_SMALL_STORES: dict[str, tuple[ir.IntType, int]] = {
    "byte": (I8, 0),
    "byte_d16_hi": (I8, 1),
    "short": (I16, 0),
    "short_d16_hi": (I16, 1),
}


def _loader(suffix: str) -> None:
    @raw(f"global_load_{suffix}", "b32 b64 b64", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        addresses = global_addresses(e, 1, 2)
        width = 4 * _WORDS[suffix] if suffix in _WORDS else _SMALL_LOADS[suffix][0].width // 8
        record(e, addresses)
        host, one_buffer = resolve(e, addresses, e.exec_mask(), width)
        if suffix in _WORDS:
            load_words(e, 0, host, one_buffer, _WORDS[suffix])
        else:
            element, signed, half = _SMALL_LOADS[suffix]
            load_small(e, 0, host, element, signed=signed, half=half)


def _storer(suffix: str) -> None:
    @raw(f"global_store_{suffix}", "b64 b32 b64", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        addresses = global_addresses(e, 0, 2)
        width = 4 * _WORDS[suffix] if suffix in _WORDS else _SMALL_STORES[suffix][0].width // 8
        record(e, addresses)
        host, one_buffer = resolve(e, addresses, e.exec_mask(), width)
        if suffix in _WORDS:
            store_words(e, 1, host, one_buffer, _WORDS[suffix])
        else:
            element, half = _SMALL_STORES[suffix]
            store_small(e, 1, host, element, half=half)


for _suffix in (*_WORDS, *_SMALL_LOADS):
    _loader(_suffix)
for _suffix in (*_WORDS, *_SMALL_STORES):
    _storer(_suffix)


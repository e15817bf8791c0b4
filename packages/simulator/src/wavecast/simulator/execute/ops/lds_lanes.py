"""Lane exchanges through the LDS crossbar: no LDS memory is touched, so nothing is recorded."""

from __future__ import annotations

import re

from llvmlite import ir

from wavecast.simulator.execute.builder import I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.transfer import each_lane

_BITS = 0x1F


def _lane_numbers(e: Emitter, position: int) -> ir.Value:
    """Lane that each lane names: (register + ``offset``) / 4, modulo 64."""
    offset = e.splat(e.convert(e.runtime_modifier("offset"), I32))
    address = e.b.add(e.load_rows(e.row(position)), offset)
    return e.b.and_(e.b.lshr(address, e.like(address, 2)), e.like(address, LANES - 1))


def _active_source(e: Emitter, position: int) -> ir.Value:
    """A register with 0 in the lanes that EXEC disables."""
    value = e.load_rows(e.row(position))
    return e.select(e.exec_lanes(), value, e.like(value, 0))


@raw("ds_bpermute_b32", "b32 b32 b32")
def _(e: Emitter) -> None:
    numbers, source = e.allocate(I32, LANES), e.allocate(I32, LANES)
    result = e.allocate(I32, LANES)
    e.b.store(_lane_numbers(e, 1), numbers, align=64)
    e.b.store(_active_source(e, 2), source, align=64)

    def move(lane: ir.Value) -> None:
        step = e.b.mul(lane, I64(4))
        number = e.b.zext(e.b.load(e.at(numbers, step), typ=I32, align=4), I64)
        value = e.b.load(e.at(source, e.b.mul(number, I64(4))), typ=I32, align=4)
        e.b.store(value, e.at(result, step), align=4)

    each_lane(e, e.exec_mask(), move)
    e.store_rows(e.row(0), e.load_rows(result))


@raw("ds_permute_b32", "b32 b32 b32")
def _(e: Emitter) -> None:
    numbers, source = e.allocate(I32, LANES), e.allocate(I32, LANES)
    result = e.allocate(I32, LANES)
    e.b.store(_lane_numbers(e, 1), numbers, align=64)
    e.b.store(e.load_rows(e.row(2)), source, align=64)
    zero = e.like(e.load_rows(numbers), 0)
    e.b.store(zero, result, align=64)

    # Ascending, so that of several lanes that name the same one the highest wins.
    def move(lane: ir.Value) -> None:
        step = e.b.mul(lane, I64(4))
        number = e.b.zext(e.b.load(e.at(numbers, step), typ=I32, align=4), I64)
        value = e.b.load(e.at(source, step), typ=I32, align=4)
        e.b.store(value, e.at(result, e.b.mul(number, I64(4))), align=4)

    each_lane(e, e.exec_mask(), move)
    e.store_rows(e.row(0), e.load_rows(result))


@raw("ds_swizzle_b32", "b32 b32")
def _(e: Emitter) -> None:
    pattern = e.form.modifier("offset", 0)
    source = _active_source(e, 1)
    e.store_rows(e.row(0), e.shuffle(source, swizzle_lanes(swizzle_pattern(pattern))))


def swizzle_pattern(offset: object) -> int:
    """The 16-bit pattern of ``offset:swizzle(…)`` or of a plain number.

    Raises:
        NotImplementedError: A mode that the assembler does not define.
    """
    if isinstance(offset, int):
        return offset & 0xFFFF
    match = re.fullmatch(r"swizzle\((\w+)(?:,(.*))?\)", str(offset).replace(" ", ""))
    if not match:
        raise NotImplementedError(f"offset:{offset}")
    mode, text = match[1], match[2] or ""
    if mode == "BITMASK_PERM":
        return _bitmask_pattern(text.strip('"'))
    numbers = [int(word, 0) for word in text.split(",")]
    if mode == "QUAD_PERM":
        return 0x8000 | sum(lane << 2 * place for place, lane in enumerate(numbers))
    if mode == "BROADCAST":
        group, lane = numbers
        return (_BITS & -group) | lane << 5
    if mode == "SWAP":
        return _BITS | numbers[0] << 10
    if mode == "REVERSE":
        return _BITS | (numbers[0] - 1) << 10
    if mode == "FFT":
        return 0xE000 | numbers[0]
    if mode == "ROTATE":
        direction, count = numbers
        return 0xC000 | direction << 10 | count << 5
    raise NotImplementedError(f"offset:{offset}")


def _bitmask_pattern(controls: str) -> int:
    """``"01pip"``, highest lane bit first: 0 and 1 set the bit, p keeps it, i inverts it."""
    keep = force = flip = 0
    for control in controls:
        keep, force, flip = keep << 1, force << 1, flip << 1
        keep |= control in "pi"
        force |= control == "1"
        flip |= control == "i"
    return keep | force << 5 | flip << 10


def swizzle_lanes(pattern: int) -> list[int]:
    """The lane that each lane reads. Groups of 32 lanes (or 4) do not mix."""
    if pattern >= 0xE000:
        return [lane & 32 | _butterfly(lane & _BITS, pattern & _BITS) for lane in range(LANES)]
    if pattern >= 0xC000:
        count, keep = pattern >> 5 & _BITS, pattern & _BITS
        if pattern & 0x400:
            count = -count
        return [lane & 32 | lane & keep | (lane + count) & _BITS & ~keep for lane in range(LANES)]
    if pattern & 0x8000:
        return [lane & ~3 | pattern >> 2 * (lane & 3) & 3 for lane in range(LANES)]
    keep, force, flip = (pattern >> 5 * field & _BITS for field in range(3))
    return [lane & 32 | (lane & keep | force) ^ flip for lane in range(LANES)]


def _butterfly(lane: int, keep: int) -> int:
    """Lane bits in reverse, the ones that ``keep`` names in place."""
    reversed_bits = int(f"{lane:05b}"[::-1], 2)
    return reversed_bits >> keep.bit_count() | lane & keep

"""LDS loads that transpose (gfx950): matrix operands whose contraction index does not lie side by side in LDS.

The data of 16 lanes in turn form rows of 16 elements; lane q of the 16 receives column q, first row first. That holds
for all element sizes: 4 rows of 16-bit elements, 8 of 8-bit, 16 of 6-bit and 16 of 4-bit ones.
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I8, I16, I32, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, RowKind
from wavecast.simulator.execute.ops.lds import lds_addresses, lds_places, record_lds
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.transfer import fetch, write_rows

_GROUP = 16


def _block(e: Emitter, bytes_a_lane: int) -> ir.Value:
    """What the lanes address, lane after lane, as bytes; lanes that EXEC disables contribute 0."""
    addresses = lds_addresses(e, 1)
    record_lds(e, addresses)
    pointer = fetch(e, lds_places(e, addresses, bytes_a_lane), bytes_a_lane, clear=True)
    return e.b.load(pointer, typ=lanes_of(I8, LANES * bytes_a_lane), align=1)


def _write_block(e: Emitter, block: ir.Value) -> None:
    """Write 64 bits a lane, lane after lane, to the destination pair."""
    words = e.b.bitcast(block, lanes_of(I32, 2 * LANES))
    write_rows(e, 0, [e.shuffle(words, list(range(word, 2 * LANES, 2))) for word in range(2)])


def _whole_bytes(opcode: str, element: ir.IntType) -> None:
    @raw(opcode, "b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        rows = 64 // element.width
        block = e.b.bitcast(_block(e, 8), lanes_of(element, LANES * rows))
        order = [
            first * rows + row * _GROUP + column
            for first in range(0, LANES, _GROUP)
            for column in range(_GROUP)
            for row in range(rows)
        ]
        _write_block(e, e.shuffle(block, order))


_whole_bytes("ds_read_b64_tr_b16", I16)
_whole_bytes("ds_read_b64_tr_b8", I8)


@raw("ds_read_b64_tr_b4", "b32 b32", kind=RowKind.MEMORY)
def _(e: Emitter) -> None:
    block = _block(e, 8)
    # Byte j of lane q takes nibble q of rows 2j and 2j + 1: byte q // 2 of the lanes that hold them.
    even, odd = (
        e.shuffle(
            block,
            [
                (first + 2 * pair + parity) * 8 + column // 2
                for first in range(0, LANES, _GROUP)
                for column in range(_GROUP)
                for pair in range(8)
            ],
        )
        for parity in range(2)
    )
    four = e.like(even, 4)
    low_column = e.b.or_(e.b.and_(even, e.like(even, 0xF)), e.b.shl(odd, four))
    high_column = e.b.or_(e.b.lshr(even, four), e.b.and_(odd, e.like(odd, 0xF0)))
    is_high = [lane % 2 for lane in range(LANES) for _ in range(8)]
    chosen = ir.Constant(lanes_of(ir.IntType(1), 8 * LANES), is_high)
    _write_block(e, e.select(chosen, high_column, low_column))


@raw("ds_read_b96_tr_b6", "b32 b32", kind=RowKind.MEMORY)
def _(e: Emitter) -> None:
    block = _block(e, 12)
    lanes = [divmod(lane, _GROUP) for lane in range(LANES)]
    shifts = ir.Constant(lanes_of(I16), [6 * column % 8 for _, column in lanes])
    words: list[ir.Value] = [e.constant(lanes_of(I32), 0)] * 3
    for row in range(_GROUP):
        # Six bits lie in two bytes at most; the second may be the next element's, and is masked away.
        bytes_of_row = [
            (group * _GROUP + row) * 12 + min(6 * column // 8 + byte, 11)
            for group, column in lanes
            for byte in range(2)
        ]
        window = e.b.bitcast(e.shuffle(block, bytes_of_row), lanes_of(I16))
        bits = e.convert(e.b.and_(e.b.lshr(window, shifts), e.like(window, 0x3F)), I32)
        place = 6 * row
        for word in range(place // 32, (place + 5) // 32 + 1):
            shift = place - 32 * word
            part = e.b.shl(bits, e.like(bits, shift)) if shift >= 0 else e.b.lshr(bits, e.like(bits, -shift))
            words[word] = e.b.or_(words[word], part)
    write_rows(e, 0, words)

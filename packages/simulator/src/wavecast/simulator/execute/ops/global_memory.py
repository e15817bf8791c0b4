"""Global and flat loads and stores."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.address import global_places, record
from wavecast.simulator.execute.builder import I8, I16, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.flat import flat_places
from wavecast.simulator.execute.layout import RowKind
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.transfer import (
    Places,
    SmallLoad,
    fetch_small,
    fetch_words,
    read_rows,
    spread_small,
    spread_words,
    write_rows,
)

# Suffixes that global, flat, buffer and scratch instructions share.
WORDS = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4}
SMALL_LOADS = {
    "ubyte": SmallLoad(I8),
    "sbyte": SmallLoad(I8, signed=True),
    "ushort": SmallLoad(I16),
    "sshort": SmallLoad(I16, signed=True),
    "ubyte_d16": SmallLoad(I8, half=0),
    "ubyte_d16_hi": SmallLoad(I8, half=1),
    "sbyte_d16": SmallLoad(I8, signed=True, half=0),
    "sbyte_d16_hi": SmallLoad(I8, signed=True, half=1),
    "short_d16": SmallLoad(I16, half=0),
    "short_d16_hi": SmallLoad(I16, half=1),
}
SMALL_STORES: dict[str, tuple[ir.IntType, int]] = {
    "byte": (I8, 0),
    "byte_d16_hi": (I8, 1),
    "short": (I16, 0),
    "short_d16_hi": (I16, 1),
}
LOADS = (*WORDS, *SMALL_LOADS)
STORES = (*WORDS, *SMALL_STORES)


def width_of_load(suffix: str) -> int:
    """Bytes a lane loads."""
    return 4 * WORDS[suffix] if suffix in WORDS else SMALL_LOADS[suffix].element.width // 8


def width_of_store(suffix: str) -> int:
    """Bytes a lane stores."""
    return 4 * WORDS[suffix] if suffix in WORDS else SMALL_STORES[suffix][0].width // 8


def load(e: Emitter, suffix: str, position: int, places: Places, *, clear: bool = False) -> None:
    """Load into the operand at ``position``; active lanes outside the mask become 0 (``clear``) or anything."""
    if suffix in WORDS:
        write_rows(e, position, fetch_words(e, places, WORDS[suffix], clear=clear))
    else:
        old = e.load_rows(e.row(position))
        write_rows(e, position, [fetch_small(e, places, SMALL_LOADS[suffix], old, clear=clear)])


def store(e: Emitter, suffix: str, position: int, places: Places) -> None:
    """Store the operand at ``position``."""
    if suffix in WORDS:
        spread_words(e, places, read_rows(e, position, WORDS[suffix]))
    else:
        element, half = SMALL_STORES[suffix]
        spread_small(e, places, element, e.load_rows(e.row(position)), half=half)


def global_addresses(e: Emitter, vector: int, scalar: int | None) -> ir.Value:
    """Device addresses <64 x i64>, ``offset`` included.

    Args:
        e: The helper.
        vector: Operand with 64-bit addresses, or with unsigned 32-bit offsets if there is a scalar base.
        scalar: Operand with the scalar base or ``off``; None for flat instructions, which have neither.
    """
    offset = e.runtime_modifier("offset")
    if scalar is None or e.form.operands[scalar].kind == "off":
        return e.b.add(e.load_rows(e.row(vector), 64), e.splat(offset))
    base = e.b.add(e.read_scalar(scalar, "b64"), offset)
    return e.b.add(e.splat(base), e.convert(e.load_rows(e.row(vector)), I64))


def skip_if_idle(e: Emitter) -> None:
    """Leave the helper if no lane is active: nothing is touched and nothing recorded."""
    with e.b.if_then(e.b.icmp_unsigned("==", e.exec_mask(), I64(0)), likely=False):
        e.b.ret_void()


def recorded_places(e: Emitter, segment: str, addresses: ir.Value, width: int) -> Places:
    """Places of the active lanes of a ``global`` or ``flat`` instruction, and its trace record."""
    if segment == "flat":
        return flat_places(e, addresses, width)
    record(e, addresses)
    return global_places(e, addresses, e.exec_mask(), width)


def _loader(segment: str, suffix: str) -> None:
    scalar = 2 if segment == "global" else None

    @raw(f"{segment}_load_{suffix}", "b32 b64 b64", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        addresses = global_addresses(e, 1, scalar)
        load(e, suffix, 0, recorded_places(e, segment, addresses, width_of_load(suffix)))


def _storer(segment: str, suffix: str) -> None:
    scalar = 2 if segment == "global" else None

    @raw(f"{segment}_store_{suffix}", "b64 b32 b64", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        addresses = global_addresses(e, 0, scalar)
        store(e, suffix, 1, recorded_places(e, segment, addresses, width_of_store(suffix)))


for _segment in ("global", "flat"):
    for _suffix in LOADS:
        _loader(_segment, _suffix)
    for _suffix in STORES:
        _storer(_segment, _suffix)

"""Loads from global memory straight into LDS.

A lane's element goes to M0 + ``offset`` + lane x element size; 8 and 16 bits are extended to a word. The same
``offset`` is part of the global address. All 32 bits of M0 count: gfx950's LDS needs more than the 16 of older parts.
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.address import global_places, record
from wavecast.simulator.execute.builder import I32, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, RowKind
from wavecast.simulator.execute.ops.global_memory import (
    SMALL_LOADS,
    WORDS,
    global_addresses,
    skip_if_idle,
    width_of_load,
)
from wavecast.simulator.execute.ops.lds import lds_places
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.trace import RecordKind
from wavecast.simulator.execute.transfer import Places, fetch_small, fetch_words, spread_words
from wavecast.simulator.program.instruction import M0

# gfx942 has the one-word forms, gfx950 those of three and four words too.
_SUFFIXES = ("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4")


def load_to_lds(e: Emitter, suffix: str, places: Places) -> None:
    """Copy the lanes' elements to LDS; active lanes outside the mask write 0."""
    if suffix not in _SUFFIXES:
        raise NotImplementedError(f"{suffix} straight into LDS")
    words = WORDS.get(suffix, 1)
    if suffix in WORDS:
        rows = fetch_words(e, places, words, clear=True)
    else:
        rows = [fetch_small(e, places, SMALL_LOADS[suffix], e.constant(lanes_of(I32), 0), clear=True)]
    start = e.b.add(e.scalar_load(M0), e.convert(e.runtime_modifier("offset"), I32))
    steps = ir.Constant(lanes_of(I32), [4 * words * lane for lane in range(LANES)])
    targets = e.b.add(e.splat(start), steps)
    record(e, e.convert(targets, I64), kind=RecordKind.LDS_SIDE)
    spread_words(e, lds_places(e, targets, 4 * words), rows)


def _loader(suffix: str) -> None:
    @raw(f"global_load_lds_{suffix}", "b64 b64", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        addresses = global_addresses(e, 0, 1)
        record(e, addresses)
        load_to_lds(e, suffix, global_places(e, addresses, e.exec_mask(), width_of_load(suffix)))


for _suffix in _SUFFIXES:
    _loader(_suffix)

# mypy: ignore-errors
"""Device code of a meeting of all ranks: what was put on their streams before is there for what comes after.

Between two meetings a kernel may copy what the others are to read: one launch then does what a barrier, a copy for each
target and another barrier would, and launches are what a short call costs.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.async_tp.device_signals import finish_stores, report_failure, same_in_all_lanes, wait_for_signal
from wavecast.kernels.async_tp.selection import MOST_SIGNALS

PLACE = tl.constexpr(MOST_SIGNALS + 1)
"""First of the words of a pad, one a rank, that tell which meeting its rank has come to."""

MEETING = tl.constexpr(0)
"""Word of the state that holds the number of the next meeting, from 1 on."""
COPIED = tl.constexpr(1)
"""Word of the state that counts the programs that have copied."""
STATE_WORDS = 2
"""Words of the state."""


@triton.jit
def copy_blocks(source_ptr, target_ptr, other_ptr, count, BLOCK: tl.constexpr):
    """Copy this program's blocks of ``count`` elements to one place, and to another one if there is one."""
    at = tl.program_id(0).to(tl.int64) * BLOCK
    while at < count:
        index = at + tl.arange(0, BLOCK)
        value = tl.load(source_ptr + index, mask=index < count)
        if target_ptr is not None:
            tl.store(target_ptr + index, value, mask=index < count)
        if other_ptr is not None:
            tl.store(other_ptr + index, value, mask=index < count)
        at += tl.num_programs(0).to(tl.int64) * BLOCK


@triton.jit
def tell_all(pads_ptr, rank, ranks, meeting, word_ptr):
    """Tell every rank that this one has come to a meeting; ``word_ptr`` is any pointer to words."""
    for other in range(ranks):
        pad_ptr = tl.load(pads_ptr + other).to(word_ptr.dtype)
        tl.atomic_xchg(pad_ptr + PLACE + rank, meeting, sem="release", scope="sys")


@triton.jit
def wait_for_all(pads_ptr, rank, ranks, meeting, polls, failure_ptr, word_ptr, ON_GFX: tl.constexpr):
    """Whether every other rank has come to a meeting."""
    there = True
    place_ptr = tl.load(pads_ptr + rank).to(word_ptr.dtype) + PLACE
    other = rank * 0
    while other < ranks:
        if other != rank:
            seen = wait_for_signal(place_ptr + other, meeting, polls, ON_GFX)
            if seen - meeting < 0:
                report_failure(failure_ptr, other, meeting, seen, ON_GFX)
                there = False
                other = ranks
        other += 1
    return there


@triton.jit(do_not_specialize=["rank", "ranks", "polls"])
def meet_kernel(
    rows_ptr, rows_target_ptr, rows_other_ptr, scales_ptr, scales_target_ptr, scales_other_ptr, pads_ptr, state_ptr,
    failure_ptr, row_count, scale_count, rank, ranks, polls, BLOCK: tl.constexpr, ON_GFX: tl.constexpr,
):  # fmt: skip
    """Wait until every rank has come here. If there is something to copy, copy it then, and wait until every rank has.

    What is copied to may be what others still read, until they come. Programs that copy count themselves, and the last
    one meets the others: no program waits for one of its own grid, but for the first one of every other rank's.

    Args:
        rows_ptr, scales_ptr: what is copied, to two targets each; None where nothing is.
        pads_ptr: int64 address of every rank's signal pad.
        state_ptr: `MEETING` and `COPIED`.
        failure_ptr: 4 words, see `report_failure`.
        row_count, scale_count: elements of both.
        polls: of a rank that does not come.
    """
    meeting = tl.load(state_ptr + MEETING)
    if tl.program_id(0) == 0:
        tell_all(pads_ptr, rank, ranks, meeting, state_ptr)
    there = wait_for_all(pads_ptr, rank, ranks, meeting, polls, failure_ptr, state_ptr, ON_GFX)
    if (rows_ptr is None) and (scales_ptr is None):
        tl.store(state_ptr + MEETING, meeting + 1)
    else:
        if there:
            if rows_ptr is not None:
                copy_blocks(rows_ptr, rows_target_ptr, rows_other_ptr, row_count, BLOCK)
            if scales_ptr is not None:
                copy_blocks(scales_ptr, scales_target_ptr, scales_other_ptr, scale_count, BLOCK)
        finish_stores(ON_GFX)
        copied = same_in_all_lanes(tl.atomic_add(state_ptr + COPIED, 1, sem="acq_rel", scope="sys"), ON_GFX)
        if copied == tl.num_programs(0) - 1:
            # Who has given up has told nobody: the others give up too, instead of reading what was not copied.
            if there:
                tell_all(pads_ptr, rank, ranks, meeting + 1, state_ptr)
                wait_for_all(pads_ptr, rank, ranks, meeting + 1, polls, failure_ptr, state_ptr, ON_GFX)
            tl.store(state_ptr + COPIED, 0)
            tl.store(state_ptr + MEETING, meeting + 2)

# mypy: ignore-errors
"""Device code of a meeting of all ranks: what was put on their streams before is there for what comes after.

Before it, a kernel that meets may copy what the others are to read: one launch then does what a copy for each target
and a barrier behind them would, and launches are what a short call costs.
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
def copy_block(source_ptr, target_ptr, other_ptr, count, BLOCK: tl.constexpr):
    """Copy this program's block of ``count`` elements to one place, and to another one if there is one."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source_ptr + index, mask=index < count)
    if target_ptr is not None:
        tl.store(target_ptr + index, value, mask=index < count)
    if other_ptr is not None:
        tl.store(other_ptr + index, value, mask=index < count)


@triton.jit(do_not_specialize=["rank", "ranks", "polls"])
def meet_kernel(
    rows_ptr, rows_target_ptr, rows_other_ptr, scales_ptr, scales_target_ptr, scales_other_ptr, pads_ptr, state_ptr,
    failure_ptr, row_count, scale_count, rank, ranks, polls, BLOCK: tl.constexpr, ON_GFX: tl.constexpr,
):  # fmt: skip
    """Copy, then wait until every rank has.

    Programs that copy count themselves, and the last one meets the others: no program waits for one that has not begun.

    Args:
        rows_ptr, scales_ptr: what is copied, to two targets each; None where nothing is.
        pads_ptr: int64 address of every rank's signal pad.
        state_ptr: `MEETING` and `COPIED`.
        failure_ptr: 4 words, see `report_failure`.
        row_count, scale_count: elements of both.
        polls: of a rank that does not come.
    """
    if rows_ptr is not None:
        copy_block(rows_ptr, rows_target_ptr, rows_other_ptr, row_count, BLOCK)
    if scales_ptr is not None:
        copy_block(scales_ptr, scales_target_ptr, scales_other_ptr, scale_count, BLOCK)
    finish_stores(ON_GFX)
    copied = same_in_all_lanes(tl.atomic_add(state_ptr + COPIED, 1, sem="acq_rel", scope="sys"), ON_GFX)
    if copied == tl.num_programs(0) - 1:
        meeting = tl.load(state_ptr + MEETING)
        for other in range(ranks):
            pad_ptr = tl.load(pads_ptr + other).to(state_ptr.dtype)
            tl.atomic_xchg(pad_ptr + PLACE + rank, meeting, sem="release", scope="sys")
        own_ptr = tl.load(pads_ptr + rank).to(state_ptr.dtype) + PLACE
        other = rank * 0
        while other < ranks:
            seen = wait_for_signal(own_ptr + other, meeting, polls, ON_GFX)
            if seen - meeting < 0:
                report_failure(failure_ptr, other, meeting, seen, ON_GFX)
                other = ranks
            other += 1
        tl.store(state_ptr + COPIED, 0)
        tl.store(state_ptr + MEETING, meeting + 1)

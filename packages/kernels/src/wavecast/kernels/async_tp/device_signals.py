# mypy: ignore-errors
"""Device functions that wait for signals and count calls, shared by the kernels that overlap with transfers.

A signal is an int32 that is written once a call, with the number of the call. The number is in device memory, where the
kernel itself raises it when its last program is through: a captured call, replayed, waits for another number each time,
and a signal of an earlier call is none of this one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.async_tp.selection import MOST_SIGNALS
from wavecast.kernels.grouped_gemm.plan import XCDS

CALL = tl.constexpr(0)
"""Word of the state that holds the number of the call, from 1 on."""
DONE = tl.constexpr(1)
"""Word of the state that counts the programs that are through."""
FETCHED = tl.constexpr(2)
"""First of the words of the state, one a signal, that count the fetchers that are through with its rows."""
TURNS = tl.constexpr(2 + MOST_SIGNALS)
"""First of the words of the state, one a die, that count the turns of tiles that its programs have taken."""
STATE_WORDS = 2 + MOST_SIGNALS + XCDS
"""Words of the state."""


@triton.jit
def pause(ON_GFX: tl.constexpr):
    """Do nothing for some hundred cycles: a poll must not keep the memory busy that it waits for."""
    if ON_GFX:
        tl.inline_asm_elementwise("s_sleep 4", "=v,0", [0], dtype=tl.int32, is_pure=False, pack=1)
    else:
        tl.inline_asm_elementwise("nanosleep.u32 100; mov.u32 $0, $1;", "=r,r", [0], dtype=tl.int32, is_pure=False,
                                  pack=1)  # fmt: skip


@triton.jit
def same_in_all_lanes(x, ON_GFX: tl.constexpr):
    """x, as a value of which AMD's compiler knows that all lanes have the same.

    An atomic's result comes to the lanes through LDS, where it does not. A loop that ends by such a value would be
    compiled as one that some lanes may leave before others, and barriers cannot be part of that.
    """
    if ON_GFX:
        x = tl.inline_asm_elementwise("v_readfirstlane_b32 $0, $1", "=s,v", [x], dtype=x.dtype, is_pure=False, pack=1)
    return x


@triton.jit
def poll(signal_ptr, SEM: tl.constexpr, ON_GFX: tl.constexpr):
    """The value of a signal, read by one thread for all."""
    return same_in_all_lanes(tl.atomic_add(signal_ptr, 0, sem=SEM, scope="sys"), ON_GFX)


@triton.jit
def wait_for_signal(signal_ptr, expected, polls, ON_GFX: tl.constexpr):
    """Wait until a signal has reached ``expected``; what was written before it is then seen by the whole program.

    One thread polls, and acquires at system scope once, when it has seen the value: an acquire drops lines of the
    caches of which others on the same die live. The barrier hands that on to the other waves, whose loads
    would otherwise be free to go first.

    Args:
        signal_ptr: the word.
        expected: number of the call; numbers are compared modulo 2^32.
        polls: after how many to give up.

    Returns:
        The value that was seen last; below ``expected`` where the wait was given up.
    """
    seen = expected - 1
    left = polls
    while (seen - expected < 0) & (left > 0):
        seen = poll(signal_ptr, "relaxed", ON_GFX)
        left -= 1
        # Where it stands, at the end: a loop that ended with the read of one thread would be split by AMD's compiler
        # into one of that thread and one of the others, each with barriers of its own.
        pause(ON_GFX)
    if seen - expected >= 0:
        seen = poll(signal_ptr, "acquire", ON_GFX)
        tl.debug_barrier()
    return seen


@triton.jit
def finish_stores(ON_GFX: tl.constexpr):
    """Wait until the stores of all waves of this program are through, so that one thread can release them.

    On AMD a release by one wave is of what has come to the caches, and the barrier by itself waits for LDS alone: each
    wave waits for its own stores first.
    """
    if ON_GFX:
        tl.inline_asm_elementwise("s_waitcnt vmcnt(0)", "=v,0", [0], dtype=tl.int32, is_pure=False, pack=1)
    tl.debug_barrier()


@triton.jit
def count_and_signal(count_ptr, parts, signal_ptr, call, ON_GFX: tl.constexpr):
    """Count a part of a chunk as written; the one that counts the last sets the signal, at system scope."""
    finish_stores(ON_GFX)
    counted = same_in_all_lanes(tl.atomic_add(count_ptr, 1, sem="release", scope="sys"), ON_GFX)
    if counted == parts - 1:
        tl.atomic_xchg(count_ptr, 0, sem="acquire", scope="sys")
        tl.atomic_xchg(signal_ptr, call, sem="release", scope="sys")


@triton.jit
def report_failure(failure_ptr, index, expected, seen, ON_GFX: tl.constexpr):
    """Keep the first signal that did not come: (1, its index, the expected value, the seen one)."""
    first = same_in_all_lanes(tl.atomic_cas(failure_ptr, 0, 1, sem="relaxed", scope="sys"), ON_GFX)
    if first == 0:
        tl.store(failure_ptr + 1, index)
        tl.store(failure_ptr + 2, expected)
        tl.store(failure_ptr + 3, seen)


@triton.jit
def take_turn(state_ptr, die, ON_GFX: tl.constexpr):
    """The number of a turn that no other program of a die has taken."""
    return same_in_all_lanes(tl.atomic_add(state_ptr + TURNS + die, 1, sem="relaxed", scope="gpu"), ON_GFX)


@triton.jit
def finish_call(state_ptr, call, programs, ON_GFX: tl.constexpr, LAST: tl.constexpr = True, DIES: tl.constexpr = 0):
    """The last program that comes here raises the number of the call; all have read it by then.

    Args:
        LAST: whether no further launch belongs to the call.
        DIES: whose programs have taken turns, which begin anew.
    """
    done = same_in_all_lanes(tl.atomic_add(state_ptr + DONE, 1, sem="acq_rel", scope="gpu"), ON_GFX)
    if done == programs - 1:
        tl.store(state_ptr + DONE, 0)
        for die in tl.static_range(DIES):
            tl.store(state_ptr + TURNS + die, 0)
        if LAST:
            tl.store(state_ptr + CALL, call + 1)

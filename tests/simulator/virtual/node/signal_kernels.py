"""Small kernels that wait for signals, and what tests build of them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def wait_kernel(signals, index, value):
    """Poll a word until it has a value."""
    while tl.atomic_add(signals + index, 0, sem="acquire", scope="sys") != value:
        pass


@triton.jit
def sum_chunks_kernel(
    gathered,
    signals,
    result,
    first,
    CHUNKS: tl.constexpr,
    SIZE: tl.constexpr,
    WAITS: tl.constexpr,
    OFF: tl.constexpr = 0,
):
    """One workgroup a chunk, from ``first`` on: wait for its signal, then write its elements plus its number.

    It waits for the signal of the chunk that is ``OFF`` further, which is right for 0 alone.
    """
    chunk = (tl.program_id(0) + first) % CHUNKS
    if WAITS:
        while tl.atomic_add(signals + (chunk + OFF) % CHUNKS, 0, sem="acquire", scope="sys") != 1:
            pass
    place = chunk * SIZE + tl.arange(0, SIZE)
    tl.store(result + place, tl.load(gathered + place) + chunk)


@triton.jit
def produce_kernel(window, signals, count, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    """Write squares to another rank's window, then say so; the other way round if EARLY."""
    place = tl.arange(0, BLOCK)
    if EARLY:
        tl.atomic_xchg(signals, 1, sem="release", scope="sys")
    tl.store(window + place, place * place, mask=place < count)
    if not EARLY:
        tl.debug_barrier()
        tl.atomic_xchg(signals, 1, sem="release", scope="sys")


@triton.jit
def consume_kernel(window, signals, result, count, BLOCK: tl.constexpr):
    """Wait for the signal and copy what is in the own window."""
    while tl.atomic_add(signals, 0, sem="acquire", scope="sys") != 1:
        pass
    place = tl.arange(0, BLOCK)
    tl.store(result + place, tl.load(window + place, mask=place < count), mask=place < count)


@triton.jit
def patient_kernel(signals, value, seen, most):
    """Poll a word until it has a value, or so many times; write what was seen, and how many polls it took."""
    polls = 0
    found = tl.atomic_add(signals, 0, sem="acquire", scope="sys")
    while (found != value) & (polls < most):
        found = tl.atomic_add(signals, 0, sem="acquire", scope="sys")
        polls += 1
    tl.store(seen, found)
    tl.store(seen + 1, polls)


@triton.jit
def chunk_sum_kernel(gathered, signals, total, SIZE: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    """Wait for a signal, with an acquire of some scope or none, and sum the chunk that it tells of."""
    while tl.atomic_add(signals, 0, sem=SEM, scope=SCOPE) != 1:
        pass
    tl.store(total, tl.sum(tl.load(gathered + tl.arange(0, SIZE)), axis=0))

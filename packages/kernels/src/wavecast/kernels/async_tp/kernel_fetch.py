# mypy: ignore-errors
"""Device code of workgroups that fetch chunks of other ranks, within a kernel whose other workgroups wait for them."""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.async_tp.device_signals import FETCHED, count_and_signal


@triton.jit
def fetch_part(target_ptr, source_ptr, count, part, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Copy every PARTS-th block of ``count`` elements, from the ``part``-th on."""
    index = tl.arange(0, BLOCK)
    at = part.to(tl.int64) * BLOCK
    while at < count:
        inside = index < count - at
        tl.store(target_ptr + at + index, tl.load(source_ptr + at + index, mask=inside), mask=inside)
        at += PARTS * BLOCK


@triton.jit
def fetch_chunks(
    gathered_ptr, scales_ptr, windows_ptr, signals_ptr, state_ptr, call, chunk_elements, chunk_scales, scales_at, rank,
    ranks, SCALES: tl.constexpr, FETCHERS: tl.constexpr, BLOCK: tl.constexpr, ON_GFX: tl.constexpr,
):  # fmt: skip
    """Copy the others' chunks out of their windows, one after another; signal each when all fetchers are through.

    Args:
        gathered_ptr: where chunks go, one after another in the order of ranks.
        scales_ptr: where their scales go, if SCALES.
        windows_ptr: int64 address of every rank's window.
        chunk_elements: of a chunk, in gathered_ptr's type.
        chunk_scales: scales of a chunk.
        scales_at: byte of a window from which on its scales are.
    """
    part = tl.program_id(0)
    for step in range(1, ranks):
        source = rank + step
        source = tl.where(source >= ranks, source - ranks, source)
        window = tl.load(windows_ptr + source)
        target_ptr = gathered_ptr + source.to(tl.int64) * chunk_elements
        fetch_part(target_ptr, window.to(gathered_ptr.dtype), chunk_elements, part, FETCHERS, BLOCK)
        if SCALES:
            source_ptr = (window + scales_at).to(scales_ptr.dtype)
            fetch_part(scales_ptr + source.to(tl.int64) * chunk_scales, source_ptr, chunk_scales, part, FETCHERS, 1024)
        count_and_signal(state_ptr + FETCHED + source, FETCHERS, signals_ptr + source, call, ON_GFX)

# mypy: ignore-errors
"""Device code of workgroups that fetch chunks of other ranks, within a kernel whose other workgroups wait for them."""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import issued_here_scalar
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
    gathered_ptr, scales_ptr, windows_ptr, signals_ptr, state_ptr, call, row_elements, shard_rows, signal_rows,
    scales_at, rank, ranks, SCALES: tl.constexpr, FETCHERS: tl.constexpr, PEERS: tl.constexpr, BLOCK: tl.constexpr,
    ON_GFX: tl.constexpr,
):  # fmt: skip
    """Copy the others' chunks out of their windows, from PEERS of them at a time; signal what all its fetchers have.

    Args:
        gathered_ptr: where chunks go, one after another in the order of ranks.
        scales_ptr: where their scales go, one a row, if SCALES.
        windows_ptr: int64 address of every rank's window.
        row_elements: of a row, in gathered_ptr's type.
        shard_rows: rows of a chunk.
        signal_rows: rows of a signal; those of a chunk are behind one another, in the order of ranks.
        scales_at: byte of a window from which on its scales are.
        FETCHERS: programs that fetch, a multiple of PEERS: as many from each.
    """
    PARTS: tl.constexpr = FETCHERS // PEERS
    part = tl.program_id(0) // PEERS
    signals = tl.cdiv(shard_rows, signal_rows)
    for step in range(1 + tl.program_id(0) % PEERS, ranks, PEERS):
        source = rank + step
        source = tl.where(source >= ranks, source - ranks, source)
        window = tl.load(windows_ptr + source)
        signal = source * signals
        for row in range(0, shard_rows, signal_rows):
            # Scalar registers are few: what is made of these is not made for all rounds before the first one.
            row_elements = issued_here_scalar(row_elements, ON_GFX)
            source = issued_here_scalar(source, ON_GFX)
            rows = tl.minimum(signal_rows, shard_rows - row)
            start = row.to(tl.int64) * row_elements
            target_ptr = gathered_ptr + source.to(tl.int64) * shard_rows * row_elements + start
            fetch_part(target_ptr, window.to(gathered_ptr.dtype) + start, rows.to(tl.int64) * row_elements, part, PARTS,
                       BLOCK)  # fmt: skip
            if SCALES:
                source_ptr = (window + scales_at).to(scales_ptr.dtype) + row
                fetch_part(scales_ptr + source.to(tl.int64) * shard_rows + row, source_ptr, rows, part, PARTS, 1024)
            count_and_signal(state_ptr + FETCHED + signal, PARTS, signals_ptr + signal, call, ON_GFX)
            signal += 1

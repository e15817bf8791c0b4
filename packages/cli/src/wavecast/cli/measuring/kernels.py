"""Device code of measurements: an empty kernel, and the probes that pin the constants of a device.

Sizes are in elements unless their name says otherwise. Nothing that is read is thrown away: a program stores what it
has summed, so that no compiler may leave a load out.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def empty_kernel():
    """Do nothing."""


@triton.jit
def read_kernel(source_ptr, out_ptr, blocks, repeats, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Every program reads UNROLL blocks and those as many programs apart, ``repeats`` times; past L1."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for _ in range(repeats):
        for block in range(tl.program_id(0) * UNROLL, blocks, tl.num_programs(0) * UNROLL):
            offset = block.to(tl.int64) * BLOCK
            for part in tl.static_range(UNROLL):
                total ^= tl.load(source_ptr + offset + part * BLOCK + lanes, cache_modifier=".cg").to(tl.int32)
    tl.store(out_ptr + tl.program_id(0), tl.xor_sum(total, 0))


@triton.jit
def write_kernel(target_ptr, blocks, repeats, value, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Write the blocks that `read_kernel` would read."""
    lanes = tl.arange(0, BLOCK)
    for repeat in range(repeats):
        content = tl.full((BLOCK,), 0, tl.int32) + value + repeat
        for block in range(tl.program_id(0) * UNROLL, blocks, tl.num_programs(0) * UNROLL):
            offset = block.to(tl.int64) * BLOCK
            for part in tl.static_range(UNROLL):
                tl.store(target_ptr + offset + part * BLOCK + lanes, content.to(target_ptr.dtype.element_ty))


@triton.jit
def copy_kernel(source_ptr, target_ptr, blocks, repeats, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Copy them."""
    lanes = tl.arange(0, BLOCK)
    for _ in range(repeats):
        for block in range(tl.program_id(0) * UNROLL, blocks, tl.num_programs(0) * UNROLL):
            offset = block.to(tl.int64) * BLOCK
            for part in tl.static_range(UNROLL):
                place = offset + part * BLOCK + lanes
                tl.store(target_ptr + place, tl.load(source_ptr + place, cache_modifier=".cg"))


@triton.jit
def strided_read_kernel(source_ptr, out_ptr, blocks, stride, BLOCK: tl.constexpr):
    """Read every ``stride``-th element; a block is BLOCK of them."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        offset = block.to(tl.int64) * BLOCK * stride
        total ^= tl.load(source_ptr + offset + lanes * stride)
    tl.store(out_ptr + tl.program_id(0), tl.xor_sum(total, 0))


@triton.jit
def scattered_write_kernel(target_ptr, row_bytes, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Store bytes, lanes in different rows: each program COLUMNS neighbours in each of ROWS rows, column by column."""
    offsets = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64) * row_bytes
    for column in tl.static_range(COLUMNS):
        tl.store(target_ptr + offsets + column, tl.full((ROWS,), column + 1, tl.int8))


@triton.jit
def chase_kernel(next_ptr, start_ptr, out_ptr, steps, LANES: tl.constexpr):
    """Follow a chain of indices, all lanes the same one; the first comes from memory, so that it is a vector's."""
    place = tl.load(start_ptr + tl.arange(0, LANES))
    for _ in range(steps):
        place = tl.load(next_ptr + place)
    tl.store(out_ptr + tl.arange(0, LANES), place)


@triton.jit
def atomic_chain_kernel(counter_ptr, out_ptr, steps, SEM: tl.constexpr, SCOPE: tl.constexpr, LANES: tl.constexpr):
    """One lane adds, and each addition waits for the one before; a vector, whose result no other lane has to get."""
    lanes = tl.arange(0, LANES)
    before = tl.zeros((LANES,), tl.int32)
    for _ in range(steps):
        before = tl.atomic_add(counter_ptr + lanes, 1 + (before >> 30), mask=lanes == 0, sem=SEM, scope=SCOPE)
    tl.store(out_ptr + lanes, before)


@triton.jit
def fence_after_store_kernel(target_ptr, counters_ptr, steps, BLOCK: tl.constexpr, SEM: tl.constexpr):
    """Every program stores a block, and one of its lanes then adds to a counter of its own, again and again."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    before = tl.zeros((BLOCK,), tl.int32)
    for step in range(steps):
        tl.store(target_ptr + program * BLOCK + lanes, step + (before >> 30))
        before = tl.atomic_add(counters_ptr + program * BLOCK + lanes, 1, mask=lanes == 0, sem=SEM, scope="gpu")


@triton.jit
def atomic_spread_kernel(target_ptr, addresses, repeats, BLOCK: tl.constexpr):
    """Every lane adds to an address of its own, of ``addresses``, a power of two; of one, all to the same."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for repeat in range(repeats):
        place = (lanes + repeat * 7919 * 32) & (addresses - 1)
        tl.atomic_add(target_ptr + place, 1.0, sem="relaxed")


@triton.jit
def exchange_kernel(source_ptr, out_ptr, repeats, SIDE: tl.constexpr):
    """Add a tile to its own transpose, again and again: each time it goes through LDS or shared memory."""
    rows, columns = tl.arange(0, SIDE), tl.arange(0, SIDE)
    tile = tl.load(source_ptr + rows[:, None] * SIDE + columns[None, :])
    for _ in range(repeats):
        tile = tile + tl.trans(tile)
    tl.store(out_ptr + (tl.program_id(0) * SIDE + rows[:, None]) * SIDE + columns[None, :], tile)

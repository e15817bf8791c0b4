# mypy: ignore-errors
"""Device code of the GEMMs for sm_90: loads by the tensor memory accelerator, warps that each do one thing.

One persistent program an SM has four kinds of warps, which walk over the same tiles and meet at barriers in shared
memory: a *producer* (one warp) that fills a ring of K blocks, two *consumers* (a warp group each) that multiply the
upper and the lower half of a tile and write it out, and, in the sum form, *trimmers* (two warps) that zero what a block
holds of neighbouring groups. The ring goes on filling while a consumer writes; that is what overlaps the two.

This is written in Triton's Gluon, since plain Triton neither separates warps on sm_90 nor lets a block be trimmed in
shared memory. Only tile and warp counts are fixed here; which operands it can take says `plan_tma`.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

barrier = getattr(gl, "thread_barrier", None) or gl.barrier  # Triton 3.6; its name since 3.7


@gluon.jit
def load_end(offs_ptr, group, groups, limit, GROUPED: gl.constexpr):
    """End of a group as given, asked for a group ahead of its use; without groups the end of everything."""
    end = limit
    if GROUPED:
        end = gl.load(offs_ptr + gl.minimum(group, groups - 1))
    return end


@gluon.jit
def group_extent(start, end, m, k, SUM: gl.constexpr, TILE: gl.constexpr):
    """Rows of tiles of a group, where its first K block begins, and how many it has."""
    if SUM:
        tiles_m = gl.cdiv(m, TILE[0])
        first_k = start & -TILE[5]
        blocks = gl.where(end > start, gl.cdiv(end - first_k, TILE[2]), 0)
    else:
        tiles_m = gl.cdiv(end - start, TILE[0])
        first_k = 0
        blocks = gl.cdiv(k, TILE[2])
    return tiles_m, first_k, blocks


@gluon.jit
def tile_position(index, tiles_m, tiles_n, BAND: gl.constexpr):
    """(row, column) of a tile: column by column within bands of BAND rows, so that programs share both operands."""
    band = index // (BAND * tiles_n)
    inside = index - band * (BAND * tiles_n)
    rows = gl.minimum(tiles_m - band * BAND, BAND)
    column = inside // rows
    return band * BAND + inside - column * rows, column


@gluon.jit
def turned(tile_m, first, tiles_m):
    """Row of tiles that is visited as ``tile_m``-th, if ``first`` is the 0th and rows wrap around."""
    row = tile_m + first
    return gl.where(row >= tiles_m, row - tiles_m, row)


@gluon.jit
def produce(a_desc, b_desc, offs_ptr, sizes, ring, FORM: gl.constexpr, TILE: gl.constexpr):
    """Fill the ring with the K blocks of every tile of this program."""
    SUM: gl.constexpr = FORM[0]
    BLOCK_M: gl.constexpr = TILE[0]
    BLOCK_N: gl.constexpr = TILE[1]
    BLOCK_K: gl.constexpr = TILE[2]
    STAGES: gl.constexpr = TILE[3]
    groups, m, n, k, _first_row = sizes
    a_ring, b_ring, full, free, _ready = ring
    BYTES: gl.constexpr = (BLOCK_M + BLOCK_N) * BLOCK_K * a_ring.dtype.primitive_bitwidth // 8
    tiles_n = gl.cdiv(n, BLOCK_N)
    limit = k if SUM else m
    block = 0
    tile = gl.program_id(0)
    start = 0
    next_end = load_end(offs_ptr, 0, groups, limit, FORM[1])
    for group in range(groups):
        end = gl.minimum(gl.maximum(next_end, start), limit)
        next_end = load_end(offs_ptr, group + 1, groups, limit, FORM[1])
        tiles_m, first_k, blocks = group_extent(start, end, m, k, SUM, TILE)
        while tile < tiles_m * tiles_n:
            tile_m, tile_n = tile_position(tile, tiles_m, tiles_n, TILE[4])
            a_row = tile_m * BLOCK_M
            b_row = tile_n * BLOCK_N
            if not SUM:
                a_row += start
                b_row += group * n
            for i in range(blocks):
                stage = block % STAGES
                mbarrier.wait(free.index(stage), (block // STAGES & 1) ^ 1)
                mbarrier.expect(full.index(stage), BYTES)
                at = first_k + i * BLOCK_K
                tma.async_copy_global_to_shared(a_desc, [a_row, at], full.index(stage), a_ring.index(stage))
                tma.async_copy_global_to_shared(b_desc, [b_row, at], full.index(stage), b_ring.index(stage))
                block += 1
            tile += gl.num_programs(0)
        tile -= tiles_m * tiles_n
        start = end


@gluon.jit
def trim(block, low, high, WARPS: gl.constexpr):
    """Zero the columns of a K block that are not in [low, high), four bytes at a time and some rows at a time."""
    BYTES: gl.constexpr = block.dtype.primitive_bitwidth // 8
    WORDS: gl.constexpr = block.shape[1] * BYTES // 4
    ROWS: gl.constexpr = 64
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 4], [128 // WORDS, WORDS // 4], [WARPS, 1], [1, 0])
    SWIZZLED: gl.constexpr = gl.NVMMASharedLayout(block.layout.swizzle_byte_width, 32, 2)
    words = block._reinterpret(gl.int32, [block.shape[0], WORDS], SWIZZLED)
    first = 4 * gl.arange(0, WORDS, layout=gl.SliceLayout(0, LAYOUT))
    dropped_below = gl.minimum(gl.maximum(gl.maximum(low, 0) * BYTES - first, 0), 4)
    dropped_above = gl.minimum(gl.maximum(first + 4 - gl.minimum(high, block.shape[1]) * BYTES, 0), 4)
    bits = gl.full([WORDS], 0xFFFFFFFF, gl.int64, layout=gl.SliceLayout(0, LAYOUT))  # shifts by 32 are none of int32
    kept = ((bits << (8 * dropped_below)) & (bits >> (8 * dropped_above))).to(gl.int32)[None, :]
    for i in gl.static_range(block.shape[0] // ROWS):
        rows = words.slice(i * ROWS, ROWS, dim=0)
        rows.store(rows.load(LAYOUT) & kept)


@gluon.jit
def trim_blocks(offs_ptr, sizes, ring, FORM: gl.constexpr, TILE: gl.constexpr, WARPS: gl.constexpr):
    """Pass every K block on, without what it holds of the groups before and after: 0 times their NaN would be NaN."""
    BLOCK_K: gl.constexpr = TILE[2]
    STAGES: gl.constexpr = TILE[3]
    groups, m, n, k, _first_row = sizes
    a_ring, b_ring, full, _free, ready = ring
    if FORM[0]:
        tiles_n = gl.cdiv(n, TILE[1])
        block = 0
        tile = gl.program_id(0)
        start = 0
        next_end = load_end(offs_ptr, 0, groups, k, FORM[1])
        for group in range(groups):
            end = gl.minimum(gl.maximum(next_end, start), k)
            next_end = load_end(offs_ptr, group + 1, groups, k, FORM[1])
            tiles_m, first_k, blocks = group_extent(start, end, m, k, True, TILE)
            while tile < tiles_m * tiles_n:
                for i in range(blocks):
                    stage = block % STAGES
                    at = first_k + i * BLOCK_K
                    mbarrier.wait(full.index(stage), block // STAGES & 1)
                    if (at < start) | (at + BLOCK_K > end):
                        trim(a_ring.index(stage), start - at, end - at, WARPS)
                        trim(b_ring.index(stage), start - at, end - at, WARPS)
                        fence_async_shared()
                        barrier()
                    mbarrier.arrive(ready.index(stage), count=1)
                    block += 1
                tile += gl.num_programs(0)
            tile -= tiles_m * tiles_n
            start = end


@gluon.jit
def halves(x, LAYOUT: gl.constexpr):
    """The left and the right half of the columns, each in LAYOUT; no data moves between lanes."""
    left, right = x.reshape([x.shape[0], 2, x.shape[1] // 2]).permute(0, 2, 1).split()
    return gl.convert_layout(left, LAYOUT, assert_trivial=True), gl.convert_layout(right, LAYOUT, assert_trivial=True)


@gluon.jit
def write_part(part, PART: gl.constexpr, half: gl.constexpr, target, a_inverse, b_inverse, row, rows_end, column, n,
               FORM: gl.constexpr):  # fmt: skip
    """Scale one part of the columns of a consumer's half tile, round it and write it, through shared memory."""
    ROWS: gl.constexpr = part.shape[0]
    WIDTH: gl.constexpr = part.shape[1]
    out_desc, out_ptr, out_stride, stages = target
    STAGES: gl.constexpr = stages.shape[0] // 2
    stage = stages.index(half * STAGES + PART % STAGES)
    if FORM[2]:
        b_part = b_inverse.slice(PART * WIDTH, WIDTH, dim=0).load(gl.SliceLayout(0, part.type.layout))
        part = part * a_inverse[:, None] * b_part[None, :]
    value = part.to(stage.dtype)
    whole = row + ROWS <= rows_end
    if whole:
        tma.store_wait(STAGES - 1)
    else:  # counts what the accelerator writes, which these parts are not: the one before may still read this buffer
        tma.store_wait(0)
    barrier()
    stage.store(value)
    fence_async_shared()
    barrier()
    if whole:
        tma.async_copy_shared_to_global(out_desc, [row, column + PART * WIDTH], stage)
    else:  # the rows below belong to the next group
        COPY: gl.constexpr = gl.BlockedLayout([1, 8], [256 // WIDTH, WIDTH // 8], [4, 1], [1, 0])
        rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, COPY))
        columns = column + PART * WIDTH + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, COPY))
        inside = (rows < rows_end)[:, None] & (columns < n)[None, :]
        offsets = (rows.to(gl.int64) * out_stride)[:, None] + columns[None, :]
        gl.store(out_ptr + offsets, stage.load(COPY), mask=inside)


@gluon.jit
def consume(half: gl.constexpr, target, inverses, offs_ptr, sizes, ring, FORM: gl.constexpr, TILE: gl.constexpr):
    """Multiply and write the upper (half 0) or lower (1) half of every tile of this program."""
    SUM: gl.constexpr = FORM[0]
    BLOCK_M: gl.constexpr = TILE[0]
    BLOCK_N: gl.constexpr = TILE[1]
    STAGES: gl.constexpr = TILE[3]
    ROWS: gl.constexpr = BLOCK_M // 2
    groups, m, n, k, first_row = sizes
    a_ring, b_ring, full, free, ready = ring
    a_inverse_ptr, b_inverse_ptr, b_inverses = inverses
    K_INSTRUCTION: gl.constexpr = 256 // a_ring.dtype.primitive_bitwidth
    WHOLE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, K_INSTRUCTION])
    HALF: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N // 2, K_INSTRUCTION])
    QUARTER: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N // 4, K_INSTRUCTION])
    FLAT: gl.constexpr = gl.BlockedLayout([BLOCK_N // 128], [32], [4], [0])
    b_inverse = b_inverses.index(half)
    tiles_n = gl.cdiv(n, BLOCK_N)
    limit = k if SUM else m
    block = 0
    tile = gl.program_id(0)
    start = 0
    next_end = load_end(offs_ptr, 0, groups, limit, FORM[1])
    for group in range(groups):
        end = gl.minimum(gl.maximum(next_end, start), limit)
        next_end = load_end(offs_ptr, group + 1, groups, limit, FORM[1])
        tiles_m, _first_k, blocks = group_extent(start, end, m, k, SUM, TILE)
        rows_start = group * m if SUM else start
        rows_end = rows_start + m if SUM else end
        while tile < tiles_m * tiles_n:
            tile_m, tile_n = tile_position(tile, tiles_m, tiles_n, TILE[4])
            tile_m = turned(tile_m, first_row, tiles_m)
            row = rows_start + tile_m * BLOCK_M + half * ROWS
            column = tile_n * BLOCK_N
            if row < rows_end:
                rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, QUARTER))
                columns = column + gl.arange(0, BLOCK_N, layout=FLAT)
                a_scale = gl.full([ROWS], 0.0, gl.float32, layout=gl.SliceLayout(1, QUARTER))
                b_scale = gl.full([BLOCK_N], 0.0, gl.float32, layout=FLAT)
                if FORM[5]:  # the producer has waited for what the rows are of before it filled the first block
                    mbarrier.wait(full.index(block % STAGES), block // STAGES & 1)
                if FORM[2]:  # asked for now, used when all is summed; zero where nothing is
                    a_scale = gl.load(a_inverse_ptr + rows * FORM[3], mask=(rows < rows_end) & (blocks > 0), other=0.0)
                    b_scale = gl.load(b_inverse_ptr + (group * n + columns) * FORM[4],
                                      mask=(columns < n) & (blocks > 0), other=0.0)  # fmt: skip
                acc = gl.zeros([ROWS, BLOCK_N], gl.float32, layout=WHOLE)
                for i in range(blocks):
                    stage = block % STAGES
                    mbarrier.wait(full.index(stage), block // STAGES & 1)
                    if SUM:
                        mbarrier.wait(ready.index(stage), block // STAGES & 1)
                    a = a_ring.index(stage).slice(half * ROWS, ROWS, dim=0)
                    acc = warpgroup_mma(a, b_ring.index(stage).permute((1, 0)), acc, is_async=True)
                    acc = warpgroup_mma_wait(1, deps=(acc,))  # the product before this one is done with its block
                    if i > 0:
                        mbarrier.arrive(free.index((block + STAGES - 1) % STAGES), count=1)
                    block += 1
                acc = warpgroup_mma_wait(0, deps=(acc,))
                if blocks > 0:
                    mbarrier.arrive(free.index((block + STAGES - 1) % STAGES), count=1)
                if FORM[2]:
                    b_inverse.store(b_scale)
                    barrier()
                left, right = halves(acc, HALF)
                part0, part1 = halves(left, QUARTER)
                part2, part3 = halves(right, QUARTER)
                write_part(part0, 0, half, target, a_scale, b_inverse, row, rows_end, column, n, FORM)
                write_part(part1, 1, half, target, a_scale, b_inverse, row, rows_end, column, n, FORM)
                write_part(part2, 2, half, target, a_scale, b_inverse, row, rows_end, column, n, FORM)
                write_part(part3, 3, half, target, a_scale, b_inverse, row, rows_end, column, n, FORM)
            else:  # nothing below the group's end: the other half has the tensor cores for itself
                for _i in range(blocks):
                    stage = block % STAGES
                    mbarrier.wait(full.index(stage), block // STAGES & 1)
                    if SUM:
                        mbarrier.wait(ready.index(stage), block // STAGES & 1)
                    mbarrier.arrive(free.index(stage), count=1)
                    block += 1
            tile += gl.num_programs(0)
        tile -= tiles_m * tiles_n
        start = end
    if FORM[1] and not SUM:
        zero_rows(half, target, start, m, n)
    tma.store_wait(0)


@gluon.jit
def zero_rows(half: gl.constexpr, target, start, m, n):
    """Zero the rows that no group owns."""
    ROWS: gl.constexpr = 4
    WIDTH: gl.constexpr = 256
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [4, 1], [1, 0])
    _out_desc, out_ptr, out_stride, stages = target
    row = start + (gl.program_id(0) * 2 + half) * ROWS
    while row < m:
        rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
        for column in range(0, n, WIDTH):
            columns = column + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, LAYOUT))
            inside = (rows < m)[:, None] & (columns < n)[None, :]
            offsets = (rows.to(gl.int64) * out_stride)[:, None] + columns[None, :]
            gl.store(out_ptr + offsets, gl.zeros([ROWS, WIDTH], stages.dtype, layout=LAYOUT), mask=inside)
        row += gl.num_programs(0) * 2 * ROWS


@gluon.jit
def consume_upper(target, inverses, offs_ptr, sizes, ring, FORM: gl.constexpr, TILE: gl.constexpr):
    """`consume` of half 0."""
    consume(0, target, inverses, offs_ptr, sizes, ring, FORM, TILE)


@gluon.jit
def consume_lower(target, inverses, offs_ptr, sizes, ring, FORM: gl.constexpr, TILE: gl.constexpr):
    """`consume` of half 1."""
    consume(1, target, inverses, offs_ptr, sizes, ring, FORM, TILE)


# Sizes that change from step to step are not specialised, so that they do not compile anew.
@gluon.jit(do_not_specialize=["groups", "m", "k"])
def gemm_tma_kernel(
    a_desc, b_desc, out_desc, out_ptr, a_inverse_ptr, b_inverse_ptr, offs_ptr, groups, m, n, k, out_stride,
    FORM: gl.constexpr, TILE: gl.constexpr, OUT_STAGES: gl.constexpr,
):  # fmt: skip
    """Rows form: out (m, n), rows of group g are those of a (m, k) times b (groups * n, k) of group g, transposed.

    Sum form: out (groups * m, n), group g is a (m, k) times b (n, k), transposed, over the part of k that g owns.

    Args:
        FORM: (sum form, whether there are groups, scaled, 1 if a scale a row, 1 if a scale a column, whether scales are
            there only when the first block of a tile is).
        TILE: (BLOCK_M, BLOCK_N, BLOCK_K, stages of the ring, rows of tiles a band, what a group's first K block begins
            at a multiple of).
        OUT_STAGES: buffers of each consumer on the way out.
    """
    STAGES: gl.constexpr = TILE[3]
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES, TILE[0], TILE[2]], a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES, TILE[1], TILE[2]], b_desc.layout)
    stages = gl.allocate_shared_memory(out_desc.dtype, [2 * OUT_STAGES, TILE[0] // 2, TILE[1] // 4], out_desc.layout)
    b_inverses = gl.allocate_shared_memory(gl.float32, [2, TILE[1]], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=2)
        mbarrier.init(ready.index(i), count=1)
    sizes = (groups, m, n, k, 0)
    ring = (a_ring, b_ring, full, free, ready)
    target = (out_desc, out_ptr, out_stride, stages)
    inverses = (a_inverse_ptr, b_inverse_ptr, b_inverses)
    # Registers a thread: an accumulator is 128; the two warp groups of consumers and the one of the others share 504.
    gl.warp_specialize(
        [
            (consume_upper, (target, inverses, offs_ptr, sizes, ring, FORM, TILE)),
            (consume_lower, (target, inverses, offs_ptr, sizes, ring, FORM, TILE)),
            (trim_blocks, (offs_ptr, sizes, ring, FORM, TILE, 2)),
            (produce, (a_desc, b_desc, offs_ptr, sizes, ring, FORM, TILE)),
        ],
        [4, 2, 1],
        [224, 56, 56],
    )

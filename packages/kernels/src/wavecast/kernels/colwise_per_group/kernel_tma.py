# mypy: ignore-errors
"""Device code of the column-wise quantizer for sm_90: loads and stores by the tensor memory accelerator.

One persistent program an SM has three kinds of warps, which walk over the same items and meet at barriers in shared
memory: a *producer* (one warp) that fetches pieces of rows into a ring, *reducers* (four warps) that find the amax of
columns as pieces come, and *writers* (the program's own warps) that quantize the same pieces, still in the ring, when
the scale is known, and write them transposed. Every value is read once.

An item is a part of a group, as much as the ring holds, and a block of columns. The parts of a group are with
different programs, which must all be running: they tell each other the amax of their part in memory and wait for the
others'. That ends, as items are taken in order: the first item that waits has all its parts in work. The maximum does
not depend on the order of its arguments, so neither do the bytes.

A piece starts at a row that is a multiple of 16, where the accelerator can store; rows of neighbouring groups in it
count as zero, and what a bound cuts is stored by the writers themselves.

Written in Triton's Gluon, since plain Triton does not separate warps on sm_90.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

barrier = getattr(gl, "thread_barrier", None) or gl.barrier  # Triton 3.6; its name since 3.7

# TILE: rows of a piece, columns, stages of the ring, pieces of a part, stages on the way out, warps of writers and of
# reducers. NUMERICS: key of zero, assembly of a maximum of keys, FP8 maximum, eps, power of two, stacked.


@gluon.jit
def group_pieces(start, end, TILE: gl.constexpr):
    """(row at which its pieces begin, pieces, parts, pieces of a part) of a group."""
    ROWS: gl.constexpr = TILE[0]
    base = start & -16
    pieces = gl.where(end > start, gl.cdiv(end - base, ROWS), 0)
    parts = gl.where(pieces > TILE[3], gl.cdiv(pieces, TILE[3]), 1)
    return base, pieces, parts, gl.cdiv(pieces, parts)


@gluon.jit
def piece_row(piece, base, end, ROWS: gl.constexpr):
    """First row of a piece, a multiple of 16: the last piece of a group reaches back."""
    return gl.maximum(gl.minimum(base // 16 + piece * (ROWS // 16), gl.cdiv(end, 16) - ROWS // 16), base // 16) * 16


@gluon.jit
def produce(x_desc, offs_ptr, sizes, ring, TILE: gl.constexpr):
    """Fetch the pieces of every item of this program into the ring, as its places become free."""
    ROWS: gl.constexpr = TILE[0]
    COLS: gl.constexpr = TILE[1]
    STAGES: gl.constexpr = TILE[2]
    groups, tokens, columns = sizes
    buffers, full, free, _, _, _ = ring
    blocks_n = gl.cdiv(columns, COLS)
    block = 0
    item = gl.program_id(0)
    start = 0
    for group in range(groups):
        end = gl.minimum(gl.maximum(gl.load(offs_ptr + group), start), tokens)
        base, pieces, parts, part_pieces = group_pieces(start, end, TILE)
        while item < parts * blocks_n:
            column = item // parts
            first = (item - column * parts) * part_pieces
            for piece in range(first, gl.minimum(first + part_pieces, pieces)):
                stage = block % STAGES
                mbarrier.wait(free.index(stage), (block // STAGES & 1) ^ 1)
                mbarrier.expect(full.index(stage), ROWS * COLS * x_desc.dtype.primitive_bitwidth // 8)
                tma.async_copy_global_to_shared(
                    x_desc, [piece_row(piece, base, end, ROWS), column * COLS], full.index(stage), buffers.index(stage)
                )
                block += 1
            item += gl.num_programs(0)
        item -= parts * blocks_n
        start = end


@gluon.jit
def larger_pair(a, b):
    """The larger keys of two columns, each 16 bits of a word."""
    return gl.inline_asm_elementwise("max.s16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=gl.int32, is_pure=True, pack=1)


@gluon.jit
def largest_keys(best, x, ASM: gl.constexpr):
    """`larger_pair` of keys and those of two values: ``magnitude_key`` in three instructions."""
    return gl.inline_asm_elementwise(ASM, "=r,r,r", [best, x], dtype=gl.int32, is_pure=True, pack=1)


@gluon.jit
def reduce(target, offs_ptr, sizes, ring, TILE: gl.constexpr, NUMERICS: gl.constexpr):
    """Find the scales of every item of this program."""
    ROWS: gl.constexpr = TILE[0]
    COLS: gl.constexpr = TILE[1]
    STAGES: gl.constexpr = TILE[2]
    WARPS: gl.constexpr = TILE[6]
    ZERO_KEY: gl.constexpr = NUMERICS[0]
    ASM: gl.constexpr = NUMERICS[1]
    scale_ptr, inverse_ptr, keys_ptr, counts_ptr = target
    groups, tokens, columns = sizes
    buffers, full, _, scales, scaled, taken = ring
    # Pairs of neighbouring columns in a word.
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 4], [256 // COLS, COLS // 8], [WARPS, 1], [1, 0])
    SWIZZLED: gl.constexpr = gl.NVMMASharedLayout(buffers.layout.swizzle_byte_width, 32, 2)
    COL: gl.constexpr = gl.BlockedLayout([2], [32], [WARPS], [0])
    ROW: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    blocks_n = gl.cdiv(columns, COLS)
    block = 0
    done = 0
    item = gl.program_id(0)
    start = 0
    for group in range(groups):
        end = gl.minimum(gl.maximum(gl.load(offs_ptr + group), start), tokens)
        base, pieces, parts, part_pieces = group_pieces(start, end, TILE)
        while item < parts * blocks_n:
            column = item // parts
            part = item - column * parts
            first = part * part_pieces
            best = gl.full([ROWS, COLS // 2], ZERO_KEY * 0x10001, gl.int32, layout=LAYOUT)
            for piece in range(first, gl.minimum(first + part_pieces, pieces)):
                mbarrier.wait(full.index(block % STAGES), block // STAGES & 1)
                x = buffers.index(block % STAGES)._reinterpret(gl.int32, [ROWS, COLS // 2], SWIZZLED).load(LAYOUT)
                row = piece_row(piece, base, end, ROWS)
                if (row < start) | (row + ROWS > end):  # rows of neighbouring groups
                    rows = row + gl.arange(0, ROWS, layout=ROW)
                    x = gl.where(
                        ((rows >= start) & (rows < end))[:, None],
                        x,
                        gl.zeros([ROWS, COLS // 2], gl.int32, layout=LAYOUT),
                    )
                best = largest_keys(best, x, ASM)
                block += 1
            pair = gl.reduce(best, 0, larger_pair)
            key = gl.convert_layout(gl.join(pair << 16 >> 16, pair >> 16).reshape([COLS]), COL)
            cols = column * COLS + gl.arange(0, COLS, layout=COL)
            mine = cols < columns
            if parts > 1:  # the other parts of the group are with other programs, all of them running
                gl.atomic_max(keys_ptr + group * columns + cols, key, mask=mine, sem="relaxed")
                barrier()
                index = gl.arange(0, COLS, layout=COL)
                count_ptr = counts_ptr + (group * blocks_n + column) + gl.zeros([COLS], gl.int32, layout=COL)
                gl.atomic_add(count_ptr, gl.full([COLS], 1, gl.int32, layout=COL), mask=index == 0, sem="release")
                there = 0
                while there < parts:
                    there = gl.max(gl.load(count_ptr, volatile=True), axis=0)
                gl.inline_asm_elementwise(
                    "fence.acq_rel.gpu; mov.b32 $0, $1;", "=r,r", [key], dtype=gl.int32, is_pure=False, pack=1
                )
                barrier()
                key = gl.load(keys_ptr + group * columns + cols, mask=mine, other=0, volatile=True)
                key = gl.maximum(key, ZERO_KEY)
            bits = key - ZERO_KEY
            if buffers.dtype == gl.bfloat16:
                amax = (bits << 16).to(gl.float32, bitcast=True)
            else:
                amax = bits.to(gl.int16).to(gl.float16, bitcast=True).to(gl.float32)
            floor = gl.maximum(amax, NUMERICS[3])
            scale = gl.div_rn(gl.full([COLS], NUMERICS[2], gl.float32, layout=COL), floor)
            if NUMERICS[4]:
                scale = (scale.to(gl.int32, bitcast=True) & 0x7F800000).to(gl.float32, bitcast=True)
            slot = done % 2
            mbarrier.wait(taken.index(slot), (done // 2 & 1) ^ 1)
            scales.index(slot).store(scale)
            barrier()
            mbarrier.arrive(scaled.index(slot), count=1)
            if part == 0:
                gl.store(scale_ptr + group * columns + cols, scale, mask=mine)
                inverse = gl.div_rn(gl.full([COLS], 1.0, gl.float32, layout=COL), scale)
                gl.store(inverse_ptr + group * columns + cols, inverse, mask=mine)
            done += 1
            item += gl.num_programs(0)
        item -= parts * blocks_n
        start = end


@gluon.jit
def write(target, offs_ptr, sizes, ring, stages, TILE: gl.constexpr, NUMERICS: gl.constexpr):
    """Quantize, transpose and write every item of this program."""
    ROWS: gl.constexpr = TILE[0]
    COLS: gl.constexpr = TILE[1]
    STAGES: gl.constexpr = TILE[2]
    OUT: gl.constexpr = TILE[4]
    WARPS: gl.constexpr = TILE[5]
    STACKED: gl.constexpr = NUMERICS[5]
    out_desc, out_ptr, out_units = target
    groups, tokens, columns = sizes
    buffers, _, free, scales, scaled, taken = ring
    LAYOUT: gl.constexpr = gl.BlockedLayout([ROWS // WARPS, 2], [1, 32], [WARPS, 1], [0, 1])
    COL: gl.constexpr = gl.SliceLayout(0, LAYOUT)
    COPY: gl.constexpr = gl.BlockedLayout([1, 16], [512 // ROWS, ROWS // 16], [WARPS, 1], [1, 0])
    FP8: gl.constexpr = stages.dtype
    out_stride = out_units * 16
    blocks_n = gl.cdiv(columns, COLS)
    block = 0
    done = 0
    stored = 0
    item = gl.program_id(0)
    start = 0
    for group in range(groups):
        end = gl.minimum(gl.maximum(gl.load(offs_ptr + group), start), tokens)
        base, pieces, parts, part_pieces = group_pieces(start, end, TILE)
        line0 = group * columns if STACKED else 0
        row0 = start if STACKED else 0
        while item < parts * blocks_n:
            column = item // parts
            first = (item - column * parts) * part_pieces
            slot = done % 2
            mbarrier.wait(scaled.index(slot), done // 2 & 1)
            scale = scales.index(slot).load(COL)
            barrier()
            mbarrier.arrive(taken.index(slot), count=1)
            for piece in range(first, gl.minimum(first + part_pieces, pieces)):
                row = piece_row(piece, base, end, ROWS)
                x = buffers.index(block % STAGES).load(LAYOUT)
                stage = stages.index(stored % OUT)
                whole = (row >= start) & (row + ROWS <= end)
                tma.store_wait(OUT - 1)
                barrier()
                q = (x.to(gl.float32) * scale[None, :]).to(FP8)
                stage.permute((1, 0)).store(q)
                fence_async_shared()
                barrier()
                mbarrier.arrive(free.index(block % STAGES), count=1)
                if whole:
                    tma.async_copy_shared_to_global(out_desc, [line0 + column * COLS, row - row0], stage)
                    stored += 1
                else:  # 16 bytes that a group's bound does not cut, then those of the others
                    lines = column * COLS + gl.arange(0, COLS, layout=gl.SliceLayout(1, COPY))
                    index = gl.arange(0, ROWS, layout=gl.SliceLayout(0, COPY))
                    ptrs = (
                        out_ptr
                        + (line0 + lines).to(gl.int64)[:, None] * out_stride
                        + ((row - row0) // 16 * 16 + index)[None, :]
                    )
                    values = stage.load(COPY)
                    chunk = row + index // 16 * 16
                    uncut = (chunk >= start) & (chunk + 16 <= end)
                    gl.store(ptrs, values, mask=(lines < columns)[:, None] & uncut[None, :])
                    if ((start | end) & 15) != 0:
                        rows = row + index
                        cut = (rows >= start) & (rows < end) & ((chunk < start) | (chunk + 16 > end))
                        gl.store(ptrs, values, mask=(lines < columns)[:, None] & cut[None, :])
                block += 1
            done += 1
            item += gl.num_programs(0)
        item -= parts * blocks_n
        start = end
    # Rows that no group owns.
    if not STACKED:
        line = gl.program_id(0) * WARPS
        ZERO: gl.constexpr = gl.BlockedLayout([1, 16], [1, 32], [WARPS, 1], [1, 0])
        zeros = gl.zeros([WARPS, 512], FP8, layout=ZERO)
        while line < columns:
            lines = line + gl.arange(0, WARPS, layout=gl.SliceLayout(1, ZERO))
            index = gl.arange(0, 512, layout=gl.SliceLayout(0, ZERO))
            for step in range(gl.cdiv(tokens - (start & -16), 512)):
                row = (start // 16 + step * 32) * 16
                chunk = row + index // 16 * 16
                ptrs = out_ptr + lines.to(gl.int64)[:, None] * out_stride + (row + index)[None, :]
                gl.store(ptrs, zeros, mask=(lines < columns)[:, None] & ((chunk >= start) & (chunk < tokens))[None, :])
                if (start & 15) != 0:
                    gl.store(
                        ptrs,
                        zeros,
                        mask=(lines < columns)[:, None]
                        & ((chunk < start) & (row + index >= start) & (chunk < tokens))[None, :],
                    )
            line += gl.num_programs(0) * WARPS
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["groups", "tokens", "out_units"])
def colwise_tma_kernel(
    x_desc, out_desc, out_ptr, out_units, scale_ptr, inverse_ptr, keys_ptr, counts_ptr, offs_ptr, groups, tokens,
    columns,
    TILE: gl.constexpr, NUMERICS: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Columns of x (tokens, columns) per group into the rows of out; see the page's head for who does what.

    Args:
        x_desc: blocks (rows, columns) of x.
        out_desc, out_ptr, out_units: blocks (columns, rows) of the result, its address, and 16ths of its row length:
            (columns, tokens), or, of matrices of equal size (STACKED), (groups * columns, rows of a matrix).
        scale_ptr, inverse_ptr: (groups, columns) fp32.
        keys_ptr, counts_ptr: (groups, columns) and (groups, blocks of columns) int32, zero: what parts tell each other.
        offs_ptr: (groups,) int32.
    """
    STAGES: gl.constexpr = TILE[2]
    buffers = gl.allocate_shared_memory(x_desc.dtype, [TILE[2], TILE[0], TILE[1]], x_desc.layout)
    stages = gl.allocate_shared_memory(out_desc.dtype, [TILE[4], TILE[1], TILE[0]], out_desc.layout)
    scales = gl.allocate_shared_memory(gl.float32, [2, TILE[1]], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    scaled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    taken = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(scaled.index(i), count=1)
        mbarrier.init(taken.index(i), count=1)
    sizes = (groups, tokens, columns)
    ring = (buffers, full, free, scales, scaled, taken)
    gl.warp_specialize(
        [
            (write, ((out_desc, out_ptr, out_units), offs_ptr, sizes, ring, stages, TILE, NUMERICS)),
            (reduce, ((scale_ptr, inverse_ptr, keys_ptr, counts_ptr), offs_ptr, sizes, ring, TILE, NUMERICS)),
            (produce, (x_desc, offs_ptr, sizes, ring, TILE)),
        ],
        [TILE[6], 1],
        [REGISTERS[0], REGISTERS[1]],
    )

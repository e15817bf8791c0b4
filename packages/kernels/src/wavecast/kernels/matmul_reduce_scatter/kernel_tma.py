# mypy: ignore-errors
"""Device code of matmul+reduce-scatter for sm_90: loads by the tensor memory accelerator, warps that do one thing each.

Producer and products are as in `grouped_gemm.kernel_tma`. A consumer brings its half of a tile through shared memory
into lines, in fp32, and from there writes it into the window of the rank that it is for; or, of a tile of this rank's
own part, adds what the others have written, and rounds.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait

from wavecast.kernels.all_gather_matmul.kernel_tma import wait_for_signal
from wavecast.kernels.grouped_gemm.kernel_tma import barrier, halves, tile_position


@gluon.jit
def visited(tile, sizes, TILE: gl.constexpr):
    """How many parts come before a tile's own, whose part it is, and its row within that part and column."""
    rows, n, _k, rank, ranks = sizes
    tiles_m = gl.cdiv(rows, TILE[0])
    tiles_n = gl.cdiv(n, TILE[1])
    step = tile // (tiles_m * tiles_n)
    tile_m, tile_n = tile_position(tile - step * tiles_m * tiles_n, tiles_m, tiles_n, TILE[4])
    target = rank - 1 - step
    return step, gl.where(target < 0, target + ranks, target), tile_m * TILE[0], tile_n * TILE[1]


@gluon.jit
def produce_parts(a_desc, b_desc, sizes, ring, tiles, TILE: gl.constexpr):
    """Fill the ring with the K blocks of every tile of this program."""
    BLOCK_K: gl.constexpr = TILE[2]
    STAGES: gl.constexpr = TILE[3]
    a_ring, b_ring, full, free = ring
    BYTES: gl.constexpr = (TILE[0] + TILE[1]) * BLOCK_K * a_ring.dtype.primitive_bitwidth // 8
    blocks = gl.cdiv(sizes[2], BLOCK_K)
    block = 0
    tile = gl.program_id(0)
    while tile < tiles:
        _step, target, row, column = visited(tile, sizes, TILE)
        for i in range(blocks):
            stage = block % STAGES
            mbarrier.wait(free.index(stage), (block // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(stage), BYTES)
            tma.async_copy_global_to_shared(a_desc, [target * sizes[0] + row, i * BLOCK_K], full.index(stage),
                                            a_ring.index(stage))  # fmt: skip
            tma.async_copy_global_to_shared(b_desc, [column, i * BLOCK_K], full.index(stage), b_ring.index(stage))
            block += 1
        tile += gl.num_programs(0)


@gluon.jit
def wait_for_others(places, signals, sizes):
    """Whether every other rank's part has come; one that has not is reported."""
    signals_ptr, _pads_ptr, _state_ptr, failure_ptr, call, polls = signals
    there = True
    source = 0
    while source < sizes[4]:
        if source != sizes[3]:
            seen = wait_for_signal(signals_ptr + source, call, polls)
            if seen - call < 0:
                gl.store(failure_ptr + 1, source)
                gl.store(failure_ptr + 2, call)
                gl.store(failure_ptr + 3, seen)
                gl.store(failure_ptr, 1)
                there = False
                source = sizes[4]
        source += 1
    return there


@gluon.jit
def write_lines(part, PART: gl.constexpr, stage, places, sizes, factor, step, target, row, column, there):
    """Write some columns of a half tile: to the rank that they are for, or added up to this rank's result."""
    ROWS: gl.constexpr = part.shape[0]
    WIDTH: gl.constexpr = part.shape[1]
    COPY: gl.constexpr = gl.BlockedLayout([1, 4], [128 // WIDTH, WIDTH // 4], [4, 1], [1, 0])
    out_ptr, window_ptr, windows_ptr = places
    rows, n, _k, rank, ranks = sizes
    barrier()
    stage.store(part)
    barrier()
    value = stage.load(COPY)
    line = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, COPY))
    place = column + PART * WIDTH + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, COPY))
    inside = (line < rows)[:, None] & (place < n)[None, :]
    offsets = (line.to(gl.int64) * n)[:, None] + place[None, :]
    whole = rows.to(gl.int64) * n
    if step < ranks - 1:
        # As a distance, of which the compiler sees that it is a multiple of 16 elements: of an address it would not.
        distance = (gl.load(windows_ptr + target) - gl.load(windows_ptr + rank)) // 64 * 16
        there_ptr = window_ptr + distance + step * whole
        gl.store(there_ptr + offsets, value, mask=inside)
    else:
        if there:
            for other in range(ranks - 1):
                value += gl.load(window_ptr + other * whole + offsets, mask=inside, other=0.0)
            gl.store(out_ptr + offsets, (value * factor).to(out_ptr.dtype.element_ty), mask=inside)


@gluon.jit
def consume_parts(half: gl.constexpr, places, stages, inverses, signals, sizes, factor, ring, tiles,
                  FORM: gl.constexpr, TILE: gl.constexpr):  # fmt: skip
    """Multiply and write the upper (half 0) or lower (1) half of every tile of this program."""
    BLOCK_N: gl.constexpr = TILE[1]
    STAGES: gl.constexpr = TILE[3]
    ROWS: gl.constexpr = TILE[0] // 2
    a_ring, b_ring, full, free = ring
    rows, n, k, rank, ranks = sizes
    _signals_ptr, pads_ptr, state_ptr, _failure_ptr, call, _polls = signals
    a_inverse_ptr, b_inverse_ptr = inverses
    K_INSTRUCTION: gl.constexpr = 256 // a_ring.dtype.primitive_bitwidth
    WHOLE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, K_INSTRUCTION])
    HALF: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N // 2, K_INSTRUCTION])
    QUARTER: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N // 4, K_INSTRUCTION])
    stage_out = stages.index(half)
    blocks = gl.cdiv(k, TILE[2])
    counts = 2 * (tiles // ranks)
    block = 0
    complete = False
    asked = False
    tile = gl.program_id(0)
    while tile < tiles:
        step, target, tile_row, column = visited(tile, sizes, TILE)
        row = tile_row + half * ROWS
        acc = gl.zeros([ROWS, BLOCK_N], gl.float32, layout=WHOLE)
        for i in range(blocks):
            stage = block % STAGES
            mbarrier.wait(full.index(stage), block // STAGES & 1)
            a = a_ring.index(stage).slice(half * ROWS, ROWS, dim=0)
            acc = warpgroup_mma(a, b_ring.index(stage).permute((1, 0)), acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=(acc,))  # the product before this one is done with its block
            if i > 0:
                mbarrier.arrive(free.index((block + STAGES - 1) % STAGES), count=1)
            block += 1
        acc = warpgroup_mma_wait(0, deps=(acc,))
        if blocks > 0:
            mbarrier.arrive(free.index((block + STAGES - 1) % STAGES), count=1)
        if FORM[0]:
            lines = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, WHOLE))
            columns = column + gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, WHOLE))
            a_scale = gl.load(
                a_inverse_ptr + (target.to(gl.int64) * rows + lines) * FORM[1], mask=lines < rows, other=0.0
            )
            b_scale = gl.load(b_inverse_ptr + columns * FORM[2], mask=columns < n, other=0.0)
            acc = acc * a_scale[:, None] * b_scale[None, :]
        if (step == ranks - 1) & (asked == 0):
            complete = wait_for_others(places, signals, sizes)
            asked = True
        left, right = halves(acc, HALF)
        part0, part1 = halves(left, QUARTER)
        part2, part3 = halves(right, QUARTER)
        write_lines(part0, 0, stage_out, places, sizes, factor, step, target, row, column, complete)
        write_lines(part1, 1, stage_out, places, sizes, factor, step, target, row, column, complete)
        write_lines(part2, 2, stage_out, places, sizes, factor, step, target, row, column, complete)
        write_lines(part3, 3, stage_out, places, sizes, factor, step, target, row, column, complete)
        if step < ranks - 1:
            barrier()
            counted = gl.atomic_add(state_ptr + 2 + target, 1, sem="acq_rel", scope="sys")
            if counted == counts - 1:
                gl.atomic_xchg(state_ptr + 2 + target, 0, sem="relaxed", scope="gpu")
                pad_ptr = gl.load(pads_ptr + target).to(state_ptr.dtype)
                gl.atomic_xchg(pad_ptr + rank, call, sem="release", scope="sys")
        tile += gl.num_programs(0)


@gluon.jit
def consume_upper(places, stages, inverses, signals, sizes, factor, ring, tiles, FORM: gl.constexpr,
                  TILE: gl.constexpr):  # fmt: skip
    """`consume_parts` of half 0."""
    consume_parts(0, places, stages, inverses, signals, sizes, factor, ring, tiles, FORM, TILE)


@gluon.jit
def consume_lower(places, stages, inverses, signals, sizes, factor, ring, tiles, FORM: gl.constexpr,
                  TILE: gl.constexpr):  # fmt: skip
    """`consume_parts` of half 1."""
    consume_parts(1, places, stages, inverses, signals, sizes, factor, ring, tiles, FORM, TILE)


# Sizes that change from step to step are not specialised, so that they do not compile anew.
@gluon.jit(do_not_specialize=["rows", "k", "rank", "ranks", "polls", "factor"])
def matmul_reduce_scatter_tma_kernel(
    a_desc, b_desc, out_ptr, a_inverse_ptr, b_inverse_ptr, window_ptr, windows_ptr, pads_ptr, signals_ptr, state_ptr,
    failure_ptr, rows, n, k, rank, ranks, polls, factor, FORM: gl.constexpr, TILE: gl.constexpr,
):  # fmt: skip
    """out (rows, n); arguments as of `matmul_reduce_scatter_kernel`.

    Args:
        FORM: (scaled, 1 if a scale a row, 1 if a scale a column).
        TILE: as of `gemm_tma_kernel`.
    """
    STAGES: gl.constexpr = TILE[3]
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES, TILE[0], TILE[2]], a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES, TILE[1], TILE[2]], b_desc.layout)
    LINES: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    stages = gl.allocate_shared_memory(gl.float32, [2, TILE[0] // 2, TILE[1] // 4], LINES)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=2)
    call = gl.load(state_ptr)
    sizes = (rows, n, k, rank, ranks)
    ring = (a_ring, b_ring, full, free)
    places = (out_ptr, window_ptr, windows_ptr)
    inverses = (a_inverse_ptr, b_inverse_ptr)
    signals = (signals_ptr, pads_ptr, state_ptr, failure_ptr, call, polls)
    tiles = ranks * gl.cdiv(rows, TILE[0]) * gl.cdiv(n, TILE[1])
    gl.warp_specialize(
        [
            (consume_upper, (places, stages, inverses, signals, sizes, factor, ring, tiles, FORM, TILE)),
            (consume_lower, (places, stages, inverses, signals, sizes, factor, ring, tiles, FORM, TILE)),
            (produce_parts, (a_desc, b_desc, sizes, ring, tiles, TILE)),
        ],
        [4, 1],
        [224, 56],
    )
    done = gl.atomic_add(state_ptr + 1, 1, sem="acq_rel", scope="gpu")
    if done == gl.num_programs(0) - 1:
        gl.store(state_ptr + 1, 0)
        gl.store(state_ptr, call + 1)

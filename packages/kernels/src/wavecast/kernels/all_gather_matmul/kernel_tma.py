# mypy: ignore-errors
"""Device code of all-gather+matmul for sm_90: the dense GEMM of `grouped_gemm.kernel_tma` with a producer that waits.

The producer warp is the only one that reads the left operand, so it alone waits for chunks; consumers learn of them by
the ring. While it waits, they finish what is in the ring.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from wavecast.kernels.grouped_gemm.kernel_tma import consume_lower, consume_upper, tile_position, turned


@gluon.jit
def wait_for_signal(signal_ptr, expected, polls):
    """Wait until a signal has reached ``expected``; the last value seen.

    The fence acquires at system scope, and orders what was written before with reads by the tensor memory accelerator,
    which memory fences alone do not.
    """
    seen = gl.load(signal_ptr, volatile=True)
    left = polls
    while (seen - expected < 0) & (left > 0):
        gl.inline_asm_elementwise("nanosleep.u32 100; mov.u32 $0, $1;", "=r,r", [left], dtype=gl.int32, is_pure=False,
                                  pack=1)  # fmt: skip
        seen = gl.load(signal_ptr, volatile=True)
        left -= 1
    return gl.inline_asm_elementwise("fence.acq_rel.sys; fence.proxy.async; mov.u32 $0, $1;", "=r,r", [seen],
                                     dtype=gl.int32, is_pure=False, pack=1)  # fmt: skip


@gluon.jit
def produce_gathered(a_desc, shard_desc, b_desc, signals, sizes, ring, TILE: gl.constexpr):
    """Fill the ring with the K blocks of every tile of this program, as the chunks that they are of arrive.

    A signal that does not come is reported, and none is waited for any more: consumers get what is there.
    """
    BLOCK_M: gl.constexpr = TILE[0]
    BLOCK_N: gl.constexpr = TILE[1]
    BLOCK_K: gl.constexpr = TILE[2]
    STAGES: gl.constexpr = TILE[3]
    signals_ptr, failure_ptr, call, polls, shard_rows, own_start = signals
    _groups, m, n, k, first_row = sizes
    a_ring, b_ring, full, free, _ready = ring
    BYTES: gl.constexpr = (BLOCK_M + BLOCK_N) * BLOCK_K * a_ring.dtype.primitive_bitwidth // 8
    tiles_m = gl.cdiv(m, BLOCK_M)
    tiles_n = gl.cdiv(n, BLOCK_N)
    blocks = gl.cdiv(k, BLOCK_K)
    block = 0
    tile = gl.program_id(0)
    arrived = gl.to_tensor(0).to(gl.int64)
    while tile < tiles_m * tiles_n:
        visit_m, tile_n = tile_position(tile, tiles_m, tiles_n, TILE[4])
        row = turned(visit_m, first_row, tiles_m) * BLOCK_M
        column = tile_n * BLOCK_N
        end = gl.minimum(row + BLOCK_M, m)
        own = (row >= own_start) & (end <= own_start + shard_rows)
        if own == 0:
            chunk = row // shard_rows
            while chunk <= (end - 1) // shard_rows:
                if (arrived >> chunk) & 1 == 0:
                    seen = wait_for_signal(signals_ptr + chunk, call, polls)
                    arrived |= gl.to_tensor(1).to(gl.int64) << chunk
                    if seen - call < 0:
                        gl.store(failure_ptr + 1, chunk)
                        gl.store(failure_ptr + 2, call)
                        gl.store(failure_ptr + 3, seen)
                        gl.store(failure_ptr, 1)
                        arrived = gl.to_tensor(-1).to(gl.int64)
                chunk += 1
        for i in range(blocks):
            stage = block % STAGES
            mbarrier.wait(free.index(stage), (block // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(stage), BYTES)
            at = i * BLOCK_K
            if own:
                tma.async_copy_global_to_shared(shard_desc, [row - own_start, at], full.index(stage),
                                                a_ring.index(stage))  # fmt: skip
            else:
                tma.async_copy_global_to_shared(a_desc, [row, at], full.index(stage), a_ring.index(stage))
            tma.async_copy_global_to_shared(b_desc, [column, at], full.index(stage), b_ring.index(stage))
            block += 1
        tile += gl.num_programs(0)


# Sizes that change from step to step are not specialised, so that they do not compile anew.
@gluon.jit(do_not_specialize=["m", "k", "shard_rows", "rank", "polls"])
def all_gather_matmul_tma_kernel(
    a_desc, shard_desc, b_desc, out_desc, out_ptr, a_inverse_ptr, b_inverse_ptr, signals_ptr, state_ptr, failure_ptr, m,
    n, k, out_stride, shard_rows, rank, polls, FORM: gl.constexpr, TILE: gl.constexpr, OUT_STAGES: gl.constexpr,
    LAST: gl.constexpr,
):  # fmt: skip
    """out (m, n) = gathered (m, k) times b (n, k), transposed; arguments as of `all_gather_matmul_kernel`.

    FORM, TILE and OUT_STAGES as of `gemm_tma_kernel`; the form is that of rows, without groups.
    """
    STAGES: gl.constexpr = TILE[3]
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES, TILE[0], TILE[2]], a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES, TILE[1], TILE[2]], b_desc.layout)
    stages = gl.allocate_shared_memory(out_desc.dtype, [2 * OUT_STAGES, TILE[0] // 2, TILE[1] // 4], out_desc.layout)
    b_inverses = gl.allocate_shared_memory(gl.float32, [2, TILE[1]], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=2)
    call = gl.load(state_ptr)
    own_start = rank * shard_rows
    sizes = (1, m, n, k, gl.cdiv(own_start, TILE[0]))
    ring = (a_ring, b_ring, full, free, full)
    target = (out_desc, out_ptr, out_stride, stages)
    inverses = (a_inverse_ptr, b_inverse_ptr, b_inverses)
    signals = (signals_ptr, failure_ptr, call, polls, shard_rows, own_start)
    gl.warp_specialize(
        [
            (consume_upper, (target, inverses, out_ptr, sizes, ring, FORM, TILE)),
            (consume_lower, (target, inverses, out_ptr, sizes, ring, FORM, TILE)),
            (produce_gathered, (a_desc, shard_desc, b_desc, signals, sizes, ring, TILE)),
        ],
        [4, 1],
        [224, 56],
    )
    if LAST:
        done = gl.atomic_add(state_ptr + 1, 1, sem="acq_rel", scope="gpu")
        if done == gl.num_programs(0) - 1:
            gl.store(state_ptr + 1, 0)
            gl.store(state_ptr, call + 1)

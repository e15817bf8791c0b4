"""Matmul+reduce-scatter over symmetric memory: what is put on which stream."""

from __future__ import annotations

import torch

from wavecast.kernels.async_tp.symmetric import COMPUTE
from wavecast.kernels.async_tp.workspace import Workspace, keep
from wavecast.kernels.checks import check_fits_int32
from wavecast.kernels.grouped_gemm.api import check_tile_offsets, imprecise_sum
from wavecast.kernels.grouped_gemm.plan import unit_of
from wavecast.kernels.grouped_gemm.plan_tma import TmaPlan
from wavecast.kernels.kept_launch import KeptLaunch, specialized
from wavecast.kernels.matmul_reduce_scatter.kernel import matmul_reduce_scatter_kernel
from wavecast.kernels.matmul_reduce_scatter.operands import Parts
from wavecast.kernels.matmul_reduce_scatter.plan import MatmulReduceScatterPlan


def launch_matmul_reduce_scatter(
    workspace: Workspace, parts: Parts, b: torch.Tensor, out: torch.Tensor, plan: MatmulReduceScatterPlan, *,
    average: bool,
) -> None:  # fmt: skip
    """Put one call on the caller's stream. Nothing is waited for on the host.

    Args:
        workspace: of this rank, whose windows hold `window_bytes`.
        parts: the left operand and the scales.
        b: (K, N), K contiguous.
        out: (rows, N), contiguous.
        plan: how the product is carried out.
        average: whether the sum is divided by the number of ranks.

    Raises:
        ValueError: sizes beyond what the kernel's 32-bit numbers or the windows hold.
    """
    memory, gemm = workspace.memory, plan.gemm
    if plan.tma is not None:
        _launch_tma(workspace, parts, b, out, plan, plan.tma, average=average)
        return
    rows, n, k, ranks = parts.rows, b.shape[1], parts.a.shape[1], memory.ranks
    check_tile_offsets(gemm, k, b.stride(1), n, k)
    tiles = ranks * -(-rows // gemm.block_m) * -(-n // gemm.block_n)
    check_fits_int32("tiles of the product", tiles + gemm.programs)
    check_fits_int32("rows of the product, rounded up to whole tiles,", ranks * rows + gemm.block_m)
    window = memory.window(memory.rank, ((ranks - 1) * rows, n), torch.float32)
    a_inverse, b_inverse = parts.a_inverse, parts.b_inverse
    tensors = (
        parts.a, b, out, a_inverse, b_inverse, window, memory.window_addresses(), memory.signal_addresses(),
        memory.signals(memory.rank), workspace.state, workspace.failure,
    )  # fmt: skip
    forms = (a_inverse is not None and a_inverse.ndim > 0, b_inverse is not None and b_inverse.ndim > 0)
    key = (
        id(plan), rows, n, k, b.stride(1), parts.a.dtype, out.dtype, forms, average, specialized(*tensors[:5])
    )  # fmt: skip
    _, launch = workspace.launches.get(key, (None, None))
    if launch is None:
        unit, n_unit = unit_of(k, b.stride(1)), unit_of(n)
        launch = KeptLaunch(
            matmul_reduce_scatter_kernel,
            gemm.programs,
            sizes=(
                rows, n // n_unit, k // unit, b.stride(1) // unit, memory.rank, ranks, plan.polls,
                1.0 / ranks if average else 1.0,
            ),
            constants={
                "SCALED": a_inverse is not None,
                "A_ROWS": forms[0],
                "B_COLUMNS": forms[1],
                "UNIT": unit,
                "N_UNIT": n_unit,
                "CUT": k % gemm.block_k != 0,
                "IMPRECISE": imprecise_sum(parts.a.dtype, gemm),
                "IN_TURNS": plan.peers > 1,
                **gemm.constants,
            },
        )  # fmt: skip
        keep(workspace.launches, key, (plan, launch))
    compute = memory.stream(COMPUTE)
    with memory.launching(compute):
        launch((), tensors)
    memory.barrier(compute)


def _launch_tma(
    workspace: Workspace, parts: Parts, b: torch.Tensor, out: torch.Tensor, plan: MatmulReduceScatterPlan,
    tma: TmaPlan, *, average: bool,
) -> None:  # fmt: skip
    """The same through the tensor memory accelerator."""
    from wavecast.kernels.grouped_gemm.launch_tma import per_line
    from wavecast.kernels.matmul_reduce_scatter.kernel_tma import matmul_reduce_scatter_tma_kernel
    from wavecast.kernels.tma import descriptor

    memory, rows, n, k = workspace.memory, parts.rows, b.shape[1], parts.a.shape[1]
    window = memory.window(memory.rank, ((memory.ranks - 1) * rows, n), torch.float32)
    a_inverse, b_inverse = parts.a_inverse, parts.b_inverse
    form = (a_inverse is not None, per_line(a_inverse), per_line(b_inverse))
    key = (
        id(plan), rows, n, k, b.stride(1), parts.a.dtype, out.dtype, form, average, specialized(a_inverse, b_inverse)
    )  # fmt: skip
    _, launch = workspace.launches.get(key, (None, None))
    if launch is None:
        launch = KeptLaunch(
            matmul_reduce_scatter_tma_kernel,
            tma.programs,
            describe=lambda a, b: (
                descriptor(a, k, tma.block_m, tma.block_k), descriptor(b, k, tma.block_n, tma.block_k)
            ),
            sizes=(rows, n, k, memory.rank, memory.ranks, plan.polls, 1.0 / memory.ranks if average else 1.0),
            constants={
                "FORM": form,
                "TILE": (tma.block_m, tma.block_n, tma.block_k, tma.stages, tma.band, tma.k_alignment),
                "num_warps": 4,
            },
        )  # fmt: skip
        keep(workspace.launches, key, (plan, launch))
    compute = memory.stream(COMPUTE)
    with memory.launching(compute):
        launch(
            (parts.a, b.t()),
            (out, a_inverse, b_inverse, window, memory.window_addresses(), memory.signal_addresses(),
             memory.signals(memory.rank), workspace.state, workspace.failure),
        )  # fmt: skip
    memory.barrier(compute)

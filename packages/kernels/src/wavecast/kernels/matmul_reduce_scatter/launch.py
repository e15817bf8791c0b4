"""Matmul+reduce-scatter over symmetric memory: what is put on which stream."""

from __future__ import annotations

from collections.abc import Callable

import torch

from wavecast.kernels.async_tp.plan_hip import HipPlan
from wavecast.kernels.async_tp.symmetric import COMPUTE
from wavecast.kernels.async_tp.workspace import Workspace
from wavecast.kernels.checks import check_fits_int32
from wavecast.kernels.grouped_gemm.api import check_tile_offsets, imprecise_sum
from wavecast.kernels.grouped_gemm.plan import unit_of
from wavecast.kernels.grouped_gemm.plan_tma import TmaPlan
from wavecast.kernels.kept_launch import KeptLaunch
from wavecast.kernels.matmul_reduce_scatter.kernel import matmul_reduce_scatter_kernel
from wavecast.kernels.matmul_reduce_scatter.launch_hip import launch_async_rs
from wavecast.kernels.matmul_reduce_scatter.operands import Parts
from wavecast.kernels.matmul_reduce_scatter.plan import MatmulReduceScatterPlan


class ScatterLaunch:
    """Launches of calls that are alike in all but what their tensors hold and where they are.

    Tensors of later calls have the first one's sizes, strides, dtypes and forms, and begin where Triton compiles the
    same for. Nothing is waited for on the host.

    Args:
        workspace: of this rank, whose windows hold `window_bytes`.
        parts, b, out: of the first call, see `__call__`.
        plan: how the product is carried out.
        average: whether the sum is divided by the number of ranks.

    Raises:
        ValueError: sizes beyond what the kernel's 32-bit numbers or the windows hold.
    """

    def __init__(
        self, workspace: Workspace, parts: Parts, b: torch.Tensor, out: torch.Tensor, plan: MatmulReduceScatterPlan, *,
        average: bool,
    ) -> None:  # fmt: skip
        self._memory = memory = workspace.memory
        factor = 1.0 / memory.ranks if average else 1.0
        if plan.hip is not None:
            self._launch = _hip_launch(workspace, parts, b, plan, plan.hip, factor)
        elif plan.tma is not None:
            self._launch = _tma_launch(workspace, parts, b, plan, plan.tma, factor)
        else:
            self._launch = _triton_launch(workspace, parts, b, out, plan, factor)

    def __call__(self, parts: Parts, b: torch.Tensor, out: torch.Tensor) -> None:
        """Put a call on the caller's stream.

        Args:
            parts: the left operand and the scales.
            b: (K, N), K contiguous.
            out: (rows, N), contiguous.
        """
        memory = self._memory
        compute = memory.stream(COMPUTE)
        memory.barrier(compute)  # what ranks have in their windows is no longer read
        with memory.launching(compute):
            self._launch(parts, b, out)


Launch = Callable[[Parts, torch.Tensor, torch.Tensor], None]


def _triton_launch(
    workspace: Workspace, parts: Parts, b: torch.Tensor, out: torch.Tensor, plan: MatmulReduceScatterPlan,
    factor: float,
) -> Launch:  # fmt: skip
    """By Triton's kernel for every architecture."""
    memory, gemm = workspace.memory, plan.gemm
    rows, n, k, ranks, b_stride = parts.rows, b.shape[1], parts.a.shape[1], memory.ranks, b.stride(1)
    check_tile_offsets(gemm, k, b_stride, n, k)
    tiles = ranks * -(-rows // gemm.block_m) * -(-n // gemm.block_n)
    check_fits_int32("tiles of the product", tiles + gemm.programs)
    check_fits_int32("rows of the product, rounded up to whole tiles,", ranks * rows + gemm.block_m)
    a_inverse, b_inverse = parts.a_inverse, parts.b_inverse
    unit, n_unit = unit_of(k, b_stride), unit_of(n)
    kept = KeptLaunch(
        matmul_reduce_scatter_kernel,
        gemm.programs,
        stay=(
            _own_window(workspace, parts, b),
            workspace.addresses,
            workspace.state,
            workspace.failure,
        ),
        sizes=(rows, n // n_unit, k // unit, b_stride // unit, memory.rank, ranks, plan.polls, factor),
        constants={
            "SCALED": a_inverse is not None,
            "A_ROWS": a_inverse is not None and a_inverse.ndim > 0,
            "B_COLUMNS": b_inverse is not None and b_inverse.ndim > 0,
            "UNIT": unit,
            "N_UNIT": n_unit,
            "CUT": k % gemm.block_k != 0,
            "IMPRECISE": imprecise_sum(parts.a.dtype, gemm),
            "IN_TURNS": plan.peers > 1,
            **gemm.constants,
        },
    )
    return lambda parts, b, out: kept((), (parts.a, b, out, parts.a_inverse, parts.b_inverse))


def _tma_launch(
    workspace: Workspace, parts: Parts, b: torch.Tensor, plan: MatmulReduceScatterPlan, tma: TmaPlan,
    factor: float,
) -> Launch:  # fmt: skip
    """Through the tensor memory accelerator."""
    from wavecast.kernels.grouped_gemm.launch_tma import per_line
    from wavecast.kernels.matmul_reduce_scatter.kernel_tma import matmul_reduce_scatter_tma_kernel
    from wavecast.kernels.tma import descriptor

    memory, k = workspace.memory, parts.a.shape[1]
    kept = KeptLaunch(
        matmul_reduce_scatter_tma_kernel,
        tma.programs,
        describe=lambda a, b: (
            descriptor(a, k, tma.block_m, tma.block_k), descriptor(b.t(), k, tma.block_n, tma.block_k)
        ),
        stay=(
            _own_window(workspace, parts, b), memory.window_addresses(), memory.signal_addresses(),
            memory.signals(memory.rank), workspace.state, workspace.failure,
        ),
        sizes=(parts.rows, b.shape[1], k, memory.rank, memory.ranks, plan.polls, factor),
        constants={
            "FORM": (parts.a_inverse is not None, per_line(parts.a_inverse), per_line(parts.b_inverse)),
            "TILE": (tma.block_m, tma.block_n, tma.block_k, tma.stages, tma.band, tma.k_alignment),
            "num_warps": 4,
        },
    )  # fmt: skip
    return lambda parts, b, out: kept((parts.a, b), (out, parts.a_inverse, parts.b_inverse))


def _hip_launch(
    workspace: Workspace, parts: Parts, b: torch.Tensor, plan: MatmulReduceScatterPlan, hip: HipPlan, factor: float
) -> Launch:  # fmt: skip
    """By the kernel in HIP."""
    window = _own_window(workspace, parts, b)
    return lambda parts, b, out: launch_async_rs(
        hip, workspace, parts, b, out, window=window, polls=plan.polls, factor=factor, in_turns=plan.peers > 1
    )


def _own_window(workspace: Workspace, parts: Parts, b: torch.Tensor) -> torch.Tensor:
    """What the others write of this rank's part: fp32, (rows, N) for each."""
    memory = workspace.memory
    return memory.window(memory.rank, ((memory.ranks - 1) * parts.rows, b.shape[1]), torch.float32)

"""Launch of the kernel in HIP."""

from __future__ import annotations

from pathlib import Path

import torch

from wavecast.kernels.async_tp.plan_hip import THREADS, HipPlan, kernel_name
from wavecast.kernels.async_tp.workspace import Workspace
from wavecast.kernels.hip.kernel import FLOAT, INT32, POINTER, HipKernel
from wavecast.kernels.matmul_reduce_scatter.operands import Parts

SOURCE = Path(__file__).with_name("async_rs.hip")
PARAMETERS = (
    *(
        (name, POINTER)
        for name in ("a", "b", "out", "a_inverse", "b_inverse", "window", "peers", "state", "failure")
    ),
    *((name, INT32) for name in ("rows", "n", "k_bytes", "b_bytes", "rank", "ranks", "polls")),
    ("factor", FLOAT),
    *((name, INT32) for name in ("a_rows", "b_columns", "in_turns", "xcds", "band")),
)  # fmt: skip


def hip_kernel(dtype: torch.dtype, out_dtype: torch.dtype) -> HipKernel:
    """The kernel for operands and results of two types."""
    return HipKernel(SOURCE, kernel_name("async_rs", dtype, out_dtype), PARAMETERS, THREADS)


def launch_async_rs(
    plan: HipPlan,
    workspace: Workspace,
    parts: Parts,
    b: torch.Tensor,
    out: torch.Tensor,
    *,
    window: torch.Tensor,
    polls: int,
    factor: float,
    in_turns: bool,
) -> None:
    """Multiply, send the other ranks their parts, and add theirs; arguments are as `matmul_reduce_scatter_kernel`'s."""
    size, a_inverse, b_inverse = b.element_size(), parts.a_inverse, parts.b_inverse
    hip_kernel(b.dtype, out.dtype).launch(
        (plan.programs, 1, 1),
        {
            "a": parts.a,
            "b": b,
            "out": out,
            "a_inverse": a_inverse,
            "b_inverse": b_inverse,
            "window": window,
            "peers": workspace.addresses,
            "state": workspace.state,
            "failure": workspace.failure,
            "rows": parts.rows,
            "n": out.shape[1],
            "k_bytes": parts.a.shape[1] * size,
            "b_bytes": b.stride(1) * size,
            "rank": workspace.memory.rank,
            "ranks": workspace.memory.ranks,
            "polls": polls,
            "factor": factor,
            "a_rows": a_inverse is not None and a_inverse.ndim > 0,
            "b_columns": b_inverse is not None and b_inverse.ndim > 0,
            "in_turns": in_turns,
            "xcds": plan.xcds,
            "band": plan.band,
        },
    )

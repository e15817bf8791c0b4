"""Launch of the kernel in HIP."""

from __future__ import annotations

from pathlib import Path

import torch

from wavecast.kernels.async_tp.plan_hip import THREADS, HipPlan, kernel_name
from wavecast.kernels.async_tp.transport import TransportPlan
from wavecast.kernels.hip.kernel import INT32, POINTER, HipKernel

SOURCE = Path(__file__).with_name("async_mm.hip")
PARAMETERS = (
    *(
        (name, POINTER)
        for name in (
            "gathered", "shard", "b", "out", "a_inverse", "b_inverse", "bias", "signals", "state", "failure",
            "windows",
        )
    ),
    *(
        (name, INT32)
        for name in (
            "m", "shard_rows", "signal_rows", "n", "k_bytes", "b_bytes", "rank", "ranks", "polls", "a_rows",
            "b_columns", "last", "xcds", "band", "fetchers", "peers", "fetch_scales", "scales_at",
        )
    ),
)  # fmt: skip


def hip_kernel(dtype: torch.dtype, out_dtype: torch.dtype) -> HipKernel:
    """The kernel for operands and results of two types."""
    return HipKernel(SOURCE, kernel_name("async_mm", dtype, out_dtype), PARAMETERS, THREADS)


def launch_async_mm(
    plan: HipPlan,
    *,
    gathered: torch.Tensor,
    shard: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    bias: torch.Tensor | None,
    signals: torch.Tensor,
    state: torch.Tensor,
    failure: torch.Tensor,
    windows: torch.Tensor | None,
    rank: int,
    ranks: int,
    polls: int,
    transport: TransportPlan,
    fetchers: int,
    fetch_scales: bool,
    scales_at: int,
    last: bool,
) -> None:
    """Multiply the rows of every rank as they come; arguments are as `all_gather_matmul_kernel` takes them.

    Raises:
        ValueError: a window's scales begin beyond what the kernel's 32-bit number holds.
    """
    size = shard.element_size()
    hip_kernel(shard.dtype, out.dtype).launch(
        (plan.programs + fetchers, 1, 1),
        {
            "gathered": gathered,
            "shard": shard,
            "b": b,
            "out": out,
            "a_inverse": a_inverse,
            "b_inverse": b_inverse,
            "bias": bias,
            "signals": signals,
            "state": state,
            "failure": failure,
            "windows": windows,
            "m": gathered.shape[0],
            "shard_rows": shard.shape[0],
            "signal_rows": transport.signal_rows,
            "n": out.shape[1],
            "k_bytes": shard.shape[1] * size,
            "b_bytes": b.stride(1) * size,
            "rank": rank,
            "ranks": ranks,
            "polls": polls,
            "a_rows": a_inverse is not None and a_inverse.ndim > 0,
            "b_columns": b_inverse is not None and b_inverse.ndim > 0,
            "last": last,
            "xcds": plan.xcds,
            "band": plan.band,
            "fetchers": fetchers,
            "peers": transport.peers,
            "fetch_scales": fetch_scales,
            "scales_at": scales_at if fetchers else 0,
        },
    )

"""Grouped GEMM: checks, allocation and launch."""

from __future__ import annotations

import torch

from wavecast.kernels.checks import check_fits_int32, check_offsets, check_same_size
from wavecast.kernels.device import launch_device
from wavecast.kernels.grouped_gemm.kernel import grouped_rows_kernel, grouped_sum_kernel
from wavecast.kernels.grouped_gemm.launch_tma import (
    launch_tma_grouped_2d2d,
    launch_tma_grouped_2d3d,
    plan_tma_2d2d,
    plan_tma_2d3d,
)
from wavecast.kernels.grouped_gemm.operands import (
    FP8_DTYPES,
    check_contiguous_sum,
    check_operands,
    check_out_dtype,
    check_scaled,
    flat_scale,
    route_operands,
)
from wavecast.kernels.grouped_gemm.plan import GemmPlan, plan_gemm, unit_of
from wavecast.kernels.grouped_gemm.reference import grouped_rows_reference, grouped_sum_reference


def grouped_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None = None,
    b_inverse: torch.Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """Multiply group by group, in one launch that finds the groups on the device.

    Two forms, by the rank of ``b``:

    * *rows* (forward, and with transposed weights the gradient of the input): ``a`` (M, K) and ``b`` (G, K, N); rows
      ``offs[g-1]`` to ``offs[g]`` of the result (M, N) are those of ``a`` times ``b[g]``; from ``offs[-1]`` on zero.
    * *sum* (gradient of the weights): ``a`` (P, T) and ``b`` (T, Q); the result (G, P, Q) sums over the part of T from
      ``offs[g-1]`` to ``offs[g]``, and is exactly zero for an empty group.

    The summed dimension is contiguous in both operands. Products are summed in fp32, then multiplied by ``a_inverse``,
    then by ``b_inverse``, then rounded once. On sm_90 the matrix unit sums FP8 products with fewer bits, as torch's do
    with ``use_fast_accum``: an addition loses up to 2^-13 of the larger magnitude. Any sizes and group sizes are right;
    rows of operands and results that begin at multiples of 16 bytes are moved widely, on sm_90 by the tensor memory
    accelerator (`tma_obstacle` says when not).

    Args:
        a: FP8 (the device's format), bf16 or fp16; strides (any, 1).
        b: dtype of ``a``; strides (any, 1, any) or (1, any).
        offs: (G,) int32 end offsets, non-decreasing; clipped to the rows that exist.
        a_inverse: fp32 inverse scales of FP8 operands: (M,) or (M, 1) in the rows form, (G, P) in the sum form.
        b_inverse: fp32 inverse scales of FP8 operands: (G, N) or (G, 1, N) in the rows form, (G, Q) in the sum form.
        out_dtype: bf16, fp16 or fp32.

    Returns:
        (M, N) or (G, P, Q), contiguous.

    Raises:
        ValueError: wrong rank, dtype, layout, shape, device or FP8 format; FP8 without scales, or scales without FP8.
    """
    if b.ndim not in (2, 3):
        raise ValueError(f"b has {b.ndim} dimensions {tuple(b.shape)}; wanted are (G, K, N) or (T, Q); reshape it")
    check_operands(a, b, b_ndim=b.ndim)
    check_offsets(offs)
    check_out_dtype(out_dtype)
    check_scaled(a.dtype, a_inverse, b_inverse)
    run = _rows if b.ndim == 3 else _sum
    return run(a, b, offs, a_inverse, b_inverse, out_dtype)


def _rows(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    (m, k), (groups, _, n) = a.shape, b.shape
    check_same_size("K of a", k, "K of b", b.shape[1])
    check_same_size("the number of offs", offs.numel(), "the number of matrices in b", groups)
    check_contiguous_sum("a", a, dim=1, other=0)
    check_contiguous_sum("b", b, dim=1, other=2)
    if a_inverse is not None:
        a_inverse = flat_scale("a_inverse", a_inverse, (m,), (m, 1))
    if b_inverse is not None:
        b_inverse = flat_scale("b_inverse", b_inverse, (groups, n), (groups, 1, n))
    way = route_operands(a, b, offs, a_inverse, b_inverse)
    if way.path.is_plain_torch:
        with torch.no_grad():  # as opaque to autograd as a kernel is
            return grouped_rows_reference(a, b, offs, a_inverse, b_inverse, out_dtype)
    out = torch.empty((m, n), dtype=out_dtype, device=a.device)
    if out.numel():
        tma = plan_tma_2d3d(a, b, out, way.arch)
        with launch_device(a):
            if tma is not None:
                launch_tma_grouped_2d3d(a, b, offs, a_inverse, b_inverse, out, tma)
            else:
                plan = plan_gemm(m, n, k, groups, jagged=True, element_bytes=a.element_size(), arch=way.arch)
                launch_grouped_rows(a, b, offs, a_inverse, b_inverse, out, plan)
    return out


def _sum(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    (p, t), (_, q), groups = a.shape, b.shape, offs.numel()
    check_same_size("T of a", t, "T of b", b.shape[0])
    check_contiguous_sum("a", a, dim=1, other=0)
    check_contiguous_sum("b", b, dim=0, other=1)
    if a_inverse is not None:
        a_inverse = flat_scale("a_inverse", a_inverse, (groups, p))
    if b_inverse is not None:
        b_inverse = flat_scale("b_inverse", b_inverse, (groups, q))
    way = route_operands(a, b, offs, a_inverse, b_inverse)
    if way.path.is_plain_torch:
        with torch.no_grad():
            return grouped_sum_reference(a, b, offs, a_inverse, b_inverse, out_dtype)
    out = torch.empty((groups, p, q), dtype=out_dtype, device=a.device)
    if out.numel():
        tma = plan_tma_2d2d(a, b, out, way.arch)
        with launch_device(a):
            if tma is not None:
                launch_tma_grouped_2d2d(a, b, offs, a_inverse, b_inverse, out, tma)
            else:
                plan = plan_gemm(p, q, -(-t // groups), groups, element_bytes=a.element_size(), arch=way.arch)
                launch_grouped_sum(a, b, offs, a_inverse, b_inverse, out, plan)
    return out


def launch_grouped_rows(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out: torch.Tensor,
    plan: GemmPlan,
) -> None:
    """Launch the rows form on checked tensors; ``a_inverse`` (M,), ``b_inverse`` (G, N), ``out`` (M, N) contiguous.

    Raises:
        ValueError: offsets within a tile or group bound beyond 32 bits.
    """
    (m, k), (groups, _, n) = a.shape, b.shape
    check_tile_offsets(plan, a.stride(0), b.stride(2), n, k)
    check_fits_int32("M, rounded up to whole tiles,", m + plan.block_m)
    check_fits_int32("tiles of the output", groups * (-(-m // plan.block_m) + 1) * -(-n // plan.block_n))
    unit = unit_of(k, a.stride(0), b.stride(0), b.stride(2))
    n_unit = unit_of(n)
    grouped_rows_kernel[(plan.programs,)](
        a, b, out, a_inverse, b_inverse, offs, m, n // n_unit, k // unit, groups,
        a.stride(0) // unit, b.stride(0) // unit, b.stride(2) // unit,
        SCALED=a_inverse is not None, UNIT=unit, N_UNIT=n_unit, CUT=k % plan.block_k != 0, LANES=plan.lanes,
        IMPRECISE=imprecise_sum(a.dtype, plan), **plan.constants,
    )  # fmt: skip


def launch_grouped_sum(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out: torch.Tensor,
    plan: GemmPlan,
) -> None:
    """Launch the sum form on checked tensors; ``a_inverse`` (G, P), ``b_inverse`` (G, Q), ``out`` (G, P, Q) contiguous.

    Raises:
        ValueError: offsets within a tile or group bound beyond 32 bits.
    """
    (p, t), (_, q), groups = a.shape, b.shape, offs.numel()
    check_tile_offsets(plan, a.stride(0), b.stride(1), q, t)
    tiles = groups * -(-p // plan.block_m) * -(-q // plan.block_n)
    check_fits_int32("tiles of the output", tiles + plan.xcds)
    unit = unit_of(t, a.stride(0), b.stride(1))
    n_unit = unit_of(q)
    grouped_sum_kernel[(-(-tiles // plan.xcds) * plan.xcds,)](
        a, b, out, a_inverse, b_inverse, offs, p, q // n_unit, t, groups, a.stride(0) // unit, b.stride(1) // unit,
        SCALED=a_inverse is not None, UNIT=unit, N_UNIT=n_unit, IMPRECISE=imprecise_sum(a.dtype, plan),
        **plan.constants,
    )  # fmt: skip


def imprecise_sum(dtype: torch.dtype, plan: GemmPlan) -> int | None:
    """Products that Hopper's matrix unit sums with its own precision before they enter the fp32 sum; None elsewhere."""
    return plan.block_k if plan.xcds == 1 and dtype in FP8_DTYPES else None


def check_tile_offsets(plan: GemmPlan, a_stride: int, b_stride: int, out_stride: int, length: int) -> None:
    """Check that offsets within a tile, over the whole summed length, fit in 32 bits.

    Raises:
        ValueError: they do not.
    """
    check_fits_int32("elements between the first and last row of a tile of a", plan.block_m * a_stride + length)
    check_fits_int32("elements between the first and last column of a tile of b", plan.block_n * b_stride + length)
    check_fits_int32("elements between the first and last row of a tile of the output", plan.block_m * out_stride)
    check_fits_int32("the summed length, rounded up to whole blocks,", length + plan.block_k)

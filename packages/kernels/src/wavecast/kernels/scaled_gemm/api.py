"""Dense scaled GEMM: checks, allocation and launch."""

from __future__ import annotations

import torch

from wavecast.kernels.checks import check_fits_int32, check_same_size
from wavecast.kernels.device import launch_device
from wavecast.kernels.grouped_gemm.api import check_tile_offsets, imprecise_sum
from wavecast.kernels.grouped_gemm.launch_tma import launch_tma_scaled, plan_tma_scaled
from wavecast.kernels.grouped_gemm.operands import (
    FP8_DTYPES,
    check_contiguous_sum,
    check_operands,
    check_out_dtype,
    flat_scale,
    route_operands,
)
from wavecast.kernels.scaled_gemm.kernel import scaled_gemm_kernel
from wavecast.kernels.scaled_gemm.plan import GemmPlan, plan_gemm, unit_of
from wavecast.kernels.scaled_gemm.reference import scaled_gemm_reference


def scaled_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    a_inverse: torch.Tensor,
    b_inverse: torch.Tensor,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """Multiply two FP8 matrices and undo their scales, in one launch.

    K is contiguous in both. Products are summed in fp32 (on sm_90 by the matrix unit, which keeps fewer bits, see
    `grouped_gemm`), multiplied by ``a_inverse``, then by ``b_inverse``, then rounded once. Any sizes are right; what
    moves widely, see there.

    Args:
        a: (M, K) FP8 of the device's format, strides (any, 1).
        b: (K, N), dtype of ``a``, strides (1, any).
        a_inverse: fp32 inverse scales: (M, 1), one a row, or (), one for all.
        b_inverse: fp32 inverse scales: (1, N), one a column, or (), one for all.
        out_dtype: bf16, fp16 or fp32.

    Returns:
        (M, N), row-major.

    Raises:
        ValueError: wrong rank, dtype, layout, shape, device or FP8 format.
    """
    check_operands(a, b, b_ndim=2, dtypes=FP8_DTYPES)
    (m, k), n = a.shape, b.shape[1]
    check_same_size("K of a", k, "K of b", b.shape[0])
    check_contiguous_sum("a", a, dim=1, other=0)
    check_contiguous_sum("b", b, dim=0, other=1)
    check_out_dtype(out_dtype)
    a_inverse = flat_scale("a_inverse", a_inverse, () if a_inverse.ndim == 0 else (m, 1))
    b_inverse = flat_scale("b_inverse", b_inverse, () if b_inverse.ndim == 0 else (1, n))
    way = route_operands(a, b, a_inverse, b_inverse)
    if way.path.is_plain_torch:
        with torch.no_grad():  # as opaque to autograd as a kernel is
            return scaled_gemm_reference(a, b, a_inverse, b_inverse, out_dtype)
    out = torch.empty((m, n), dtype=out_dtype, device=a.device)
    if out.numel():
        tma = plan_tma_scaled(a, b, out, way.arch)
        with launch_device(a):
            if tma is not None:
                launch_tma_scaled(a, b, a_inverse, b_inverse, out, tma)
            else:
                plan = plan_gemm(m, n, k, element_bytes=a.element_size(), arch=way.arch)
                launch_scaled(a, b, a_inverse, b_inverse, out, plan)
    return out


def launch_scaled(
    a: torch.Tensor,
    b: torch.Tensor,
    a_inverse: torch.Tensor,
    b_inverse: torch.Tensor,
    out: torch.Tensor,
    plan: GemmPlan,
) -> None:
    """Launch on checked tensors; ``out`` (M, N) contiguous.

    Raises:
        ValueError: offsets within a tile beyond 32 bits.
    """
    (m, k), n = a.shape, b.shape[1]
    check_tile_offsets(plan, a.stride(0), b.stride(1), n, k)
    check_fits_int32("tiles of the output", -(-m // plan.block_m) * -(-n // plan.block_n) + plan.programs)
    unit, n_unit = unit_of(k, a.stride(0), b.stride(1)), unit_of(n)
    scaled_gemm_kernel[(plan.programs,)](
        a, b, out, a_inverse, b_inverse, m, n // n_unit, k // unit, a.stride(0) // unit, b.stride(1) // unit,
        A_ROWS=a_inverse.ndim > 0, B_COLUMNS=b_inverse.ndim > 0, UNIT=unit, N_UNIT=n_unit,
        CUT=k % plan.block_k != 0, IMPRECISE=imprecise_sum(a.dtype, plan), **plan.constants,
    )  # fmt: skip

"""One product by what torch and this package have, for the paths that do not overlap."""

from __future__ import annotations

import torch

from wavecast.kernels.grouped_gemm.reference import scaled_product
from wavecast.kernels.scaled_gemm import scaled_gemm


def sum_in_fp32(
    a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor | None, b_inverse: torch.Tensor | None
) -> torch.Tensor:
    """fp32 ``a @ b``, times the inverse scales of FP8 operands.

    Args:
        a, b: (M, K) and (K, N).
        a_inverse: (M, 1) or () fp32, or None.
        b_inverse: (1, N) or () fp32, or None.
    """
    if a.device.type == "cpu":
        return scaled_product(a, b, a_inverse, b_inverse)
    if a_inverse is not None and b_inverse is not None:
        return scaled_gemm(a, column_major(b), a_inverse, b_inverse, out_dtype=torch.float32)
    return torch.mm(a, b, out_dtype=torch.float32)


def with_bias(product: torch.Tensor, bias: torch.Tensor | None, out_dtype: torch.dtype) -> torch.Tensor:
    """An fp32 product plus a bias for each column, rounded once."""
    return (product if bias is None else product + bias.float()).to(out_dtype)


def column_major(b: torch.Tensor) -> torch.Tensor:
    """(K, N) with K contiguous: ``b`` itself, or a copy."""
    k, n = b.shape
    fits = (k <= 1 or b.stride(0) == 1) and (n <= 1 or b.stride(1) >= k)
    return b if fits else b.t().contiguous().t()

"""The dense scaled GEMM in plain torch: obviously right, slow."""

from __future__ import annotations

import torch

from wavecast.kernels.grouped_gemm.reference import scaled_product


def scaled_gemm_reference(
    a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor, b_inverse: torch.Tensor, out_dtype: torch.dtype
) -> torch.Tensor:
    """``(a @ b) * a_inverse * b_inverse`` in fp32, in this order, rounded once.

    Args:
        a, b: (M, K) and (K, N) FP8.
        a_inverse: (M, 1) or () fp32.
        b_inverse: (1, N) or () fp32.
        out_dtype: of the result (M, N).
    """
    return scaled_product(a, b, a_inverse, b_inverse).to(out_dtype)

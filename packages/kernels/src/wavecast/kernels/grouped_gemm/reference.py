"""The grouped GEMM in plain torch: group by group, obviously right, slow."""

from __future__ import annotations

import torch

from wavecast.kernels.colwise_per_group.reference import group_bounds


def scaled_product(
    a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor | None, b_inverse: torch.Tensor | None
) -> torch.Tensor:
    """fp32 ``(a @ b) * a_inverse * b_inverse``, in this order.

    Args:
        a, b: (M, K) and (K, N), FP8, bf16 or fp16; every value is exact in fp32.
        a_inverse, b_inverse: fp32 that broadcast with (M, N), or both None.
    """
    with torch.autocast(a.device.type, enabled=False):  # which would multiply in 16 bits
        product = a.float() @ b.float()
    if a_inverse is None or b_inverse is None:
        return product
    return product * a_inverse * b_inverse


def grouped_rows_reference(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """Rows of group g times ``b[g]``; rows from ``offs[-1]`` on are zero.

    Args:
        a, b: (M, K) and (G, K, N).
        offs: (G,) int32 end offsets along M.
        a_inverse, b_inverse: (M,) and (G, N) fp32, or None.
        out_dtype: of the result (M, N).
    """
    out = torch.zeros((a.shape[0], b.shape[2]), dtype=out_dtype, device=a.device)
    for group, (start, end) in enumerate(group_bounds(offs, a.shape[0])):
        rows = None if a_inverse is None else a_inverse[start:end, None]
        columns = None if b_inverse is None else b_inverse[group]
        out[start:end] = scaled_product(a[start:end], b[group], rows, columns).to(out_dtype)
    return out


def grouped_sum_reference(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """Output g sums over the part of T that group g owns; zero for an empty group.

    Args:
        a, b: (P, T) and (T, Q).
        offs: (G,) int32 end offsets along T.
        a_inverse, b_inverse: (G, P) and (G, Q) fp32, or None.
        out_dtype: of the result (G, P, Q).
    """
    out = torch.zeros((offs.numel(), a.shape[0], b.shape[1]), dtype=out_dtype, device=a.device)
    for group, (start, end) in enumerate(group_bounds(offs, a.shape[1])):
        rows = None if a_inverse is None else a_inverse[group, :, None]
        columns = None if b_inverse is None else b_inverse[group]
        if end > start:
            out[group] = scaled_product(a[:, start:end], b[start:end], rows, columns).to(out_dtype)
    return out

"""What the contestants must come out with, before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wavecast.cli.measuring.checking import Tensors
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax

TRAINING_TOLERANCE = 0.1
"""Relative error of a result or gradient against bf16, in the worst of its parts: two operands in E4M3 with 2.6 % each
make 4 %, in a part of few values more."""


def rowwise(x: torch.Tensor, fmt: Fp8Format) -> Tensors:
    """Values, scale, inverse: one scale a row of the last dimension."""
    scale = scale_from_amax(finite_abs(x).amax(-1, keepdim=True), fmt, power_of_two=False)
    return [quantize(x, scale, fmt), scale, inverse_of(scale)]


def colwise(x: torch.Tensor, ends: Sequence[int], fmt: Fp8Format) -> Tensors:
    """Values column-major, scale and inverse (groups, columns)."""
    tokens, columns = x.shape
    values = torch.zeros((columns, tokens), dtype=torch.uint8, device=x.device).view(fmt.dtype).t()
    amax = torch.zeros((len(ends), columns), dtype=torch.float32, device=x.device)
    bounds = list(zip([0, *ends], ends, strict=False))
    for group, (start, end) in enumerate(bounds):
        if end > start:
            amax[group] = finite_abs(x[start:end]).amax(0)
    scale = scale_from_amax(amax, fmt, power_of_two=False)
    for group, (start, end) in enumerate(bounds):
        values[start:end] = quantize(x[start:end], scale[group], fmt)
    return [values, scale, inverse_of(scale)]


def rowwise_per_group(x: torch.Tensor, ends: Sequence[int], fmt: Fp8Format) -> Tensors:
    """Values row-major, scale and inverse (groups, rows); groups along the last dimension."""
    values, scale, inverse = colwise(x.t(), ends, fmt)
    assert values is not None
    return [values.t(), scale, inverse]


def weight_columns(w: torch.Tensor, fmt: Fp8Format) -> Tensors:
    """Of (E, K, N) weights whose K is contiguous: values alike, scale and inverse (E, 1, N)."""
    return [None if part is None else part.transpose(1, 2) for part in rowwise(w.transpose(1, 2), fmt)]


def weight_transposed(w: torch.Tensor, fmt: Fp8Format) -> Tensors:
    """Of (E, K, N) weights: values (E, N, K) whose N is contiguous, scale and inverse (E, K)."""
    values, scale, inverse = rowwise(w.contiguous(), fmt)
    assert values is not None and scale is not None and inverse is not None
    return [values.transpose(1, 2), scale.squeeze(-1), inverse.squeeze(-1)]


def tensorwise(x: torch.Tensor, fmt: Fp8Format) -> Tensors:
    """Values alike, one scale and inverse."""
    scale = scale_from_amax(finite_abs(x).amax(), fmt, power_of_two=False)
    return [quantize(x, scale, fmt), scale, inverse_of(scale)]


def blockwise(x: torch.Tensor, block: int, fmt: Fp8Format) -> Tensors:
    """Values alike, scale and inverse (rows / block, columns / block); both sizes are multiples of the block."""
    rows, columns = x.shape
    tiles = x.view(rows // block, block, columns // block, block)
    scale = scale_from_amax(finite_abs(tiles).amax((1, 3)), fmt, power_of_two=False)
    return [quantize(tiles, scale[:, None, :, None], fmt).view(rows, columns), scale, inverse_of(scale)]


def padded_groups(x: torch.Tensor, ends: Sequence[int], multiple: int) -> Tensors:
    """Rows of every group, followed by zero rows up to a multiple; as many rows as every split could need."""
    starts = [0, *ends[:-1]]
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    rows = [-(-size // multiple) * multiple for size in sizes]
    out = torch.zeros((sum(rows), x.shape[1]), dtype=x.dtype, device=x.device)
    at = 0
    for start, size, room in zip(starts, sizes, rows, strict=True):
        out[at : at + size] = x[start : start + size]
        at += room
    return [out]


def grouped_product(a: Tensors, b: Tensors, ends: Sequence[int]) -> torch.Tensor:
    """fp32 of 2D x 3D: (M, K) by (G, K, N); ``a`` and ``b`` are values, scale, inverse, or values alone."""
    first, second = a[0], b[0]
    assert first is not None and second is not None
    out = torch.zeros((first.shape[0], second.shape[2]), dtype=torch.float32, device=first.device)
    for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        left, right = first[start:end].float(), second[group].float()
        if len(a) > 1 and a[2] is not None and b[2] is not None:
            left, right = left * a[2][start:end], right * b[2][group]
        out[start:end] = left @ right
    return out


def weight_gradient(a: Tensors, b: Tensors, ends: Sequence[int]) -> torch.Tensor:
    """fp32 of 2D x 2D: (P, T) by (T, Q) summed over each group's part of T; ``a`` and ``b`` as ``colwise`` has them."""
    first, second = a[0], b[0]
    assert first is not None and second is not None
    out = torch.zeros((len(ends), first.shape[1], second.shape[1]), dtype=torch.float32, device=first.device)
    for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        out[group] = first[start:end].float().t() @ second[start:end].float()
        if len(a) > 1 and a[2] is not None and b[2] is not None:
            out[group] *= a[2][group][:, None] * b[2][group][None, :]
    return out

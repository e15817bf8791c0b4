"""The row-wise quantizer per group in plain torch: group by group, obviously right, slow."""

from __future__ import annotations

import torch

from wavecast.kernels.colwise_per_group.reference import group_bounds
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax


def quantize_rowwise_per_group_reference(
    x: torch.Tensor, offs: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool
) -> Quantized:
    """Quantize each row of each group of columns with a scale of its own.

    Args:
        x: (M, K) bf16, fp16 or fp32, on the CPU.
        offs: (G,) int32 end offsets along K.
        fmt: format of the result.
        power_of_two: round scales down to powers of two.

    Returns:
        values (M, K) of ``fmt.dtype``, row-major, zero from the last group's end on; scale (G, M) fp32; inverse (G, M)
        fp32.
    """
    m, k = x.shape
    values = torch.zeros((m, k), dtype=torch.uint8, device=x.device).view(fmt.dtype)
    scale = torch.empty((offs.numel(), m), dtype=torch.float32, device=x.device)
    for group, (start, end) in enumerate(group_bounds(offs, k)):
        columns = x[:, start:end]
        amax = finite_abs(columns).amax(dim=1) if end > start else torch.zeros(m, device=x.device)
        scale[group] = scale_from_amax(amax, fmt, power_of_two=power_of_two)
        values[:, start:end] = quantize(columns, scale[group, :, None], fmt)
    return Quantized(values, scale, inverse_of(scale))

"""Block-wise quantization in plain torch on the CPU: the definition that the kernel is compared with byte for byte."""

from __future__ import annotations

import torch

from wavecast.kernels.blockwise.layout import Block, scales_empty, values_empty
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax


def quantize_blockwise_reference(x: torch.Tensor, *, block: Block, fmt: Fp8Format, power_of_two: bool) -> Quantized:
    """Quantize each block of ``x`` (..., M, K) with its own scale; blocks at the ends may be smaller.

    Returns:
        values of ``fmt.dtype`` and layout `values_empty`; scale and inverse
        (..., ceil(M / block[0]), ceil(K / block[1])) fp32 and layout `scales_empty`.
    """
    (m, k), (height, width) = x.shape[-2:], block
    padded = torch.nn.functional.pad(finite_abs(x), (0, -k % width, 0, -m % height))
    blocks = padded.unflatten(-1, (padded.shape[-1] // width, width)).unflatten(
        -3, (padded.shape[-2] // height, height)
    )
    scale = scale_from_amax(blocks.amax(dim=(-3, -1)), fmt, power_of_two=power_of_two)
    of_each = scale.repeat_interleave(height, dim=-2).repeat_interleave(width, dim=-1)[..., :m, :k]
    return Quantized(
        values_empty(x, fmt.dtype).copy_(quantize(x, of_each, fmt)),
        scales_empty(x, block).copy_(scale),
        scales_empty(x, block).copy_(inverse_of(scale)),
    )

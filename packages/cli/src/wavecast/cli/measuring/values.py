"""Values for an experiment's inputs, whose own are zeros: layouts and sizes stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from wavecast.cli.experiments.inputs import as_fp8

SEED = 1


def filled(inputs: Sequence[Any], *, device: str) -> tuple[Any, ...]:
    """Copies on a device, of the same sizes and strides.

    bf16 gets values of normal distribution, in rows of different magnitude; bytes, which stand for FP8, such values
    converted to the device's format; fp32, which are scales, factors between 1 and 2; integers keep what they say.

    Args:
        inputs: Tensors, and whatever else an operator takes, which is passed on.
        device: Where to.
    """
    generator = torch.Generator(device).manual_seed(SEED)
    return tuple(_filled(item, device, generator) if isinstance(item, torch.Tensor) else item for item in inputs)


def _filled(tensor: torch.Tensor, device: str, generator: torch.Generator) -> torch.Tensor:
    out = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    if tensor.dtype is torch.bfloat16:
        return _normal_(out, generator)
    if tensor.dtype is torch.uint8:
        values = torch.empty_strided(tensor.shape, tensor.stride(), dtype=torch.bfloat16, device=device)
        fp8 = as_fp8(out)
        fp8.copy_(_normal_(values, generator).to(fp8.dtype))
        return out
    if tensor.dtype is torch.float32:
        return out.uniform_(1.0, 2.0, generator=generator)
    return out.copy_(tensor)


def _normal_(out: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    rows = torch.rand(*out.shape[:-1], 1, generator=generator, device=out.device)
    return out.normal_(generator=generator).mul_((0.25 + rows).to(out.dtype))

# mypy: ignore-errors
"""Device functions with the numerics of pytorch/ao's kernels, for the baselines that stand for them.

For finite values that are not all zero they give what ``docs/concepts/numerics.md`` says, by other instructions. Device
code is Triton's language in Python's syntax; Python's types say nothing about it.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale_in_fp64(amax, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr):
    """The fp32 scale of an amax: an fp64 division, and log2 for the power of two."""
    scale = (FP8_MAX / tl.maximum(amax.to(tl.float64), EPS)).to(tl.float32)
    if POWER_OF_TWO:
        scale = tl.exp2(tl.floor(tl.log2(scale)))
    return scale


@triton.jit
def scale_and_clamp(x, scale, FP8_MAX: tl.constexpr):
    """``clamp(x * scale)`` in fp32; NaN becomes -FP8_MAX."""
    return tl.clamp(x.to(tl.float32) * scale, -FP8_MAX, FP8_MAX)

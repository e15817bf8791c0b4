"""The silent bug: kernels that target e4m3fnuz (largest value 240) but scale and clamp to the 448 of e4m3fn.

It came from a literal in five kernels written for NVIDIA GPUs (pytorch/ao#3996 replaced it). The clamp then lets values
up to 448 reach the conversion, which on gfx942 saturates (Triton sets MODE.FP16_OVFL): every value above 240 / 448 =
54 % of its row's amax becomes 240 without a sign of it. Where a conversion does not saturate, values from 248 / 448 =
55 % become NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from wavecast.kernels.fnuz.api import quantize_fnuz
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ
from wavecast.kernels.quantizer import Quantized

WRONG_MAXIMUM = E4M3FN.max
"""The maximum of the other E4M3 encoding."""

VARIANTS: dict[str, Callable[..., Quantized]] = {
    "max-448": partial(quantize_fnuz, maximum=WRONG_MAXIMUM),
    "max-240": partial(quantize_fnuz, maximum=E4M3FNUZ.max),
}
"""The variants of the experiment ``fnuz``, the baseline first; all take ``x`` and ``power_of_two``."""

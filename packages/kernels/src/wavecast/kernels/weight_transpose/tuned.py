"""The atomic form of the transposing quantizer with its tiles chosen by autotuning, in spaces of three sizes.

torchao launches it with one configuration, tiles of 128 × 128 and 4 waves. pytorch/ao#3952 let ROCm choose among 24 and
36, and #4024 took that back. Which configurations those were is not kept anywhere that was found; the spaces here are
the same kind of grid (tile sides, waves, stages) round the one that was kept, each within the next larger one.

Both launches are tuned apart, each for its shape, as they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any

import torch
import triton

from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.weight_transpose.api import WEIGHT_TRANSPOSE
from wavecast.kernels.weight_transpose.baseline import (
    BLOCK_K,
    BLOCK_N,
    FILL_BLOCK,
    NUM_STAGES,
    NUM_WARPS,
    fill_kernel,
    tile_cast_kernel,
    tile_scale_kernel,
)

Configs = tuple[triton.Config, ...]
Choose = Callable[[Any, Sequence[triton.Config], Callable[..., Any], Sequence[Any], dict[str, Any]], triton.Config]
"""``choose(kernel, configs, grid, args, kwargs)``: the configuration for ``kernel[grid](*args, **kwargs)``."""


def _space(k_blocks: Sequence[int], n_blocks: Sequence[int]) -> Configs:
    """All tiles with 4 and 8 waves and 2 and 4 stages, the default first."""
    default = BLOCK_K, BLOCK_N, NUM_WARPS, NUM_STAGES
    settings = list(product(k_blocks, n_blocks, (4, 8), (2, 4)))
    settings.sort(key=lambda setting: setting != default)
    return tuple(_config(*setting) for setting in settings)


def _config(block_k: int, block_n: int, num_warps: int, num_stages: int) -> triton.Config:
    return triton.Config({"BLOCK_K": block_k, "BLOCK_N": block_n}, num_warps=num_warps, num_stages=num_stages)


SPACES: dict[str, Configs] = {
    "one": (_config(BLOCK_K, BLOCK_N, NUM_WARPS, NUM_STAGES),),
    "sixteen": _space((64, 128), (64, 128)),
    "thirty-six": _space((32, 64, 128), (64, 128, 256)),
}
"""Configurations by the name of the space; the first of each is the default."""


@lru_cache
def _autotuned(kernel: Any, configs: Configs) -> Any:
    return triton.autotune(configs=list(configs), key=["k", "n"])(kernel)


def launch_tuned(
    configs: Configs, choose: Choose | None, weight: torch.Tensor, out: Quantized, conversion: Conversion
) -> None:
    """Fill, tile scales, cast; as `wavecast.kernels.weight_transpose.baseline.launch_atomic`, relaxed.

    Tuning lowers the same scales again with every configuration, which leaves the same minimum.

    Args:
        configs: configurations of both launches.
        choose: takes one for a launch; None for Triton's autotuner.
        weight, out, conversion: as there.
    """
    experts, k, n = weight.shape
    fill_kernel[(triton.cdiv(experts * k, FILL_BLOCK),)](
        out.scale, experts * k, VALUE=float("inf"), BLOCK=FILL_BLOCK, num_warps=NUM_WARPS
    )

    def grid(meta: dict[str, Any]) -> tuple[int, int, int]:
        return experts, triton.cdiv(k, meta["BLOCK_K"]), max(triton.cdiv(n, meta["BLOCK_N"]), 1)

    def launch(kernel: Any, *args: Any, **kwargs: Any) -> None:
        if choose is None:
            _autotuned(kernel, configs)[grid](*args, **kwargs)
        else:
            kernel[grid](*args, **kwargs, **choose(kernel, configs, grid, args, kwargs).all_kwargs())

    launch(
        tile_scale_kernel,
        weight, *weight.stride(), out.scale, k, n, **conversion.scale_constants, SEMANTICS="relaxed",
    )  # fmt: skip
    launch(
        tile_cast_kernel,
        weight, *weight.stride(), out.values, *out.values.stride(), out.scale, out.inverse, k, n,
        FP8_MAX=conversion.maximum,
    )  # fmt: skip


def quantize_weight_transpose_tuned(weight: torch.Tensor, *, space: str, choose: Choose | None = None) -> Quantized:
    """Quantize and transpose expert weights with the fastest configuration of a space.

    Args:
        weight: as for `wavecast.kernels.weight_transpose.api.quantize_weight_transpose`.
        space: key of `SPACES`.
        choose: takes the configuration of a launch; None for Triton's autotuner.

    Returns:
        As there.
    """
    return WEIGHT_TRANSPOSE.run(partial(launch_tuned, SPACES[space], choose), weight)


VARIANTS: dict[str, Callable[..., Quantized]] = {
    name: partial(quantize_weight_transpose_tuned, space=name) for name in SPACES
}
"""The variants of ``autotune-space``, the baseline first."""

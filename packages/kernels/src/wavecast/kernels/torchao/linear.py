"""torchao's conversion of linear layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from wavecast.kernels.torchao.configs import Float8LinearConfig
from wavecast.kernels.training import Fp8Linear, convert_to_fp8_training


class Float8Linear(Fp8Linear):
    """`Fp8Linear` by a configuration.

    Attributes:
        config: the configuration.
    """

    config: Float8LinearConfig

    def __init__(self, *args: Any, config: Float8LinearConfig, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._configure(config)

    @classmethod
    def from_float(cls, mod: nn.Linear, config: Float8LinearConfig | None = None) -> Float8Linear:
        """A new layer with the same parameters; None is ``Float8LinearConfig()``, tensor-wise."""
        with torch.device("meta"):
            layer = cls(mod.in_features, mod.out_features, bias=False, config=config or Float8LinearConfig())
        layer.weight, layer.bias = mod.weight, mod.bias
        return layer

    def _configure(self, config: Float8LinearConfig) -> None:
        self.config = config
        self.recipe = config.recipe
        self.power_of_two = config.round_scales_to_power_of_2


def convert_to_float8_training(
    module: nn.Module,
    *,
    module_filter_fn: Callable[[nn.Module, str], bool] | None = None,
    config: Float8LinearConfig | None = None,
) -> nn.Module:
    """Make linear layers `Float8Linear`; see `convert_to_fp8_training`.

    All products are of E4M3 values, where torchao's tensor-wise recipe casts gradients to E5M2. Layers stay the same
    objects, also a linear layer that is ``module`` itself; subclasses of ``nn.Linear`` stay as they are.

    Args:
        module: is changed in place.
        module_filter_fn: ``module_filter_fn(layer, fully_qualified_name)``; None takes every layer.
        config: None is ``Float8LinearConfig()``, tensor-wise.

    Returns:
        ``module``.

    Raises:
        ValueError: no layer was converted.
    """
    config = config or Float8LinearConfig()
    taken: list[nn.Module] = []

    def take(layer: nn.Module, name: str) -> bool:
        wanted = module_filter_fn is None or module_filter_fn(layer, name)
        if wanted:
            taken.append(layer)
        return wanted

    convert_to_fp8_training(
        module, recipe=config.recipe, module_filter=take, power_of_two=config.round_scales_to_power_of_2
    )
    for layer in taken:
        layer.__class__ = Float8Linear
        assert isinstance(layer, Float8Linear)
        layer.config = config
    return module


def precompute_float8_dynamic_scale_for_fsdp(module: nn.Module) -> None:
    """Is not possible here: weights are gathered in their own dtype, so no scale is known before.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"{type(module).__name__} gathers its weights in their own dtype, and their scales are computed when they are "
        "used; there is nothing to precompute: remove the call"
    )

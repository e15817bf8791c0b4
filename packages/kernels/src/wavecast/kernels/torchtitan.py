"""Converters that give a torchtitan model our FP8 operators.

torchtitan builds a model from a tree of configs, and a converter changes that tree first, so they go where torchtitan's
own converters go::

    model_registry("16B", converters=[Fp8LinearConverter.Config(), Fp8GroupedExpertsConverter.Config()])

The contract is torchtitan at commit b5bcd76c. Parallelism that leaves a module with whole weights in its forward works:
data parallel with sharded states, expert and pipeline parallel. Tensor parallel does not; it is an error.

Raises:
    ImportError: torchtitan is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import torch

from wavecast.kernels.training import Recipe, fp8_linear, scaled_grouped_mm

try:
    from torchtitan.components.quantization import QuantizationConverter  # type: ignore[import-not-found]
    from torchtitan.models.common.linear import Linear  # type: ignore[import-not-found]
    from torchtitan.models.common.moe import GroupedExperts  # type: ignore[import-not-found]
except ImportError as error:
    raise ImportError(
        f"wavecast.kernels.torchtitan extends torchtitan, which cannot be imported: {error}; install torchtitan, or "
        "convert a model of nn.Linear layers with wavecast.kernels.training.convert_to_fp8_training"
    ) from error


class Fp8TitanLinear(Linear):
    """torchtitan's linear layer with its GEMMs in FP8."""

    @dataclass(kw_only=True, slots=True)
    class Config(Linear.Config):
        """Of the layer, and the recipe."""

        recipe: Recipe = Recipe.ROWWISE

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.recipe = config.recipe

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Linear's name
        _check_whole(type(self).__name__, self.weight)
        return fp8_linear(input, self.weight, self.bias, recipe=self.recipe)


@cache
def fp8_experts(experts: type) -> type:
    """A subclass of a class of grouped experts whose grouped GEMMs are in FP8; one and the same for the same class."""

    class Fp8Experts(experts):
        @dataclass(kw_only=True, slots=True)
        class Config(experts.Config):  # type: ignore[name-defined]
            recipe: Recipe = Recipe.ROWWISE

        def __init__(self, config: Config) -> None:
            super().__init__(config)
            self.recipe = config.recipe

        def _grouped_mm(self, *, A: torch.Tensor, B_t: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
            _check_whole(type(self).__name__, B_t)
            return scaled_grouped_mm(A, B_t, offs, recipe=self.recipe)

    Fp8Experts.__name__ = Fp8Experts.__qualname__ = f"Fp8{experts.__name__}"
    return Fp8Experts


class Fp8LinearConverter(QuantizationConverter):
    """Replaces torchtitan's `Linear` layers; its subclasses, which compute something else, stay as they are."""

    @dataclass(kw_only=True, slots=True)
    class Config(QuantizationConverter.Config):
        """What is converted, and how.

        Attributes:
            recipe: see `Recipe`.
            filter_fqns: a layer is left as it is if its name contains one of these.
        """

        recipe: Recipe = Recipe.ROWWISE
        filter_fqns: list[str] = field(default_factory=lambda: ["lm_head", "router"])

    def __init__(self, config: Config) -> None:
        self.config = config

    def convert(self, model_config: Any) -> Any:
        """The tree with its linear layers replaced; a new one only if its root is a linear layer."""

        def converted(name: str, config: Any) -> Any:
            if type(config) is not Linear.Config or any(part in name for part in self.config.filter_fqns):
                return config
            return Fp8TitanLinear.Config(**_fields_of(config), recipe=self.config.recipe)

        return _replace(model_config, Linear.Config, converted)


class Fp8GroupedExpertsConverter(QuantizationConverter):
    """Replaces grouped experts of any class whose grouped GEMMs go through ``_grouped_mm``.

    Groups need no padding, so the dispatcher of the tokens stays as it is.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(QuantizationConverter.Config):
        """How experts are converted; ``recipe``: see `Recipe`."""

        recipe: Recipe = Recipe.ROWWISE

    def __init__(self, config: Config) -> None:
        self.config = config

    def convert(self, model_config: Any) -> Any:
        """The tree with its experts replaced; a new one only if its root is experts."""

        def converted(_: str, config: Any) -> Any:
            if hasattr(config, "recipe"):  # is converted
                return config
            return fp8_experts(type(config)._owner).Config(**_fields_of(config), recipe=self.config.recipe)  # type: ignore[attr-defined]

        return _replace(model_config, GroupedExperts.Config, converted)


def _replace(root: Any, kind: type, converted: Callable[[str, Any], Any]) -> Any:
    """Replace every config of ``kind`` in the tree, in place; the root is returned, since it may be one."""
    for name, config, parent, attribute in list(root.traverse(kind)):
        replacement = converted(name, config)
        if parent is None:
            root = replacement
        elif isinstance(parent, list):
            parent[attribute] = replacement
        else:
            setattr(parent, attribute, replacement)
    return root


def _fields_of(config: Any) -> dict[str, Any]:
    return {f.name: getattr(config, f.name) for f in fields(config)}


def _check_whole(name: str, weight: torch.Tensor) -> None:
    """Refuse a sharded weight: its scales would be those of a part.

    Raises:
        ValueError: the weight is a DTensor.
    """
    if hasattr(weight, "to_local"):
        raise ValueError(
            f"{name} has a weight that is split over devices in its forward; FP8 layers take whole weights; leave it "
            "out of tensor parallelism, or of the conversion by filter_fqns"
        )

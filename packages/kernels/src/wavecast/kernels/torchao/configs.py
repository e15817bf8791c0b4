"""torchao's configurations of FP8 training: the same names, fields and defaults, read as one of our recipes.

torchao composes a float8 linear layer from casts that can be set one by one. Here a configuration must be one of its
three recipes; another combination is an error. Fields that have no meaning here say so.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from wavecast.kernels.device import default_format_name
from wavecast.kernels.formats import format_named, format_of
from wavecast.kernels.training import Recipe


class ScalingType(enum.Enum):
    """Whether a tensor is cast to FP8."""

    DYNAMIC = "dynamic"
    """Cast, with scales from its current values."""
    DISABLED = "disabled"
    """Not cast."""


class ScalingGranularity(enum.Enum):
    """How many scales a tensor has."""

    TENSORWISE = "tensorwise"
    """One."""
    AXISWISE = "axiswise"
    """One a row of the operand of a GEMM."""


class Float8LinearRecipeName(enum.Enum):
    """torchao's names of the recipes."""

    TENSORWISE = "tensorwise"
    ROWWISE = "rowwise"
    ROWWISE_WITH_GW_HP = "rowwise_with_gw_hp"


@dataclass(frozen=True)
class CastConfig:
    """How one operand is cast.

    Attributes:
        scaling_type: cast or not.
        scaling_granularity: how many scales.
        target_dtype: None for what the recipe takes: the E4M3 dtype of the active device.
    """

    scaling_type: ScalingType = ScalingType.DYNAMIC
    scaling_granularity: ScalingGranularity = ScalingGranularity.TENSORWISE
    target_dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        if self.target_dtype is not None:
            format_of(self.target_dtype)
        if self.scaling_granularity is ScalingGranularity.AXISWISE and self.scaling_type is ScalingType.DISABLED:
            raise ValueError("AXISWISE granularity with DISABLED scaling; only DYNAMIC has scales along an axis")


@dataclass(frozen=True)
class Float8GemmConfig:
    """How one GEMM is carried out.

    Attributes:
        use_fast_accum: has no effect: on AMD products are always summed in fp32, on sm_90 always as torch sums them
            with True, see `wavecast.kernels.grouped_gemm.grouped_gemm`.
    """

    use_fast_accum: bool = False


_TENSORWISE = CastConfig()
_AXISWISE = CastConfig(scaling_granularity=ScalingGranularity.AXISWISE)
_NOT_CAST = CastConfig(scaling_type=ScalingType.DISABLED)


@dataclass(frozen=True)
class Float8LinearConfig:
    """How the three GEMMs of a linear layer are carried out; use `from_recipe_name`.

    Attributes:
        cast_config_input, cast_config_weight: the operands of ``output``.
        cast_config_grad_output, cast_config_weight_for_grad_input: the operands of ``grad_input``.
        cast_config_input_for_grad_weight, cast_config_grad_output_for_grad_weight: the operands of ``grad_weight``. A
            cast for a second use that is None is that of the first.
        gemm_config_output, gemm_config_grad_input, gemm_config_grad_weight: have no effect, see `Float8GemmConfig`.
        enable_fsdp_float8_all_gather: must be False: weights are gathered in their own dtype.
        pad_inner_dim: has no effect: no size needs padding.
        emulate: must be False: on CPU tensors the operators take their references by themselves.
        force_recompute_fp8_weight_in_bwd: has no effect, as in torchao.
        round_scales_to_power_of_2: round scales down to powers of two.

    Raises:
        ValueError: a field that must be False is not, or the casts are those of no recipe.
    """

    cast_config_input: CastConfig = _TENSORWISE
    cast_config_input_for_grad_weight: CastConfig | None = None
    cast_config_weight: CastConfig = _TENSORWISE
    cast_config_weight_for_grad_input: CastConfig | None = None
    cast_config_grad_output: CastConfig = _TENSORWISE
    cast_config_grad_output_for_grad_weight: CastConfig | None = None
    gemm_config_output: Float8GemmConfig = Float8GemmConfig(use_fast_accum=True)
    gemm_config_grad_input: Float8GemmConfig = Float8GemmConfig()
    gemm_config_grad_weight: Float8GemmConfig = Float8GemmConfig()
    enable_fsdp_float8_all_gather: bool = False
    pad_inner_dim: bool = False
    emulate: bool = False
    force_recompute_fp8_weight_in_bwd: bool = False
    round_scales_to_power_of_2: bool = False

    def __post_init__(self) -> None:
        for name in ("enable_fsdp_float8_all_gather", "emulate"):
            if getattr(self, name):
                raise ValueError(f"{name} is True, which is not possible here; leave it False")
        for first, second in _SECOND_USE.items():
            if getattr(self, second) is None:
                object.__setattr__(self, second, getattr(self, first))
        _ = self.recipe

    @property
    def recipe(self) -> Recipe:
        """Our recipe with these casts.

        Raises:
            ValueError: there is none.
        """
        given = {operand: _kind(getattr(self, operand)) for operand in _OPERANDS}
        for name, casts in _CASTS.items():
            if given == {operand: _kind(cast) for operand, cast in casts.items()}:
                return _RECIPES[name]
        raise ValueError(
            f"no recipe has the casts {given}; take one from Float8LinearConfig.from_recipe_name: "
            f"{', '.join(name.value for name in Float8LinearRecipeName)}"
        )

    @staticmethod
    def from_recipe_name(recipe_name: Float8LinearRecipeName | str) -> Float8LinearConfig:
        """The configuration of a recipe.

        Raises:
            ValueError: no recipe has this name.
        """
        name = Float8LinearRecipeName(recipe_name)
        options: dict[str, Any] = dict(_CASTS[name])
        power_of_two = name is not Float8LinearRecipeName.TENSORWISE
        return Float8LinearConfig(**options, round_scales_to_power_of_2=power_of_two)


_SECOND_USE = {
    "cast_config_input": "cast_config_input_for_grad_weight",
    "cast_config_weight": "cast_config_weight_for_grad_input",
    "cast_config_grad_output": "cast_config_grad_output_for_grad_weight",
}
_OPERANDS = (*_SECOND_USE, *_SECOND_USE.values())

_CASTS: dict[Float8LinearRecipeName, dict[str, CastConfig]] = {
    Float8LinearRecipeName.TENSORWISE: dict.fromkeys(_OPERANDS, _TENSORWISE),
    Float8LinearRecipeName.ROWWISE: dict.fromkeys(_OPERANDS, _AXISWISE),
    Float8LinearRecipeName.ROWWISE_WITH_GW_HP: dict.fromkeys(_OPERANDS, _AXISWISE)
    | {
        "cast_config_weight_for_grad_input": _TENSORWISE,
        "cast_config_input_for_grad_weight": _NOT_CAST,
        "cast_config_grad_output_for_grad_weight": _NOT_CAST,
    },
}
_RECIPES = {
    Float8LinearRecipeName.TENSORWISE: Recipe.TENSORWISE,
    Float8LinearRecipeName.ROWWISE: Recipe.ROWWISE,
    Float8LinearRecipeName.ROWWISE_WITH_GW_HP: Recipe.ROWWISE_HP_WGRAD,
}


def _kind(cast: CastConfig) -> tuple[str, str]:
    return cast.scaling_type.value, cast.scaling_granularity.value


def auto_filter(module: nn.Module, fqn: str, *, recipe: Float8LinearRecipeName, filter_fqns: list[str]) -> bool:
    """Whether a layer is worth converting by torchao's thresholds, which were measured on an H100.

    Args:
        module: only ``nn.Linear`` with sizes that are multiples of 16 is.
        fqn: its name in the model.
        recipe: the thresholds differ.
        filter_fqns: a name that contains one of these is not.
    """
    if not isinstance(module, nn.Linear) or any(part in fqn for part in filter_fqns):
        return False
    n, k = module.weight.shape
    if n % 16 or k % 16:
        return False
    if recipe is Float8LinearRecipeName.TENSORWISE:
        return k > 4096 or n > 1024
    return n > 2048 and k > 1024 and (n > 4096 or k > 2048)


def _auto_filter_for_recipe(
    recipe: str | Float8LinearRecipeName, filter_fqns: list[str]
) -> Callable[[nn.Module, str], bool]:
    """`auto_filter` of a recipe, as a ``module_filter_fn``.

    Raises:
        ValueError: no recipe has this name.
        NotImplementedError: torchao has no thresholds for ``rowwise_with_gw_hp``.
    """
    name = Float8LinearRecipeName(recipe)
    if name is Float8LinearRecipeName.ROWWISE_WITH_GW_HP:
        raise NotImplementedError(f"there are no thresholds for {name.value}; write a module_filter_fn")
    return partial(auto_filter, recipe=name, filter_fqns=filter_fqns)


class Float8TrainingRecipe(enum.Enum):
    """torchao's name of its one recipe for FP8 grouped GEMMs."""

    FP8_ROWWISE = "fp8_rowwise"


def _native_e4m3() -> torch.dtype:
    return format_named(default_format_name()).dtype


@dataclass
class Float8TrainingOpConfig:
    """How the GEMMs of a converted module are carried out.

    Attributes:
        float8_dtype: of the operands; the E4M3 dtype of the active device.
        out_dtype: of the products of grouped GEMMs; None is bf16.
        pad_token_groups_for_grouped_mm: has no effect: groups may have any sizes.
        float8_linear_recipe: for linear layers; grouped GEMMs are row-wise.
    """

    float8_dtype: torch.dtype = field(default_factory=_native_e4m3)
    out_dtype: torch.dtype | None = torch.bfloat16
    pad_token_groups_for_grouped_mm: bool = False
    float8_linear_recipe: Literal["tensorwise", "rowwise", "rowwise_with_gw_hp"] = "rowwise"

    def __post_init__(self) -> None:
        format_of(self.float8_dtype)
        Float8LinearRecipeName(self.float8_linear_recipe)

    @classmethod
    def from_recipe(cls, recipe: Float8TrainingRecipe) -> Float8TrainingOpConfig:
        """The configuration of a recipe.

        Raises:
            ValueError: ``recipe`` is not one.
        """
        Float8TrainingRecipe(recipe)
        return cls()

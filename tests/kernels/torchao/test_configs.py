"""torchao's configurations: fields and defaults, and the recipe that each stands for."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

from wavecast.kernels.formats import E4M3FN, E4M3FNUZ
from wavecast.kernels.torchao import (
    CastConfig,
    Float8GemmConfig,
    Float8LinearConfig,
    Float8LinearRecipeName,
    Float8TrainingOpConfig,
    Float8TrainingRecipe,
    ScalingGranularity,
    ScalingType,
    _auto_filter_for_recipe,
)
from wavecast.kernels.training import Recipe

FIELDS = {
    CastConfig: {
        "scaling_type": ScalingType.DYNAMIC,
        "scaling_granularity": ScalingGranularity.TENSORWISE,
        "target_dtype": None,
    },
    Float8GemmConfig: {"use_fast_accum": False},
    Float8LinearConfig: {
        "cast_config_input": CastConfig(),
        "cast_config_input_for_grad_weight": None,
        "cast_config_weight": CastConfig(),
        "cast_config_weight_for_grad_input": None,
        "cast_config_grad_output": CastConfig(),
        "cast_config_grad_output_for_grad_weight": None,
        "gemm_config_output": Float8GemmConfig(use_fast_accum=True),
        "gemm_config_grad_input": Float8GemmConfig(),
        "gemm_config_grad_weight": Float8GemmConfig(),
        "enable_fsdp_float8_all_gather": False,
        "pad_inner_dim": False,
        "emulate": False,
        "force_recompute_fp8_weight_in_bwd": False,
        "round_scales_to_power_of_2": False,
    },
}
"""Fields of torchao's classes at commit 36027d82, in order, with their defaults."""


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_fields(kind: Any) -> None:
    assert [(f.name, f.default) for f in fields(kind)] == list(FIELDS[kind].items())


def test_fields_of_the_training_config() -> None:
    names = ["float8_dtype", "out_dtype", "pad_token_groups_for_grouped_mm", "float8_linear_recipe"]
    config = Float8TrainingOpConfig()
    assert [f.name for f in fields(config)] == names
    assert [getattr(config, name) for name in names] == [torch.float8_e4m3fn, torch.bfloat16, False, "rowwise"]
    assert Float8TrainingOpConfig.from_recipe(Float8TrainingRecipe.FP8_ROWWISE) == config


def test_names_of_values() -> None:
    assert [member.value for member in Float8LinearRecipeName] == ["tensorwise", "rowwise", "rowwise_with_gw_hp"]
    assert [member.value for member in ScalingType] == ["dynamic", "disabled"]
    assert [member.value for member in ScalingGranularity] == ["tensorwise", "axiswise"]
    assert [member.value for member in Float8TrainingRecipe] == ["fp8_rowwise"]


def test_the_device_decides_the_dtype(virtual_arch: str) -> None:
    wanted = {"gfx942": E4M3FNUZ, "gfx950": E4M3FN}[virtual_arch]
    assert Float8TrainingOpConfig().float8_dtype == wanted.dtype


@pytest.mark.parametrize(
    ("name", "recipe", "power_of_two"),
    [
        ("tensorwise", Recipe.TENSORWISE, False),
        ("rowwise", Recipe.ROWWISE, True),
        ("rowwise_with_gw_hp", Recipe.ROWWISE_HP_WGRAD, True),
    ],
)
def test_recipes(name: str, recipe: Recipe, power_of_two: bool) -> None:
    for spelling in (name, Float8LinearRecipeName(name)):
        config = Float8LinearConfig.from_recipe_name(spelling)
        assert (config.recipe, config.round_scales_to_power_of_2) == (recipe, power_of_two)
    assert list(inspect.signature(Float8LinearConfig.from_recipe_name).parameters) == ["recipe_name"]


def test_without_arguments_it_is_tensorwise() -> None:
    assert Float8LinearConfig() == Float8LinearConfig.from_recipe_name("tensorwise")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Float8LinearConfig.from_recipe_name("blockwise"), "'blockwise' is not a valid Float8LinearRecipeName"),
        (lambda: Float8LinearConfig(emulate=True), "emulate is True, which is not possible here"),
        (lambda: Float8LinearConfig(enable_fsdp_float8_all_gather=True), "enable_fsdp_float8_all_gather is True"),
        (
            lambda: Float8LinearConfig(cast_config_input=CastConfig(ScalingType.DISABLED)),
            "no recipe has the casts .* rowwise_with_gw_hp",
        ),
        (lambda: CastConfig(ScalingType.DISABLED, ScalingGranularity.AXISWISE), "AXISWISE granularity with DISABLED"),
        (lambda: CastConfig(target_dtype=torch.int8), "torch.int8 is not an FP8 dtype"),
        (lambda: Float8TrainingOpConfig(float8_dtype=torch.bfloat16), "torch.bfloat16 is not an FP8 dtype"),
        (lambda: Float8TrainingOpConfig(float8_linear_recipe="no"), "'no' is not a valid Float8LinearRecipeName"),
        (lambda: Float8TrainingOpConfig.from_recipe("no"), "'no' is not a valid Float8TrainingRecipe"),
    ],
)
def test_what_is_not_possible_is_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("recipe", "n", "k", "converted"),
    [
        ("rowwise", 4096, 4096, True),
        ("rowwise", 2048, 8192, False),
        ("rowwise", 8192, 1024, False),
        ("rowwise", 4096, 2048, False),
        ("rowwise", 8192, 2048, True),
        ("rowwise", 8200, 8192, False),
        ("tensorwise", 1024, 4096, False),
        ("tensorwise", 1024, 8192, True),
        ("tensorwise", 2048, 256, True),
    ],
)
def test_thresholds(recipe: str, n: int, k: int, converted: bool) -> None:
    layer = nn.Linear(k, n, device="meta")
    worth = _auto_filter_for_recipe(recipe, filter_fqns=["head"])
    assert worth(layer, "layers.0") is converted
    assert not worth(layer, "lm_head")
    assert not worth(nn.ReLU(), "layers.0")


def test_no_thresholds_for_the_third_recipe() -> None:
    with pytest.raises(NotImplementedError, match="write a module_filter_fn"):
        _auto_filter_for_recipe("rowwise_with_gw_hp", [])

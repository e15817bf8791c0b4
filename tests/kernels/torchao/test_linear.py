"""torchao's conversion of linear layers."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from wavecast.kernels.torchao import (
    Float8Linear,
    Float8LinearConfig,
    convert_to_float8_training,
    precompute_float8_dynamic_scale_for_fsdp,
)
from wavecast.kernels.training import Recipe, fp8_linear


def test_signature() -> None:
    parameters = inspect.signature(convert_to_float8_training).parameters
    assert [(p.name, p.default) for p in parameters.values()][1:] == [("module_filter_fn", None), ("config", None)]
    assert [p.kind for p in parameters.values()] == [
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.KEYWORD_ONLY,
    ]
    assert list(inspect.signature(Float8Linear.from_float).parameters) == ["mod", "config"]


@pytest.mark.parametrize(
    ("name", "recipe", "power_of_two"),
    [
        ("tensorwise", Recipe.TENSORWISE, False),
        ("rowwise", Recipe.ROWWISE, True),
        ("rowwise_with_gw_hp", Recipe.ROWWISE_HP_WGRAD, True),
    ],
)
def test_converted_layers_compute_the_recipe(name: str, recipe: Recipe, power_of_two: bool) -> None:
    config = Float8LinearConfig.from_recipe_name(name)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    done = convert_to_float8_training(model, config=config, module_filter_fn=lambda _, fqn: fqn != "2")
    assert done is model
    assert [type(layer) for layer in model] == [Float8Linear, nn.ReLU, nn.Linear]
    assert model[0].config is config
    x = torch.randn(4, 32)
    wanted = fp8_linear(x, model[0].weight, model[0].bias, recipe=recipe, power_of_two=power_of_two)
    assert torch.equal(model[0](x), wanted)


def test_without_a_config_it_is_tensorwise() -> None:
    layer = convert_to_float8_training(nn.Linear(32, 48))
    assert isinstance(layer, Float8Linear)
    assert (layer.recipe, layer.power_of_two) == (Recipe.TENSORWISE, False)


def test_from_float_shares_the_parameters() -> None:
    layer = nn.Linear(32, 48)
    made = Float8Linear.from_float(layer, Float8LinearConfig.from_recipe_name("rowwise"))
    assert made.weight is layer.weight
    assert made.bias is layer.bias
    assert made.recipe is Recipe.ROWWISE
    assert Float8Linear.from_float(nn.Linear(32, 48, bias=False)).bias is None


def test_a_layer_of_ones_own() -> None:
    layer = Float8Linear(32, 48, bias=False, config=Float8LinearConfig.from_recipe_name("rowwise"))
    x = torch.randn(4, 32)
    assert torch.equal(layer(x), fp8_linear(x, layer.weight, recipe=Recipe.ROWWISE))


def test_precomputed_scales_are_not_possible() -> None:
    with pytest.raises(NotImplementedError, match="remove the call"):
        precompute_float8_dynamic_scale_for_fsdp(nn.Linear(2, 2))

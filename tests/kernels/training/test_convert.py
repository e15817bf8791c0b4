"""Conversion of modules: only the class of a layer changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from wavecast.kernels.training import Fp8Linear, Recipe, convert_to_fp8_training


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16, bias=False)
        self.head = nn.Linear(16, 8)
        self.attention = nn.MultiheadAttention(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.down(self.up(x).relu()))


def test_layers_stay_the_same_objects() -> None:
    block = Block().eval()
    calls: list[Any] = []
    block.up.register_forward_hook(lambda *_: calls.append(1))
    before = dict(block.named_modules())
    parameters = dict(block.named_parameters())
    state = {name: tensor.clone() for name, tensor in block.state_dict().items()}

    assert convert_to_fp8_training(block, recipe=Recipe.TENSORWISE) is block

    assert dict(block.named_modules()) == before
    assert all(parameters[name] is parameter for name, parameter in block.named_parameters())
    assert {name: type(m) for name, m in block.named_modules() if isinstance(m, Fp8Linear)}.keys() == {
        "up",
        "down",
        "head",
    }
    assert not block.up.training
    assert list(block.state_dict()) == list(state)
    Block().load_state_dict(block.state_dict())
    block(torch.randn(4, 16))
    assert calls == [1]
    assert "recipe=tensorwise" in repr(block)


def test_subclasses_stay_as_they_are() -> None:
    """The output projection of attention is a subclass of nn.Linear, whose weight attention uses itself."""
    block = convert_to_fp8_training(Block())
    assert type(block.attention.out_proj) is nn.modules.linear.NonDynamicallyQuantizableLinear


def test_filter_sees_layers_and_their_names() -> None:
    seen = []

    def chosen(layer: nn.Module, name: str) -> bool:
        seen.append((type(layer), name))
        return name != "block.head"

    model = nn.ModuleDict({"block": Block()})
    convert_to_fp8_training(model, module_filter=chosen)
    assert seen == [(nn.Linear, "block.up"), (nn.Linear, "block.down"), (nn.Linear, "block.head")]
    assert type(model["block"].head) is nn.Linear
    assert type(model["block"].up) is Fp8Linear


def test_converting_again_names_the_recipe() -> None:
    block = convert_to_fp8_training(Block())
    layer = block.up
    convert_to_fp8_training(block, recipe=Recipe.ROWWISE_HP_WGRAD, power_of_two=False)
    assert block.up is layer
    assert (layer.recipe, layer.power_of_two) == (Recipe.ROWWISE_HP_WGRAD, False)
    assert (Fp8Linear.recipe, Fp8Linear.power_of_two) == (Recipe.ROWWISE, True)


def test_a_layer_itself_and_copies() -> None:
    layer = convert_to_fp8_training(nn.Linear(16, 16), recipe="tensorwise")
    assert layer.recipe is Recipe.TENSORWISE
    assert copy.deepcopy(layer).recipe is Recipe.TENSORWISE


def test_nothing_to_convert() -> None:
    with pytest.raises(ValueError, match="ReLU has no torch.nn.Linear"):
        convert_to_fp8_training(nn.ReLU())
    with pytest.raises(ValueError, match="took none of the 3 linear layers of Block: 'up', 'down', 'head'; widen it"):
        convert_to_fp8_training(Block(), module_filter=lambda _, name: "wq" in name)
    with pytest.raises(ValueError, match=r"none of the 9 linear .*'7', …; widen it"):
        convert_to_fp8_training(nn.Sequential(*(nn.Linear(2, 2) for _ in range(9))), module_filter=lambda *_: False)


def test_recipe_in_a_compiled_step_of_each_layer() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    convert_to_fp8_training(model, recipe=Recipe.ROWWISE, module_filter=lambda _, name: name == "0")
    convert_to_fp8_training(model, recipe=Recipe.TENSORWISE, module_filter=lambda _, name: name == "1")
    x = torch.randn(8, 16)
    traced = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.equal(traced(x), model(x))

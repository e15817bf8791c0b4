"""The converters on a stand-in of torchtitan's protocol: what is replaced, what stays, and what the modules compute."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import torchtitan_protocol as protocol

from wavecast.kernels.training import Recipe, fp8_linear, scaled_grouped_mm

NAME = "wavecast.kernels.torchtitan"


@pytest.fixture
def converters(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, imported over the stand-in."""
    for name, module in protocol.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


def tree() -> Any:
    return protocol.Model.Config(
        layers=[
            protocol.Linear.Config(in_features=32, out_features=48, bias=True),
            protocol.ScaledLinear.Config(in_features=32, out_features=48),
        ],
        experts=protocol.BiasedExperts.Config(dim=32, hidden_dim=48, num_experts=3, bias=1.0),
        lm_head=protocol.Linear.Config(in_features=32, out_features=48),
    )


def test_without_torchtitan_the_import_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchtitan", None)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    with pytest.raises(ImportError, match="extends torchtitan, which cannot be imported.*convert_to_fp8_training"):
        importlib.import_module(NAME)


def test_linear_layers_are_replaced_but_for_subclasses_and_named_ones(converters: ModuleType) -> None:
    converter = converters.Fp8LinearConverter.Config(recipe=Recipe.TENSORWISE).build()
    config = converter.convert(tree())
    assert [type(layer)._owner for layer in config.layers] == [converters.Fp8TitanLinear, protocol.ScaledLinear]
    assert type(config.lm_head) is protocol.Linear.Config
    assert (config.layers[0].bias, config.layers[0].recipe) == (True, Recipe.TENSORWISE)
    everywhere = converters.Fp8LinearConverter.Config(filter_fqns=[]).build().convert(tree())
    assert type(everywhere.lm_head)._owner is converters.Fp8TitanLinear


def test_a_tree_that_is_one_layer(converters: ModuleType) -> None:
    config = protocol.Linear.Config(in_features=32, out_features=48)
    assert type(converters.Fp8LinearConverter.Config().build().convert(config))._owner is converters.Fp8TitanLinear


def test_conversion_twice_is_conversion_once(converters: ModuleType) -> None:
    for kind in (converters.Fp8LinearConverter, converters.Fp8GroupedExpertsConverter):
        once = kind.Config().build().convert(tree())
        assert kind.Config().build().convert(once) == once


def test_experts_keep_their_class_and_fields(converters: ModuleType) -> None:
    config = converters.Fp8GroupedExpertsConverter.Config().build().convert(tree())
    model = config.build()
    assert isinstance(model.experts, protocol.BiasedExperts)
    assert type(model.experts).__name__ == "Fp8BiasedExperts"
    assert (model.experts.bias, model.experts.weight.shape) == (1.0, (3, 48, 32))
    assert converters.fp8_experts(protocol.BiasedExperts) is type(model.experts)


def test_experts_compute_the_scaled_product(converters: ModuleType) -> None:
    experts = converters.Fp8GroupedExpertsConverter.Config().build().convert(tree()).experts.build()
    torch.nn.init.normal_(experts.weight)
    x, sizes = torch.randn(20, 32), torch.tensor([5, 0, 15])
    out = experts(x, sizes)
    offs = torch.tensor([5, 5, 20], dtype=torch.int32)
    wanted = scaled_grouped_mm(x.bfloat16(), experts.weight.bfloat16().transpose(1, 2), offs, recipe=Recipe.ROWWISE)
    assert torch.equal(out, wanted.float() + 1.0)
    out.sum().backward()
    assert experts.weight.grad is not None
    assert (experts.weight.grad[1] == 0).all()


def test_linear_computes_the_scaled_product(converters: ModuleType) -> None:
    config = converters.Fp8LinearConverter.Config().build().convert(tree()).layers[0]
    layer = config.build().bfloat16()
    x = torch.randn(4, 16, 32, dtype=torch.bfloat16)
    assert torch.equal(layer(x), fp8_linear(x, layer.weight, layer.bias, recipe=Recipe.ROWWISE))


def test_weights_split_over_devices_are_refused(converters: ModuleType) -> None:
    class Split(torch.nn.Parameter):
        def to_local(self) -> None: ...

    layer = converters.Fp8LinearConverter.Config().build().convert(tree()).layers[0].build()
    layer.weight = Split(layer.weight.detach())
    with pytest.raises(ValueError, match="Fp8TitanLinear has a weight that is split over devices"):
        layer(torch.randn(4, 32))

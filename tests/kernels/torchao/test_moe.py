"""torchao's grouped GEMM and its conversion of parameters: signatures, results, what passes through."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
from torch import nn

import wavecast.kernels.torchao as adapter
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ
from wavecast.kernels.torchao import Float8TrainingOpConfig, Float8TrainingWeightWrapperTensor, quantize_
from wavecast.kernels.training import Recipe, fp8_linear, scaled_grouped_mm

NO_DEFAULT = inspect.Parameter.empty
SIGNATURES = {
    "_to_fp8_rowwise_then_scaled_grouped_mm": [
        ("A", NO_DEFAULT),
        ("B_t", NO_DEFAULT),
        ("offs", NO_DEFAULT),
        ("out_dtype", torch.bfloat16),
        ("float8_dtype", torch.float8_e4m3fn),
        ("pad_token_groups_for_grouped_mm", True),
    ],
    "_quantize_then_scaled_grouped_mm": [
        ("A", NO_DEFAULT),
        ("B_t", NO_DEFAULT),
        ("config", NO_DEFAULT),
        ("offs", None),
        ("bias", None),
    ],
}
"""What torchao's functions at commit 36027d82 take: names in order, and defaults."""


class Experts(nn.Module):
    """Experts as torchao's users write them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 48, 32))
        self.gain = nn.Parameter(torch.ones(48))

    def forward(self, x: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(x.bfloat16(), self.weight.bfloat16().transpose(-2, -1), offs=offs) * self.gain


class Model(nn.Module):
    """A linear layer, and experts with a linear layer of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(32, 32)
        self.experts = nn.ModuleDict({"routed": Experts(), "shared": nn.Linear(32, 48)})

    def forward(self, x: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        return self.experts["routed"](h, offs) + self.experts["shared"](h)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(24, 32, generator=generator), torch.tensor([7, 7, 24], dtype=torch.int32)


def only_experts(module: nn.Module, name: str) -> bool:
    del module
    return name == "experts"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    parameters = inspect.signature(getattr(adapter, name)).parameters.values()
    assert [(p.name, p.default) for p in parameters] == SIGNATURES[name]
    assert {p.kind for p in parameters} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_signature_of_the_conversion() -> None:
    assert list(inspect.signature(quantize_).parameters) == ["model", "config", "filter_fn", "device"]


def test_grouped_gemm_is_the_rowwise_recipe() -> None:
    x, offs = inputs()
    weight = torch.randn(3, 48, 32)
    wanted_inputs = [t.clone().requires_grad_() for t in (x, weight)]
    actual_inputs = [t.clone().requires_grad_() for t in (x, weight)]
    wanted = scaled_grouped_mm(wanted_inputs[0], wanted_inputs[1].transpose(1, 2), offs, recipe=Recipe.ROWWISE)
    actual = adapter._to_fp8_rowwise_then_scaled_grouped_mm(actual_inputs[0], actual_inputs[1].transpose(1, 2), offs)
    assert torch.equal(actual, wanted)
    for out in (wanted, actual):
        out.float().square().sum().backward()
    for a, w in zip(actual_inputs, wanted_inputs, strict=True):
        assert torch.equal(a.grad, w.grad)


def test_no_out_dtype_is_bf16_and_others_are_kept() -> None:
    x, offs = inputs()
    weight = torch.randn(3, 48, 32).transpose(1, 2)
    assert adapter._to_fp8_rowwise_then_scaled_grouped_mm(x, weight, offs, None).dtype == torch.bfloat16
    config = Float8TrainingOpConfig(out_dtype=torch.float32)
    assert adapter._quantize_then_scaled_grouped_mm(x, weight, config, offs).dtype == torch.float32


def test_the_dtype_must_be_the_devices(virtual_arch: str) -> None:
    other = {"gfx942": E4M3FN, "gfx950": E4M3FNUZ}[virtual_arch]
    x, offs = inputs()
    with pytest.raises(ValueError, match="this device multiplies torch.float8_e4m3fn.*; pass that"):
        adapter._to_fp8_rowwise_then_scaled_grouped_mm(
            x, torch.randn(3, 48, 32).transpose(1, 2), offs, float8_dtype=other.dtype
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": object()}, "config is object; wanted is .*Float8TrainingOpConfig"),
        ({"offs": None}, "offs is None"),
        ({"bias": torch.zeros(48)}, "a bias is given"),
    ],
)
def test_what_is_not_possible_is_named(changes: dict[str, Any], message: str) -> None:
    x, offs = inputs()
    arguments: dict[str, Any] = {"config": Float8TrainingOpConfig(), "offs": offs} | changes
    with pytest.raises(ValueError, match=message):
        adapter._quantize_then_scaled_grouped_mm(x, torch.randn(3, 48, 32).transpose(1, 2), **arguments)


def test_only_what_the_filter_takes_and_below_is_converted() -> None:
    model = Model()
    quantize_(model, Float8TrainingOpConfig(), filter_fn=only_experts)
    converted = {name for name, p in model.named_parameters() if isinstance(p, Float8TrainingWeightWrapperTensor)}
    assert converted == {"experts.routed.weight", "experts.shared.weight"}
    quantize_(model, Float8TrainingOpConfig())  # without a filter: linear layers
    assert isinstance(model.linear.weight, Float8TrainingWeightWrapperTensor)


def test_converted_experts_compute_and_learn_in_fp8() -> None:
    model, (x, offs) = Model(), inputs()
    plain = copy.deepcopy(model)
    quantize_(model, Float8TrainingOpConfig(), filter_fn=only_experts)
    routed, shared = plain.experts["routed"], plain.experts["shared"]
    h = plain.linear(x)
    grouped = scaled_grouped_mm(h.bfloat16(), routed.weight.bfloat16().transpose(1, 2), offs)
    wanted = grouped * routed.gain + fp8_linear(h, shared.weight, shared.bias)
    actual = model(x, offs)
    assert type(actual) is torch.Tensor
    assert torch.equal(actual, wanted)
    for out in (wanted, actual):
        out.float().square().sum().backward()
    for (name, a), w in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert torch.equal(a.grad, w.grad), name
        assert type(a.grad) is torch.Tensor, name


def test_converted_weights_step_save_move_and_copy() -> None:
    model, (x, offs) = Model(), inputs()
    quantize_(model, Float8TrainingOpConfig(), filter_fn=only_experts)
    model = copy.deepcopy(model).double().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    before = model(x.bfloat16(), offs)
    before.sum().backward()
    optimizer.step()
    assert not torch.equal(model(x.bfloat16(), offs), before)
    other = Model().bfloat16()
    other.load_state_dict({name: torch.Tensor(value.float()).bfloat16() for name, value in model.state_dict().items()})
    weight = model.experts["routed"].weight
    assert isinstance(weight, Float8TrainingWeightWrapperTensor)
    assert isinstance(weight, nn.Parameter)
    assert torch.equal(other.experts["routed"].weight, weight.as_subclass(torch.Tensor))


def test_a_grouped_gemm_of_another_form_is_refused() -> None:
    experts, (x, offs) = Experts(), inputs()
    quantize_(experts, Float8TrainingOpConfig(), filter_fn=lambda module, name: True)
    with pytest.raises(ValueError, match=r"grouped GEMM of \(3, 24, 32\) and \(3, 32, 48\)"):
        torch._grouped_mm(x.expand(3, 24, 32), experts.weight.transpose(1, 2))
    with pytest.raises(ValueError, match="grouped GEMM with bias"):
        torch.nn.functional.grouped_mm(x, experts.weight.transpose(1, 2), offs=offs, bias=torch.zeros(48))


def test_another_configuration_is_refused() -> None:
    with pytest.raises(ValueError, match="config is object; only .*Float8TrainingOpConfig is possible here"):
        quantize_(Model(), object())  # type: ignore[arg-type]

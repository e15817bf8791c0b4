"""Training on a real GPU, AMD's or NVIDIA's: gradients, compiled code, graphs, and no waiting for the device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from training_cases import (
    LAYERS,
    Layer,
    Products,
    assert_within,
    largest_errors,
    random_operands,
    three_products,
    train,
)

from wavecast.kernels import device, ops
from wavecast.kernels.device import active_arch, default_format_name, last_path
from wavecast.kernels.formats import format_named
from wavecast.kernels.training import Recipe, convert_to_fp8_training, fp8_linear, scaled_grouped_mm
from wavecast.kernels.transposed_copy import copy_transposed

pytestmark = pytest.mark.gpu

BF16 = torch.bfloat16
LARGE = (
    Layer("grouped", (130, 130, 700, 960), tokens=1024, k=512, n=384),
    Layer("linear", (1024,), tokens=1024, k=512, n=384),
)
ODD = (Layer("grouped", (3, 50, 50, 77), tokens=81, k=100, n=33), Layer("linear", (81,), tokens=81, k=100, n=33))
EVERY_RECIPE = pytest.mark.parametrize("recipe", Recipe)


def each(layers: tuple[Layer, ...]) -> Any:
    return pytest.mark.parametrize("layer", layers, ids=lambda layer: f"{layer.name}-{layer.k}")


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    """Skips where there is none; nothing compiled is left to the next test."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    yield
    torch.compiler.reset()


def on_gpu(operands: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(t.cuda() for t in operands)


def small_integers(layer: Layer, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Operands whose sums keep to the 13 bits or so in which Hopper's matrix unit adds FP8 products up."""
    generator = torch.Generator().manual_seed(6)
    shapes = (layer.tokens, layer.k), (len(layer.ends), layer.n, layer.k), (layer.tokens, layer.n)
    return tuple(torch.randint(-3, 4, shape, generator=generator).to(dtype) for shape in shapes)


@each(LAYERS)
@EVERY_RECIPE
@pytest.mark.parametrize("dtype", [BF16, torch.float32], ids=str)
def test_equal_to_float64_where_fp8_is_exact(layer: Layer, recipe: Recipe, dtype: torch.dtype) -> None:
    operands = small_integers(layer, dtype)
    actual = train(layer, on_gpu(operands), recipe=recipe, out_dtype=dtype)
    for one, exact in zip(actual, three_products(layer, *operands), strict=True):
        assert torch.equal(one.cpu(), exact.to(dtype))


@each(LARGE + ODD)
@EVERY_RECIPE
def test_within_the_step_of_fp8(layer: Layer, recipe: Recipe) -> None:
    operands = random_operands(layer, BF16)
    actual = train(layer, on_gpu(operands), recipe=recipe, out_dtype=BF16)
    bounds = largest_errors(
        layer,
        *operands,
        fmt=format_named(default_format_name()),
        recipe=recipe,
        sum_error=2.0**-11 if str(active_arch()).startswith("sm_") else 0.0,
    )
    assert_within(Products(*(t.cpu() for t in actual)), three_products(layer, *operands), bounds)


@pytest.mark.parametrize("dtype", [BF16, torch.float32, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", [(512, 384), (3, 130, 70), (5, 7)], ids=str)
def test_transposed_copies(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randint(0, 255, shape, device="cuda").to(dtype)
    if dtype is torch.uint8:
        x = x.view(format_named(default_format_name()).dtype)
    assert torch.equal(copy_transposed(x).view(torch.uint8), x.mT.contiguous().view(torch.uint8))


class Step:
    """Forward and backward of a layer on tensors that stay where they are."""

    def __init__(self, layer: Layer, recipe: Recipe) -> None:
        self.layer, self.recipe = layer, recipe
        self.a, self.weight, self.grad = on_gpu(random_operands(layer, BF16))
        self.a.requires_grad_()
        self.weight.requires_grad_()
        self.offs = layer.offs("cuda")

    def forward(self, a: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        if self.layer.linear:
            return fp8_linear(a, weight[0], recipe=self.recipe)
        return scaled_grouped_mm(a, weight.transpose(1, 2), offs, recipe=self.recipe)

    def __call__(self, forward: Callable[..., torch.Tensor] | None = None) -> Products:
        out = (forward or self.forward)(self.a, self.weight, self.offs)
        return Products(out, *torch.autograd.grad(out, (self.a, self.weight), self.grad))


@each(LARGE)
@EVERY_RECIPE
def test_compiled_is_equal(layer: Layer, recipe: Recipe) -> None:
    """Inductor, one graph, forward and backward."""
    step = Step(layer, recipe)
    for one, other in zip(step(torch.compile(step.forward, fullgraph=True)), step(), strict=True):
        assert torch.equal(one, other)


@each(LARGE)
@EVERY_RECIPE
def test_never_waits_for_the_device(layer: Layer, recipe: Recipe) -> None:
    """`set_sync_debug_mode` raises for any copy to the host and any explicit wait."""
    step = Step(layer, recipe)
    step()  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@each(LARGE)
@EVERY_RECIPE
def test_captured_as_a_graph(layer: Layer, recipe: Recipe) -> None:
    """Forward and backward of a step, replayed on other values and other group sizes."""
    step = Step(layer, recipe)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for held in (step.a, step.weight, step.grad):
            held.copy_(held.flip(-1))
        if not layer.linear:
            step.offs.copy_(torch.tensor([1, 400, 900, 1000]))
    graph.replay()
    for one, wanted in zip(captured, step(), strict=True):
        assert torch.equal(one, wanted)


def test_a_converted_model_learns_as_in_bf16() -> None:
    losses = {}
    for recipe in (None, *Recipe):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda()
        if recipe is not None:
            convert_to_fp8_training(model, recipe=recipe)
        traced = torch.compile(model, fullgraph=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(100):
            x = torch.randn(512, 256, device="cuda")
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", BF16):
                loss = (traced(x) - x).float().square().mean()
            loss.backward()
            optimizer.step()
        losses[recipe] = loss.item()
    print({str(recipe): f"{loss:.4f}" for recipe, loss in losses.items()})
    assert losses[None] < 0.5
    for recipe in Recipe:
        assert abs(losses[recipe] - losses[None]) < 0.05


def test_emulated_where_there_is_no_fp8_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    """This GPU's tensors under the name of one without FP8: plain torch on it gives what kernels give."""
    layer = LAYERS[0]
    operands = on_gpu(small_integers(layer, BF16))
    fmt = default_format_name()
    options = {"recipe": Recipe.ROWWISE, "out_dtype": BF16}
    wanted = train(layer, operands, **options)
    x, offs = random_operands(layer, BF16)[0].cuda(), layer.offs("cuda")
    quantized = [
        ops.quantize_dual_layout(x, offs, format=fmt),
        ops.quantize_rowwise_per_group(x.t().contiguous(), offs, format=fmt),
        ops.quantize_tensorwise(x, format=fmt),
        ops.quantize_blockwise(x, [1, 128], format=fmt),
    ]
    none = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 80, 32), is_virtual=False)
    monkeypatch.setattr(driver, "_active", none)
    assert active_arch() == "sm_80"
    again = [
        ops.quantize_dual_layout(x, offs, format=fmt),
        ops.quantize_rowwise_per_group(x.t().contiguous(), offs, format=fmt),
        ops.quantize_tensorwise(x, format=fmt),
        ops.quantize_blockwise(x, [1, 128], format=fmt),
    ]
    assert last_path() is device.Path.EMULATED
    for actual, kernels in zip(again, quantized, strict=True):
        for one, other in zip(actual, kernels, strict=True):
            assert one.is_cuda
            assert torch.equal(one.float(), other.float())
    for one, other in zip(train(layer, operands, **options), wanted, strict=True):
        assert torch.equal(one, other)

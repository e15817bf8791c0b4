"""A training step as a whole: what is quantized how often, what is kept, and that it can be traced and checkpointed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from training_cases import GROUPED, LAYERS, LINEAR, Layer, exact_operands, random_operands, train

from wavecast.kernels.training import Fp8Linear, Recipe, convert_to_fp8_training, fp8_linear, scaled_grouped_mm

EVERY_LAYER = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
EVERY_RECIPE = pytest.mark.parametrize("recipe", Recipe)
BF16 = torch.bfloat16


class Count(TorchDispatchMode):
    """Counts calls of the operators of this library, but for copies."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "wavecast" and func is not torch.ops.wavecast.copy_transposed.default:
            self.calls[func._schema.name.removeprefix("wavecast::")] += 1
        return func(*args, **(kwargs or {}))


GEMM = {GROUPED: "grouped_gemm", LINEAR: "scaled_gemm"}
BOTH = {"quantize_dual_layout": 2, "quantize_weight_layouts": 1}
ROWS = {"quantize_rowwise": 2, "quantize_weight_layouts": 1}


@pytest.mark.parametrize(
    ("recipe", "needs", "quantized", "gemms"),
    [
        (Recipe.ROWWISE, (True, True), BOTH, 3),
        (Recipe.ROWWISE_HP_WGRAD, (True, True), ROWS, 2),
        (Recipe.TENSORWISE, (True, True), {"quantize_tensorwise": 3}, 3),
        (Recipe.ROWWISE, (True, False), ROWS, 2),
        (
            Recipe.ROWWISE,
            (False, True),
            {"quantize_dual_layout": 1, "quantize_expert_weights": 1, "colwise_per_group": 1},
            2,
        ),
        (Recipe.ROWWISE, (False, False), {"quantize_rowwise": 1, "quantize_expert_weights": 1}, 1),
    ],
)
@EVERY_LAYER
def test_each_tensor_is_quantized_once(
    layer: Layer, recipe: Recipe, needs: tuple[bool, bool], quantized: dict[str, int], gemms: int
) -> None:
    """In all layouts that are needed, and in no other."""
    a, weight, grad = random_operands(layer, BF16)
    a.requires_grad_(needs[0])
    weight.requires_grad_(needs[1])
    with Count() as count:
        out = layer.run(a, weight, recipe=recipe, out_dtype=BF16)
        if any(needs):
            out.backward(grad)
    unquantized = recipe is Recipe.ROWWISE_HP_WGRAD and layer is GROUPED  # a grouped GEMM, too, but of bf16
    assert count.calls == quantized | {GEMM[layer]: gemms + unquantized}


@EVERY_LAYER
def test_without_gradients_only_the_forward_pass_is_prepared(layer: Layer) -> None:
    a, weight, _ = random_operands(layer, BF16)
    with Count() as count, torch.no_grad():
        layer.run(a.requires_grad_(), weight.requires_grad_(), recipe=Recipe.ROWWISE, out_dtype=BF16)
    assert count.calls == {"quantize_rowwise": 1, "quantize_expert_weights": 1, GEMM[layer]: 1}


@EVERY_LAYER
@EVERY_RECIPE
def test_bytes_between_the_passes(layer: Layer, recipe: Recipe) -> None:
    """What the docstrings state, and the offsets."""
    m, k, n, experts = layer.tokens, layer.k, layer.n, len(layer.ends)
    column_scales = experts * k if recipe is Recipe.ROWWISE else 1
    a_bytes = 2 * m * k if recipe is Recipe.ROWWISE_HP_WGRAD else m * k + 4 * column_scales
    weight_bytes = experts * k * n + 4 * (1 if recipe is Recipe.TENSORWISE else experts * k)
    a, weight, _ = random_operands(layer, BF16)
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = layer.run(a.requires_grad_(), weight.requires_grad_(), recipe=recipe, out_dtype=BF16)
    offs_bytes = 0 if layer.linear and recipe is not Recipe.ROWWISE else 4 * experts
    assert sum(saved.values()) == a_bytes + weight_bytes + offs_bytes
    del out


@EVERY_LAYER
@EVERY_RECIPE
def test_checkpointing_changes_nothing(layer: Layer, recipe: Recipe) -> None:
    def recomputed(*operands: torch.Tensor, **options: Any) -> torch.Tensor:
        return checkpoint(layer.run, *operands, use_reentrant=False, **options)

    operands = random_operands(layer, BF16)
    options = {"recipe": recipe, "out_dtype": BF16}
    plain = train(layer, operands, **options)
    for one, other in zip(train(layer, operands, run=recomputed, **options), plain, strict=True):
        assert torch.equal(one, other)


@EVERY_RECIPE
def test_traced_without_a_break(recipe: Recipe) -> None:
    """Forward and backward, two numbers of tokens in one trace, bit for bit what runs without it."""
    torch._dynamo.reset()

    def both(
        a: torch.Tensor, experts: torch.Tensor, offs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        hidden = scaled_grouped_mm(a, experts.transpose(1, 2), offs, recipe=recipe)
        return fp8_linear(hidden, weight, bias, recipe=recipe)

    graphs = []

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        graphs.append(module)
        return torch._dynamo.lookup_backend("aot_eager")(module, inputs)

    traced = torch.compile(both, fullgraph=True, dynamic=True, backend=backend)
    for tokens in (50, 64):
        layer = Layer("grouped", GROUPED.ends, tokens, GROUPED.k, GROUPED.n)
        a, experts, _ = random_operands(layer, BF16)
        generator = torch.Generator().manual_seed(5)
        weight = torch.randn(16, GROUPED.n, generator=generator)
        bias = torch.randn(16, generator=generator)
        results = []
        for function in (traced, both):
            leaves = [t.detach().requires_grad_() for t in (a, experts, weight, bias)]
            out = function(*leaves[:2], layer.offs(), *leaves[2:])
            out.backward(torch.ones_like(out))
            results.append([out, *(leaf.grad for leaf in leaves)])
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)
    assert len(graphs) == 1


def test_exported() -> None:
    """`torch.export` keeps each operator as one call."""
    model = convert_to_fp8_training(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)))
    x = torch.randn(8, 16)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    called = Counter(str(node.target) for node in program.graph.nodes if "wavecast" in str(node.target))
    assert called["wavecast.scaled_gemm.default"] == 2
    longer = torch.cat([x, -x])
    assert torch.equal(program.module()(longer), model(longer))


def test_a_converted_model_is_traced_and_learns() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))
    convert_to_fp8_training(model)
    traced = torch.compile(model, fullgraph=True, backend="aot_eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(64, 16)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (traced(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.4 * losses[0]


@EVERY_RECIPE
def test_autocast_is_that_of_linear_layers(recipe: Recipe) -> None:
    """fp32 operands enter as bf16, the result is bf16, and gradients are fp32."""
    a, weight, grad = exact_operands(LINEAR, torch.float32)
    a, weight = a + a * 2.0**-12, weight[0] + weight[0] * 2.0**-12  # bf16 drops this
    a.requires_grad_()
    layer = Fp8Linear(LINEAR.k, LINEAR.n, bias=False)
    layer.recipe = recipe
    layer.weight = torch.nn.Parameter(weight)
    plain = torch.nn.Linear(LINEAR.k, LINEAR.n, bias=False)
    plain.weight = torch.nn.Parameter(weight)
    results = []
    for module in (layer, plain):
        a.grad = module.weight.grad = None
        with torch.autocast("cpu", BF16):
            out = module(a)
        out.backward(grad.to(BF16))
        results.append((out, a.grad, module.weight.grad))
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_autocast_of_grouped_layers() -> None:
    a, weight, grad = exact_operands(GROUPED, torch.float32)
    wanted = train(GROUPED, (a, weight, grad), recipe=Recipe.ROWWISE, out_dtype=torch.float32)
    with torch.autocast("cpu", BF16):
        actual = train(
            GROUPED,
            (a + a * 2.0**-12, weight + weight * 2.0**-12, grad),
            recipe=Recipe.ROWWISE,
            out_dtype=torch.float32,
        )
    assert torch.equal(actual.out, wanted.out)
    for one, other in zip(actual[1:], wanted[1:], strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other.to(BF16).float())

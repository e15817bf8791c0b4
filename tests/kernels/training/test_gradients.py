"""Outputs and gradients against float64, by structure.

`torch.autograd.gradcheck` does not apply: it differentiates numerically, and a function that rounds its inputs is a
staircase. What is checked instead: on inputs that FP8 represents nothing is rounded, so everything equals float64
exactly, finite differences of any size too, as the layer is linear in each operand; on other inputs each element is
within a bound that follows from the step of the format.
"""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quantizers import exact_values
from training_cases import (
    GROUPED,
    LAYERS,
    Layer,
    assert_within,
    exact_operands,
    largest_errors,
    random_operands,
    three_products,
    train,
)
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from wavecast.kernels.device import Path, last_path
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.training import Recipe, fp8_linear, scaled_grouped_mm

EVERY_LAYER = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
EVERY_RECIPE = pytest.mark.parametrize("recipe", Recipe)


@EVERY_LAYER
@EVERY_RECIPE
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_equal_to_float64_where_fp8_is_exact(layer: Layer, recipe: Recipe, dtype: torch.dtype) -> None:
    operands = exact_operands(layer, dtype)
    wanted = three_products(layer, *operands)
    for actual, exact in zip(train(layer, operands, recipe=recipe, out_dtype=dtype), wanted, strict=True):
        assert actual.dtype == dtype
        assert torch.equal(actual, exact.to(dtype))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    behind=st.integers(0, 20),
    k=st.integers(1, 40),
    n=st.integers(1, 40),
    recipe=st.sampled_from(Recipe),
)
def test_any_groups_and_sizes(sizes: list[int], behind: int, k: int, n: int, recipe: Recipe) -> None:
    """Cases D1, D3 and D4: ragged and empty groups, rows behind them, sizes that no vector divides."""
    ends = tuple(accumulate(sizes))
    layer = Layer("grouped", ends, ends[-1] + behind, k, n)
    operands = exact_operands(layer, torch.bfloat16)
    wanted = three_products(layer, *operands)
    for actual, exact in zip(train(layer, operands, recipe=recipe, out_dtype=torch.bfloat16), wanted, strict=True):
        assert torch.equal(actual, exact.to(torch.bfloat16))


@EVERY_LAYER
def test_emulated_on_a_device_without_fp8(monkeypatch: pytest.MonkeyPatch, layer: Layer) -> None:
    ampere = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 80, 32), is_virtual=True)
    monkeypatch.setattr(driver, "_active", ampere)
    operands = exact_operands(layer, torch.bfloat16)
    actual = train(layer, operands, recipe=Recipe.ROWWISE, out_dtype=torch.bfloat16)
    assert last_path() is Path.EMULATED
    for one, exact in zip(actual, three_products(layer, *operands), strict=True):
        assert torch.equal(one, exact.to(torch.bfloat16))


@EVERY_LAYER
@EVERY_RECIPE
def test_finite_differences_of_any_size(layer: Layer, recipe: Recipe) -> None:
    """<grad, out(a + d)> - <grad, out(a)> is <grad_a, d>, exactly, and likewise for the weight."""
    a, weight, grad = exact_operands(layer, torch.float32)
    options = {"recipe": recipe, "out_dtype": torch.float32}
    _, grad_a, grad_weight = train(layer, (a, weight, grad), **options)

    def loss(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (layer.run(a, weight, **options).double() * grad).sum()

    moved_a, moved_weight, _ = (t.flip(0) for t in exact_operands(layer, torch.float32))
    assert loss(moved_a, weight) - loss(a, weight) == (grad_a.double() * (moved_a - a)).sum()
    assert loss(a, moved_weight) - loss(a, weight) == (grad_weight.double() * (moved_weight - weight)).sum()


@EVERY_LAYER
@EVERY_RECIPE
def test_within_the_step_of_fp8(layer: Layer, recipe: Recipe) -> None:
    operands = random_operands(layer, torch.bfloat16)
    actual = train(layer, operands, recipe=recipe, out_dtype=torch.bfloat16)
    bounds = largest_errors(layer, *operands, fmt=E4M3FN, recipe=recipe)
    assert_within(actual, three_products(layer, *operands), bounds)


@EVERY_LAYER
@EVERY_RECIPE
def test_scaling_by_powers_of_two_commutes(layer: Layer, recipe: Recipe) -> None:
    """Bit for bit, also where values are rounded: scales follow, values stay the same."""
    a, weight, grad = random_operands(layer, torch.float32)
    options = {"recipe": recipe, "out_dtype": torch.float32}
    plain, scaled = (train(layer, (a * f, weight, grad), **options) for f in (1.0, 0.125))
    assert torch.equal(scaled.out, plain.out * 0.125)
    assert torch.equal(scaled.grad_a, plain.grad_a)
    assert torch.equal(scaled.grad_weight, plain.grad_weight * 0.125)


@EVERY_RECIPE
@pytest.mark.parametrize("poison", [float("nan"), 1e30])
def test_rows_in_no_group_do_not_matter(recipe: Recipe, poison: float) -> None:
    """Case D3: memory that was used before lies behind the last group."""
    a, weight, grad = exact_operands(GROUPED, torch.bfloat16)
    wanted = train(GROUPED, (a, weight, grad), recipe=recipe, out_dtype=torch.bfloat16)
    a[GROUPED.ends[-1] :] = poison
    grad[GROUPED.ends[-1] :] = poison
    actual = train(GROUPED, (a, weight, grad), recipe=recipe, out_dtype=torch.bfloat16)
    for one, other in zip(actual, wanted, strict=True):
        assert torch.equal(one, other)
    for rows in (actual.out, actual.grad_a):
        assert (rows[GROUPED.ends[-1] :] == 0).all()


@EVERY_RECIPE
def test_empty_groups_have_zero_gradient(recipe: Recipe) -> None:
    """Cases D1 and D2: an expert without tokens, and all of them."""
    for ends in ((10, 10, 33, 45), (0, 0, 0, 0)):
        layer = Layer("grouped", ends=ends, tokens=50, k=32, n=48)
        out, grad_a, grad_weight = train(
            layer, random_operands(layer, torch.bfloat16), recipe=recipe, out_dtype=torch.bfloat16
        )
        for group, rows in enumerate(layer.rows()):
            assert grad_weight[group].any() == (rows.stop > rows.start)
        assert not out[ends[-1] :].any() and not grad_a[ends[-1] :].any()


@EVERY_RECIPE
def test_no_tokens(recipe: Recipe) -> None:
    for layer in (Layer("grouped", (0, 0), 0, 32, 16), Layer("linear", (0,), 0, 32, 16)):
        products = train(layer, random_operands(layer, torch.bfloat16), recipe=recipe, out_dtype=torch.bfloat16)
        assert products.out.shape == (0, 16) and products.grad_a.shape == (0, 32)
        assert not products.grad_weight.any()


@EVERY_RECIPE
@pytest.mark.parametrize("shape", [(3, 4, 0), (0, 4, 16), (16,)], ids=str)
def test_leading_dimensions_of_any_sizes(recipe: Recipe, shape: tuple[int, ...]) -> None:
    x, weight = torch.ones(shape, requires_grad=True), torch.ones(8, shape[-1], requires_grad=True)
    out = fp8_linear(x, weight, recipe=recipe)
    assert torch.equal(out, torch.full((*shape[:-1], 8), float(shape[-1])))
    out.sum().backward()
    assert torch.equal(x.grad, torch.full(shape, 8.0))
    assert torch.equal(weight.grad, torch.full(weight.shape, 1.0 if shape == (16,) else 0.0))


@EVERY_LAYER
@EVERY_RECIPE
def test_any_strides(layer: Layer, recipe: Recipe) -> None:
    """A gradient that is one value repeated, and an input with rows that are not contiguous."""
    a, weight, _ = exact_operands(layer, torch.bfloat16)
    ones = torch.ones(layer.tokens, layer.n, dtype=torch.bfloat16)
    wanted = three_products(layer, a, weight, ones)
    a = a.t().contiguous().t().requires_grad_()
    weight.requires_grad_()
    layer.run(a, weight, recipe=recipe, out_dtype=torch.bfloat16).sum().backward()
    assert torch.equal(a.grad, wanted.grad_a.to(a.dtype))
    assert torch.equal(weight.grad, wanted.grad_weight.to(a.dtype))


def test_the_gradient_of_the_weight_has_its_layout() -> None:
    a, weight, grad = exact_operands(GROUPED, torch.bfloat16)
    b_t = weight.transpose(1, 2).requires_grad_()
    scaled_grouped_mm(a, b_t, GROUPED.offs()).backward(grad)
    assert b_t.grad.stride() == b_t.stride()


@EVERY_RECIPE
def test_bias_and_leading_dimensions(recipe: Recipe) -> None:
    x = exact_values(2, 3, 5, 32).requires_grad_()
    weight, bias = exact_values(16, 32, seed=1).requires_grad_(), exact_values(16, seed=2).requires_grad_()
    grad = exact_values(2, 3, 5, 16, seed=3)
    doubles = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    out = fp8_linear(x, weight, bias, recipe=recipe)
    wanted = torch.nn.functional.linear(*doubles[:2])
    assert torch.equal(out, wanted.to(x.dtype) + bias)
    out.backward(grad)
    (wanted + doubles[2]).backward(grad.double())
    for actual, double in zip((x, weight, bias), doubles, strict=True):
        assert torch.equal(actual.grad, double.grad.to(x.dtype))


def test_input_and_weight_of_different_dtypes() -> None:
    x, weight = exact_values(8, 32).requires_grad_(), exact_values(16, 32, dtype=torch.float32).requires_grad_()
    out = fp8_linear(x, weight)
    out.sum().backward()
    assert (out.dtype, x.grad.dtype, weight.grad.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)


@pytest.mark.parametrize("power_of_two", [True, False])
def test_scales_are_powers_of_two_unless_refused(power_of_two: bool) -> None:
    """With other scales 3 of 7 is not where FP8 is exact, and 1 of 1 is."""
    x = torch.tensor([[7.0, 3.0] * 8], dtype=torch.float32)
    out = fp8_linear(x, torch.eye(16), power_of_two=power_of_two)
    assert torch.equal(out, x) == power_of_two
    assert torch.allclose(out, x, rtol=2**-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b, offs: (a[0], b, offs), "a has 1 dimensions"),
        (lambda a, b, offs: (a.double(), b, offs), "a is float64"),
        (lambda a, b, offs: (a, b.contiguous(), offs), r"weight has strides .* wanted are \(1536, 1, 32\)"),
        (lambda a, b, offs: (a[:, 1:], b, offs), "K of a is 31 but K of b_t is 32"),
        (lambda a, b, offs: (a, b, offs[1:]), "the number of offs is 3 but the number of experts in b_t is 4"),
        (lambda a, b, offs: (a, b, offs.long()), "offs is int64"),
    ],
)
def test_grouped_refusals(change, message: str) -> None:
    a, weight, _ = exact_operands(GROUPED, torch.bfloat16)
    with pytest.raises(ValueError, match=message):
        scaled_grouped_mm(*change(a, weight.transpose(1, 2), GROUPED.offs()))


@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        (torch.zeros(()), torch.zeros(2, 2), "x has no dimension"),
        (torch.zeros(2, 2, dtype=torch.int8), torch.zeros(2, 2), "x is int8"),
        (torch.zeros(2, 2), torch.zeros(2), "weight has 1 dimensions"),
        (torch.zeros(2, 3), torch.zeros(2, 2), "the last dimension of x is 3 but that of weight is 2"),
    ],
)
def test_linear_refusals(x: torch.Tensor, weight: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fp8_linear(x, weight)


def test_unknown_recipe() -> None:
    with pytest.raises(ValueError, match="'columnwise' is not a valid Recipe"):
        fp8_linear(torch.zeros(2, 2), torch.zeros(2, 2), recipe="columnwise")

"""What the training tests share: layers as a function of operands, in FP8 and in float64, and what FP8 may cost.

A linear layer is a grouped one with one group of all rows, so that one definition in float64 serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from quantizers import exact_values

from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.training import Recipe, fp8_linear, scaled_grouped_mm


@dataclass(frozen=True)
class Layer:
    """A layer and its sizes.

    Attributes:
        name: for messages.
        ends: end offsets of the groups.
        tokens: rows of the input; those from ``ends[-1]`` on are in no group.
        k, n: features in and out.
    """

    name: str
    ends: tuple[int, ...]
    tokens: int
    k: int
    n: int

    @property
    def linear(self) -> bool:
        return self.name == "linear"

    def rows(self) -> list[slice]:
        """The rows of each group."""
        return [slice(start, end) for start, end in zip((0, *self.ends), self.ends, strict=False)]

    def offs(self, device: torch.device | str = "cpu") -> torch.Tensor:
        return torch.tensor(self.ends, dtype=torch.int32, device=device)

    def run(self, a: torch.Tensor, weight: torch.Tensor, *, recipe: Recipe, out_dtype: torch.dtype) -> torch.Tensor:
        """``a`` (tokens, k) and ``weight`` (groups, n, k) through the layer."""
        if self.linear:
            return fp8_linear(a, weight[0], recipe=recipe)
        offs = self.offs(a.device)
        return scaled_grouped_mm(a, weight.transpose(1, 2), offs, recipe=recipe, out_dtype=out_dtype)


BF16_STEP = 2.0**-7
"""From 1 to the next bf16."""

GROUPED = Layer("grouped", ends=(10, 10, 33, 45), tokens=50, k=32, n=48)
LINEAR = Layer("linear", ends=(50,), tokens=50, k=32, n=48)
LAYERS = (GROUPED, LINEAR)


class Products(NamedTuple):
    """The three GEMMs of a layer."""

    out: torch.Tensor
    grad_a: torch.Tensor
    grad_weight: torch.Tensor


def skewed(x: torch.Tensor) -> torch.Tensor:
    """Rows of very different size, by powers of two; what is exact stays so."""
    factors = 2.0 ** (torch.arange(x.shape[-2]) % 4)
    return x * factors[:, None].to(x.dtype)


def exact_operands(layer: Layer, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """a, weight and gradient of the output that FP8 with power-of-two scales represents, of any granularity."""
    return (
        skewed(exact_values(layer.tokens, layer.k, dtype=dtype, seed=1)),
        skewed(exact_values(len(layer.ends), layer.n, layer.k, dtype=dtype, seed=2)),
        skewed(exact_values(layer.tokens, layer.n, dtype=dtype, seed=3)),
    )


def random_operands(layer: Layer, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normal values, some rows much larger than others."""
    generator = torch.Generator().manual_seed(4)
    shapes = (layer.tokens, layer.k), (len(layer.ends), layer.n, layer.k), (layer.tokens, layer.n)
    a, weight, grad = (torch.randn(shape, generator=generator) for shape in shapes)
    return (a * torch.logspace(-2, 2, layer.tokens)[:, None]).to(dtype), weight.to(dtype), grad.to(dtype)


def train(
    layer: Layer,
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    *,
    recipe: Recipe,
    out_dtype: torch.dtype,
    run: Callable[..., torch.Tensor] | None = None,
) -> Products:
    """Forward and backward; ``run`` instead of `Layer.run`."""
    a, weight, grad = operands
    a, weight = a.detach().requires_grad_(), weight.detach().requires_grad_()
    out = (layer.run if run is None else run)(a, weight, recipe=recipe, out_dtype=out_dtype)
    out.backward(grad.to(out.dtype))
    assert a.grad is not None
    assert weight.grad is not None
    return Products(out.detach(), a.grad, weight.grad)


def three_products(layer: Layer, a: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> Products:
    """The GEMMs of a layer in float64, group by group, written out; rows in no group are zero."""
    a, weight, grad = a.double(), weight.double(), grad.double()
    products = Products(torch.zeros_like(grad), torch.zeros_like(a), torch.zeros_like(weight))
    for group, rows in enumerate(layer.rows()):
        products.out[rows] = a[rows] @ weight[group].t()
        products.grad_a[rows] = grad[rows] @ weight[group]
        products.grad_weight[group] = grad[rows].t() @ a[rows]
    return products


def largest_errors(
    layer: Layer,
    a: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    *,
    fmt: Fp8Format,
    recipe: Recipe,
    sum_error: float = 0.0,
) -> Products:
    """Bounds of the errors of `three_products`, element by element, from rounding operands to FP8 and results to bf16.

    Rounding moves a value by at most half a step: 2^-(mantissa bits + 1) of itself, or half the smallest FP8 value,
    which the inverse scale brings back to at most fmt.min_subnormal * amax / fmt.max, as a power-of-two scale uses at
    least half of the range. The amax is that of the row of the left operand and of the column of the right one; with
    one scale for each tensor, that of the tensor. Errors dx in x and dy in y make |x| dy + dx |y| + dx dy in a product.

    Args:
        layer, a, weight, grad: as in `three_products`.
        fmt: the FP8 format.
        recipe: which scales; ROWWISE_HP_WGRAD: no error of the operands of the weight's gradient.
        sum_error: of summing, relative to the sum of magnitudes.
    """
    a, weight, grad = a.double().abs(), weight.double().abs(), grad.double().abs()
    amax = {id(t): t.max() for t in (a, weight, grad)} if recipe is Recipe.TENSORWISE else {}

    def error(part: torch.Tensor, dim: int, whole: torch.Tensor) -> torch.Tensor:
        size = amax.get(id(whole), part.amax(dim, keepdim=True) if part.numel() else part)
        return torch.maximum(part * 2.0 ** -(fmt.mantissa_bits + 1), fmt.min_subnormal * size / fmt.max)

    def product(x: torch.Tensor, dx: torch.Tensor, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        inexact = x @ dy + dx @ y + dx @ dy
        exact = x @ y
        return inexact + (sum_error + x.shape[1] * 2.0**-23 + BF16_STEP / 2) * (exact + inexact)

    bounds = Products(torch.zeros_like(grad), torch.zeros_like(a), torch.zeros_like(weight))
    exact_wgrad = recipe is Recipe.ROWWISE_HP_WGRAD
    for group, rows in enumerate(layer.rows()):
        x, g, w = a[rows], grad[rows], weight[group]
        bounds.out[rows] = product(x, error(x, 1, a), w.t(), error(w, 1, weight).t())
        bounds.grad_a[rows] = product(g, error(g, 1, grad), w, error(w, 0, weight))
        dx, dg = error(x, 0, a), error(g, 0, grad)
        if exact_wgrad:
            dx, dg = torch.zeros_like(dx), torch.zeros_like(dg)
        bounds.grad_weight[group] = product(g.t(), dg.t(), x, dx)
    return bounds


def assert_within(actual: Products, wanted: Products, bounds: Products) -> None:
    """Every element of every product is within its bound."""
    for name, a, w, bound in zip(Products._fields, actual, wanted, bounds, strict=True):
        error = (a.double() - w).abs()
        worst = (error - bound).max()
        assert worst <= 0, f"{name}: an error exceeds its bound by {worst}"

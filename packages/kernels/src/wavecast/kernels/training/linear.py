"""The linear layer, forward and backward in FP8."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import nn

from wavecast.kernels import ops
from wavecast.kernels.checks import check_same_size, check_tensor
from wavecast.kernels.device import default_format_name
from wavecast.kernels.training.operands import (
    Operand,
    Quantization,
    autocast,
    quantize_tokens,
    quantize_weight,
)
from wavecast.kernels.training.recipe import Recipe


def fp8_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    recipe: Recipe = Recipe.ROWWISE,
    power_of_two: bool = True,
) -> torch.Tensor:
    """``x @ weight.T + bias`` with its GEMMs in FP8; differentiable in all three.

    Between the passes lie, instead of ``x`` (2 bytes a value in bf16) and ``weight``, which lives anyway: if ``weight``
    needs a gradient, the column-major FP8 copy of ``x``, 1 byte a value and 4 bytes a column (with ROWWISE_HP_WGRAD
    ``x`` itself); if ``x`` needs one, the transposed FP8 copy of ``weight``, 1 byte a value and 4 bytes a column. The
    latter is the price of reading ``weight`` once; activation checkpointing gives it back.

    In an autocast region ``x`` and ``weight`` are cast to its dtype first, as `torch.nn.Linear` does; gradients come in
    the dtypes given. Without one, ``x`` and ``weight`` may differ in dtype: each is quantized from what it is.

    Args:
        x: (..., K) bf16, fp16 or fp32; copied if its rows are not contiguous.
        weight: (N, K), a dtype of these; copied if it is not contiguous.
        bias: (N,) or None; added to the rounded product, in its dtype.
        recipe: see `Recipe`.
        power_of_two: round scales down to powers of two, which scales without a rounding error.

    Returns:
        (..., N) in the dtype of ``x``, or of the autocast region.

    Raises:
        ValueError: wrong rank, dtype, shape or device.
    """
    if x.ndim == 0:
        raise ValueError("x has no dimension; wanted is (..., K); reshape it")
    check_tensor("x", x, ndim=x.ndim)
    check_tensor("weight", weight, ndim=2)
    check_same_size("the last dimension of x", x.shape[-1], "that of weight", weight.shape[1])
    x, weight = autocast(x), autocast(weight)
    how = Quantization(Recipe(recipe), default_format_name(), power_of_two)
    needs = torch.is_grad_enabled()
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
    out = _Fp8Linear.apply(rows, weight, how, needs and x.requires_grad, needs and weight.requires_grad)
    out = out.reshape(*x.shape[:-1], weight.shape[0])
    return out if bias is None else out + bias.to(out.dtype)


class _Fp8Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, how: Quantization, needs_x: bool, needs_weight: bool
    ) -> torch.Tensor:
        in_fp8 = how.recipe is not Recipe.ROWWISE_HP_WGRAD
        offs = None
        if needs_weight and how.recipe is Recipe.ROWWISE:  # one group, in both passes
            offs = torch.full((1,), x.shape[0], dtype=torch.int32, device=x.device)
        rows, columns = quantize_tokens(x, offs, how, rows=True, columns=needs_weight and in_fp8)
        forward, transposed = _quantize_matrix(weight, how, transposed=needs_x)
        assert rows is not None
        saved_x = x if needs_weight and not in_fp8 else None
        ctx.save_for_backward(offs, saved_x, *(columns or (None, None)), *(transposed or (None, None)))
        ctx.how = how
        ctx.x_dtype, ctx.weight_dtype = x.dtype, weight.dtype
        return _multiply(rows, forward, x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        offs, saved_x, *pairs = ctx.saved_tensors
        columns, transposed = Operand(*pairs[:2]), Operand(*pairs[2:])
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        in_fp8 = saved_x is None
        grad_rows, grad_columns = quantize_tokens(
            grad_output, offs, ctx.how, rows=needs_x, columns=needs_weight and in_fp8
        )
        grad_x = grad_weight = None
        if grad_rows is not None:
            grad_x = _multiply(grad_rows, transposed, ctx.x_dtype)
        if grad_columns is not None:
            grad_weight = _multiply(_transposed(grad_columns), columns, ctx.weight_dtype)
        elif needs_weight:
            grad_weight = (grad_output.t() @ saved_x).to(ctx.weight_dtype)
        return grad_x, grad_weight, None, None, None


def _quantize_matrix(weight: torch.Tensor, how: Quantization, *, transposed: bool) -> tuple[Operand, Operand | None]:
    """`quantize_weight` of (N, K), as matrices: (K, N) with K contiguous, and (N, K) with N contiguous."""
    layouts = quantize_weight(weight.contiguous().t().unsqueeze(0), how, transposed=transposed)
    forward, backward = (None if one is None else _only(one) for one in layouts)
    assert forward is not None
    return forward, backward


def _only(experts: Operand) -> Operand:
    """The one expert, with (1, N) inverse scales, or () for all."""
    inverse = experts.inverse
    return Operand(experts.values[0], inverse if inverse.ndim == 0 else inverse.reshape(1, -1))


def _transposed(operand: Operand) -> Operand:
    """An operand that is column-major, with (1, N) inverse scales, as a row-major one with (N, 1), or () for all."""
    inverse = operand.inverse
    return Operand(operand.values.t(), inverse if inverse.ndim == 0 else inverse.t())


def _multiply(a: Operand, b: Operand, out_dtype: torch.dtype) -> torch.Tensor:
    return ops.scaled_gemm(a.values, b.values, a.inverse, b.inverse, out_dtype=out_dtype)


class Fp8Linear(nn.Linear):
    """`torch.nn.Linear` that computes `fp8_linear`; its parameters stay in their dtype.

    `convert_to_fp8_training` makes these of linear layers that exist.

    Attributes:
        recipe: see `Recipe`.
        power_of_two: round scales down to powers of two.
    """

    recipe: Recipe = Recipe.ROWWISE
    power_of_two: bool = True

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Linear's name
        """`fp8_linear` with the layer's parameters."""
        return fp8_linear(input, self.weight, self.bias, recipe=self.recipe, power_of_two=self.power_of_two)

    def extra_repr(self) -> str:
        """As nn.Linear's, and the recipe."""
        return f"{super().extra_repr()}, recipe={self.recipe}"

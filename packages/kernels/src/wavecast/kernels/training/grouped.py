"""The grouped linear layer of a mixture of experts, forward and backward in FP8."""

from __future__ import annotations

from typing import Any

import torch

from wavecast.kernels import ops
from wavecast.kernels.checks import check_offsets, check_same_size, check_tensor, check_weight
from wavecast.kernels.device import default_format_name
from wavecast.kernels.training.operands import (
    Operand,
    Quantization,
    autocast,
    quantize_tokens,
    quantize_weight,
    rows_contiguous,
)
from wavecast.kernels.training.recipe import Recipe


def scaled_grouped_mm(
    a: torch.Tensor,
    b_t: torch.Tensor,
    offs: torch.Tensor,
    *,
    recipe: Recipe = Recipe.ROWWISE,
    out_dtype: torch.dtype = torch.bfloat16,
    power_of_two: bool = True,
) -> torch.Tensor:
    """Multiply each group of rows by the matrix of its expert, in FP8; differentiable in ``a`` and ``b_t``.

    Between the passes lie, instead of ``a`` (2 * M * K bytes in bf16) and ``b_t``, which lives anyway: if ``b_t`` needs
    a gradient, the column-major FP8 copy of ``a``, M * K bytes and 4 * E * K of scales (with ROWWISE_HP_WGRAD ``a``
    itself); if ``a`` needs one, the transposed FP8 copy of ``b_t``, E * K * N bytes and 4 * E * K of scales. The latter
    is the price of reading ``b_t`` once; activation checkpointing gives it back.

    In an autocast region ``a`` and ``b_t`` are cast to its dtype first, and gradients come in the dtypes given.

    Args:
        a: (M, K) bf16, fp16 or fp32; copied if its rows are not contiguous. Rows from ``offs[-1]`` on are not used,
            whatever they hold.
        b_t: (E, K, N), a dtype of these, K contiguous: strides (K * N, 1, K), such as the transposed view of (E, N, K).
        offs: (E,) int32 end offsets, non-decreasing; any group sizes.
        recipe: see `Recipe`. With TENSORWISE all experts share one scale, and ``a`` and its gradient are copied once to
            blank the rows that no expert owns.
        out_dtype: bf16, fp16 or fp32; of the result. Gradients have the dtypes of ``a`` and ``b_t``.
        power_of_two: round scales down to powers of two, which scales without a rounding error.

    Returns:
        (M, N), row-major; rows from ``offs[-1]`` on are zero, as are those of the gradient of ``a``.

    Raises:
        ValueError: wrong rank, dtype, layout, shape or device.
    """
    check_tensor("a", a, ndim=2)
    check_weight(b_t)
    check_offsets(offs)
    check_same_size("K of a", a.shape[1], "K of b_t", b_t.shape[1])
    check_same_size("the number of offs", offs.shape[0], "the number of experts in b_t", b_t.shape[0])
    a, b_t = autocast(a), autocast(b_t)
    how = Quantization(Recipe(recipe), default_format_name(), power_of_two)
    needs = torch.is_grad_enabled()
    return _ScaledGroupedMm.apply(a, b_t, offs, how, out_dtype, needs and a.requires_grad, needs and b_t.requires_grad)


class _ScaledGroupedMm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        a: torch.Tensor,
        b_t: torch.Tensor,
        offs: torch.Tensor,
        how: Quantization,
        out_dtype: torch.dtype,
        needs_a: bool,
        needs_b: bool,
    ) -> torch.Tensor:
        in_fp8 = how.recipe is not Recipe.ROWWISE_HP_WGRAD
        rows, columns = _quantize(a, offs, how, rows=True, columns=needs_b and in_fp8)
        weight, transposed = quantize_weight(b_t, how, transposed=needs_a)
        assert rows is not None
        saved_a = a if needs_b and not in_fp8 else None
        ctx.save_for_backward(offs, saved_a, *(columns or (None, None)), *(transposed or (None, None)))
        ctx.how = how
        ctx.a_dtype, ctx.b_dtype = a.dtype, b_t.dtype
        return _rows_form(rows, weight, offs, out_dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        offs, saved_a, *pairs = ctx.saved_tensors
        columns, transposed = Operand(*pairs[:2]), Operand(*pairs[2:])
        needs_a, needs_b = ctx.needs_input_grad[:2]
        in_fp8 = saved_a is None
        grad_rows, grad_columns = _quantize(grad_output, offs, ctx.how, rows=needs_a, columns=needs_b and in_fp8)
        grad_a = grad_b = None
        if grad_rows is not None:
            grad_a = _rows_form(grad_rows, transposed, offs, ctx.a_dtype)
        if grad_columns is not None:
            grad_b = _sum_form(grad_columns, columns, offs, ctx.b_dtype)
        elif needs_b:
            grad_b = _sum_form_unquantized(grad_output, saved_a, offs, ctx.b_dtype)
        return grad_a, grad_b, None, None, None, None, None


def _quantize(
    x: torch.Tensor, offs: torch.Tensor, how: Quantization, *, rows: bool, columns: bool
) -> tuple[Operand | None, Operand | None]:
    """`quantize_tokens`, where rows that no group owns do not enter the scale of the tensor."""
    if how.recipe is Recipe.TENSORWISE and (rows or columns):
        owned = torch.arange(x.shape[0], dtype=torch.int32, device=x.device) < offs[-1]
        x = torch.where(owned[:, None], x, torch.zeros((), dtype=x.dtype, device=x.device))
    return quantize_tokens(x, offs, how, rows=rows, columns=columns)


def _rows_form(tokens: Operand, weight: Operand, offs: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """(M, N): the rows of each group of tokens (M, K) times its matrix of the weight (E, K, N)."""
    a_inverse = _each(tokens.inverse, tokens.values.shape[0], 1)
    b_inverse = _each(weight.inverse, weight.values.shape[0], weight.values.shape[2])
    return ops.grouped_gemm(tokens.values, weight.values, offs, a_inverse, b_inverse, out_dtype=out_dtype)


def _sum_form(grad: Operand, tokens: Operand, offs: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """(E, K, N) with K contiguous: tokens (M, K), transposed, times grad (M, N) over the rows of each group."""
    a, b = grad.values.t(), tokens.values
    a_inverse = _each(grad.inverse, offs.shape[0], a.shape[0])
    b_inverse = _each(tokens.inverse, offs.shape[0], b.shape[1])
    return ops.grouped_gemm(a, b, offs, a_inverse, b_inverse, out_dtype=out_dtype).transpose(1, 2)


def _sum_form_unquantized(
    grad: torch.Tensor, tokens: torch.Tensor, offs: torch.Tensor, out_dtype: torch.dtype
) -> torch.Tensor:
    """`_sum_form` in 16 bits; both operands are copied to where tokens are contiguous, 4 bytes moved a value."""
    dtype = tokens.dtype if tokens.dtype in (torch.bfloat16, torch.float16) else torch.bfloat16
    a = ops.copy_transposed(rows_contiguous(grad).to(dtype))
    b = ops.copy_transposed(rows_contiguous(tokens).to(dtype)).t()
    return ops.grouped_gemm(a, b, offs, out_dtype=out_dtype).transpose(1, 2)


def _each(inverse: torch.Tensor, *shape: int) -> torch.Tensor:
    """Inverse scales as the grouped GEMM takes them: those of a whole tensor repeated, others as they are."""
    return inverse.expand(shape).contiguous() if inverse.ndim == 0 else inverse

"""Every custom operator: what its fake says holds, and it is traced as one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from quantizers import column_major, skewed_values

from wavecast.kernels import ops
from wavecast.kernels.blockwise import quantize_blockwise
from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.dual_layout import quantize_dual_layout
from wavecast.kernels.expert_weights import quantize_expert_weights
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.tensorwise import quantize_tensorwise
from wavecast.kernels.weight_layouts import quantize_weight_layouts
from wavecast.kernels.weight_transpose import quantize_weight_transpose
from wavecast.kernels.wgrad_copies import wgrad_operands

TOKENS, K, N, EXPERTS = 40, 24, 17, 3  # the column-major layouts of these differ from the row-major ones
X = skewed_values(TOKENS, K)
WEIGHT = column_major(skewed_values(EXPERTS, K, N))
OFFS = torch.tensor([7, 7, 33], dtype=torch.int32)

QUANTIZERS: dict[Callable[..., Any], tuple[Any, ...]] = {
    quantize_rowwise: (X,),
    quantize_tensorwise: (X,),
    colwise_per_group: (X, OFFS),
    quantize_rowwise_per_group: (X.t().contiguous(), OFFS),
    quantize_dual_layout: (X, OFFS),
    wgrad_operands: (skewed_values(TOKENS, N), X, OFFS),
    quantize_expert_weights: (WEIGHT,),
    quantize_weight_transpose: (WEIGHT,),
    quantize_weight_layouts: (WEIGHT,),
    quantize_blockwise: (X, [1, 128]),
}
A = X.to(E4M3FN.dtype)
A_COLUMNS = X.t().contiguous().t().to(E4M3FN.dtype)
B = WEIGHT.to(E4M3FN.dtype)
OTHERS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "grouped_gemm": ((A, B, OFFS, torch.ones(TOKENS, 1), torch.ones(EXPERTS, 1, N)), {"out_dtype": torch.float32}),
    "scaled_gemm": ((A, B[0], torch.ones(TOKENS, 1), torch.ones(())), {"out_dtype": torch.bfloat16}),
    "copy_transposed": ((WEIGHT.transpose(1, 2),), {}),
    "pad_token_groups": ((X, OFFS, 16), {}),
    "unpad_token_groups": ((X, OFFS, OFFS, 35), {}),
}
GROUP_OPERATORS = {"all_gather_matmul", "matmul_reduce_scatter"}
"""Registered by a module of their own, where that is imported; see async_tp/test_groups.py."""

SUM_FORM = (A_COLUMNS.t(), A_COLUMNS, OFFS, torch.ones(EXPERTS, K), torch.ones(EXPERTS, K))


def flat(result: Any) -> list[torch.Tensor]:
    return [t for part in result for t in flat(part)] if isinstance(result, tuple) else [result]


def test_every_quantizer_and_gemm_has_an_operator() -> None:
    registered = {
        name.removeprefix("wavecast::").split(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("wavecast::")
    }
    assert registered - GROUP_OPERATORS == {function.__name__ for function in QUANTIZERS} | set(OTHERS)


@pytest.mark.parametrize("function", QUANTIZERS, ids=lambda function: function.__name__)
def test_quantizers(function: Callable[..., Any]) -> None:
    """Schema, fake shapes, dtypes and strides, and tracing with changing sizes; results are the function's."""
    operator = getattr(ops, function.__name__)
    torch.library.opcheck(operator, QUANTIZERS[function], {"format": "e4m3fnuz", "power_of_two": True})
    actual = operator(*QUANTIZERS[function], format="e4m3fnuz")
    wanted = flat(function(*QUANTIZERS[function], format=E4M3FNUZ))
    assert len(actual) == len(wanted)
    for a, w in zip(actual, wanted, strict=True):
        assert a.stride() == w.stride()
        assert torch.equal(a.float().nan_to_num(), w.float().nan_to_num())


def check_operator(operator: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """`opcheck`, without the check that needs arithmetic on inputs where these are FP8, which has none in torch."""
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    has_fp8 = arguments[0].dtype is E4M3FN.dtype
    torch.library.opcheck(operator, arguments, options, test_utils=checks[has_fp8:])


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    arguments, options = OTHERS[name]
    check_operator(getattr(ops, name), arguments, options)


@pytest.mark.parametrize("operands", [(X, WEIGHT), (X.t().contiguous(), X.t().contiguous().t())], ids=["rows", "sum"])
def test_grouped_gemm_without_scales(operands: tuple[torch.Tensor, torch.Tensor]) -> None:
    check_operator(ops.grouped_gemm, (*operands, OFFS), {"out_dtype": torch.bfloat16})


def test_the_other_form_of_the_grouped_gemm() -> None:
    check_operator(ops.grouped_gemm, SUM_FORM, {"out_dtype": torch.bfloat16})
    out = ops.grouped_gemm(*SUM_FORM, out_dtype=torch.float32)
    rows = A[7:33].float()
    assert torch.allclose(out[2], rows.t() @ rows)


def chain(x: torch.Tensor, offs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, _, inverse, column_values, _, column_inverse = ops.quantize_dual_layout(x, offs, format="e4m3fn")
    assert column_values.stride() == (1, x.shape[0])
    rows = ops.scaled_gemm(values, values[:8].t(), inverse, inverse[:8].t(), out_dtype=torch.float32)
    operands = (column_values.t(), column_values, offs, column_inverse, column_inverse)
    sums = ops.grouped_gemm(*operands, out_dtype=torch.float32)
    return rows, sums


def test_traced_without_a_break_and_with_the_right_layout() -> None:
    traced = torch.compile(chain, fullgraph=True, backend="aot_eager")
    for actual, wanted in zip(traced(X, OFFS), chain(X, OFFS), strict=True):
        assert torch.equal(actual, wanted)


def test_what_an_operator_does_is_not_traced() -> None:
    """Below a function that compiled code calls uncompiled, the compiler looks at every frame."""
    skipped = torch._dynamo.disable(lambda x: ops.quantize_rowwise(x, format="e4m3fn")[0].float(), recursive=False)
    torch._dynamo.utils.counters.clear()
    traced = torch.compile(lambda x: skipped(x * 2) + 1, backend="aot_eager")
    assert torch.equal(traced(X).nan_to_num(), (skipped(X * 2) + 1).nan_to_num())
    assert torch._dynamo.utils.counters["frames"]["total"] <= 5


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match="'e4m3' is not known; use one of e4m3fn, e4m3fnuz"):
        ops.quantize_rowwise(X, format="e4m3")


def test_no_derivative_is_made_up() -> None:
    values, _, inverse = ops.quantize_rowwise(X.clone().requires_grad_(), format="e4m3fn")
    with pytest.raises(RuntimeError, match="autograd formula"):
        (values.float() * inverse).sum().backward()

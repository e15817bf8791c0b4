"""The operators as ``torch.library`` custom operators in the namespace ``wavecast``, for torch.compile and export.

An operator here launches what the function of the same name launches. It differs in three ways: the FP8 format is a
name (``"e4m3fnuz"``) and always given, so that what is traced does not depend on an active device; the result is a flat
tuple of tensors; and shapes, dtypes and strides are known without running it: its fake implementation is the allocation
that the launch itself uses. Compiled code sees each as one opaque call.

None has a derivative: ``wavecast.kernels.training`` has the differentiable functions. Going backward through one is an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.library import Library, register_autograd, register_fake

from wavecast.kernels.blockwise import api as _blockwise
from wavecast.kernels.colwise_per_group import api as _colwise
from wavecast.kernels.device import default_format_name
from wavecast.kernels.dual_layout import api as _dual_layout
from wavecast.kernels.expert_weights import api as _expert_weights
from wavecast.kernels.formats import format_named
from wavecast.kernels.grouped_gemm import api as _grouped_gemm
from wavecast.kernels.quantizer import Quantizer
from wavecast.kernels.rowwise import api as _rowwise
from wavecast.kernels.rowwise_per_group import api as _rowwise_per_group
from wavecast.kernels.scaled_gemm import api as _scaled_gemm
from wavecast.kernels.tensorwise import api as _tensorwise
from wavecast.kernels.token_padding import api as _token_padding
from wavecast.kernels.token_padding.plan import padded_rows
from wavecast.kernels.transposed_copy import api as _transposed_copy
from wavecast.kernels.weight_layouts import api as _weight_layouts
from wavecast.kernels.weight_transpose import api as _weight_transpose
from wavecast.kernels.wgrad_copies import api as _wgrad_copies

_LIBRARY = Library("wavecast", "FRAGMENT")

# Not a decorator where it stands: that would load the compiler, a second, with every operator.
torch.compiler.assume_constant_result(default_format_name)


def _no_derivative(ctx: Any, *gradients: torch.Tensor) -> None:
    """The derivative of every operator.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "an operator of torch.ops.wavecast has no autograd formula; wavecast.kernels.training has the differentiable "
        "functions, and under torch.no_grad() none is looked for"
    )


def register(name: str, run: Callable[..., Any], fake: Callable[..., Any], *, schema: str) -> OpOverload:
    """Register an operator that ``run`` carries out on any device.

    Not by ``torch.library.custom_op``: each of its calls checks that no result aliases an argument, on the host, which
    launches small kernels more slowly than the device carries them out. `torch.compiler.disable`, as called by code
    that a compiled function has called uncompiled, ``run`` would be compiled.
    """
    _LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, torch.compiler.disable(run), "CompositeExplicitAutograd")
    register_fake(f"wavecast::{name}", fake, lib=_LIBRARY)
    register_autograd(f"wavecast::{name}", _no_derivative, lib=_LIBRARY)
    operator: OpOverload = getattr(torch.ops.wavecast, name).default
    return operator


def _flat(result: Any) -> tuple[torch.Tensor, ...]:
    """The tensors of a tuple, or of a tuple of tuples, in order."""
    return sum(result, ()) if isinstance(result[0], tuple) else tuple(result)


def _quantizer(
    function: Callable[..., Any], quantizer: Quantizer, *, inputs: str = "Tensor x", outputs: int = 3
) -> OpOverload:
    """Register one quantizer: ``wavecast::<name of function>(inputs, *, str format, bool power_of_two=False)``."""

    def run(*tensors: torch.Tensor, format: str, power_of_two: bool = False) -> tuple[torch.Tensor, ...]:  # noqa: A002
        return _flat(function(*tensors, format=format_named(format), power_of_two=power_of_two))

    def fake(*tensors: torch.Tensor, format: str, power_of_two: bool = False) -> tuple[torch.Tensor, ...]:  # noqa: A002
        return _flat(quantizer.allocate(*tensors, format_named(format).dtype))

    schema = f"({inputs}, *, str format, bool power_of_two=False) -> ({', '.join(['Tensor'] * outputs)})"
    return register(function.__name__, run, fake, schema=schema)


quantize_rowwise = _quantizer(_rowwise.quantize_rowwise, _rowwise.ROWWISE)
"""``(x)``: values, scale and inverse of `wavecast.kernels.rowwise`."""

quantize_tensorwise = _quantizer(_tensorwise.quantize_tensorwise, _tensorwise.TENSORWISE)
"""``(x)``: values, scale and inverse of `wavecast.kernels.tensorwise`."""

colwise_per_group = _quantizer(_colwise.colwise_per_group, _colwise.COLWISE, inputs="Tensor x, Tensor offs")
"""``(x, offs)``: values, scale and inverse of `wavecast.kernels.colwise_per_group`."""

quantize_rowwise_per_group = _quantizer(
    _rowwise_per_group.quantize_rowwise_per_group,
    _rowwise_per_group.ROWWISE_PER_GROUP,
    inputs="Tensor x, Tensor offs",
)
"""``(x, offs)``: values, scale and inverse of `wavecast.kernels.rowwise_per_group`."""

quantize_dual_layout = _quantizer(
    _dual_layout.quantize_dual_layout, _dual_layout.DUAL_LAYOUT, inputs="Tensor x, Tensor offs", outputs=6
)
"""``(x, offs)``: values, scale and inverse along the rows, then those along the columns, of
`wavecast.kernels.dual_layout`."""

wgrad_operands = _quantizer(
    _wgrad_copies.wgrad_operands, _wgrad_copies.WGRAD, inputs="Tensor grad_output, Tensor a, Tensor offs", outputs=6
)
"""``(grad_output, a, offs)``: values, scale and inverse of either, of `wavecast.kernels.wgrad_copies`."""

quantize_expert_weights = _quantizer(
    _expert_weights.quantize_expert_weights, _expert_weights.EXPERT_WEIGHTS, inputs="Tensor weight"
)
"""``(weight)``: values, scale and inverse of `wavecast.kernels.expert_weights`."""

quantize_weight_transpose = _quantizer(
    _weight_transpose.quantize_weight_transpose, _weight_transpose.WEIGHT_TRANSPOSE, inputs="Tensor weight"
)
"""``(weight)``: values, scale and inverse of `wavecast.kernels.weight_transpose`."""

quantize_weight_layouts = _quantizer(
    _weight_layouts.quantize_weight_layouts, _weight_layouts.WEIGHT_LAYOUTS, inputs="Tensor weight", outputs=6
)
"""``(weight)``: values, scale and inverse of the columns, then those of the transposed weight, of
`wavecast.kernels.weight_layouts`."""


def _quantize_blockwise(
    x: torch.Tensor,
    block: Sequence[int],
    *,
    format: str,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _blockwise.quantize_blockwise(
        x, (block[0], block[1]), format=format_named(format), power_of_two=power_of_two
    )


def _fake_blockwise(
    x: torch.Tensor,
    block: Sequence[int],
    *,
    format: str,  # noqa: A002
    power_of_two: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _blockwise.allocate_blockwise(x, format_named(format).dtype, block=(block[0], block[1]))


quantize_blockwise = register(
    "quantize_blockwise",
    _quantize_blockwise,
    _fake_blockwise,
    schema="(Tensor x, SymInt[] block, *, str format, bool power_of_two=False) -> (Tensor, Tensor, Tensor)",
)
"""``(x, block)``: values, scale and inverse of `wavecast.kernels.blockwise`; the block as both of its sides."""


def _fake_grouped_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None = None,
    b_inverse: torch.Tensor | None = None,
    *,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    shape = (a.shape[0], b.shape[2]) if b.ndim == 3 else (offs.shape[0], a.shape[0], b.shape[1])
    return torch.empty(shape, dtype=out_dtype, device=a.device)


grouped_gemm = register(
    "grouped_gemm",
    _grouped_gemm.grouped_gemm,
    _fake_grouped_gemm,
    schema="(Tensor a, Tensor b, Tensor offs, Tensor? a_inverse=None, Tensor? b_inverse=None, *, ScalarType out_dtype) "
    "-> Tensor",
)
"""The product of `wavecast.kernels.grouped_gemm`, in either form."""


def _fake_scaled_gemm(
    a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor, b_inverse: torch.Tensor, *, out_dtype: torch.dtype
) -> torch.Tensor:
    return torch.empty((a.shape[0], b.shape[1]), dtype=out_dtype, device=a.device)


scaled_gemm = register(
    "scaled_gemm",
    _scaled_gemm.scaled_gemm,
    _fake_scaled_gemm,
    schema="(Tensor a, Tensor b, Tensor a_inverse, Tensor b_inverse, *, ScalarType out_dtype) -> Tensor",
)
"""The product of `wavecast.kernels.scaled_gemm`."""

copy_transposed = register(
    "copy_transposed",
    _transposed_copy.copy_transposed,
    _transposed_copy.allocate_transposed_copy,
    schema="(Tensor x) -> Tensor",
)
"""The copy of `wavecast.kernels.transposed_copy`."""


def _fake_pad(x: torch.Tensor, offs: torch.Tensor, multiple: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = padded_rows(x.shape[0], offs.shape[0], multiple)
    return torch.empty((rows, x.shape[1]), dtype=x.dtype, device=x.device), torch.empty_like(offs)


pad_token_groups = register(
    "pad_token_groups",
    _token_padding.pad_token_groups,
    _fake_pad,
    schema="(Tensor x, Tensor offs, SymInt multiple) -> (Tensor, Tensor)",
)
"""Tokens and end offsets of `wavecast.kernels.token_padding`."""


def _fake_unpad(padded: torch.Tensor, offs: torch.Tensor, padded_offs: torch.Tensor, tokens: int) -> torch.Tensor:
    return torch.empty((tokens, padded.shape[1]), dtype=padded.dtype, device=padded.device)


unpad_token_groups = register(
    "unpad_token_groups",
    _token_padding.unpad_token_groups,
    _fake_unpad,
    schema="(Tensor padded, Tensor offs, Tensor padded_offs, SymInt tokens) -> Tensor",
)
"""The inverse of `pad_token_groups`, of `wavecast.kernels.token_padding`."""

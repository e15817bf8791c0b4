"""One small call of every public operator, for what must hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from gemms import scales, values
from quantizers import column_major, skewed_values

from wavecast.kernels.blockwise import quantize_blockwise
from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.dual_layout import quantize_dual_layout
from wavecast.kernels.expert_weights import quantize_expert_weights
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.grouped_gemm import grouped_gemm
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.scaled_gemm import scaled_gemm
from wavecast.kernels.tensorwise import quantize_tensorwise
from wavecast.kernels.token_padding import pad_token_groups, unpad_token_groups
from wavecast.kernels.transposed_copy import copy_transposed
from wavecast.kernels.weight_layouts import quantize_weight_layouts
from wavecast.kernels.weight_transpose import quantize_weight_transpose
from wavecast.kernels.wgrad_copies import wgrad_operands

TOKENS, K, N, EXPERTS = 128, 64, 48, 3
MULTIPLE = 16
ENDS = ([20, 20, 90], [0, 33, 128])
"""End offsets by seed: an empty group and rows behind the last; and all rows in groups."""


@dataclass(frozen=True)
class Call:
    """An operator and the tensors of one call.

    Attributes:
        operator: takes the tensors, and nothing else.
        tensors: on the CPU.
    """

    operator: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]


def every_operator(fmt: Fp8Format, *, seed: int = 0) -> dict[str, Call]:
    """Calls by the operator's name, behind which a comma and a form may stand.

    Args:
        fmt: of the operands of products.
        seed: 0 or 1: other values and other groups, the same shapes.
    """
    x, other = skewed_values(TOKENS, K, seed=seed), skewed_values(TOKENS, N, seed=seed + 2)
    weight = column_major(skewed_values(EXPERTS, K, N, seed=seed))
    offs = torch.tensor(ENDS[seed], dtype=torch.int32)
    sizes = offs.diff(prepend=offs.new_zeros(1))
    padded_offs = ((sizes + MULTIPLE - 1) // MULTIPLE * MULTIPLE).cumsum(0).int()
    padded = skewed_values(TOKENS + EXPERTS * MULTIPLE, K, seed=seed)
    fp8 = partial(values, dtype=fmt.dtype, exact=True)
    factors = partial(scales, exact=True, seed=seed)
    a, b = fp8(TOKENS, K, seed=seed), fp8(EXPERTS, N, K, seed=seed).transpose(1, 2)
    summed_a, summed_b = fp8(K, TOKENS, seed=seed), fp8(N, TOKENS, seed=seed).t()
    return {
        "quantize_rowwise": Call(quantize_rowwise, (x,)),
        "quantize_tensorwise": Call(quantize_tensorwise, (x,)),
        "quantize_blockwise": Call(quantize_blockwise, (x,)),
        "quantize_blockwise, 1 x 128": Call(partial(quantize_blockwise, block=(1, 128)), (x,)),
        "colwise_per_group": Call(colwise_per_group, (x, offs)),
        "quantize_rowwise_per_group": Call(quantize_rowwise_per_group, (x.t().contiguous(), offs)),
        "quantize_dual_layout": Call(quantize_dual_layout, (x, offs)),
        "wgrad_operands": Call(wgrad_operands, (other, x, offs)),
        "quantize_expert_weights": Call(quantize_expert_weights, (weight,)),
        "quantize_weight_transpose": Call(quantize_weight_transpose, (weight,)),
        "quantize_weight_layouts": Call(quantize_weight_layouts, (weight,)),
        "copy_transposed": Call(copy_transposed, (x,)),
        "pad_token_groups": Call(partial(pad_token_groups, multiple=MULTIPLE), (x, offs)),
        "unpad_token_groups": Call(partial(unpad_token_groups, tokens=TOKENS), (padded, offs, padded_offs)),
        "grouped_gemm": Call(grouped_gemm, (a, b, offs, factors(TOKENS, 1), factors(EXPERTS, 1, N))),
        "grouped_gemm, sums": Call(grouped_gemm, (summed_a, summed_b, offs, factors(EXPERTS, K), factors(EXPERTS, N))),
        "scaled_gemm": Call(scaled_gemm, (a, b[0], factors(TOKENS, 1), factors(1, N))),
    }


def tensors_of(result: Any) -> list[torch.Tensor]:
    """All tensors of a result, which is one, None, or a tuple of results."""
    if isinstance(result, tuple):
        return [tensor for part in result for tensor in tensors_of(part)]
    return [] if result is None else [result]

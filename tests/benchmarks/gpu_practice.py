"""What people write today: the natural torch code of every operator, run eagerly or compiled, and torchao's kernels.

Every quantizer gives (values, scale, inverse) as the operators here do, so that results can be compared. The code is
the one that comes to mind first; ``torch.compile`` fuses it as it likes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

FP8 = torch.float8_e4m3fn
MAX = torch.finfo(FP8).max
EPS = 1e-12


def use_format(dtype: torch.dtype) -> None:
    """Quantize to this FP8 type from now on: the one that the GPU has."""
    global FP8, MAX
    FP8, MAX = dtype, torch.finfo(dtype).max


def scale_of(amax: torch.Tensor) -> torch.Tensor:
    return MAX / amax.float().clamp(min=EPS)


def to_fp8(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x.float() * scale).clamp(-MAX, MAX).to(FP8)


def rowwise(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    scale = scale_of(x.abs().amax(-1, keepdim=True))
    return to_fp8(x, scale), scale, scale.reciprocal()


def column_major(values: torch.Tensor) -> torch.Tensor:
    return values.t().contiguous().t()


def colwise_even(x: torch.Tensor, groups: int) -> tuple[torch.Tensor, ...]:
    """Groups of one size: a view does it."""
    tiles = x.view(groups, -1, x.shape[1])
    scale = scale_of(tiles.abs().amax(1))
    return column_major(to_fp8(tiles, scale[:, None]).view(x.shape)), scale, scale.reciprocal()


def group_of_rows(x: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    return torch.bucketize(torch.arange(x.shape[0], device=x.device, dtype=torch.int32), offs, right=True)


def colwise_uneven(x: torch.Tensor, offs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Groups of any size, without a look at their values on the host: rows are gathered by the group they are in."""
    group = group_of_rows(x, offs)
    amax = torch.zeros((offs.numel(), x.shape[1]), dtype=torch.float32, device=x.device)
    scale = scale_of(amax.index_reduce_(0, group, x.abs().float(), "amax"))
    return column_major(to_fp8(x, scale[group])), scale, scale.reciprocal()


def both_even(x: torch.Tensor, groups: int) -> tuple[Any, ...]:
    return rowwise(x), colwise_even(x, groups)


def both_uneven(x: torch.Tensor, offs: torch.Tensor) -> tuple[Any, ...]:
    return rowwise(x), colwise_uneven(x, offs)


def rows_per_group_even(x: torch.Tensor, groups: int) -> tuple[torch.Tensor, ...]:
    """Groups of columns; values row-major, scales (groups, rows)."""
    tiles = x.view(x.shape[0], groups, -1)
    scale = scale_of(tiles.abs().amax(2, keepdim=True))
    values = to_fp8(tiles, scale).view(x.shape)
    return values, scale.squeeze(2).t().contiguous(), scale.squeeze(2).t().contiguous().reciprocal()


def weight_columns(w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(E, K, N) with K contiguous; one scale an expert and n."""
    scale = scale_of(w.abs().amax(1, keepdim=True))
    return to_fp8(w, scale), scale, scale.reciprocal()


def weight_transposed(w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(E, N, K) with N contiguous; one scale an expert and k."""
    scale = scale_of(w.abs().amax(2))
    values = to_fp8(w, scale[:, :, None]).contiguous().transpose(1, 2)
    return values, scale, scale.reciprocal()


def weight_layouts(w: torch.Tensor) -> tuple[Any, ...]:
    return weight_columns(w), weight_transposed(w)


def tensorwise(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    scale = scale_of(x.abs().amax())
    return to_fp8(x, scale), scale, scale.reciprocal()


def blockwise(x: torch.Tensor, block: int) -> tuple[torch.Tensor, ...]:
    rows, columns = x.shape
    tiles = x.view(rows // block, block, columns // block, block)
    scale = scale_of(tiles.abs().amax((1, 3)))
    return to_fp8(tiles, scale[:, None, :, None]).view(rows, columns), scale, scale.reciprocal()


def pad_groups(x: torch.Tensor, ends: tuple[int, ...], multiple: int) -> tuple[torch.Tensor, ...]:
    """Of sizes that the host knows: a concatenation of slices and zeros. Sizes on the device would have to be read."""
    parts = []
    for start, end in zip((0, *ends[:-1]), ends, strict=True):
        parts += [x[start:end], x.new_zeros((start - end) % multiple, x.shape[1])]
    return (torch.cat(parts),)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.compile`` with its defaults, for one shape."""
    return torch.compile(function, dynamic=False)


class TorchGroupedMM(torch.autograd.Function):
    """A grouped product in FP8 from PyTorch's own parts: compiled quantizers and ``torch._scaled_grouped_mm``.

    It quantizes what ``scaled_grouped_mm`` of this project quantizes: input by row, weights by column; backward the
    gradient by row, the weights transposed, and gradient and input by column and group.
    """

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b_t: torch.Tensor, offs: torch.Tensor, groups: int) -> torch.Tensor:
        ctx.save_for_backward(a, b_t, offs)
        ctx.groups = groups
        (av, _, ai), (bv, _, bi) = _compiled(rowwise)(a), _compiled(weight_columns)(b_t)
        return scaled_grouped(av, bv, ai.reshape(-1), bi.squeeze(1), offs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        a, b_t, offs = ctx.saved_tensors
        grad = grads[0].contiguous()
        (gv, _, gi), (wv, _, wi) = _compiled(rowwise)(grad), _compiled(weight_transposed)(b_t)
        grad_a = scaled_grouped(gv, wv, gi.reshape(-1), wi, offs)
        columns = partial_columns(ctx.groups, offs)
        (cv, _, ci), (xv, _, xi) = columns(grad), columns(a)
        grad_w = scaled_grouped(cv.t(), xv, ci.reshape(-1), xi.reshape(-1), offs)
        return grad_a, grad_w.transpose(1, 2), None, None


def partial_columns(groups: int, offs: torch.Tensor) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """The compiled column-wise quantizer; ``groups`` is 0 if their sizes differ."""
    if groups:
        return lambda x: _compiled(colwise_even)(x, groups)
    return lambda x: _compiled(colwise_uneven)(x, offs)


def scaled_grouped(
    a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor, b_inverse: torch.Tensor, offs: torch.Tensor
) -> torch.Tensor:
    return torch._scaled_grouped_mm(
        a, b, a_inverse, b_inverse, offs=offs, out_dtype=torch.bfloat16, use_fast_accum=True
    )


class TorchLinear(torch.autograd.Function):
    """A linear layer in FP8 from PyTorch's own parts: compiled quantizers and ``torch._scaled_mm``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        (xv, _, xi), (wv, _, wi) = _compiled(rowwise)(x), _compiled(rowwise)(weight)
        return scaled(xv, wv.t(), xi, wi)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grads[0].contiguous()
        (gv, _, gi), (wv, _, wi) = _compiled(rowwise)(grad), _compiled(colwise_even)(weight, 1)
        (cv, _, ci), (xv, _, xi) = _compiled(colwise_even)(grad, 1), _compiled(colwise_even)(x, 1)
        return scaled(gv, wv, gi, wi), scaled(cv.t(), xv, ci, xi)


def scaled(a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor, b_inverse: torch.Tensor) -> torch.Tensor:
    rows, columns = a_inverse.reshape(-1)[:, None], b_inverse.reshape(-1)[None]
    return torch._scaled_mm(a, b, rows, columns, out_dtype=torch.bfloat16, use_fast_accum=True)


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled(function)


def forget_compiled() -> None:
    """Every case compiles its own shapes; what was compiled for another one goes."""
    _compiled.cache_clear()
    torch._dynamo.reset()


class Torchao:
    """torchao's quantizer kernels.

    Args:
        folder: a checkout, which contains the package ``torchao``, or a folder with the two files alone.
    """

    PACKAGE = "torchao.prototype.moe_training.kernels"
    ROWS, JAGGED = "float8_rowwise", "jagged_float8_scales"

    def __init__(self, folder: Path) -> None:
        is_checkout = (folder / "torchao").is_dir()
        place = str(folder if is_checkout else folder.resolve())
        if place not in sys.path:
            sys.path.insert(0, place)
        self._prefix = f"{self.PACKAGE}." if is_checkout else ""

    def _call(self, module: str, name: str, *tensors: torch.Tensor) -> Any:
        function = getattr(import_module(self._prefix + module), name)
        return function(*tensors, output_dtype=FP8, round_scales_to_power_of_2=False)

    def rowwise(self, x: torch.Tensor) -> Any:
        values, scale = self._call(self.ROWS, "triton_fp8_rowwise_2d_scale_and_cast", x)
        return values, scale, None

    def colwise(self, x: torch.Tensor, offs: torch.Tensor) -> Any:
        values, scale = self._call(self.JAGGED, "triton_fp8_per_group_colwise_scales", x, offs)
        return values, scale, None

    def both(self, x: torch.Tensor, offs: torch.Tensor) -> Any:
        return self.rowwise(x), self.colwise(x, offs)

    def two_colwise(self, first: torch.Tensor, second: torch.Tensor, offs: torch.Tensor) -> Any:
        name = "triton_fp8_per_group_colwise_scales_dual"
        first_values, first_scale, second_values, second_scale = self._call(self.JAGGED, name, first, second, offs)
        return first_values, first_scale, None, second_values, second_scale, None

    def weight_columns(self, w: torch.Tensor) -> Any:
        values, scale = self._call(self.ROWS, "triton_fp8_colwise_3d_scale_and_cast", w)
        return values, scale, None

    def weight_transposed(self, w: torch.Tensor) -> Any:
        values, scale = self._call(self.ROWS, "triton_fp8_rowwise_3d_transpose_rhs", w)
        return values, scale, None

    def weight_layouts(self, w: torch.Tensor) -> Any:
        return self.weight_columns(w), self.weight_transposed(w)

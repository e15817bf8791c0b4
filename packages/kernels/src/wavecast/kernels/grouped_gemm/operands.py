"""Checks of operands and scales that the GEMMs share, and where a call goes. No tensor's values are read."""

from __future__ import annotations

import torch

from wavecast.kernels.checks import check_tensor
from wavecast.kernels.device import Path, Route, active_arch, default_format_name, has_fp8, route
from wavecast.kernels.formats import E4M3FN, E5M2, FORMATS, format_named, format_of

FP8_DTYPES = tuple(fmt.dtype for fmt in FORMATS)
OPERAND_DTYPES = (*FP8_DTYPES, torch.bfloat16, torch.float16)
INTERPRETED_DTYPES = (torch.float16, E4M3FN.dtype, E5M2.dtype)
"""What Triton's interpreter multiplies. Of bf16 it would multiply the bits; the FNUZ formats it does not know."""

OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def check_operands(
    a: torch.Tensor, b: torch.Tensor, *, b_ndim: int, dtypes: tuple[torch.dtype, ...] = OPERAND_DTYPES
) -> None:
    """Check rank and dtype of both operands.

    Raises:
        ValueError: another rank or dtype, or two dtypes.
    """
    check_tensor("a", a, ndim=2, dtypes=dtypes)
    check_tensor("b", b, ndim=b_ndim, dtypes=dtypes)
    if a.dtype != b.dtype:
        raise ValueError(f"a is {_name(a.dtype)} but b is {_name(b.dtype)}; they must be equal; quantize both alike")


def check_contiguous_sum(name: str, tensor: torch.Tensor, *, dim: int, other: int) -> None:
    """Check that the summed dimension ``dim`` is contiguous, and lines along it do not overlap.

    Raises:
        ValueError: another layout.
    """
    length, lines = tensor.shape[dim], tensor.shape[other]
    inner_ok = length <= 1 or tensor.stride(dim) == 1
    outer_ok = lines <= 1 or tensor.stride(other) >= length
    if not (inner_ok and outer_ok):
        way = ".contiguous()" if dim > other else ".transpose(-1, -2).contiguous().transpose(-1, -2)"
        raise ValueError(
            f"{name} has strides {tensor.stride()} for shape {tuple(tensor.shape)}; dimension {dim}, which is summed "
            f"over, must be contiguous; call {way}"
        )


def check_out_dtype(out_dtype: torch.dtype) -> None:
    """Check the dtype of the result.

    Raises:
        ValueError: none of bf16, fp16, fp32.
    """
    if out_dtype not in OUT_DTYPES:
        names = ", ".join(_name(d) for d in OUT_DTYPES)
        raise ValueError(f"out_dtype is {out_dtype}; wanted is one of {names}; quantize the result afterwards")


def check_scaled(dtype: torch.dtype, a_inverse: torch.Tensor | None, b_inverse: torch.Tensor | None) -> None:
    """Check that FP8 comes with both inverse scales and 16-bit operands without.

    Raises:
        ValueError: it does not.
    """
    wanted = dtype in FP8_DTYPES
    for name, given in (("a_inverse", a_inverse), ("b_inverse", b_inverse)):
        if wanted and given is None:
            raise ValueError(f"{name} is None for {_name(dtype)} operands; pass the quantizer's inverse (1 / scale)")
        if not wanted and given is not None:
            raise ValueError(f"{name} is given for {_name(dtype)} operands, which have no scale; pass None")


def flat_scale(name: str, inverse: torch.Tensor, *shapes: tuple[int, ...]) -> torch.Tensor:
    """The inverse scales in the first of the shapes that they may have.

    Raises:
        ValueError: not fp32, another shape, or not contiguous.
    """
    check_tensor(name, inverse, ndim=inverse.ndim, dtypes=(torch.float32,))
    if tuple(inverse.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{name} has shape {tuple(inverse.shape)}; wanted is {wanted}; reshape it")
    if not inverse.is_contiguous():
        raise ValueError(f"{name} has strides {inverse.stride()}; it must be contiguous; call .contiguous()")
    return inverse.view(shapes[0])


def route_operands(*tensors: torch.Tensor | None) -> Route:
    """Where a call goes; the first tensor is an operand, None is left out.

    Raises:
        ValueError: tensors on several or the wrong devices; FP8 of a format that the device does not multiply.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    dtype, arch = given[0].dtype, active_arch()
    if dtype not in FP8_DTYPES:
        way = route(*given, format=format_named(default_format_name()))
    else:
        fmt = format_of(dtype)
        if arch is not None and has_fp8(arch) and not fmt.is_native_on(arch):
            possible = ", ".join(f.name for f in FORMATS if f.is_native_on(arch))
            raise ValueError(
                f"operands are {fmt.name}, which {arch} does not multiply in hardware; possible there: {possible}; "
                "quantize them on this device"
            )
        way = route(*given, format=fmt)
    if way.path is Path.INTERPRETER and dtype not in INTERPRETED_DTYPES:
        raise ValueError(
            f"operands are {_name(dtype)}, which Triton's interpreter does not multiply; possible there: "
            f"{', '.join(map(_name, INTERPRETED_DTYPES))}; or unset TRITON_INTERPRET"
        )
    return way


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

"""Padding of token groups: checks, allocation and launches."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import torch

from wavecast.kernels.checks import (
    MOVED_DTYPES,
    UNITS,
    check_fits_int32,
    check_offsets,
    check_row_major,
    check_same_size,
    check_tensor,
)
from wavecast.kernels.device import launch_device, route
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.token_padding.kernel import pad_kernel, unpad_kernel
from wavecast.kernels.token_padding.plan import padded_rows, plan_padding
from wavecast.kernels.token_padding.reference import pad_token_groups_reference, unpad_token_groups_reference


class PaddedTokens(NamedTuple):
    """Tokens whose groups start at multiples.

    Attributes:
        tokens: ``(padded_rows, columns)``, row-major, in the dtype of the input.
        offs: ``(groups,)`` int32, end offsets of the padded groups.
    """

    tokens: torch.Tensor
    offs: torch.Tensor


def check_padding(x: torch.Tensor, offs: torch.Tensor, multiple: int) -> None:
    """Check what `pad_token_groups` takes.

    Raises:
        ValueError: see there.
    """
    check_tensor("x", x, ndim=2, dtypes=MOVED_DTYPES)
    check_row_major("x", x)
    check_offsets(offs)
    if multiple < 1:
        raise ValueError(f"multiple is {multiple}; wanted is at least 1, such as 16 for FP8 or 32 for MXFP8")
    check_fits_int32("the number of padded rows", padded_rows(x.shape[0], offs.numel(), multiple))


def check_unpadding(padded: torch.Tensor, offs: torch.Tensor, padded_offs: torch.Tensor, tokens: int) -> None:
    """Check what `unpad_token_groups` takes.

    Raises:
        ValueError: see there.
    """
    check_tensor("padded", padded, ndim=2, dtypes=MOVED_DTYPES)
    check_row_major("padded", padded)
    check_offsets(offs)
    check_offsets(padded_offs)
    check_same_size("the number of groups in offs", offs.numel(), "that in padded_offs", padded_offs.numel())
    if not 0 <= tokens <= padded.shape[0]:
        raise ValueError(
            f"tokens is {tokens} and padded has {padded.shape[0]} rows; wanted is the number of rows before padding, "
            "which is at most that of padded"
        )
    check_fits_int32("the number of padded rows", padded.shape[0])


def in_units(*matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Views of row-major matrices of one dtype, in the widest integers that all their rows consist of."""
    itemsize = matrices[0].element_size()
    sizes = [size for m in matrices for size in (m.shape[1], m.stride(0), m.storage_offset())]
    unit = UNITS[max(gcd(*(size * itemsize for size in sizes), 4), itemsize)]
    return tuple(m.view(unit) for m in matrices)


def _on_the_device(*tensors: torch.Tensor) -> tuple[bool, str | None]:
    """Whether kernels are launched, and the architecture. No format is made: it is one that every architecture has."""
    way = route(*tensors, format=E4M3FN)
    return not way.path.is_plain_torch, way.arch


def launch_pad(x: torch.Tensor, offs: torch.Tensor, out: PaddedTokens, multiple: int, arch: str | None) -> None:
    """Launch the kernel; ``out`` with contiguous tokens of the shape that `padded_rows` says."""
    source, target = in_units(x, out.tokens)
    rows, columns = target.shape
    groups = offs.numel()
    plan = plan_padding(
        rows,
        columns,
        row_stride=source.stride(0),
        groups=groups,
        row_unit=multiple,
        itemsize=source.element_size(),
        arch=arch,
    )
    pad_kernel[(plan.programs,)](
        source,
        offs,
        target,
        out.offs,
        groups,
        x.shape[0],
        rows,
        columns // plan.vector,
        source.stride(0) // plan.vector,
        MULTIPLE=multiple,
        **plan.constants,
    )


def launch_unpad(
    padded: torch.Tensor, offs: torch.Tensor, padded_offs: torch.Tensor, out: torch.Tensor, arch: str | None
) -> None:
    """Launch the kernel; ``out`` contiguous, with as many rows as there are tokens."""
    source, target = in_units(padded, out)
    tokens, columns = target.shape
    groups = offs.numel()
    plan = plan_padding(
        tokens,
        columns,
        row_stride=source.stride(0),
        groups=groups,
        row_unit=0,
        itemsize=source.element_size(),
        arch=arch,
    )
    unpad_kernel[(plan.programs,)](
        source,
        offs,
        padded_offs,
        target,
        groups,
        tokens,
        padded.shape[0],
        columns // plan.vector,
        source.stride(0) // plan.vector,
        **plan.constants,
    )


def pad_token_groups(x: torch.Tensor, offs: torch.Tensor, multiple: int) -> PaddedTokens:
    """Copy the rows of each group to where a multiple of rows starts, with zeros between; one launch, no waiting.

    How many rows the padded groups have is on the device only. So the result has as many as they have at most,
    ``padded_rows(M, G, multiple)``: M + G * (multiple - 1), rounded up to ``multiple``; what is behind the last padded
    group is zero. An empty group stays empty.

    Args:
        x: (M, K), rows contiguous, any row stride; bf16, fp16, fp32 or FP8, whose bytes are kept, NaN's too.
        offs: (G,) int32 end offsets, non-decreasing; rows from ``offs[-1]`` on are in no group, and are left out.
        multiple: rows, at least 1. Each multiple is compiled once.

    Returns:
        padded tokens, row-major, and their int32 end offsets, each a multiple of ``multiple``.

    Raises:
        ValueError: wrong rank, dtype, layout or device; ``multiple`` below 1; 2^31 padded rows or more.
    """
    check_padding(x, offs, multiple)
    launched, arch = _on_the_device(x, offs)
    with torch.no_grad():
        if not launched:
            return PaddedTokens(*pad_token_groups_reference(x, offs, multiple))
        rows = padded_rows(x.shape[0], offs.numel(), multiple)
        out = PaddedTokens(
            torch.empty((rows, x.shape[1]), dtype=x.dtype, device=x.device),
            torch.empty_like(offs),
        )
        with launch_device(x):
            launch_pad(x, offs, out, multiple, arch)
    return out


def unpad_token_groups(
    padded: torch.Tensor, offs: torch.Tensor, padded_offs: torch.Tensor, tokens: int
) -> torch.Tensor:
    """Copy the rows of each group back to where they are without padding: the inverse of `pad_token_groups`.

    Args:
        padded: (R, N), rows contiguous, any row stride; bf16, fp16, fp32 or FP8; for instance what a grouped
            multiplication of padded tokens returns.
        offs: (G,) int32 end offsets before padding.
        padded_offs: (G,) int32 end offsets of the padded groups, from `pad_token_groups`.
        tokens: M, the rows before padding.

    Returns:
        (M, N), row-major; rows from ``offs[-1]`` on are zero.

    Raises:
        ValueError: wrong rank, dtype, layout or device; different numbers of groups; more tokens than R.
    """
    check_unpadding(padded, offs, padded_offs, tokens)
    launched, arch = _on_the_device(padded, offs, padded_offs)
    with torch.no_grad():
        if not launched:
            return unpad_token_groups_reference(padded, offs, padded_offs, tokens)
        out = torch.empty((tokens, padded.shape[1]), dtype=padded.dtype, device=padded.device)
        if out.numel():
            with launch_device(padded):
                launch_unpad(padded, offs, padded_offs, out, arch)
    return out

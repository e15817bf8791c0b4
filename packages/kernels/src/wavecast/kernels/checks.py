"""Argument checks that the operators share. Each error says what was given, what is wanted, and the way out.

No check reads a tensor's values: that would synchronise the host with the device.
"""

from __future__ import annotations

import torch

from wavecast.kernels.formats import FORMATS

INPUT_DTYPES: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float16, torch.float32)
"""What the quantizers read."""

MOVED_DTYPES: tuple[torch.dtype, ...] = (*INPUT_DTYPES, *(fmt.dtype for fmt in FORMATS))
"""What is moved without a change of its bytes: the values that quantizers read and make."""

UNITS = {1: torch.int8, 2: torch.int16, 4: torch.int32}
"""What values are moved as, by bytes."""

INT32_MAX = 2**31 - 1

MOST_GRID_ROWS = 65535
"""Largest second dimension of a grid: CUDA's, and what HIP states for AMD GPUs (``maxGridSize``)."""

LONGEST_BLOCK = 1 << 16
"""Most values of a size that a program of any kernel takes at once: how far indices go beyond the size at most."""


def _list(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(d).removeprefix("torch.") for d in dtypes)


def check_tensor(name: str, tensor: torch.Tensor, *, ndim: int, dtypes: tuple[torch.dtype, ...] = INPUT_DTYPES) -> None:
    """Check rank and dtype of one argument.

    Raises:
        ValueError: another rank or dtype.
    """
    if tensor.ndim != ndim:
        raise ValueError(f"{name} has {tensor.ndim} dimensions {tuple(tensor.shape)}; {ndim} are wanted; reshape it")
    if tensor.dtype not in dtypes:
        given = str(tensor.dtype).removeprefix("torch.")
        raise ValueError(f"{name} is {given}; wanted is one of {_list(dtypes)}; convert it with .to()")


def check_row_major(name: str, tensor: torch.Tensor, *, column_major_way: str = "") -> None:
    """Check that the last dimension is contiguous (rows may be padded) and rows do not overlap.

    Args:
        name: of the argument.
        tensor: the argument.
        column_major_way: what a column-major matrix can be given to as it is, where another operator has that layout.

    Raises:
        ValueError: another layout.
    """
    inner_ok = tensor.shape[-1] <= 1 or tensor.stride(-1) == 1
    outer_ok = tensor.ndim < 2 or tensor.shape[-2] <= 1 or tensor.stride(-2) >= tensor.shape[-1]
    if not (inner_ok and outer_ok):
        column_major = tensor.ndim == 2 and tensor.stride(0) == 1 and tensor.stride(1) >= tensor.shape[0]
        way = (
            f"it is column-major: without a copy, {column_major_way}; or " if column_major and column_major_way else ""
        )
        raise ValueError(
            f"{name} has strides {tensor.stride()} for shape {tuple(tensor.shape)}; rows must be contiguous and must "
            f"not overlap; {way}call .contiguous()"
        )


def check_weight(weight: torch.Tensor) -> None:
    """Check the weights of experts: (E, K, N), K contiguous, strides (K * N, 1, K); strides of sizes of 1 are not used.

    Raises:
        ValueError: another rank, dtype or layout, or indices within an expert that do not fit in 32 bits.
    """
    check_tensor("weight", weight, ndim=3)
    _, k, n = weight.shape
    wanted = (k * n, 1, k)
    given = weight.stride()
    if weight.numel() and any(size > 1 and s != w for size, s, w in zip(weight.shape, given, wanted, strict=True)):
        raise ValueError(
            f"weight has strides {given} for shape {tuple(weight.shape)}; wanted are {wanted}, K contiguous; call "
            ".transpose(1, 2).contiguous().transpose(1, 2)"
        )
    check_fits_int32("K * N of one expert", k * n)
    check_blocks_fit_int32("K", k)
    check_blocks_fit_int32("N", n)


def check_offsets(offs: torch.Tensor) -> None:
    """Check the end offsets of groups: int32, one per group, contiguous. Values are not read.

    The values must be non-decreasing and at most the number of rows; kernels clip them to the rows that exist, so
    that wrong values cannot make them write outside the outputs.

    Raises:
        ValueError: another rank, dtype, layout, or no group at all.
    """
    check_tensor("offs", offs, ndim=1, dtypes=(torch.int32,))
    if offs.numel() == 0:
        raise ValueError("offs is empty; wanted is one int32 end offset per group, at least one group")
    if not offs.is_contiguous():
        raise ValueError(f"offs has stride {offs.stride(0)}; wanted is 1; call .contiguous()")


def check_same_size(name_a: str, size_a: int, name_b: str, size_b: int) -> None:
    """Check that two named sizes agree.

    Raises:
        ValueError: they differ.
    """
    if size_a != size_b:
        raise ValueError(f"{name_a} is {size_a} but {name_b} is {size_b}; they must be equal")


def check_fits_int32(name: str, size: int) -> None:
    """Check that an index range fits in 32 bits, where a kernel relies on it.

    Raises:
        ValueError: it does not.
    """
    if size > INT32_MAX:
        raise ValueError(f"{name} is {size}; at most {INT32_MAX} is possible; split the call")


def check_blocks_fit_int32(name: str, size: int) -> None:
    """Check that the indices of whole blocks over a size fit in 32 bits.

    Raises:
        ValueError: they do not.
    """
    check_fits_int32(f"{name}, rounded up to whole blocks,", size + LONGEST_BLOCK - 1)


def check_grid_rows(name: str, what: str, count: int) -> None:
    """Check that there are no more of what a kernel has a row of its grid for than a grid has rows.

    Raises:
        ValueError: there are.
    """
    if count > MOST_GRID_ROWS:
        raise ValueError(f"{name} has {count} {what}; at most {MOST_GRID_ROWS} are possible; split the call")

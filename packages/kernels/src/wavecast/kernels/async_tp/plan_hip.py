"""What the kernels in HIP take of a product over a group, and their tiles. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from wavecast.kernels.async_tp.selection import CODE_VARIABLE, MOST_RANKS
from wavecast.kernels.checks import INT32_MAX
from wavecast.kernels.device import native_format
from wavecast.kernels.grouped_gemm.plan import XCDS
from wavecast.kernels.hip.compiler import HIP_ARCHITECTURES

TILE = 256
"""Rows and columns of a tile, as in tiles.hip.h."""

THREADS = 512
"""Work-items of a workgroup."""

PIECE_BYTES = 16
"""What a lane loads at once: rows begin and end at multiples of it."""

STORED_COLUMNS = 4
"""What a lane stores at once."""

BAND = 4
"""Rows of tiles that are visited column by column."""


@dataclass(frozen=True, slots=True)
class HipPlan:
    """How a kernel in HIP carries out a product.

    Attributes:
        programs: workgroups that multiply.
        band: rows of tiles that are visited column by column.
        xcds: dies that workgroups are dealt to in turn.
    """

    programs: int
    band: int = BAND
    xcds: int = XCDS
    block_m: int = TILE
    block_n: int = TILE

    @property
    def reason(self) -> str:
        """Why, in a few words."""
        return (
            f"kernel in HIP: tiles of {self.block_m} × {self.block_n}, one a compute unit, {self.programs} workgroups"
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """What the choice depends on beyond sizes.

    Attributes:
        dtype, out_dtype: of the operands and of the result.
        bias_dtype: None without a bias.
        b_stride: elements between columns of b.
        aligned: whether all tensors begin at multiples of 16 bytes.
    """

    dtype: torch.dtype
    out_dtype: torch.dtype
    bias_dtype: torch.dtype | None
    b_stride: int
    aligned: bool

    @classmethod
    def of(
        cls, b: torch.Tensor, out: torch.Tensor, bias: torch.Tensor | None, *others: torch.Tensor | None
    ) -> Layout:  # fmt: skip
        """Of a product's right operand, result and bias, and of all else that the kernel reads or writes."""
        tensors = [tensor for tensor in (b, out, bias, *others) if tensor is not None]
        return cls(
            dtype=b.dtype,
            out_dtype=out.dtype,
            bias_dtype=None if bias is None else bias.dtype,
            b_stride=b.stride(1),
            aligned=all(tensor.data_ptr() % PIECE_BYTES == 0 for tensor in tensors),
        )


def hip_obstacle(
    *, arch: str | None, rows: int, columns: int, length: int, ranks: int, layout: Layout, programs: int,
    part_bytes: int = 0,
) -> str | None:  # fmt: skip
    """What the kernels in HIP cannot do of a product, with the way out; None if it can do it.

    Args:
        arch: of the active device.
        rows: of every rank.
        columns, length: N and K.
        ranks: size of the group.
        layout: of the tensors.
        programs: workgroups at most.
        part_bytes: of a value of the parts that ranks exchange of a result; 0 where they exchange none.
    """
    if arch not in HIP_ARCHITECTURES:
        return f"it is for {' and '.join(HIP_ARCHITECTURES)}, got {arch}"
    size = layout.dtype.itemsize
    out_bytes, k_bytes, b_bytes = layout.out_dtype.itemsize, length * size, layout.b_stride * size
    tiles = ranks * -(-rows // TILE) * -(-columns // TILE)
    half = torch.float16 if layout.dtype == torch.float16 else torch.bfloat16
    obstacles: tuple[tuple[bool, Callable[[], str]], ...] = (
        (
            layout.dtype not in (torch.bfloat16, torch.float16, native_format(arch).dtype),
            lambda: f"operands are {layout.dtype}; it takes bfloat16, float16 and {native_format(arch).name}",
        ),
        (
            layout.out_dtype not in (half, torch.float32),
            lambda: f"the result of {layout.dtype} is {layout.out_dtype}; it writes {half} and torch.float32",
        ),
        (
            layout.bias_dtype not in (None, half),
            lambda: f"the bias of {layout.dtype} is {layout.bias_dtype}; it takes {half}",
        ),
        (not layout.aligned, lambda: f"a tensor does not begin at a multiple of {PIECE_BYTES} bytes"),
        (
            k_bytes == 0 or k_bytes % PIECE_BYTES != 0,
            lambda: f"K is {length}; it takes multiples of {PIECE_BYTES // size}: pad it with zeros",
        ),
        (
            b_bytes % PIECE_BYTES != 0,
            lambda: f"columns of b are {layout.b_stride} elements apart; wanted is a multiple of {PIECE_BYTES // size}",
        ),
        (
            columns == 0 or columns % STORED_COLUMNS != 0,
            lambda: f"N is {columns}; it takes multiples of {STORED_COLUMNS}: pad b with columns of zeros",
        ),
        (ranks > MOST_RANKS, lambda: f"there are {ranks} ranks; at most {MOST_RANKS} are possible"),
        (
            TILE * max(k_bytes, b_bytes, columns * max(out_bytes, part_bytes)) > INT32_MAX,
            lambda: f"{TILE} rows of an operand, the result or a part of it have more than {INT32_MAX} bytes",
        ),
        (
            max(ranks * rows + TILE, tiles + programs) > INT32_MAX,
            lambda: f"rows or tiles of the result are more than {INT32_MAX}",
        ),
    )
    return next((message() for found, message in obstacles if found), None)


def check_possible(obstacle: str | None) -> None:
    """Check that nothing is in the way of a kernel in HIP that is asked for.

    Raises:
        ValueError: something is.
    """
    if obstacle is not None:
        raise ValueError(
            f"the kernel in HIP is asked for and not possible: {obstacle}; or use Triton's: {CODE_VARIABLE}=triton"
        )


def kernel_name(name: str, dtype: torch.dtype, out_dtype: torch.dtype) -> str:
    """That of a kernel for operands and results of two types."""
    half = "f16" if dtype == torch.float16 else "bf16"
    operand = "fp8" if dtype.itemsize == 1 else half
    return f"{name}_{operand}_{'f32' if out_dtype.itemsize == 4 else half}"

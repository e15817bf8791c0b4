"""When the kernel in HIP takes a product of all-gather+matmul, and on which grid. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from wavecast.kernels.async_tp.order import band_within
from wavecast.kernels.async_tp.selection import MOST_RANKS
from wavecast.kernels.async_tp.transport import TransportPlan
from wavecast.kernels.checks import INT32_MAX
from wavecast.kernels.device import native_format
from wavecast.kernels.grouped_gemm.plan import XCDS
from wavecast.kernels.hip.compiler import HIP_ARCHITECTURES

TILE = 256
"""Rows and columns of a tile, as in async_mm.hip."""

PIECE_BYTES = 16
"""What a lane loads at once: rows begin and end at multiples of it."""

STORED_COLUMNS = 4
"""What a lane stores at once."""

BAND = 4
"""Rows of tiles that are visited column by column."""


@dataclass(frozen=True, slots=True)
class HipPlan:
    """How the kernel in HIP carries out a product.

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


def hip_obstacle(
    *, arch: str | None, shard_rows: int, columns: int, length: int, ranks: int, layout: Layout,
    transport: TransportPlan,
) -> str | None:  # fmt: skip
    """What the kernel in HIP cannot do of a product, with the way out; None if it can do it.

    Args:
        arch: of the active device.
        shard_rows: rows of every rank.
        columns, length: N and K.
        ranks: size of the group.
        layout: of the tensors.
        transport: what moves the chunks.
    """
    if arch not in HIP_ARCHITECTURES:
        return f"it is for {' and '.join(HIP_ARCHITECTURES)}, got {arch}"
    size = layout.dtype.itemsize
    out_bytes, k_bytes, b_bytes = layout.out_dtype.itemsize, length * size, layout.b_stride * size
    tiles = -(-ranks * shard_rows // TILE) * -(-columns // TILE)
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
            TILE * max(k_bytes, b_bytes, columns * out_bytes) > INT32_MAX,
            lambda: f"{TILE} rows of an operand or the result have more than {INT32_MAX} bytes",
        ),
        (
            max(ranks * shard_rows + TILE, tiles + transport.most_units) > INT32_MAX,
            lambda: f"rows or tiles of the result are more than {INT32_MAX}",
        ),
    )
    return next((message() for found, message in obstacles if found), None)


def plan_hip(*, shard_rows: int, columns: int, ranks: int, transport: TransportPlan) -> HipPlan:
    """The grid of a product that has no obstacle; arguments as for `hip_obstacle`."""
    tiles = -(-ranks * shard_rows // TILE) * -(-columns // TILE)
    programs = max(min(transport.most_units - transport.fetchers, tiles) // XCDS * XCDS, XCDS)
    return HipPlan(programs, band=band_within(transport.signal_rows, TILE, BAND))

"""Checks of all-gather+matmul's arguments, and their form as matrices whose rows are gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from wavecast.kernels.checks import check_same_size, check_tensor
from wavecast.kernels.grouped_gemm.operands import OPERAND_DTYPES, check_out_dtype, check_scaled


@dataclass(frozen=True)
class Rows:
    """A shard as a matrix whose rows are gathered.

    Attributes:
        shard: (rows, K), contiguous.
        lead: size of the gathered dimension and of the ones beside it, in the order in which rows count them.
        dim: which one the gathered dimension is.
        along_sum: whether it is the summed dimension; ``lead`` is then of all the others, in order.
    """

    shard: torch.Tensor
    lead: tuple[int, ...]
    dim: int
    along_sum: bool

    def unfolded(self, matrix: torch.Tensor, ranks: int) -> torch.Tensor:
        """(ranks * rows, columns), or (rows, columns) if along the sum, with the dimensions that the shard had."""
        if self.along_sum:
            return matrix.view(*self.lead, matrix.shape[1])
        first, *rest = self.lead
        if not rest:
            return matrix
        return matrix.view(first * ranks, *rest, matrix.shape[1]).movedim(0, self.dim)


def as_rows(a_shard: torch.Tensor, gather_dim: int) -> Rows:
    """The matrix of a shard of any number of dimensions.

    Raises:
        ValueError: fewer than two dimensions, another dtype, or a dimension that it does not have.
    """
    if a_shard.ndim < 2:
        raise ValueError(
            f"a_shard has {a_shard.ndim} dimensions {tuple(a_shard.shape)}; at least 2 are wanted; reshape it"
        )
    check_tensor("a_shard", a_shard, ndim=a_shard.ndim, dtypes=OPERAND_DTYPES)
    if not -a_shard.ndim <= gather_dim < a_shard.ndim:
        raise ValueError(
            f"gather_dim is {gather_dim} for a shard of {a_shard.ndim} dimensions; wanted is one of 0 to "
            f"{a_shard.ndim - 1}, or from the end"
        )
    dim = gather_dim % a_shard.ndim
    if a_shard.ndim == 2 and dim == 0 and a_shard.is_contiguous():
        return Rows(a_shard, (a_shard.shape[0],), 0, False)
    if dim == a_shard.ndim - 1:
        return Rows(a_shard.reshape(-1, a_shard.shape[-1]).contiguous(), tuple(a_shard.shape[:-1]), dim, True)
    moved = a_shard.movedim(dim, 0)
    return Rows(moved.reshape(-1, moved.shape[-1]).contiguous(), tuple(moved.shape[:-1]), dim, False)


class RowScales(NamedTuple):
    """Inverse scales of the left operand.

    Attributes:
        own: (rows, 1) of this rank where every rank has only its own rows', else None.
        every: (ranks * rows, 1) or () where every rank has all, else None.
    """

    own: torch.Tensor | None
    every: torch.Tensor | None


def as_row_scales(a_inverse: torch.Tensor | None, a_shard: torch.Tensor, rows: Rows, ranks: int) -> RowScales:
    """Which rows a scale tensor is of, by its shape.

    Raises:
        ValueError: not fp32, or the shape of neither.
    """
    if a_inverse is None:
        return RowScales(None, None)
    check_tensor("a_inverse", a_inverse, ndim=a_inverse.ndim, dtypes=(torch.float32,))
    if a_inverse.numel() == 1 and a_inverse.ndim <= 1:
        return RowScales(None, flat(a_inverse))
    sharded = (*a_shard.shape[:-1], 1)
    gathered = tuple(s * (ranks if d == rows.dim else 1) for d, s in enumerate(sharded))
    if rows.along_sum:  # a row's values are on all ranks: there is one scale for them
        gathered, sharded = sharded, ()
    if a_inverse.shape == sharded:
        return RowScales(_column(a_inverse, rows), None)
    if a_inverse.shape == gathered:
        return RowScales(None, _column(a_inverse, rows))
    if a_inverse.numel() == 1:  # of more dimensions, as torch's operators take it too
        return RowScales(None, a_inverse.reshape(()))
    raise ValueError(
        f"a_inverse has shape {tuple(a_inverse.shape)}; wanted is () for all rows, {sharded} for this rank's, or "
        f"{gathered} for every rank's; reshape it"
    )


def _column(a_inverse: torch.Tensor, rows: Rows) -> torch.Tensor:
    """(rows, 1), in the order of the rows."""
    if a_inverse.ndim == 2 and rows.dim == 0 and a_inverse.is_contiguous():
        return a_inverse
    moved = a_inverse if rows.along_sum or a_inverse.ndim < 2 else a_inverse.movedim(rows.dim, 0)
    return moved.reshape(-1, 1).contiguous()


def check_factors(
    rows: Rows,
    ranks: int,
    bs: Sequence[torch.Tensor],
    a_inverse: torch.Tensor | None,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype],
) -> None:
    """Check the right operands and what belongs to them.

    Raises:
        ValueError: none given, different numbers, or a wrong rank, dtype, shape or device.
    """
    if not bs:
        raise ValueError(
            "bs is empty; wanted is one (K, N) matrix or more; for the gathered matrix alone use all_gather"
        )
    for name, given in (("b_inverses", b_inverses), ("biases", biases), ("out_dtypes", out_dtypes)):
        check_same_size(f"the number of {name}", len(given), "the number of bs", len(bs))
    k = rows.shard.shape[1] * (ranks if rows.along_sum else 1)
    for index, (b, b_inverse, bias, out_dtype) in enumerate(zip(bs, b_inverses, biases, out_dtypes, strict=True)):
        name = f"bs[{index}]"
        check_tensor(name, b, ndim=2, dtypes=OPERAND_DTYPES)
        if b.dtype != rows.shard.dtype:
            raise ValueError(f"a_shard is {rows.shard.dtype} but {name} is {b.dtype}; they must be equal; convert one")
        if b.device != rows.shard.device:
            raise ValueError(f"a_shard is on {rows.shard.device} but {name} on {b.device}; move them to one device")
        check_same_size("K of a_shard", k, f"K of {name}", b.shape[0])
        check_scaled(b.dtype, a_inverse, b_inverse)
        check_out_dtype(out_dtype)
        if b_inverse is not None:
            check_tensor(f"b_inverses[{index}]", b_inverse, ndim=b_inverse.ndim, dtypes=(torch.float32,))
            if b_inverse.numel() != 1 and tuple(b_inverse.shape) != (1, b.shape[1]):
                raise ValueError(
                    f"b_inverses[{index}] has shape {tuple(b_inverse.shape)}; wanted is () or (1, {b.shape[1]}); "
                    "reshape it"
                )
        if bias is not None and tuple(bias.shape) != (b.shape[1],):
            raise ValueError(f"biases[{index}] has shape {tuple(bias.shape)}; wanted is ({b.shape[1]},); reshape it")


def flat(b_inverse: torch.Tensor | None) -> torch.Tensor | None:
    """A scale of one element as one without dimensions; others contiguous."""
    if b_inverse is None:
        return None
    if b_inverse.ndim == 0:
        return b_inverse
    return b_inverse.reshape(()) if b_inverse.numel() == 1 else b_inverse.contiguous()

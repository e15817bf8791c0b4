"""Checks of matmul+reduce-scatter's arguments, and their form as matrices whose rows are scattered."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wavecast.kernels.all_gather_matmul.operands import flat
from wavecast.kernels.checks import check_same_size, check_tensor
from wavecast.kernels.grouped_gemm.operands import OPERAND_DTYPES, check_out_dtype, check_scaled


@dataclass(slots=True)
class Parts:
    """A left operand as a matrix whose rows are scattered: the first of them to rank 0, and so on.

    Attributes:
        a: (ranks * rows, K), contiguous.
        a_inverse: fp32 (ranks * rows, 1) or (), or None.
        b_inverse: fp32 (1, N) or (), or None.
        lead: size of the scattered dimension of a part and of the ones beside it, in the order in which rows count.
        dim: which one the scattered dimension is.
        ranks: number of parts.
    """

    a: torch.Tensor
    a_inverse: torch.Tensor | None
    b_inverse: torch.Tensor | None
    lead: tuple[int, ...]
    dim: int
    ranks: int

    @property
    def rows(self) -> int:
        """Rows of a part."""
        return self.a.shape[0] // self.ranks

    def part(self, rank: int) -> slice:
        """Rows that a rank gets."""
        return slice(rank * self.rows, (rank + 1) * self.rows)

    def inverse_of(self, rank: int) -> torch.Tensor | None:
        """Scales of the rows that a rank gets."""
        inverse = self.a_inverse
        return inverse[self.part(rank)] if inverse is not None and inverse.ndim else inverse

    def unfolded(self, matrix: torch.Tensor) -> torch.Tensor:
        """(rows, N) with the dimensions that the operand had."""
        if len(self.lead) == 1:
            return matrix
        return matrix.view(*self.lead, matrix.shape[1]).movedim(0, self.dim)


def check_parts(
    a: torch.Tensor,
    b: torch.Tensor,
    ranks: int,
    scatter_dim: int,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> None:
    """Check the arguments.

    Raises:
        ValueError: wrong rank, dtype, shape or device, a dimension that does not exist or is the summed one, or whose
            size the ranks do not divide.
    """
    if a.ndim < 2:
        raise ValueError(f"a has {a.ndim} dimensions {tuple(a.shape)}; at least 2 are wanted; reshape it")
    check_tensor("a", a, ndim=a.ndim, dtypes=OPERAND_DTYPES)
    check_tensor("b", b, ndim=2, dtypes=OPERAND_DTYPES)
    if (a.dtype, a.device) != (b.dtype, b.device):
        raise ValueError(f"a is {a.dtype} on {a.device} but b is {b.dtype} on {b.device}; they must be equal")
    if not -a.ndim <= scatter_dim < a.ndim or scatter_dim % a.ndim == a.ndim - 1:
        raise ValueError(
            f"scatter_dim is {scatter_dim} for an operand of {a.ndim} dimensions; wanted is one of 0 to {a.ndim - 2}: "
            "the last one is summed over"
        )
    dim = scatter_dim % a.ndim
    if a.shape[dim] % ranks:
        raise ValueError(
            f"dimension {dim} of a has size {a.shape[dim]}; a multiple of the {ranks} ranks is wanted; pad it"
        )
    check_same_size("K of a", a.shape[-1], "K of b", b.shape[0])
    check_scaled(a.dtype, a_inverse, b_inverse)
    check_out_dtype(out_dtype)
    if a_inverse is not None:
        check_tensor("a_inverse", a_inverse, ndim=a_inverse.ndim, dtypes=(torch.float32,))
        wanted = (*a.shape[:-1], 1)
        if a_inverse.numel() != 1 and tuple(a_inverse.shape) != wanted:
            raise ValueError(f"a_inverse has shape {tuple(a_inverse.shape)}; wanted is () or {wanted}; reshape it")
    if b_inverse is not None:
        check_tensor("b_inverse", b_inverse, ndim=b_inverse.ndim, dtypes=(torch.float32,))
        columns = (1, b.shape[1])
        if b_inverse.numel() != 1 and tuple(b_inverse.shape) != columns:
            raise ValueError(f"b_inverse has shape {tuple(b_inverse.shape)}; wanted is () or {columns}; reshape it")


def as_parts(
    a: torch.Tensor,
    b: torch.Tensor,
    ranks: int,
    scatter_dim: int,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
) -> Parts:
    """Checked arguments in this form; arguments as of `check_parts`."""
    dim = scatter_dim % a.ndim
    if a.ndim == 2 and a.is_contiguous():
        rows, lead = a, (a.shape[0] // ranks,)
    else:
        moved = a.movedim(dim, 0)
        rows, lead = moved.reshape(-1, moved.shape[-1]).contiguous(), (moved.shape[0] // ranks, *moved.shape[1:-1])
    if a_inverse is not None:
        if a_inverse.numel() == 1:
            a_inverse = flat(a_inverse)
        elif dim != 0 or a_inverse.ndim != 2 or not a_inverse.is_contiguous():
            a_inverse = a_inverse.movedim(dim, 0).reshape(-1, 1).contiguous()
    return Parts(rows, a_inverse, flat(b_inverse), lead, dim, ranks)

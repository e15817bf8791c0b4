"""Inputs that the tests of the column-wise quantizer share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from quantizers import put_column_specials


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        name: what it is about.
        tokens, columns: shape.
        ends: end offset of each group.
        dtype: of the input.
        row_padding: elements between the rows.
        special: put zero and tiny columns, NaN and both infinities in.
    """

    name: str
    tokens: int
    columns: int
    ends: tuple[int, ...]
    dtype: torch.dtype = torch.bfloat16
    row_padding: int = 0
    special: bool = False

    def x(self) -> torch.Tensor:
        """``(tokens, columns)`` values whose size differs by 2^20 between columns."""
        generator = torch.Generator().manual_seed(len(self.name) + self.tokens)
        x = torch.randn(self.tokens, self.columns + self.row_padding, generator=generator)
        x *= torch.exp2(torch.randint(-10, 11, (1, x.shape[1]), generator=generator))
        x = x.to(self.dtype)[:, : self.columns]
        return put_column_specials(x) if self.special else x

    def offs(self) -> torch.Tensor:
        """``(groups,)`` int32."""
        return torch.tensor(self.ends, dtype=torch.int32)


CASES = (
    Case("aligned equal groups", 256, 64, (64, 128, 192, 256)),
    Case("tails in every dimension", 301, 70, (37, 150, 293), special=True),
    Case("columns below a block, odd", 77, 7, (40, 77), special=True),
    Case("columns a multiple of 8 only", 96, 72, (50, 96)),
    Case("tokens a multiple of 2 only", 90, 16, (41, 90)),
    Case("tokens a multiple of 4 only", 92, 16, (41, 92)),
    Case("empty groups first, middle, last", 160, 24, (0, 61, 61, 61, 160, 160), special=True),
    Case("one group has nearly all", 640, 16, (3, 5, 630, 640), special=True),
    Case("groups within one chunk", 16, 8, (1, 3, 3, 6, 8, 13)),
    Case("bounds at every residue of a chunk", 104, 8, (9, 19, 30, 42, 55, 69, 84, 99)),
    Case("no token belongs to a group", 40, 16, (0, 0)),
    Case("rows behind the last group, cut", 200, 16, (7, 13)),
    Case("rows behind the last group, many", 400, 8, (3,)),
    Case("offsets beyond the rows", 48, 8, (20, 60, 80)),
    Case("no rows at all", 0, 8, (0, 0)),
    Case("one row", 1, 1, (1,)),
    Case("padded rows", 64, 40, (30, 64), row_padding=24),
    Case("padded rows, odd stride", 64, 40, (30, 64), row_padding=3),
    Case("fp16", 90, 48, (31, 90), dtype=torch.float16, special=True),
    Case("fp32", 90, 48, (31, 90), dtype=torch.float32, special=True),
    Case("fp32, odd", 33, 5, (31, 33), dtype=torch.float32, special=True),
)

"""Inputs that the tests of the dual-layout quantizer share, and the comparison with the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from quantizers import assert_same_results, guarded_outputs, put_column_specials

from wavecast.kernels.dual_layout.api import DualLayout, dual_layout_result
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        name: what it is about.
        rows, columns: shape.
        ends: end offset of each group.
        dtype: of the input.
        row_padding: elements between the rows.
        special: put zero and tiny columns and rows, NaN and both infinities in.
    """

    name: str
    rows: int
    columns: int
    ends: tuple[int, ...]
    dtype: torch.dtype = torch.bfloat16
    row_padding: int = 0
    special: bool = False

    def x(self) -> torch.Tensor:
        """(rows, columns) values whose size differs by 2^12 between columns, and by 2^8 between rows."""
        generator = torch.Generator().manual_seed(len(self.name) + self.rows)
        x = torch.randn(self.rows, self.columns + self.row_padding, generator=generator)
        x *= torch.exp2(torch.randint(-6, 7, (1, x.shape[1]), generator=generator))
        x *= torch.exp2(torch.randint(-4, 5, (x.shape[0], 1), generator=generator))
        x = x.to(self.dtype)[:, : self.columns]
        return _put_specials(x) if self.special else x

    def offs(self) -> torch.Tensor:
        """(groups,) int32."""
        return torch.tensor(self.ends, dtype=torch.int32)


def _put_specials(x: torch.Tensor) -> torch.Tensor:
    """In place: `put_column_specials`, and rows of zeros, of an infinity and with a NaN at the end."""
    rows, columns = put_column_specials(x).shape
    x[rows // 5] = float("-inf")
    x[rows // 6] = 0
    x[rows - 1, columns - 1] = float("nan")
    return x


CASES = (
    Case("tails in every dimension", 301, 150, (37, 150, 293), special=True),
    Case("empty groups first, middle, last", 360, 24, (0, 61, 61, 61, 360, 360), special=True),
    Case("one group has nearly all, many columns", 400, 1040, (3, 5, 390, 400), special=True),
    Case("groups within one chunk", 16, 8, (1, 3, 3, 6, 8, 13)),
    Case("no row belongs to a group", 40, 16, (0, 0), special=True),
    Case("offsets beyond the rows", 48, 8, (20, 60, 80)),
    Case("no rows at all", 0, 8, (0, 0)),
    Case("no columns at all", 8, 0, (5,)),
    Case("one value", 1, 1, (1,)),
    Case("padded rows", 64, 40, (30, 64), row_padding=24),
    Case("fp16", 144, 48, (31, 144), dtype=torch.float16, special=True),
    Case("fp32, odd", 33, 5, (31, 33), dtype=torch.float32, special=True),
)


def check(launch: Callable[..., None], case: Case, *, fmt: Fp8Format, power_of_two: bool, arch: str | None) -> None:
    """Results of a launch equal the reference's byte for byte, and nothing is written beside them."""
    x, offs = case.x(), case.offs()
    wanted = dual_layout_result(x, offs, fmt=fmt, power_of_two=power_of_two)
    with guarded_outputs() as guard:
        out = DualLayout(*(type(part)(*(guard.like(tensor) for tensor in part)) for part in wanted))
        launch(x, offs, out, Conversion(fmt, fmt.max, power_of_two, arch))
    assert_same_results(f"{case.name}, rowwise", out.rowwise, wanted.rowwise)
    assert_same_results(f"{case.name}, colwise", out.colwise, wanted.colwise)

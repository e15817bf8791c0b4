"""What the tests of the GEMMs share: operands, group sizes, and how far a result may be from the exact one.

The bound. A product of two FP8, bf16 or fp16 values has at most 22 significant bits and is exact in fp32. Summing K
products in fp32, in any order, makes K - 1 roundings, and no term passes through more than all of them: with u = 2^-24
the error is at most (K - 1) u S to first order, S the sum of |a| |b|. Each of the two scales rounds once more, which
adds u S each. So |error| <= (K + 1) u S |a_inverse| |b_inverse|, to first order in u; K + 4 covers the higher orders
for every K used here. Rounding to the output's p bits then adds 2^-p of the result, and for fp16 at most half its
smallest subnormal.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wavecast.kernels.colwise_per_group.reference import group_bounds
from wavecast.kernels.formats import FORMATS, format_of

UNIT = 2.0**-24
SM_90_FP8_UNIT = 2.0**-13
"""Hopper's tensor cores add FP8 products with 13 bits behind the largest one's leading bit and drop the rest, which is
what torch calls fast accumulation: each of the products and sums that are added may lose this much of the largest."""
SM_90_FP8_NORM = 2.0**-8
"""What is left of that when losses of both signs add up: the most that an error's norm may be of the result's."""
OUT_ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 0.0}


def sizes(*rows: int) -> tuple[int, ...]:
    """End offsets of groups of so many rows."""
    ends, end = [], 0
    for size in rows:
        end += size
        ends.append(end)
    return tuple(ends)


ROWS = 361
GROUPS = {
    "D1 empty experts": sizes(22, 0, 257, 44, 0, 38),
    "D2 all experts empty": (0, 0, 0),
    "D3 rows behind the last group": (10, 35, 35, 290),
    "D4 ragged sizes": sizes(1, 7, 15, 17, 31, 33, 127, 129),
    "nearly all in one": (3, 5, 350, 361),
    "offsets beyond the rows": (100, 400, 500),
    "more groups than lanes": sizes(*(i % 11 for i in range(70))),
}
"""End offsets over `ROWS` rows."""


@dataclass(frozen=True)
class Problem:
    """Arguments of one grouped call; ``rows``: which of the two forms."""

    rows: bool
    a: torch.Tensor
    b: torch.Tensor
    offs: torch.Tensor
    a_inverse: torch.Tensor | None
    b_inverse: torch.Tensor | None

    @property
    def arguments(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        return self.a, self.b, self.offs, self.a_inverse, self.b_inverse

    def to(self, device: str) -> Problem:
        """The same on another device."""
        moved = (None if t is None else t.to(device) for t in self.arguments)
        return Problem(self.rows, *moved)


def values(*shape: int, dtype: torch.dtype, exact: bool, seed: int) -> torch.Tensor:
    """Small integers, or all finite codes of an FP8 format, or normal values."""
    generator = torch.Generator().manual_seed(seed)
    if exact:
        return torch.randint(-4, 5, shape, generator=generator).float().to(dtype)
    if dtype in {fmt.dtype for fmt in FORMATS}:
        codes = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        codes[~codes.view(dtype).float().isfinite()] = 1
        return codes.view(dtype)
    return torch.randn(*shape, generator=generator).to(dtype)


def scales(*shape: int, exact: bool, seed: int) -> torch.Tensor:
    """Positive factors; powers of two if exact."""
    generator = torch.Generator().manual_seed(seed)
    if exact:
        return torch.exp2(torch.randint(-3, 4, shape, generator=generator).float())
    return torch.rand(shape, generator=generator) * 0.01 + 0.001


def fill_nan(part: torch.Tensor) -> None:
    """NaN into a view, also of FP8, which torch cannot fill."""
    if part.dtype.itemsize == 1:
        part.view(torch.uint8).fill_(format_of(part.dtype).nan_bytes[0])
    else:
        part.fill_(float("nan"))


def rows_problem(
    ends: tuple[int, ...], *, k: int, n: int, dtype: torch.dtype, exact: bool = True, m: int = ROWS
) -> Problem:
    """The rows form; what is behind the last group is NaN, scales too (D3)."""
    scaled = dtype.itemsize == 1
    a = values(m, k, dtype=dtype, exact=exact, seed=m + k)
    b = values(len(ends), n, k, dtype=dtype, exact=exact, seed=n).transpose(1, 2)
    a_inverse = scales(m, 1, exact=exact, seed=3) if scaled else None
    b_inverse = scales(len(ends), 1, n, exact=exact, seed=4) if scaled else None
    last = max(0, min(ends[-1], m))
    fill_nan(a[last:])
    if a_inverse is not None:
        fill_nan(a_inverse[last:])
    return Problem(True, a, b, torch.tensor(ends, dtype=torch.int32), a_inverse, b_inverse)


def sum_problem(
    ends: tuple[int, ...], *, p: int, q: int, dtype: torch.dtype, exact: bool = True, t: int = ROWS
) -> Problem:
    """The sum form; what is behind the last group is NaN (D3)."""
    scaled = dtype.itemsize == 1
    a = values(p, t, dtype=dtype, exact=exact, seed=p)
    b = values(q, t, dtype=dtype, exact=exact, seed=q + 1).t()
    last = max(0, min(ends[-1], t))
    fill_nan(a[:, last:])
    fill_nan(b.t()[:, last:])
    a_inverse = scales(len(ends), p, exact=exact, seed=3) if scaled else None
    b_inverse = scales(len(ends), q, exact=exact, seed=4) if scaled else None
    return Problem(False, a, b, torch.tensor(ends, dtype=torch.int32), a_inverse, b_inverse)


def exact_and_size(
    a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor | None, b_inverse: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The product in float64, and the sum of the magnitudes of what is summed."""
    factor = torch.ones((), dtype=torch.float64, device=a.device)
    for inverse in (a_inverse, b_inverse):
        factor = factor if inverse is None else factor * inverse.double()
    return (a.double() @ b.double()) * factor, (a.double().abs() @ b.double().abs()) * factor


def grouped_exact_and_size(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """`exact_and_size` of every group, zero where no group is."""
    a, b, offs, a_inverse, b_inverse = problem.arguments
    summed = a.shape[0] if problem.rows else a.shape[1]
    shape = (a.shape[0], b.shape[2]) if problem.rows else (offs.numel(), a.shape[0], b.shape[1])
    exact, size = (torch.zeros(shape, dtype=torch.float64, device=a.device) for _ in range(2))
    for group, (start, end) in enumerate(group_bounds(offs.cpu(), summed)):
        if problem.rows:
            rows = None if a_inverse is None else a_inverse[start:end]
            columns = None if b_inverse is None else b_inverse[group]
            exact[start:end], size[start:end] = exact_and_size(a[start:end], b[group], rows, columns)
        elif end > start:
            rows = None if a_inverse is None else a_inverse[group, :, None]
            columns = None if b_inverse is None else b_inverse[group]
            exact[group], size[group] = exact_and_size(a[:, start:end], b[start:end], rows, columns)
    return exact, size


def assert_exact(actual: torch.Tensor, exact: torch.Tensor) -> None:
    """Every value is the exact one: integers and powers of two need no rounding."""
    assert torch.equal(actual.double(), exact)


def assert_within_bound(
    actual: torch.Tensor, exact: torch.Tensor, size: torch.Tensor, length: int, *, unit: float = UNIT
) -> None:
    """|actual - exact| is within the bound that this module derives; ``length``: products that are summed."""
    rounding = OUT_ROUNDING[actual.dtype]
    summed = (length + 4) * unit * size
    subnormal = 2.0**-25 if actual.dtype == torch.float16 else 0.0
    bound = summed + rounding * (exact.abs() + summed) + subnormal
    error = (actual.double() - exact).abs()
    worst = (error - bound).max().item() if error.numel() else 0.0
    assert not (error > bound).any(), f"an error is {worst:.3g} above its bound"
    assert not actual.isnan().any()
    if unit == SM_90_FP8_UNIT:
        assert error.norm() <= SM_90_FP8_NORM * exact.norm()

"""Argument checks: what was given, what is wanted, and the way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from wavecast.kernels import checks
from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.kernels.rowwise.plan import plan_rowwise
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.rowwise_per_group.plan import plan_rowwise_per_group
from wavecast.kernels.weight_transpose.plan import plan_weight_transpose


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: checks.check_tensor("x", torch.zeros(3), ndim=2), r"x has 1 dimensions \(3,\); 2 are wanted"),
        (
            lambda: checks.check_tensor("x", torch.zeros(3, dtype=torch.int64), ndim=1),
            "x is int64; wanted is one of bfloat16, float16, float32; convert",
        ),
        (lambda: checks.check_row_major("x", torch.zeros(4, 3).t()), r"strides \(1, 3\).*call .contiguous\(\)"),
        (lambda: checks.check_row_major("x", torch.zeros(1, 3).expand(4, 3)), "must not overlap"),
        (lambda: checks.check_offsets(torch.zeros(2, dtype=torch.int64)), "offs is int64; wanted is one of int32"),
        (lambda: checks.check_offsets(torch.zeros(0, dtype=torch.int32)), "offs is empty; .*at least one group"),
        (lambda: checks.check_offsets(torch.zeros(4, dtype=torch.int32)[::2]), "offs has stride 2; wanted is 1"),
        (lambda: checks.check_same_size("a", 3, "b", 4), "a is 3 but b is 4; they must be equal"),
        (lambda: checks.check_fits_int32("rows", 2**31), "rows is 2147483648; at most 2147483647 is possible"),
        (lambda: checks.check_grid_rows("offs", "groups", 65536), "offs has 65536 groups; at most 65535 are possible"),
        (
            lambda: checks.check_weight(torch.empty(1, 2**31 - 1, 1, device="meta")),
            "K, rounded up to whole blocks, is 2147549182; at most 2147483647",
        ),
        (
            lambda: checks.check_weight(torch.empty(1, 1, 2**31 - 1, device="meta")),
            "N, rounded up to whole blocks, is 2147549182; at most 2147483647",
        ),
    ],
)
def test_refusals(check: Callable[[], None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check()


def test_what_is_accepted() -> None:
    checks.check_tensor("x", torch.zeros(3, 2, dtype=torch.float16), ndim=2)
    checks.check_row_major("x", torch.zeros(3, 8)[:, :5])
    checks.check_row_major("x", torch.zeros(3, 1))
    checks.check_row_major("x", torch.zeros(0, 4))
    checks.check_offsets(torch.tensor([4], dtype=torch.int32))
    checks.check_fits_int32("rows", 2**31 - 1)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])
@pytest.mark.parametrize("dtype", checks.INPUT_DTYPES, ids=str)
def test_no_block_is_longer_than_what_the_bounds_allow_for(arch: str | None, dtype: torch.dtype) -> None:
    """Indices of the last block of the longest size fit in 32 bits."""
    for size in (1, 100, 5000, 1 << 16, 1 << 24):
        rows = plan_rowwise(9, size, dtype=dtype, arch=arch)
        assert rows.block_k * rows.pieces <= checks.LONGEST_BLOCK
        assert plan_rowwise_per_group(9, size, 1, dtype=dtype, arch=arch).block_k <= checks.LONGEST_BLOCK
        strips = plan_weight_transpose(1, size, size, dtype=dtype, arch=arch)
        assert max(strips.block_k, strips.block_n) <= checks.LONGEST_BLOCK


def test_a_column_major_matrix_is_shown_the_operator_of_its_layout() -> None:
    """Each of the three names the one whose values, transposed, it would have given."""
    x, offs = torch.arange(12.0).reshape(4, 3).to(torch.bfloat16).t(), torch.tensor([1, 4], dtype=torch.int32)
    one = torch.tensor([4], dtype=torch.int32)
    with pytest.raises(
        ValueError, match=r"column-major: without a copy, colwise_per_group\(x.t\(\), offs\) with the one"
    ):
        quantize_rowwise(x, format=E4M3FN)
    with pytest.raises(ValueError, match=r"column-major: .* quantize_rowwise_per_group\(x.t\(\), offs\) has values.t"):
        colwise_per_group(x, offs, format=E4M3FN)
    with pytest.raises(ValueError, match=r"column-major: .* colwise_per_group\(x.t\(\), offs\) has values.t"):
        quantize_rowwise_per_group(x, offs, format=E4M3FN)
    copied = quantize_rowwise(x.contiguous(), format=E4M3FN)
    as_it_is = colwise_per_group(x.t(), one, format=E4M3FN)
    assert torch.equal(copied.values.view(torch.uint8), as_it_is.values.t().view(torch.uint8))
    assert torch.equal(copied.scale, as_it_is.scale.t())
    copied = quantize_rowwise_per_group(x.contiguous(), offs, format=E4M3FN)
    as_it_is = colwise_per_group(x.t(), offs, format=E4M3FN)
    assert torch.equal(copied.values.view(torch.uint8), as_it_is.values.t().view(torch.uint8))
    assert torch.equal(copied.scale, as_it_is.scale)


def test_rows_that_overlap_are_no_column_major_matrix() -> None:
    with pytest.raises(ValueError, match=r"must not overlap; call .contiguous\(\)"):
        quantize_rowwise(torch.zeros(9).as_strided((4, 3), (1, 1)), format=E4M3FN)

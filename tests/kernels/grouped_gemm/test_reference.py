"""The reference against float64, and its rules for groups."""

from __future__ import annotations

import pytest
import torch
from gemms import (
    GROUPS,
    assert_exact,
    assert_within_bound,
    grouped_exact_and_size,
    rows_problem,
    sum_problem,
)

from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, E5M2
from wavecast.kernels.grouped_gemm.reference import grouped_rows_reference, grouped_sum_reference


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("dtype", [E4M3FNUZ.dtype, E4M3FN.dtype, E5M2.dtype, torch.bfloat16], ids=str)
def test_exact_on_integers_and_within_the_bound(groups: str, dtype: torch.dtype) -> None:
    for exact in (True, False):
        for problem in (
            rows_problem(GROUPS[groups], k=48, n=20, dtype=dtype, exact=exact),
            sum_problem(GROUPS[groups], p=12, q=20, dtype=dtype, exact=exact),
        ):
            wanted, size = grouped_exact_and_size(problem)
            a, b, offs, a_inverse, b_inverse = problem.arguments
            flat = [None if i is None else i.squeeze(1) for i in (a_inverse, b_inverse)]
            reference = grouped_rows_reference if problem.rows else grouped_sum_reference
            out = reference(a, b, offs, *flat, torch.float32)
            if exact:
                assert_exact(out, wanted)
            else:
                assert_within_bound(out, wanted, size, a.shape[1])


def test_rows_behind_the_last_group_are_zero_and_empty_groups_too() -> None:
    a, b = torch.ones(6, 4, dtype=torch.bfloat16), torch.ones(3, 5, 4, dtype=torch.bfloat16).transpose(1, 2)
    offs = torch.tensor([2, 2, 4], dtype=torch.int32)
    out = grouped_rows_reference(a, b, offs, None, None, torch.float32)
    assert out[:, 0].tolist() == [4, 4, 4, 4, 0, 0]
    out = grouped_sum_reference(a.t(), torch.ones(5, 6, dtype=torch.bfloat16).t(), offs, None, None, torch.float32)
    assert out[:, 0, 0].tolist() == [2, 0, 2]

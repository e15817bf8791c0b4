"""The kernels, executed as gfx942 and gfx950 code: exact on integers, within the derived bound on everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from gemms import (
    GROUPS,
    ROWS,
    Problem,
    assert_exact,
    assert_within_bound,
    fill_nan,
    grouped_exact_and_size,
    rows_problem,
    sizes,
    sum_problem,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quantizers import guarded_outputs

from wavecast.kernels.device import Path, last_path, native_format
from wavecast.kernels.grouped_gemm import grouped_gemm
from wavecast.kernels.grouped_gemm.api import launch_grouped_rows, launch_grouped_sum
from wavecast.kernels.grouped_gemm.plan import plan_gemm

pytestmark = pytest.mark.execute
K, N = 144, 48
"""Multiples of 16, K none of the block: wide loads and a cut last block."""


def launched(problem: Problem, arch: str, **changes: Any) -> torch.Tensor:
    """The result, written over recycled memory between canaries (D3)."""
    a, b, offs = problem.a, problem.b, problem.offs
    shape = (a.shape[0], b.shape[2]) if problem.rows else (offs.numel(), a.shape[0], b.shape[1])
    inverses = [None if i is None else i.squeeze(1) for i in (problem.a_inverse, problem.b_inverse)]
    groups: dict[str, Any] = {"groups": offs.numel(), "jagged": problem.rows}
    plan = plan_gemm(shape[-2], shape[-1], 128, **groups, element_bytes=a.element_size(), arch=arch)
    plan = replace(plan, programs=16, **changes)  # fewer than there are tiles
    with guarded_outputs() as guard:
        out = guard.like(torch.empty(shape, dtype=torch.float32))
        (launch_grouped_rows if problem.rows else launch_grouped_sum)(a, b, offs, *inverses, out, plan)
    return out


def check_exact(problem: Problem, arch: str, **changes: Any) -> None:
    exact, _ = grouped_exact_and_size(problem)
    assert_exact(launched(problem, arch, **changes), exact)


@pytest.mark.parametrize("groups", GROUPS)
def test_rows_of_every_group(virtual_arch: str, groups: str) -> None:
    check_exact(rows_problem(GROUPS[groups], k=K, n=N, dtype=native_format(virtual_arch).dtype), virtual_arch)


@pytest.mark.parametrize("groups", [name for name in GROUPS if name != "more groups than lanes"])
def test_sums_of_every_group(virtual_arch: str, groups: str) -> None:
    """Group bounds fall inside a unit of 16, so that blocks are cut in registers at both ends."""
    problem = sum_problem(GROUPS[groups], p=40, q=N, t=ROWS + 7, dtype=native_format(virtual_arch).dtype)
    check_exact(problem, virtual_arch)


def test_odd_sizes(virtual_arch: str) -> None:
    """Strides of 37 elements: nothing is aligned, everything is right. Small tiles, since it is one load a value."""
    dtype = native_format(virtual_arch).dtype
    small = {"block_m": 32, "block_n": 32, "block_k": 32, "backend_options": ()}
    check_exact(rows_problem((40, 40, 90), m=97, k=37, n=29, dtype=dtype), virtual_arch, **small)
    check_exact(sum_problem((40, 40, 90), p=37, q=29, t=97, dtype=dtype), virtual_arch, **small)


def test_every_code_within_the_bound(virtual_arch: str) -> None:
    """All finite FP8 codes; the public function, whose path is the kernel's. One 16-bit output on either device."""
    dtype = native_format(virtual_arch).dtype
    out_dtype = {"gfx942": torch.bfloat16, "gfx950": torch.float16}[virtual_arch]
    for problem, length in (
        (rows_problem(GROUPS["D3 rows behind the last group"], k=K, n=N, dtype=dtype, exact=False), K),
        (sum_problem(GROUPS["D3 rows behind the last group"], p=40, q=N, t=368, dtype=dtype, exact=False), 255),
    ):
        exact, size = grouped_exact_and_size(problem)
        out = grouped_gemm(*problem.arguments, out_dtype=out_dtype)
        assert last_path() is Path.TRITON
        assert_within_bound(out, exact, size, length)


def test_16_bit_operands_without_scales(virtual_arch: str) -> None:
    dtype = {"gfx942": torch.float16, "gfx950": torch.bfloat16}[virtual_arch]
    ends = GROUPS["D1 empty experts"]
    for problem, length in (
        (rows_problem(ends, k=K, n=N, dtype=dtype, exact=False), K),
        (sum_problem(ends, p=40, q=N, t=368, dtype=dtype, exact=False), 257),
    ):
        exact, size = grouped_exact_and_size(problem)
        assert_within_bound(launched(problem, virtual_arch), exact, size, length)


def test_a_neighbours_nan_stays_there(virtual_arch: str) -> None:
    """A block at a group's end reads values of the next group; 0 times NaN must not get into the sum."""
    dtype = native_format(virtual_arch).dtype
    problem = sum_problem((70, 90, 150), p=40, q=N, t=160, dtype=dtype)
    fill_nan(problem.a[:, 70:90])
    fill_nan(problem.b.t()[:, 70:90])
    exact, _ = grouped_exact_and_size(problem)
    out = launched(problem, virtual_arch)
    assert_exact(out[::2], exact[::2])
    assert out[1].isnan().all()
    rows = rows_problem((70, 90, 150), m=160, k=K, n=N, dtype=dtype)
    fill_nan(rows.a[70:90])
    exact, _ = grouped_exact_and_size(rows)
    out = launched(rows, virtual_arch)
    assert_exact(out[:70], exact[:70])
    assert_exact(out[90:], exact[90:])
    assert out[70:90].isnan().all()


def test_nothing_to_sum(virtual_arch: str) -> None:
    """D2: K of 0, no rows, no columns."""
    dtype = native_format(virtual_arch).dtype
    for m, k, n, ends in ((224, 0, 256, (0, 0, 0, 0)), (0, K, N, (0, 0)), (64, K, 0, (64,))):
        problem = rows_problem(ends, m=m, k=k, n=n, dtype=dtype)
        out = grouped_gemm(*problem.arguments, out_dtype=torch.float32)
        assert out.shape == (m, n) and (out == 0).all()
    out = grouped_gemm(*sum_problem((0, 0), p=40, q=N, t=0, dtype=dtype).arguments, out_dtype=torch.float32)
    assert out.shape == (2, 40, N) and (out == 0).all()


def test_decreasing_offsets_stay_inside(virtual_arch: str) -> None:
    """Not allowed and not detected; canaries on both sides stay as they are."""
    dtype = native_format(virtual_arch).dtype
    for ends in ((300, 20, 200), (-50, 40, -7), (2**31 - 1, -(2**31), 100)):
        launched(rows_problem(ends, k=K, n=N, dtype=dtype), virtual_arch)
        launched(sum_problem(ends, p=40, q=N, t=368, dtype=dtype), virtual_arch)


def test_d7_experts_and_rows_beyond_32_bit_offsets(virtual_arch: str) -> None:
    """The second expert starts 2^31 elements behind the first, the last rows more than 2^31 behind the first."""
    dtype = native_format(virtual_arch).dtype
    problem = rows_problem((40, 300), m=300, k=K, n=N, dtype=dtype)
    far_b = torch.empty(2**31 + K * N, dtype=torch.uint8).view(dtype).as_strided(problem.b.shape, (2**31, 1, K))
    far_b.view(torch.uint8).copy_(problem.b.view(torch.uint8))
    far_a = torch.empty(299 * 2**23 + K, dtype=torch.uint8).view(dtype).as_strided(problem.a.shape, (2**23, 1))
    far_a.view(torch.uint8).copy_(problem.a.view(torch.uint8))
    check_exact(replace(problem, a=far_a, b=far_b), virtual_arch)


def test_any_groups() -> None:
    virtual = pytest.importorskip("wavecast.simulator.virtual")

    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rows=st.lists(st.integers(0, 60), min_size=1, max_size=6), tail=st.integers(0, 40))
    def check(rows: list[int], tail: int) -> None:
        dtype, m = native_format("gfx942").dtype, sum(rows) + tail
        check_exact(rows_problem(sizes(*rows), m=m, k=K, n=N, dtype=dtype), "gfx942")
        t = -(-m // 16) * 16
        check_exact(sum_problem(sizes(*rows), p=40, q=N, t=t, dtype=dtype), "gfx942")

    with virtual.virtual_device("mi300x"):
        check()

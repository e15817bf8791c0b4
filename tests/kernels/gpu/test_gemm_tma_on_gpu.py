"""The GEMMs' kernel for sm_90 on a real GPU: exact where numbers allow it, within its bound elsewhere, and alone.

The bound's unit is `SM_90_FP8_UNIT`; sums of integers below 2^13 lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from gemms import (
    GROUPS,
    SM_90_FP8_NORM,
    SM_90_FP8_UNIT,
    Problem,
    assert_exact,
    assert_within_bound,
    exact_and_size,
    fill_nan,
    grouped_exact_and_size,
    rows_problem,
    scales,
    sizes,
    sum_problem,
    values,
)

from wavecast.kernels.device import active_arch
from wavecast.kernels.grouped_gemm import grouped_gemm
from wavecast.kernels.grouped_gemm.launch_tma import plan_tma_2d2d, plan_tma_2d3d, plan_tma_scaled
from wavecast.kernels.scaled_gemm import scaled_gemm

pytestmark = pytest.mark.gpu

FP8 = torch.float8_e4m3fn
FORMS = ["rows", "sum"]
SUMMED = 368
"""Rows of all groups: rows of 368 bytes begin at multiples of 16."""


@pytest.fixture(autouse=True)
def on_hopper() -> Iterator[None]:
    """Skips elsewhere; and a call that waits for the device is an error."""
    if not torch.cuda.is_available() or active_arch() != "sm_90":
        pytest.skip("no sm_90")
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def problem_of(form: str, ends: tuple[int, ...], *, dtype: torch.dtype = FP8, exact: bool = True) -> Problem:
    """Sizes that are no multiples of a tile."""
    if form == "rows":
        return rows_problem(ends, k=336, n=296, dtype=dtype, exact=exact, m=SUMMED)
    return sum_problem(ends, p=200, q=296, dtype=dtype, exact=exact, t=SUMMED)


def run(problem: Problem, out_dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The result, on the CPU, of the accelerator's path, into memory that held NaN."""
    torch.cuda.set_sync_debug_mode("default")
    there = problem.to("cuda")
    a, b, offs = there.arguments[:3]
    shape = (a.shape[0], b.shape[2]) if problem.rows else (offs.numel(), a.shape[0], b.shape[1])
    poison = torch.full(shape, float("nan"), dtype=out_dtype, device="cuda")
    plan = (plan_tma_2d3d if problem.rows else plan_tma_2d2d)(a, b, poison, active_arch())
    assert plan is not None
    del poison
    torch.cuda.set_sync_debug_mode("error")
    out = grouped_gemm(*there.arguments, out_dtype=out_dtype)
    torch.cuda.set_sync_debug_mode("default")
    return out.cpu()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("dtype", [FP8, torch.bfloat16], ids=str)
def test_groups_of_every_kind_are_exact(form: str, name: str, dtype: torch.dtype) -> None:
    problem = problem_of(form, GROUPS[name], dtype=dtype)
    assert_exact(run(problem), grouped_exact_and_size(problem)[0])


@pytest.mark.parametrize("form", FORMS)
def test_all_of_many_tiles_a_program_are_exact(form: str) -> None:
    """More tiles than programs, and rings that go round many times."""
    ends = sizes(700, 0, 1, 127, 1100, 129, 943)
    if form == "rows":
        problem = rows_problem(ends, k=1040, n=2568, dtype=FP8, m=3008)
    else:
        problem = sum_problem(ends, p=1160, q=2568, dtype=FP8, t=3008)
    torch.cuda.set_sync_debug_mode("default")
    there = problem.to("cuda")
    exact = grouped_exact_and_size(there)[0].cpu()
    assert_exact(run(problem), exact)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_any_values_are_within_the_bound(form: str, out_dtype: torch.dtype) -> None:
    problem = problem_of(form, GROUPS["D4 ragged sizes"], exact=False)
    exact, size = grouped_exact_and_size(problem)
    assert_within_bound(run(problem, out_dtype), exact, size, SUMMED, unit=SM_90_FP8_UNIT)


@pytest.mark.parametrize("dtype", [FP8, torch.bfloat16], ids=str)
def test_nan_of_neighbouring_groups_stays_there(dtype: torch.dtype) -> None:
    ends = sizes(31, 1, 100, 129, 3, 15, 77)
    for form in FORMS:
        problem = problem_of(form, ends, dtype=dtype)
        for group in range(1, len(ends), 2):
            start, end = ends[group - 1], ends[group]
            if problem.rows:
                fill_nan(problem.a[start:end])
            else:
                fill_nan(problem.a[:, start:end])
                fill_nan(problem.b.t()[:, start:end])
        out, (exact, _) = run(problem), grouped_exact_and_size(problem)
        for group in range(len(ends)):
            rows = slice(0 if group == 0 else ends[group - 1], ends[group])
            part = rows if problem.rows else group
            if group % 2:
                assert out[part].isnan().all()
            else:
                assert_exact(out[part], exact[part])


def test_scales_of_empty_groups_are_not_used() -> None:
    """A quantizer's scale of nothing is its own affair: 0 times it is 0."""
    problem = problem_of("sum", (100, 100, SUMMED))
    assert problem.a_inverse is not None
    problem.a_inverse[1] = float("inf")
    assert not run(problem)[1].any()


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("shape", [(200, 296, 336), (1, 8, 16), (2100, 2056, 1040)], ids=str)
def test_the_dense_gemm_is_exact(scalar: bool, shape: tuple[int, int, int]) -> None:
    torch.cuda.set_sync_debug_mode("default")
    m, n, k = shape
    a, b = values(m, k, dtype=FP8, exact=True, seed=1).cuda(), values(n, k, dtype=FP8, exact=True, seed=2).cuda().t()
    a_inverse = scales(*(() if scalar else (m, 1)), exact=True, seed=3).cuda()
    b_inverse = scales(*(() if scalar else (1, n)), exact=True, seed=4).cuda()
    assert plan_tma_scaled(a, b, torch.empty(m, n, device="cuda"), active_arch()) is not None
    out = scaled_gemm(a, b, a_inverse, b_inverse, out_dtype=torch.float32)
    assert_exact(out, exact_and_size(a, b, a_inverse, b_inverse)[0])


@pytest.mark.parametrize("form", FORMS)
def test_operands_that_the_accelerator_cannot_read_take_the_other_kernel(form: str) -> None:
    """One row too many to the left: addresses are no multiples of 16."""
    torch.cuda.set_sync_debug_mode("default")
    problem = problem_of(form, GROUPS["D4 ragged sizes"])
    shifted = torch.empty(problem.a.numel() + 1, dtype=torch.uint8, device="cuda")[1:].view(problem.a.shape)
    shifted.copy_(problem.a.view(torch.uint8))
    there = problem.to("cuda")
    out = grouped_gemm(shifted.view(FP8), *there.arguments[1:], out_dtype=torch.float32)
    assert_exact(out.cpu(), grouped_exact_and_size(problem)[0])


@pytest.mark.parametrize("form", FORMS)
def test_a_captured_graph_follows_the_offsets(form: str) -> None:
    torch.cuda.set_sync_debug_mode("default")
    problem = problem_of(form, GROUPS["D4 ragged sizes"])
    there = problem.to("cuda")
    grouped_gemm(*there.arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = grouped_gemm(*there.arguments, out_dtype=torch.float32)
    for ends in (GROUPS["D4 ragged sizes"], sizes(100, 0, 3, 9, 200, 1, 0, 46)):
        there.offs.copy_(torch.tensor(ends, dtype=torch.int32))
        problem.offs.copy_(torch.tensor(ends, dtype=torch.int32))
        out.fill_(float("nan"))
        graph.replay()
        assert_exact(out.cpu(), grouped_exact_and_size(problem)[0])


def test_errors_are_those_of_torch_with_fast_accumulation() -> None:
    """Relative to the result's norm, in fp32: that of the tensor cores' sums, whoever issues them."""
    torch.cuda.set_sync_debug_mode("default")
    generator = torch.Generator("cuda").manual_seed(0)
    m, n, k = 512, 512, 8192
    a, b = ((torch.randn(s, k, generator=generator, device="cuda") * 64).clamp(-448, 448).to(FP8) for s in (m, n))
    one = torch.ones((), device="cuda")
    exact = a.double() @ b.double().t()
    ours = scaled_gemm(a, b.t(), one, one, out_dtype=torch.float32)
    theirs = torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.float32, use_fast_accum=True)
    error, wanted = ((x.double() - exact).norm() / exact.norm() for x in (ours, theirs))
    assert error < 1.1 * wanted
    assert error < SM_90_FP8_NORM

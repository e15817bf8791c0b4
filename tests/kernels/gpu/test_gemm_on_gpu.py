"""The GEMMs on a real GPU: exact on integers, within bounds elsewhere, captured in graphs, without waiting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gemms import (
    GROUPS,
    SM_90_FP8_UNIT,
    UNIT,
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

from wavecast.kernels.device import Path, active_arch, last_path, native_format
from wavecast.kernels.grouped_gemm import grouped_gemm
from wavecast.kernels.scaled_gemm import scaled_gemm

pytestmark = pytest.mark.gpu
FORMS = ["rows", "sum"]


@pytest.fixture(scope="module")
def dtype() -> torch.dtype:
    """The FP8 dtype of the GPU that Triton has."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    arch = active_arch()
    assert arch is not None
    return native_format(arch).dtype


def problem(form: str, ends: tuple[int, ...], dtype: torch.dtype, *, k: int = 144, n: int = 48, **more: Any) -> Problem:
    if form == "rows":
        return rows_problem(ends, k=k, n=n, dtype=dtype, **more)
    return sum_problem(ends, p=k, q=n, dtype=dtype, **more)


def unit(dtype: torch.dtype) -> float:
    """Error of one addition to a sum of ``dtype``'s products: fp32's, or that of sm_90 for FP8."""
    return SM_90_FP8_UNIT if dtype.itemsize == 1 and (active_arch() or "").startswith("sm_") else UNIT


def poisoned() -> None:
    """Memory that the allocator hands out again is NaN (D3)."""
    for shape in ((1 << 20,), (361, 48), (8, 144, 48), (1024, 384)):
        torch.full(shape, float("nan"), device="cuda")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("k", [144, 37])
def test_exact_on_integers(dtype: torch.dtype, form: str, groups: str, k: int) -> None:
    given = problem(form, GROUPS[groups], dtype, k=k)
    exact, _ = grouped_exact_and_size(given)
    poisoned()
    out = grouped_gemm(*given.to("cuda").arguments, out_dtype=torch.float32)
    assert last_path() is Path.TRITON
    assert_exact(out.cpu(), exact)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["fp8", "bf16"])
@pytest.mark.parametrize("ends", [(100, 356, 356, 900), sizes(*[1024] * 4), sizes(17, 2000, 0, 33, 1000)], ids=str)
def test_within_the_bound(dtype: torch.dtype, form: str, kind: str, ends: tuple[int, ...]) -> None:
    """Aligned and jagged, sizes at which every tile is taken; the bf16 result rounds once."""
    dtype = dtype if kind == "fp8" else torch.bfloat16
    total = -(-ends[-1] // 16) * 16 + 128
    more = {"m": total} if form == "rows" else {"t": total}
    given = problem(form, ends, dtype, k=1024, n=512, exact=False, **more).to("cuda")
    length = 1024 if form == "rows" else max(b - a for a, b in zip((0, *ends), ends, strict=False))
    exact, size = grouped_exact_and_size(given)
    poisoned()
    for out_dtype in (torch.float32, torch.bfloat16):
        out = grouped_gemm(*given.arguments, out_dtype=out_dtype)
        assert_within_bound(out, exact, size, length, unit=unit(dtype))


@pytest.mark.parametrize("form", FORMS)
def test_as_torch(dtype: torch.dtype, form: str) -> None:
    """The same product by torch's own grouped kernel; both are rounded to bf16."""
    more = {"m" if form == "rows" else "t": 2048}
    given = problem(form, sizes(*[512] * 4), dtype, k=512, n=512, exact=False, **more).to("cuda")
    a, b, offs, a_inverse, b_inverse = given.arguments
    assert a_inverse is not None and b_inverse is not None
    flat = (a_inverse.reshape(-1), b_inverse.reshape(4, -1) if form == "rows" else b_inverse.reshape(-1))
    try:
        theirs = torch._scaled_grouped_mm(a, b, *flat, offs=offs, out_dtype=torch.bfloat16, use_fast_accum=True)
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        pytest.skip(f"torch has no such kernel here: {error}")
    exact, size = grouped_exact_and_size(given)
    for out in (theirs, grouped_gemm(*given.arguments)):
        assert_within_bound(out, exact, size, 512, unit=unit(dtype))


@pytest.mark.parametrize("form", FORMS)
def test_a_neighbours_nan_stays_there(dtype: torch.dtype, form: str) -> None:
    given = problem(form, (70, 90, 150), dtype, **{"m" if form == "rows" else "t": 160})
    fill_nan(given.a[70:90] if form == "rows" else given.a[:, 70:90])
    exact, _ = grouped_exact_and_size(given)
    out = grouped_gemm(*given.to("cuda").arguments, out_dtype=torch.float32).cpu()
    clean = [slice(0, 70), slice(90, 160)] if form == "rows" else [slice(0, 1), slice(2, 3)]
    for part in clean:
        assert_exact(out[part], exact[part])
    assert out[slice(70, 90) if form == "rows" else 1].isnan().all()


@pytest.mark.parametrize("form", FORMS)
def test_other_groups_through_a_captured_graph(dtype: torch.dtype, form: str) -> None:
    """One captured launch serves every division into groups, since only the device knows it."""
    first, second = (problem(form, ends, dtype) for ends in ((10, 200, 361), (350, 350, 361)))
    given = first.to("cuda")
    grouped_gemm(*given.arguments, out_dtype=torch.float32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = grouped_gemm(*given.arguments, out_dtype=torch.float32)
    for divided in (first, second):
        given.offs.copy_(divided.offs)
        out.fill_(float("nan"))
        graph.replay()
        assert_exact(out.cpu(), grouped_exact_and_size(divided)[0])


def test_no_synchronisation_with_the_host(dtype: torch.dtype) -> None:
    given = [problem(form, (10, 200, 361), kind).to("cuda") for form in FORMS for kind in (dtype, torch.bfloat16)]
    for each in given:
        grouped_gemm(*each.arguments)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for each in given:
            grouped_gemm(*each.arguments)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("row_scales", [True, False])
@pytest.mark.parametrize("k", [1024, 100])
def test_dense(dtype: torch.dtype, row_scales: bool, k: int) -> None:
    m, n = 300, 208
    for exact_values in (True, False):
        a = values(m, k, dtype=dtype, exact=exact_values, seed=0).cuda()
        b = values(n, k, dtype=dtype, exact=exact_values, seed=1).cuda().t()
        a_inverse = scales(*([m, 1] if row_scales else []), exact=exact_values, seed=2).cuda()
        b_inverse = scales(*([1, n] if row_scales else []), exact=exact_values, seed=3).cuda()
        exact, size = exact_and_size(a, b, a_inverse, b_inverse)
        poisoned()
        out = scaled_gemm(a, b, a_inverse, b_inverse, out_dtype=torch.float32)
        if exact_values:
            assert_exact(out, exact)
        else:
            assert_within_bound(out, exact, size, k, unit=unit(dtype))


def test_another_format_is_refused(dtype: torch.dtype) -> None:
    other = {torch.float8_e4m3fn: torch.float8_e4m3fnuz, torch.float8_e4m3fnuz: torch.float8_e4m3fn}[dtype]
    with pytest.raises(ValueError, match="does not multiply in hardware"):
        grouped_gemm(*problem("rows", (10, 200, 361), other).to("cuda").arguments)

"""Checks, and the path without a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from gemms import GROUPS, Problem, rows_problem, sum_problem

from wavecast.kernels.device import Path as Taken
from wavecast.kernels.device import active_arch, last_path, native_format
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ
from wavecast.kernels.grouped_gemm import grouped_gemm
from wavecast.kernels.grouped_gemm.api import check_tile_offsets
from wavecast.kernels.grouped_gemm.plan import plan_gemm
from wavecast.kernels.grouped_gemm.reference import grouped_rows_reference, grouped_sum_reference

NO_DEVICE = pytest.mark.skipif(active_arch() is not None, reason="a device is active")
ENDS = GROUPS["D3 rows behind the last group"]


def problem(rows: bool, dtype: torch.dtype = E4M3FNUZ.dtype) -> Problem:
    return rows_problem(ENDS, k=32, n=16, dtype=dtype) if rows else sum_problem(ENDS, p=32, q=16, dtype=dtype)


@NO_DEVICE
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("dtype", [E4M3FN.dtype, E4M3FNUZ.dtype, torch.bfloat16], ids=str)
def test_without_a_device_the_reference_answers(rows: bool, dtype: torch.dtype) -> None:
    a, b, offs, a_inverse, b_inverse = problem(rows, dtype).arguments
    out = grouped_gemm(a.requires_grad_() if dtype == torch.bfloat16 else a, b, offs, a_inverse, b_inverse)
    assert last_path() is Taken.REFERENCE
    flat = [None if i is None else i.squeeze(1) for i in (a_inverse, b_inverse)]
    wanted = (grouped_rows_reference if rows else grouped_sum_reference)(a, b, offs, *flat, torch.bfloat16)
    assert out.dtype == torch.bfloat16 and torch.equal(out, wanted) and not out.requires_grad


@NO_DEVICE
def test_scales_of_either_shape() -> None:
    given = problem(rows=True)
    assert given.a_inverse is not None and given.b_inverse is not None
    flat = (given.a, given.b, given.offs, given.a_inverse.squeeze(1), given.b_inverse.squeeze(1))
    assert torch.equal(grouped_gemm(*given.arguments), grouped_gemm(*flat))


def wrong(rows: bool = True, out_dtype: torch.dtype = torch.bfloat16, **changes: Any) -> None:
    given = problem(rows)
    names = ("a", "b", "offs", "a_inverse", "b_inverse")
    arguments = dict(zip(names, given.arguments, strict=True)) | changes
    grouped_gemm(**arguments, out_dtype=out_dtype)


E8 = E4M3FNUZ.dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"b": torch.zeros(4)}, "b has 1 dimensions"),
        ({"a": torch.zeros(361, 32)}, "a is float32; wanted is one of"),
        ({"a": torch.zeros(361, 32, dtype=torch.bfloat16)}, "a is bfloat16 but b is float8_e4m3fnuz"),
        ({"a": torch.zeros(361, 48, dtype=E8)}, "K of a is 48 but K of b is 32"),
        ({"offs": torch.tensor([1, 2], dtype=torch.int32)}, "number of offs is 2 but the number of matrices in b is 4"),
        ({"offs": torch.tensor([1, 2, 3, 4])}, "offs is int64"),
        (
            {"a": torch.zeros(32, 361, dtype=E8).t()},
            r"a has strides .* dimension 1, which is summed.*\.contiguous",
        ),
        ({"b": torch.zeros(4, 32, 16, dtype=E8)}, r"b has strides .* dimension 1.*transpose\(-1, -2\)"),
        ({"a_inverse": None}, "a_inverse is None for float8_e4m3fnuz operands; pass the quantizer's inverse"),
        ({"b_inverse": torch.zeros(4, 17)}, r"b_inverse has shape \(4, 17\); wanted is \(4, 16\) or \(4, 1, 16\)"),
        ({"a_inverse": torch.zeros(361, dtype=torch.float64)}, "a_inverse is float64"),
        ({"a_inverse": torch.zeros(722)[::2]}, "a_inverse has strides"),
        ({"out_dtype": torch.float64}, "out_dtype is torch.float64; wanted is one of bfloat16, float16, float32"),
        ({"rows": False, "b": torch.zeros(16, 300, dtype=E8).t()}, "T of a is 361 but T of b is 300"),
        ({"rows": False, "b": torch.zeros(361, 16, dtype=E8)}, "b has strides .* dimension 0"),
        ({"rows": False, "a_inverse": torch.zeros(361)}, r"a_inverse has shape \(361,\); wanted is \(4, 32\)"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong(**arguments)


def test_16_bit_operands_have_no_scales() -> None:
    a, b, offs, _, _ = problem(rows=True, dtype=torch.bfloat16).arguments
    with pytest.raises(ValueError, match="a_inverse is given for bfloat16 operands"):
        grouped_gemm(a, b, offs, torch.ones(361))


@pytest.mark.execute
def test_a3_another_format_is_refused_never_read_as_the_native_one(virtual_arch: str) -> None:
    other = {E4M3FN: E4M3FNUZ, E4M3FNUZ: E4M3FN}[native_format(virtual_arch)]
    with pytest.raises(ValueError, match=f"{other.name}, which {virtual_arch} does not multiply in hardware; possible"):
        grouped_gemm(*problem(True, other.dtype).arguments)


def test_d7_what_does_not_fit_in_32_bits_is_refused_before_the_launch() -> None:
    plan = plan_gemm(1024, 1024, 1024, element_bytes=1, arch="gfx942")
    check_tile_offsets(plan, 2**22, 2**22, 2**20, 2**20)
    with pytest.raises(ValueError, match="first and last row of a tile of a is 2147483776; at most 2147483647"):
        check_tile_offsets(plan, 2**31 // plan.block_m, 64, 64, 128)
    with pytest.raises(ValueError, match="first and last column of a tile of b"):
        check_tile_offsets(plan, 64, 2**31 // plan.block_n, 64, 128)
    with pytest.raises(ValueError, match="tile of the output"):
        check_tile_offsets(plan, 64, 64, 2**31 // plan.block_m, 128)


def test_in_the_interpreter_the_kernels_run_or_say_what_it_cannot_multiply() -> None:
    script = """
import pytest, torch
from gemms import assert_exact, grouped_exact_and_size, rows_problem, sum_problem
from wavecast.kernels import last_path
from wavecast.kernels.grouped_gemm import grouped_gemm
for given in (
    rows_problem((10, 10, 30), m=40, k=48, n=32, dtype=torch.float16),
    sum_problem((10, 30), t=32, p=40, q=32, dtype=torch.float8_e4m3fn),
):
    assert_exact(grouped_gemm(*given.arguments, out_dtype=torch.float32), grouped_exact_and_size(given)[0])
    assert last_path() == "interpreter"
with pytest.raises(ValueError, match="bfloat16, which Triton's interpreter does not multiply"):
    grouped_gemm(*rows_problem((10, 35), m=100, k=48, n=32, dtype=torch.bfloat16).arguments)
"""
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr

"""The transpose plan: pure, whole strips, and the bytes that it promises."""

from __future__ import annotations

import itertools

import pytest
import torch

from wavecast.kernels.rowwise.plan import VECTOR_BYTES
from wavecast.kernels.weight_transpose.plan import RESIDENT_VECTORS, plan_weight_transpose

DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)


@DTYPES
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])
@pytest.mark.parametrize("n", [0, 1, 4, 70, 1408, 2048, 2049, 4096, 7168, 8192])
def test_a_lane_keeps_what_its_registers_hold(n: int, arch: str | None, dtype: torch.dtype) -> None:
    plan = plan_weight_transpose(3, 100, n, dtype=dtype, arch=arch)
    lanes = plan.num_warps * (32 if arch == "sm_90" else 64)
    assert plan.resident_rows * plan.block_k * dtype.itemsize <= lanes * RESIDENT_VECTORS * VECTOR_BYTES
    assert plan.streamed == (n > plan.resident_rows)
    assert n % plan.pack == 0
    assert plan.block_n % plan.pack == 0
    assert plan.programs == 3 * -(-100 // plan.block_k)


@pytest.mark.parametrize(("n", "rows_read_twice"), [(1408, 0), (5120, 0), (7168, 2048), (8192, 3072)])
def test_bytes_of_the_loads(n: int, rows_read_twice: int) -> None:
    plan = plan_weight_transpose(32, 2048, n, dtype=torch.bfloat16, arch="gfx942")
    assert plan.read_bytes(32, 2048, n, itemsize=2) == 32 * 2048 * (n + rows_read_twice) * 2


def test_the_second_read_of_all_programs_in_flight_fits_the_infinity_cache() -> None:
    plan = plan_weight_transpose(128, 5120, 8192, dtype=torch.bfloat16, arch="gfx942")
    cus, infinity_cache_bytes = 304, 256 << 20
    read_again = (8192 - plan.resident_rows) * plan.block_k * 2
    written_between = plan.resident_rows * plan.block_k
    assert cus * (read_again + written_between) < infinity_cache_bytes / 2


def test_small_strips_take_small_workgroups() -> None:
    warps = [plan_weight_transpose(1, 64, n, dtype=torch.bfloat16, arch="gfx942").num_warps for n in (64, 1280, 2048)]
    assert warps == [4, 4, 8]


@pytest.mark.parametrize(("programs", "sharers", "xcds"), [(1, 2, 8), (16, 2, 8), (37, 2, 8), (100, 1, 8), (64, 4, 6)])
def test_strips_are_permuted_and_sharers_of_a_line_meet_on_one_die(programs: int, sharers: int, xcds: int) -> None:
    strips = [_strip(pid, programs, sharers, xcds) for pid in range(programs)]
    assert sorted(strips) == list(range(programs))
    whole = programs // (sharers * xcds) * sharers * xcds
    die = {strip: pid % xcds for pid, strip in enumerate(strips)}
    for first, second in itertools.pairwise(range(whole)):
        if first // sharers == second // sharers:
            assert die[first] == die[second]


def _strip(pid: int, programs: int, sharers: int, xcds: int) -> int:
    """The kernel's map, in Python: device functions cannot be called here."""
    span = sharers * xcds
    within = pid % span
    return pid - within + within % xcds * sharers + within // xcds if pid < programs // span * span else pid


@pytest.mark.parametrize(
    ("n", "block_k", "rows"), [(1408, 32, 1536), (2048, 32, 2048), (2052, 16, 3072), (5120, 16, 4096), (7168, 16, 5120)]
)
def test_nvidia_takes_narrow_strips_where_wide_ones_do_not_fit(n: int, block_k: int, rows: int) -> None:
    plan = plan_weight_transpose(32, 4096, n, dtype=torch.bfloat16, arch="sm_90")
    assert (plan.block_k, plan.resident_rows, plan.xcds) == (block_k, rows, 1)

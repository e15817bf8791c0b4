"""The code objects that the GPU would run, executed: equal to the references byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from dual_layout_cases import CASES, Case, check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quantizers import assert_same_results

from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.colwise_per_group.plan_split import SplitPlan
from wavecast.kernels.device import Path, last_path, native_format
from wavecast.kernels.dual_layout import VARIANTS, api, quantize_dual_layout
from wavecast.kernels.dual_layout import plan as planning
from wavecast.kernels.dual_layout.api import launch_both
from wavecast.kernels.formats import E5M2
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.simulator.virtual import active_virtual_device

pytestmark = pytest.mark.execute

CROSSING = Case("groups and tiles that cross", 700, 136, (5, 5, 130, 384, 384, 511, 655), special=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equal_to_the_reference_between_canaries(virtual_arch: str, case: Case) -> None:
    check(launch_both, case, fmt=native_format(virtual_arch), power_of_two=False, arch=virtual_arch)


@pytest.mark.parametrize("programs", [1, 7])
@pytest.mark.parametrize("case", [*CASES, CROSSING], ids=lambda case: case.name)
def test_rows_first_equal_the_reference_between_canaries(
    virtual_arch: str, monkeypatch: pytest.MonkeyPatch, case: Case, programs: int
) -> None:
    """What few long groups take, on any: fewer and more programs than a group has blocks of rows."""

    def plan(tokens: int, columns: int, groups: int, *, element_bytes: int, arch: str) -> planning.DualLayoutPlan:
        chosen = planning.plan_dual_layout(tokens, columns, groups, element_bytes=element_bytes, arch=arch)
        rows = planning.plan_row_blocks(columns, waves=1, element_bytes=element_bytes, arch=arch)
        assert rows is not None
        parts = SplitPlan(replace(chosen.columns, waves=1, pieces=1), 1, 3, "asked for")
        return replace(chosen, rows=None, split=planning.SplitRows(rows, 1, programs, parts))

    monkeypatch.setattr(api, "plan_dual_layout", plan)
    check(launch_both, case, fmt=native_format(virtual_arch), power_of_two=False, arch=virtual_arch)


@pytest.mark.parametrize("row_programs", [1, 1000])
def test_fewer_and_more_row_programs_than_blocks(
    virtual_arch: str, monkeypatch: pytest.MonkeyPatch, row_programs: int
) -> None:
    """As for groups that are longer and shorter than the mean."""

    def plan(*arguments: Any, **keywords: Any) -> planning.DualLayoutPlan:
        return replace(planning.plan_dual_layout(*arguments, **keywords), row_programs=row_programs)

    monkeypatch.setattr(api, "plan_dual_layout", plan)
    check(launch_both, CROSSING, fmt=native_format(virtual_arch), power_of_two=False, arch=virtual_arch)


def test_rows_too_long_for_a_program_take_two_launches(virtual_arch: str) -> None:
    device = active_virtual_device()
    assert device is not None
    for columns, launches in ((4096, 1), (4097, 2)):
        before = len(device.launches)
        check(launch_both, Case("long rows", 5, columns, (2, 4)), fmt=native_format(virtual_arch), power_of_two=False,
              arch=virtual_arch)  # fmt: skip
        assert len(device.launches) - before == launches


@pytest.mark.parametrize("columns", [31, 200])
def test_b10_scales_of_every_column_and_no_more(virtual_arch: str, columns: int) -> None:
    """A mask that compared lanes with the number of columns would write neighbours of the last ones."""
    case = Case("columns beside a tile", 96, columns, (32, 64, 96))
    check(launch_both, case, fmt=native_format(virtual_arch), power_of_two=False, arch=virtual_arch)


def test_b11_a_group_longer_than_the_mean(virtual_arch: str) -> None:
    """A kernel that holds the mean group's rows would miss row 300, whose value sets the scale."""
    case = Case("beyond the mean", 1024, 40, (448, 576, 832, 1024))
    x, offs = case.x(), case.offs()
    x[300] = 2.0**15
    out = quantize_dual_layout(x, offs)
    assert last_path() is Path.TRITON
    assert_same_results("rowwise", out.rowwise, quantize_rowwise(x))
    assert_same_results("colwise", out.colwise, colwise_per_group(x, offs))
    assert (out.colwise.scale[0] == native_format(virtual_arch).max / 2.0**15).all()


def test_a_format_that_the_device_does_not_have(virtual_arch: str) -> None:
    case = Case("another format", 130, 40, (30, 130), special=True)
    check(launch_both, case, fmt=E5M2, power_of_two=True, arch=virtual_arch)


def test_decreasing_offsets_do_not_write_outside(virtual_arch: str) -> None:
    """They are not allowed, and what their groups get is undefined: rows are quantized all the same."""
    x = Case("decreasing", 300, 16, (300,)).x()
    out = quantize_dual_layout(x, torch.tensor([200, 100, 300], dtype=torch.int32))
    assert_same_results("rowwise", out.rowwise, quantize_rowwise(x))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 140), min_size=4, max_size=4),
    seed=st.integers(0, 3),
)
def test_any_groups(virtual_arch: str, sizes: list[int], seed: int) -> None:
    """Of one shape, which is compiled once: 256 rows, of which groups may leave some or want more."""
    ends = tuple(torch.tensor(sizes).cumsum(0).tolist())
    case = Case("x" * seed, 256, 40, ends, special=seed == 1)
    check(launch_both, case, fmt=native_format(virtual_arch), power_of_two=False, arch=virtual_arch)


def test_two_kernels_are_the_two_operators(virtual_arch: str) -> None:
    x, offs = CROSSING.x(), CROSSING.offs()
    out = VARIANTS["two-kernels"](x, offs)
    assert_same_results("rowwise", out.rowwise, quantize_rowwise(x))
    assert_same_results("colwise", out.colwise, colwise_per_group(x, offs))


def test_another_number_of_rows_and_groups_is_the_same_code(virtual_arch: str) -> None:
    device = active_virtual_device()
    assert device is not None
    for case in (Case("few", 64, 16, (30, 64)), Case("more", 200, 16, (30, 61, 199))):
        quantize_dual_layout(case.x(), case.offs())
    first, second = device.launches
    assert first.kernel == "dual_layout_kernel"
    assert first.code_object == second.code_object

"""The code objects that the GPU would run, executed: equal to the reference byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from colwise_cases import CASES, Case
from hypothesis import given
from hypothesis import strategies as st
from quantizers import REPEATABLE, SEEDS, any_bits, assert_same_bytes, far_apart_rows, guarded_outputs, skewed_values

from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.colwise_per_group.api import launch_colwise, launch_parts
from wavecast.kernels.colwise_per_group.baseline import VARIANTS
from wavecast.kernels.colwise_per_group.plan import plan
from wavecast.kernels.colwise_per_group.plan_split import SplitPlan, plan_split
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.device import Path, last_path, native_format
from wavecast.simulator.virtual import active_virtual_device

pytestmark = pytest.mark.execute


def run_between_canaries(arch: str, x: torch.Tensor, offs: torch.Tensor, *, parts: int | None = None) -> None:
    """The kernel's result equals the reference's, and nothing is written beside it; ``parts`` of a group, if given."""
    fmt = native_format(arch)
    wanted = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=False)
    tile = plan(x.shape[0], offs.numel(), element_bytes=x.element_size(), arch=arch)
    with guarded_outputs() as guard:
        values, scale, inverse = (guard.like(tensor) for tensor in wanted)
        if parts is None:
            launch_colwise(x, offs, values, scale, inverse, fmt=fmt, power_of_two=False, plan=tile)
        else:
            split = SplitPlan(replace(tile, waves=1, pieces=1), 1, parts, "asked for")
            launch_parts(x, offs, values, scale, inverse, fmt=fmt, power_of_two=False, plan=split)
    assert_same_bytes("values", values, wanted[0])
    assert_same_bytes("scale", scale, wanted[1])
    assert_same_bytes("inverse", inverse, wanted[2])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equal_to_the_reference_between_canaries(virtual_arch: str, case: Case) -> None:
    run_between_canaries(virtual_arch, case.x(), case.offs())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_groups_cut_into_parts_equal_the_reference_between_canaries(virtual_arch: str, case: Case) -> None:
    """Parts of 64 rows and more: of short groups most are empty."""
    run_between_canaries(virtual_arch, case.x(), case.offs(), parts=3)


def test_a_long_group_of_few_columns_is_cut_as_planned(virtual_arch: str) -> None:
    case = Case("one long group, cut", 2 * 2048 + 77, 40, (2 * 2048 + 70,), special=True)
    chosen = plan_split(case.tokens, case.columns, 1, element_bytes=2, arch=virtual_arch)
    assert chosen is not None
    assert chosen.parts > 1
    wanted = colwise_per_group_reference(case.x(), case.offs(), fmt=native_format(virtual_arch), power_of_two=True)
    out = colwise_per_group(case.x(), case.offs(), power_of_two=True)
    virtual = active_virtual_device()
    assert virtual is not None
    assert [launch.kernel for launch in virtual.launches] == ["column_amax_kernel", "column_cast_kernel"]
    assert out.inverse is not None
    assert_same_bytes("values", out.values, wanted[0])
    assert_same_bytes("scale", out.scale, wanted[1])
    assert_same_bytes("inverse", out.inverse, wanted[2])


@pytest.mark.parametrize("tokens", [1024, 1025, 2600])
def test_one_group_within_and_beyond_the_largest_tiles(virtual_arch: str, tokens: int) -> None:
    case = Case("long", tokens, 72, (tokens - 1,), special=True)
    wanted = colwise_per_group_reference(case.x(), case.offs(), fmt=native_format(virtual_arch), power_of_two=True)
    out = colwise_per_group(case.x(), case.offs(), power_of_two=True)
    assert last_path() is Path.TRITON
    assert out.inverse is not None
    assert_same_bytes("values", out.values, wanted[0])
    assert_same_bytes("scale", out.scale, wanted[1])
    assert_same_bytes("inverse", out.inverse, wanted[2])


@pytest.mark.parametrize("variant", ["byte-stores", "vector-two-pass", "fused-single-pass"])
@pytest.mark.parametrize(
    "case",
    [Case("equal", 512, 64, (256, 512)), Case("shorter last", 500, 33, (256, 500))],
    ids=lambda case: case.name,
)
def test_earlier_forms_equal_the_reference_where_they_are_right(virtual_arch: str, variant: str, case: Case) -> None:
    wanted = colwise_per_group_reference(case.x(), case.offs(), fmt=native_format(virtual_arch), power_of_two=False)
    out = VARIANTS[variant](case.x(), case.offs())
    assert_same_bytes("values", out.values, wanted[0])
    assert_same_bytes("scale", out.scale, wanted[1])
    assert out.inverse is None


def test_fused_form_misses_rows_of_a_group_longer_than_its_tile(virtual_arch: str) -> None:
    """What makes ``fused-single-pass`` right for equal groups only; ours takes the same input."""
    case = Case("skewed", 512, 8, (500, 512))
    x = case.x()
    x[499] = 1e4
    wanted = colwise_per_group_reference(x, case.offs(), fmt=native_format(virtual_arch), power_of_two=False)
    fused = VARIANTS["fused-single-pass"](x, case.offs())
    ours = VARIANTS["wavecast"](x, case.offs())
    assert not torch.equal(fused.scale[0], wanted[1][0])
    assert_same_bytes("values", ours.values, wanted[0])


def test_every_bf16_value(virtual_arch: str) -> None:
    """All 2^16 inputs: by exponent along the columns, then along the rows, so that scales are small and large."""
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    by_sign_and_mantissa = bits.reshape(2, 256, 128).permute(0, 2, 1).reshape(256, 256)
    fmt = native_format(virtual_arch)
    offs = torch.tensor([256], dtype=torch.int32)
    for x in (by_sign_and_mantissa.contiguous(), by_sign_and_mantissa.t().contiguous()):
        wanted = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=False)
        out = colwise_per_group(x, offs)
        assert_same_bytes("values", out.values, wanted[0])
        assert_same_bytes("scale", out.scale, wanted[1])


def test_a_new_number_of_tokens_is_one_launch_of_the_same_code(virtual_arch: str) -> None:
    virtual = active_virtual_device()
    assert virtual is not None
    for case in (Case("few", 64, 16, (30, 64)), Case("more", 200, 48, (30, 61, 199))):
        colwise_per_group(case.x(), case.offs())
    first, second = virtual.launches
    assert first.code_object == second.code_object


@pytest.mark.parametrize("columns", [1, 31, 200, 1408])
def test_b10_scales_are_exact_between_guard_words(virtual_arch: str, columns: int) -> None:
    """Blocks of columns that are cut by the last column write neither another group's scales nor beyond them."""
    x, offs = skewed_values(96, columns), torch.tensor([32, 64, 96], dtype=torch.int32)
    run_between_canaries(virtual_arch, x, offs)


def test_b11_skewed_groups_are_exact(virtual_arch: str) -> None:
    """Groups far longer than the mean, which the tile is for: nothing is left out of a scale, nothing unwritten."""
    x = skewed_values(1024, 64)
    x[300] = 1000
    run_between_canaries(virtual_arch, x, torch.tensor([448, 576, 832, 1024], dtype=torch.int32))


def test_d7_rows_beyond_32_bit_offsets(virtual_arch: str) -> None:
    """Rows from 2048 on begin 2^31 values and more behind the first, in memory of which only the rows are touched: a
    group of many tiles reaches there, and one starts there."""
    tokens, stride = 2100, 1 << 20
    x = far_apart_rows(skewed_values(tokens, 16), stride=stride)
    run_between_canaries(virtual_arch, x, torch.tensor([*range(1, 35), 2060, tokens], dtype=torch.int32))


@REPEATABLE
@given(tokens=st.integers(1, 40).map(lambda n: 8 * n), blocks=st.integers(1, 9), seed=SEEDS, data=st.data())
def test_any_groups(virtual_arch: str, tokens: int, blocks: int, seed: int, data: st.DataObject) -> None:
    """Sizes that share one compilation; ends at and within chunks, equal ones, and beyond the rows."""
    ends = sorted(data.draw(st.lists(st.integers(0, tokens + 9), min_size=4, max_size=7)))
    x = any_bits(tokens, 8 * blocks, seed=seed)
    offs = torch.tensor(ends, dtype=torch.int32)
    run_between_canaries(virtual_arch, x, offs)
    run_between_canaries(virtual_arch, x, offs, parts=data.draw(st.integers(2, 5)))

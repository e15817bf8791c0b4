"""Facts of the compiled copy and of the quantizer that reads it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from quantizers import compile_facts

from wavecast.kernels.colwise_per_group import baseline
from wavecast.kernels.device import native_format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.wgrad_copies.baseline import COPIED, STRIDED
from wavecast.kernels.wgrad_copies.kernel import transpose_copy_kernel
from wavecast.kernels.wgrad_copies.plan import copy_plan

pytestmark = [pytest.mark.compile, pytest.mark.parametrize("arch", ["gfx942", "gfx950"])]
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}


def test_the_copy_moves_16_bytes_a_lane_on_both_sides(arch: str) -> None:
    tile = copy_plan(element_bytes=2)
    sizes = dict.fromkeys(("rows", "columns", "x_row_stride", "out_row_stride"), "i32")
    facts = compile_facts(
        transpose_copy_kernel,
        arch=arch,
        signature={"x_ptr": "*bf16", "out_ptr": "*bf16"} | sizes,
        constexprs={"ROWS": tile.rows, "COLS": tile.columns},
        num_warps=tile.waves,
    )
    assert facts.widths("load") == {"dwordx4"}
    assert facts.count("(global|buffer)_load_dwordx4") == tile.rows * tile.columns // (64 * tile.waves) // 8
    assert facts.widths("store") == {"dwordx4"}
    assert facts.spills == 0


@pytest.mark.parametrize("tile", [COPIED, STRIDED], ids=["copied", "strided"])
def test_the_quantizer_does_not_see_the_contiguous_axis(arch: str, tile: Mapping[str, int]) -> None:
    """The same code reads the copy and the original: two bytes a lane in both passes, and one byte a lane stored."""
    strides = dict.fromkeys(("x_row_stride", "x_column_stride", "out_row_stride", "out_column_stride"), "i64")
    types = {"x_ptr": "*bf16", "offs_ptr": "*i32", "out_ptr": FP8[arch], "scale_ptr": "*fp32", "columns": "i32"}
    rows, cols, waves = tile["block_rows"], tile["block_cols"], tile["waves"]
    facts = compile_facts(
        baseline.two_pass_kernel,
        arch=arch,
        signature=types | strides,
        constexprs={"FP8_MAX": native_format(arch).max, "EPS": EPS, "POWER_OF_TWO": True, "ROWS": rows, "COLS": cols},
        num_warps=waves,
    )
    a_lane = rows * cols // (64 * waves)
    assert facts.count("(global|buffer)_load_(ushort|short).*") == 2 * a_lane
    assert facts.count("(global|buffer)_store_byte.*") == a_lane
    assert facts.spills == 0

"""Facts of the compiled copy and of the quantizer that reads it."""

from __future__ import annotations

import pytest
from quantizers import compile_facts

from wavecast.kernels.colwise_per_group import baseline
from wavecast.kernels.device import native_format
from wavecast.kernels.reference_ops import EPS
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


def test_the_quantizer_reads_the_copy_along_the_tokens(arch: str) -> None:
    """A unit row stride is known when compiling: the loads along the tokens are contiguous, and so are the stores."""
    facts = compile_facts(
        baseline.two_pass_unit_stride_kernel,
        arch=arch,
        signature={
            "x_ptr": "*bf16", "offs_ptr": "*i32", "out_ptr": FP8[arch], "scale_ptr": "*fp32", "columns": "i32",
            "x_column_stride": "i32", "out_column_stride": "i32",
        },
        constexprs={
            "x_row_stride": 1, "FP8_MAX": native_format(arch).max, "EPS": EPS, "POWER_OF_TWO": True,
            "ROWS": baseline.BLOCK_ROWS, "COLS": baseline.BLOCK_COLS,
        },
        num_warps=baseline.WAVES,
    )  # fmt: skip
    assert facts.lds_bytes < baseline.BLOCK_ROWS * baseline.BLOCK_COLS  # the amax only: no tile goes through LDS
    assert facts.spills == 0

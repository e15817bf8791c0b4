"""Facts of the compiled transposing copy."""

from __future__ import annotations

import pytest
from quantizers import compile_facts

from wavecast.kernels.transposed_copy.kernel import transpose_kernel
from wavecast.kernels.transposed_copy.plan import NUM_WARPS, plan_transposed_copy

SIZES = ("rows_units", "columns_units", "row_stride_units", "row_tiles", "column_tiles")
SIGNATURE = {"batch_stride": "i64"} | dict.fromkeys(SIZES, "i32")


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("itemsize", [1, 2])
def test_both_sides_move_16_bytes_and_words_are_exchanged(arch: str, itemsize: int) -> None:
    plan = plan_transposed_copy(32, 2048, 7168, strides=(2048 * 7168, 7168), itemsize=itemsize)
    pointers = dict.fromkeys(("x_ptr", "out_ptr"), f"*i{8 * itemsize}")
    constants = plan.constants
    constants.pop("num_warps")
    facts = compile_facts(
        transpose_kernel, arch=arch, signature=pointers | SIGNATURE, constexprs=constants, num_warps=NUM_WARPS
    )
    accesses = plan.tile_rows * plan.tile_cols * itemsize // (16 * 64 * NUM_WARPS)
    assert facts.count("(global|buffer)_load_dwordx4") == accesses
    assert facts.count("(global|buffer)_store_dwordx4") == accesses
    assert facts.widths("load") == facts.widths("store") == {"dwordx4"}
    assert facts.count("ds_(write|read)_(b8|b16|u8|u16).*") == 0
    assert facts.spills == 0

"""Facts of the compiled padding kernels."""

from __future__ import annotations

import pytest
from quantizers import compile_facts

from wavecast.kernels.token_padding.kernel import pad_kernel, unpad_kernel
from wavecast.kernels.token_padding.plan import plan_padding


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kernel", [pad_kernel, unpad_kernel], ids=["pad", "unpad"])
def test_rows_move_in_16_bytes(arch: str, kernel: object) -> None:
    multiple = 16 if kernel is pad_kernel else 0
    plan = plan_padding(33000, 1024, row_stride=1024, groups=32, row_unit=multiple, itemsize=4, arch=arch)
    constants = plan.constants | ({"MULTIPLE": multiple} if multiple else {})
    num_warps = constants.pop("num_warps")
    pointers = {"x_ptr": "*i32", "offs_ptr": "*i32", "padded_offs_ptr": "*i32", "out_ptr": "*i32"}
    sizes = dict.fromkeys(("groups", "tokens", "rows", "vectors", "x_row_stride"), "i32")
    facts = compile_facts(kernel, arch=arch, signature=pointers | sizes, constexprs=constants, num_warps=num_warps)
    vectors = plan.tile_rows * plan.tile_vectors // (64 * num_warps)
    assert vectors >= 1
    assert facts.count("(global|buffer)_load_dwordx4") == facts.count("(global|buffer)_store_dwordx4") == vectors
    assert facts.widths("load") == {"dword", "dwordx4"}  # and the offsets
    assert facts.spills == 0
    assert facts.count("buffer_(wbl2|inv)") == 0

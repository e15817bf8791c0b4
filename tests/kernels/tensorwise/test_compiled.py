"""Facts of the compiled tensor-wise kernels."""

from __future__ import annotations

import pytest
from quantizers import Facts, compile_facts

from wavecast.kernels.device import native_format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.tensorwise.kernel import cast_kernel, partial_amax_kernel
from wavecast.kernels.tensorwise.layout import Rows
from wavecast.kernels.tensorwise.plan import PARTIALS_BLOCK, plan_tensorwise

pytestmark = [pytest.mark.compile, pytest.mark.parametrize("arch", ["gfx942", "gfx950"])]
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}


def both(arch: str, dtype: str) -> tuple[Facts, Facts]:
    itemsize = 4 if dtype == "fp32" else 2
    plan = plan_tensorwise(Rows(1, 1 << 26, 1 << 26), itemsize=itemsize, arch=arch)
    tile = {"TILE_ROWS": plan.tile_rows, "TILE_VECTORS": plan.tile_vectors, "VECTOR": plan.vector}
    sizes = dict.fromkeys(("rows", "vectors", "row_stride", "tail"), "i32")
    pointers = {"x_ptr": f"*{dtype}", "partial_ptr": "*fp32"}
    amax = compile_facts(
        partial_amax_kernel, arch=arch, signature=pointers | sizes, constexprs=tile, num_warps=plan.num_warps
    )
    scales = {"FP8_MAX": native_format(arch).max, "EPS": EPS, "POWER_OF_TWO": True, "PARTIALS_BLOCK": PARTIALS_BLOCK}
    names = {"x_ptr": f"*{dtype}", "values_ptr": FP8[arch], "scale_ptr": "*fp32", "inverse_ptr": "*fp32"}
    cast = compile_facts(
        cast_kernel,
        arch=arch,
        signature=names | {"partial_ptr": "*fp32"} | sizes | {"partials": "i32"},
        constexprs=tile | scales,
        num_warps=plan.num_warps,
    )
    return amax, cast


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_tiles_are_read_in_16_bytes_and_stored_in_vectors(arch: str, dtype: str) -> None:
    """Four vectors of 16 bits, or eight of 32, a lane; what else there is belongs to the tail and to the scales."""
    amax, cast = both(arch, dtype)
    vectors = 8 if dtype == "fp32" else 4
    for facts in (amax, cast):
        assert facts.count("(global|buffer)_load_dwordx4") - vectors in (0, 1)  # a tail may be one vector, too
        assert facts.spills == 0
        assert facts.count("(global|buffer|flat)_atomic.*") == 0
        assert facts.count("buffer_(wbl2|inv)") == 0
    store = "dwordx2" if dtype == "bf16" else "dword"
    assert cast.count(f"(global|buffer)_store_{store}") >= vectors
    assert cast.widths("store") <= {"dword", "dwordx2", "byte"}


def test_the_conversion_is_native_and_saturates(arch: str) -> None:
    _, cast = both(arch, "bf16")
    assert cast.count("v_cvt_(scalef32_)?pk_fp8_f32") > 0
    assert "hwreg(HW_REG_MODE, 23, 1), 1" in cast.assembly

"""Facts of the compiled kernels: store and load widths, passes, registers and LDS."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from wavecast.kernels.colwise_per_group import baseline
from wavecast.kernels.colwise_per_group.api import colwise_launch
from wavecast.kernels.colwise_per_group.kernel import colwise_per_group_kernel
from wavecast.kernels.colwise_per_group.plan import plan
from wavecast.kernels.device import native_format
from wavecast.kernels.reference_ops import EPS
from wavecast.simulator.compile.triton import compile_kernel

pytestmark = pytest.mark.compile
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}


@dataclass(frozen=True)
class Facts:
    """Static counts of one compiled kernel; accesses are counted by width, global and buffer forms together."""

    loads: Counter[str]
    stores: Counter[str]
    assembly: str
    vgpr: int
    spills: int
    lds_bytes: int

    def count(self, pattern: str) -> int:
        return len(re.findall(rf"^\s+{pattern}\b", self.assembly, re.MULTILINE))


def facts(
    fn: Any, arch: str, *, types: Mapping[str, str], constants: Mapping[str, Any],
    multiples_of_16: tuple[str, ...] = (), below_2_gib: bool = True,
) -> Facts:  # fmt: skip
    """Compile as a launch on aligned buffers would; ``below_2_gib``: as on buffers for which 32-bit offsets suffice."""
    options = {key: constants[key] for key in ("num_warps", "num_stages") if key in constants}
    pointers = "DS" if below_2_gib else "D"
    attrs = {name: pointers for name, kind in types.items() if kind.startswith("*")}
    code = compile_kernel(
        fn,
        signature=dict(types),
        arch=arch,
        constexprs={key: value for key, value in constants.items() if key not in options},
        attrs=attrs | dict.fromkeys(multiples_of_16, "D"),
        options=options,
    )

    def widths(kind: str) -> Counter[str]:
        found = re.findall(rf"^\s+(?:global|buffer)_{kind}_(\w+)", code.assembly, re.MULTILINE)
        return Counter(width.removesuffix("_d16_hi").removesuffix("_d16") for width in found)

    def stated(key: str) -> int:
        match = re.search(rf"\.{key}:\s*(\d+)", code.assembly)
        assert match is not None
        return int(match.group(1))

    return Facts(
        widths("load"), widths("store"), code.assembly, stated("vgpr_count"), stated("vgpr_spill_count"), code.lds_bytes
    )


def ours(arch: str, tokens: int, columns: int, groups: int, *, dtype: torch.dtype = torch.bfloat16,
         below_2_gib: bool = True, power_of_two: bool = True) -> Facts:  # fmt: skip
    x = torch.empty((tokens, columns), dtype=dtype, device="meta")
    tile = plan(tokens, groups, element_bytes=x.element_size(), arch=arch)
    _, _, constants = colwise_launch(x, groups, fmt=native_format(arch), power_of_two=power_of_two, plan=tile)
    element = {torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32"}[dtype]
    sizes = dict.fromkeys(("tokens_units", "columns_units", "row_stride_units", "groups"), "i32")
    types = {"x_ptr": element, "offs_ptr": "*i32", "out_ptr": FP8[arch], "scale_ptr": "*fp32", "inverse_ptr": "*fp32"}
    return facts(colwise_per_group_kernel, arch, types=types | sizes, constants=constants, below_2_gib=below_2_gib)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("below_2_gib", [True, False])
@pytest.mark.parametrize("mean", [256, 1024])
def test_loads_take_16_bytes_and_stores_8_a_lane(arch: str, below_2_gib: bool, mean: int) -> None:
    """A wave's load covers 8 rows of 128 bytes, its store 8 columns of 64. Each of both passes' code has the tile's
    loads, or half of them in the loops that only longer groups enter. Byte stores are those of the chunks that a bound
    cuts: two of a group, two of the rows that are zeroed."""
    compiled = ours(arch, 32 * mean, 2048, 32, below_2_gib=below_2_gib)
    tile = plan(32 * mean, 32, element_bytes=2, arch=arch)
    held = tile.pieces * tile.chunk
    assert compiled.loads["dwordx4"] >= 2 * held
    lanes = 64 * tile.waves
    cut_chunk = tile.chunk * tile.columns // lanes
    assert compiled.stores["byte"] == 4 * max(cut_chunk, 1)
    assert compiled.stores["dwordx2"] >= held + held // 2
    assert compiled.stores["dword"] == 2
    assert set(compiled.stores) == {"byte", "dword", "dwordx2"}
    assert compiled.vgpr <= 128
    assert compiled.spills == 0


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("power_of_two", [True, False])
@pytest.mark.parametrize("below_2_gib", [True, False])
@pytest.mark.parametrize(("mean", "waves"), [(1024, 8), (2048, 16)])
def test_every_form_leaves_room_for_16_waves_on_a_compute_unit(
    arch: str, power_of_two: bool, below_2_gib: bool, mean: int, waves: int
) -> None:
    """At most 128 VGPRs leave 4 waves a SIMD: two workgroups of 8 waves, one of 16. LDS is no limit, nothing spills.

    Compilers differ: Triton 3.6, 3.7 and 3.9 need 95 to 123."""
    compiled = ours(arch, 32 * mean, 7168, 32, power_of_two=power_of_two, below_2_gib=below_2_gib)
    assert plan(32 * mean, 32, element_bytes=2, arch=arch).waves == waves
    assert compiled.vgpr <= 128
    assert compiled.spills == 0
    assert compiled.count("scratch_(load|store)_dword(x[234])?") == 0
    assert compiled.lds_bytes <= 4096


def test_the_transposition_is_between_lanes_of_a_wave() -> None:
    """Words by ``ds_bpermute``, no fp8 tile in LDS: what LDS holds is the partial amax of the waves."""
    compiled = ours("gfx942", 32768, 2048, 32)
    assert compiled.count("ds_bpermute_b32") > 0
    assert compiled.count("ds_write_b8") == 0
    assert compiled.lds_bytes < 32768


@pytest.mark.parametrize(
    ("tokens", "width"), [(32 * 1024, "dwordx2"), (32 * 1024 + 4, "dword"), (32 * 1024 + 2, "short")]
)
def test_store_width_is_what_the_alignment_allows(tokens: int, width: str) -> None:
    compiled = ours("gfx942", tokens, 2048, 33)
    assert compiled.stores[width] > compiled.stores["byte"]
    assert compiled.stores["dwordx2"] < compiled.stores[width] or width == "dwordx2"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_other_inputs_keep_the_widths(dtype: torch.dtype) -> None:
    compiled = ours("gfx942", 32768, 2048, 32, dtype=dtype)
    assert compiled.loads["dwordx4"] >= 32
    assert compiled.stores["dwordx2"] >= 16
    assert compiled.vgpr <= 128
    assert compiled.spills == 0


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_no_logarithm_and_a_saturating_native_cast(arch: str) -> None:
    compiled = ours(arch, 32768, 2048, 32)
    assert compiled.count("v_(log|exp)_f32(_e32|_e64)?") == 0
    assert compiled.count("v_cvt_(scalef32_)?pk_fp8_f32") > 0
    assert "hwreg(HW_REG_MODE, 23, 1), 1" in compiled.assembly


TYPES = {"x_ptr": "*bf16", "offs_ptr": "*i32", "out_ptr": "*fp8e4b8", "scale_ptr": "*fp32", "columns": "i32"}
NUMERICS = {"FP8_MAX": native_format("gfx942").max, "EPS": EPS, "POWER_OF_TWO": True}


def two_pass(*, rows: int, columns: int, waves: int, below_2_gib: bool) -> Facts:
    strides = dict.fromkeys(("x_row_stride", "x_column_stride", "out_row_stride", "out_column_stride"), "i64")
    return facts(
        baseline.two_pass_kernel,
        "gfx942",
        types=TYPES | strides,
        constants=NUMERICS | {"ROWS": rows, "COLS": columns, "num_warps": waves, "num_stages": 2},
        multiples_of_16=("columns", "x_row_stride", "out_column_stride"),
        below_2_gib=below_2_gib,
    )


@pytest.mark.parametrize("below_2_gib", [True, False])
def test_byte_stores_as_published(below_2_gib: bool) -> None:
    """16 two-byte loads a pass and 16 byte stores, as the study found for 32/128/4 under Triton 3.9."""
    compiled = two_pass(rows=128, columns=32, waves=4, below_2_gib=below_2_gib)
    assert compiled.loads == {"dword": 2, "ushort": 2 * 16}
    assert compiled.stores == {"dword": 1, "byte": 16}
    assert compiled.spills == 0


def test_byte_stores_of_the_wide_configuration() -> None:
    """128/128/8: 32 byte stores, and more scalar than vector work, for a branch round each masked access."""
    compiled = two_pass(rows=128, columns=128, waves=8, below_2_gib=False)
    assert compiled.stores["byte"] == 32
    assert compiled.count(r"s_\w+") > compiled.count(r"v_\w+")


@pytest.mark.parametrize("below_2_gib", [True, False])
def test_unit_strides_restore_vector_loads(below_2_gib: bool) -> None:
    """Four rows of the tile are one 16-byte load each; the store goes through LDS to run along the rows."""
    compiled = facts(
        baseline.two_pass_unit_stride_kernel,
        "gfx942",
        types=TYPES | {"x_row_stride": "i32", "out_column_stride": "i32"},
        constants=NUMERICS
        | {"x_column_stride": 1, "ROWS": 128, "COLS": 32, "num_warps": baseline.WAVES, "num_stages": 2},
        multiples_of_16=("columns", "x_row_stride", "out_column_stride"),
        below_2_gib=below_2_gib,
    )
    assert compiled.loads == {"dword": 2, "dwordx4": 2 * 2}
    assert compiled.stores == {"dword": 1, "byte": 16}
    assert compiled.lds_bytes == 128 * 32


@pytest.mark.parametrize(("below_2_gib", "vgpr"), [(True, 95), (False, 75)])
def test_fused_form_as_published(below_2_gib: bool, vgpr: int) -> None:
    """One pass: 8 loads of 16 bytes, 64 byte stores along the rows, the fp8 tile of 32 KiB in LDS, hence two
    workgroups a compute unit. The study has 76 VGPRs for Triton 3.9 and 64-bit offsets."""
    compiled = facts(
        baseline.fused_kernel,
        "gfx942",
        types=TYPES | {"x_row_stride": "i32", "out_column_stride": "i32"},
        constants=NUMERICS | {"ROWS": 1024, "COLS": 32, "num_warps": baseline.FUSED_WAVES, "num_stages": 1},
        multiples_of_16=("columns", "x_row_stride", "out_column_stride"),
        below_2_gib=below_2_gib,
    )
    assert compiled.loads == {"dword": 2, "dwordx4": 8}
    assert compiled.stores == {"dword": 1, "byte": 64}
    assert compiled.lds_bytes == 32 * 1024
    assert abs(compiled.vgpr - vgpr) <= 4
    assert compiled.spills == 0

"""The corpus compiles, and the parser takes all of it."""

from __future__ import annotations

import re

import pytest

from wavecast.simulator.program.assembly import parse_assembly

from .cases import ARCHITECTURES, CASES, COMPILATION_IDS, COMPILATIONS, Case, compile_case

pytestmark = pytest.mark.compile

# One example of each family that the corpus exists for; a corpus that lost one would no longer guard it.
EXPECTED_OPCODES = {
    "gfx942": [
        "v_mfma_f32_32x32x8_bf16", "v_mfma_f32_32x32x16_fp8_fp8", "v_mfma_f32_32x32x4_xf32", "v_cvt_pk_fp8_f32",
        "v_accvgpr_read_b32", "scratch_store_dword", "global_atomic_cmpswap", "buffer_wbl2", "buffer_inv",
        "buffer_load_dwordx4", "ds_bpermute_b32", "v_div_scale_f64", "s_setprio",
    ],
    "gfx950": [
        "v_mfma_f32_32x32x16_bf16", "v_mfma_scale_f32_32x32x64_f8f6f4", "v_cvt_scalef32_pk_fp8_f32",
        "v_cvt_pk_bf16_f32", "ds_read_b64_tr_b16", "v_permlane32_swap_b32", "v_bitop3_b32", "scratch_load_dword",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("case", "arch"), COMPILATIONS, ids=COMPILATION_IDS)
def test_compiles_and_parses(case: Case, arch: str) -> None:
    code = compile_case(case, arch)
    assert code.arch == arch
    assert f'-{arch}"' in code.assembly.splitlines()[0]
    assert code.num_warps == case.options.get("num_warps", 4)
    kernel = parse_assembly(code.assembly, lds_bytes=code.lds_bytes)
    assert kernel.name == code.name
    assert kernel.workgroup_size == 64 * code.num_warps
    assert len(kernel.instructions) == _instruction_count(code.assembly)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_covers_the_families_it_is_for(arch: str) -> None:
    text = "\n".join(compile_case(case, target).assembly for case, target in COMPILATIONS if target == arch)
    assert [opcode for opcode in EXPECTED_OPCODES[arch] if opcode not in text] == []


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def _instruction_count(assembly: str) -> int:
    """Instructions counted from the text alone: indented lines that are neither directive, label nor comment."""
    body = assembly[: assembly.index(".amdhsa_kernel")]
    lines = (line.split(";")[0].strip() for line in body.splitlines())
    return sum(bool(re.match(r"(v|s|ds|global|buffer|flat|scratch)_\w+", line)) for line in lines)

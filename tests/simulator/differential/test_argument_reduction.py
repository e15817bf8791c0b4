"""v_trig_preop_f64 against LLVM's own folding of the instruction, and against digits of π."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.program.assembly import parse_assembly

from .toolchain import assembly, why_not

pytestmark = [pytest.mark.execute, pytest.mark.skipif(bool(why_not()), reason=why_not() or "compiles")]

KERNEL = "__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(64, 64))) void "
EXECUTED = (
    KERNEL
    + """executed(GLOBAL f64 *out, const GLOBAL f64 *angle, const GLOBAL u32 *segment) {
  u32 id = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  out[id] = __builtin_amdgcn_trig_preop(angle[id], segment[id]);
}
"""
)
# π to 100 decimal places.
PI = Fraction(
    int("31415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679"),
    10**100,
)


def execute(tmp_path: Path, source: str, name: str, arrays: list[np.ndarray], arch: str, groups: int) -> str:
    file = tmp_path / f"{name}.c"
    file.write_text(source)
    text = assembly(file, arch, "2")
    memory = AddressSpace()
    pointers = [memory.map_array(array, f"array{n}") for n, array in enumerate(arrays)]
    Engine().execute(parse_assembly(text, name=name), grid=(groups, 1, 1), arguments=pointers, memory=memory)
    return text


def angles() -> tuple[np.ndarray, np.ndarray]:
    """Angles of every size, each with a segment; the highest segments lie beyond the bits that there are."""
    rng = np.random.default_rng(4)
    exponents = np.concatenate([rng.integers(0, 2047, 320), rng.integers(1070, 1090, 64), rng.integers(1960, 1975, 64)])
    mantissas = rng.integers(0, 1 << 52, len(exponents), dtype=np.uint64)
    bits = (
        exponents.astype(np.uint64) << np.uint64(52)
        | mantissas
        | rng.integers(0, 2, len(exponents), dtype=np.uint64) << np.uint64(63)
    )
    values = bits.view(np.float64)
    values[:4] = [0.0, -0.0, np.inf, np.nan]
    segments = np.where(
        rng.random(len(values)) < 0.7, rng.integers(0, 3, len(values)), rng.integers(0, 40, len(values))
    )
    return values, segments.astype(np.uint32)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_every_exponent_as_llvm_folds_it(tmp_path: Path, arch: str) -> None:
    values, segments = angles()
    out = np.zeros(len(values))
    text = execute(tmp_path, EXECUTED, "executed", [out, values, segments], arch, len(values) // 64)
    assert "v_trig_preop_f64" in text
    lines = []
    for place, (value, segment) in enumerate(zip(values, segments, strict=True)):
        number = {"inf": "__builtin_inf()", "nan": '__builtin_nan("")'}.get(str(value), float(value).hex())
        lines.append(f"  out[{place}] = __builtin_amdgcn_trig_preop({number}, {segment});")
    folded = np.zeros(len(values))
    source = KERNEL + "folded(GLOBAL f64 *out) {\n" + "\n".join(lines) + "\n}\n"
    assert "v_trig_preop_f64" not in execute(tmp_path, source, "folded", [folded], arch, 1)
    numbers = ~np.isnan(folded)
    np.testing.assert_array_equal(out[numbers].view(np.uint64), folded[numbers].view(np.uint64))
    assert np.isnan(out[~numbers]).all()
    assert np.count_nonzero(out == 0) > 20
    assert np.count_nonzero(out) > 300


def test_segments_add_up_to_two_over_pi(tmp_path: Path) -> None:
    """Five segments of a small angle are 265 bits of it."""
    values, segments = np.ones(64), np.minimum(np.arange(64), 4).astype(np.uint32)
    out = np.zeros(64)
    execute(tmp_path, EXECUTED, "executed", [out, values, segments], "gfx942", 1)
    total = sum(Fraction(float(part)) for part in out[:5])
    assert 0 <= 2 / PI - total < Fraction(1, 2**265)

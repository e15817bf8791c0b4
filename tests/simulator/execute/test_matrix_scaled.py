"""Block-scaled MFMA of gfx950 against float64 products, with varying scales so that a wrong order of k is visible."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine
from semantics_matrix import SCALED_FORMATS, SCALED_SHAPES, accumulator_words, scale_words, scaled_operand_words


@pytest.mark.execute
@pytest.mark.parametrize("shape", SCALED_SHAPES)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("cbsz", "blgp"), [(0, 0), (0, 1), (1, 0), (1, 1), (4, 4), (0, 4), (4, 1)])
def test_product(machine: Machine, shape: str, scaled: bool, cbsz: int, blgp: int) -> None:
    size, depth = SCALED_SHAPES[shape]
    rng = np.random.default_rng(cbsz * 8 + blgp)
    a = rng.integers(-4, 5, (size, depth)).astype(SCALED_FORMATS[cbsz])
    b = rng.integers(-4, 5, (size, depth)).astype(SCALED_FORMATS[blgp])
    c = rng.integers(-4, 5, (size, size)).astype(np.float32)
    a_scales, b_scales = (rng.integers(126, 130, (size, depth // 32)).astype(np.uint8) for _ in range(2))
    words_a, words_b, words_c = (
        scaled_operand_words(a.view(np.uint8), cbsz),
        scaled_operand_words(b.view(np.uint8), blgp),
        accumulator_words(c),
    )
    vector = dict(enumerate(words_a)) | {16 + i: row for i, row in enumerate(words_b)}
    vector |= {64 + i: row for i, row in enumerate(words_c)}
    vector |= {40: scale_words(a_scales, 2), 41: scale_words(b_scales, 1)}
    last = len(words_c) - 1
    text = (
        f"f32_{shape}_f8f6f4 v[128:{128 + last}], v[0:{len(words_a) - 1}], v[16:{15 + len(words_b)}], v[64:{64 + last}]"
    )
    text = f"v_mfma_scale_{text}, v40, v41 op_sel:[0,1,0] op_sel_hi:[1,0,0]" if scaled else f"v_mfma_{text}"
    wave = machine.run(f"{text} cbsz:{cbsz} blgp:{blgp}", arch="gfx950", vector=vector)
    left, right = a.astype(np.float64), b.astype(np.float64)
    if scaled:
        left = left * np.repeat(np.exp2(a_scales.astype(np.float64) - 127), 32, axis=1)
        right = right * np.repeat(np.exp2(b_scales.astype(np.float64) - 127), 32, axis=1)
    expected = (left @ right.T + c).astype(np.float32)
    np.testing.assert_array_equal(wave.vector[128 : 129 + last], accumulator_words(expected))


@pytest.mark.execute
def test_a_nan_scale_makes_nan(machine: Machine) -> None:
    vector = {register: np.full(64, 0x38383838, np.uint32) for register in range(24)}
    vector |= {40: np.full(64, 255, np.uint32), 41: np.full(64, 127, np.uint32)}
    text = "v_mfma_scale_f32_32x32x64_f8f6f4 v[128:143], v[0:7], v[16:23], 0, v40, v41 op_sel_hi:[0,0,0]"
    wave = machine.run(text, arch="gfx950", vector=vector)
    assert np.isnan(wave.vector[128:144].view(np.float32)).all()

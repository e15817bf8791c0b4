"""MFMA against float64 products, with A, B and C laid out as AMD's matrix instruction calculator describes.

Inputs are small integers, so that every partial sum is exact and the result does not depend on the order of addition.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from machine import Machine
from semantics_matrix import CASES, accumulator_words, element_types, operand_words

A_REGISTER, B_REGISTER, C_REGISTER, D_REGISTER = 0, 16, 64, 128


def span(first: int, count: int, file: str = "v") -> str:
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


@pytest.mark.execute
@pytest.mark.parametrize(("opcode", "size", "depth", "types", "arch"), CASES)
def test_product(machine: Machine, opcode: str, size: int, depth: int, types: str, arch: str) -> None:
    rng = np.random.default_rng(depth)
    type_a, type_b = element_types(types, arch)
    accumulator = np.float64 if types == "f64" else np.int32 if types == "i8" else np.float32
    a = rng.integers(-4, 5, (size, depth)).astype(type_a)
    b = rng.integers(-4, 5, (size, depth)).astype(type_b)
    c = rng.integers(-4, 5, (size, size)).astype(accumulator)
    words_a, words_b, words_c = operand_words(a, depth), operand_words(b, depth), accumulator_words(c)
    vector = {A_REGISTER + i: row for i, row in enumerate(words_a)}
    vector |= {B_REGISTER + i: row for i, row in enumerate(words_b)}
    vector |= {256 + C_REGISTER + i: row for i, row in enumerate(words_c)}
    text = (
        f"{opcode} {span(D_REGISTER, len(words_c))}, {span(A_REGISTER, len(words_a))}, "
        f"{span(B_REGISTER, len(words_b))}, {span(C_REGISTER, len(words_c), 'a')}"
    )
    # EXEC does not matter to a matrix instruction.
    wave = machine.run(text, arch=arch, vector=vector, exec_mask=1)
    expected = a.astype(np.float64) @ b.astype(np.float64).T + c
    np.testing.assert_array_equal(
        wave.vector[D_REGISTER : D_REGISTER + len(words_c)], accumulator_words(expected.astype(accumulator))
    )


@pytest.mark.execute
@pytest.mark.parametrize("types", ["fp8 fp8", "bf8 bf8"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_every_fp8_code_is_decoded(machine: Machine, types: str, arch: str) -> None:
    """A holds 256 different codes, B ones in a single k: each result is one decoded code."""
    type_a, _ = element_types(types, arch)
    one = np.array([1.0], dtype=type_a).view(np.uint8)[0]
    a_code, b_code = types.split()
    for first in range(0, 256, 32):
        a = np.zeros((32, 16), np.uint8)
        a[:, 3] = np.arange(first, first + 32)
        b = np.zeros((32, 16), np.uint8)
        b[:, 3] = one
        vector = dict(enumerate(operand_words(a, 16))) | {
            B_REGISTER + i: row for i, row in enumerate(operand_words(b, 16))
        }
        text = f"v_mfma_f32_32x32x16_{a_code}_{b_code} v[128:143], v[0:1], v[16:17], 0"
        wave = machine.run(text, arch=arch, vector=vector)
        values = np.repeat(a[:, 3:4].view(type_a).astype(np.float32), 32, axis=1)
        expected = accumulator_words(values).view(np.float32)
        actual = wave.vector[128:144].view(np.float32)
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
        np.testing.assert_array_equal(np.nan_to_num(actual), np.nan_to_num(expected))


@pytest.mark.execute
def test_constant_accumulator(machine: Machine) -> None:
    zeros = {i: np.zeros(64, np.uint32) for i in range(4)}
    wave = machine.run("v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], 1.0", vector=zeros)
    np.testing.assert_array_equal(wave.vector[256:260].view(np.float32), np.ones((4, 64), np.float32))


@pytest.mark.execute
@pytest.mark.parametrize("abid", [None, 0, 5, 15])
def test_sixteen_small_blocks(machine: Machine, abid: int | None) -> None:
    """4x4x4: sixteen products side by side; ``cbsz:4`` gives every block the A of block ``abid``."""
    rng = np.random.default_rng(7)
    a, b, c = (rng.integers(-4, 5, (16, 4, 4)).astype(np.float32) for _ in range(3))

    def words(matrix: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(matrix.reshape(64, 4).astype(ml_dtypes.bfloat16)).view(np.uint32).T.copy()

    vector = dict(enumerate(words(a))) | {16 + i: row for i, row in enumerate(words(b))}
    for register in range(4):
        vector[64 + register] = np.array([c[lane // 4, register, lane % 4] for lane in range(64)], np.float32)
    suffix = "" if abid is None else f" cbsz:4 abid:{abid}" if abid else " cbsz:4"
    wave = machine.run(f"v_mfma_f32_4x4x4_16b_bf16 v[128:131], v[0:1], v[16:17], v[64:67]{suffix}", vector=vector)
    source = a if abid is None else np.broadcast_to(a[abid], a.shape)
    expected = np.einsum("zik,zjk->zij", source, b) + c
    actual = wave.vector[128:132].view(np.float32)
    for register in range(4):
        np.testing.assert_array_equal(actual[register], [expected[lane // 4, register, lane % 4] for lane in range(64)])


@pytest.mark.execute
@pytest.mark.parametrize(("opcode", "size", "depth", "types"), [CASES[0][:4], CASES[8][:4]])
def test_accumulation_in_place(machine: Machine, opcode: str, size: int, depth: int, types: str) -> None:
    """C and D in the same registers, three times over."""
    rng = np.random.default_rng(1)
    type_a, type_b = element_types(types, "gfx942")
    accumulator = np.float64 if types == "f64" else np.float32
    a, b = rng.integers(-4, 5, (size, depth)).astype(type_a), rng.integers(-4, 5, (size, depth)).astype(type_b)
    c = rng.integers(-4, 5, (size, size)).astype(accumulator)
    words_a, words_b, words_c = operand_words(a, depth), operand_words(b, depth), accumulator_words(c)
    vector = {A_REGISTER + i: row for i, row in enumerate(words_a)}
    vector |= {B_REGISTER + i: row for i, row in enumerate(words_b)}
    vector |= {D_REGISTER + i: row for i, row in enumerate(words_c)}
    d, left, right = span(D_REGISTER, len(words_c)), span(A_REGISTER, len(words_a)), span(B_REGISTER, len(words_b))
    wave = machine.run("\n".join([f"{opcode} {d}, {left}, {right}, {d}"] * 3), vector=vector)
    expected = 3 * (a.astype(np.float64) @ b.astype(np.float64).T) + c
    actual = wave.vector[D_REGISTER : D_REGISTER + len(words_c)]
    np.testing.assert_array_equal(actual, accumulator_words(expected.astype(accumulator)))


@pytest.mark.execute
@pytest.mark.parametrize("shift", [-2, 2])
def test_accumulator_that_overlaps_the_result(machine: Machine, shift: int) -> None:
    """D begins two registers before or behind C, as compilers let four registers do."""
    opcode, size, depth, types, _ = CASES[1]
    rng = np.random.default_rng(2)
    type_a, type_b = element_types(types, "gfx942")
    a, b = rng.integers(-4, 5, (size, depth)).astype(type_a), rng.integers(-4, 5, (size, depth)).astype(type_b)
    c = rng.integers(-4, 5, (size, size)).astype(np.float32)
    words_a, words_b, words_c = operand_words(a, depth), operand_words(b, depth), accumulator_words(c)
    vector = {A_REGISTER + i: row for i, row in enumerate(words_a)}
    vector |= {B_REGISTER + i: row for i, row in enumerate(words_b)}
    vector |= {C_REGISTER + i: row for i, row in enumerate(words_c)}
    spans = (span(C_REGISTER + shift, 4), span(A_REGISTER, len(words_a)), span(B_REGISTER, len(words_b)))
    wave = machine.run(f"{opcode} {', '.join(spans)}, {span(C_REGISTER, 4)}", vector=vector)
    expected = a.astype(np.float64) @ b.astype(np.float64).T + c
    actual = wave.vector[C_REGISTER + shift : C_REGISTER + shift + 4]
    np.testing.assert_array_equal(actual, accumulator_words(expected.astype(np.float32)))

"""MFMA against float64 products, with A, B and C laid out as AMD's matrix instruction calculator describes.

Inputs are small integers, so that every partial sum is exact and the result does not depend on the order of addition.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from machine import Machine

A_REGISTER, B_REGISTER, C_REGISTER, D_REGISTER = 0, 16, 64, 128

FNUZ = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}
OCP = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
WIDE = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "xf32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
}

CASES = [
    ("v_mfma_f32_32x32x8_bf16", 32, 8, "bf16", "gfx942"),
    ("v_mfma_f32_16x16x16_bf16", 16, 16, "bf16", "gfx942"),
    ("v_mfma_f32_32x32x8_f16", 32, 8, "f16", "gfx942"),
    ("v_mfma_f32_16x16x16_f16", 16, 16, "f16", "gfx942"),
    ("v_mfma_f32_32x32x2_f32", 32, 2, "f32", "gfx942"),
    ("v_mfma_f32_16x16x4_f32", 16, 4, "f32", "gfx942"),
    ("v_mfma_f32_32x32x4_xf32", 32, 4, "xf32", "gfx942"),
    ("v_mfma_f32_16x16x8_xf32", 16, 8, "xf32", "gfx942"),
    ("v_mfma_f64_16x16x4_f64", 16, 4, "f64", "gfx942"),
    ("v_mfma_i32_32x32x16_i8", 32, 16, "i8", "gfx942"),
    ("v_mfma_i32_16x16x32_i8", 16, 32, "i8", "gfx942"),
    ("v_mfma_i32_32x32x32_i8", 32, 32, "i8", "gfx950"),
    ("v_mfma_i32_16x16x64_i8", 16, 64, "i8", "gfx950"),
    ("v_mfma_f32_32x32x16_bf16", 32, 16, "bf16", "gfx950"),
    ("v_mfma_f32_16x16x32_bf16", 16, 32, "bf16", "gfx950"),
    ("v_mfma_f32_32x32x16_f16", 32, 16, "f16", "gfx950"),
    ("v_mfma_f32_16x16x32_f16", 16, 32, "f16", "gfx950"),
]
CASES += [
    (f"v_mfma_f32_{shape}_{a}_{b}", size, depth, f"{a} {b}", arch)
    for shape, size, depth in (("32x32x16", 32, 16), ("16x16x32", 16, 32))
    for a in ("fp8", "bf8")
    for b in ("fp8", "bf8")
    for arch in ("gfx942", "gfx950")
]


def element_types(types: str, arch: str) -> tuple[type, type]:
    names = (types.split() * 2)[:2]
    table = WIDE | (FNUZ if arch == "gfx942" else OCP)
    return table[names[0]], table[names[1]]


def operand_words(matrix: np.ndarray, depth: int) -> np.ndarray:
    """uint32 (registers, 64) that hold a (size, depth) matrix: lane l has row l % size and consecutive k."""
    size = matrix.shape[0]
    per_lane = depth * size // 64
    lanes = [matrix[lane % size, per_lane * (lane // size) :][:per_lane] for lane in range(64)]
    return np.ascontiguousarray(np.stack(lanes)).view(np.uint32).T.copy()


def accumulator_row(register: int, lane: int, size: int, *, double: bool) -> int:
    groups = 64 // size
    if double:
        return groups * register + lane // size
    return 4 * groups * (register // 4) + 4 * (lane // size) + register % 4


def accumulator_words(matrix: np.ndarray) -> np.ndarray:
    """uint32 (registers, 64) that hold C or D."""
    size, double = matrix.shape[0], matrix.dtype == np.float64
    registers = [
        np.array(
            [matrix[accumulator_row(r, lane, size, double=double), lane % size] for lane in range(64)], matrix.dtype
        )
        for r in range(size * size // 64)
    ]
    if not double:
        return np.stack(registers).view(np.uint32)
    words = np.stack(registers).view(np.uint32).reshape(len(registers), 64, 2)
    return words.transpose(0, 2, 1).reshape(2 * len(registers), 64).copy()


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

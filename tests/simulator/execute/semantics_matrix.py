"""How matrices lie in registers, as AMD's matrix instruction calculator describes it, and which products there are."""

from __future__ import annotations

import ml_dtypes
import numpy as np

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


SCALED_FORMATS = {0: ml_dtypes.float8_e4m3fn, 1: ml_dtypes.float8_e5m2, 4: ml_dtypes.float4_e2m1fn}
SCALED_SHAPES = {"32x32x64": (32, 64), "16x16x128": (16, 128)}


def lane_elements(matrix: np.ndarray, code: int) -> np.ndarray:
    """(64, 32) elements: what each lane holds of a (size, depth) matrix of codes."""
    size, depth = matrix.shape
    rows = []
    for lane in range(64):
        row, group = matrix[lane % size], lane // size
        if code == 4:
            rows.append(row[32 * group : 32 * group + 32])
        else:
            rows.append(np.concatenate([row[16 * group :][:16], row[depth // 2 + 16 * group :][:16]]))
    return np.stack(rows)


def scaled_operand_words(matrix: np.ndarray, code: int) -> np.ndarray:
    """uint32 (registers, 64)."""
    elements = lane_elements(matrix, code)
    packed = elements[:, 0::2] | elements[:, 1::2] << 4 if code == 4 else elements
    return np.ascontiguousarray(packed).view(np.uint32).T.copy()


def scale_words(scales: np.ndarray, byte: int) -> np.ndarray:
    """uint32 (64,): the scale of (row, block) in one byte of lane block * size + row, other bytes filled with 0x55."""
    size, blocks = scales.shape
    register = np.full((64, 4), 0x55, np.uint8)
    for block in range(blocks):
        register[block * size : (block + 1) * size, byte] = scales[:, block]
    return register.view(np.uint32)[:, 0].copy()

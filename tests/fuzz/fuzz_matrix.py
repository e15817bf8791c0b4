"""Matrix instructions and accumulation registers.

Elements are small integers: every sum is exact, and the order of addition, which nobody publishes, does not show.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from fuzz_program import LANES, Program, v
from semantics_matrix import (
    CASES,
    SCALED_FORMATS,
    SCALED_SHAPES,
    accumulator_words,
    element_types,
    operand_words,
    scale_words,
    scaled_operand_words,
)


def _rng(p: Program) -> np.random.Generator:
    return np.random.default_rng(p.rng.getrandbits(32))


def _result(p: Program, row: int, words: np.ndarray) -> None:
    """The result, in every lane whatever EXEC says; each of its words is a case."""
    p.state.vector[row : row + len(words)] = words
    p.cases += words.size


def _addend(p: Program, matrix: np.ndarray) -> tuple[str, np.ndarray, int]:
    """Text of C, the matrix it stands for, and the first register of D, which may be the same."""
    choice = p.rng.randrange(4)
    words = accumulator_words(matrix)
    if choice == 0:
        value = p.rng.choice([0, 1]) if matrix.dtype == np.int32 else p.rng.choice([0.0, 1.0, -4.0])
        text = str(value) if value else "0"
        return text, np.full_like(matrix, value), p.results(len(words))
    row = p.given(words)
    return v(row, len(words)), matrix, row if choice == 1 else p.results(len(words))


def product(p: Program) -> None:
    """D = A B + C of every type; D may be where C is."""
    cases = [case for case in CASES if case[4] == p.arch or (case[4] == "gfx942" and "xf32" not in case[3])]
    opcode, size, depth, types, _ = p.rng.choice(cases)
    rng = _rng(p)
    accumulator = np.float64 if types == "f64" else np.int32 if types == "i8" else np.float32
    low, high = (-128, 128) if types == "i8" else (-8, 9)
    type_a, type_b = element_types(types, p.arch)
    a, b = (rng.integers(low, high, (size, depth)).astype(kind) for kind in (type_a, type_b))
    addend, c, row = _addend(p, rng.integers(-99, 100, (size, size)).astype(accumulator))
    left, right = (operand_words(matrix, depth) for matrix in (a, b))
    texts = [v(p.given(words), len(words)) for words in (left, right)]
    total = a.astype(np.float64) @ b.astype(np.float64).T + c
    words = accumulator_words(total.astype(accumulator))
    p.add(f"{opcode} {v(row, len(words))}, {', '.join(texts)}, {addend}")
    _result(p, row, words)


def blocks(p: Program) -> None:
    """Sixteen products of 4 x 4 side by side; ``cbsz`` gives all of them the A of one."""
    rng = _rng(p)
    name = p.rng.choice(["f16", "bf16"])
    kind = np.float16 if name == "f16" else ml_dtypes.bfloat16
    a, b, c = (rng.integers(-8, 9, (16, 4, 4)).astype(np.float32) for _ in range(3))
    texts = []
    for matrix in (a, b):
        words = np.ascontiguousarray(matrix.reshape(LANES, 4).astype(kind)).view(np.uint32).T
        texts.append(v(p.given(words), 2))
    lane = np.arange(LANES)
    rows = p.given(np.stack([c[lane // 4, register, lane % 4] for register in range(4)]).view(np.uint32))
    one = p.rng.randrange(16) if p.rng.random() < 0.5 else None
    suffix = "" if one is None else f" cbsz:4 abid:{one}"
    source = a if one is None else np.broadcast_to(a[one], a.shape)
    total = (np.einsum("zik,zjk->zij", source, b) + c).astype(np.float32)
    row = p.results(4)
    p.add(f"v_mfma_f32_4x4x4_16b_{name} {v(row, 4)}, {', '.join(texts)}, {v(rows, 4)}{suffix}")
    _result(p, row, np.stack([total[lane // 4, register, lane % 4] for register in range(4)]).view(np.uint32))


def scaled_product(p: Program) -> None:
    """8-bit and 4-bit floats in any mixture, with a scale for every 32 elements or without."""
    shape = p.rng.choice(list(SCALED_SHAPES))
    size, depth = SCALED_SHAPES[shape]
    rng, codes = _rng(p), (p.rng.choice(list(SCALED_FORMATS)), p.rng.choice(list(SCALED_FORMATS)))
    # Integers that every one of the formats has.
    values = np.array([-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6])
    a, b = (rng.choice(values, (size, depth)).astype(SCALED_FORMATS[code]) for code in codes)
    addend, c, row = _addend(p, rng.integers(-99, 100, (size, size)).astype(np.float32))
    texts = []
    for matrix, code in ((a, codes[0]), (b, codes[1])):
        words = scaled_operand_words(matrix.view(np.uint8), code)
        texts.append(v(p.given(words), len(words)))
    left, right = a.astype(np.float64), b.astype(np.float64)
    text, tail = "v_mfma", ""
    if p.rng.random() < 0.6:
        scales = [rng.integers(125, 130, (size, depth // 32)).astype(np.uint8) for _ in range(2)]
        octets = [p.rng.randrange(4) for _ in range(2)]
        registers = [p.given(scale_words(s, octet)[None]) for s, octet in zip(scales, octets, strict=True)]
        left, right = (
            m * np.repeat(np.exp2(s.astype(np.float64) - 127), 32, axis=1)
            for m, s in zip((left, right), scales, strict=True)
        )
        select = [
            f"{name}:[{octets[0] >> bit & 1},{octets[1] >> bit & 1},0]"
            for bit, name in enumerate(("op_sel", "op_sel_hi"))
        ]
        text, tail = "v_mfma_scale", f", {v(registers[0])}, {v(registers[1])} {' '.join(select)}"
    words = accumulator_words((left @ right.T + c).astype(np.float32))
    p.add(
        f"{text}_f32_{shape}_f8f6f4 {v(row, len(words))}, {', '.join(texts)}, {addend}{tail} "
        f"cbsz:{codes[0]} blgp:{codes[1]}"
    )
    _result(p, row, words)


def accumulators(p: Program) -> None:
    """A value goes to an accumulation register, to another one and back."""
    source, row = p.rng.choice(p.words), p.results(1)
    first, second = (p.rng.randrange(32) for _ in range(2))
    constant = p.rng.randrange(-16, 65)
    is_constant = p.rng.random() < 0.3
    p.add(f"v_accvgpr_write_b32 a{first}, {constant if is_constant else v(source)}")
    p.add(f"v_accvgpr_mov_b32 a{second}, a{first}")
    p.add(f"v_accvgpr_read_b32 {v(row)}, a{second}")
    words = np.full(LANES, constant & 0xFFFFFFFF, np.uint32) if is_constant else p.state.vector[source]
    p.write(row, words)
    p.words.append(row)

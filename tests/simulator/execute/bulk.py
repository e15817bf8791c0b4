"""Applies instructions to arrays of any length, so that a test can compare thousands of values at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from machine import Machine

LANES = 64
MODE = 0x2F0 | 1 << 8
SATURATE = 1 << 23


def apply(
    machine: Machine,
    lines: str,
    sources: Sequence[np.ndarray],
    result: np.dtype | type,
    *,
    old: int = 0,
    temporaries: int = 0,
    arch: str = "gfx942",
    mode: int = MODE,
    scalar: Mapping[int, int] | None = None,
) -> np.ndarray:
    """Results of ``lines`` for every element of the sources.

    Args:
        machine: Where to run.
        lines: Instructions with ``{d}`` for the destination register, ``{a}``, ``{b}``, ``{c}`` for the sources and
            ``{t}``, ``{u}``, … (see ``temporaries``) for scratch; operands of 8-byte types become register pairs.
        sources: Arrays of one length, of 4-byte or 8-byte elements (smaller ones are widened with zeros).
        result: Element type of the result: 4 or 8 bytes.
        old: What the destination register holds before.
        temporaries: Scratch operands of the width of the result, named t, u, v, w, x, y, z.
        arch: Architecture.
        mode: MODE register.
        scalar: Scalar registers.
    """
    count = len(sources[0])
    rows = -(-count // LANES)
    words = [_words(source, rows) for source in sources]
    out = np.dtype(result).itemsize // 4
    widths = {name: len(word) for name, word in zip("abc", words, strict=False)}
    widths |= {"d": out} | dict.fromkeys("tuvwxyz"[:temporaries], out)
    # A wave has 256 registers, and a pair may leave one unused in front of it.
    batch = 256 // sum(width + width // 2 for width in widths.values())
    parts = []
    for start in range(0, rows, batch):
        parts.append(
            _run(machine, lines, words, widths, range(start, min(rows, start + batch)), old, arch, mode, scalar)
        )
    flat = np.concatenate(parts)
    return np.ascontiguousarray(flat).view(result).reshape(-1)[:count]


def _words(source: np.ndarray, rows: int) -> np.ndarray:
    """uint32 (words per element, rows, lanes)."""
    wide = source if source.itemsize >= 4 else source.view(f"u{source.itemsize}").astype(np.uint32)
    flat = np.zeros(rows * LANES, dtype=wide.dtype)
    flat[: len(wide)] = wide
    return flat.view(np.uint32).reshape(rows, LANES, -1).transpose(2, 0, 1)


def _run(
    machine: Machine,
    lines: str,
    words: list[np.ndarray],
    widths: dict[str, int],
    rows: range,
    old: int,
    arch: str,
    mode: int,
    scalar: Mapping[int, int] | None,
) -> np.ndarray:
    body, vector, results, free = [], {}, [], 0
    for row in rows:
        names = {}
        for name, width in widths.items():
            # A pair starts at an even register.
            free += free % 2 if width == 2 else 0
            names[name] = f"v{free}" if width == 1 else f"v[{free}:{free + width - 1}]"
            if name in "abc":
                for word in range(width):
                    vector[free + word] = words["abc".index(name)][word, row]
            elif name == "d":
                results.append(range(free, free + width))
                vector |= dict.fromkeys(results[-1], np.full(LANES, old, dtype=np.uint32))
            free += width
        body.append(lines.format(**names))
    wave = machine.run("\n".join(body), arch=arch, vector=vector, scalar=scalar, mode=mode)
    return np.stack([wave.vector[list(registers)].T for registers in results])

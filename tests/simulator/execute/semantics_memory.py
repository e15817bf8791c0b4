"""Plain-numpy semantics of loads and stores that the tests of the memory families share."""

from __future__ import annotations

import numpy as np

FULL = (1 << 64) - 1
MASKS = (FULL, 0x123456789ABCDEF0, 1 << 63, 0)
LANES = np.arange(64)

# Suffix → dtype of the element, and the half of the register it replaces (None: extended to the whole register).
SMALL_LOADS: dict[str, tuple[type, int | None]] = {
    "ubyte": (np.uint8, None),
    "sbyte": (np.int8, None),
    "ushort": (np.uint16, None),
    "sshort": (np.int16, None),
    "ubyte_d16": (np.uint8, 0),
    "ubyte_d16_hi": (np.uint8, 1),
    "sbyte_d16": (np.int8, 0),
    "sbyte_d16_hi": (np.int8, 1),
    "short_d16": (np.int16, 0),
    "short_d16_hi": (np.int16, 1),
}
WORDS = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4}
LOADS = (*WORDS, *SMALL_LOADS)
# Suffix → bytes of the register that are stored.
STORES: dict[str, slice] = {
    "byte": slice(0, 1),
    "byte_d16_hi": slice(2, 3),
    "short": slice(0, 2),
    "short_d16_hi": slice(2, 4),
    **{name: slice(0, 4 * words) for name, words in WORDS.items()},
}


def bits(mask: int) -> np.ndarray:
    """A lane mask as booleans."""
    return np.array([mask >> lane & 1 for lane in range(64)], dtype=bool)


def width_of_load(suffix: str) -> int:
    return 4 * WORDS[suffix] if suffix in WORDS else np.dtype(SMALL_LOADS[suffix][0]).itemsize


def width_of_store(suffix: str) -> int:
    chosen = STORES[suffix]
    return chosen.stop - chosen.start


def registers(name: str, words: int, first: int = 10) -> str:
    """Assembly text of a register operand."""
    return f"{name}{first}" if words == 1 else f"{name}[{first}:{first + words - 1}]"


def words_of(suffix: str) -> int:
    return WORDS.get(suffix, 1)


def loaded(suffix: str, data: np.ndarray, old: np.ndarray) -> np.ndarray:
    """(rows, 64) registers after loading (64, width) bytes into active lanes."""
    if suffix in WORDS:
        return np.ascontiguousarray(data).view(np.uint32).T
    dtype, half = SMALL_LOADS[suffix]
    values = np.ascontiguousarray(data).view(dtype)[:, 0].astype(np.int64)
    if half is None:
        return values.astype(np.uint32)[None]
    halves = old[0].copy().view(np.uint16).reshape(64, 2)
    halves[:, half] = values.astype(np.uint16)
    return halves.view(np.uint32).T


def stored(suffix: str, rows: np.ndarray) -> np.ndarray:
    """(64, width) bytes that (rows, 64) registers store."""
    return np.ascontiguousarray(rows.T.astype(np.uint32)).view(np.uint8)[:, STORES[suffix]]


def read(memory: np.ndarray, offsets: np.ndarray, width: int, active: np.ndarray) -> np.ndarray:
    """(64, width) bytes at the offsets of the active lanes, 0 elsewhere."""
    result = np.zeros((64, width), dtype=np.uint8)
    for lane in np.flatnonzero(active):
        result[lane] = memory[int(offsets[lane]) : int(offsets[lane]) + width]
    return result


def write(memory: np.ndarray, offsets: np.ndarray, data: np.ndarray, active: np.ndarray) -> np.ndarray:
    """A copy of the memory after the active lanes wrote, in lane order."""
    result = memory.copy()
    for lane in np.flatnonzero(active):
        result[int(offsets[lane]) : int(offsets[lane]) + data.shape[1]] = data[lane]
    return result


def patterns(rng: np.random.Generator, width: int, span: int) -> list[np.ndarray]:
    """Byte offsets of 64 lanes: consecutive, descending, unaligned, all the same."""
    return [
        64 + LANES * width,
        64 + LANES[::-1] * width,
        rng.integers(0, span - width, 64),
        np.full(64, 32),
    ]


def split(values: np.ndarray, low: int) -> dict[int, np.ndarray]:
    """64-bit lane values as two registers from ``low`` on."""
    wide = values.astype(np.uint64)
    return {low: (wide & np.uint64(0xFFFFFFFF)).astype(np.uint32), low + 1: (wide >> np.uint64(32)).astype(np.uint32)}


def transposed(data: np.ndarray, width: int) -> np.ndarray:
    """(64, bytes) after every 16 lanes, taken as rows of 16 elements of ``width`` bits, gave column q to lane q."""
    bits = np.unpackbits(data, axis=1, bitorder="little")
    groups = bits.reshape(4, -1, 16, width)
    return np.packbits(groups.transpose(0, 2, 1, 3).reshape(64, -1), axis=1, bitorder="little")

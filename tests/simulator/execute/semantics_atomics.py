"""What atomics make of the old value and the data, in plain Python: written from the ISA text."""

from __future__ import annotations

import struct
from collections.abc import Callable

import ml_dtypes
import numpy as np

Meaning = Callable[..., int]


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def unpack(value: int, width: int) -> float:
    return struct.unpack("<f" if width == 32 else "<d", value.to_bytes(width // 8, "little"))[0]


def pack(value: float, width: int) -> int:
    return int.from_bytes(np.array(value, dtype=np.float32 if width == 32 else np.float64).tobytes(), "little")


def float_sum(old: int, data: int, width: int) -> int:
    kind = np.float32 if width == 32 else np.float64
    with np.errstate(all="ignore"):
        return pack(kind(unpack(old, width)) + kind(unpack(data, width)), width)


def float_extreme(old: int, data: int, width: int, *, largest: bool) -> int:
    a, b = unpack(old, width), unpack(data, width)
    if a != a or b != b:
        return data if a != a else old
    if a == b:  # zeros of either sign
        return max(old, data) if not largest else min(old, data)
    return old if (a > b) == largest else data


def pair_sum(old: int, data: int, kind: type) -> int:
    a, b = (np.array([value & 0xFFFF, value >> 16], dtype=np.uint16).view(kind) for value in (old, data))
    with np.errstate(all="ignore"):
        return int((a + b).astype(kind).view(np.uint16).astype(np.uint32) @ np.array([1, 1 << 16], dtype=np.uint32))


INTEGERS: dict[str, Meaning] = {
    "add": lambda old, data, width: old + data,
    "sub": lambda old, data, width: old - data,
    "and": lambda old, data, width: old & data,
    "or": lambda old, data, width: old | data,
    "xor": lambda old, data, width: old ^ data,
    "swap": lambda old, data, width: data,
    "smin": lambda old, data, width: min((old, data), key=lambda v: signed(v, width)),
    "smax": lambda old, data, width: max((old, data), key=lambda v: signed(v, width)),
    "umin": lambda old, data, width: min(old, data),
    "umax": lambda old, data, width: max(old, data),
    "inc": lambda old, data, width: 0 if old >= data else old + 1,
    "dec": lambda old, data, width: data if old == 0 or old > data else old - 1,
}
FLOATS: dict[str, tuple[Meaning, int]] = {
    "add_f32": (float_sum, 32),
    "add_f64": (float_sum, 64),
    "min_f64": (lambda old, data, width: float_extreme(old, data, width, largest=False), 64),
    "max_f64": (lambda old, data, width: float_extreme(old, data, width, largest=True), 64),
    "pk_add_f16": (lambda old, data, width: pair_sum(old, data, np.float16), 32),
    "pk_add_bf16": (lambda old, data, width: pair_sum(old, data, ml_dtypes.bfloat16), 32),
}
GLOBAL: list[tuple[str, Meaning, int]] = [
    *((name + tail, meaning, width) for tail, width in (("", 32), ("_x2", 64)) for name, meaning in INTEGERS.items()),
    *((name, meaning, width) for name, (meaning, width) in FLOATS.items()),
]
LDS_NAMES = {
    "add": ("add", "u"),
    "sub": ("sub", "u"),
    "inc": ("inc", "u"),
    "dec": ("dec", "u"),
    "smin": ("min", "i"),
    "smax": ("max", "i"),
    "umin": ("min", "u"),
    "umax": ("max", "u"),
    "and": ("and", "b"),
    "or": ("or", "b"),
    "xor": ("xor", "b"),
}


def lds_opcodes() -> list[tuple[str, Meaning, int]]:
    """Base name with ``{}`` where ``_rtn`` goes."""
    found: list[tuple[str, Meaning, int]] = []
    for width in (32, 64):
        found += [(f"{LDS_NAMES[n][0]}{{}}_{LDS_NAMES[n][1]}{width}", INTEGERS[n], width) for n in LDS_NAMES]
        found.append((f"rsub{{}}_u{width}", lambda old, data, width: data - old, width))
        found.append((f"add{{}}_f{width}", float_sum, width))
        for name, largest in (("min", False), ("max", True)):
            meaning = lambda old, data, width, largest=largest: float_extreme(old, data, width, largest=largest)  # noqa: E731
            found.append((f"{name}{{}}_f{width}", meaning, width))
    found += [(f"pk_add{{}}_{kind}", FLOATS[f"pk_add_{kind}"][0], 32) for kind in ("f16", "bf16")]
    return found


def simulate(
    memory: np.ndarray, offsets: np.ndarray, active: np.ndarray, width: int, update: Callable[[int, int], int]
) -> tuple[np.ndarray, list[int]]:
    """Memory afterwards, and the old value of each active lane (0 elsewhere)."""
    result, olds = memory.copy(), [0] * 64
    size = width // 8
    for lane in np.flatnonzero(active):
        place = slice(int(offsets[lane]), int(offsets[lane]) + size)
        olds[lane] = int.from_bytes(result[place].tobytes(), "little")
        new = update(olds[lane], int(lane)) & ((1 << width) - 1)
        result[place] = np.frombuffer(new.to_bytes(size, "little"), dtype=np.uint8)
    return result, olds

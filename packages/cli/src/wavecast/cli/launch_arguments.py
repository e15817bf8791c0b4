"""The grammar of ``--arg``: what a kernel is launched with, from words to arrays and bytes.

::

    buf:SIZE[:DTYPE[:FILL]]   a buffer; SIZE in elements, or in bytes with a unit (4096B, 64KiB, 4MB)
    npy:PATH                  a buffer with the content of a .npy file
    same:N                    the buffer of argument N (from 0) once more
    null                      a null pointer
    DTYPE:VALUE               a scalar: i32:5, f32:0.5
    VALUE                     a scalar of the type that the kernel's symbol tells
    hex:DIGITS                bytes of a structure that is passed by value

FILL is zeros (the default), ones, index, random, random=SEED, below=LIMIT or a number.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wavecast.cli.errors import CliError, misuse

if TYPE_CHECKING:
    import numpy as np

# Bytes of an element, and how numpy holds it; brain floats are the upper half of single precision.
DTYPES = {
    "f64": (8, "<f8"),
    "f32": (4, "<f4"),
    "f16": (2, "<f2"),
    "bf16": (2, "<u2"),
    "i64": (8, "<i8"),
    "i32": (4, "<i4"),
    "i16": (2, "<i2"),
    "i8": (1, "<i1"),
    "u64": (8, "<u8"),
    "u32": (4, "<u4"),
    "u16": (2, "<u2"),
    "u8": (1, "<u1"),
}
_CPP_TYPES = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "__half": "f16",
    "_Float16": "f16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "bool": "u8",
    "char": "i8",
    "signed char": "i8",
    "unsigned char": "u8",
    "short": "i16",
    "unsigned short": "u16",
    "int": "i32",
    "unsigned int": "u32",
    "long": "i64",
    "unsigned long": "u64",
    "long long": "i64",
    "unsigned long long": "u64",
}
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|[KMG]i?B)?$")
_WORDS = {"true": 1, "false": 0}
GRAMMAR = "buf:SIZE[:DTYPE[:FILL]], npy:PATH, same:N, null, DTYPE:VALUE, VALUE or hex:DIGITS"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One explicit argument that a kernel takes.

    Attributes:
        name: In the source; its number where the compiler has not kept it.
        is_pointer: Whether it is the address of a buffer.
        size: Bytes in the kernel-argument segment.
        type: C++ type, None where neither symbol nor metadata says.
    """

    name: str
    is_pointer: bool
    size: int
    type: str | None

    @property
    def dtype(self) -> str | None:
        """Element or scalar type in the spelling of ``DTYPES``, None if it is none of these or unknown."""
        plain = (self.type or "").replace("const", "").replace("volatile", "").replace("restrict", "")
        return _CPP_TYPES.get(" ".join(plain.rstrip("* &").split()))

    def __str__(self) -> str:
        kind = self.type or ("a buffer" if self.is_pointer else f"{self.size} bytes by value")
        return f"{self.name}: {kind}"


def bind(kernel: str, parameters: Sequence[Parameter], words: Sequence[str]) -> list[np.ndarray | int | bytes]:
    """The values of a launch: arrays for buffers, 0 for null pointers, bytes for everything by value.

    Args:
        kernel: For messages.
        parameters: What the kernel takes.
        words: What ``--arg`` gave, in the order of the parameters.

    Raises:
        CliError: The number of words is another one, or a word does not fit its parameter.
    """
    if len(words) != len(parameters):
        wanted = ", ".join(map(str, parameters)) or "none"
        raise misuse(
            f"{kernel} takes {_count(len(parameters))}, {len(words)} given with --arg",
            hint=f"it takes, in this order: {wanted}",
        )
    values: list[np.ndarray | int | bytes] = []
    for position, (parameter, word) in enumerate(zip(parameters, words, strict=True)):
        try:
            if parameter.is_pointer:
                values.append(_buffer(parameter, word, position=position, earlier=values))
            else:
                values.append(_scalar(parameter, word))
        except _WordError as error:
            raise misuse(f"--arg {word}, for {parameter}: {error}", hint=f"give {GRAMMAR}") from None
    return values


class _WordError(Exception):
    """What is wrong with a word."""


def _count(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


def _buffer(
    parameter: Parameter, word: str, *, position: int, earlier: Sequence[np.ndarray | int | bytes]
) -> np.ndarray | int:
    if word == "null":
        return 0
    kind, _, rest = word.partition(":")
    if kind == "same":
        if not rest.isdigit() or int(rest) >= position or isinstance(earlier[int(rest)], bytes):
            raise _WordError("same:N names an earlier argument that is a buffer, counted from 0")
        return earlier[int(rest)]  # type: ignore[return-value]
    if kind == "npy":
        return _load(Path(rest))
    if kind != "buf":
        raise _WordError("a buffer is wanted")
    size, _, rest = rest.partition(":")
    dtype, _, fill = rest.partition(":")
    dtype = dtype or parameter.dtype or "u8"
    if dtype not in DTYPES:
        raise _WordError(f"no element type is called {dtype!r}; possible: {', '.join(DTYPES)}")
    return _filled(_elements(size, dtype), dtype, fill or "zeros", seed=position)


def _elements(text: str, dtype: str) -> int:
    match = _SIZE.match(text)
    if match is None:
        raise _WordError(f"{text!r} is no size, as 4096 (elements), 64KiB or 4MB (bytes) are")
    number, unit = match.groups()
    if unit is None:
        if "." in number:
            raise _WordError(f"{text} elements; wanted a whole number")
        return int(number)
    size, width = float(number) * _UNITS[unit], DTYPES[dtype][0]
    if size % width:
        raise _WordError(f"{text} is no whole number of {dtype} elements of {width} bytes")
    return int(size) // width


def _filled(count: int, dtype: str, fill: str, *, seed: int) -> np.ndarray:
    import numpy as np

    word, _, given = fill.partition("=")
    is_float = "f" in dtype
    try:
        array: np.ndarray
        if word == "zeros":
            return np.zeros(count, dtype=DTYPES[dtype][1])
        if word == "ones":
            array = np.ones(count)
        elif word == "index":
            array = np.arange(count, dtype=np.float64 if is_float else np.int64)
        elif word == "random":
            generator = np.random.default_rng(int(given) if given else seed)
            array = generator.uniform(-1, 1, count) if is_float else generator.integers(0, max(count, 1), count)
        elif word == "below":
            generator = np.random.default_rng(seed)
            array = generator.uniform(0, float(given), count) if is_float else generator.integers(0, int(given), count)
        else:
            array = np.full(count, float(fill) if is_float else int(fill, 0))
    except MemoryError as error:
        raise CliError(f"no room for a buffer of {count:,} {dtype} elements", hint="give smaller sizes") from error
    except (ValueError, OverflowError):
        raise _WordError(
            f"{fill!r} is no fill of {dtype}: zeros, ones, index, random, random=SEED, below=LIMIT or a number"
        ) from None
    if dtype == "bf16":
        return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return array.astype(DTYPES[dtype][1])


def _load(path: Path) -> np.ndarray:
    import numpy as np

    try:
        return np.ascontiguousarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise _WordError(f"{path} cannot be read as a .npy file: {error}") from None


def _scalar(parameter: Parameter, word: str) -> bytes:
    kind, colon, text = word.partition(":")
    if colon and kind == "hex":
        return _from_hex(parameter, text)
    if not colon:
        kind, text = parameter.dtype or _guess(parameter, word), word
    if kind not in DTYPES:
        raise _WordError(f"a value of {parameter.size} bytes is wanted")
    width = DTYPES[kind][0]
    known = parameter.dtype
    if width != parameter.size or (known is not None and ("f" in known) != ("f" in kind)):
        raise _WordError(f"{kind} has {width} bytes, {known or parameter.size} is wanted")
    return _pack(kind, text)


def _guess(parameter: Parameter, text: str) -> str:
    """Type of a plain number where nothing tells the parameter's: an integer, or with point or exponent a float."""
    if parameter.type is not None or parameter.size not in (1, 2, 4, 8):
        raise _WordError(f"its {parameter.size} bytes are no number: give hex:DIGITS")
    is_integer = text in _WORDS or re.fullmatch(r"[+-]?(0x[0-9a-fA-F]+|\d+)", text)
    sizes = {DTYPES[name][0]: name for name in (("i64", "i32", "i16", "i8") if is_integer else ("f64", "f32", "f16"))}
    if parameter.size not in sizes:
        raise _WordError(f"no float has {parameter.size} bytes")
    return sizes[parameter.size]


def _pack(dtype: str, text: str) -> bytes:
    try:
        if dtype == "bf16":
            return struct.pack("<f", float(text))[2:]
        if "f" in dtype:
            return struct.pack({"f64": "<d", "f32": "<f", "f16": "<e"}[dtype], float(text))
        number, width = _WORDS[text] if text in _WORDS else int(text, 0), DTYPES[dtype][0]
    except (ValueError, OverflowError, struct.error):
        raise _WordError(f"{text!r} is no {dtype}") from None
    if not -(1 << 8 * width - 1) <= number < 1 << 8 * width:
        raise _WordError(f"{number} does not fit {dtype}")
    return (number % (1 << 8 * width)).to_bytes(width, "little")


def _from_hex(parameter: Parameter, digits: str) -> bytes:
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise _WordError(f"{digits!r} are no hexadecimal digits") from None
    if len(data) != parameter.size:
        raise _WordError(f"{len(data)} bytes given, {parameter.size} wanted")
    return data

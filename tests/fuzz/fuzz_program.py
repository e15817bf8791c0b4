"""A straight line of instructions, and the registers and memory that it leaves behind by a model on plain numpy.

Each entry of a family (``fuzz_vector.py``, ``fuzz_scalar.py``, ``fuzz_memory.py``) appends an instruction and does to
``state`` what the ISA text says. The engine then runs the text on the same registers, and every register and byte must
be equal: one that an instruction should not have touched is found as well.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "simulator" / "execute"))

from inputs import words
from semantics_float import floats

LANES = 64
FULL = (1 << LANES) - 1
_WORD = 0xFFFFFFFF
MODE = 0x2F0 | 1 << 8
SATURATE = 1 << 23
# Registers that hold inputs: words, pairs of any bits, singles, pairs that are doubles, two halves each.
WORDS, PAIRS, SINGLES, DOUBLES, HALVES = range(0, 12), range(12, 24, 2), range(24, 36), range(36, 52, 2), range(52, 60)
FIRST_RESULT, LAST_RESULT = 64, 255
# Scalar registers: words, pairs, singles, doubles; what a program keeps EXEC in; results.
S_WORDS, S_PAIRS, S_SINGLES, S_DOUBLES = range(0, 12), range(12, 20, 2), range(20, 26), range(26, 32, 2)
S_EXEC, S_FIRST_RESULT, S_LAST_RESULT = 32, 34, 91
LDS_BYTES, GLOBAL_BYTES, SCRATCH_BYTES = 2048, 2048, 256
MASKS = (FULL, FULL, 0x8000_0001_F0F0_1234, 0x123456789ABCDEF0, 1 << 63, 0xFFFFFFFF)
FLOAT_TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
INLINE_FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)


class Full(Exception):  # noqa: N818 - not an error: the program is as long as registers allow
    """No register is left for another result."""


@dataclass(slots=True)
class State:
    """Registers and memory.

    Attributes:
        vector: uint32 (256, 64).
        scalar: Words of the scalar registers 0…101.
        vcc: Lane mask; ``exec`` likewise.
        scc: 0 or 1.
        m0: Word.
        lds: uint8 (LDS_BYTES,); ``memory`` and ``scratch`` (64, SCRATCH_BYTES) likewise.
    """

    vector: np.ndarray
    scalar: list[int]
    vcc: int
    exec: int
    scc: int
    m0: int
    lds: np.ndarray
    memory: np.ndarray
    scratch: np.ndarray

    def copy(self) -> State:
        return State(
            self.vector.copy(), list(self.scalar), self.vcc, self.exec, self.scc, self.m0,
            self.lds.copy(), self.memory.copy(), self.scratch.copy(),
        )  # fmt: skip


@dataclass(slots=True)
class Program:
    """A program while it is written.

    Attributes:
        rng: Decides everything.
        arch: Architecture.
        mode: MODE register.
        start: Before the first instruction.
        state: After the last one so far, by the model.
        lines: Assembly text.
        functions: What the program calls, behind its end.
        cases: Results of lanes so far.
        float_rows: First row of a result that is a float → its type; NaNs are equal there.
        float_memory: Whether memory holds floats of this type, which instructions changed.
        words: Vector registers that hold integers, chained results among them; ``s_words`` scalar ones.
        unchecked: Vector registers that hold addresses, which differ from run to run.
        atomic_kind: Type that the atomics of the program work on: empty for integers, None before the first.
    """

    rng: random.Random
    arch: str
    mode: int = MODE
    start: State = field(init=False)
    state: State = field(init=False)
    lines: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    cases: int = 0
    float_rows: dict[int, str] = field(default_factory=dict)
    float_memory: str = ""
    words: list[int] = field(default_factory=lambda: list(WORDS))
    unchecked: set[int] = field(default_factory=set)
    atomic_kind: str | None = None
    s_words: list[int] = field(default_factory=lambda: list(S_WORDS))
    _next: int = FIRST_RESULT
    _next_scalar: int = S_FIRST_RESULT

    def __post_init__(self) -> None:
        generator = np.random.default_rng(self.rng.getrandbits(32))
        vector = words(generator, (256, LANES))
        for rows, kind, per in ((SINGLES, "f32", 1), (DOUBLES, "f64", 1), (HALVES, "f16", 2)):
            for row in rows:
                values = floats(FLOAT_TYPES[kind], LANES * per, int(generator.integers(1 << 31)))
                parts = values.view(np.uint32).reshape(LANES, -1).T
                vector[row : row + len(parts)] = parts
        scalar = [int(word) for word in words(generator, 102)]
        for registers, kind in ((S_SINGLES, "f32"), (S_DOUBLES, "f64")):
            for register in registers:
                parts = floats(FLOAT_TYPES[kind], 1, int(generator.integers(1 << 31))).view(np.uint32)
                scalar[register : register + len(parts)] = [int(part) for part in parts]
        mask = self.rng.choice(MASKS)
        scalar[S_EXEC], scalar[S_EXEC + 1] = mask & _WORD, mask >> 32
        vcc = self.rng.getrandbits(64)
        memory = [generator.integers(0, 256, size, dtype=np.uint8) for size in (LDS_BYTES, GLOBAL_BYTES)]
        scratch = generator.integers(0, 256, (LANES, SCRATCH_BYTES), dtype=np.uint8)
        self.start = State(vector, scalar, vcc, mask, self.rng.randrange(2), scalar[0], *memory, scratch)
        self.state = self.start.copy()

    @property
    def text(self) -> list[str]:
        """All lines, functions behind the program's end."""
        return [*self.lines, "s_endpgm", *self.functions] if self.functions else self.lines

    @property
    def active(self) -> np.ndarray:
        """Active lanes, bool (64,)."""
        return lanes_of(self.state.exec)

    def results(self, count: int) -> int:
        """First of ``count`` fresh vector registers, even for a pair.

        Raises:
            Full: There are none.
        """
        first = self._next + (self._next % 2 if count > 1 else 0)
        if first + count > LAST_RESULT:
            raise Full
        self._next = first + count
        return first

    def scalar_results(self, count: int) -> int:
        """The same for scalar registers."""
        first = self._next_scalar + (-self._next_scalar % (4 if count > 2 else count))
        if first + count > S_LAST_RESULT:
            raise Full
        self._next_scalar = first + count
        return first

    def given(self, values: np.ndarray) -> int:
        """First of the vector registers that hold these words, (64,) or (registers, 64), from the beginning.

        Raises:
            Full: There are none.
        """
        rows = np.atleast_2d(values).astype(np.uint32)
        first = self.results(len(rows))
        for state in (self.start, self.state):
            state.vector[first : first + len(rows)] = rows
        return first

    def write(self, row: int, values: np.ndarray, lanes: np.ndarray | None = None, kind: str = "") -> None:
        """A result of 32 or 64 bits a lane goes to one or two rows; ``kind`` names the type of a float."""
        lanes = self.active if lanes is None else lanes
        parts = np.ascontiguousarray(values).view(np.uint32).reshape(LANES, -1).T
        for number, part in enumerate(parts):
            self.state.vector[row + number] = np.where(lanes, part, self.state.vector[row + number])
        if kind:
            self.float_rows[row] = kind
        self.cases += int(np.count_nonzero(lanes))

    def add(self, line: str) -> None:
        self.lines.append(line)

    def pair(self, row: int) -> np.ndarray:
        """Two rows as uint64 (64,)."""
        return np.ascontiguousarray(self.state.vector[row : row + 2].T).view(np.uint64)[:, 0]

    def set_scalar(self, register: int, value: int, count: int = 1) -> None:
        """Write one or two scalar registers; a case."""
        for number in range(count):
            self.state.scalar[register + number] = value >> 32 * number & _WORD
        self.cases += 1

    def scalar_pair(self, register: int) -> int:
        return self.state.scalar[register] | self.state.scalar[register + 1] << 32


def lanes_of(mask: int) -> np.ndarray:
    """A lane mask as bool (64,)."""
    return np.array([mask >> lane & 1 for lane in range(LANES)], dtype=bool)


def mask_of(lanes: np.ndarray) -> int:
    return sum(1 << int(lane) for lane in np.flatnonzero(lanes))


def v(first: int, count: int = 1) -> str:
    """Text of vector registers."""
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def s(first: int, count: int = 1) -> str:
    """Text of scalar registers."""
    return f"s{first}" if count == 1 else f"s[{first}:{first + count - 1}]"


def nan_class(values: np.ndarray, kind: str) -> np.ndarray:
    """Bit patterns (last axis: words of one value or, for halves, pairs) with every NaN made the same."""
    dtype = FLOAT_TYPES.get(kind, ml_dtypes.bfloat16)
    copied = np.ascontiguousarray(values).view(dtype).copy()
    with np.errstate(invalid="ignore"):
        nans = np.isnan(copied.astype(np.float64))
    raw = copied.view(f"u{np.dtype(dtype).itemsize}")
    raw[nans] = 0x7FFF
    return raw

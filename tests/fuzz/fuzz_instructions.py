"""Families of instructions: random straight-line programs on the engine against models on plain numpy."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_matrix
import fuzz_memory
import fuzz_scalar
import fuzz_vector
import numpy as np
from fuzz_program import LANES, MODE, SATURATE, Full, Program, nan_class
from fuzz_tally import Mismatch, Tally
from machine import Machine, Wave, kernel_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "simulator"))

from differential.choices import Choices, shrink

from wavecast.simulator.errors import SimulatorError
from wavecast.simulator.execute.helper_library import HelperLibrary
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.register_index import resolved_instructions
from wavecast.simulator.program.instruction import EXEC

Writer = Callable[[Program], None]
_vector, _scalar, _memory, _matrix = fuzz_vector, fuzz_scalar, fuzz_memory, fuzz_matrix
# Writers of one instruction each, by family; one that stands twice is taken twice as often.
FAMILIES: dict[str, tuple[Writer, ...]] = {
    "isa-integer": (_vector.integer,) * 6 + (_vector.dot, _vector.accumulating_dot),
    "isa-compare": (_vector.compare,) * 4 + (_vector.classify,),
    "isa-float": (_vector.floating,) * 5
    + (_vector.three_halves, _vector.halves, _vector.accumulate, _vector.scale, _vector.mixed, _vector.reduction),
    "isa-convert": (_vector.convert, _vector.small_floats, _vector.stochastic, _vector.pack),
    "isa-packed": (_vector.packed,),
    "isa-scalar": (_scalar.arithmetic,) * 4
    + (_scalar.compare, _scalar.constant, _scalar.save_exec, _scalar.mode_fields, _scalar.call, _scalar.clock),
    "isa-lanes": _memory.LANE_WRITERS,
    "isa-lds": _memory.LDS_WRITERS,
    "isa-memory": _memory.MEMORY_WRITERS,
    "isa-atomics": _memory.ATOMIC_WRITERS,
    "isa-matrix": (_matrix.product, _matrix.product, _matrix.blocks, _matrix.accumulators),
    "isa-approximate": (_vector.approximate,),
}
# Writers of opcodes that only gfx950 has.
_GFX950: dict[str, tuple[Writer, ...]] = {
    "isa-integer": (_vector.bitop3,),
    "isa-convert": (_vector.widen_scaled, _vector.narrow_scaled),
    "isa-matrix": (_matrix.scaled_product, _matrix.scaled_product),
    "isa-lanes": _memory.GFX950_LANE_WRITERS,
    "isa-lds": _memory.GFX950_LDS_WRITERS,
}
ATTEMPTS = 2000
_machine: Machine | None = None
# Random programs have forms of instructions that no kernel has: they do not stay in the user's cache.
_helpers: tempfile.TemporaryDirectory[str] | None = None


def write_program(family: str, arch: str, choices: Choices) -> Program:
    """The program of some choices."""
    mode = MODE | (SATURATE if family == "isa-convert" and choices.randrange(3) == 2 else 0)
    program = Program(choices, arch, mode)
    writers = FAMILIES[family] + (_GFX950.get(family, ()) if arch == "gfx950" else ())
    ends = False
    try:
        while not ends:
            # The shortest form of an instruction is the end of the program.
            with choices.span() as ends:
                if not ends:
                    choices.choice(writers)(program)
    except Full:
        pass
    return program


def execute(program: Program) -> Wave:
    """Registers and memory after the engine ran the program; global memory is in ``program.start.memory``."""
    global _machine, _helpers
    if _machine is None:
        _helpers = tempfile.TemporaryDirectory(prefix="wavecast-fuzz-helpers-")
        _machine = Machine(HelperLibrary(Path(_helpers.name)))
    start = program.start
    memory = AddressSpace()
    array = start.memory.copy()
    base = memory.map_array(array, "memory")
    vector, scalar = _memory.addressed(program, base)
    wave = _machine.run(
        "\n".join(program.text),
        arch=program.arch,
        vector=dict(enumerate(vector)),
        scalar=dict(enumerate(scalar)) | {124: start.m0},
        exec_mask=start.exec,
        scc=start.scc,
        vcc=start.vcc,
        mode=program.mode,
        lds=start.lds,
        scratch=start.scratch,
        memory=memory,
    )
    wave.memory = array  # type: ignore[attr-defined]
    return wave


def difference(program: Program) -> str:
    """What differs after a program; empty if nothing does."""
    try:
        wave = execute(program)
    except SimulatorError as error:
        return f"{type(error).__name__}: {error}"
    if wave.fault:
        return f"fault {wave.fault}"
    want = program.state
    found = []
    for row in range(256):
        got, expected = wave.vector[row], want.vector[row]
        kind = program.float_rows.get(row) or ("f64" if program.float_rows.get(row - 1) == "f64" else "")
        if kind == "f64" and program.float_rows.get(row) == "f64":
            got = np.ascontiguousarray(wave.vector[row : row + 2].T)
            expected = np.ascontiguousarray(want.vector[row : row + 2].T)
        elif kind == "f64":
            continue
        if kind:
            got, expected = nan_class(got, kind), nan_class(expected, kind)
        got, expected = got.reshape(LANES, -1), expected.reshape(LANES, -1)
        if row in program.unchecked or np.array_equal(got, expected):
            continue
        lane = int(np.flatnonzero((got != expected).any(axis=1))[0])
        found.append(f"v{row} lane {lane}: model {_hex(expected[lane])}, engine {_hex(got[lane])}")
    for register in range(102):
        value = int(wave.scalar[register])
        if value != want.scalar[register] and register not in _memory.ADDRESS_SCALARS:
            found.append(f"s{register}: model {want.scalar[register]:#x}, engine {value:#x}")
    mask = int(wave.scalar[EXEC]) | int(wave.scalar[EXEC + 1]) << 32
    for name, value, expected_value in (
        ("vcc", wave.vcc, want.vcc),
        ("exec", mask, want.exec),
        ("scc", wave.scc, want.scc),
    ):
        if value != expected_value:
            found.append(f"{name}: model {expected_value:#x}, engine {value:#x}")
    for name, got, expected in (
        ("LDS", wave.lds[: len(want.lds)], want.lds),
        ("memory", wave.memory, want.memory),  # type: ignore[attr-defined]
        ("scratch", wave.scratch.reshape(-1), want.scratch.reshape(-1)),
    ):
        if program.float_memory:
            got, expected = nan_class(got, program.float_memory), nan_class(expected, program.float_memory)
        places = np.flatnonzero(got != expected)
        if places.size:
            found.append(f"{name}[{places[0]}]: model {expected[places[0]]:#x}, engine {got[places[0]]:#x}")
    return "; ".join(found[:4])


def _hex(values: np.ndarray) -> str:
    return " ".join(f"{int(value):#x}" for value in values)


def executed_of(program: Program) -> Counter[str]:
    """How often the wave executed each opcode: a straight line runs once, and so does a function."""
    kernel = kernel_of("\n".join(program.text), arch=program.arch)
    return Counter(instruction.opcode for instruction in resolved_instructions(kernel, 256))


def run_batch(family: str, seeds: range, archs: tuple[str, ...]) -> dict[str, Tally]:
    """Run the programs of seeds on each architecture."""
    tallies = {}
    for arch in archs:
        tally = tallies[arch] = Tally()
        for seed in seeds:
            program = write_program(family, arch, Choices(seed))
            tally.note(executed_of(program), program.cases)
            if difference(program):
                tally.mismatches.append(_reduced(family, arch, seed))
    return tallies


def _reduced(family: str, arch: str, seed: int) -> Mismatch:
    def fails(choices: list[int]) -> Choices | None:
        taken = Choices(None, choices)
        return taken if difference(write_program(family, arch, taken)) else None

    first = Choices(seed)
    write_program(family, arch, first)
    program = write_program(family, arch, Choices(None, shrink(first, fails, attempts=ATTEMPTS)))
    message = difference(program)
    return Mismatch(family, arch, seed, message, entry=entry_of(program, message))


def _registers(line: str) -> set[int]:
    """Numbers of the vector registers in an instruction."""
    found = {int(number) for number in re.findall(r"\bv(\d+)", line)}
    for first, last in re.findall(r"\bv\[(\d+):(\d+)\]", line):
        found |= set(range(int(first), int(last) + 1))
    return found


def entry_of(program: Program, found: str) -> dict[str, Any]:
    """A program as the corpus keeps it: text, what stands in registers and memory before, and after by the model."""
    start, want = program.start, program.state
    used = {row for line in program.text for row in _registers(line)}
    changed = [row for row in range(256) if not np.array_equal(start.vector[row], want.vector[row])]
    return {
        "kind": "instructions",
        "found": found,
        "arch": program.arch,
        "lines": program.text,
        "mode": program.mode,
        "exec": f"{start.exec:#x}",
        "vcc": [f"{start.vcc:#x}", f"{want.vcc:#x}"],
        "scc": [start.scc, want.scc],
        "vector": {str(row): start.vector[row].tobytes().hex() for row in sorted({*used, *changed})},
        "result": {str(row): want.vector[row].tobytes().hex() for row in changed},
        "scalar": [start.scalar, want.scalar],
        "floats": {str(row): kind for row, kind in program.float_rows.items()},
        "float_memory": program.float_memory,
        "unchecked": sorted(program.unchecked),
        **{
            name: [getattr(start, name).tobytes().hex(), getattr(want, name).tobytes().hex()]
            for name in ("lds", "memory", "scratch")
            if not np.array_equal(getattr(start, name), getattr(want, name)) or _memory.reads(program.lines, name)
        },
    }


def program_of(entry: dict[str, Any]) -> Program:
    """The program of a corpus entry."""
    program = Program(Choices(None), entry["arch"], entry["mode"])
    start = program.start
    start.exec, start.vcc, start.scc = int(entry["exec"], 16), int(entry["vcc"][0], 16), entry["scc"][0]
    start.scalar = list(entry["scalar"][0])
    start.m0 = start.scalar[0]
    for row, text in entry["vector"].items():
        start.vector[int(row)] = np.frombuffer(bytes.fromhex(text), np.uint32)
    for name in ("lds", "memory", "scratch"):
        if name in entry:
            before = np.frombuffer(bytes.fromhex(entry[name][0]), np.uint8)
            getattr(start, name).reshape(-1)[:] = before
    want = program.state = start.copy()
    want.vcc, want.scc, want.scalar = int(entry["vcc"][1], 16), entry["scc"][1], list(entry["scalar"][1])
    for row, text in entry["result"].items():
        want.vector[int(row)] = np.frombuffer(bytes.fromhex(text), np.uint32)
    for name in ("lds", "memory", "scratch"):
        if name in entry:
            getattr(want, name).reshape(-1)[:] = np.frombuffer(bytes.fromhex(entry[name][1]), np.uint8)
    program.lines = list(entry["lines"])
    program.float_rows = {int(row): kind for row, kind in entry["floats"].items()}
    program.float_memory = entry["float_memory"]
    program.unchecked = set(entry["unchecked"])
    return program


def replay(entry: dict[str, Any]) -> str:
    """What differs on a corpus entry of instructions."""
    return difference(program_of(entry))

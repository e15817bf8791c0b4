"""Runs a function on the engine and on the CPU over the same values, and compares every byte that it wrote."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.program.assembly import parse_assembly

from .functions import Function
from .kinds import some_values
from .toolchain import assembly, shared_object

# Far above what a generated function needs.
_BUDGET = 20_000_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Functions that are compiled together.

    Attributes:
        functions: Generated functions.
        source: The C file.
        on_cpu: It, for this CPU.
    """

    functions: tuple[Function, ...]
    source: Path
    on_cpu: ctypes.CDLL


def build(functions: Iterable[Function], directory: Path) -> Batch:
    """Compile functions for this CPU; the directory is for them alone."""
    directory.mkdir(parents=True, exist_ok=True)
    batch = tuple(functions)
    source = directory / "functions.c"
    source.write_text("\n".join(function.source for function in batch))
    return Batch(batch, source, shared_object(source))


def arguments_of(function: Function) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arrays for the pointer parameters and arrays of one element for the scalar parameters."""
    rng = np.random.default_rng(function.seed)
    items = function.group_size * function.groups
    arrays = [some_values(rng, array.kind, array.length or array.per_item * items) for array in function.arrays]
    return arrays, [some_values(rng, kind, 1) for _, kind in function.scalars]


def on_cpu(batch: Batch, function: Function) -> list[np.ndarray]:
    """The arrays after the function ran on this CPU."""
    arrays, scalars = arguments_of(function)
    entry = getattr(batch.on_cpu, function.name)
    entry.restype = None
    values = [value.ctypes.data for value in (*arrays, *scalars)]
    # One array of addresses: ctypes could not pass half precision by value.
    entry(ctypes.c_uint32(function.groups), (ctypes.c_void_p * len(values))(*values))
    return arrays


def on_engine(engine: Engine, function: Function, text: str) -> tuple[list[np.ndarray], Counter[str]]:
    """The arrays after the engine ran the kernel of the function, and how often a wave executed each opcode."""
    arrays, scalars = arguments_of(function)
    kernel = parse_assembly(text, name=function.name)
    memory = AddressSpace()
    pointers = [
        memory.map_array(array, parameter.name) for array, parameter in zip(arrays, function.arrays, strict=True)
    ]
    execution = engine.execute(
        kernel,
        grid=(function.groups, 1, 1),
        arguments=[*pointers, *(value.tobytes() for value in scalars)],
        memory=memory,
        budget=_BUDGET,
    )
    executed: Counter[str] = Counter()
    for instruction, count in zip(kernel.instructions, execution.executed, strict=True):
        if count:
            executed[instruction.opcode] += int(count)
    return arrays, executed


def differences(function: Function, expected: list[np.ndarray], actual: list[np.ndarray]) -> list[str]:
    """One line for each array that differs; NaNs are equal to each other, whatever their bits."""
    lines = []
    for parameter, want, got in zip(function.arrays, expected, actual, strict=True):
        word = np.dtype(f"u{want.dtype.itemsize}")
        different = want.view(word) != got.view(word)
        if parameter.kind.is_float:
            different &= ~(np.isnan(want) & np.isnan(got))
        places = np.flatnonzero(different)
        if places.size:
            first = int(places[0])
            lines.append(
                f"{parameter.kind.name} {parameter.name}: {places.size} of {want.size} elements, first {first}: "
                f"CPU {want[first]!r} ({want.view(word)[first]:#x}), engine {got[first]!r} ({got.view(word)[first]:#x})"
            )
    return lines


def compile_for_gpu(batch: Batch, arch: str, level: str) -> str:
    """Assembly text with a kernel for each function of the batch."""
    return assembly(batch.source, arch, level)

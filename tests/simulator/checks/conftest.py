"""Compiles the kernels with planted faults once an architecture, and launches them one at a time under checks."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from wavecast.simulator.checks import Finding, mark_never_written
from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.devices import load_device
from wavecast.simulator.errors import InstructionBudgetError
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.launch import simulate_launch

SOURCE = Path(__file__).parent / "planted.hip"
DEVICES = {"gfx942": "mi300x", "gfx950": "mi355x"}


@dataclass(frozen=True)
class Run:
    """A checked launch.

    Attributes:
        findings: What was found.
        arrays: The arguments, after it.
        memory: Where they were mapped.
        error: Why it ended early, or None.
    """

    findings: tuple[Finding, ...]
    arrays: Mapping[str, np.ndarray]
    memory: AddressSpace
    error: InstructionBudgetError | None


@functools.lru_cache(maxsize=4)
def _codes(arch: str) -> dict[str, CodeObject]:
    return {code.name: code for code in compile_hip(SOURCE, arch=arch)}


@pytest.fixture
def planted() -> Callable[..., Run]:
    """Launches a kernel of the file: arrays by name, then integers, in the order of its arguments."""
    if shutil.which("hipcc") is None and importlib.util.find_spec("ziglang") is None:
        pytest.skip("neither hipcc nor ziglang is installed")

    def launch(
        name: str,
        *arguments: object,
        grid: int = 1,
        block: int = 64,
        arch: str = "gfx942",
        never_written: tuple[int, ...] = (),
        distances: tuple[tuple[int, int, int], ...] = (),
        keep: tuple[np.ndarray, ...] = (),
    ) -> Run:
        memory = AddressSpace()
        arrays, values = {}, []
        for position, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                if position in never_written:
                    mark_never_written(argument)
                arrays[f"argument {position}"] = argument
                values.append(memory.map_array(argument, f"argument {position}"))
            else:
                values.append(argument)
        # Reachable, and no argument.
        for number, array in enumerate(keep):
            memory.map_array(array, f"kept {number}")
        # An integer argument that leads from one array to another: (position, from, to), in words.
        for position, start, end in distances:
            values[position] = (values[end] - values[start]) // 4
        findings: tuple[Finding, ...]
        error = None
        try:
            result = simulate_launch(
                _codes(arch)[name],
                grid=(grid, 1, 1),
                block=(block, 1, 1),
                arguments=values,
                memory=memory,
                device=load_device(DEVICES[arch]),
                check=True,
            )
            findings = result.findings
        except InstructionBudgetError as stopped:
            findings, error = stopped.findings, stopped
        return Run(findings, arrays, memory, error)

    return launch

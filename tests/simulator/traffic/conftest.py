"""Kernels and records made by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.trace import RECORD
from wavecast.simulator.program.instruction import Instruction, ModifierValue, SourceLine
from wavecast.simulator.program.kernel import Kernel, Resources
from wavecast.simulator.traffic import Sample

# The compiled loops' plain twins stand beside the tests.
sys.path.insert(0, str(Path(__file__).parent))

ALL_LANES = (1 << 64) - 1
Text = str | tuple[str, dict[str, ModifierValue]]


def make_kernel(
    opcodes: Sequence[Text],
    *,
    arch: str = "gfx942",
    workgroup_size: int = 64,
    vgpr: int = 32,
    sgpr: int = 32,
    lds_bytes: int = 0,
) -> Kernel:
    instructions = []
    for index, text in enumerate(opcodes):
        opcode, modifiers = (text, {}) if isinstance(text, str) else text
        source = SourceLine("kernel.py", 10 + index)
        instructions.append(Instruction(index, opcode, "", (), modifiers, opcode, source))
    resources = Resources(vgpr, vgpr, 0, vgpr, sgpr, lds_bytes, 0, 0, 0)
    return Kernel("by_hand", arch, tuple(instructions), (0,), {}, (), 0, workgroup_size, resources)


def make_record(
    instruction: int,
    address: Sequence[int] | np.ndarray,
    *,
    workgroup: int = 0,
    wave: int = 0,
    exec_mask: int = ALL_LANES,
) -> np.ndarray:
    record = np.zeros(1, dtype=RECORD)
    record["instruction"], record["wave"], record["workgroup"] = instruction, wave, workgroup
    record["exec"] = np.uint64(exec_mask)
    record["address"] = np.asarray(address, dtype=np.uint64)
    return record


def make_execution(kernel: Kernel, workgroups: Sequence[int], total: int, executed: Sequence[int]) -> Execution:
    ids = np.asarray(workgroups, dtype=np.int64)
    per_workgroup = np.full(len(ids), max(1, sum(executed) // max(1, len(ids))), dtype=np.int64)
    return Execution(kernel, (total, 1, 1), ids, np.asarray(executed, dtype=np.int64), per_workgroup)


def make_sample(workgroups: Sequence[int] | np.ndarray, total: int) -> Sample:
    """Each run of consecutive ids is a cluster, and all workgroups are counted."""
    ids = np.asarray(workgroups, dtype=np.int64)
    clusters = np.cumsum(np.diff(ids, prepend=ids[0] - 1) != 1)
    return Sample(ids, clusters, np.ones(len(ids), dtype=np.bool_), total)


@pytest.fixture
def sample_of() -> Callable[..., Sample]:
    return make_sample


@pytest.fixture
def device() -> Device:
    return load_device("mi300x")


@pytest.fixture
def kernel_of() -> Callable[..., Kernel]:
    return make_kernel


@pytest.fixture
def record_of() -> Callable[..., np.ndarray]:
    return make_record


@pytest.fixture
def execution_of() -> Callable[..., Execution]:
    return make_execution

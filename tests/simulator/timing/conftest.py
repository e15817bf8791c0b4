"""Kernels and traffic made by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.runs import straight_runs
from wavecast.simulator.program.instruction import Instruction, SourceLine
from wavecast.simulator.program.kernel import Kernel, Resources
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, Traffic, residency

sys.path.insert(0, str(Path(__file__).parent))

# The same examples in every run: what fails here fails everywhere.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def make_kernel(texts: Sequence[str], *, arch: str = "gfx942", workgroup_size: int = 256, vgpr: int = 32) -> Kernel:
    instructions = tuple(
        Instruction(index, text.split()[0], "", (), {}, text, SourceLine("kernel.py", 10 + index))
        for index, text in enumerate(texts)
    )
    resources = Resources(vgpr, vgpr, 0, vgpr, 32, 0, 0, 0, 0)
    return Kernel("by_hand", arch, instructions, (0,), {}, (), 0, workgroup_size, resources)


def make_execution(kernel: Kernel, workgroups: int, *, work: Sequence[int] | None = None) -> Execution:
    waves = kernel.workgroup_size // 64
    executed = np.full(len(kernel.instructions), workgroups * waves, dtype=np.int64)
    per_workgroup = np.full(workgroups, waves * len(kernel.instructions)) if work is None else np.asarray(work)
    runs = straight_runs(0, waves, len(kernel.instructions))
    ids = np.arange(workgroups, dtype=np.int64)
    return Execution(kernel, (workgroups, 1, 1), ids, executed, per_workgroup.astype(np.int64), runs=runs)


def row(index: int, opcode: str, kind: AccessKind, executed: int, **counts: int) -> InstructionTraffic:
    empty = InstructionTraffic(
        index=index,
        opcode=opcode,
        source=SourceLine("kernel.py", 10 + index),
        kind=kind,
        executed=executed,
        lanes=64 * executed,
        bytes_asked=256 * executed,
        distinct_bytes=256 * executed,
        segments=4 * executed,
        lines=2 * executed,
        quad_clk=16 * executed,
        run_clk=4 * executed,
        requests=4 * executed,
        partial_requests=0,
        sectors=8 * executed,
        l2_requests=2 * executed,
        l2_bytes=256 * executed,
        l1_hits=0,
        l2_hits=0,
        mall_hits=0,
        l2_joined=0,
        mall_joined=0,
        lds_clk=0,
        lds_conflict_clk=0,
        cost_us=0.0,
    )
    if "l2_requests" in counts:
        counts.setdefault("l2_bytes", 128 * counts["l2_requests"])
    return replace(empty, **counts)  # type: ignore[arg-type]


def make_traffic(kernel: Kernel, device: Device, workgroups: int, **changes: object) -> Traffic:
    """Traffic of a kernel that reads and writes a dword a lane."""
    waves = workgroups * kernel.workgroup_size // 64
    size = 256 * waves
    rows = tuple(
        row(i.index, i.opcode, AccessKind.STORE if "store" in i.opcode else AccessKind.LOAD, waves)
        for i in kernel.instructions
        if i.opcode.startswith("global_")
    )
    traffic = Traffic(
        kernel=kernel.name,
        workgroups=workgroups,
        executed_workgroups=workgroups,
        sampling_error=0.0,
        residency=residency(kernel, device),
        bytes_asked=2 * size,
        l2_read_requests=size // 128,
        l2_read_bytes=size,
        l2_write_requests=size // 64,
        l2_write_bytes=size,
        l2_partial_write_requests=0,
        l1_hit_rate=0.0,
        l2_hit_rate=0.0,
        mall_hit_rate=0.0,
        fabric_read_bytes=size,
        fabric_write_requests=size // 64,
        fabric_write_bytes=size,
        last_write_back_bytes=0,
        hbm_read_bytes=size,
        hbm_write_bytes=size,
        minimum_read_bytes=size,
        minimum_write_bytes=size,
        footprint_bytes=2 * size,
        rewritten_share=0.0,
        coalescing_efficiency=1.0,
        channel_imbalance=1.0,
        atomic_requests=0,
        hot_line_atomics=0,
        scratch_bytes=0,
        lds_clk=0,
        lds_conflict_clk=0,
        release_fences=0,
        acquire_fences=0,
        dirty_lines_per_xcd=0.0,
        instructions=rows,
    )
    return replace(traffic, **changes)  # type: ignore[arg-type]


COPY = (
    "s_load_dwordx4 s[0:3], s[4:5], 0x0",
    "s_waitcnt lgkmcnt(0)",
    "v_lshlrev_b32_e32 v0, 2, v0",
    "global_load_dword v1, v0, s[0:1]",
    "s_waitcnt vmcnt(0)",
    "global_store_dword v0, v1, s[2:3]",
    "s_endpgm",
)


@pytest.fixture
def device() -> Device:
    return load_device("mi300x")


@pytest.fixture
def copy_kernel() -> Kernel:
    return make_kernel(COPY)


@pytest.fixture
def kernel_of() -> Callable[..., Kernel]:
    return make_kernel


@pytest.fixture
def execution_of() -> Callable[..., Execution]:
    return make_execution


@pytest.fixture
def traffic_of() -> Callable[..., Traffic]:
    return make_traffic

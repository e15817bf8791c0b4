"""What the instructions of a compiled kernel are: how many of which kind, and how wide its memory accesses are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

INSPECT_SCHEMA = "wavecast.inspect/1"


class Group(StrEnum):
    """Kinds of instruction, in the order in which they are shown."""

    GLOBAL_LOAD = "global load"
    GLOBAL_STORE = "global store"
    GLOBAL_ATOMIC = "global atomic"
    FENCE_RELEASE = "fence release"
    FENCE_ACQUIRE = "fence acquire"
    LDS = "LDS"
    SCALAR_LOAD = "scalar load"
    MATRIX = "matrix"
    VECTOR = "vector"
    SCALAR = "scalar"
    BRANCH = "branch"
    BARRIER = "barrier"
    WAIT = "wait"


MEMORY_GROUPS = (Group.GLOBAL_LOAD, Group.GLOBAL_STORE, Group.GLOBAL_ATOMIC, Group.LDS, Group.SCALAR_LOAD)

# First match wins, so the special cases stand before the general ones.
_PATTERNS: tuple[tuple[str, Group], ...] = (
    (r"buffer_wbl2|buffer_wbinvl1", Group.FENCE_RELEASE),
    (r"buffer_inv", Group.FENCE_ACQUIRE),
    (r"(global|flat|buffer|scratch)_atomic_", Group.GLOBAL_ATOMIC),
    (r"(global|flat|buffer|scratch)_load_", Group.GLOBAL_LOAD),
    (r"(global|flat|buffer|scratch)_store_", Group.GLOBAL_STORE),
    (r"ds_", Group.LDS),
    (r"s_(buffer_)?load_", Group.SCALAR_LOAD),
    (r"v_(mfma|smfmac)_", Group.MATRIX),
    (r"s_(waitcnt|nop|sleep)", Group.WAIT),
    (r"s_barrier", Group.BARRIER),
    (r"s_(branch|cbranch_|endpgm|setpc|swappc)", Group.BRANCH),
    (r"s_", Group.SCALAR),
    (r"v_", Group.VECTOR),
)
_COMPILED = tuple((re.compile(pattern), group) for pattern, group in _PATTERNS)

_WIDTHS = (
    (re.compile(r"_[us]?byte(?:_|$)|_[bui]8(?:_|$)"), 1),
    (re.compile(r"_[us]?short(?:_|$)|_[bui]16(?:_|$)"), 2),
    (re.compile(r"_dword(?:_|$)|_[bui]32(?:_|$)"), 4),
    (re.compile(r"_dwordx2|_[bui]64(?:_|$)"), 8),
    (re.compile(r"_dwordx3|_b96$"), 12),
    (re.compile(r"_dwordx4|_b128$"), 16),
    (re.compile(r"_dwordx8"), 32),
    (re.compile(r"_dwordx16"), 64),
)
# Global atomics work on 4 bytes where the name does not say 8.
_WIDE_ATOMIC = re.compile(r"_x2$|_f64$|_b64$")


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """One opcode of a kernel.

    Attributes:
        group: Its kind.
        opcode: Base mnemonic.
        count: How often it stands in the code.
        lane_bytes: Bytes a lane moves with it; None if it moves none or the name does not say.
    """

    group: Group
    opcode: str
    count: int
    lane_bytes: int | None


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One compiled kernel.

    Attributes:
        name: Symbol.
        arch: ``gfx942`` or ``gfx950``.
        code_object: Content hash of the assembly text.
        toolchain: Compiler and version, if known.
        variant: Variant of the experiment that launched it; None for a kernel from a file.
        workgroup_size: Work-items a workgroup.
        vgpr: Vector registers a wave, accumulation registers included.
        sgpr: Scalar registers a wave.
        lds_bytes: LDS bytes a workgroup.
        spill_bytes: Private bytes a lane.
        instructions: Opcodes, by group and then by name.
    """

    name: str
    arch: str
    code_object: str
    toolchain: str | None
    variant: str | None
    workgroup_size: int
    vgpr: int
    sgpr: int
    lds_bytes: int
    spill_bytes: int
    instructions: tuple[InstructionCount, ...]

    def total(self, group: Group) -> int:
        """Static instructions of one group."""
        return sum(item.count for item in self.instructions if item.group is group)


def group_of(opcode: str) -> Group:
    """The kind of an opcode.

    Raises:
        ValueError: If it is no scalar, vector, memory or LDS instruction.
    """
    for pattern, group in _COMPILED:
        if pattern.match(opcode):
            return group
    raise ValueError(f"opcode {opcode!r} belongs to no known group of instructions")


def lane_bytes(opcode: str) -> int | None:
    """Bytes one lane (for a scalar load: the wave) moves with a memory instruction, None if the name does not say."""
    group = group_of(opcode)
    if group not in MEMORY_GROUPS:
        return None
    if group is Group.GLOBAL_ATOMIC:
        return 8 if _WIDE_ATOMIC.search(opcode) else 4
    # A transposing read (gfx950) says first how wide it is, then of what the elements are.
    wide = re.sub(r"_tr_b\d+$", "", opcode)
    width = next((width for pattern, width in _WIDTHS if pattern.search(wide)), None)
    pair = opcode.startswith(("ds_read2", "ds_write2"))
    return 2 * width if pair and width is not None else width


def count_instructions(opcodes: Iterable[str]) -> tuple[InstructionCount, ...]:
    """Count opcodes, one given per instruction of the kernel; the answer is ordered by group and then by name."""
    order = list(Group)
    counts = sorted(Counter(opcodes).items(), key=lambda item: (order.index(group_of(item[0])), item[0]))
    return tuple(InstructionCount(group_of(opcode), opcode, count, lane_bytes(opcode)) for opcode, count in counts)


def facts_to_json(kernels: Iterable[KernelFacts]) -> Mapping[str, Any]:
    """The document that ``inspect --json`` prints."""
    return {"schema": INSPECT_SCHEMA, "kernels": [asdict(kernel) for kernel in kernels]}

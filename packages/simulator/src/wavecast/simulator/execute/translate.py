"""From a parsed kernel to the table that the driver walks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.form import Bound, bind
from wavecast.simulator.execute.layout import Argument, Row, RowKind
from wavecast.simulator.execute.library import HelperLibrary, emit_module
from wavecast.simulator.execute.register_index import resolved_instructions
from wavecast.simulator.execute.registry import Operation, operation
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel

_BRANCHES = {
    "s_branch": RowKind.BRANCH,
    "s_cbranch_scc0": RowKind.BRANCH_SCC0,
    "s_cbranch_scc1": RowKind.BRANCH_SCC1,
    "s_cbranch_vccz": RowKind.BRANCH_VCCZ,
    "s_cbranch_vccnz": RowKind.BRANCH_VCCNZ,
    "s_cbranch_execz": RowKind.BRANCH_EXECZ,
    "s_cbranch_execnz": RowKind.BRANCH_EXECNZ,
}
# Opcodes that change nothing but time: memory operations complete at once here.
_TIMING_ONLY = frozenset(
    {
        "s_waitcnt",
        "s_waitcnt_vscnt",
        "s_nop",
        "s_sleep",
        "s_setprio",
        "s_sethalt",
        "s_inst_prefetch",
        "s_clause",
        "s_dcache_inv",
        "s_dcache_wb",
        "s_icache_inv",
        "s_code_end",
        "s_ttracedata",
        "s_sched_barrier",
        "buffer_inv",
        "buffer_wbl2",
        "buffer_wbinvl1",
        "v_nop",
    }
)


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel ready to run.

    Attributes:
        kernel: What was translated.
        table: int64 (instructions, Row.SIZE).
        vector_rows: Rows of vector registers a wave needs.
    """

    kernel: Kernel
    table: np.ndarray
    vector_rows: int

    def forget_buffers(self) -> None:
        """Clear each row's memory of the buffer it touched last."""
        first = Row.ARGUMENTS + Argument.BUFFER_BASE
        self.table[:, first : first + 3] = 0


def accumulation_row(kernel: Kernel) -> int:
    """Row of the first accumulation register."""
    return max(kernel.resources.arch_vgpr, 1)


def translate(kernel: Kernel, library: HelperLibrary) -> Program:
    """Build the table of a kernel.

    Raises:
        UnsupportedInstructionError: Names every opcode that has no semantics, with its line and the architecture.
    """
    missing = unsupported(kernel)
    if missing:
        raise UnsupportedInstructionError(
            f"kernel {kernel.name} ({kernel.arch}) has instructions that cannot be executed here: {'; '.join(missing)}",
            hint="instruction facts are still available; executing it needs an entry for the opcode in execute/ops",
        )
    accum_row = accumulation_row(kernel)
    table = np.zeros((len(kernel.instructions), Row.SIZE), dtype=np.int64)
    bounds: dict[int, Bound] = {}
    for instruction in resolved_instructions(kernel, accum_row):
        kind = _special_kind(instruction)
        table[instruction.index, Row.ARGUMENTS + Argument.INSTRUCTION] = instruction.index
        if kind is not None:
            table[instruction.index, Row.KIND] = kind
            if instruction.target is not None:
                table[instruction.index, Row.TARGET] = instruction.target
            continue
        entry = operation(instruction.opcode)
        assert entry is not None
        table[instruction.index, Row.KIND] = entry.kind
        bounds[instruction.index] = _bind(instruction, entry, kernel)
    addresses = library.addresses({bound.form for bound in bounds.values()})
    for index, bound in bounds.items():
        table[index, Row.HELPER] = addresses[bound.form]
        table[index, Row.ARGUMENTS : Row.ARGUMENTS + len(bound.arguments)] = bound.arguments
    return Program(kernel, table, accum_row + max(kernel.resources.agpr, 0))


def unsupported(kernel: Kernel) -> list[str]:
    """One line per opcode of the kernel that has no semantics, with the first place it stands at."""
    missing: dict[str, Instruction] = {}
    for instruction in kernel.instructions:
        if _special_kind(instruction) is None and operation(instruction.opcode) is None:
            missing.setdefault(instruction.opcode, instruction)
    return [f"{i.text!r} (instruction {i.index}, {i.source or 'no source line'})" for i in missing.values()]


def unsupported_forms(kernel: Kernel) -> list[str]:
    """As ``unsupported``, but also emits every helper, which finds operand and modifier forms without semantics."""
    problems = unsupported(kernel)
    seen = set()
    for instruction in resolved_instructions(kernel, accumulation_row(kernel)):
        entry = operation(instruction.opcode)
        if _special_kind(instruction) is not None or entry is None:
            continue
        form = _bind(instruction, entry, kernel).form
        if form in seen:
            continue
        seen.add(form)
        try:
            emit_module([form])
        except UnsupportedInstructionError as error:
            problems.append(f"{instruction.text!r}: {error}")
    return problems


def _bind(instruction: Instruction, entry: Operation, kernel: Kernel) -> Bound:
    arch = kernel.arch if entry.by_architecture else ""
    return bind(instruction, entry.types, accumulation_row(kernel), arch=arch)


def _special_kind(instruction: Instruction) -> RowKind | None:
    opcode = instruction.opcode
    if opcode in _BRANCHES:
        return _BRANCHES[opcode]
    if opcode == "s_barrier":
        return RowKind.BARRIER
    if opcode == "s_endpgm":
        return RowKind.END
    return RowKind.SKIP if opcode in _TIMING_ONLY else None

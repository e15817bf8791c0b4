"""From a parsed kernel to the table that the driver walks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.errors import AssemblyError, UnknownDeviceError, UnsupportedInstructionError
from wavecast.simulator.execute.float_mode import flushes_single_denormals, follows_single_denormals, mode_register
from wavecast.simulator.execute.form import Bound, bind
from wavecast.simulator.execute.helper_library import HelperLibrary, emit_module
from wavecast.simulator.execute.layout import Argument, Row, RowKind
from wavecast.simulator.execute.link import link
from wavecast.simulator.execute.program import Program
from wavecast.simulator.execute.register_index import resolved_instructions
from wavecast.simulator.execute.registry import Operation, operation
from wavecast.simulator.program.instruction import Instruction, Register, RegisterFile
from wavecast.simulator.program.kernel import Kernel

EXECUTABLE_ARCHITECTURES = ("gfx942", "gfx950")
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


# What fills the space behind the end of a kernel.
_PADDING = frozenset({"s_code_end", "s_nop"})


@dataclass(frozen=True, slots=True)
class VectorRows:
    """How the vector registers of a wave lie in memory: ordinary ones first, accumulation registers behind them.

    Attributes:
        ordinary: Rows of ordinary registers, so also the row of the first accumulation register.
        total: All rows.
    """

    ordinary: int
    total: int

    @classmethod
    def of(cls, kernel: Kernel) -> VectorRows:
        """Rows for all registers that the compiler counted and for all that the instructions name.

        The counts alone will not do: they stand in comments, which text by hand or from a disassembler does not have.
        """
        ordinary, accumulation = max(kernel.resources.arch_vgpr, 1), kernel.resources.agpr
        for instruction in kernel.instructions:
            for operand in instruction.operands:
                register = operand.value
                if not isinstance(register, Register):
                    continue
                if register.file is RegisterFile.VECTOR:
                    ordinary = max(ordinary, register.index + register.count)
                elif register.file is RegisterFile.ACCUMULATION:
                    accumulation = max(accumulation, register.index + register.count)
        return cls(ordinary, ordinary + accumulation)


def translate(kernel: Kernel, library: HelperLibrary) -> Program:
    """Build the table of a kernel.

    Raises:
        UnsupportedInstructionError: Names every opcode that has no semantics, with its line and the architecture.
        AssemblyError: The kernel has no end.
        UnknownDeviceError: It is for an architecture whose instructions have other meanings.
        LaunchError: Its descriptor asks for a mode that the engine does not follow.
    """
    if kernel.arch not in EXECUTABLE_ARCHITECTURES:
        raise UnknownDeviceError(
            f"kernel {kernel.name} is for {kernel.arch}, which cannot be executed",
            hint=f"compile it for one of {', '.join(EXECUTABLE_ARCHITECTURES)}",
        )
    # First: such a kernel also has instructions that set the mode, which are not what has to be changed.
    mode_register(kernel)
    missing = unsupported(kernel)
    if missing:
        raise _refusal(kernel, missing)
    _check_end(kernel)
    rows, flushes = VectorRows.of(kernel), flushes_single_denormals(kernel)
    table = np.zeros((len(kernel.instructions), Row.SIZE), dtype=np.int64)
    bounds: dict[int, Bound] = {}
    image = link(kernel)
    for instruction in image.linked(resolved_instructions(kernel, rows.ordinary)):
        kind = _driver_kind(instruction)
        table[instruction.index, Row.ARGUMENTS + Argument.INSTRUCTION] = instruction.index
        if kind is not None:
            table[instruction.index, Row.KIND] = kind
            if instruction.target is not None:
                table[instruction.index, Row.TARGET] = instruction.target
            continue
        entry = operation(instruction.opcode)
        assert entry is not None
        table[instruction.index, Row.KIND] = entry.kind
        bounds[instruction.index] = _bind(instruction, entry, kernel, rows, flushes)
    try:
        addresses = library.addresses({bound.form for bound in bounds.values()})
    except UnsupportedInstructionError as error:
        # It only knows the form; the slow way round finds every instruction that has such a form.
        raise _refusal(kernel, unsupported_forms(kernel) or [str(error)]) from error
    for index, bound in bounds.items():
        table[index, Row.HELPER] = addresses[bound.form]
        table[index, Row.ARGUMENTS : Row.ARGUMENTS + len(bound.arguments)] = bound.arguments
    calls_host = bool((table[:, Row.KIND] == RowKind.MESSAGE).any())
    return Program(kernel, table, rows.total, image.constants, calls_host)


def unsupported(kernel: Kernel) -> list[str]:
    """One line per opcode of the kernel that has no semantics, with the first place it stands at."""
    missing: dict[str, Instruction] = {}
    for instruction in kernel.instructions:
        if _driver_kind(instruction) is None and operation(instruction.opcode) is None:
            missing.setdefault(instruction.opcode, instruction)
    return [_named(instruction) for instruction in missing.values()]


def unsupported_forms(kernel: Kernel) -> list[str]:
    """As ``unsupported``, but also emits every helper, which finds operand and modifier forms without semantics."""
    problems = unsupported(kernel)
    seen = set()
    rows, flushes = VectorRows.of(kernel), flushes_single_denormals(kernel)
    for instruction in link(kernel).linked(resolved_instructions(kernel, rows.ordinary)):
        entry = operation(instruction.opcode)
        if _driver_kind(instruction) is not None or entry is None:
            continue
        form = _bind(instruction, entry, kernel, rows, flushes).form
        if form in seen:
            continue
        seen.add(form)
        try:
            emit_module([form])
        except UnsupportedInstructionError as error:
            problems.append(f"{_named(instruction)}: {error}")
    return problems


def _named(instruction: Instruction) -> str:
    return f"{instruction.text!r} (instruction {instruction.index}, {instruction.source or 'no source line'})"


def _refusal(kernel: Kernel, problems: list[str]) -> UnsupportedInstructionError:
    return UnsupportedInstructionError(
        f"kernel {kernel.name} ({kernel.arch}) has instructions that cannot be executed here: {'; '.join(problems)}",
        hint="instruction facts are still available; executing it needs an entry for the opcode in execute/ops",
    )


def _check_end(kernel: Kernel) -> None:
    """Refuse a kernel that the driver could leave at the bottom of its table.

    Raises:
        AssemblyError: There is no instruction, or the last one that is not padding neither ends nor branches.
    """
    if not kernel.instructions:
        raise AssemblyError(f"kernel {kernel.name}: the text has no instruction between its label and its end")
    # Functions follow the kernel; they end with a jump to where they were called from.
    own = kernel.instructions[: min(kernel.functions.values(), default=len(kernel.instructions))]
    last = next((i for i in reversed(own) if i.opcode not in _PADDING), own[-1])
    branches_out = any(i.target is not None and i.target > last.index for i in own)
    if last.opcode not in ("s_endpgm", "s_branch", "s_setpc_b64") or branches_out:
        raise AssemblyError(
            f"kernel {kernel.name}: it runs past its last instruction, {last.text!r}",
            hint="a kernel ends with s_endpgm; is the text complete?",
        )


def _bind(instruction: Instruction, entry: Operation, kernel: Kernel, rows: VectorRows, flushes: bool) -> Bound:
    arch = kernel.arch if entry.by_architecture else ""
    by_mode = flushes and follows_single_denormals(entry.opcode, entry.types)
    return bind(instruction, entry.types, rows.ordinary, arch=arch, flushes_by_mode=by_mode)


def _driver_kind(instruction: Instruction) -> RowKind | None:
    """Kind of a row that the driver serves without a helper, or None."""
    opcode = instruction.opcode
    if opcode in _BRANCHES:
        return _BRANCHES[opcode]
    if opcode == "s_barrier":
        return RowKind.BARRIER
    if opcode == "s_endpgm":
        return RowKind.END
    if opcode == "s_sendmsg" and "sendmsg(MSG_INTERRUPT)" in instruction.text:
        return RowKind.MESSAGE
    return RowKind.SKIP if opcode in _TIMING_ONLY else None

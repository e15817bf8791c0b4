"""From a kernel in PTX to the table that the driver walks."""

from __future__ import annotations

import numpy as np

from wavecast.simulator.errors import AsynchronousKernelError, UnsupportedInstructionError
from wavecast.simulator.execute.form import Bound
from wavecast.simulator.execute.helper_library import HelperLibrary, emit_module
from wavecast.simulator.execute.layout import Argument, Row, RowKind
from wavecast.simulator.execute.link import Image, link
from wavecast.simulator.execute.program import Program
from wavecast.simulator.execute.ptx.bind import bind
from wavecast.simulator.execute.ptx.layout import WARP_LANES
from wavecast.simulator.execute.ptx.registers import Rows, allocate
from wavecast.simulator.execute.ptx.registry import warp_operation
from wavecast.simulator.program.instruction import WARP_END, WARP_WAIT, Immediate, Instruction
from wavecast.simulator.program.kernel import Kernel

# Memory operations complete at once here, and one thread executes a block: these change nothing but time.
_TIMING_ONLY = (
    *("membar", "fence", "nanosleep", "griddepcontrol", "setmaxnreg", "prefetch", "prefetchu", "applypriority"),
    *("discard", "createpolicy", "pmevent", "bar.warp.sync", "cp.async.commit_group", "cp.async.wait_group"),
    "cp.async.wait_all",
)
# What the tensor cores and the tensor memory accelerator do on their own.
_ASYNCHRONOUS = ("wgmma", "cp.async.bulk", "cp.reduce.async.bulk", "mbarrier", "tensormap", "tcgen05", "clusterlaunch")


def translate_ptx(kernel: Kernel, library: HelperLibrary) -> Program:
    """Build the table of a kernel.

    Raises:
        UnsupportedInstructionError: Names every opcode that has no semantics, with its line and the architecture.
    """
    _refuse_asynchronous(kernel)
    missing = unsupported(kernel)
    if missing:
        raise _refusal(kernel, missing)
    rows, image = allocate(kernel), link(kernel)
    table = np.zeros((len(kernel.instructions), Row.SIZE), dtype=np.int64)
    bounds: dict[int, Bound] = {}
    for instruction in kernel.instructions:
        row = table[instruction.index]
        row[Row.ARGUMENTS + Argument.INSTRUCTION] = instruction.index
        kind = _driver_kind(instruction, kernel)
        if kind is not None:
            row[Row.KIND] = kind
            if instruction.target is not None:
                row[Row.TARGET] = instruction.target
            continue
        entry = warp_operation(instruction.opcode)
        assert entry is not None
        row[Row.KIND] = entry.kind
        bounds[instruction.index] = bind(instruction, entry, rows.row, image.addresses)
    try:
        addresses = library.addresses({bound.form for bound in bounds.values()})
    except UnsupportedInstructionError as error:
        raise _refusal(kernel, _unsupported_forms(kernel, rows, image) or [str(error)]) from error
    for index, bound in bounds.items():
        table[index, Row.HELPER] = addresses[bound.form]
        table[index, Row.ARGUMENTS : Row.ARGUMENTS + len(bound.arguments)] = bound.arguments
    return Program(kernel, table, rows.total, image.constants, calls_host=False, lanes=WARP_LANES)


def unsupported(kernel: Kernel) -> list[str]:
    """One line per opcode of the kernel that has no semantics, with the first place it stands at."""
    missing: dict[str, Instruction] = {}
    for instruction in kernel.instructions:
        if _driver_kind(instruction, kernel) is None and warp_operation(instruction.opcode) is None:
            missing.setdefault(instruction.opcode, instruction)
    return [_named(instruction) for instruction in missing.values()]


def _unsupported_forms(kernel: Kernel, rows: Rows, image: Image) -> list[str]:
    problems: dict[str, str] = {}
    for instruction in kernel.instructions:
        entry = warp_operation(instruction.opcode)
        if _driver_kind(instruction, kernel) is not None or entry is None or instruction.opcode in problems:
            continue
        try:
            emit_module([bind(instruction, entry, rows.row, image.addresses).form])
        except UnsupportedInstructionError as error:
            problems[instruction.opcode] = f"{_named(instruction)}: {error}"
    return list(problems.values())


def _refuse_asynchronous(kernel: Kernel) -> None:
    """Refuse tensor-core products of a warp group and bulk copies, which run beside the warps.

    Raises:
        AsynchronousKernelError: Says how many there are, and where such a kernel's time comes from.
    """
    found = [i for i in kernel.instructions if i.opcode.startswith(_ASYNCHRONOUS)]
    if not found:
        return
    counts = {name: sum(i.opcode.startswith(name) for i in found) for name in _ASYNCHRONOUS}
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    raise AsynchronousKernelError(
        f"kernel {kernel.name} ({kernel.arch}) hands work to units that run beside its warps ({listed}; the first is "
        f"{_named(found[0])}), which is counted, but not executed here",
        hint="times of GEMMs on an H200 come from the analytical model: predict grouped-gemm or scaled-gemm with "
        "--device h200"
        if counts["wgmma"]
        else "measure it on the GPU, or predict a variant or shape that runs without the tensor memory accelerator",
    )


def _named(instruction: Instruction) -> str:
    return f"{instruction.text!r} (instruction {instruction.index}, {instruction.source or 'no source line'})"


def _refusal(kernel: Kernel, problems: list[str]) -> UnsupportedInstructionError:
    return UnsupportedInstructionError(
        f"kernel {kernel.name} ({kernel.arch}) has instructions that cannot be executed here: {'; '.join(problems)}",
        hint="instruction facts are still available; executing it needs an entry for the opcode in execute/ptx/ops",
    )


def _driver_kind(instruction: Instruction, kernel: Kernel) -> RowKind | None:
    """Kind of a row that the driver serves without a helper, or None."""
    opcode = instruction.opcode
    if opcode == WARP_END:
        return RowKind.END
    if opcode == WARP_WAIT:
        return RowKind.SKIP
    if opcode.startswith("bra") and "guard" not in instruction.modifiers:
        return RowKind.BRANCH
    if opcode.startswith(_TIMING_ONLY) and not opcode.startswith("cp.async.bulk"):
        return RowKind.SKIP
    if _is_block_barrier(instruction, kernel):
        return RowKind.BARRIER
    return None


def _is_block_barrier(instruction: Instruction, kernel: Kernel) -> bool:
    """Whether all warps of the block meet at barrier 0; others, and those of some warps only, have no semantics."""
    parts = instruction.opcode.split(".")
    if parts[0] not in ("bar", "barrier") or "sync" not in parts or "guard" in instruction.modifiers:
        return False
    values = [operand.value for operand in instruction.operands]
    numbers = [value.value for value in values if isinstance(value, Immediate)]
    if len(numbers) != len(values) or not numbers or numbers[0] != 0:
        return False
    return len(numbers) == 1 or numbers[1] == kernel.workgroup_size

"""The only module that touches the simulator: everything it returns is plain data of the command line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wavecast.cli.errors import CliError
from wavecast.cli.facts import KernelFacts, count_instructions


@contextmanager
def simulator_errors() -> Iterator[None]:
    """Turn the simulator's own errors into those of the command line, hint included."""
    from wavecast.simulator.errors import SimulatorError

    try:
        yield
    except SimulatorError as error:
        raise CliError(str(error), hint=error.hint) from error


def facts_of_file(path: Path, *, kernel: str | None = None) -> KernelFacts:
    """Instruction facts of a kernel in an assembly file.

    Args:
        path: AMDGCN assembly text, as Triton or ``clang -S`` writes it.
        kernel: Symbol; may be left out when the file has one kernel.
    """
    from wavecast.simulator.program.assembly import parse_assembly

    text = path.read_text()
    with simulator_errors():
        parsed = parse_assembly(text, name=kernel)
    return KernelFacts(
        name=parsed.name,
        arch=parsed.arch,
        code_object=hashlib.sha256(text.encode()).hexdigest()[:16],
        toolchain=None,
        variant=None,
        workgroup_size=parsed.workgroup_size,
        vgpr=parsed.resources.vgpr,
        sgpr=parsed.resources.sgpr,
        lds_bytes=parsed.resources.lds_bytes,
        spill_bytes=parsed.resources.scratch_bytes,
        instructions=count_instructions(instruction.opcode for instruction in parsed.instructions),
    )

"""What a kernel is made of, by its instructions; nothing is executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wavecast.cli.facts import Group, InstructionCount, KernelFacts
from wavecast.cli.simulate.errors import translated_errors

if TYPE_CHECKING:
    from wavecast.simulator.compile.code_object import CodeObject
    from wavecast.simulator.devices import Device
    from wavecast.simulator.program.kernel import Kernel


def facts_of_run(function: Callable[[], object], *, device: str, variant: str) -> list[KernelFacts]:
    """Instruction facts of every kernel that a function launches, each code object once; nothing is executed.

    Args:
        function: Launches Triton kernels on CPU tensors.
        device: Name of the device that they are compiled for.
        variant: Name to put on the facts.
    """
    from wavecast.simulator.virtual import virtual_device

    with translated_errors():
        with virtual_device(device, simulate=_compile_only) as virtual:
            function()
        codes = {launch.code_object.digest: launch.code_object for launch in virtual.launches}
        return [
            facts_of_kernel(
                parse_code(code),
                device=virtual.spec,
                digest=code.digest,
                toolchain=code.toolchain,
                variant=variant,
            )
            for code in codes.values()
        ]


def _compile_only(*_: object, **__: object) -> Any:
    """Stands for the simulator where only the code objects of the launches are wanted."""
    return None


def facts_of_kernel(
    parsed: Kernel, *, device: Device | None, digest: str, toolchain: str | None, variant: str | None
) -> KernelFacts:
    """Instruction facts of a parsed kernel.

    Args:
        parsed: The kernel.
        device: What its occupancy is asked of; None leaves that open.
        digest: Of its code object.
        toolchain: What compiled it.
        variant: Name to put on the facts.
    """
    from wavecast.simulator.timing import kernel_facts

    found = kernel_facts(parsed, device)
    return KernelFacts(
        name=parsed.name,
        arch=parsed.arch,
        code_object=digest,
        toolchain=toolchain,
        variant=variant,
        workgroup_size=parsed.workgroup_size,
        vgpr=parsed.resources.vgpr,
        sgpr=parsed.resources.sgpr,
        lds_bytes=parsed.resources.lds_bytes,
        spill_bytes=parsed.resources.scratch_bytes,
        waves_per_simd=found.residency.waves_per_simd if found.residency else None,
        instructions=tuple(
            InstructionCount(Group(str(item.group)), item.opcode, item.count, item.lane_bytes)
            for item in found.instructions
        ),
    )


def parse_code(code: CodeObject) -> Kernel:
    """The kernel of a code object."""
    from wavecast.simulator.program.assembly import parse_assembly

    return parse_assembly(code.assembly, name=code.name, lds_bytes=code.lds_bytes)

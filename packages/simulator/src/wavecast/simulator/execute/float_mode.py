"""MODE: what a kernel's descriptor sets it to, what its instructions may change, and who follows it.

Rounding is to nearest even, DX10_CLAMP and IEEE are on, and denormals of half and double precision are kept: entries
are written for that, and what asks for something else is refused. Two fields are read at run time: FP16_OVFL, and the
treatment of single-precision denormals. The latter only by the helpers of kernels that may flush them, so that all
others do not pay for it.
"""

from __future__ import annotations

import re

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.program.instruction import Instruction, Symbol
from wavecast.simulator.program.kernel import Kernel

# Bits of MODE. Denormals of single precision are kept in sources (else they are taken for zero), and in results.
KEEPS_SOURCE_DENORMALS, KEEPS_RESULT_DENORMALS = 4, 5
# Conversions to 8 bits and half-precision results saturate instead of overflowing.
FP16_OVFL = 23
FREE_BITS = 1 << FP16_OVFL | 1 << KEEPS_SOURCE_DENORMALS | 1 << KEEPS_RESULT_DENORMALS
"""Bits whose value is read at run time."""
IMPLEMENTED = 0x3F0
"""Bits 0 to 9 as entries are written for them: round 0-3, denormals 4-7, DX10_CLAMP 8, IEEE 9."""
_SINGLE_DENORMALS = 1 << KEEPS_SOURCE_DENORMALS | 1 << KEEPS_RESULT_DENORMALS
# Opcodes that MODE's treatment of single-precision denormals does not reach, whatever their operands: matrix and dot
# instructions, the test for a class of numbers, and conversions by a scale.
_DEAF = ("v_mfma_", "v_smfmac_", "v_dot", "v_cmp_class_", "v_cmpx_class_", "v_cvt_scalef32_")


def mode_register(kernel: Kernel) -> int:
    """Initial MODE, from the kernel descriptor.

    Raises:
        LaunchError: The kernel asks for a mode that the engine does not follow.
    """
    descriptor = kernel.descriptor
    rounding = descriptor.get("float_round_mode_32", 0) | descriptor.get("float_round_mode_16_64", 0) << 2
    wide = descriptor.get("float_denorm_mode_16_64", 3)
    if rounding or wide != 3:
        raise LaunchError(
            f"kernel {kernel.name} sets rounding {rounding:#x} and denormal mode {wide:#x} of half and double precision"
            "; only round-to-nearest-even (0x0) with those denormals kept (0x3) can be executed",
            hint="compile without -fdenormal-fp-math other than ieee, and without another rounding mode",
        )
    value = (descriptor.get("float_denorm_mode_32", 3) | wide << 2) << 4
    for name, bit in (("dx10_clamp", 8), ("ieee_mode", 9)):
        if not descriptor.get(name, 1):
            raise LaunchError(
                f"kernel {kernel.name} sets .amdhsa_{name} 0; only 1, the default for compute, can be executed",
                hint="compile without amdgpu-ieee=false and amdgpu-dx10-clamp=false",
            )
        value |= 1 << bit
    return value | descriptor.get("fp16_overflow", 0) << FP16_OVFL


def mode_field(text: str) -> tuple[int, int] | None:
    """First bit and size of the field of MODE that an ``hwreg(…)`` operand names; None if it names something else."""
    match = re.fullmatch(r"hwreg\(\s*(HW_REG_MODE|1)\s*(?:,\s*(\d+)\s*,\s*(\d+)\s*)?\)", text)
    return (int(match[2] or 0), int(match[3] or 32)) if match else None


def flushes_single_denormals(kernel: Kernel) -> bool:
    """Whether MODE may say so at some point of the kernel."""
    if kernel.descriptor.get("float_denorm_mode_32", 3) != 3:
        return True
    return any(_clears_single_denormals(instruction) for instruction in kernel.instructions)


def _clears_single_denormals(instruction: Instruction) -> bool:
    if not instruction.opcode.startswith("s_setreg_"):
        return False
    target, value = (operand.value for operand in instruction.operands)
    field = mode_field(target.text) if isinstance(target, Symbol) else None
    if field is None:
        return False
    first, size = field
    touched = ((1 << size) - 1) << first & _SINGLE_DENORMALS
    if instruction.opcode == "s_setreg_b32":
        return touched != 0
    return bool(touched & ~(int(getattr(value, "value", 0)) << first))


def follows_single_denormals(opcode: str, types: tuple[str, ...]) -> bool:
    """Whether an opcode takes and gives single-precision denormals as MODE says."""
    is_single = any(name in ("f32", "f32x2", "mixed") for name in types)
    return is_single and opcode.startswith("v_") and not opcode.startswith(_DEAF)

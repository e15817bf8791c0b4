"""Which unit an instruction occupies, and for how long."""

from __future__ import annotations

import functools
import re

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.program.instruction import PTX, Instruction
from wavecast.simulator.timing.ptx_opcodes import ptx_matrix, ptx_rate, ptx_unit
from wavecast.simulator.timing.units import Rate, Unit

_QUARTER_RATE = re.compile(
    r"^v_(?:rcp|rsq|sqrt|exp|log|sin|cos)_|^v_mul_(?:lo|hi)_[ui]32|^v_mad_[ui]64_[ui]32|^v_div_(?:fixup|fmas|scale)_f64"
)
_MATRIX = re.compile(r"^v_s?mfmac?(?:_ld)?(?:_scale)?_(?:f32|f64|i32)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_?(\w+)$")
_MATRIX_FIELD = {"bf16": "f16", "f16": "f16", "xf32": "xf32", "f32": "f32", "f64": "f64", "i8": "i8"}
_SMALL_FORMATS = (2, 3, 4)  # FP6 E2M3, FP6 E3M2, FP4 E2M1 in the cbsz and blgp fields
_MINIMUM_MATRIX_CLK = 8


def unit_of(instruction: Instruction) -> Unit:
    """The unit that an instruction occupies."""
    return ptx_unit(instruction.opcode) if instruction.encoding == PTX else _unit_of(instruction.opcode)


@functools.cache
def _unit_of(opcode: str) -> Unit:
    if _MATRIX.match(opcode):
        return Unit.MATRIX
    if opcode.startswith("v_"):
        return Unit.VALU
    if opcode.startswith("ds_"):
        return Unit.LDS
    if opcode.startswith(("global_", "buffer_", "flat_", "scratch_")):
        return Unit.VECTOR_MEMORY
    if opcode.startswith(("s_load_", "s_buffer_load_", "s_store_", "s_dcache_")):
        return Unit.SCALAR_MEMORY
    if opcode.startswith(("s_branch", "s_cbranch_")):
        return Unit.BRANCH
    return Unit.SCALAR


def is_quarter_rate(instruction: Instruction) -> bool:
    """Whether a vector instruction runs at a quarter of the rate: transcendental, or 32-bit multiplication."""
    if instruction.encoding == PTX:
        return unit_of(instruction) is Unit.VALU and ptx_rate(instruction.opcode) is Rate.QUARTER
    return _QUARTER_RATE.match(instruction.opcode) is not None


def is_half_rate(instruction: Instruction) -> bool:
    """Whether a vector instruction runs at half of the rate, as integers and conversions do on NVIDIA GPUs."""
    is_vector = instruction.encoding == PTX and unit_of(instruction) is Unit.VALU
    return is_vector and ptx_rate(instruction.opcode) is Rate.HALF


def matrix_clk(instruction: Instruction, device: Device) -> float:
    """Cycles of an MFMA on its SIMD: its operations over the rate of its type.

    Raises:
        UnsupportedInstructionError: if the device has no rate for the type.
    """
    of_ptx = ptx_matrix(instruction.opcode) if instruction.encoding == PTX else None
    if of_ptx is not None:
        operand_type = of_ptx[1]
        rate = getattr(device.matrix, operand_type)
    else:
        operand_type = _matrix_match(instruction)[5]
        rate = _matrix_rate(instruction, operand_type, device)
    if rate is None:
        raise UnsupportedInstructionError(
            f"{instruction.opcode}: {device.name} ({device.arch}) has no matrix rate for {operand_type!r}",
            hint="compile the kernel for the architecture of the device",
        )
    return max(_MINIMUM_MATRIX_CLK, matrix_flop(instruction) / (rate / device.compute.simd_per_cu))


def matrix_flop(instruction: Instruction) -> int:
    """Operations of an MFMA: two for each product.

    Raises:
        UnsupportedInstructionError: if it is no matrix instruction.
    """
    of_ptx = ptx_matrix(instruction.opcode) if instruction.encoding == PTX else None
    if of_ptx is not None:
        return of_ptx[0]
    match = _matrix_match(instruction)
    m, n, k, blocks = int(match[1]), int(match[2]), int(match[3]), int(match[4] or 1)
    # A sparse instruction multiplies half of the K that its name says.
    return 2 * m * n * k * blocks // (2 if "smfmac" in instruction.opcode else 1)


def _matrix_match(instruction: Instruction) -> re.Match[str]:
    match = _MATRIX.match(instruction.opcode)
    if match is None:
        raise UnsupportedInstructionError(f"{instruction.opcode} is no matrix instruction")
    return match


def is_8bit_matrix(instruction: Instruction) -> bool:
    """Whether a matrix instruction multiplies operands of 8 bits or less."""
    of_ptx = ptx_matrix(instruction.opcode) if instruction.encoding == PTX else None
    if of_ptx is not None:
        return of_ptx[1] in ("f8", "i8")
    match = _MATRIX.match(instruction.opcode)
    return match is not None and any(name in match[5] for name in ("f8", "fp8", "bf8", "i8"))


def _matrix_rate(instruction: Instruction, operand_type: str, device: Device) -> float | None:
    if operand_type == "f8f6f4":
        formats = (instruction.modifiers.get("cbsz", 0), instruction.modifiers.get("blgp", 0))
        small = all(form in _SMALL_FORMATS for form in formats)
        return device.matrix.f8f6f4_small if small else device.matrix.f8f6f4_8bit
    if "fp8" in operand_type or "bf8" in operand_type:
        return device.matrix.f8
    field = _MATRIX_FIELD.get(operand_type.removesuffix("_1k"))
    return getattr(device.matrix, field) if field else None

"""Scalar opcodes that change EXEC or MODE, and the trap."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.float_mode import FREE_BITS, IMPLEMENTED, mode_field
from wavecast.simulator.execute.layout import CODE_BASE, CODE_STEP, Argument, Context, Fault, RowKind
from wavecast.simulator.execute.ops.scalar_alu import logic, nonzero
from wavecast.simulator.execute.registry import raw, scalar
from wavecast.simulator.program.instruction import EXEC, MODE


def _save_exec(name: str, plain: str) -> None:
    """The destination gets the old EXEC, and EXEC the result of the logic with it; SCC says whether lanes remain."""

    @scalar(f"s_{name}_saveexec_b64", "b64", "b64")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        old = e.exec_mask()
        first, second = (old, a) if name.endswith("n1") else (a, old)
        kind = name.replace("n1", "n2")
        e.scalar_store(EXEC, nonzero(e, logic(e, kind, plain, first, second)))
        return old


for _name, _plain in (
    ("and", "and"),
    ("or", "or"),
    ("xor", "xor"),
    ("andn2", "and"),
    ("orn2", "or"),
    ("nand", "and"),
    ("nor", "or"),
    ("xnor", "xor"),
    ("andn1", "and"),
    ("orn1", "or"),
):
    _save_exec(_name, _plain)


def _write_exec(name: str) -> None:
    """EXEC and the destination get the result."""

    @scalar(f"s_{name}_wrexec_b64", "b64", "b64")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        old = e.exec_mask()
        first, second = (old, a) if name == "andn1" else (a, old)
        result = nonzero(e, logic(e, "andn2", "and", first, second))
        e.scalar_store(EXEC, result)
        return result


_write_exec("andn1")
_write_exec("andn2")


def _mode_field(e: Emitter, position: int) -> tuple[int, int]:
    """First bit and size of the field of MODE that an ``hwreg(…)`` operand names."""
    text = e.form.operands[position].kind
    field = mode_field(text)
    if field is None:
        raise NotImplementedError(f"{text}: only fields of HW_REG_MODE can be read and written")
    return field


@raw("s_getreg_b32", "b32")
def _(e: Emitter) -> None:
    first, size = _mode_field(e, 1)
    value = e.b.lshr(e.scalar_load(MODE), I32(first))
    e.write_scalar(0, e.b.and_(value, I32((1 << size) - 1)))


def _set_mode(e: Emitter, first: int, size: int, value: ir.Value) -> None:
    mask = ((1 << size) - 1) << first & 0xFFFFFFFF
    placed = e.b.and_(e.b.shl(value, I32(first)), I32(mask))
    kept = e.b.and_(e.scalar_load(MODE), I32(~mask & 0xFFFFFFFF))
    e.scalar_store(MODE, e.b.or_(kept, placed))


@raw("s_setreg_imm32_b32", "b32 literal")
def _(e: Emitter) -> None:
    first, size = _mode_field(e, 0)
    value = int(e.form.operands[1].kind) & (1 << size) - 1
    mask = ((1 << size) - 1) << first & 0xFFFFFFFF
    if (value << first ^ IMPLEMENTED) & mask & ~FREE_BITS:
        raise NotImplementedError(
            f"MODE field {e.form.operands[0].kind} set to {value:#x}: arithmetic here rounds to nearest and keeps "
            "denormals of half and double precision (MODE bits 0 to 9 are 0x3f0), and only those of single precision "
            "(bits 4 and 5) and FP16_OVFL may change"
        )
    _set_mode(e, first, size, I32(value))


@raw("s_setreg_b32", "b32 b32")
def _(e: Emitter) -> None:
    first, size = _mode_field(e, 0)
    if ((1 << size) - 1) << first & ~FREE_BITS:
        raise NotImplementedError(
            f"MODE field {e.form.operands[0].kind} set from a register: only bits 4 and 5 (single-precision "
            "denormals) and 23 (FP16_OVFL) may change at run time"
        )
    _set_mode(e, first, size, e.read_scalar(1, "b32"))


@scalar("s_getpc_b64", "b64", "")
def _(e: Emitter) -> ir.Value:
    """Zero: code adds to it the distance to a symbol, which ``translate`` gives as the symbol's address."""
    return I64(0)


@raw("s_setpc_b64", "b64", kind=RowKind.JUMP)
def _(e: Emitter) -> None:
    e.context_store(Context.JUMP, e.read_scalar(0, "b64"))


@raw("s_swappc_b64", "b64 b64", kind=RowKind.JUMP)
def _(e: Emitter) -> None:
    e.context_store(Context.JUMP, e.read_scalar(1, "b64"))
    behind = e.b.add(e.argument(Argument.INSTRUCTION), I64(1))
    e.write_scalar(0, e.b.add(e.b.mul(behind, I64(CODE_STEP)), I64(CODE_BASE)))


@raw("s_trap", "b32", kind=RowKind.MEMORY)
def _(e: Emitter) -> None:
    e.context_store(Context.FAULT_LANE, I64(0))
    e.context_store(Context.FAULT, I64(Fault.TRAP))

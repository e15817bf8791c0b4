"""Which pointer argument the address of a memory instruction comes from.

A forward walk over the kernel keeps, for every register, the set of pointer arguments that may be in it. Arithmetic
hands on the sets of all its sources; a value loaded from anywhere but the argument segment may be any pointer. Vector
registers that are written under a partial EXEC keep their old lanes, so their sets only grow; in scalar registers a new
value replaces the old set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wavecast.simulator.execute.abi import USER_SCALARS
from wavecast.simulator.program.instruction import Immediate, Instruction, Operand, Register, RegisterFile
from wavecast.simulator.program.kernel import Kernel

# A set of arguments is an int with one bit an argument; this one stands for any pointer, and swallows the others.
ANY = -1
# The pointer to the argument segment itself.
SEGMENT = 1 << 62
_JUMPS = frozenset({"s_setpc_b64", "s_swappc_b64", "s_call_b64"})
_Registers = dict[tuple[RegisterFile, int], int]


def address_owners(kernel: Kernel) -> dict[int, int]:
    """Instruction to the bit set of explicit arguments that its address may come from, or ``ANY``."""
    if any(instruction.opcode in _JUMPS for instruction in kernel.instructions):
        # Where a computed jump leads, this walk does not know.
        return {}
    walker = _Walker(kernel)
    entry: dict[int, _Registers] = {0: walker.start()}
    waiting = [0]
    ends = dict(zip(kernel.blocks, [*kernel.blocks[1:], len(kernel.instructions)], strict=True))
    while waiting:
        block = waiting.pop()
        registers = dict(entry[block])
        for instruction in kernel.instructions[block : ends[block]]:
            walker.step(instruction, registers)
        for successor in _successors(kernel, ends[block]):
            if _merge(entry, successor, registers):
                waiting.append(successor)
    return walker.owners


def _successors(kernel: Kernel, end: int) -> list[int]:
    last = kernel.instructions[end - 1]
    following = [] if last.opcode in ("s_branch", "s_endpgm") else [end]
    return [place for place in [*following, last.target] if place is not None and place < len(kernel.instructions)]


def _merge(entry: dict[int, _Registers], block: int, registers: Mapping[tuple[RegisterFile, int], int]) -> bool:
    """Add what may be in the registers at the start of a block; whether that was new."""
    known = entry.get(block)
    if known is None:
        entry[block] = dict(registers)
        return True
    changed = False
    for key, owners in registers.items():
        joined = known.get(key, 0) | owners
        changed |= joined != known.get(key, 0)
        known[key] = joined
    return changed


class _Walker:
    """The effect of one instruction on the sets."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        explicit = [argument for argument in kernel.arguments if not argument.is_hidden]
        self._words: dict[int, int] = {}
        for number, argument in enumerate(explicit):
            if argument.kind == "global_buffer":
                for word in range(argument.offset // 4, (argument.offset + argument.size + 3) // 4):
                    self._words[word] = 1 << number if number < 61 else ANY
        self.owners: dict[int, int] = {}

    def start(self) -> _Registers:
        """What the dispatcher puts into scalar registers."""
        descriptor = self._kernel.descriptor
        registers: _Registers = {}
        slot = 0
        for name, size in USER_SCALARS:
            if descriptor.get(f"user_sgpr_{name}", 0):
                if name == "kernarg_segment_ptr":
                    for word in range(size):
                        registers[RegisterFile.SCALAR, slot + word] = SEGMENT
                slot += size
        length = descriptor.get("user_sgpr_kernarg_preload_length", 0)
        first = descriptor.get("user_sgpr_kernarg_preload_offset", 0)
        for word in range(length):
            registers[RegisterFile.SCALAR, slot + word] = self._words.get(first + word, 0)
        return registers

    def step(self, instruction: Instruction, registers: _Registers) -> None:
        """Note the owners of a memory instruction's address; apply the instruction to the sets."""
        opcode, operands = instruction.opcode, instruction.operands
        family = opcode.partition("_")[0]
        if opcode.startswith("s_load_"):
            self._scalar_load(instruction, registers)
            return
        if family in ("global", "flat", "buffer"):
            self._memory(instruction, registers)
            return
        if family in ("ds", "scratch"):
            if "read" in opcode or "_load_" in opcode or "_rtn_" in opcode or "permute" in opcode:
                _put(registers, operands[0], ANY)
            return
        if not operands or opcode.startswith(("s_cmp", "s_bitcmp", "s_branch", "s_cbranch", "s_waitcnt", "s_barrier")):
            return
        owners = 0
        for operand in operands[1:]:
            owners |= _of(registers, operand)
        if owners & SEGMENT and owners != ANY and "mov" not in opcode:
            # A pointer further into the argument segment: which argument it reads is not followed.
            owners = ANY
        pieces = _pieces(operands[0])
        if len(pieces) == 2 and len(operands) == 2 and len(_pieces(operands[1])) == 2:
            # A move of a pair keeps its halves apart: the upper half of a descriptor is not the lower one.
            for target, source in zip(pieces, _pieces(operands[1]), strict=True):
                _set(registers, target, registers.get(source, 0))
            return
        # A second result, as of an addition with carry, holds flags and no address.
        _put(registers, operands[0], owners)

    def _scalar_load(self, instruction: Instruction, registers: _Registers) -> None:
        operands = instruction.operands
        owners = _of(registers, operands[1])
        self._note(instruction, owners)
        offset = operands[2].value if len(operands) > 2 else Immediate(0, False)
        extra = instruction.modifiers.get("offset", 0)
        fixed = isinstance(offset, Immediate) and isinstance(extra, int)
        start = int(offset.value) + int(extra) if isinstance(offset, Immediate) and isinstance(extra, int) else 0
        for position, target in enumerate(_pieces(operands[0])):
            if owners == SEGMENT and fixed:
                _set(registers, target, self._words.get(start // 4 + position, 0))
            else:
                _set(registers, target, ANY)

    def _memory(self, instruction: Instruction, registers: _Registers) -> None:
        opcode, operands = instruction.opcode, instruction.operands
        is_load = "_load_" in opcode
        if "_inv" in opcode or "_wb" in opcode:
            return
        if opcode.startswith("buffer"):
            descriptor = next((o for o in operands if len(_pieces(o)) == 4 and _is_scalar(o)), None)
            owners = 0 if descriptor is None else registers.get(_pieces(descriptor)[0], 0)
            returns = is_load or bool(instruction.modifiers.get("sc0"))
        else:
            takes_result = is_load and "_lds_" not in opcode
            wide = [o for o in operands[int(takes_result) :] if not isinstance(o.value, Immediate)]
            base = [o for o in wide if _is_scalar(o) and len(_pieces(o)) == 2]
            if base:
                owners = _of(registers, base[-1])
            else:
                address = operands[int(takes_result or self._returns(instruction))]
                owners = _of(registers, address)
            returns = takes_result or self._returns(instruction)
        self._note(instruction, owners)
        if returns and "lds" not in opcode and not instruction.modifiers.get("lds"):
            _put(registers, operands[0], ANY)

    @staticmethod
    def _returns(instruction: Instruction) -> bool:
        """Whether an atomic gives back the old value, which then is its first operand."""
        if "_atomic_" not in instruction.opcode:
            return False
        return len(instruction.operands) == (4 if instruction.opcode.startswith("global") else 3)

    def _note(self, instruction: Instruction, owners: int) -> None:
        known = self.owners.get(instruction.index, 0)
        # No pointer at all went in: what it is, only the hardware knows.
        self.owners[instruction.index] = known | (owners if owners else ANY)


def _is_scalar(operand: Operand) -> bool:
    return isinstance(operand.value, Register) and operand.value.file is RegisterFile.SCALAR


def _pieces(operand: Operand) -> list[tuple[RegisterFile, int]]:
    value = operand.value
    if not isinstance(value, Register):
        return []
    return [(value.file, value.index + word) for word in range(value.count)]


def _of(registers: Mapping[tuple[RegisterFile, int], int], operand: Operand) -> int:
    owners = 0
    for piece in _pieces(operand):
        owners |= registers.get(piece, 0)
    return owners


def _set(registers: _Registers, piece: tuple[RegisterFile, int], owners: int) -> None:
    if piece[0] is not RegisterFile.SCALAR:
        owners |= registers.get(piece, 0)
    registers[piece] = owners


def _put(registers: _Registers, operand: Operand, owners: int) -> None:
    for piece in _pieces(operand):
        _set(registers, piece, owners)


def buffers_of(owners: int, buffer_of_argument: Iterable[int]) -> int:
    """The buffers, as a bit set, that the arguments of a set point into; ``ANY`` if one points nowhere known."""
    if owners < 0 or owners & SEGMENT:
        return ANY
    result = 0
    for number, buffer in enumerate(buffer_of_argument):
        if owners >> number & 1:
            if not 0 <= buffer < 62:
                return ANY
            result |= 1 << buffer
    return result or ANY

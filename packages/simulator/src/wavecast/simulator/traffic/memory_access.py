"""What a memory instruction does, from its name and modifiers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.program.instruction import PTX, Instruction


class AccessKind(StrEnum):
    """Which memory an instruction touches, and how."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    LDS_READ = "lds_read"
    LDS_WRITE = "lds_write"
    LDS_ATOMIC = "lds_atomic"
    LDS_DIRECT = "lds_direct"
    SCALAR_LOAD = "scalar_load"
    SCRATCH_LOAD = "scratch_load"
    SCRATCH_STORE = "scratch_store"

    @property
    def is_global(self) -> bool:
        """The lanes' addresses are device addresses."""
        return self in (AccessKind.LOAD, AccessKind.STORE, AccessKind.ATOMIC, AccessKind.LDS_DIRECT)

    @property
    def is_lds(self) -> bool:
        """The lanes' addresses are LDS offsets."""
        return self in (AccessKind.LDS_READ, AccessKind.LDS_WRITE, AccessKind.LDS_ATOMIC)

    @property
    def is_scratch(self) -> bool:
        """Private memory of the lane: spilled registers."""
        return self in (AccessKind.SCRATCH_LOAD, AccessKind.SCRATCH_STORE)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """Kind and width of a memory instruction.

    Attributes:
        kind: Which memory, and how.
        piece_bytes: Bytes of one contiguous piece a lane touches.
        offsets: Byte offset of each piece from the recorded address: ``(0,)``, or two for the two-address LDS forms,
            whose record carries the base address alone.
    """

    kind: AccessKind
    piece_bytes: int
    offsets: tuple[int, ...] = (0,)

    @property
    def bytes_per_lane(self) -> int:
        return self.piece_bytes * len(self.offsets)


_ELEMENT_BYTES = {"byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2, "dword": 4}
_ELEMENT = re.compile(r"(?:^|_)(ubyte|sbyte|byte|ushort|sshort|short|dword)(?:x([234]))?(?:_|$)")
_LDS = re.compile(r"^ds_(read|write)(2(?:st64)?)?_([biu])(8|16|32|64|96|128)(?:_|$)")
_LDS_LANE_OPS = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32", "ds_nop")
_SCALAR = re.compile(r"^s_(?:buffer_)?load_dword(?:x(\d+))?$")
_ST64 = 64


def classify(instruction: Instruction) -> MemoryAccess | None:
    """The memory access of an instruction, or None if it makes none that has addresses.

    Cache maintenance (``buffer_wbl2``, ``buffer_inv``), lane permutes through the LDS unit and everything that is not a
    memory instruction give None.
    """
    opcode = instruction.opcode
    if instruction.encoding == PTX:
        from wavecast.simulator.traffic.ptx_access import ptx_access

        return ptx_access(instruction)
    if opcode.startswith("ds_"):
        return _lds_access(instruction)
    scalar = _SCALAR.match(opcode)
    if scalar:
        return MemoryAccess(AccessKind.SCALAR_LOAD, 4 * int(scalar[1] or 1))
    family, _, rest = opcode.partition("_")
    if family not in ("global", "buffer", "flat", "scratch"):
        return None
    if rest.startswith("atomic_"):
        wide = rest.endswith(("_x2", "_f64"))
        return MemoryAccess(AccessKind.ATOMIC, 8 if wide else 4)
    element = _ELEMENT.search(rest)
    if element is None or not rest.startswith(("load_", "store_")):
        return None
    width = _ELEMENT_BYTES[element[1]] * int(element[2] or 1)
    is_load = rest.startswith("load_")
    if family == "scratch":
        return MemoryAccess(AccessKind.SCRATCH_LOAD if is_load else AccessKind.SCRATCH_STORE, width)
    if is_load and (rest.startswith("load_lds_") or instruction.modifiers.get("lds")):
        return MemoryAccess(AccessKind.LDS_DIRECT, width)
    return MemoryAccess(AccessKind.LOAD if is_load else AccessKind.STORE, width)


def _lds_access(instruction: Instruction) -> MemoryAccess | None:
    opcode = instruction.opcode
    if opcode in _LDS_LANE_OPS:
        return None
    match = _LDS.match(opcode)
    if match is None:
        wide = opcode.endswith(("_u64", "_i64", "_b64", "_f64", "_x2"))
        return MemoryAccess(AccessKind.LDS_ATOMIC, 8 if wide else 4)
    kind = AccessKind.LDS_READ if match[1] == "read" else AccessKind.LDS_WRITE
    piece = int(match[4]) // 8
    if not match[2]:
        return MemoryAccess(kind, piece)
    unit = piece * (_ST64 if match[2] == "2st64" else 1)
    first, second = (_integer(instruction, name) for name in ("offset0", "offset1"))
    return MemoryAccess(kind, piece, (first * unit, second * unit))


def _integer(instruction: Instruction, name: str) -> int:
    value = instruction.modifiers.get(name, 0)
    return value if isinstance(value, int) else 0

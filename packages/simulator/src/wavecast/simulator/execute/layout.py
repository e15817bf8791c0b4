"""Where the state of a running wave lives in memory: the contract between generated helpers, driver and launch.

Every helper is called as ``helper(scalars, vectors, context, arguments)``:

* ``scalars``: 32-bit slots, numbered as the ISA encodes scalar operands (s0 is slot 0, VCC 106, EXEC 126, …).
* ``vectors``: rows of 64 x 32 bit; the ordinary registers first, the accumulation registers from ``accum_row`` on.
* ``context``: 64-bit slots, see ``Context``.
* ``arguments``: 64-bit slots of the instruction's row in the table, see ``Row``.
"""

from __future__ import annotations

from enum import IntEnum

LANES = 64
SCALAR_SLOTS = 160
ROW_BYTES = LANES * 4
# Flat addresses of the 4 GiB windows onto LDS and scratch: where Linux puts them on these GPUs, far above any buffer.
SHARED_BASE = 1 << 48
PRIVATE_BASE = 2 << 48
# Where a kernel's named constants lie, and the address of its first instruction; each instruction takes 4 bytes.
CONSTANT_BASE = 3 << 48
CODE_BASE = 4 << 48
CODE_STEP = 4


class Context(IntEnum):
    """64-bit slots of the context that a helper may read or write."""

    LDS = 0  # host address of the workgroup's LDS
    LDS_BYTES = 1
    SCRATCH = 2  # host address of the wave's scratch: per lane ``SCRATCH_BYTES`` consecutive bytes
    SCRATCH_BYTES = 3
    BUFFERS = 4  # host address of the buffer table: rows of base, end, delta (host = device + delta)
    BUFFER_COUNT = 5
    TRACE = 6  # host address of the record ring, 0 to record nothing
    TRACE_CAPACITY = 7
    TRACE_COUNT = 8
    FAULT = 9  # a ``Fault``
    FAULT_ADDRESS = 10
    FAULT_LANE = 11
    FAULT_BYTES = 12
    WORKGROUP = 13
    WAVE = 14
    CLOCK = 15  # instructions executed so far by the wave: what s_memtime reads
    LDS_STRAY = 16  # LDS accesses beyond the allocation (reads give 0, writes are dropped, as on the hardware)
    JUMP = 17  # address that an instruction jumps to
    CHECKED = 18  # whether the trace has what checks need beyond addresses
    SIZE = 24


class Fault(IntEnum):
    """Why a helper stopped the wave."""

    NONE = 0
    STRAY_ADDRESS = 1
    TRAP = 2
    STRAY_SCRATCH = 3  # FAULT_ADDRESS is the byte offset in the lane's scratch
    DESCRIPTOR = 4  # a buffer descriptor of a kind that is not modelled
    CODE_ADDRESS = 5  # a jump to FAULT_ADDRESS, where no instruction is
    STRAY_SHARED = 6  # FAULT_ADDRESS is the byte offset in the block's shared memory
    DIVERGENCE = 7  # lanes of a warp go more ways than the stack of waiting lanes holds


class Row(IntEnum):
    """64-bit columns of one instruction's row in the table."""

    HELPER = 0  # address of the helper
    KIND = 1  # a ``RowKind``
    TARGET = 2  # index of the branch target
    ARGUMENTS = 3  # first of the helper's arguments
    SIZE = 16


class Argument(IntEnum):
    """Arguments with a fixed place, counted from ``Row.ARGUMENTS``; those before are the operands."""

    OPERAND_LIMIT = 9
    INSTRUCTION = 9  # index of the instruction
    BUFFER_BASE = 10  # the buffer this instruction touched last: device addresses base and end, and host - device
    BUFFER_END = 11
    BUFFER_DELTA = 12


class RowKind(IntEnum):
    """What the driver does with a row."""

    CALL = 0
    MEMORY = 1  # call, then look for a fault and a full ring
    SKIP = 2
    BRANCH = 3
    BRANCH_SCC0 = 4
    BRANCH_SCC1 = 5
    BRANCH_VCCZ = 6
    BRANCH_VCCNZ = 7
    BRANCH_EXECZ = 8
    BRANCH_EXECNZ = 9
    BARRIER = 10
    END = 11
    JUMP = 12  # call, then go to the instruction at the address in Context.JUMP
    MESSAGE = 13  # leave, so that the host can look at what the wave left for it
    WARP_BRANCH = 14  # call, then go to the address in Context.JUMP, or on to the next instruction if that is 0

"""Runs a few lines of assembly on one wave, so that a test can set registers, execute and look at them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.execute import driver
from wavecast.simulator.execute.driver import LONG_TURN, LaunchSlot, Outcome, Progress, WaveState
from wavecast.simulator.execute.helper_library import HelperLibrary
from wavecast.simulator.execute.launch_state import aligned_zeros
from wavecast.simulator.execute.layout import LANES, SCALAR_SLOTS, Context
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.runs import RUN
from wavecast.simulator.execute.trace import record_ring
from wavecast.simulator.execute.translate import VectorRows, translate
from wavecast.simulator.program.assembly import parse_assembly
from wavecast.simulator.program.instruction import EXEC, MODE, SCC, VCC
from wavecast.simulator.program.kernel import Kernel

SCRATCH_BYTES = 256
_TEXT = """
\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
test:
{body}
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel test
\t\t.amdhsa_next_free_vgpr 512
\t\t.amdhsa_accum_offset 256
\t\t.amdhsa_private_segment_fixed_size {scratch_bytes}
\t.end_amdhsa_kernel
; NumVgprs: 256
; NumAgprs: 256
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:           []
    .name:           test
    .max_flat_workgroup_size: 64
...
\t.end_amdgpu_metadata
"""


@dataclass
class Wave:
    """Registers of one wave after (or before) execution.

    Attributes:
        vector: uint32 (512, 64); accumulation registers start at row 256.
        scalar: uint32 (SCALAR_SLOTS,), numbered as the ISA encodes scalar operands.
        lds: uint8 (65536,).
        fault: 0, or the fault code of the instruction that stopped the wave.
        context: int64 (Context.SIZE,).
        records: The address trace.
        scratch: uint8 (64, SCRATCH_BYTES), a row a lane.
    """

    vector: np.ndarray
    scalar: np.ndarray
    lds: np.ndarray
    fault: int
    context: np.ndarray
    records: np.ndarray
    scratch: np.ndarray

    @property
    def scc(self) -> int:
        return int(self.scalar[SCC])

    @property
    def vcc(self) -> int:
        return int(self.scalar[VCC]) | int(self.scalar[VCC + 1]) << 32


def kernel_of(body: str, *, arch: str = "gfx942") -> Kernel:
    """A kernel without arguments of one wave a workgroup that executes ``body``."""
    return parse_assembly(_TEXT.format(arch=arch, body=body, scratch_bytes=SCRATCH_BYTES))


class Machine:
    """Executes assembly lines on a wave; compiled helpers are kept for the life of the object."""

    def __init__(self, library: HelperLibrary | None = None) -> None:
        self.helpers = library or HelperLibrary()

    def run(
        self,
        body: str,
        *,
        arch: str = "gfx942",
        vector: Mapping[int, np.ndarray] | None = None,
        scalar: Mapping[int, int] | None = None,
        exec_mask: int = (1 << 64) - 1,
        scc: int = 0,
        vcc: int = 0,
        mode: int = 0x2F0 | 1 << 8,
        lds: np.ndarray | None = None,
        scratch: np.ndarray | None = None,
        memory: AddressSpace | None = None,
    ) -> Wave:
        """Execute ``body`` (one instruction a line) and return the registers afterwards.

        Args:
            body: Assembly text.
            arch: Architecture of the text.
            vector: Register number → 64 x 32-bit values (any dtype of 4 bytes).
            scalar: Register number → 32-bit value.
            exec_mask: EXEC; ``scc``, ``vcc``, ``mode`` likewise.
            lds: Initial LDS bytes.
            scratch: Initial scratch bytes, (64, SCRATCH_BYTES).
            memory: Address space for memory instructions.
        """
        kernel = kernel_of(body, arch=arch)
        program = translate(kernel, self.helpers)
        assert VectorRows.of(kernel).ordinary == 256
        scalars = aligned_zeros((1, SCALAR_SLOTS))
        words = scalars.view(np.uint32)[0]
        vectors = aligned_zeros((1, 512, LANES))
        for number, values in (vector or {}).items():
            vectors[0, number] = np.ascontiguousarray(values).view(np.int32)
        for number, value in (scalar or {}).items():
            words[number] = value & 0xFFFFFFFF
        for slot, wide in ((EXEC, exec_mask), (VCC, vcc)):
            words[slot], words[slot + 1] = wide & 0xFFFFFFFF, wide >> 32
        words[SCC], words[MODE] = scc, mode
        local = np.zeros(1 << 16, dtype=np.uint8)
        if lds is not None:
            local[: lds.nbytes] = lds.view(np.uint8).reshape(-1)
        private = np.zeros((LANES, SCRATCH_BYTES), dtype=np.uint8) if scratch is None else scratch.copy()
        ring = record_ring(max(len(kernel.instructions), 1024) + 1)
        buffers = (memory or AddressSpace()).table()
        context = np.zeros(Context.SIZE, dtype=np.int64)
        context[Context.LDS], context[Context.LDS_BYTES] = local.ctypes.data, local.nbytes
        context[Context.SCRATCH_BYTES] = SCRATCH_BYTES
        context[Context.BUFFERS], context[Context.BUFFER_COUNT] = buffers.ctypes.data, len(buffers)
        context[Context.TRACE], context[Context.TRACE_CAPACITY] = ring.ctypes.data, len(ring)
        waves = np.zeros((1, WaveState.SIZE), dtype=np.int64)
        progress = np.zeros(Progress.SIZE, dtype=np.int64)
        progress[Progress.STARTED] = 1
        launch = np.zeros(LaunchSlot.SIZE, dtype=np.int64)
        launch[LaunchSlot.SCRATCH_BYTES], launch[LaunchSlot.SCRATCH] = private.nbytes, private.ctypes.data
        launch[LaunchSlot.BUDGET], launch[LaunchSlot.TURN] = 1_000_000, LONG_TURN
        outcome = driver.run(
            program.table,
            scalars,
            vectors,
            context,
            waves,
            np.zeros(len(kernel.instructions) + 1, dtype=np.int64),
            progress,
            np.zeros(SCALAR_SLOTS, dtype=np.int32),
            launch,
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.bool_),
            np.zeros(1, dtype=RUN),
        )
        # The ring holds every record, so "full" only says that the finished workgroup left some.
        assert outcome in (Outcome.DONE, Outcome.FULL, Outcome.FAULT), Outcome(outcome)
        return Wave(
            vectors.view(np.uint32)[0].copy(),
            words.copy(),
            local,
            int(context[Context.FAULT]),
            context,
            ring[: context[Context.TRACE_COUNT]],
            private,
        )

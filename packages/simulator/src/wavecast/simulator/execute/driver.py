"""The loop that walks the table: waves of a workgroup in turn, workgroups in the order given.

A wave runs until a barrier, its end or the end of its time slice. All state lies in arrays, so that the loop can leave
at any instruction (a full trace ring, a fault) and be entered again.
"""

from __future__ import annotations

from enum import IntEnum

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from wavecast.simulator.execute.layout import Context, Row, RowKind
from wavecast.simulator.program.instruction import EXEC, SCC, VCC


class Outcome(IntEnum):
    """Why the loop returned."""

    DONE = 0
    TRACE_FULL = 1
    FAULT = 2
    BUDGET = 3


class Progress(IntEnum):
    """Slots of the progress array."""

    POSITION = 0  # index into the list of workgroups
    STARTED = 1  # whether that workgroup's waves are initialised
    WAVE = 2  # wave that runs, or ran when the loop left
    INSTRUCTION = 3  # instruction at which the loop left
    SIZE = 8


class WaveState(IntEnum):
    """Columns of the per-wave array."""

    PC = 0
    STATUS = 1
    EXECUTED = 2
    SIZE = 4


_READY, _WAITING, _ENDED = 0, 1, 2
# Instructions after which a wave that never reaches a barrier gives way, so that a spinning wave cannot starve its peers.
_SLICE = 1 << 16

_HELPER, _KIND, _TARGET, _ARGUMENTS = (int(c) for c in (Row.HELPER, Row.KIND, Row.TARGET, Row.ARGUMENTS))
_CALL, _MEMORY, _SKIP, _BRANCH = (int(k) for k in (RowKind.CALL, RowKind.MEMORY, RowKind.SKIP, RowKind.BRANCH))
_SCC0, _SCC1, _VCCZ, _VCCNZ = (
    int(k) for k in (RowKind.BRANCH_SCC0, RowKind.BRANCH_SCC1, RowKind.BRANCH_VCCZ, RowKind.BRANCH_VCCNZ)
)
_EXECZ, _EXECNZ, _BARRIER, _END = (int(k) for k in (RowKind.BRANCH_EXECZ, RowKind.BRANCH_EXECNZ, RowKind.BARRIER, RowKind.END))
_C_FAULT, _C_COUNT, _C_CAPACITY = int(Context.FAULT), int(Context.TRACE_COUNT), int(Context.TRACE_CAPACITY)
_C_WORKGROUP, _C_WAVE, _C_SCRATCH, _C_CLOCK = (
    int(c) for c in (Context.WORKGROUP, Context.WAVE, Context.SCRATCH, Context.CLOCK)
)
_P_POSITION, _P_STARTED, _P_WAVE, _P_INSTRUCTION = (
    int(p) for p in (Progress.POSITION, Progress.STARTED, Progress.WAVE, Progress.INSTRUCTION)
)
_PC, _STATUS, _EXECUTED = int(WaveState.PC), int(WaveState.STATUS), int(WaveState.EXECUTED)
_EXEC, _VCC, _SCC = EXEC, VCC, SCC
_DONE, _FULL, _FAULTED, _OVER = (int(o) for o in (Outcome.DONE, Outcome.TRACE_FULL, Outcome.FAULT, Outcome.BUDGET))


@intrinsic
def _call(typing_context, helper, scalars, vectors, context, arguments):  # type: ignore[no-untyped-def]
    """Call the helper at an address with four addresses."""
    signature = types.void(types.int64, types.int64, types.int64, types.int64, types.int64)

    def generate(target, builder, sig, values):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t] * 4)
        pointers = [builder.inttoptr(value, cgutils.voidptr_t) for value in values[1:]]
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), pointers)
        return target.get_dummy_value()

    return signature, generate


@njit(nogil=True, cache=True)
def run(  # type: ignore[no-untyped-def]
    table,
    scalars,
    vectors,
    context,
    waves,
    transfers,
    progress,
    template,
    launch,
    workgroups,
    executed_per_workgroup,
):
    """Run workgroups until all are done or something needs attention.

    Args:
        table: int64 (instructions, Row.SIZE).
        scalars: int32 (waves, SCALAR_SLOTS).
        vectors: int32 (waves, rows, 64).
        context: int64 (Context.SIZE,).
        waves: int64 (waves, WaveState.SIZE).
        transfers: int64 (instructions + 1,): entries minus exits of straight-line runs; its running sum is how often
            each instruction was executed.
        progress: int64 (Progress.SIZE,).
        template: int32 (SCALAR_SLOTS,): scalar registers at the start of a wave.
        launch: int64: grid x, y, z; scalar slot of workgroup id x, y, z or -1; scratch bytes a wave; scratch base;
            instruction budget a wave; work-items of a workgroup x, y, z; how many axes of the work-item id beyond x
            the kernel reads.
        workgroups: int64 linear ids.
        executed_per_workgroup: int64 (len(workgroups),).
    """
    address_table, stride = table.ctypes.data, table.strides[0]
    address_context = context.ctypes.data
    wave_count = vectors.shape[0]
    budget = launch[8]
    while progress[_P_POSITION] < workgroups.shape[0]:
        if progress[_P_STARTED] == 0:
            _start_workgroup(scalars, vectors, context, waves, transfers, template, launch, workgroups[progress[_P_POSITION]])
            progress[_P_STARTED] = 1
            progress[_P_WAVE] = 0
        while True:
            wave = progress[_P_WAVE]
            if wave == wave_count:
                alive = 0
                waiting = 0
                for w in range(wave_count):
                    alive += waves[w, _STATUS] != _ENDED
                    waiting += waves[w, _STATUS] == _WAITING
                if alive == 0:
                    break
                if waiting == alive:
                    for w in range(wave_count):
                        if waves[w, _STATUS] == _WAITING:
                            waves[w, _STATUS] = _READY
                progress[_P_WAVE] = 0
                continue
            if waves[wave, _STATUS] != _READY:
                progress[_P_WAVE] = wave + 1
                continue
            registers = scalars[wave]
            address_scalars = scalars.ctypes.data + wave * scalars.strides[0]
            address_vectors = vectors.ctypes.data + wave * vectors.strides[0]
            context[_C_WAVE] = wave
            context[_C_SCRATCH] = launch[7] + wave * launch[6]
            pc = waves[wave, _PC]
            begin = pc
            used = 0
            while True:
                kind = table[pc, _KIND]
                if kind == _CALL:
                    _call(table[pc, _HELPER], address_scalars, address_vectors, address_context, address_table + pc * stride + _ARGUMENTS * 8)
                    pc += 1
                    continue
                if kind == _SKIP:
                    pc += 1
                    continue
                if kind == _MEMORY:
                    context[_C_CLOCK] = waves[wave, _EXECUTED] + used + pc - begin
                    _call(table[pc, _HELPER], address_scalars, address_vectors, address_context, address_table + pc * stride + _ARGUMENTS * 8)
                    if context[_C_FAULT] != 0:
                        progress[_P_INSTRUCTION] = pc
                        waves[wave, _PC] = pc
                        return _FAULTED
                    pc += 1
                    if context[_C_COUNT] >= context[_C_CAPACITY]:
                        waves[wave, _EXECUTED] += used + pc - begin
                        waves[wave, _PC] = pc
                        return _FULL
                    continue
                if kind == _BARRIER:
                    pc += 1
                    used += pc - begin
                    waves[wave, _STATUS] = _WAITING
                    break
                if kind == _END:
                    transfers[pc + 1] -= 1
                    used += pc + 1 - begin
                    waves[wave, _STATUS] = _ENDED
                    break
                if kind == _BRANCH:
                    taken = True
                elif kind == _SCC0:
                    taken = registers[_SCC] == 0
                elif kind == _SCC1:
                    taken = registers[_SCC] != 0
                elif kind == _VCCZ:
                    taken = (registers[_VCC] | registers[_VCC + 1]) == 0
                elif kind == _VCCNZ:
                    taken = (registers[_VCC] | registers[_VCC + 1]) != 0
                elif kind == _EXECZ:
                    taken = (registers[_EXEC] | registers[_EXEC + 1]) == 0
                else:
                    taken = (registers[_EXEC] | registers[_EXEC + 1]) != 0
                if not taken:
                    pc += 1
                    continue
                used += pc + 1 - begin
                transfers[pc + 1] -= 1
                pc = table[pc, _TARGET]
                transfers[pc] += 1
                begin = pc
                if used > _SLICE:
                    break
            waves[wave, _EXECUTED] += used
            waves[wave, _PC] = pc
            if waves[wave, _EXECUTED] > budget:
                progress[_P_INSTRUCTION] = pc
                return _OVER
            progress[_P_WAVE] = wave + 1
        total = 0
        for w in range(wave_count):
            total += waves[w, _EXECUTED]
        executed_per_workgroup[progress[_P_POSITION]] = total
        progress[_P_POSITION] += 1
        progress[_P_STARTED] = 0
        if context[_C_COUNT] > 0:
            return _FULL
    return _DONE


@njit(nogil=True, cache=True)
def _start_workgroup(scalars, vectors, context, waves, transfers, template, launch, workgroup):  # type: ignore[no-untyped-def]
    """Set up every wave of a workgroup as the dispatcher does."""
    x = workgroup % launch[0]
    y = workgroup // launch[0] % launch[1]
    z = workgroup // (launch[0] * launch[1])
    context[_C_WORKGROUP] = workgroup
    vectors[:] = 0
    for wave in range(scalars.shape[0]):
        scalars[wave, :] = template
        if launch[3] >= 0:
            scalars[wave, launch[3]] = x
        if launch[4] >= 0:
            scalars[wave, launch[4]] = y
        if launch[5] >= 0:
            scalars[wave, launch[5]] = z
        for lane in range(64):
            item = wave * 64 + lane
            packed = item % launch[9]
            if launch[12] >= 1:
                packed |= item // launch[9] % launch[10] << 10
            if launch[12] >= 2:
                packed |= item // (launch[9] * launch[10]) << 20
            vectors[wave, 0, lane] = packed
        # The last wave of a workgroup that is no multiple of 64 starts with the lanes switched off that it has not.
        rest = launch[9] * launch[10] * launch[11] - wave * 64
        if rest < 32:
            scalars[wave, _EXEC] = (1 << rest) - 1
            scalars[wave, _EXEC + 1] = 0
        elif rest < 64:
            scalars[wave, _EXEC + 1] = (1 << (rest - 32)) - 1
        waves[wave, _PC] = 0
        waves[wave, _STATUS] = _READY
        waves[wave, _EXECUTED] = 0
    transfers[0] += scalars.shape[0]


"""The loop that walks the table: waves of a workgroup in turn, workgroups in the order given.

A wave runs until a barrier, its end or the end of its turn. All state lies in arrays, so that the loop can leave at any
instruction (a full trace ring, a fault) and be entered again, with the same workgroup or with another.
"""

from __future__ import annotations

from enum import IntEnum

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from wavecast.simulator.compiled import compiled, compiled_borrowing
from wavecast.simulator.execute.layout import CODE_BASE, CODE_STEP, Context, Fault, Row, RowKind
from wavecast.simulator.program.instruction import EXEC, SCC, VCC


class Outcome(IntEnum):
    """Why the loop returned."""

    DONE = 0
    FULL = 1  # the trace ring or the recording
    FAULT = 2
    BUDGET = 3
    MESSAGE = 4  # a wave calls the host
    YIELDED = 5  # the workgroup has executed its share


class Progress(IntEnum):
    """Slots of the progress array."""

    POSITION = 0  # index into the list of workgroups
    STARTED = 1  # whether that workgroup's waves are initialised
    WAVE = 2  # wave that runs, or ran when the loop left
    INSTRUCTION = 3  # instruction at which the loop left
    RUNS = 4  # entries of the recording
    USED = 5  # instructions executed since the caller last set it to 0, of turns that are over
    SIZE = 8


class WaveState(IntEnum):
    """Columns of the per-wave array."""

    PC = 0
    STATUS = 1
    EXECUTED = 2
    TURN = 3  # instructions of the present turn that were executed before the loop left in its middle
    RUN = 4  # first instruction of the straight-line run that the wave is in
    SIZE = 5


class LaunchSlot(IntEnum):
    """Slots of the launch array: what stays the same for all workgroups."""

    GRID = 0  # workgroups in x, y, z
    WORKGROUP_REGISTER = 3  # scalar slots that take the workgroup id x, y, z; -1 for none
    SCRATCH_BYTES = 6  # of a wave
    SCRATCH = 7  # host address of the first wave's scratch
    BUDGET = 8  # instructions a wave may execute
    BLOCK = 9  # work-items of a workgroup in x, y, z
    ITEM_AXES = 12  # how many axes of the work-item id beyond x the kernel reads
    TURN = 13  # instructions after which a wave that reaches no barrier gives way at its next taken branch
    SHARE = 14  # instructions after which the loop returns at the end of a turn; 0 for never
    SIZE = 16


READY, WAITING, ENDED = 0, 1, 2
# ``LaunchSlot.TURN`` where nobody else wants the processor: a wave that spins cannot starve its peers.
LONG_TURN = 1 << 16

_READY, _WAITING, _ENDED = READY, WAITING, ENDED

_HELPER, _KIND, _TARGET, _ARGUMENTS = (int(c) for c in (Row.HELPER, Row.KIND, Row.TARGET, Row.ARGUMENTS))
_CALL, _MEMORY, _SKIP, _BRANCH = (int(k) for k in (RowKind.CALL, RowKind.MEMORY, RowKind.SKIP, RowKind.BRANCH))
_SCC0, _SCC1, _VCCZ, _VCCNZ = (
    int(k) for k in (RowKind.BRANCH_SCC0, RowKind.BRANCH_SCC1, RowKind.BRANCH_VCCZ, RowKind.BRANCH_VCCNZ)
)
_EXECZ, _BARRIER, _END = (int(k) for k in (RowKind.BRANCH_EXECZ, RowKind.BARRIER, RowKind.END))
_JUMP, _MESSAGE_ROW, _WARP_BRANCH = (int(k) for k in (RowKind.JUMP, RowKind.MESSAGE, RowKind.WARP_BRANCH))
_CODE_BASE, _CODE_STEP, _CODE_FAULT = CODE_BASE, CODE_STEP, int(Fault.CODE_ADDRESS)
_C_FAULT, _C_COUNT, _C_CAPACITY = int(Context.FAULT), int(Context.TRACE_COUNT), int(Context.TRACE_CAPACITY)
_C_TRACE = int(Context.TRACE)
_C_WORKGROUP, _C_WAVE, _C_SCRATCH, _C_CLOCK, _C_JUMP, _C_FAULT_ADDRESS = (
    int(c)
    for c in (Context.WORKGROUP, Context.WAVE, Context.SCRATCH, Context.CLOCK, Context.JUMP, Context.FAULT_ADDRESS)
)
_P_POSITION, _P_STARTED, _P_WAVE, _P_INSTRUCTION, _P_RUNS, _P_USED = (
    int(p)
    for p in (
        *(Progress.POSITION, Progress.STARTED, Progress.WAVE, Progress.INSTRUCTION, Progress.RUNS),
        Progress.USED,
    )
)
_PC, _STATUS, _EXECUTED, _TURN, _RUN = (
    int(s) for s in (WaveState.PC, WaveState.STATUS, WaveState.EXECUTED, WaveState.TURN, WaveState.RUN)
)
_EXEC, _VCC, _SCC = EXEC, VCC, SCC
_DONE, _FULL, _FAULTED, _OVER, _MESSAGE, _YIELDED = (
    int(o) for o in (Outcome.DONE, Outcome.FULL, Outcome.FAULT, Outcome.BUDGET, Outcome.MESSAGE, Outcome.YIELDED)
)
_L_GRID, _L_REGISTER, _L_SCRATCH_BYTES, _L_SCRATCH, _L_BUDGET, _L_BLOCK, _L_AXES, _L_TURN, _L_SHARE = (
    int(slot)
    for slot in (
        *(LaunchSlot.GRID, LaunchSlot.WORKGROUP_REGISTER, LaunchSlot.SCRATCH_BYTES, LaunchSlot.SCRATCH),
        *(LaunchSlot.BUDGET, LaunchSlot.BLOCK, LaunchSlot.ITEM_AXES, LaunchSlot.TURN, LaunchSlot.SHARE),
    )
)


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


@compiled_borrowing
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
    recorded,
    runs,
):
    """Run workgroups until all are done or something needs attention.

    Args:
        table: int64 (instructions, Row.SIZE).
        scalars: int32 (waves, SCALAR_SLOTS).
        vectors: int32 (waves, rows, lanes).
        context: int64 (Context.SIZE,).
        waves: int64 (waves, WaveState.SIZE).
        transfers: int64 (instructions + 1,): entries minus exits of straight-line runs; its running sum is how often
            each instruction was executed.
        progress: int64 (Progress.SIZE,).
        template: int32 (SCALAR_SLOTS,): scalar registers at the start of a wave.
        launch: int64 (LaunchSlot.SIZE,).
        workgroups: int64 linear ids.
        executed_per_workgroup: int64 (len(workgroups),).
        recorded: bool (len(workgroups),), whose runs are recorded.
        runs: ``RUN``, filled from the front; at least two entries.
    """
    while progress[_P_POSITION] < workgroups.shape[0]:
        if progress[_P_STARTED] == 0:
            workgroup = workgroups[progress[_P_POSITION]]
            _start_workgroup(scalars, vectors, context, waves, transfers, template, launch, workgroup)
            progress[_P_STARTED] = 1
            progress[_P_WAVE] = 0
        is_recorded = recorded[progress[_P_POSITION]]
        while _next_wave(waves, progress):
            # A turn writes a run, and comes back before it writes another if that would not fit.
            if is_recorded and progress[_P_RUNS] >= runs.shape[0] - 1:
                return _FULL
            # The event of a barrier or an end may have filled the ring.
            if context[_C_COUNT] >= context[_C_CAPACITY] and context[_C_TRACE] != 0:
                return _FULL
            wave = progress[_P_WAVE]
            before = waves[wave, _EXECUTED]
            outcome = _run_wave(table, scalars, vectors, context, waves, transfers, progress, launch, is_recorded, runs)
            if outcome != _DONE:
                return outcome
            progress[_P_USED] += waves[wave, _EXECUTED] - before
            progress[_P_WAVE] += 1
            if launch[_L_SHARE] > 0 and progress[_P_USED] >= launch[_L_SHARE]:
                return _YIELDED
        executed_per_workgroup[progress[_P_POSITION]] = waves[:, _EXECUTED].sum()
        progress[_P_POSITION] += 1
        progress[_P_STARTED] = 0
    return _DONE


@compiled_borrowing
def _next_wave(waves, progress):  # type: ignore[no-untyped-def]
    """Move on to the next wave that can run, in a circle; returns whether the workgroup has one.

    Where every wave that has not ended waits at a barrier, the barrier opens.
    """
    count = waves.shape[0]
    while True:
        while progress[_P_WAVE] < count:
            if waves[progress[_P_WAVE], _STATUS] == _READY:
                return True
            progress[_P_WAVE] += 1
        alive = 0
        waiting = 0
        for wave in range(count):
            alive += waves[wave, _STATUS] != _ENDED
            waiting += waves[wave, _STATUS] == _WAITING
        if alive == 0:
            return False
        if waiting == alive:
            for wave in range(count):
                if waves[wave, _STATUS] == _WAITING:
                    waves[wave, _STATUS] = _READY
        progress[_P_WAVE] = 0


@compiled_borrowing
def _record(runs, progress, wave, first, end):  # type: ignore[no-untyped-def]
    """Add a run to the recording, which has room for it."""
    count = progress[_P_RUNS]
    if count > 0:
        last = runs[count - 1]
        if (
            last["first"] == first
            and last["end"] == end
            and last["wave"] == wave
            and last["position"] == progress[_P_POSITION]
        ):
            last["repeats"] += 1
            return
    new = runs[count]
    new["position"], new["wave"], new["first"], new["end"] = progress[_P_POSITION], wave, first, end
    new["repeats"] = 1
    progress[_P_RUNS] = count + 1


@compiled_borrowing
def _run_wave(  # type: ignore[no-untyped-def]
    table, scalars, vectors, context, waves, transfers, progress, launch, is_recorded, runs
):
    """Run one wave until it waits, ends, has used its slice (DONE), or something needs attention."""
    wave = progress[_P_WAVE]
    registers = scalars[wave]
    rows = table.ctypes.data + _ARGUMENTS * 8
    stride = table.strides[0]
    address_scalars = scalars.ctypes.data + wave * scalars.strides[0]
    address_vectors = vectors.ctypes.data + wave * vectors.strides[0]
    address_context = context.ctypes.data
    context[_C_WAVE] = wave
    context[_C_SCRATCH] = launch[_L_SCRATCH] + wave * launch[_L_SCRATCH_BYTES]
    turn = waves[wave, _TURN]
    pc = waves[wave, _PC]
    begin = pc
    origin = waves[wave, _RUN]
    limit = launch[_L_TURN]
    used = 0
    while True:
        kind = table[pc, _KIND]
        if kind == _CALL:
            _call(table[pc, _HELPER], address_scalars, address_vectors, address_context, rows + pc * stride)
            pc += 1
        elif kind == _SKIP:
            pc += 1
        elif kind == _MEMORY:
            context[_C_CLOCK] = waves[wave, _EXECUTED] + used + pc - begin
            _call(table[pc, _HELPER], address_scalars, address_vectors, address_context, rows + pc * stride)
            if context[_C_FAULT] != 0:
                progress[_P_INSTRUCTION] = pc
                return _FAULTED
            pc += 1
            if context[_C_COUNT] >= context[_C_CAPACITY]:
                used += pc - begin
                waves[wave, _EXECUTED] += used
                # The turn goes on: a wave that spins on traced accesses must give way and meet its budget too.
                waves[wave, _TURN] = turn + used
                waves[wave, _PC] = pc
                waves[wave, _RUN] = origin
                return _FULL
        elif kind == _BARRIER:
            if table[pc, _HELPER] != 0:
                _call(table[pc, _HELPER], address_scalars, address_vectors, address_context, rows + pc * stride)
            pc += 1
            used += pc - begin
            waves[wave, _STATUS] = _WAITING
            if is_recorded:
                _record(runs, progress, wave, origin, pc)
            break
        elif kind == _END:
            if table[pc, _HELPER] != 0:
                _call(table[pc, _HELPER], address_scalars, address_vectors, address_context, rows + pc * stride)
            transfers[pc + 1] -= 1
            used += pc + 1 - begin
            waves[wave, _STATUS] = _ENDED
            if is_recorded:
                _record(runs, progress, wave, origin, pc + 1)
            break
        elif kind == _MESSAGE_ROW:
            pc += 1
            used += pc - begin
            waves[wave, _EXECUTED] += used
            waves[wave, _TURN] = turn + used
            waves[wave, _PC] = pc
            waves[wave, _RUN] = origin
            return _MESSAGE
        else:
            if kind in (_JUMP, _WARP_BRANCH):
                _call(table[pc, _HELPER], address_scalars, address_vectors, address_context, rows + pc * stride)
                if kind == _WARP_BRANCH:
                    if context[_C_FAULT] != 0:
                        progress[_P_INSTRUCTION] = pc
                        return _FAULTED
                    if context[_C_JUMP] == 0:
                        pc += 1
                        continue
                target = (context[_C_JUMP] - _CODE_BASE) // _CODE_STEP
                if target < 0 or target >= table.shape[0]:
                    context[_C_FAULT] = _CODE_FAULT
                    context[_C_FAULT_ADDRESS] = context[_C_JUMP]
                    progress[_P_INSTRUCTION] = pc
                    return _FAULTED
            elif _is_taken(kind, registers):
                target = table[pc, _TARGET]
            else:
                pc += 1
                continue
            used += pc + 1 - begin
            transfers[pc + 1] -= 1
            if is_recorded:
                _record(runs, progress, wave, origin, pc + 1)
            pc = target
            transfers[pc] += 1
            begin = pc
            origin = pc
            if turn + used > limit:
                break
            if is_recorded and progress[_P_RUNS] >= runs.shape[0] - 1:
                waves[wave, _EXECUTED] += used
                waves[wave, _TURN] = turn + used
                waves[wave, _PC] = pc
                waves[wave, _RUN] = pc
                return _FULL
    waves[wave, _EXECUTED] += used
    waves[wave, _TURN] = 0
    waves[wave, _PC] = pc
    waves[wave, _RUN] = pc
    if waves[wave, _STATUS] != _ENDED and waves[wave, _EXECUTED] > launch[_L_BUDGET]:
        progress[_P_INSTRUCTION] = pc
        return _OVER
    return _DONE


@compiled
def _is_taken(kind, registers):  # type: ignore[no-untyped-def]
    """Whether a branch row jumps."""
    if kind == _BRANCH:
        return True
    if kind == _SCC0:
        return registers[_SCC] == 0
    if kind == _SCC1:
        return registers[_SCC] != 0
    if kind == _VCCZ:
        return (registers[_VCC] | registers[_VCC + 1]) == 0
    if kind == _VCCNZ:
        return (registers[_VCC] | registers[_VCC + 1]) != 0
    if kind == _EXECZ:
        return (registers[_EXEC] | registers[_EXEC + 1]) == 0
    return (registers[_EXEC] | registers[_EXEC + 1]) != 0


@compiled
def _start_workgroup(scalars, vectors, context, waves, transfers, template, launch, workgroup):  # type: ignore[no-untyped-def]
    """Set up every wave of a workgroup as the dispatcher does."""
    columns, rows = launch[_L_GRID], launch[_L_GRID + 1]
    x = workgroup % columns
    y = workgroup // columns % rows
    z = workgroup // (columns * rows)
    width, height, depth = launch[_L_BLOCK], launch[_L_BLOCK + 1], launch[_L_BLOCK + 2]
    context[_C_WORKGROUP] = workgroup
    vectors[:] = 0
    for wave in range(scalars.shape[0]):
        scalars[wave, :] = template
        for axis, number in enumerate((x, y, z)):
            if launch[_L_REGISTER + axis] >= 0:
                scalars[wave, launch[_L_REGISTER + axis]] = number
        lanes = vectors.shape[2]
        for lane in range(lanes):
            item = wave * lanes + lane
            packed = item % width
            if launch[_L_AXES] >= 1:
                packed |= item // width % height << 10
            if launch[_L_AXES] >= 2:
                packed |= item // (width * height) << 20
            vectors[wave, 0, lane] = packed
        # The last wave of a workgroup that is no multiple of a wave starts with the lanes switched off that it has not.
        rest = width * height * depth - wave * lanes
        if rest < 32:
            scalars[wave, _EXEC] = (1 << rest) - 1
            scalars[wave, _EXEC + 1] = 0
        elif rest < lanes:
            scalars[wave, _EXEC + 1] = (1 << (rest - 32)) - 1
        waves[wave, _PC] = 0
        waves[wave, _STATUS] = _READY
        waves[wave, _EXECUTED] = 0
        waves[wave, _TURN] = 0
        waves[wave, _RUN] = 0
    transfers[0] += scalars.shape[0]

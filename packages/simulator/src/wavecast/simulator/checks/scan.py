"""The compiled loop of all checks over the trace of a launch.

Every piece of memory has a cell for who wrote it last and one for who read it last (``cells``); a piece is a word, or
the half word or byte that the smallest access to its buffer has. Accesses of two waves are in order if a barrier of
their workgroup lies between them, or a release and an acquire, which ``ordering`` works out where there is a conflict.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from wavecast.simulator.checks.cells import (
    ATOMIC,
    EPOCH,
    INSTRUCTION,
    INSTRUCTION_BITS,
    MOST_EPOCHS,
    MOST_STEPS,
    MOST_WORKGROUPS,
    OTHER_WAVES,
    OTHER_WORKGROUPS,
    STEP,
    STEP_BITS,
    SYNC,
    TIME_MASK,
    WAVE,
    WAVE_BITS,
    WORKGROUP,
)
from wavecast.simulator.checks.tables import Action, Column, Event, Scope
from wavecast.simulator.compiled import compiled, compiled_inline
from wavecast.simulator.execute.trace import RecordKind


class Stop(IntEnum):
    """Why the loop returned."""

    DONE = 0
    SPLIT = 1  # a buffer is touched in smaller pieces than it has cells for
    ORDER = 2  # a conflict, and what the wave is ordered behind is not known
    EDGES = 3  # no room for another observation
    WORKGROUPS = 4  # more workgroups than cells can name
    SPIN = 5


class At(IntEnum):
    """Slots of the state: where the loop is, and facts of the workgroup that runs."""

    WORKGROUP = 0  # linear id, -1 before the first
    POSITION = 1  # its place in the order of execution
    EPOCH = 2
    ALIVE = 3  # waves that have not ended
    WAITING = 4
    BUFFER = 5  # touched last
    LANE = 6  # first lane of the record that is not done
    PIECE = 7  # first piece of that lane
    SERIAL = 8  # number of the record
    QUIET = 9  # records since one that read another address than the time before, or changed memory
    EDGES = 10
    FENCES = 11
    INVALIDATIONS = 12
    FOUND = 13
    DROPPED = 14  # findings beyond those there is room for
    KNOWN = 15  # thread for which the order is known, or -1
    SPLIT = 16  # buffer to split; -1 for LDS
    LDS_SHIFT = 17
    LDS_BYTES = 18
    WAVES = 19
    LIMIT = 20  # quiet records that are no longer believed
    RESUMED = 21  # whether the record was begun before
    POLLS = 22  # quiet records that are atomics, or loads at the device's scope or wider
    SIZE = 24


class Wave(IntEnum):
    """Columns of the state of a wave."""

    STATUS = 0  # 0 runs, 1 waits at a barrier, 2 has ended
    BARRIER = 1  # the instruction it waits at
    STEP = 2
    WRITTEN_BACK = 3  # time of its last write-back, -1 for none in this workgroup
    WRITE_BACK_SCOPE = 4
    IS_PENDING = 5  # whether that is not waited for yet
    LANES = 6  # lanes that the launch gave it
    SIZE = 8


class Buffers(IntEnum):
    """Columns of the table of buffers."""

    BASE = 0
    END = 1
    CELLS = 2  # first cell
    SHIFT = 3  # log2 of the bytes of a piece
    POISON = 4  # first word of the map of never-written words, or -1
    TOUCHED = 5
    SIZE = 6


class Found(IntEnum):
    """Columns of what was found, one row a kind and pair of instructions."""

    KIND = 0
    INSTRUCTION = 1
    OTHER = 2  # the other instruction, by its number among memory instructions; -1 for none
    ADDRESS = 3
    BUFFER = 4  # -1 LDS, -2 none
    THREAD = 5
    OTHER_THREAD = 6
    LANES = 7
    COUNT = 8
    SERIAL = 9
    DETAIL = 10
    LAST_SERIAL = 11  # record at which it was counted last, and the lanes counted there
    LAST_LANES = 12
    SIZE = 13


class Kind(IntEnum):
    """What is found."""

    OTHER_BUFFER = 0
    LDS_BOUNDS = 1
    MISALIGNED = 2
    NEVER_WRITTEN = 3
    RACE = 4
    COLLISION = 5
    UNORDERED = 6  # a flag was seen, and something is missing: DETAIL says what
    BARRIER_PLACES = 7
    BARRIER_LANES = 8
    EPOCHS = 9


class Lack(IntEnum):
    """What is missing between the two sides of a flag."""

    NOTHING = 0
    WRITE_BACK = 1
    WAIT = 2
    INVALIDATE = 3
    SCOPE = 4


class Edge(IntEnum):
    """Columns of the observations: a wave saw what another wrote to a flag."""

    THREAD = 0
    TIME = 1
    FROM = 2
    FROM_TIME = 3
    FLAG = 4  # address
    IS_ATOMIC = 5  # whether it was written by one
    SIZE = 6


class Fence(IntEnum):
    """Columns of completed write-backs (``COVERED``: time up to which they reach) and of invalidations."""

    THREAD = 0
    TIME = 1
    COVERED = 2
    SCOPE = 3
    IS_COMPLETE = 4
    SIZE = 5


class Arrays(NamedTuple):
    """All state of the loop."""

    at: np.ndarray  # int64 (At.SIZE,)
    waves: np.ndarray  # int64 (waves, Wave.SIZE)
    columns: np.ndarray  # int64 (instructions, Column)
    buffers: np.ndarray  # int64 (buffers, Buffers.SIZE), ascending by address
    cells: np.ndarray  # int64 (cells, 2): writer, reader
    poison: np.ndarray  # uint8: whether a word was never written
    lds: np.ndarray  # int64 (pieces, 2)
    found: np.ndarray  # int64 (rows, Found.SIZE)
    edges: np.ndarray  # int64 (rows, Edge.SIZE)
    fences: np.ndarray  # int64 (rows, Fence.SIZE)
    invalidations: np.ndarray  # int64 (rows, Fence.SIZE)
    ids: np.ndarray  # int64: linear id of the workgroup at each position
    polled: np.ndarray  # int64 (waves, memory instructions): address of the last access
    ordered: np.ndarray  # int64 (threads,): up to when a thread's accesses are in order before the present wave's
    observed: np.ndarray  # the same, were there no fence missing
    lacking: np.ndarray  # int8 (threads,): a ``Lack``


_A_WORKGROUP, _A_POSITION, _A_EPOCH, _A_ALIVE, _A_WAITING, _A_BUFFER, _A_LANE, _A_PIECE, _A_SERIAL = range(9)
_A_QUIET, _A_EDGES, _A_FENCES, _A_INVALIDATIONS, _A_FOUND, _A_DROPPED, _A_KNOWN, _A_SPLIT = range(9, 17)
_A_LDS_SHIFT, _A_LDS_BYTES, _A_WAVES, _A_LIMIT, _A_RESUMED, _A_POLLS = range(17, 23)
_W_STATUS, _W_BARRIER, _W_STEP, _W_BACK, _W_BACK_SCOPE, _W_PENDING, _W_LANES = range(7)
_B_BASE, _B_END, _B_CELLS, _B_SHIFT, _B_POISON, _B_TOUCHED = range(6)
_F_KIND, _F_INSTRUCTION, _F_OTHER, _F_ADDRESS, _F_BUFFER, _F_THREAD, _F_OTHER_THREAD = range(7)
_F_LANES, _F_COUNT, _F_SERIAL, _F_DETAIL, _F_LAST, _F_LAST_LANES = range(7, 13)
_T_ACTION, _T_IN_LDS, _T_WIDTH, _T_PIECES, _T_OFFSET_0, _T_OFFSET_1, _T_SCOPE, _T_EVENT = range(8)
_T_ALIGNMENT, _T_NUMBER, _T_OWNERS, _T_FLAG, _T_LDS_ACTION = range(8, len(Column))
_READ, _WRITE, _ATOMIC = int(Action.READ), int(Action.WRITE), int(Action.ATOMIC)
_AGENT = int(Scope.AGENT)
_BARRIER, _END, _WRITE_BACK, _INVALIDATE, _WAIT_VM = (
    int(e) for e in (Event.BARRIER, Event.END, Event.WRITE_BACK, Event.INVALIDATE, Event.WAIT_VM)
)
_LDS_SIDE, _EVENT = int(RecordKind.LDS_SIDE), int(RecordKind.EVENT)
_K_OTHER_BUFFER, _K_LDS_BOUNDS, _K_MISALIGNED, _K_NEVER, _K_RACE, _K_COLLISION, _K_UNORDERED = range(7)
_K_PLACES, _K_LANES, _K_EPOCHS = range(7, 10)
_L_WRITE_BACK, _L_INVALIDATE = int(Lack.WRITE_BACK), int(Lack.INVALIDATE)
_DONE, _SPLIT, _ORDER, _MORE_EDGES, _TOO_MANY, _SPIN = range(6)
_TIME_BITS = WORKGROUP - WAVE_BITS - STEP
_NUMBER_MASK = (1 << INSTRUCTION_BITS) - 1
_IN_LDS, _NOWHERE = -1, -2
# Of a loop that waits at least one in so many accesses polls; a loop that only reads the same may be a benchmark.
_MOST_BESIDE = 64


@compiled
def scan(kinds, instructions, waves, workgroups, masks, words, first_address, first, a):  # type: ignore[no-untyped-def]
    """Take records from ``first`` on; returns how many are done and a ``Stop``.

    Args:
        kinds: int64, ``RecordKind`` of each record.
        instructions: int32, field of ``RECORD``; the next three likewise.
        waves: int32.
        workgroups: int64.
        masks: int64, EXEC.
        words: int64 (records, words of a record).
        first_address: Word of lane 0's address.
        first: Record to begin with.
        a: ``Arrays``.
    """
    at = a.at
    for record in range(first, len(kinds)):
        kind, instruction, wave = kinds[record], instructions[record], waves[record]
        if workgroups[record] != at[_A_WORKGROUP]:
            if at[_A_POSITION] + 1 >= MOST_WORKGROUPS:
                return record, _TOO_MANY
            _enter(a, workgroups[record])
        if kind == _EVENT:
            _take_event(a, instruction, wave, masks[record])
            continue
        if at[_A_RESUMED] == 0:
            at[_A_SERIAL] += 1
            if _is_quiet(a, instruction, wave, masks[record], words[record], first_address):
                at[_A_QUIET] += 1
                if a.columns[instruction, _T_SCOPE] >= _AGENT:
                    at[_A_POLLS] += 1
                    if at[_A_QUIET] > at[_A_LIMIT] and at[_A_POLLS] * _MOST_BESIDE > at[_A_QUIET]:
                        return record, _SPIN
            else:
                at[_A_QUIET] = at[_A_POLLS] = 0
        stop = _take(a, kind == _LDS_SIDE, instruction, wave, masks[record], words[record], first_address)
        at[_A_RESUMED] = stop != _DONE
        if stop != _DONE:
            return record, stop
        at[_A_LANE] = at[_A_PIECE] = 0
        if a.columns[instruction, _T_FLAG] != 0:
            _advance(a, wave)
    return len(kinds), _DONE


@compiled
def _enter(a, workgroup):  # type: ignore[no-untyped-def]
    """Begin with the next workgroup."""
    at = a.at
    at[_A_WORKGROUP] = workgroup
    at[_A_POSITION] += 1
    a.ids[at[_A_POSITION]] = workgroup
    at[_A_EPOCH] = at[_A_WAITING] = at[_A_QUIET] = 0
    at[_A_ALIVE] = at[_A_WAVES]
    at[_A_KNOWN] = -1
    for wave in range(at[_A_WAVES]):
        a.waves[wave, _W_STATUS] = a.waves[wave, _W_STEP] = a.waves[wave, _W_PENDING] = 0
        a.waves[wave, _W_BACK] = -1
    a.polled[:, :] = -1


@compiled_inline
def _thread(a, wave):  # type: ignore[no-untyped-def]
    return (a.at[_A_POSITION] + 1) << WAVE_BITS | wave


@compiled_inline
def _now(a, wave):  # type: ignore[no-untyped-def]
    return a.at[_A_EPOCH] << STEP_BITS | a.waves[wave, _W_STEP]


@compiled
def _advance(a, wave):  # type: ignore[no-untyped-def]
    """What the wave does from here on is later than what it did."""
    if a.waves[wave, _W_STEP] < MOST_STEPS:
        a.waves[wave, _W_STEP] += 1


@compiled
def _take_event(a, instruction, wave, mask):  # type: ignore[no-untyped-def]
    at, state = a.at, a.waves[wave]
    at[_A_SERIAL] += 1
    event = a.columns[instruction, _T_EVENT]
    if event == _BARRIER:
        if mask != state[_W_LANES]:
            _report(a, _K_LANES, instruction, -1, 0, _NOWHERE, _thread(a, wave), 0, mask & state[_W_LANES], 0)
        state[_W_STATUS], state[_W_BARRIER] = 1, instruction
        at[_A_WAITING] += 1
        _open(a)
    elif event == _END:
        at[_A_QUIET] = 0
        at[_A_WAITING] -= state[_W_STATUS] == 1
        state[_W_STATUS] = 2
        at[_A_ALIVE] -= 1
        _open(a)
    elif event == _WRITE_BACK:
        state[_W_BACK], state[_W_BACK_SCOPE], state[_W_PENDING] = _now(a, wave), a.columns[instruction, _T_SCOPE], 1
        _log(a.fences, at, _A_FENCES, _thread(a, wave), _now(a, wave), _now(a, wave), state[_W_BACK_SCOPE], 0)
        _advance(a, wave)
    elif event == _WAIT_VM:
        if state[_W_PENDING] == 1:
            state[_W_PENDING] = 0
            _log(a.fences, at, _A_FENCES, _thread(a, wave), _now(a, wave), state[_W_BACK], state[_W_BACK_SCOPE], 1)
            _advance(a, wave)
    elif event == _INVALIDATE:
        now, scope = _now(a, wave), a.columns[instruction, _T_SCOPE]
        _log(a.invalidations, at, _A_INVALIDATIONS, _thread(a, wave), now, now, scope, 1)
        _advance(a, wave)
        at[_A_KNOWN] = -1


@compiled
def _log(log, at, slot, thread, time, covered, scope, is_complete):  # type: ignore[no-untyped-def]
    """Add a fence; where the log is full, the oldest half makes room."""
    count = at[slot]
    if count == len(log):
        half = count // 2
        log[: count - half] = log[half:count].copy()
        count -= half
    row = log[count]
    row[0], row[1], row[2], row[3], row[4] = thread, time, covered, scope, is_complete
    at[slot] = count + 1


@compiled
def _open(a):  # type: ignore[no-untyped-def]
    """Open the barrier if every wave that has not ended waits."""
    at = a.at
    if at[_A_WAITING] == 0 or at[_A_WAITING] < at[_A_ALIVE]:
        return
    place = -1
    for wave in range(at[_A_WAVES]):
        state = a.waves[wave]
        if state[_W_STATUS] != 1:
            continue
        if place < 0:
            place = state[_W_BARRIER]
        elif state[_W_BARRIER] != place:
            _report(a, _K_PLACES, state[_W_BARRIER], -1, 0, _NOWHERE, _thread(a, wave), 0, 0, place)
        state[_W_STATUS] = state[_W_STEP] = 0
    at[_A_WAITING] = 0
    at[_A_KNOWN] = -1
    if at[_A_EPOCH] < MOST_EPOCHS:
        at[_A_EPOCH] += 1
    else:
        _report(a, _K_EPOCHS, place, -1, 0, _NOWHERE, _thread(a, 0), 0, 0, 0)


@compiled
def _is_quiet(a, instruction, wave, mask, row, first_address):  # type: ignore[no-untyped-def]
    """Whether the record is an access to the address that it had before, and changes nothing."""
    if mask == 0:
        return False
    columns = a.columns[instruction]
    address = row[first_address + _lowest(mask)]
    place = columns[_T_NUMBER]
    same = a.polled[wave, place] == address
    a.polled[wave, place] = address
    return same and row[5] == 0


@compiled
def _lowest(mask):  # type: ignore[no-untyped-def]
    lane = 0
    while mask >> lane & 1 == 0:
        lane += 1
    return lane


@compiled
def _report(a, kind, instruction, other, address, buffer, thread, other_thread, lanes, detail):  # type: ignore[no-untyped-def]
    """Count a finding; the first of its kind at a pair of instructions is kept with all that is known of it."""
    at, found = a.at, a.found
    for number in range(at[_A_FOUND]):
        row = found[number]
        if row[_F_KIND] == kind and row[_F_INSTRUCTION] == instruction and row[_F_OTHER] == other:
            if row[_F_LAST] != at[_A_SERIAL]:
                row[_F_LAST], row[_F_LAST_LANES] = at[_A_SERIAL], 0
            row[_F_COUNT] += row[_F_LAST_LANES] & lanes == 0
            row[_F_LAST_LANES] |= lanes
            if row[_F_SERIAL] == at[_A_SERIAL]:
                row[_F_LANES] |= lanes
            return
    if at[_A_FOUND] == len(found):
        at[_A_DROPPED] += 1
        return
    row = found[at[_A_FOUND]]
    at[_A_FOUND] += 1
    row[_F_KIND], row[_F_INSTRUCTION], row[_F_OTHER], row[_F_ADDRESS] = kind, instruction, other, address
    row[_F_BUFFER], row[_F_THREAD], row[_F_OTHER_THREAD], row[_F_LANES] = buffer, thread, other_thread, lanes
    row[_F_COUNT], row[_F_SERIAL], row[_F_DETAIL] = 1, at[_A_SERIAL], detail
    row[_F_LAST], row[_F_LAST_LANES] = at[_A_SERIAL], lanes


@compiled
def _take(a, is_lds_side, instruction, wave, mask, row, first_address):  # type: ignore[no-untyped-def]
    """Check one access of a wave, from the lane and piece at which the loop left; returns a ``Stop``."""
    at, columns = a.at, a.columns[instruction]
    in_lds = is_lds_side or columns[_T_IN_LDS] != 0
    action = columns[_T_LDS_ACTION] if is_lds_side else columns[_T_ACTION]
    width, pieces = columns[_T_WIDTH], columns[_T_PIECES]
    if is_lds_side and width < 4 and action == _WRITE and columns[_T_ACTION] == _READ:
        width = 4  # what loads straight to LDS bring is extended to words
    is_sync = action == _ATOMIC or (not in_lds and columns[_T_SCOPE] >= _AGENT)
    me = (
        (at[_A_POSITION] + 1) << WORKGROUP
        | wave << WAVE
        | _now(a, wave) << STEP
        | columns[_T_NUMBER] << INSTRUCTION
        | (SYNC if is_sync else 0)
        | (ATOMIC if action == _ATOMIC else 0)
    )
    end, changed, lost = row[4], row[5], row[6]
    for lane in range(at[_A_LANE], 64):
        if mask >> lane & 1 == 0:
            continue
        base = row[first_address + lane]
        bit = np.int64(1) << lane
        for piece in range(at[_A_PIECE], pieces):
            address = base + (columns[_T_OFFSET_0] if piece == 0 else columns[_T_OFFSET_1])
            if action == _WRITE and lost & bit != 0 and piece == 0:
                _report_collision(a, instruction, address, in_lds, wave, bit)
            is_new = action != _WRITE or changed & bit != 0
            if in_lds:
                address &= 0xFFFFFFFF
                stop = _in_lds(a, action, me, instruction, address, width, wave, bit, is_new)
            else:
                bytes_here = width
                # The range check of a descriptor cuts off the words behind its end.
                if end != -1 and address + width > end:
                    bytes_here = (end - address) // 4 * 4 if width >= 4 else 0
                stop = _in_memory(a, action, me, instruction, address, bytes_here, wave, bit, is_new)
            if stop != _DONE:
                at[_A_LANE], at[_A_PIECE] = lane, piece
                return stop
        at[_A_PIECE] = 0
    return _DONE


@compiled
def _report_collision(a, instruction, address, in_lds, wave, bit):  # type: ignore[no-untyped-def]
    buffer = _IN_LDS if in_lds else _find(a, address)
    _report(a, _K_COLLISION, instruction, -1, address, buffer, _thread(a, wave), 0, bit, 0)


@compiled_inline
def _find(a, address):  # type: ignore[no-untyped-def]
    """Number of the buffer that has the address, or -2."""
    buffers = a.buffers
    last = a.at[_A_BUFFER]
    if last < len(buffers) and buffers[last, _B_BASE] <= address < buffers[last, _B_END]:
        return last
    low, high = 0, len(buffers)
    while low < high:
        middle = (low + high) // 2
        if buffers[middle, _B_END] <= address:
            low = middle + 1
        else:
            high = middle
    if low < len(buffers) and buffers[low, _B_BASE] <= address:
        a.at[_A_BUFFER] = low
        return low
    return _NOWHERE


@compiled_inline
def _in_lds(a, action, me, instruction, address, width, wave, bit, is_new):  # type: ignore[no-untyped-def]
    # Taken out of the tuple once: each time counts a reference.
    at, lds = a.at, a.lds
    if address + width > at[_A_LDS_BYTES]:
        _report(a, _K_LDS_BOUNDS, instruction, -1, address, _IN_LDS, _thread(a, wave), 0, bit, 0)
        return _DONE
    shift = at[_A_LDS_SHIFT]
    if (address | width) & ((1 << shift) - 1) != 0:
        at[_A_SPLIT] = _IN_LDS
        return _SPLIT
    if address & (a.columns[instruction, _T_ALIGNMENT] - 1) != 0:
        _report(a, _K_MISALIGNED, instruction, -1, address, _IN_LDS, _thread(a, wave), 0, bit, 0)
    mine = me >> WORKGROUP
    for piece in range(address >> shift, (address + width) >> shift):
        writer = lds[piece, 0]
        if writer >> WORKGROUP != mine:
            writer = 0
            if action != _WRITE:
                _report(a, _K_NEVER, instruction, -1, piece << shift, _IN_LDS, _thread(a, wave), 0, bit, 0)
                if action == _READ:
                    continue
        if action == _READ:
            if writer >> WAVE != me >> WAVE and writer >> EPOCH & MOST_EPOCHS == me >> EPOCH & MOST_EPOCHS:
                _race(a, instruction, writer, piece << shift, _IN_LDS, wave, bit)
            _note_reader(lds, piece, me)
            continue
        if writer != 0 and not is_new:
            continue
        both_atomic = me & SYNC & writer
        same_epoch = writer >> EPOCH & MOST_EPOCHS == me >> EPOCH & MOST_EPOCHS
        if writer != 0 and writer >> WAVE != me >> WAVE and same_epoch and both_atomic == 0:
            _race(a, instruction, writer, piece << shift, _IN_LDS, wave, bit)
        reader = lds[piece, 1]
        is_now = reader >> WORKGROUP == mine and reader >> EPOCH & MOST_EPOCHS == me >> EPOCH & MOST_EPOCHS
        if is_now and (reader >> WAVE != me >> WAVE or reader & OTHER_WAVES != 0):
            _race(a, instruction, reader, piece << shift, _IN_LDS, wave, bit)
        lds[piece, 0] = me
        lds[piece, 1] = 0
    return _DONE


@compiled
def _race(a, instruction, cell, address, buffer, wave, bit):  # type: ignore[no-untyped-def]
    number = cell >> INSTRUCTION & _NUMBER_MASK
    _report(a, _K_RACE, instruction, number, address, buffer, _thread(a, wave), cell >> WAVE, bit, 0)


@compiled_inline
def _note_reader(cells, piece, me):  # type: ignore[no-untyped-def]
    reader = cells[piece, 1]
    if reader >> STEP == me >> STEP:
        return
    flags = np.int64(0)
    if reader != 0:
        if reader >> WORKGROUP != me >> WORKGROUP:
            flags = np.int64(OTHER_WORKGROUPS)
        else:
            flags = reader & OTHER_WORKGROUPS
            if reader >> EPOCH & MOST_EPOCHS == me >> EPOCH & MOST_EPOCHS:
                flags |= reader & OTHER_WAVES
                if reader >> WAVE != me >> WAVE:
                    flags |= OTHER_WAVES
    cells[piece, 1] = me | flags


@compiled_inline
def _in_memory(a, action, me, instruction, address, width, wave, bit, is_new):  # type: ignore[no-untyped-def]
    at, cells, poison = a.at, a.cells, a.poison
    number = _find(a, address)
    if number < 0:
        return _DONE
    buffer = a.buffers[number]
    start = address - buffer[_B_BASE]
    shift = buffer[_B_SHIFT]
    if (start | width) & ((1 << shift) - 1) != 0:
        at[_A_SPLIT] = number
        return _SPLIT
    owners = a.columns[instruction, _T_OWNERS]
    if owners >= 0 and (number >= 62 or owners >> number & 1 == 0):
        _report(a, _K_OTHER_BUFFER, instruction, -1, address, number, _thread(a, wave), 0, bit, owners)
    if address & (a.columns[instruction, _T_ALIGNMENT] - 1) != 0:
        _report(a, _K_MISALIGNED, instruction, -1, address, number, _thread(a, wave), 0, bit, 0)
    buffer[_B_TOUCHED] = 1
    if buffer[_B_POISON] >= 0:
        for word in range(start >> 2, (start + width + 3) >> 2):
            place = buffer[_B_POISON] + word
            if poison[place] != 0:
                if action != _WRITE:
                    _report(
                        a, _K_NEVER, instruction, -1, buffer[_B_BASE] + (word << 2), number, _thread(a, wave), 0, bit, 0
                    )
                if action != _READ:
                    poison[place] = 0
    first = buffer[_B_CELLS] + (start >> shift)
    for offset in range(width >> shift):
        piece = first + offset
        writer = cells[piece, 0]
        if action != _READ and writer != 0 and not is_new:
            continue
        if writer != 0 and writer >> WAVE != me >> WAVE:
            stop = _meet(a, instruction, action, me, writer, address + (offset << shift), number, wave, bit)
            if stop != _DONE:
                return stop
        if action == _READ:
            _note_reader(cells, piece, me)
            continue
        reader = cells[piece, 1]
        if reader != 0:
            stop = _overtake(a, instruction, me, reader, address + (offset << shift), number, wave, bit)
            if stop != _DONE:
                return stop
        cells[piece, 0] = me
        cells[piece, 1] = 0
    return _DONE


@compiled
def _meet(a, instruction, action, me, writer, address, buffer, wave, bit):  # type: ignore[no-untyped-def]
    """An access to what another wave wrote last."""
    if me & writer & SYNC != 0:
        if action != _WRITE:
            return _observe(a, me, writer, address, wave)
        return _DONE
    return _conflict(a, instruction, me, writer, address, buffer, wave, bit)


@compiled
def _overtake(a, instruction, me, reader, address, buffer, wave, bit):  # type: ignore[no-untyped-def]
    """A write to what was read."""
    if me & reader & SYNC != 0:
        return _DONE
    if reader >> WAVE != me >> WAVE:
        return _conflict(a, instruction, me, reader, address, buffer, wave, bit)
    # The wave's own reading hides others; with flags in the launch they may have been ordered.
    same_epoch = reader >> EPOCH & MOST_EPOCHS == me >> EPOCH & MOST_EPOCHS
    hidden = reader & OTHER_WORKGROUPS != 0 or (same_epoch and reader & OTHER_WAVES != 0)
    if hidden and a.at[_A_EDGES] == 0:
        _race(a, instruction, reader, address, buffer, wave, bit)
    return _DONE


@compiled
def _conflict(a, instruction, me, cell, address, buffer, wave, bit):  # type: ignore[no-untyped-def]
    """Two waves at one place, at least one of them writing, not both with atomics: are they in order?"""
    at = a.at
    if cell >> WORKGROUP == me >> WORKGROUP and cell >> EPOCH & MOST_EPOCHS < me >> EPOCH & MOST_EPOCHS:
        return _DONE
    if at[_A_EDGES] == 0:
        _race(a, instruction, cell, address, buffer, wave, bit)
        return _DONE
    if at[_A_KNOWN] != me >> WAVE:
        return _ORDER
    thread, time = cell >> WAVE, cell >> STEP & TIME_MASK
    if a.ordered[thread] >= time:
        return _DONE
    number = cell >> INSTRUCTION & _NUMBER_MASK
    if a.observed[thread] >= time:
        lack = np.int64(a.lacking[thread])
        # An access of the device's scope or wider passes the caches that a fence would empty.
        if (lack == _L_INVALIDATE and me & SYNC != 0) or (lack == _L_WRITE_BACK and cell & SYNC != 0):
            return _DONE
        _report(a, _K_UNORDERED, instruction, number, address, buffer, _thread(a, wave), thread, bit, lack)
        return _DONE
    _race(a, instruction, cell, address, buffer, wave, bit)
    return _DONE


@compiled
def _observe(a, me, writer, address, wave):  # type: ignore[no-untyped-def]
    """Note that the wave saw what another wrote to a flag."""
    at = a.at
    count = at[_A_EDGES]
    thread, time = me >> WAVE, me >> STEP & TIME_MASK
    source, source_time = writer >> WAVE, writer >> STEP & TIME_MASK
    if count > 0:
        last = a.edges[count - 1]
        if last[0] == thread and last[1] == time and last[2] == source and last[3] == source_time:
            return _DONE
    if count == len(a.edges):
        return _MORE_EDGES
    row = a.edges[count]
    row[0], row[1], row[2], row[3], row[4], row[5] = thread, time, source, source_time, address, writer & ATOMIC != 0
    at[_A_EDGES] = count + 1
    at[_A_KNOWN] = -1
    return _DONE

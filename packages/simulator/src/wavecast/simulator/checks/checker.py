"""The checks of one launch: an observer of the address trace."""

from __future__ import annotations

import bisect
import mmap
import sys
from collections.abc import Sequence

import numpy as np

from wavecast.simulator.checks import texts
from wavecast.simulator.checks.cells import MOST_WAVES, WAVE_BITS, instruction_of, thread_of
from wavecast.simulator.checks.finding import Check, Finding, Severity, Site
from wavecast.simulator.checks.joins import EarlyCopies, early_copies
from wavecast.simulator.checks.ordering import order_of
from wavecast.simulator.checks.provenance import address_owners
from wavecast.simulator.checks.scan import (
    Arrays,
    At,
    Buffers,
    Edge,
    Fence,
    Found,
    Kind,
    Lack,
    Stop,
    Wave,
    scan,
)
from wavecast.simulator.checks.tables import Action, Column, instruction_columns, set_owners, wanted_events
from wavecast.simulator.checks.unwritten import never_written_words
from wavecast.simulator.errors import InstructionBudgetError, LaunchError
from wavecast.simulator.execute.abi import ArgumentValue, Grid
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.memory import AddressSpace, Buffer
from wavecast.simulator.execute.trace import RECORD, RecordKind
from wavecast.simulator.program.kernel import Kernel

# Findings kept of a launch: each is a kind at a pair of instructions.
_FOUND = 512
_EDGES = 1 << 12
_MOST_EDGES = 1 << 22
_FENCES = 1 << 16
# Polls in a row, for each wave of the workgroup, after which nothing is expected any more: all others had turns.
_POLLS = 1 << 16
_SHIFT = 2
_FIRST_ADDRESS = RECORD.itemsize // 8 - LANES
_BYTES_A_CELL_PAIR = 16
# The module has Linux's MAP_NORESERVE since Python 3.12.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


class LaunchCheck:
    """Observer of the execution engine that looks for faults; hand it to ``execute`` together with ``events``.

    Args:
        kernel: What runs.
        grid: Workgroups in x, y, z.
        block: Work-items of a workgroup in x, y, z.
        arguments: One value per explicit argument.
        memory: Buffers of the launch.
        is_whole: Whether all workgroups run, here and in the launches before: else nothing is said of memory that
            was never written.

    Attributes:
        events: Instructions whose execution must be in the trace.

    Raises:
        LaunchError: The kernel is beyond what can be told apart.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        grid: Grid,
        block: Grid,
        arguments: Sequence[ArgumentValue],
        memory: AddressSpace,
        is_whole: bool = True,
    ) -> None:
        self._kernel, self._grid = kernel, grid
        self._buffers: list[Buffer] = memory.buffers
        columns = instruction_columns(kernel)
        self.events = wanted_events(columns)
        set_owners(columns, address_owners(kernel), self._buffers_of_arguments(arguments))
        self._numbered = np.flatnonzero(columns[:, Column.ACTION] != Action.NONE)
        items = block[0] * block[1] * block[2]
        count = -(-items // LANES)
        if count > MOST_WAVES:
            raise LaunchError(f"kernel {kernel.name}: {count} waves a workgroup, and checks tell {MOST_WAVES} apart")
        at = np.zeros(At.SIZE, dtype=np.int64)
        at[At.WORKGROUP], at[At.POSITION], at[At.KNOWN] = -1, -1, -1
        at[At.LDS_SHIFT], at[At.LDS_BYTES], at[At.WAVES] = _SHIFT, kernel.resources.lds_bytes, count
        at[At.LIMIT] = (count + 1) * _POLLS
        waves = np.zeros((count, Wave.SIZE), dtype=np.int64)
        for wave in range(count):
            lanes = min(LANES, items - wave * LANES)
            waves[wave, Wave.LANES] = -1 if lanes == LANES else (1 << lanes) - 1
        table, cells, poison = self._shadow(is_whole)
        self._arrays = Arrays(
            at=at,
            waves=waves,
            columns=columns,
            buffers=table,
            cells=cells,
            poison=poison,
            lds=np.zeros((-(-kernel.resources.lds_bytes >> _SHIFT), 2), dtype=np.int64),
            found=np.zeros((_FOUND, Found.SIZE), dtype=np.int64),
            edges=np.zeros((_EDGES, Edge.SIZE), dtype=np.int64),
            fences=np.zeros((_FENCES, Fence.SIZE), dtype=np.int64),
            invalidations=np.zeros((_FENCES, Fence.SIZE), dtype=np.int64),
            ids=np.zeros(1 << 20, dtype=np.int64),
            polled=np.full((count, max(1, len(self._numbered))), -1, dtype=np.int64),
            ordered=np.zeros(0, dtype=np.int64),
            observed=np.zeros(0, dtype=np.int64),
            lacking=np.zeros(0, dtype=np.int8),
        )
        self._spin: Finding | None = None
        self._last: np.ndarray | None = None

    def _buffers_of_arguments(self, arguments: Sequence[ArgumentValue]) -> list[int]:
        bases = [buffer.device for buffer in self._buffers]
        result = []
        for value in arguments:
            place = bisect.bisect_right(bases, int(value)) - 1 if isinstance(value, int | np.integer) else -1
            inside = place >= 0 and int(value) <= bases[place] + self._buffers[place].size
            result.append(place if inside else -1)
        return result

    def _shadow(self, is_whole: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Table of buffers, cells for all of their bytes, and the map of words that were never written."""
        table = np.zeros((len(self._buffers), Buffers.SIZE), dtype=np.int64)
        cells, words = 0, 0
        maps: list[np.ndarray] = []
        for buffer, row in zip(self._buffers, table, strict=True):
            row[Buffers.BASE], row[Buffers.END] = buffer.device, buffer.device + buffer.size
            row[Buffers.CELLS], row[Buffers.SHIFT], row[Buffers.POISON] = cells, _SHIFT, -1
            cells += buffer.size + 1
            never = never_written_words(buffer.host, buffer.size) if is_whole else np.zeros(0, dtype=np.bool_)
            if never.any():
                row[Buffers.POISON] = words
                # The bytes behind the last whole word count as written.
                maps += [never.view(np.uint8), np.zeros(1, dtype=np.uint8)]
                words += len(never) + 1
        poison = np.concatenate(maps) if maps else np.zeros(1, dtype=np.uint8)
        return table, _reserve(max(1, cells)), poison

    def consume(self, records: np.ndarray) -> None:
        """Take records of dtype ``RECORD``, in the order of execution.

        Raises:
            LaunchError: More workgroups than can be told apart.
            InstructionBudgetError: Every wave of a workgroup waits for a flag that nobody sets.
        """
        words = np.ascontiguousarray(records, dtype=RECORD).view(np.int64).reshape(len(records), -1)
        done = 0
        while True:
            done, stop = scan(
                words[:, 3],
                records["instruction"],
                records["wave"],
                records["workgroup"],
                words[:, 2],
                words,
                _FIRST_ADDRESS,
                done,
                self._arrays,
            )
            if stop == Stop.DONE:
                accesses = np.flatnonzero(words[:, 3] != RecordKind.EVENT)
                self._last = records[accesses[-1:]].copy()[0] if len(accesses) else self._last
                return
            if stop == Stop.SPLIT:
                self._split(int(self._arrays.at[At.SPLIT]))
            elif stop == Stop.ORDER:
                self._find_order(int(records["wave"][done]))
            elif stop == Stop.EDGES:
                self._make_room_for_edges()
            elif stop == Stop.SPIN:
                raise self._endless(records[done])
            else:
                raise LaunchError(
                    f"kernel {self._kernel.name}: more workgroups than checks can tell apart",
                    hint="check a smaller grid",
                )

    def _split(self, number: int) -> None:
        """Give a buffer (-1: LDS) cells for pieces of half the size."""
        a = self._arrays
        if number < 0:
            a.at[At.LDS_SHIFT] -= 1
            self._arrays = a._replace(lds=np.repeat(a.lds, 2, axis=0))
            return
        row = a.buffers[number]
        row[Buffers.SHIFT] -= 1
        if row[Buffers.TOUCHED]:
            first, size = int(row[Buffers.CELLS]), int(row[Buffers.END] - row[Buffers.BASE])
            old = a.cells[first : first + -(-size >> int(row[Buffers.SHIFT]) + 1)]
            wide = np.repeat(old, 2, axis=0)[: size + 1]
            a.cells[first : first + len(wide)] = wide

    def _find_order(self, wave: int) -> None:
        """Work out what the wave that runs is in order behind."""
        a = self._arrays
        at = a.at
        thread = (int(at[At.POSITION]) + 1) << WAVE_BITS | wave
        order = order_of(
            thread,
            int(at[At.EPOCH]),
            int(at[At.WAVES]),
            a.edges[: at[At.EDGES]],
            a.fences[: at[At.FENCES]],
            a.invalidations[: at[At.INVALIDATIONS]],
        )
        size = (int(at[At.POSITION]) + 2) << WAVE_BITS
        ordered, observed = np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int64)
        lacking = np.zeros(size, dtype=np.int8)
        for target, values in ((ordered, order.ordered), (observed, order.observed), (lacking, order.lacking)):
            if values:
                target[np.fromiter(values, dtype=np.int64)] = np.fromiter(values.values(), dtype=np.int64)
        at[At.KNOWN] = thread
        self._arrays = a._replace(ordered=ordered, observed=observed, lacking=lacking)

    def _make_room_for_edges(self) -> None:
        a = self._arrays
        if len(a.edges) >= _MOST_EDGES:
            half = len(a.edges) // 2
            a.edges[: len(a.edges) - half] = a.edges[half:].copy()
            a.at[At.EDGES] = len(a.edges) - half
            return
        self._arrays = a._replace(edges=np.concatenate([a.edges, np.zeros_like(a.edges)]))

    def _endless(self, record: np.ndarray) -> InstructionBudgetError:
        instruction, wave = int(record["instruction"]), int(record["wave"])
        mask = int(record["exec"])
        lane = (mask & -mask).bit_length() - 1
        address = int(record["address"][lane])
        is_lds_side = record["kind"] == RecordKind.LDS_SIDE
        in_lds = is_lds_side or bool(self._arrays.columns[instruction, Column.IN_LDS])
        number = -1 if in_lds else self._buffer_at(address)
        name, offset = self._place(number, address)
        writer = 0
        if number >= 0:
            row = self._arrays.buffers[number]
            writer = int(self._arrays.cells[row[Buffers.CELLS] + ((offset or 0) >> int(row[Buffers.SHIFT])), 0])
        thread = (int(self._arrays.at[At.POSITION]) + 1) << WAVE_BITS | wave
        self._spin = Finding(
            check=Check.SPIN,
            severity=Severity.ERROR,
            kernel=self._kernel.name,
            site=self._site(instruction, thread),
            message="waits for a value that no wave that can still run will write",
            hint="workgroups run one after another here, as they may on a busy GPU: a workgroup must not wait for one "
            "with a higher number, nor a wave for what its own workgroup writes behind a barrier",
            lanes=_lanes(mask),
            address=address,
            buffer=name,
            offset=offset,
            other=self._site_of_number(instruction_of(writer), thread_of(writer)) if writer else None,
        )
        return InstructionBudgetError(str(self._spin), hint=self._spin.hint)

    def out_of_budget(self) -> None:
        """Take note that the engine gave a wave up: if it only read the same addresses all the time, it waited."""
        if self._spin is None and self._last is not None and self._arrays.at[At.QUIET] > self._arrays.at[At.LIMIT]:
            self._endless(self._last)

    def findings(self) -> tuple[Finding, ...]:
        """What was found so far, the gravest first."""
        a = self._arrays
        result = [self._finding(row) for row in a.found[: a.at[At.FOUND]]]
        if self._spin is not None:
            result.append(self._spin)
        result += [self._early_copies(found) for found in early_copies(self._kernel)]
        if a.at[At.DROPPED]:
            result.append(
                Finding(
                    Check.UNCHECKED,
                    Severity.NOTE,
                    self._kernel.name,
                    self._site(0, 0),
                    f"{a.at[At.DROPPED]} more findings, at other pairs of instructions, are not listed",
                    "mend those above first",
                )
            )
        ranks = list(Severity)
        return tuple(sorted(result, key=lambda finding: ranks.index(finding.severity)))

    def _early_copies(self, found: EarlyCopies) -> Finding:
        count = len(found.copies)
        return Finding(
            check=Check.EARLY_COPY,
            severity=texts.severity_of(Check.EARLY_COPY),
            kernel=self._kernel.name,
            site=self._site(found.copies[0], 0),
            message=f"{count} register{'s are' if count > 1 else ' is'} copied before the lanes that skipped a branch "
            "are active again: in those lanes the copy keeps what it held before",
            hint=texts.HINTS[Check.EARLY_COPY],
            other=self._site(found.join, 0),
        )

    def _finding(self, row: np.ndarray) -> Finding:
        kind, instruction = Kind(int(row[Found.KIND])), int(row[Found.INSTRUCTION])
        lack = Lack(int(row[Found.DETAIL])) if kind is Kind.UNORDERED else Lack.NOTHING
        check = texts.LACKS[lack] if lack is not Lack.NOTHING else texts.CHECKS[kind]
        number, address = int(row[Found.BUFFER]), int(row[Found.ADDRESS])
        name, offset = self._place(number, address)
        other = None
        if row[Found.OTHER] >= 0:
            other = self._site_of_number(int(row[Found.OTHER]), int(row[Found.OTHER_THREAD]))
        elif kind is Kind.BARRIER_PLACES:
            other = self._site(int(row[Found.DETAIL]), 0)
        column = self._arrays.columns[instruction]
        is_atomic = column[Column.ACTION] == Action.ATOMIC
        is_scalar = self._kernel.instructions[instruction].opcode.startswith("s_")
        hint = texts.LACK_HINTS[lack] if lack is not Lack.NOTHING else texts.HINTS.get(check, "")
        if kind is Kind.MISALIGNED:
            hint = self._alignment_hint(is_atomic=is_atomic, is_scalar=is_scalar)
        return Finding(
            check=check,
            severity=texts.severity_of(check, is_fatal=is_atomic or is_scalar),
            kernel=self._kernel.name,
            site=self._site(instruction, int(row[Found.THREAD])),
            message=self._message(kind, lack, row),
            hint=hint,
            lanes=_lanes(int(row[Found.LANES])),
            address=None if number == -2 else address,
            buffer=name,
            offset=offset,
            other=other,
            count=int(row[Found.COUNT]),
        )

    @staticmethod
    def _alignment_hint(*, is_atomic: bool, is_scalar: bool) -> str:
        if is_atomic:
            return "atomics must be aligned to their size: the hardware faults"
        if is_scalar:
            return "scalar loads drop the two lowest bits of the address: the wrong words are read"
        return "the hardware serves it, in more requests: align the rows, or a promised alignment does not hold"

    def _message(self, kind: Kind, lack: Lack, row: np.ndarray) -> str:
        instruction = int(row[Found.INSTRUCTION])
        columns = self._arrays.columns
        if lack is not Lack.NOTHING:
            return texts.LACK_MESSAGES[lack]
        if kind is Kind.OTHER_BUFFER:
            owners = [b.name for number, b in enumerate(self._buffers[:62]) if int(row[Found.DETAIL]) >> number & 1]
            return f"an address that was made from {' or '.join(map(repr, owners))} lies in another buffer,"
        if kind is Kind.LDS_BOUNDS:
            return f"an access beyond the {self._arrays.at[At.LDS_BYTES]} bytes of the workgroup's LDS"
        if kind is Kind.MISALIGNED:
            return f"an access that is not aligned to {columns[instruction, Column.ALIGNMENT]} bytes"
        if kind is Kind.NEVER_WRITTEN:
            return "a read of memory that was never written,"
        if kind is Kind.COLLISION:
            return "lanes of one store write different values to one address,"
        if kind is Kind.RACE:
            same = int(row[Found.THREAD]) >> WAVE_BITS == int(row[Found.OTHER_THREAD]) >> WAVE_BITS
            first = columns[self._numbered[int(row[Found.OTHER])], Column.ACTION]
            second = columns[instruction, Column.ACTION]
            words = {Action.READ: "read", Action.WRITE: "write", Action.ATOMIC: "atomic"}
            between = "no barrier" if same else "no flag or atomic"
            who = "waves of a workgroup" if same else "workgroups"
            return f"{words[Action(second)]} after {words[Action(first)]} by two {who} with {between} between them,"
        if kind is Kind.BARRIER_PLACES:
            return "waves of a workgroup meet at different barriers"
        if kind is Kind.BARRIER_LANES:
            return "a barrier that only some lanes of the wave come to"
        return "more barriers than are told apart: later races between waves of a workgroup are not looked for"

    def _site(self, instruction: int, thread: int) -> Site:
        what = self._kernel.instructions[instruction]
        if not thread:
            return Site(what.source, what.text)
        workgroup = int(self._arrays.ids[(thread >> WAVE_BITS) - 1])
        columns, rows, _ = self._grid
        place = workgroup % columns, workgroup // columns % rows, workgroup // (columns * rows)
        return Site(what.source, what.text, place, thread & MOST_WAVES - 1)

    def _site_of_number(self, number: int, thread: int) -> Site:
        return self._site(int(self._numbered[number]), thread)

    def _buffer_at(self, address: int) -> int:
        for number, buffer in enumerate(self._buffers):
            if buffer.device <= address < buffer.device + buffer.size:
                return number
        return -2

    def _place(self, number: int, address: int) -> tuple[str | None, int | None]:
        if number == -1:
            return "LDS", address
        if number < 0:
            return None, None
        return self._buffers[number].name, address - self._buffers[number].device


def _lanes(mask: int) -> tuple[int, ...]:
    return tuple(lane for lane in range(LANES) if mask >> lane & 1)


def _reserve(count: int) -> np.ndarray:
    """int64 zeros (count, 2) of which only what is touched takes memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    pages = mmap.mmap(-1, count * _BYTES_A_CELL_PAIR, flags=flags)
    return np.frombuffer(pages, dtype=np.int64).reshape(count, 2)

"""Instruction streams of the recorded workgroups, short enough to be simulated.

Long loops are cut: of a run, or a group of runs, that repeats itself, the first few rounds stay. What the simulation
finds for an instruction then stands for all its executions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.compiled import compiled
from wavecast.simulator.evenly import golden_fractions
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.timing.compute_unit.layout import UNKNOWN, WHOLE

# Runs after which a group of them may begin again: a loop with so many taken branches in its body is still seen.
_LONGEST_GROUP = 128
# Multiples of the golden ratio by which workgroups differ.
_PHASE = 5
_ROUNDS = (256, 128, 64, 32, 16, 8, 4, 2)


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams of a pool of workgroups.

    Attributes:
        code: int32, static instructions of all waves, one stream after another.
        again: bool, whether the wave has executed the instruction before.
        missing: int64, share of 2**32 of such executions that get past L1, or ``UNKNOWN``.
        first: int64 (workgroups * waves,), where each begins in ``code``.
        last: int64 (workgroups * waves,), one beyond where it ends.
        waves: Of a workgroup.
    """

    code: np.ndarray
    again: np.ndarray
    missing: np.ndarray
    first: np.ndarray
    last: np.ndarray
    waves: int

    @property
    def workgroups(self) -> int:
        return len(self.first) // self.waves


def prepare_streams(
    execution: Execution, *, instructions: int, workgroups: int, misses: Mapping[int, np.ndarray] | None = None
) -> Streams:
    """Streams of the recorded workgroups of an execution.

    Args:
        execution: With recorded runs.
        instructions: About as many of a wave are kept at most; more where the code without any loop is longer.
        workgroups: Of the pool, at most: of the recorded ones, from those with the least work to those with the most,
            as many of each part; any few that follow one another are again of all parts.
        misses: Of loads by their index, as in ``InstructionTraffic.l1_misses``; nothing known of the others.

    Raises:
        ValueError: if nothing was recorded.
    """
    runs = execution.runs
    if not len(runs):
        raise ValueError(
            f"no workgroup of kernel {execution.kernel.name!r} was recorded: execute it with record=8 or so"
        )
    recorded = np.unique(runs["position"])
    count = min(workgroups, len(recorded))
    by_work = recorded[np.argsort(execution.instructions_per_workgroup[recorded], kind="stable")]
    chosen = by_work[(np.arange(count) * 2 + 1) * len(recorded) // (2 * count)]
    # Those that follow one another have little and much work in turn, so that a few of them stand for all.
    chosen = chosen[np.argsort(golden_fractions(np.arange(count), first=0.5))]
    waves = int(runs["wave"].max()) + 1
    parts, known = [], dict[bytes, np.ndarray]()
    for position in chosen:
        of_group = runs[runs["position"] == position]
        for wave in range(waves):
            of_wave = of_group[of_group["wave"] == wave]
            # Most waves go the same way.
            key = b"".join(of_wave[column].tobytes() for column in ("first", "end", "repeats"))
            if key not in known:
                known[key] = _cut(of_wave, instructions)
            parts.append(known[key])
    last = np.cumsum([len(part) for part in parts])
    first = np.concatenate([[0], last[:-1]])
    code = np.concatenate(parts)
    # All executions of an instruction beside one another, stream by stream. Sorting short integers takes linear time.
    order = np.argsort(code.astype(np.min_scalar_type(int(code.max()))), kind="stable")
    stream = np.repeat(np.arange(len(parts)), last - first)[order]
    again = np.empty(len(code), dtype=np.bool_)
    again[order] = _is_like_the_one_before(code[order], stream)
    missing = _missing(code, order, stream, waves, misses or {})
    return Streams(code, again, missing, first, last, waves)


def _is_like_the_one_before(*columns: np.ndarray) -> np.ndarray:
    alike = np.zeros(len(columns[0]), dtype=np.bool_)
    alike[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return alike


def _missing(
    code: np.ndarray, order: np.ndarray, stream: np.ndarray, waves: int, misses: Mapping[int, np.ndarray]
) -> np.ndarray:
    """Share of 2**32 for each instruction of the streams, int64.

    A wave's execution of a load misses as often as the same execution by the same wave of other workgroups. The first
    executions of a loop that is cut miss more often, as a rule, than those left out; some of their misses become hits,
    or the other way round, until as many miss as of all.

    Args:
        code: int32, static instructions of all streams.
        order: int64, their places, sorted by instruction and then by place.
        stream: int64, the stream that each of these places belongs to.
        waves: Of a workgroup.
        misses: See ``prepare_streams``.
    """
    found = np.full(len(code), UNKNOWN, dtype=np.int64)
    ends = np.cumsum(np.bincount(code, minlength=max(misses, default=0) + 1))
    for index, counts in misses.items():
        begin, end = ends[index - 1] if index else 0, ends[index]
        if begin == end:
            continue
        table = counts[..., 1] / np.maximum(counts[..., 0], 1)
        overall = float(counts[..., 1].sum()) / max(1, int(counts[..., 0].sum()))
        number = stream[begin:end]
        starts = _starts(number)
        values = table[number % waves, np.minimum(np.arange(end - begin) - starts, table.shape[1] - 1)]
        mean = float(values.mean())
        if mean > overall:
            # Of the misses of a wave every so many, in each workgroup others; waves beside one another agree.
            before = np.concatenate([[0], np.cumsum(values > 0)])
            rank = before[1:] - before[starts]
            kept = golden_fractions(rank + number // waves * _PHASE) < overall / mean
            values = np.where(kept, values, 0.0)
        elif mean < 1:
            values = values + (1 - values) * (overall - mean) / (1 - mean)
        found[order[begin:end]] = np.rint(values * WHOLE)
    return found


def _starts(sorted_values: np.ndarray) -> np.ndarray:
    """int64, for each entry where the first of those equal to it stands."""
    first = np.flatnonzero(~_is_like_the_one_before(sorted_values))
    return np.repeat(first, np.diff(np.append(first, len(sorted_values))))


def _cut(runs: np.ndarray, instructions: int) -> np.ndarray:
    """Static instructions of one wave, int32, with as many rounds of every loop as fit."""
    length = (runs["end"] - runs["first"]).astype(np.int64)
    if int((length * runs["repeats"]).sum()) <= instructions:
        return _expanded(runs, runs["repeats"])
    names = np.zeros(len(runs), dtype=np.int64)
    for column in ("first", "end", "repeats"):
        _, numbers = np.unique(runs[column], return_inverse=True)
        _, names = np.unique(names * len(runs) + numbers, return_inverse=True)
    begin, size, rounds = groups_of(names, _LONGEST_GROUP)
    for most in _ROUNDS:
        kept = np.minimum(runs["repeats"], most)
        up_to = np.concatenate([[0], np.cumsum(length * kept)])
        if int(((up_to[begin + size] - up_to[begin]) * np.minimum(rounds, most)).sum()) <= instructions:
            break
    groups = zip(begin, size, np.minimum(rounds, most), strict=True)
    chosen = np.concatenate([np.tile(np.arange(start, start + width), count) for start, width, count in groups])
    return _expanded(runs[chosen], kept[chosen])


def _expanded(runs: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    first = np.repeat(runs["first"], repeats).astype(np.int64)
    length = np.repeat(runs["end"] - runs["first"], repeats).astype(np.int64)
    starts = np.cumsum(length) - length
    return (np.arange(int(length.sum())) + np.repeat(first - starts, length)).astype(np.int32)


@compiled
def groups_of(names: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split a sequence into groups that repeat themselves, from the front, each as large a part of it as it can be.

    Args:
        names: int64.
        longest: Members of a group at most.

    Returns:
        (begin, size, rounds) of each group, int64: members ``begin`` to ``begin + size - 1`` stand ``rounds`` times.
    """
    total = len(names)
    begin, size, rounds = np.zeros(total, np.int64), np.ones(total, np.int64), np.ones(total, np.int64)
    count, place = 0, 0
    while place < total:
        best, covered = 1, 1
        for width in range(1, longest + 1):
            if place + 2 * width > total:
                break
            end = place + width
            while end < total and names[end] == names[end - width]:
                end += 1
            whole = (end - place) // width * width
            if whole >= 2 * width and whole > covered:
                best, covered = width, whole
        begin[count], size[count], rounds[count] = place, best, covered // best
        place += covered
        count += 1
    return begin[:count], size[:count], rounds[:count]

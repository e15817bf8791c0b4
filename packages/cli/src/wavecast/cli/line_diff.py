"""Two versions of a kernel beside each other: which line of one is which of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from wavecast.cli.line_times import Inspection, Line, inspection_from_json
from wavecast.cli.schema import RowError, check_types, known_keys

DIFF_SCHEMA = "wavecast.inspect-diff/1"
# Of two lines that stand in the same place: so much in common makes them one that was changed.
_SAME_LINE = 0.6

Pair = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class KernelDiff:
    """A kernel before and after.

    Attributes:
        before: It before; None for one that is new.
        after: It after; None for one that is gone.
        lines: Positions in the lines of both, in the order of the source; None where there is no such line. Empty if
            nothing was executed.
    """

    before: Inspection | None
    after: Inspection | None
    lines: tuple[Pair, ...]

    def __post_init__(self) -> None:
        for side, kernel in enumerate((self.before, self.after)):
            times = kernel.times if kernel else None
            places = (pair[side] for pair in self.lines)
            given = sorted(place for place in places if place is not None)
            if given != list(range(len(times.lines) if times else 0)):
                raise RowError("lines must name every line of both kernels once")


@dataclass(frozen=True, slots=True)
class DiffDocument:
    """What ``inspect --diff --json`` prints.

    Attributes:
        schema: ``wavecast.inspect-diff/1``.
        before: What stands on the left: a variant, a file or a script.
        after: What stands on the right.
        kernels: Kernels of one name; of the others the longest with the longest.
    """

    schema: str
    before: str
    after: str
    kernels: tuple[KernelDiff, ...]

    def __post_init__(self) -> None:
        check_types(self)
        if self.schema != DIFF_SCHEMA:
            raise RowError(f"schema {self.schema!r} is not known; this version reads {DIFF_SCHEMA!r}")


def diff(before: Sequence[Inspection], after: Sequence[Inspection]) -> tuple[KernelDiff, ...]:
    """Put kernels, and their lines, beside each other: those of one name, then the longest with the longest."""
    partners: dict[int, Inspection] = {}
    waiting = list(after)
    for place, kernel in enumerate(before):
        partner = next((item for item in waiting if item.facts.name == kernel.facts.name), None)
        if partner is not None:
            partners[place] = partner
            waiting = [item for item in waiting if item is not partner]
    alone = sorted((place for place in range(len(before)) if place not in partners), key=lambda p: -_time_us(before[p]))
    partners |= dict(zip(alone, sorted(waiting, key=lambda item: -_time_us(item)), strict=False))
    pairs: list[tuple[Inspection | None, Inspection | None]]
    pairs = [(kernel, partners.get(place)) for place, kernel in enumerate(before)]
    taken = {id(item) for item in partners.values()}
    pairs += [(None, kernel) for kernel in after if id(kernel) not in taken]
    return tuple(KernelDiff(one, other, _pairs(_lines(one), _lines(other))) for one, other in pairs)


def diff_from_json(data: Any) -> DiffDocument:
    """Read back what ``inspect --diff --json`` printed.

    Raises:
        RowError: If it does not follow its schema.
    """
    values = known_keys(DiffDocument, data)
    kernels = []
    for item in values["kernels"]:
        entry = known_keys(KernelDiff, item)
        sides = {
            name: None if entry[name] is None else inspection_from_json(entry[name]) for name in ("before", "after")
        }
        kernels.append(KernelDiff(**sides, lines=tuple((one, other) for one, other in entry["lines"])))
    return DiffDocument(**{**values, "kernels": tuple(kernels)})


def _time_us(kernel: Inspection) -> float:
    return kernel.times.predicted_us if kernel.times else 0.0


def _lines(kernel: Inspection | None) -> Sequence[Line]:
    return kernel.times.lines if kernel and kernel.times else ()


def _pairs(before: Sequence[Line], after: Sequence[Line]) -> tuple[Pair, ...]:
    keys = [_key(line) for line in before], [_key(line) for line in after]
    pairs: list[Pair] = []
    for kind, first, end, start, stop in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if kind == "equal":
            pairs += zip(range(first, end), range(start, stop), strict=True)
        else:
            pairs += _changed(keys, range(first, end), range(start, stop))
    return tuple(pairs)


def _key(line: Line) -> str:
    """The text, since numbers change when something above does; what cannot be read goes by its number."""
    if line.line is None:
        return ""
    return line.text.strip() if line.text else f"{line.file}:{line.line}"


def _changed(keys: tuple[list[str], list[str]], before: range, after: range) -> list[Pair]:
    """Lines of a place that differs: those that have much in common are one, in order."""
    pairs: list[Pair] = []
    reached = after.start
    for one in before:
        like = (other for other in range(reached, after.stop) if _is_like(keys[0][one], keys[1][other]))
        partner = next(like, None)
        if partner is None:
            pairs.append((one, None))
            continue
        pairs += [(None, other) for other in range(reached, partner)]
        pairs.append((one, partner))
        reached = partner + 1
    return pairs + [(None, other) for other in range(reached, after.stop)]


def _is_like(one: str, other: str) -> bool:
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= _SAME_LINE

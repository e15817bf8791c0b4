"""What was predicted, what was measured, and how far they lie apart: every entry of a directory of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wavecast.cli.measurement import KernelCounters, MeasuredRow, row_key
from wavecast.cli.records import Record, place_in_day
from wavecast.cli.rows import Row
from wavecast.cli.scores import Point

LEDGER_SCHEMA = "wavecast.ledger/1"

CHANGED = "changed"
REVISED = "revised"
OTHER_CODE = "other code"
WRONG = "not timed"

TOGETHER = {"memory.lds_clk": ("memory.lds_instructions", "memory.lds_conflict_clk")}
"""Counters that are compared as a sum as well: conflicts are few, or none, of the cycles that they lengthen."""

LEAST_BYTES = dict.fromkeys(
    ("memory.hbm_read_bytes", "memory.hbm_write_bytes", "memory.bytes_transferred_hbm"), 1000000.0
)
"""Counters of device memory are compared from so much on: others move a megabyte or two beside a launch."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of one record.

    Attributes:
        record: Name of the file.
        predicted_on: Day of the prediction; None if nothing was predicted.
        measured_on: Day of the measurement; None if nothing was measured.
        experiment: Of the row.
        variant: Of the row.
        device: Of the row.
        shape: Of the row.
        triton: Of the row.
        spec: Of the row.
        code_object: Of the row.
        holdout: Seed that it was drawn with; None if it was chosen.
        predicted_us: Of the row.
        predicted_low_us: Of the row.
        predicted_high_us: Of the row.
        measured_us: Of the row.
        error_percent: Predicted over measured less one; None without both.
        marks: ``changed``: the prediction is not what was written down; ``revised``: a later record predicts something
            else of it; ``other code``: what ran is not what was predicted; ``not timed``: it was wrong, or failed.
    """

    record: str
    predicted_on: str | None
    measured_on: str | None
    experiment: str
    variant: str
    device: str
    shape: Mapping[str, int]
    triton: str | None
    spec: str | None
    code_object: str | None
    holdout: int | None
    predicted_us: float | None
    predicted_low_us: float | None
    predicted_high_us: float | None
    measured_us: float | None
    error_percent: float | None
    marks: tuple[str, ...]

    @property
    def point(self) -> Point | None:
        """The entry as a point to score; None without both times."""
        if self.predicted_us is None or self.measured_us is None:
            return None
        low, high = self.predicted_low_us, self.predicted_high_us
        sizes = " ".join(f"{key}={value}" for key, value in self.shape.items())
        return Point(
            dataset=self.device,
            benchmark=self.experiment,
            label=f"{self.variant} {sizes}",
            measured_us=self.measured_us,
            predicted_us=self.predicted_us,
            low_us=self.predicted_us if low is None else low,
            high_us=self.predicted_us if high is None else high,
        )


@dataclass(frozen=True, slots=True)
class CounterPair:
    """One counter of one launch, predicted and measured.

    Attributes:
        device: Of the row.
        experiment: Of the row.
        variant: Of the row.
        counter: Its name.
        predicted: As predicted.
        measured: As counted; not 0.
    """

    device: str
    experiment: str
    variant: str
    counter: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1


def entries_of(records: Mapping[Path, Record]) -> list[Entry]:
    """All rows, by day of prediction, then in the order of the files.

    Args:
        records: File to record.
    """
    ordered = _by_age(records)
    latest: dict[tuple[object, ...], float | None] = {}
    for _, record in ordered:
        latest.update({_revision(row, record): row.predicted_us for row in record.rows if row.predicted_us is not None})
    return [
        _entry(path, record, row, revised=latest.get(_revision(row, record)) != row.predicted_us)
        for path, record in ordered
        for row in record.rows
    ]


def _by_age(records: Mapping[Path, Record]) -> list[tuple[Path, Record]]:
    """By day, then by name."""
    return sorted(records.items(), key=lambda item: (item[1].date, place_in_day(item[0])))


def newest_and_earlier(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Entries that have both times: the newest of each row, and those that a newer one has taken the place of.

    Args:
        entries: In the order of ``entries_of``.
    """
    newest: dict[tuple[object, ...], Entry] = {}
    earlier: list[Entry] = []
    for entry in entries:
        if entry.point is None:
            continue
        key = (entry.experiment, entry.variant, entry.device, *sorted(entry.shape.items()), entry.holdout)
        if key in newest:
            earlier.append(newest.pop(key))
        newest[key] = entry
    return list(newest.values()), earlier


def _revision(row: Row, record: Record) -> tuple[object, ...]:
    return (*row_key(row), row.triton, record.holdout)


def _entry(path: Path, record: Record, row: Row, *, revised: bool) -> Entry:
    seen = _seen(record, row)
    predicted = row.predicted_us is not None
    marks = []
    if predicted and record.is_changed:
        marks.append(CHANGED)
    if predicted and revised:
        marks.append(REVISED)
    if predicted and seen is not None and seen.code_object is not None and seen.code_object != row.code_object:
        marks.append(OTHER_CODE)
    if seen is not None and seen.cold_us is None:
        marks.append(WRONG)
    return Entry(
        record=path.name,
        predicted_on=record.date.isoformat() if predicted else None,
        measured_on=record.measurement.date if record.measurement and row.measured_us is not None else None,
        experiment=row.experiment,
        variant=row.variant,
        device=row.device,
        shape=dict(row.shape),
        triton=row.triton,
        spec=row.spec,
        code_object=row.code_object,
        holdout=record.holdout,
        predicted_us=row.predicted_us,
        predicted_low_us=row.predicted_low_us,
        predicted_high_us=row.predicted_high_us,
        measured_us=row.measured_us,
        error_percent=row.error_percent if predicted and row.measured_us is not None else None,
        marks=tuple(marks),
    )


def _seen(record: Record, row: Row) -> MeasuredRow | None:
    rows = record.measurement.rows if record.measurement is not None else ()
    return next((one for one in rows if row_key(one) == row_key(row)), None)


def entries_to_json(entries: Iterable[Entry]) -> dict[str, Any]:
    """The ledger as plain JSON data."""
    rows = [{item.name: getattr(entry, item.name) for item in fields(entry)} for entry in entries]
    return {
        "schema": LEDGER_SCHEMA,
        "entries": [{**row, "shape": dict(row["shape"]), "marks": list(row["marks"])} for row in rows],
    }


def counter_pairs(records: Mapping[Path, Record]) -> list[CounterPair]:
    """Every counter that was predicted and measured of the same launch; of a row that was so twice, the newer ones.

    Those that count nothing are left out, and bytes of device memory that are fewer than ``LEAST_BYTES``.
    """
    found: dict[tuple[object, ...], list[CounterPair]] = {}
    for _, record in _by_age(records):
        predicted = {row_key(one): one.kernels for one in record.counters}
        for row in record.measurement.rows if record.measurement is not None else ():
            wanted = predicted.get(row_key(row), ())
            if _symbols(wanted) != _symbols(row.kernels):
                continue
            found[row_key(row)] = [
                CounterPair(row.device, row.experiment, row.variant, name, have[name], value)
                for expected, counted in zip(wanted, row.kernels, strict=True)
                for have in [_with_sums(expected.counters)]
                for name, value in _with_sums(counted.counters).items()
                if value and value >= LEAST_BYTES.get(name, 0.0) and name in have
            ]
    return [pair for pairs in found.values() for pair in pairs]


def _with_sums(counters: Mapping[str, float]) -> dict[str, float]:
    """Counters, and sums of those that ``TOGETHER`` names, where both are there."""
    sums = {
        name: sum(counters[part] for part in parts)
        for name, parts in TOGETHER.items()
        if all(part in counters for part in parts)
    }
    return {**counters, **sums}


def _symbols(kernels: Sequence[KernelCounters]) -> list[str]:
    return [kernel.kernel for kernel in kernels]


def marks_text(entries: Iterable[Entry]) -> str:
    """How many entries have which mark, in words; empty if none has any."""
    counts = Counter(mark for entry in entries for mark in entry.marks)
    return ", ".join(f"{count} {mark}" for mark, count in counts.items())

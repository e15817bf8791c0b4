"""Records: a prediction is written down before it is measured, and the measurement completes what was written."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wavecast.cli.errors import CliError
from wavecast.cli.measurement import (
    MeasuredRow,
    Measurement,
    RowCounters,
    measurement_from_json,
    measurement_to_json,
    row_counters_from_json,
    row_counters_to_json,
    row_key,
)
from wavecast.cli.places import check_directory, not_writable
from wavecast.cli.rows import PREDICT_SCHEMA, Document, Row, document_from_json, document_to_json, error_percent
from wavecast.cli.schema import RowError

RECORD_SCHEMA = "wavecast.record/1"


OPTIONAL = ("seal", "counters", "holdout", "measurement")
"""Keys that a record may lack."""


@dataclass(frozen=True, slots=True)
class Record:
    """Rows of one experiment on one device, dated.

    Attributes:
        date: Day of the prediction; without one, of the measurement.
        machine: The machine that measured, in words; None until it is measured.
        spread: Relative spread of the measurement, 95th over 5th percentile minus 1, of the row where it is largest;
            None until it is measured.
        rows: The rows.
        seal: Hash of what was predicted, made when it was written down; None in records that are older than seals, and
            where nothing was predicted.
        counters: What the predictions say that hardware counters would show.
        holdout: Seed that the rows were drawn with, by the rule of ``wavecast.cli.holdout``; None if they were not.
        measurement: How it was measured; None until it is.
    """

    date: datetime.date
    machine: str | None
    spread: float | None
    rows: tuple[Row, ...]
    seal: str | None = None
    counters: tuple[RowCounters, ...] = ()
    holdout: int | None = None
    measurement: Measurement | None = None

    @property
    def is_changed(self) -> bool:
        """Whether a prediction is another one than was written down; False if there is no seal to tell."""
        return self.seal is not None and self.seal != seal_of(self.rows)


# Keys of rows that the first records did not have: what was sealed without them keeps its seal.
_LATER_KEYS = ("caches",)


def seal_of(rows: Iterable[Row]) -> str:
    """Hash of what rows predict: all of them but what a measurement fills in."""
    predicted = [
        replace(row, measured_us=None, measured_on=None, counters=None, error_percent=_published_error(row))
        for row in rows
        if row.predicted_us is not None
    ]
    data = document_to_json(Document(schema=PREDICT_SCHEMA, rows=tuple(predicted)))
    for row in data["rows"]:
        for name in _LATER_KEYS:
            if row[name] is None:
                del row[name]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _published_error(row: Row) -> float | None:
    return error_percent(row.predicted_us, published_us=row.published_us)


def completed(record: Record, rows: Sequence[Row], measurement: Measurement) -> Record:
    """A record with a measurement.

    Args:
        record: What was predicted.
        rows: The measured rows; one that the record predicts keeps what it predicts, and gets the measured time.
        measurement: How they were measured.
    """
    measured = {row_key(row): row for row in rows}
    known = {row_key(row) for row in record.rows}
    filled = [with_time(row, measured.get(row_key(row))) for row in record.rows]
    filled += [row for key, row in measured.items() if key not in known]
    return replace(
        record,
        machine=f"{measurement.machine.text}, {measurement.date}",
        spread=measurement.spread,
        rows=tuple(filled),
        measurement=measurement,
    )


def with_time(row: Row, measured: Row | None) -> Row:
    """A predicted row with the time that was measured, and the error that follows."""
    if measured is None or measured.measured_us is None:
        return row
    error = error_percent(row.predicted_us, measured_us=measured.measured_us, published_us=row.published_us)
    return replace(
        row,
        measured_us=measured.measured_us,
        measured_on=measured.measured_on,
        counters=measured.counters,
        error_percent=error,
    )


def record_to_json(record: Record) -> dict[str, Any]:
    """The record as plain JSON data; the optional keys only where they are known."""
    rows = document_to_json(Document(schema=PREDICT_SCHEMA, rows=record.rows))["rows"]
    head = {"schema": RECORD_SCHEMA, "date": record.date.isoformat(), "machine": record.machine}
    data = {**head, "spread": record.spread, "rows": rows}
    if record.seal is not None:
        data["seal"] = record.seal
    if record.counters:
        data["counters"] = [row_counters_to_json(one) for one in record.counters]
    if record.holdout is not None:
        data["holdout"] = record.holdout
    if record.measurement is not None:
        data["measurement"] = measurement_to_json(record.measurement)
    return data


def record_from_json(data: Any) -> Record:
    """Read a record back.

    Raises:
        RowError: If the schema is not known or a row is wrong.
    """
    keys = {"schema", "date", "machine", "spread", "rows"}
    if not isinstance(data, dict) or set(data) - set(OPTIONAL) != keys or data["schema"] != RECORD_SCHEMA:
        raise RowError(f"a record has the keys {', '.join(sorted(keys))} and schema {RECORD_SCHEMA}")
    rows = document_from_json({"schema": PREDICT_SCHEMA, "rows": data["rows"]}).rows
    measurement = data.get("measurement")
    return Record(
        datetime.date.fromisoformat(data["date"]),
        data["machine"],
        data["spread"],
        rows,
        data.get("seal"),
        tuple(row_counters_from_json(one) for one in data.get("counters", ())),
        data.get("holdout"),
        None if measurement is None else measurement_from_json(measurement),
    )


def read_records(directory: Path) -> dict[Path, Record]:
    """The records of a directory, in the order of their names; files of other schemas are left alone.

    Raises:
        CliError: A file is a record and cannot be read.
    """
    found: dict[Path, Record] = {}
    for path in sorted(directory.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(data, dict) and data.get("schema") == RECORD_SCHEMA:
                found[path] = record_from_json(data)
        except (OSError, ValueError, TypeError) as error:
            raise CliError(f"{path} cannot be read: {error}", hint="mend the file, or take it away") from error
    return found


def write_record(record: Record, path: Path) -> None:
    """Write a record; what the file held before stays until all of the new content is there.

    Raises:
        CliError: It cannot be written.
    """
    text = json.dumps(record_to_json(record), indent=1, ensure_ascii=False) + "\n"
    beside = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise not_writable(path.parent, error.strerror) from error


class Ledger:
    """The records of a directory, and where the measurements of one session go.

    A measurement completes the newest record that predicts its row with the session's Triton, or with none, as
    schedules of several GPUs are predicted; also one of which the same machine has measured other rows on the same day.
    Of one that is measured already the predictions are taken over into a record beside it; what nothing predicts goes
    to a record of its own.

    Args:
        directory: Where the records are; it need not exist.
        triton: Version of Triton that compiles the kernels.
        holdout: Seed of the hold-out that is measured; None for what is not drawn.
        day: Day of the session.
    """

    def __init__(
        self, directory: Path, *, triton: str | None, holdout: int | None = None, day: datetime.date | None = None
    ) -> None:
        self._directory = directory
        self._triton = triton
        self._holdout = holdout
        self._day = day or datetime.date.today()
        self._records = read_records(directory)
        self._origins: dict[tuple[object, ...], Path | None] = {}
        self._targets: dict[tuple[Path | None, str, str], Path] = {}

    def predicted(self, key: tuple[object, ...]) -> Row | None:
        """What was written down about a row; None if nothing.

        Args:
            key: ``row_key`` of the row.
        """
        origin = self._origin(key)
        if origin is None:
            return None
        return next(row for row in self._records[origin].rows if row_key(row) == key)

    def predicted_counters(self, key: tuple[object, ...]) -> RowCounters | None:
        """What the same prediction says that counters would show."""
        origin = self._origin(key)
        known = () if origin is None else self._records[origin].counters
        return next((one for one in known if row_key(one) == key), None)

    def freeze(self, rows: Sequence[Row], counters: Sequence[RowCounters]) -> list[Path]:
        """Write down predictions that are about to be measured."""
        written = []
        for (experiment, device), members in _grouped(rows).items():
            path = self._free(experiment, device, "")
            self._records[path] = _frozen(self._day, members, counters, self._holdout)
            write_record(self._records[path], path)
            written.append(path)
        self._origins.clear()
        return written

    def add(self, rows: Sequence[Row], seen: Sequence[MeasuredRow], measurement: Measurement) -> list[Path]:
        """Write down what was measured; what this session has written down of a row before is replaced.

        Args:
            rows: Measured rows.
            seen: What was seen of them, and of those without a time.
            measurement: How; without rows.

        Returns:
            The files.
        """
        groups: dict[tuple[Path | None, str, str], list[MeasuredRow]] = {}
        for row in seen:
            groups.setdefault((self._origin(row_key(row)), row.experiment, row.device), []).append(row)
        written = []
        for place, members in groups.items():
            path = self._target(*place, members=members, measurement=measurement)
            record = self._records[path]
            newly = {row_key(row) for row in members}
            before = record.measurement.rows if record.measurement is not None else ()
            kept = tuple(row for row in before if row_key(row) not in newly)
            mine = [row for row in rows if row_key(row) in newly]
            self._records[path] = completed(record, mine, replace(measurement, rows=(*kept, *members)))
            write_record(self._records[path], path)
            written.append(path)
        return written

    def _origin(self, key: tuple[object, ...]) -> Path | None:
        """The record whose prediction of a row counts: the newest, one that waits for a measurement first."""
        if key not in self._origins:
            found = [
                path
                for path, record in self._records.items()
                if record.holdout == self._holdout
                and any(
                    row.predicted_us is not None and row.triton in (self._triton, None) and row_key(row) == key
                    for row in record.rows
                )
            ]
            self._origins[key] = max(found, key=self._age, default=None)
        return self._origins[key]

    def _age(self, path: Path) -> tuple[bool, datetime.date, tuple[str, int]]:
        record = self._records[path]
        return record.measurement is None, record.date, place_in_day(path)

    def _target(
        self,
        origin: Path | None,
        experiment: str,
        device: str,
        *,
        members: Sequence[MeasuredRow],
        measurement: Measurement,
    ) -> Path:
        place = (origin, experiment, device)
        if place not in self._targets:
            if origin is not None and _takes(self._records[origin], members, measurement):
                self._targets[place] = origin
            else:
                path = self._free(experiment, device, "-measured")
                record = Record(self._day, None, None, (), holdout=self._holdout)
                if origin is not None:
                    record = _unmeasured(self._records[origin])
                self._records[path] = record
                self._targets[place] = path
        return self._targets[place]

    def _free(self, experiment: str, device: str, what: str) -> Path:
        name = _name(self._day, experiment, device, self._triton, self._holdout).removesuffix(".json")
        paths = (self._directory / f"{name}{what}{end}.json" for end in ("", *(f"-{n}" for n in range(2, 10_000))))
        return next(path for path in paths if path not in self._records and not path.exists())


def _takes(record: Record, rows: Sequence[MeasuredRow], measurement: Measurement) -> bool:
    """Whether a record can be completed with these rows: it has no measurement, or a like one of other rows."""
    if record.measurement is None:
        return True
    known = {row_key(row) for row in record.measurement.rows}
    same = (record.measurement.date, record.measurement.machine) == (measurement.date, measurement.machine)
    return same and not any(row_key(row) in known for row in rows)


def _unmeasured(record: Record) -> Record:
    rows = [
        replace(row, measured_us=None, measured_on=None, counters=None, error_percent=_published_error(row))
        for row in record.rows
        if row.predicted_us is not None
    ]
    return replace(record, machine=None, spread=None, rows=tuple(rows), measurement=None)


def _grouped(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.experiment, row.device), []).append(row)
    return groups


def _frozen(day: datetime.date, rows: Sequence[Row], counters: Sequence[RowCounters], holdout: int | None) -> Record:
    keys = {row_key(row) for row in rows}
    shown = tuple(one for one in counters if row_key(one) in keys)
    return Record(day, None, None, tuple(rows), seal_of(rows), shown, holdout)


def freeze(
    rows: Sequence[Row],
    *,
    directory: Path,
    counters: Sequence[RowCounters] = (),
    holdout: int | None = None,
    date: datetime.date | None = None,
) -> list[Path]:
    """Write one record for each experiment and device.

    Args:
        rows: What was predicted.
        counters: What counters are predicted to show of these rows.
        holdout: Seed that they were drawn with; None if they were not.
        directory: Where to; it is created.
        date: Day of the prediction, today if None.

    Returns:
        The files that were written.

    Raises:
        CliError: If a record of that name exists: a frozen prediction is not overwritten.
    """
    day = date or datetime.date.today()
    records = {
        _name(day, experiment, device, members[0].triton, holdout): _frozen(day, members, counters, holdout)
        for (experiment, device), members in _grouped(rows).items()
    }
    _refuse_existing(directory, list(records))
    for name, record in records.items():
        write_record(record, directory / name)
    return [directory / name for name in records]


def check_place(
    directory: Path, *, predicted: Iterable[tuple[str, str]], triton: str | None, holdout: int | None = None
) -> None:
    """Find what would keep ``freeze`` from writing, before minutes are spent on the predictions.

    Args:
        directory: Where the records are to be written.
        predicted: Experiment and device of each record.
        triton: Version of Triton that will compile the kernels.
        holdout: Seed that they are drawn with; None if they are not.

    Raises:
        CliError: 2 if it cannot be a directory, 1 if a record exists.
    """
    check_directory(directory)
    _refuse_existing(directory, [_name(datetime.date.today(), *names, triton, holdout) for names in predicted])


def place_in_day(path: Path) -> tuple[str, int]:
    """What records of a day are ordered by: from the second one on, those of a name are numbered."""
    name, _, number = path.stem.rpartition("-")
    return (name, int(number)) if number.isdecimal() else (path.stem, 1)


def _name(day: datetime.date, experiment: str, device: str, triton: str | None, holdout: int | None) -> str:
    drawn = "" if holdout is None else f"-holdout{holdout}"
    compiler = "" if triton is None else f"-triton{triton}"
    return f"{day.isoformat()}-{experiment}-{device}{compiler}{drawn}.json"


def _refuse_existing(directory: Path, names: Sequence[str]) -> None:
    for path in (directory / name for name in names):
        if path.exists():
            raise CliError(f"{path} exists, and a frozen prediction is not overwritten", hint="give another directory")

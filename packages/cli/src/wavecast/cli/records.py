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


OPTIONAL = ("seal", "counters", "measurement")
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
        measurement: How it was measured; None until it is.
    """

    date: datetime.date
    machine: str | None
    spread: float | None
    rows: tuple[Row, ...]
    seal: str | None = None
    counters: tuple[RowCounters, ...] = ()
    measurement: Measurement | None = None

    @property
    def is_changed(self) -> bool:
        """Whether a prediction is another one than was written down; False if there is no seal to tell."""
        return self.seal is not None and self.seal != seal_of(self.rows)


def seal_of(rows: Iterable[Row]) -> str:
    """Hash of what rows predict: all of them but what a measurement fills in."""
    predicted = [
        replace(row, measured_us=None, measured_on=None, counters=None, error_percent=_published_error(row))
        for row in rows
        if row.predicted_us is not None
    ]
    data = document_to_json(Document(schema=PREDICT_SCHEMA, rows=tuple(predicted)))
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

    A measurement completes the newest record that predicts its experiment on its device with its Triton. Of one that is
    measured already the predictions are taken over into a record beside it.

    Args:
        directory: Where the records are; it need not exist.
        day: Day of the session.
    """

    def __init__(self, directory: Path, *, day: datetime.date | None = None) -> None:
        self._directory = directory
        self._day = day or datetime.date.today()
        self._before = read_records(directory)
        self._places: dict[tuple[str, str], tuple[Path, Record]] = {}

    def predicted(self, experiment: str, device: str, *, triton: str | None) -> tuple[Row, ...]:
        """The rows that were written down for an experiment on a device, predicted with this Triton."""
        return self._place(experiment, device, triton)[1].rows

    def predicted_counters(self, experiment: str, device: str, *, triton: str | None) -> tuple[RowCounters, ...]:
        """What the same predictions say that counters would show."""
        return self._place(experiment, device, triton)[1].counters

    def add(self, rows: Sequence[Row], seen: Sequence[MeasuredRow], measurement: Measurement) -> Path:
        """Write down what was measured of an experiment, behind what the session has measured of it before.

        What is known of a variant and shape already, in this session, is replaced.

        Args:
            rows: Measured rows of one experiment on one device.
            seen: What was seen of them, and of those without a time.
            measurement: How; without rows.

        Returns:
            The file.
        """
        first = seen[0]
        key = (first.experiment, first.device)
        path, record = self._place(*key, measurement.machine.triton)
        before = record.measurement.rows if record.measurement is not None else ()
        newly = {row_key(row) for row in seen}
        kept = tuple(row for row in before if row_key(row) not in newly)
        record = completed(record, rows, replace(measurement, rows=(*kept, *seen)))
        write_record(record, path)
        self._places[key] = path, record
        return path

    def _place(self, experiment: str, device: str, triton: str | None) -> tuple[Path, Record]:
        key = (experiment, device)
        if key not in self._places:
            self._places[key] = self._found(experiment, device, triton)
        return self._places[key]

    def _found(self, experiment: str, device: str, triton: str | None) -> tuple[Path, Record]:
        matching = [
            (path, record)
            for path, record in self._before.items()
            if any((row.experiment, row.device, row.triton) == (experiment, device, triton) for row in record.rows)
        ]
        waiting = [(path, record) for path, record in matching if record.measurement is None]
        if waiting:
            return max(waiting, key=lambda item: (item[1].date, item[0]))
        rows: tuple[Row, ...] = ()
        counters: tuple[RowCounters, ...] = ()
        seal = None
        day = self._day
        if matching:
            _, last = max(matching, key=lambda item: (item[1].date, item[0]))
            rows = tuple(_unmeasured(row) for row in last.rows if row.predicted_us is not None)
            if rows:
                seal, counters, day = last.seal, last.counters, last.date
        name = _name(self._day, experiment, device, triton).removesuffix(".json")
        taken = {path.name for path in self._before} | {path.name for path, _ in self._places.values()}
        names = (f"{name}-measured{number}.json" for number in ("", *(f"-{n}" for n in range(2, 1000))))
        free = next(item for item in names if item not in taken)
        return self._directory / free, Record(day, None, None, rows, seal, counters)


def _unmeasured(row: Row) -> Row:
    return replace(row, measured_us=None, measured_on=None, counters=None, error_percent=_published_error(row))


def freeze(
    rows: Sequence[Row],
    *,
    directory: Path,
    counters: Sequence[RowCounters] = (),
    date: datetime.date | None = None,
) -> list[Path]:
    """Write one record for each experiment and device.

    Args:
        rows: What was predicted.
        counters: What counters are predicted to show of these rows.
        directory: Where to; it is created.
        date: Day of the prediction, today if None.

    Returns:
        The files that were written.

    Raises:
        CliError: If a record of that name exists: a frozen prediction is not overwritten.
    """
    day = date or datetime.date.today()
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_name(day, row.experiment, row.device, row.triton), []).append(row)
    _refuse_existing(directory, list(groups))
    for name, members in groups.items():
        keys = {row_key(row) for row in members}
        shown = tuple(one for one in counters if row_key(one) in keys)
        record = Record(day, None, None, tuple(members), seal_of(members), shown)
        write_record(record, directory / name)
    return [directory / name for name in groups]


def check_place(directory: Path, *, predicted: Iterable[tuple[str, str]], triton: str | None) -> None:
    """Find what would keep ``freeze`` from writing, before minutes are spent on the predictions.

    Args:
        directory: Where the records are to be written.
        predicted: Experiment and device of each record.
        triton: Version of Triton that will compile the kernels.

    Raises:
        CliError: 2 if it cannot be a directory, 1 if a record exists.
    """
    check_directory(directory)
    _refuse_existing(directory, [_name(datetime.date.today(), *names, triton) for names in predicted])


def _name(day: datetime.date, experiment: str, device: str, triton: str | None) -> str:
    return f"{day.isoformat()}-{experiment}-{device}-triton{triton or 'none'}.json"


def _refuse_existing(directory: Path, names: Sequence[str]) -> None:
    for path in (directory / name for name in names):
        if path.exists():
            raise CliError(f"{path} exists, and a frozen prediction is not overwritten", hint="give another directory")

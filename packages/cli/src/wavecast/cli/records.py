"""Frozen predictions: a prediction is written down before it is measured."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavecast.cli.errors import CliError
from wavecast.cli.places import check_directory, not_writable
from wavecast.cli.rows import PREDICT_SCHEMA, Document, Row, document_from_json, document_to_json
from wavecast.cli.schema import RowError

RECORD_SCHEMA = "wavecast.record/1"


@dataclass(frozen=True, slots=True)
class Record:
    """Rows of one experiment on one device, dated.

    Attributes:
        date: Day of the prediction.
        machine: The machine that measured; None until it is measured.
        spread: Relative spread of the measurement, 95th over 5th percentile minus 1; None until it is measured.
        rows: The rows.
    """

    date: datetime.date
    machine: str | None
    spread: float | None
    rows: tuple[Row, ...]


def record_to_json(record: Record) -> dict[str, Any]:
    """The record as plain JSON data."""
    rows = document_to_json(Document(schema=PREDICT_SCHEMA, rows=record.rows))["rows"]
    head = {"schema": RECORD_SCHEMA, "date": record.date.isoformat(), "machine": record.machine}
    return {**head, "spread": record.spread, "rows": rows}


def record_from_json(data: Any) -> Record:
    """Read a record back.

    Raises:
        RowError: If the schema is not known or a row is wrong.
    """
    keys = {"schema", "date", "machine", "spread", "rows"}
    if not isinstance(data, dict) or set(data) != keys or data["schema"] != RECORD_SCHEMA:
        raise RowError(f"a record has the keys {', '.join(sorted(keys))} and schema {RECORD_SCHEMA}")
    rows = document_from_json({"schema": PREDICT_SCHEMA, "rows": data["rows"]}).rows
    return Record(datetime.date.fromisoformat(data["date"]), data["machine"], data["spread"], rows)


def freeze(rows: Sequence[Row], *, directory: Path, date: datetime.date | None = None) -> list[Path]:
    """Write one record for each experiment and device.

    Args:
        rows: What was predicted.
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
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, members in groups.items():
            record = Record(date=day, machine=None, spread=None, rows=tuple(members))
            (directory / name).write_text(json.dumps(record_to_json(record), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise not_writable(directory, error.strerror) from error
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

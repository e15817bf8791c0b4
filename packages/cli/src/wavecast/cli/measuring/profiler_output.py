"""What profilers write, as plain data: `ncu`'s CSV and `rocprofv3`'s counter collection."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any

NCU_FIRST_COLUMN = '"ID"'
UNIT_FACTORS = {
    "": 1.0,
    "%": 1.0,
    "inst": 1.0,
    "request": 1.0,
    "sector": 1.0,
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "ns": 1.0,
    "nsecond": 1.0,
    "us": 1e3,
    "usecond": 1e3,
    "ms": 1e6,
    "msecond": 1e6,
    "s": 1e9,
    "second": 1e9,
}
"""Units in which ``ncu`` prints, to those that are wanted: bytes, nanoseconds, pieces."""


class ProfilerOutputError(Exception):
    """What a profiler wrote cannot be read."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One profiled launch.

    Attributes:
        kernel: Symbol of the kernel.
        raw: What was counted, by the profiler's own names.
    """

    kernel: str
    raw: Mapping[str, float]


def parse_ncu(text: str, *, wanted: Collection[str]) -> list[Dispatch]:
    """The launches of ``ncu --csv --page raw``, in order.

    Args:
        text: Its output, whatever it says before the table included.
        wanted: Metrics that it was asked for; it writes many others.

    Raises:
        ProfilerOutputError: There is a table, and it is not what is known of such tables.
    """
    table = list(dropwhile(lambda line: not line.startswith(NCU_FIRST_COLUMN), text.splitlines()))
    if not table:
        return []
    rows = list(csv.DictReader(table))
    if not rows or "Kernel Name" not in rows[0]:
        raise ProfilerOutputError("the table that ncu wrote has no column 'Kernel Name'")
    units, launches = rows[0], rows[1:]
    if units["ID"]:
        raise ProfilerOutputError("the table that ncu wrote has no line with units")
    metrics = [name for name in units if name in wanted]
    return [Dispatch(row["Kernel Name"], _ncu_values(row, units, metrics)) for row in launches if row["ID"].isdigit()]


def _ncu_values(row: Mapping[str, str], units: Mapping[str, str], metrics: Iterable[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name in metrics:
        text, unit = (row[name] or "").replace(",", ""), (units[name] or "").partition("/")[0]
        if not text or text.startswith("n/a"):
            continue
        try:
            values[name] = float(text) * UNIT_FACTORS[unit]
        except (KeyError, ValueError) as error:
            raise ProfilerOutputError(f"ncu gives {name} as {text!r} {units[name]}".rstrip()) from error
    return values


def parse_rocprof(text: str) -> list[Dispatch]:
    """The dispatches of one ``…_counter_collection.csv`` of ``rocprofv3``, in order; ``duration_ns`` is added.

    Raises:
        ProfilerOutputError: A column is missing, or a value is no number.
    """
    rows = list(csv.DictReader(text.splitlines()))
    wanted = ("Dispatch_Id", "Kernel_Name", "Counter_Name", "Counter_Value")
    missing = [name for name in wanted if rows and name not in rows[0]]
    if missing:
        raise ProfilerOutputError(f"rocprofv3's table has no column {missing[0]!r}")
    found: dict[int, tuple[str, dict[str, float]]] = {}
    for row in rows:
        try:
            raw = found.setdefault(int(row["Dispatch_Id"]), (_symbol(row["Kernel_Name"]), {}))[1]
            # A counter may come once for each of several instances.
            raw[row["Counter_Name"]] = raw.get(row["Counter_Name"], 0.0) + float(row["Counter_Value"])
            if row.get("Start_Timestamp") and row.get("End_Timestamp"):
                raw["duration_ns"] = float(int(row["End_Timestamp"]) - int(row["Start_Timestamp"]))
        except (TypeError, ValueError) as error:
            raise ProfilerOutputError(f"rocprofv3's table has a line that cannot be read: {dict(row)}") from error
    return [Dispatch(*found[number]) for number in sorted(found)]


def _symbol(name: Any) -> str:
    return str(name).strip().removesuffix(".kd")

"""``devices``: the GPUs that can be predicted, and every constant of one with its source."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from wavecast.cli import output

DEVICES_SCHEMA = "wavecast.devices/1"


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant of a device.

    Attributes:
        key: ``section.name``.
        value: The number that a prediction uses.
        low: Lower end of its range; None where it counts as certain.
        high: Upper end of its range.
        unit: Its unit.
        kind: ``datasheet``, ``measured``, ``derived`` or ``fitted``.
        sources: Citations.
        note: What a reader must know to judge it.
    """

    key: str
    value: float
    low: float | None
    high: float | None
    unit: str
    kind: str
    sources: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device.

    Attributes:
        name: Name on the command line.
        title: Its full name.
        arch: ``gfx942``, ``gfx950``.
        spec: Identity of the specification; changes with any number in it.
        constants: All constants, in the order of the file.
    """

    name: str
    title: str
    arch: str
    spec: str
    constants: tuple[Constant, ...]


def devices(
    name: Annotated[str | None, typer.Argument(help="Show the constants of this one, or of a device file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.devices/1 on stdout.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns; adds the sources.")] = False,
) -> None:
    """List the devices, or every constant of one with unit, range, kind and source."""
    from wavecast.cli import simulate

    if name is not None:
        simulate.check_device(name)
    facts = [simulate.device_facts(item) for item in ([name] if name else simulate.device_names())]
    if json:
        output.print_json({"schema": DEVICES_SCHEMA, "devices": [asdict(item) for item in facts]})
    elif name:
        _print_constants(facts[0], wide=wide)
    else:
        _print_devices(facts, wide=wide)


def _print_devices(facts: list[DeviceFacts], *, wide: bool) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("device", "arch", "spec", "name"):
        table.add_column(heading, no_wrap=heading != "name")
    for device in facts:
        table.add_row(device.name, device.arch, device.spec, device.title)
    output.print_table(table, wide=wide)


def _print_constants(device: DeviceFacts, *, wide: bool) -> None:
    from rich.table import Table

    output.print_table(f"{device.title}  {device.arch}  {device.spec}", wide=wide)
    table = Table(box=None, pad_edge=False)
    for heading in ("constant", "value", "range", "unit", "kind", *(["source"] if wide else [])):
        table.add_column(heading, justify="right" if heading in ("value", "range") else "left")
    for item in device.constants:
        span = "" if item.low is None or item.low == item.high else f"{item.low:g} … {item.high:g}"
        sources = ["; ".join(item.sources)] if wide else []
        table.add_row(item.key, f"{item.value:g}", span, item.unit, item.kind, *sources)
    output.print_table(table, wide=wide)

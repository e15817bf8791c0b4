"""``measure --calibrate``: a device file with the constants that this machine's GPU shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

from wavecast.cli import output, simulate
from wavecast.cli.device_spec import SpecFacts, spec_text
from wavecast.cli.devices import Constant
from wavecast.cli.errors import CliError, misuse
from wavecast.cli.measurement import Machine
from wavecast.cli.measuring.calibration import Pinned, Probes, compared, constants_of
from wavecast.cli.measuring.gpu import GpuBench, GpuLostError, find_machine
from wavecast.cli.places import check_directory, not_writable

CALIBRATION_SCHEMA = "wavecast.calibration/1"


def calibrate(target: Path, *, like: str | None, show_tables: bool, wide: bool) -> None:
    """Run the probes and write the device file, and beside it a JSON file with all that they measured.

    Args:
        target: The device file, which ends in ``.toml``.
        like: Name or file of the device that it starts from; None for the specification of the GPU.
        show_tables: Print the constants as a table, instead of the JSON document.
        wide: Use more than 80 columns.

    Raises:
        CliError: 2 for a wrong target, or a GPU without a specification and no ``like``; 3 without a GPU; 1 if it does
            not answer any more, or some probes failed.
    """
    from wavecast.cli.measuring.probing import Prober

    if target.suffix != ".toml":
        raise misuse(f"{target} is no name of a device file", hint=f"--calibrate {target.with_suffix('.toml')}")
    check_directory(target.parent)
    machine = find_machine()
    spec = simulate.spec_facts(base_of(machine, like))
    prober = Prober(GpuBench(0), spec, memory_bytes=machine.memory_bytes)
    output.print_message(f"{machine.text}; what is not measured is {spec.name}'s")
    with output.progress(len(prober.steps())) as steps:
        try:
            probes = prober.run(steps.done)
        except GpuLostError as error:
            raise CliError(str(error), hint="nothing was written; see the system's log for the GPU's state") from error
    if not probes.clock_mhz:
        raise CliError("no probe came through: " + "; ".join(prober.failures.values()), hint="nothing was written")
    pinned = constants_of(probes, spec)
    document = calibration_document(machine, spec, probes, pinned, prober.failures)
    beside = target.with_suffix(".json")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(calibrated_text(spec, pinned, machine), encoding="utf-8")
        beside.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise not_writable(target.parent, error.strerror) from error
    if show_tables:
        _print(spec, pinned, wide=wide)
    else:
        output.print_json(document)
    output.print_message(f"wrote {target}, for --device {target}; all that was measured is in {beside}")
    if prober.failures:
        failed = "; ".join(f"{name}: {why}" for name, why in prober.failures.items())
        raise CliError(f"some probes failed: {failed}", hint="their constants are those that were there before")


def base_of(machine: Machine, like: str | None) -> str:
    """The specification that a calibration starts from.

    Raises:
        CliError: 2 if the GPU has none and none is named.
    """
    from wavecast.cli.measuring.gpu import device_of

    if like is not None:
        return simulate.check_device(like)
    name = device_of(machine)
    if name not in simulate.device_names():
        known = ", ".join(simulate.device_names())
        raise misuse(
            f"no specification is of a {machine.gpu}, and what is not measured must come from one",
            hint=f"name the nearest with --device: {known}",
        )
    return name


def calibrated_text(spec: SpecFacts, pinned: Sequence[Pinned], machine: Machine) -> str:
    """The device file: measured constants of kind ``measured``, with machine and day as their source."""
    source = f"wavecast measure --calibrate, {date.today().isoformat()}: {machine.text}, driver {machine.driver}"
    known = {constant.key: constant for constant in spec.constants}
    changed = {item.key: _constant(known[item.key], item, source) for item in pinned}
    title = f"{spec.title}, calibrated {date.today().isoformat()}"
    return spec_text(replace(spec, title=title), changed)


def _constant(before: Constant, item: Pinned, source: str) -> Constant:
    low, high = (item.value, item.value) if item.low is None or item.high is None else (item.low, item.high)
    return replace(
        before,
        value=item.value,
        low=None if low == high else low,
        high=None if low == high else high,
        kind="measured",
        sources=(source,),
        note=item.note,
    )


def calibration_document(
    machine: Machine, spec: SpecFacts, probes: Probes, pinned: Sequence[Pinned], failures: dict[str, str]
) -> dict[str, Any]:
    """All that was measured, and what follows from it, as plain JSON data."""
    constants = [
        {"key": item.key, "value": item.value, "low": item.low, "high": item.high, "before": before, "note": item.note}
        for item, before, _ in compared(list(pinned), spec.values)
    ]
    return {
        "schema": CALIBRATION_SCHEMA,
        "date": date.today().isoformat(),
        "machine": asdict(machine),
        "device": spec.name,
        "clock_mhz": probes.clock_mhz,
        "constants": constants,
        "samples": [asdict(sample) for sample in probes.samples],
        "failures": failures,
    }


def _print(spec: SpecFacts, pinned: Sequence[Pinned], *, wide: bool) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("constant", "measured", "before", "%", "unit", *(["how"] if wide else [])):
        table.add_column(heading, justify="left" if heading in ("constant", "unit", "how") else "right")
    units = {constant.key: constant.unit for constant in spec.constants}
    for item, before, percent in compared(list(pinned), spec.values):
        cells = [item.key, f"{item.value:.4g}", f"{before:.4g}", f"{percent:+.1f}", units[item.key]]
        table.add_row(*cells, *([item.note] if wide else []))
    output.print_table(table, wide=wide)

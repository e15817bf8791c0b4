"""``operators``: how near every operator comes to what the device could do, on the shapes that are published."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavecast.cli import output
from wavecast.cli.errors import CliError, unknown

if TYPE_CHECKING:
    from wavecast.cli.prediction import Case, Outcome
    from wavecast.cli.rows import Row

OPERATORS_SCHEMA = "wavecast.operators/1"
DEVICES = ("mi300x", "mi355x")
# What a wrong maximum does to the numbers of ``rowwise``; what a search does to the baseline of ``weight-transpose``;
# collectives of the vendor's library.
NO_OPERATOR = ("fnuz", "autotune-space", "all-gather", "reduce-scatter")
WIDTHS = ("load_widths", "store_widths")
COLUMNS = (
    "operator",
    "shape",
    "µs",
    "floor µs",
    "baseline µs",
    "published µs",
    "HBM MB",
    "× minimum",
    "loads",
    "stores",
    "fences",
    "spill B",
    "VGPR",
    "waves a SIMD",
)
HEAD = """# Operators

What executing every operator's code object says, on the shapes of DeepSeek-V3, DeepSeek-MoE-16B and Llama 4 that
published figures are for. This page is what `hatch run cli operators --markdown` prints; it takes some minutes.

| column | meaning |
| --- | --- |
| µs | predicted time of all launches of the operator, see [timing](../concepts/timing.md) |
| floor µs | a launch, and the longest of minimum bytes, operations, and bytes from other GPUs over all links to them |
| baseline µs | predicted time of the slower form that practice used, and how many times ours it is |
| published µs | what others measured on this device, and whose code it was; nothing here is fitted to it |
| HBM MB | bytes read from and written to HBM, see [traffic](../concepts/traffic.md) |
| × minimum | over inputs once and outputs once |
| loads, stores | bytes a lane of most accesses, and the share of all bytes that move so |
| fences | `buffer_wbl2` and `buffer_inv` executed |
| spill B | private bytes a lane, the most of the kernels |
| VGPR, waves a SIMD | registers of a wave, the most of the kernels; waves that fit a SIMD, the least |

A time can be a tenth below its floor: what is written last stays in the memory-side cache.
"""
MOST_OVER_MINIMUM = 1.05
EXCESS = {
    "tensorwise": "no value can be converted before all were seen; what the memory-side cache does not hold until the "
    "second read comes from HBM again"
}
"""Why operators move more than `MOST_OVER_MINIMUM` times the minimum bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One operator on one shape and device.

    Attributes:
        operator: Its name, with the type of its operands where it is called with several.
        row: The row of our variant; None if it could not be predicted.
        error: Why not; empty if it could.
        shape: Sizes by name.
        device: Device.
        floor_us: Time that no implementation goes below by much.
        baseline_us: Predicted time of the baseline; None if there is none or it could not be predicted.
        baseline: Its name.
        published: Published times on this device by whose code it was.
        load_widths: Bytes a lane of global loads to their share of the bytes loaded.
        store_widths: The same of stores.
    """

    operator: str
    row: Row | None
    error: str
    shape: dict[str, int]
    device: str
    floor_us: float | None
    baseline_us: float | None
    baseline: str | None
    published: dict[str, float]
    load_widths: Mapping[int, float]
    store_widths: Mapping[int, float]


def operators(
    names: Annotated[list[str] | None, typer.Argument(help="Operators; all if none is given.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="May be repeated; default: mi300x and mi355x.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a processor.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/reference/operators.md.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.operators/1 on stdout.")] = False,
) -> None:
    """Compare every operator with what the device could do: bytes, access widths, registers, time."""
    from wavecast.cli import simulate

    devices = tuple(device or DEVICES)
    for name in devices:
        simulate.check_device(name)
    entries = list(_entries(_cases(names or [], devices), jobs=jobs or os.cpu_count() or 1))
    if json:
        output.print_json({"schema": OPERATORS_SCHEMA, "operators": [_to_json(entry) for entry in entries]})
    elif markdown:
        typer.echo(page(entries), nl=False)
    else:
        for name in devices:
            _print_device([entry for entry in entries if entry.device == name])
    failed = [entry for entry in entries if entry.error]
    if failed:
        raise CliError(f"{failed[0].operator}: {failed[0].error}", hint=f"{len(failed)} of {len(entries)} failed")


def _cases(names: Sequence[str], devices: Sequence[str]) -> list[Case]:
    from wavecast.cli.experiments.catalogue import EXPERIMENTS
    from wavecast.cli.prediction import Case
    from wavecast.cli.rows import CLEAN

    possible = tuple(name for name in EXPERIMENTS if name not in NO_OPERATOR)
    for name in names:
        if name not in possible:
            raise unknown("operator", name, possible)
    chosen = [EXPERIMENTS[name] for name in possible if not names or name in names]
    return [
        Case(experiment, shape, device, experiment.variants, CLEAN)
        for device in devices
        for experiment in chosen
        for shape in experiment.shapes
    ]


def _entries(cases: Sequence[Case], *, jobs: int) -> Iterator[Entry]:
    from wavecast.cli.prediction import predict_cases

    with output.progress(sum(len(case.variants) for case in cases)) as steps:
        outcomes = predict_cases(cases, jobs=jobs, done=steps.done)
        for case, outcome in zip(cases, outcomes, strict=True):
            yield from entries_of(case, outcome)


def entries_of(case: Case, outcome: Outcome) -> Iterator[Entry]:
    """What a case says about our variant, or about each of them where they are one operator on several types."""
    from wavecast.cli import simulate

    experiment = case.experiment
    one_operator = bool(experiment.other_operands)
    rows = {row.variant: row for row in outcome.rows}
    predictions = dict(zip(rows, outcome.predictions, strict=True))
    published = {row.variant: row.published_us for row in outcome.rows if row.published_us is not None}
    others = experiment.published_elsewhere(shape=case.shape, device=case.device)
    published |= {item.variant: item.time_us for item in others}
    for variant in case.variants if one_operator else case.variants[-1:]:
        row, operands = rows.get(variant), experiment.operands(variant)
        baseline = rows.get(experiment.baseline)
        compared = variant != experiment.baseline
        yield Entry(
            operator=f"{experiment.name} {variant}" if one_operator else experiment.name,
            row=row,
            error="" if row else "; ".join(dict.fromkeys(str(error) for error in outcome.errors)),
            shape=dict(case.shape),
            device=case.device,
            floor_us=simulate.floor_us(
                case.device,
                minimum_bytes=operands.minimum_bytes(case.shape),
                flop=experiment.flop(case.shape) if experiment.flop else 0,
                dtype=operands.dtype,
                linked_bytes=experiment.linked_bytes(case.shape) if experiment.linked_bytes else 0,
                ranks=case.shape.get("ranks", 1),
            ),
            baseline_us=baseline.predicted_us if baseline and compared else None,
            baseline=experiment.baseline if compared else None,
            published=published,
            load_widths=predictions[variant].load_widths if row else {},
            store_widths=predictions[variant].store_widths if row else {},
        )


def cells(entry: Entry) -> list[str]:
    """The columns of an entry, in the order of ``COLUMNS``."""
    short = output.significant
    sizes = " × ".join(f"{value:,} {key}" for key, value in entry.shape.items())
    published = ", ".join(f"{short(us)} {name}" for name, us in entry.published.items()) or output.UNKNOWN
    row = entry.row
    if row is None:
        unknown_cells = [output.UNKNOWN] * (len(COLUMNS) - 3)
        return [entry.operator, sizes, f"fails: {entry.error}", *unknown_cells]
    moved = None if row.hbm_read_bytes is None else row.hbm_read_bytes + (row.hbm_write_bytes or 0.0)
    baseline = output.UNKNOWN
    if entry.baseline_us is not None and row.predicted_us:
        ratio = output.times(entry.baseline_us / row.predicted_us)
        baseline = f"{short(entry.baseline_us)} {entry.baseline}, {ratio}"
    return [
        entry.operator,
        sizes,
        short(row.predicted_us),
        short(entry.floor_us),
        baseline,
        published,
        short(None if moved is None else moved / 1e6, 4),
        output.UNKNOWN if moved is None or not row.minimum_bytes else f"{moved / row.minimum_bytes:.2f}",
        _width(entry.load_widths),
        _width(entry.store_widths),
        f"{(row.fence_release or 0) + (row.fence_acquire or 0):,.0f}",
        *(output.UNKNOWN if value is None else str(value) for value in (row.spill_bytes, row.vgpr, row.waves_per_simd)),
    ]


def page(entries: Sequence[Entry]) -> str:
    """The text of ``docs/reference/operators.md``: a table a device, and what the figures hold for."""
    from wavecast.cli.experiments.catalogue import EXPERIMENTS

    devices = list(dict.fromkeys(entry.device for entry in entries))
    tables = {device: [cells(entry) for entry in entries if entry.device == device] for device in devices}
    lines = [HEAD, *remarks(tables), ""]
    for device, rows in tables.items():
        row = next((entry.row for entry in entries if entry.row and entry.device == device), None)
        versions = f"\n{row.arch}, Triton {row.triton}, device file `{row.spec}`.\n" if row else ""
        lines.append(f"## {device}\n{versions}")
        lines.append(_line(COLUMNS))
        lines.append(_line(["---"] * 2 + ["---:"] * (len(COLUMNS) - 2)))
        lines += [_line(row) for row in rows]
        lines.append("")
    lines.append("## Notes\n")
    names = dict.fromkeys(entry.operator.split()[0] for entry in entries)
    lines += [f"* {name}: {EXPERIMENTS[name].remark}." for name in names if EXPERIMENTS[name].remark]
    return "\n".join(lines) + "\n"


def remarks(tables: Mapping[str, Sequence[Sequence[str]]]) -> list[str]:
    """What the tables have that is not as it should be: bytes beyond the minimum, slower than a baseline, spills."""
    over, slower, spilling = [], [], []
    for device, rows in tables.items():
        for row in (dict(zip(COLUMNS, cells, strict=True)) for cells in rows):
            name = f"{row['operator']} {row['shape']} on {device}"
            if row["× minimum"] != output.UNKNOWN and float(row["× minimum"]) > MOST_OVER_MINIMUM:
                reason = EXCESS.get(row["operator"].split()[0], "not explained")
                over.append(f"* {name}: {row['× minimum']} times the minimum bytes: {reason}.")
            ratio = row["baseline µs"].rpartition(", ")[2].removesuffix("×")
            if ratio != output.UNKNOWN and float(ratio) < 1:
                slower.append(f"* {name}: slower than {row['baseline µs']}.")
            if row["spill B"] not in ("0", output.UNKNOWN):
                spilling.append(f"* {name}: {row['spill B']} bytes a lane are spilled.")
    return [*over, *slower, *spilling] or ["Nothing spills, moves more than it must, or is slower than a baseline."]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _width(shares: Mapping[int, float]) -> str:
    if not shares:
        return output.UNKNOWN
    width = max(shares, key=lambda width: shares[width])
    return f"{width} B, {100 * shares[width]:.0f} %"


def _print_device(entries: Sequence[Entry]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=entries[0].device, title_justify="left")
    for number, heading in enumerate(COLUMNS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for entry in entries:
        table.add_row(*cells(entry))
    output.print_table(table, wide=True)


def _to_json(entry: Entry) -> dict[str, Any]:
    from wavecast.cli.rows import row_to_json

    values = {name: getattr(entry, name) for name in Entry.__slots__ if name != "row"}
    widths = {name: {str(width): share for width, share in values[name].items()} for name in WIDTHS}
    return {**values, **widths, "row": None if entry.row is None else row_to_json(entry.row)}

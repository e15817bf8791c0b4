"""``report``: predicted against measured, from a directory of records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavecast.cli import output
from wavecast.cli.errors import misuse

if TYPE_CHECKING:
    from wavecast.cli.ledger import CounterPair, Entry
    from wavecast.cli.scores import Point, Score

EVIDENCE = Path("docs/evidence")
"""Where records are if nobody says: the project's own."""

ALL, EARLIER, HOLDOUT = "all", "earlier", "hold-out"


def report(
    directory: Annotated[Path, typer.Argument(help="Directory with records.")] = EVIDENCE,
    ledger: Annotated[bool, typer.Option("--ledger", help="List every prediction with its measurement.")] = False,
    device: Annotated[str | None, typer.Option(help="Only this device.")] = None,
    experiment: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a scatter a device, as PNG, SVG and CSV, to DIR.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write tables and scatter as a page, pictures beside it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.ledger/1 on stdout.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns.")] = False,
) -> None:
    """Say how far predictions lie from measurements, and keep the books of both."""
    from wavecast.cli import tables
    from wavecast.cli.ledger import counter_pairs, entries_of, entries_to_json, marks_text
    from wavecast.cli.plots import check_place
    from wavecast.cli.records import read_records

    if not directory.is_dir():
        raise misuse(f"{directory} is no directory", hint="name one with records, as predict --freeze DIR writes them")
    for place in (plot, None if page is None else page.parent):
        if place is not None:
            check_place(place)
    records = read_records(directory)
    entries = [
        entry
        for entry in entries_of(records)
        if (device is None or entry.device == device) and (not experiment or entry.experiment in experiment)
    ]
    names = {entry.record for entry in entries}
    # Counters are those of chosen rows: a hold-out may be older than the model.
    pairs = counter_pairs(
        {path: record for path, record in records.items() if path.name in names and record.holdout is None}
    )
    if json:
        output.print_json(entries_to_json(entries))
    elif ledger:
        tables.print_ledger(entries, wide=wide)
    else:
        _print_scores(entries, pairs, wide=wide)
    if marks := marks_text(entries):
        output.print_message(f"marked: {marks}")
    if plot is not None:
        for path in _write_scatters(entries, plot):
            output.print_message(f"wrote {path}")
    if page is not None:
        page.write_text(
            page_of(entries, pairs, _write_scatters(entries, page.parent, stem=page.stem)), encoding="utf-8"
        )
        output.print_message(f"wrote {page}")


def points_of(entries: Iterable[Entry], *, holdout: int | None = None) -> list[Point]:
    """The entries that have both times.

    Args:
        entries: Entries.
        holdout: Seed of those that were drawn; None for those that were chosen.
    """
    return [point for entry in entries if entry.holdout == holdout and (point := entry.point) is not None]


def score_lines(entries: Sequence[Entry]) -> list[tuple[str, Score]]:
    """A score for each experiment, for all that were chosen, and for each hold-out.

    Of a row that was predicted and measured more than once the newest counts; the others are scored by themselves.
    """
    from wavecast.cli.ledger import newest_and_earlier
    from wavecast.cli.scores import score, score_by

    newest, older = newest_and_earlier(entries)
    chosen = points_of(newest)
    lines = list(score_by(chosen, lambda point: point.benchmark).items())
    if chosen:
        lines.append((ALL, score(chosen)))
    if earlier := points_of(older):
        lines.append((f"{EARLIER} predictions", score(earlier)))
    for seed in sorted({entry.holdout for entry in entries if entry.holdout is not None}):
        if drawn := points_of(entries, holdout=seed):
            lines.append((f"{HOLDOUT} {seed}", score(drawn)))
    return lines


def counter_lines(pairs: Sequence[CounterPair]) -> list[tuple[str, int, float, float, float]]:
    """For each counter: launches, and median, 90th percentile and largest of the absolute errors."""
    import numpy as np

    lines = []
    for name in dict.fromkeys(pair.counter for pair in pairs):
        errors = np.abs([pair.error for pair in pairs if pair.counter == name])
        median, p90 = np.percentile(errors, [50, 90])
        lines.append((name, len(errors), float(median), float(p90), float(errors.max())))
    return lines


def _devices(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.device for entry in entries))


def _print_scores(entries: Sequence[Entry], pairs: Sequence[CounterPair], *, wide: bool) -> None:
    from wavecast.cli import tables

    shown = False
    for device in _devices(entries):
        mine = [entry for entry in entries if entry.device == device]
        if lines := score_lines(mine):
            tables.print_scores(f"{device}: predicted over measured, less one", lines, wide=wide)
            shown = True
        if counters := counter_lines([pair for pair in pairs if pair.device == device]):
            tables.print_counter_scores(f"{device}: counters", counters, wide=wide)
            shown = True
    if not shown:
        predicted = sum(entry.predicted_us is not None for entry in entries)
        measured = sum(entry.measured_us is not None for entry in entries)
        output.print_message(f"{predicted} predictions, {measured} measurements, and nothing that has both")


def _write_scatters(entries: Sequence[Entry], directory: Path, *, stem: str = "predicted-measured") -> list[Path]:
    from wavecast.cli.ledger import newest_and_earlier
    from wavecast.cli.plots.scatter import write_scatter

    written: list[Path] = []
    newest, _ = newest_and_earlier(entries)
    for device in _devices(entries):
        points = [point for entry in newest if entry.device == device and (point := entry.point) is not None]
        if points:
            title = f"{device}: {len(points)} kernels and shapes"
            written += write_scatter(points, directory, name=f"{stem}-{device}", title=title)
    return written


def page_of(entries: Sequence[Entry], pairs: Sequence[CounterPair], pictures: Sequence[Path]) -> str:
    """The tables and pictures as a page of Markdown.

    Args:
        entries: Entries.
        pairs: Counters.
        pictures: The files of the scatters; they lie beside the page.
    """
    lines = [
        "# Predicted against measured",
        "",
        "Made by `hatch run cli report --page` from the records in [evidence](../evidence/README.md). Errors are",
        "predicted over measured, less one, in per cent; *inside* is the share of measured times inside the interval.",
        "Of a row that was predicted and measured again the newest counts; *earlier predictions* are those before.",
        "Where a counter is predicted to be 0, any count is 100 % off: profilers count some bank conflicts everywhere.",
        "`memory.lds_clk`, instructions and conflicts together, says more. [Causes](../concepts/ptx.md) of the misses.",
    ]
    for device in _devices(entries):
        mine = [entry for entry in entries if entry.device == device]
        scores = score_lines(mine)
        counters = counter_lines([pair for pair in pairs if pair.device == device])
        if not scores and not counters:
            continue
        lines += ["", f"## {device}"]
        picture = next((path for path in pictures if path.name.endswith(f"-{device}.png")), None)
        if picture is not None:
            lines += ["", f"![Predicted over measured times on {device}, logarithmic]({picture.name})"]
        if scores:
            lines += [
                "",
                *_markdown(("experiment", "rows", "median", "p90", "worst", "bias", "inside"), _cells(scores)),
            ]
        if counters:
            cells = [(name, str(count), *map(_percent, errors)) for name, count, *errors in counters]
            lines += ["", *_markdown(("counter", "launches", "median", "p90", "worst"), cells)]
        if counts := _counts(mine):
            lines += ["", counts]
    return "\n".join(lines) + "\n"


def _counts(entries: Sequence[Entry]) -> str:
    from wavecast.cli.ledger import marks_text

    marks = marks_text(entries)
    return f"Marked in the ledger: {marks}." if marks else ""


def _cells(scores: Sequence[tuple[str, Score]]) -> list[tuple[str, ...]]:
    return [
        (
            f"**{name}**" if name.partition(" ")[0] in (ALL, EARLIER, HOLDOUT) else name,
            str(item.count),
            *map(_percent, (item.median, item.p90, item.worst)),
            f"{100 * item.bias:+.1f}",
            f"{100 * item.coverage:.0f}",
        )
        for name, item in scores
    ]


def _markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = [heading, ["---"] * len(heading), *rows]
    return [f"| {' | '.join(cells)} |" for cells in table]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"

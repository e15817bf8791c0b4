"""Pictures as files: PNG, SVG and the CSV of what they show, same bytes for the same data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wavecast.cli import output, simulate
from wavecast.cli.errors import CliError, ExitCode
from wavecast.cli.places import check_directory, not_writable
from wavecast.cli.plots import gantt, intervals, roofline, traffic, waterfall
from wavecast.cli.plots.comparison import Comparison, compare
from wavecast.cli.plots.picture import Picture

if TYPE_CHECKING:
    from wavecast.cli.prediction import Case, Outcome
    from wavecast.cli.rows import Row


def check_place(directory: Path) -> None:
    """Find what would keep ``write`` from writing, before minutes are spent on the predictions.

    Raises:
        CliError: 2 if it cannot be a directory that may be written to, 3 without matplotlib.
    """
    check_directory(directory)
    if find_spec("matplotlib") is None:
        hint = "the default environment has it: hatch run cli …"
        raise CliError("the package 'matplotlib' is not installed", hint=hint, code=ExitCode.NOT_HERE)


def write(cases: Sequence[Case], outcomes: Sequence[Outcome], *, directory: Path) -> list[Path]:
    """Write every picture of every case; say on stderr which ones there are not.

    Args:
        cases: What was predicted.
        outcomes: What became of each.
        directory: Where to; it is created.

    Returns:
        The files that were written; each picture is three of them, a timeline's trace one more.

    Raises:
        CliError: 2 if they cannot be written.
    """
    written: list[Path] = []
    for case, outcome in zip(cases, outcomes, strict=True):
        elsewhere = case.experiment.published_elsewhere(shape=case.shape, device=case.device)
        published = [(item.variant, item.time_us) for item in elsewhere]
        files = write_rows(
            outcome.rows, outcome.predictions, device=case.device, directory=directory, elsewhere=published
        )
        if not files and not outcome.rows:
            output.print_message(f"nothing to plot for {case.experiment.name}: no variant was predicted")
        written += files
    return written


def write_rows(
    rows: Sequence[Row],
    predictions: Sequence[simulate.Prediction],
    *,
    device: str,
    directory: Path,
    elsewhere: Sequence[tuple[str, float]] = (),
) -> list[Path]:
    """Write every picture of rows that are compared; say on stderr which ones there are not.

    Args:
        rows: Of one experiment, or one kernel file, on one shape and device.
        predictions: What each was made from.
        device: Name of the device, or path of its file.
        directory: Where to; it is created.
        elsewhere: As in ``Comparison``.

    Returns:
        The files that were written; none if no time is known.

    Raises:
        CliError: 2 if they cannot be written.
    """
    if not rows:
        return []
    comparison = compare(rows, predictions, device=simulate.device_facts(device), elsewhere=elsewhere)
    if comparison is None:
        return []
    files = [
        path
        for picture in pictures(comparison, device=device)
        for path in _write(picture, directory / f"{comparison.stem}-{picture.name}")
    ]
    return files + _write_traces(comparison, directory)


def pictures(comparison: Comparison, *, device: str | None = None) -> Iterator[Picture]:
    """The pictures of a comparison; says on stderr which ones there are not, and why.

    Args:
        comparison: What is compared.
        device: Name of the device, or path of its file; None for the one that the comparison names.
    """
    if any(item.prediction.timeline for item in comparison.variants):
        found = {gantt.NAME: gantt.picture(comparison), intervals.NAME: intervals.picture(comparison)}
        yield from (picture for picture in found.values() if not isinstance(picture, str))
        return
    found = {
        roofline.NAME: roofline.picture(comparison),
        traffic.NAME: traffic.picture(comparison),
        waterfall.NAME: waterfall.picture(comparison, simulate.combined_us(device or comparison.device.name)),
        intervals.NAME: intervals.picture(comparison),
    }
    for name, picture in found.items():
        if isinstance(picture, str):
            output.print_message(f"no {name} for {comparison.stem}: {picture}")
        else:
            yield picture


def _write_traces(comparison: Comparison, directory: Path) -> list[Path]:
    """Timelines in the trace event format, which Perfetto and Chrome show."""
    paths = []
    for item in comparison.variants:
        if item.prediction.timeline is not None:
            path = directory / f"{comparison.stem}-{item.name}.trace.json"
            try:
                path.write_text(item.prediction.timeline.trace, encoding="utf-8")
            except OSError as error:
                raise not_writable(directory, error.strerror) from error
            paths.append(path)
    return paths


def _write(picture: Picture, stem: Path) -> list[Path]:
    from wavecast.cli.plots.drawing import save

    figure = picture.draw()
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg", "csv")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        for path in paths[:2]:
            save(figure, path)
        paths[2].write_text(picture.table.csv(), encoding="utf-8")
    except OSError as error:
        raise not_writable(stem.parent, error.strerror) from error
    return paths

"""Rows as tables for a person."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.table import Table

from wavecast.cli import output
from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.experiments.experiment import COLLECTIVE_ALONE, PRODUCT_ALONE, Experiment
from wavecast.cli.ledger import Entry
from wavecast.cli.measurement import KernelCounters, MeasuredRow, Measurement, RowCounters, row_key
from wavecast.cli.measuring.metrics import METRICS
from wavecast.cli.prediction import Outcome
from wavecast.cli.rows import Effect, Row, Tuning
from wavecast.cli.schedules import fastest_line
from wavecast.cli.scores import Score

# Heading and whether it is shown at 80 columns.
COLUMNS: tuple[tuple[str, bool], ...] = (
    ("variant", True),
    ("ker-\nnels", True),
    ("pred.\nµs", True),
    ("interval\nµs", True),
    ("speed-\nup", True),
    ("publ.\nµs", True),
    ("speed-\nup", True),
    ("error\n%", True),
    ("bound", True),
    ("HBM read\nMB", False),
    ("HBM write\nMB", False),
    ("minimum\nMB", False),
    ("coalescing\n%", False),
    ("fences\nrel. + acq.", False),
    ("VGPR", False),
    ("SGPR", False),
    ("LDS\nB", False),
    ("spill\nB", False),
    ("waves\na SIMD", False),
)

# The same of what was measured.
MEASURED_COLUMNS: tuple[tuple[str, bool], ...] = (
    ("variant", True),
    ("pred.\nµs", True),
    ("interval\nµs", True),
    ("meas.\nµs", True),
    ("±\n%", True),
    ("warm\nµs", True),
    ("error\n%", True),
    ("speed-\nup", True),
    ("check", True),
    ("publ.\nµs", False),
    ("host\nµs", False),
    ("rounds", False),
    ("clock\nMHz", False),
    ("minimum\nMB", False),
    ("minimum\nTB/s", False),
)

# Constants that move a time by less than this are counted, not listed; ``--json`` has them all.
LISTED_EFFECT = 0.01


def print_outcome(outcome: Outcome, *, wide: bool = False, sensitivity: bool = False) -> None:
    """Print the rows of one case, how kernels were tuned and, if asked for, which constants decide each row."""
    print_rows(outcome.rows, wide=wide)
    for row, prediction in zip(outcome.rows, outcome.predictions, strict=True):
        print_tunings(row, prediction.tunings, wide=wide)
    if sensitivity:
        for row, prediction in zip(outcome.rows, outcome.predictions, strict=True):
            print_sensitivity(row, prediction.sensitivity, wide=wide)


def print_tunings(row: Row, tunings: Sequence[Tuning], *, wide: bool = False) -> None:
    """Print what the choice among the configurations of each kernel was worth, and what it cost."""
    for tuning in tunings:
        line = f"{row.variant}, {tuning.kernel}: {_tuning_text(tuning)}"
        output.print_table(textwrap.fill(line, output.NARROW, subsequent_indent="  "), wide=wide)
        for name, reason in tuning.ruled_out.items() if wide else ():
            output.print_table(f"  {name}: {reason}", wide=wide)
    if tunings:
        output.print_table("", wide=wide)


def _tuning_text(tuning: Tuning) -> str:
    unknown = tuning.compiled - tuning.compile_noted
    compiling = f"compiled in {output.significant(tuning.compile_s)} s"
    if unknown:
        compiling += f", without {unknown} that were compiled before times were noted"
    if tuning.configurations == 1:
        return f"{tuning.best}; {compiling}"
    parts = [f"{tuning.configurations} configurations, {tuning.programs} programs, {len(tuning.ruled_out)} ruled out"]
    if tuning.default_ratio is None:
        parts.append(f"best {tuning.best}; the default {tuning.default} is ruled out")
    elif tuning.best == tuning.default:
        parts.append(f"best the default, {tuning.best}")
    else:
        gain = f"{tuning.default_ratio:.3f} ({tuning.default_ratio_low:.3f}–{tuning.default_ratio_high:.3f})"
        told = "not measurably longer" if tuning.default in tuning.alike else "measurably longer"
        parts.append(f"best {tuning.best}; the default takes {gain} times as long, {told}")
    parts.append(f"{len(tuning.alike)} do not differ measurably from the best")
    return "; ".join([*parts, compiling])


def print_sensitivity(row: Row, effects: Sequence[Effect], *, wide: bool = False) -> None:
    """Print what each uncertain constant makes of a row's time at the ends of its range; the sources if ``wide``."""
    short = output.significant
    output.print_table(f"{row.variant}, {short(row.predicted_us)} µs: what decides it", wide=wide)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("constant", "value", "range", "unit", "µs at\nlow end", "µs at\nhigh end", "kind"):
        left = heading in ("constant", "unit", "kind")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    if wide:
        table.add_column("source")
    least_us = LISTED_EFFECT * (row.predicted_us or 0.0)
    listed = [effect for effect in effects if abs(effect.high_us - effect.low_us) > least_us]
    for effect in listed:
        known = effect.value is not None
        cells = [
            effect.constant,
            f"{effect.value:g}" if known else output.UNKNOWN,
            f"{effect.low:g}–{effect.high:g}" if known else output.UNKNOWN,
            effect.unit or output.UNKNOWN,
            short(effect.low_us),
            short(effect.high_us),
            effect.kind,
        ]
        table.add_row(*cells, *([effect.source] if wide else []))
    if listed:
        output.print_table(table, wide=wide)
    if len(effects) > len(listed):
        rest = f"{len(effects) - len(listed)} constants that move it by less than {100 * LISTED_EFFECT:.0f} %"
        output.print_table(f"and {rest}" if listed else f"{rest}, and none by more", wide=wide)
    output.print_table("", wide=wide)


def print_rows(rows: Sequence[Row], *, wide: bool = False) -> None:
    """Print the rows of one case: heading, table, the cause of each row, where the published times are from, remark."""
    first = rows[0]
    sizes = " ".join(f"{key}={value}" for key, value in first.shape.items())
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, narrow in COLUMNS:
        if wide or narrow:
            left = heading in ("variant", "bound")
            table.add_column(heading, justify="left" if left else "right", no_wrap=heading == "variant")
    for row in rows:
        cells = _cells(row)
        table.add_row(*(cell for cell, (_, narrow) in zip(cells, COLUMNS, strict=True) if wide or narrow))
    experiment = EXPERIMENTS.get(first.experiment)  # None for a file of the user's
    compiler = f"Triton {first.triton}" if first.triton else None
    caches = f"caches {first.caches}" if first.caches else None
    where = ", ".join(filter(None, (f"{first.device} ({first.arch})", first.dtype, compiler, caches)))
    summary = [textwrap.fill(experiment.summary, output.NARROW)] if experiment else []
    for line in (f"{first.experiment}  {sizes}", where, *summary):
        output.print_table(line, wide=wide)
    output.print_table(table, wide=wide)
    elsewhere = [
        f"published: {item.variant}, {output.significant(item.time_us)} µs: {item.source}"
        for item in (experiment.published_elsewhere(shape=first.shape, device=first.device) if experiment else ())
    ]
    notes = [f"note: {experiment.remark}"] if experiment and experiment.remark else []
    best = fastest_line(rows, output.significant) if experiment and experiment.schedule else None
    for line in [*_remarks(rows), *([best] if best else []), *elsewhere, *notes]:
        output.print_table(textwrap.fill(line, output.NARROW, subsequent_indent="  "), wide=wide)
    output.print_table("", wide=wide)


def print_measured(
    experiment: Experiment,
    seen: Sequence[MeasuredRow],
    rows: Sequence[Row],
    measurement: Measurement,
    *,
    wide: bool = False,
) -> None:
    """Print what was measured of one case beside what was predicted.

    Args:
        experiment: Of the case.
        seen: One for each variant.
        rows: Those that were timed.
        measurement: Where.
        wide: Use more than 80 columns.
    """
    known = {row_key(row): row for row in rows}
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, narrow in MEASURED_COLUMNS:
        if wide or narrow:
            left = heading in ("variant", "check")
            table.add_column(heading, justify="left" if left else "right", no_wrap=heading == "variant")
    baseline = next((one.cold_us for one in seen if one.variant == experiment.baseline), None)
    for one in seen:
        cells = _measured_cells(one, known.get(row_key(one)), baseline)
        table.add_row(*(cell for cell, (_, narrow) in zip(cells, MEASURED_COLUMNS, strict=True) if wide or narrow))
    sizes = " ".join(f"{key}={value}" for key, value in seen[0].shape.items())
    where = f"{seen[0].device}: {measurement.machine.gpu}, Triton {measurement.machine.triton}"
    for line in (f"{experiment.name}  {sizes}", where, textwrap.fill(experiment.summary, output.NARROW)):
        output.print_table(line, wide=wide)
    output.print_table(table, wide=wide)
    for one in seen:
        row = known.get(row_key(one))
        if row is not None and row.predicted_us is not None and row.code_object != one.code_object:
            line = f"{one.variant}: the code that ran is not the code that was predicted"
            output.print_table(textwrap.fill(line, output.NARROW, subsequent_indent="  "), wide=wide)
    if (bound := _beside_alone(seen)) is not None:
        output.print_table(bound, wide=wide)
    output.print_table("", wide=wide)


def _beside_alone(seen: Sequence[MeasuredRow]) -> str | None:
    """What ours takes over what it cannot be faster than: the product or the collective alone, whichever is longer."""
    cold = {row.variant: row.cold_us for row in seen}
    parts = [us for name in (PRODUCT_ALONE, COLLECTIVE_ALONE) if (us := cold.get(name)) is not None]
    ours = cold.get("wavecast")
    if ours is None or len(parts) < 2:
        return None
    return f"wavecast: {ours / max(parts):.3f} × the longer of {PRODUCT_ALONE} and {COLLECTIVE_ALONE}"


def print_counters(seen: Sequence[MeasuredRow], predicted: Sequence[RowCounters], *, wide: bool = False) -> None:
    """Print the counters of each launch beside the predicted ones.

    Args:
        seen: Rows of one case, with counters.
        predicted: What was predicted of them, and of others perhaps.
        wide: Use more than 80 columns.
    """
    known = {row_key(row): row.kernels for row in predicted}
    for row in seen:
        sizes = " ".join(f"{key}={value}" for key, value in row.shape.items())
        output.print_table(f"{row.experiment} {row.variant}  {sizes}: counters", wide=wide)
        expected = known.get(row_key(row), ())
        same = [kernel.kernel for kernel in expected] == [kernel.kernel for kernel in row.kernels]
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in ("kernel", "counter", "predicted", "measured", "error\n%"):
            table.add_column(heading, justify="left" if heading in ("kernel", "counter") else "right")
        for number, kernel in enumerate(row.kernels):
            for cells in _counter_cells(kernel, expected[number] if same else None):
                table.add_row(*cells)
        output.print_table(table, wide=wide)
    output.print_table("", wide=wide)


def _counter_cells(measured: KernelCounters, predicted: KernelCounters | None) -> Iterator[list[str]]:
    name = measured.kernel
    for metric in METRICS:
        if metric.name not in measured.counters:
            continue
        found = measured.counters[metric.name]
        wanted = None if predicted is None else predicted.counters.get(metric.name)
        error = 100.0 * (wanted / found - 1.0) if wanted is not None and found else None
        yield [name, metric.name, output.significant(wanted, 4), output.significant(found, 4), output.percent(error)]
        name = ""


def _measured_cells(one: MeasuredRow, row: Row | None, baseline_us: float | None) -> list[str]:
    short = output.significant
    predicted = row is not None and row.predicted_us is not None
    interval = f"{short(row.predicted_low_us)}–{short(row.predicted_high_us)}" if row and predicted else output.UNKNOWN
    spread = None if one.spread is None else 50 * one.spread
    moved = row.minimum_bytes / 1e6 / one.cold_us if row and row.minimum_bytes and one.cold_us else None
    return [
        one.variant,
        short(row.predicted_us if row else None),
        interval,
        short(one.cold_us),
        short(spread, 2),
        short(one.warm_us),
        output.percent(row.error_percent if row and predicted else None),
        output.times(baseline_us / one.cold_us if baseline_us and one.cold_us else None),
        one.check,
        short(row.published_us if row else None),
        short(one.host_us),
        str(one.rounds),
        short(one.clock_mhz),
        _megabytes(row.minimum_bytes if row else None),
        short(moved),
    ]


def print_ledger(entries: Sequence[Entry], *, wide: bool = False) -> None:
    """Print entries of a ledger, one line each."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("predicted\nmeasured on", "what", "pred.\nµs", "meas.\nµs", "error\n%", "mark"):
        left = heading in ("predicted\nmeasured on", "what", "mark")
        table.add_column(heading, justify="left" if left else "right")
    if wide:
        for heading in ("device", "Triton", "spec", "code", "record"):
            table.add_column(heading)
    for entry in entries:
        sizes = " ".join(f"{key}={value}" for key, value in entry.shape.items())
        marks = [*entry.marks, *([] if entry.holdout is None else [f"hold-out {entry.holdout}"])]
        more = (entry.device, entry.triton, entry.spec, entry.code_object, entry.record)
        table.add_row(
            f"{entry.predicted_on or output.UNKNOWN}\n{entry.measured_on or output.UNKNOWN}",
            f"{entry.experiment} {entry.variant}\n{sizes}",
            output.significant(entry.predicted_us),
            output.significant(entry.measured_us),
            output.percent(entry.error_percent),
            ", ".join(marks),
            *([item or output.UNKNOWN for item in more] if wide else []),
        )
    output.print_table(table, wide=wide)


def print_scores(title: str, scores: Sequence[tuple[str, Score]], *, wide: bool = False) -> None:
    """Print errors by experiment, in per cent."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("experiment", "rows", "median %", "p90 %", "worst %", "bias %", "inside %"):
        table.add_column(heading, justify="left" if heading == "experiment" else "right")
    for name, item in scores:
        errors = [f"{100 * value:.1f}" for value in (item.median, item.p90, item.worst)]
        table.add_row(name, str(item.count), *errors, f"{100 * item.bias:+.1f}", f"{100 * item.coverage:.0f}")
    for line in (title, table, ""):
        output.print_table(line, wide=wide)


def print_counter_scores(
    title: str, counters: Sequence[tuple[str, int, float, float, float]], *, wide: bool = False
) -> None:
    """Print errors by counter, in per cent."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("counter", "launches", "median %", "p90 %", "worst %"):
        table.add_column(heading, justify="left" if heading == "counter" else "right")
    for name, count, *errors in counters:
        table.add_row(name, str(count), *(f"{100 * value:.1f}" for value in errors))
    for line in (title, table, ""):
        output.print_table(line, wide=wide)


def print_catalogue(experiments: Sequence[Experiment], *, wide: bool = False) -> None:
    """Print name, variants and shapes of experiments, and which of them run without being named."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("experiment", "by default", "device", "shapes", "variants"):
        table.add_column(heading, justify="right" if heading == "shapes" else "left")
    for experiment in experiments:
        default = "yes" if experiment.by_default else "--all"
        shapes, variants = str(len(experiment.shapes)), ", ".join(experiment.variants)
        table.add_row(experiment.name, default, experiment.device, shapes, variants)
    output.print_table(table, wide=wide)


def _cells(row: Row) -> list[str]:
    short = output.significant
    interval = f"{short(row.predicted_low_us)}–{short(row.predicted_high_us)}"
    return [
        row.variant,
        str(row.launches) if row.launches is not None else output.UNKNOWN,
        short(row.predicted_us),
        interval if row.predicted_low_us is not None else output.UNKNOWN,
        output.times(row.speedup),
        short(row.published_us),
        output.times(row.speedup_published),
        output.percent(row.error_percent),
        row.bound or output.UNKNOWN,
        _megabytes(row.hbm_read_bytes),
        _megabytes(row.hbm_write_bytes),
        _megabytes(row.minimum_bytes),
        short(None if row.coalescing_efficiency is None else 100 * row.coalescing_efficiency),
        f"{short(row.fence_release)} + {short(row.fence_acquire)}",
        *(_whole(value) for value in (row.vgpr, row.sgpr, row.lds_bytes, row.spill_bytes, row.waves_per_simd)),
    ]


def _remarks(rows: Sequence[Row]) -> list[str]:
    causes = [f"{row.variant}: {row.cause}" for row in rows if row.cause]
    sources = dict.fromkeys(row.published_source for row in rows if row.published_source)
    return [*causes, *(f"published: {source}" for source in sources)]


def _megabytes(value: float | None) -> str:
    return output.significant(None if value is None else value / 1e6)


def _whole(value: int | None) -> str:
    return output.UNKNOWN if value is None else f"{value:,}"

"""``measure``: the catalogue's experiments on the GPU of this machine, beside what was predicted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavecast.cli import output
from wavecast.cli.errors import CliError, ExitCode, misuse

if TYPE_CHECKING:
    from wavecast.cli.experiments.experiment import Experiment, Shape
    from wavecast.cli.measurement import MeasuredRow, Measurement
    from wavecast.cli.measuring.gpu import Bench
    from wavecast.cli.measuring.session import CaseResult
    from wavecast.cli.prediction import Case
    from wavecast.cli.records import Ledger
    from wavecast.cli.rows import Row

RECORDS = Path("wavecast-records")
"""Where records go if nobody says."""


def measure(
    experiments: Annotated[list[str] | None, typer.Argument(help="Names of the catalogue; see predict --list.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole catalogue.")] = False,
    variant: Annotated[list[str] | None, typer.Option(help="Only this one and the baseline; may be repeated.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Sizes to change: tokens=4096,n=2048; may be repeated.")
    ] = None,
    holdout: Annotated[
        int | None, typer.Option(metavar="SEED", help="Kernels and shapes drawn with a seed, instead of chosen ones.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many --holdout draws.")] = 16,
    records: Annotated[Path, typer.Option(help="Directory with frozen predictions; measurements go there.")] = RECORDS,
    device: Annotated[str | None, typer.Option(help="Whose predictions to compare with; default: the GPU's.")] = None,
    no_predict: Annotated[
        bool, typer.Option("--no-predict", help="Compare with frozen predictions only; make no new ones.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only what has been predicted and not been measured yet.")
    ] = False,
    gpus: Annotated[
        int, typer.Option(min=1, help="Measure on so many GPUs, together where the experiment is of several.")
    ] = 1,
    seconds: Annotated[float, typer.Option(min=0.0, help="About how long to time a shape.")] = 1.0,
    watchdog: Annotated[float, typer.Option(min=1.0, help="Give up if a step takes so many seconds.")] = 120.0,
    counters: Annotated[
        bool, typer.Option("--counters", help="Count sectors, requests and bytes with ncu or rocprofv3 as well.")
    ] = False,
    calibrate: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Measure the GPU instead, and write a device file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.record/1 on stdout.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns.")] = False,
) -> None:
    """Measure experiments on the GPU of this machine, and set the times beside what was predicted.

    Results are compared with the reference first; a variant that is wrong is not timed.
    """
    from wavecast.cli import simulate
    from wavecast.cli.experiments.catalogue import choose_variants, find_experiments
    from wavecast.cli.measuring.gpu import GpuBench, device_of, find_machine
    from wavecast.cli.measuring.session import new_measurement
    from wavecast.cli.places import check_directory
    from wavecast.cli.predict import drawn_cases
    from wavecast.cli.prediction import Case
    from wavecast.cli.records import Ledger
    from wavecast.cli.rows import CLEAN

    if calibrate is not None:
        from wavecast.cli.calibrate import calibrate as run_probes

        if experiments or everything or holdout is not None or counters:
            raise misuse("--calibrate measures the GPU, and no experiments", hint="name none")
        run_probes(calibrate, like=device, show_tables=not json, wide=wide)
        return
    if everything and experiments:
        raise misuse(f"--all and {' '.join(experiments)}", hint="name experiments, or take all")
    chosen = find_experiments(experiments or [], everything=everything)
    if everything:
        chosen = _possible(chosen, gpus)
    planned = [
        (item, size, choose_variants(item, variant or []) + item.parts)
        for item in chosen
        for size in _shapes(item, shape or [], gpus)
    ]
    check_directory(records)
    machine = find_machine(gpus=gpus)
    name = device_of(machine) if device is None else simulate.check_device(device)
    if holdout is None:
        cases = [Case(item, size, name, variants, CLEAN) for item, size, variants in planned]
    else:
        named = bool(experiments or everything or variant or shape)
        cases = drawn_cases(holdout, count=count, device=name, chosen=named)
    ledger = Ledger(records, triton=machine.triton, holdout=holdout)
    if missing:
        cases = _waiting(cases, ledger)
    elif not no_predict:
        _predict_missing(cases, ledger)
    benches = [GpuBench(index) for index in range(gpus)]
    measurement = new_measurement(machine, benches[0])
    output.print_message(f"{machine.text}; {_costs(measurement)}")
    session = Session(ledger, measurement, show_tables=not json, wide=wide)
    try:
        single = [case for case in cases if case.experiment.schedule is None]
        together = [case for case in cases if case.experiment.schedule is not None]
        session.run(single, benches, seconds=seconds, step_s=watchdog)
        session.run_together(together, gpus, seconds=seconds, step_s=watchdog)
        if counters and together:
            names = ", ".join(dict.fromkeys(case.experiment.name for case in together))
            output.print_message(f"not counted, as they run on several GPUs at once: {names}")
        if counters and (single or not together):
            session.count(single, step_s=watchdog)
    finally:
        if json:
            output.print_json(session.document())
    session.finish()


def _possible(experiments: Sequence[Experiment], gpus: int) -> list[Experiment]:
    """Those that run on so many GPUs; the others are named."""
    left_out = [item.name for item in experiments if item.group_shapes is not None and gpus < 2]
    if left_out:
        output.print_message(f"left out, as they need several GPUs (--gpus N): {', '.join(left_out)}")
    return [item for item in experiments if item.name not in left_out]


def _shapes(experiment: Experiment, texts: Sequence[str], gpus: int) -> tuple[Shape, ...]:
    """The shapes to measure: of an experiment over several GPUs, those of so many.

    Raises:
        CliError: 2 if it cannot be measured on so many.
    """
    from wavecast.cli.experiments.catalogue import choose_shapes

    if experiment.group_shapes is None:
        return choose_shapes(experiment, texts)
    if gpus < 2:
        raise misuse(f"{experiment.name} runs on several GPUs at once, and 1 is to be used", hint="--gpus N")
    if not texts:
        return experiment.group_shapes(gpus)
    found = choose_shapes(experiment, [text if "ranks" in text else f"{text},ranks={gpus}" for text in texts])
    for ranks in {shape["ranks"] for shape in found} - {gpus}:
        raise misuse(f"a shape of {ranks} ranks on {gpus} GPUs", hint=f"--gpus {ranks}")
    return found


def _waiting(cases: Sequence[Case], ledger: Ledger) -> list[Case]:
    """The variants that have a prediction and no measurement.

    Raises:
        CliError: 1 if there are none.
    """
    from wavecast.cli import simulate
    from wavecast.cli.measurement import row_key_of

    def waits(case: Case, variant: str) -> bool:
        key = row_key_of(case.experiment.name, variant, simulate.device_name(case.device), case.shape)
        row = ledger.predicted(key)
        return row is not None and row.measured_us is None

    left = [(case, tuple(variant for variant in case.variants if waits(case, variant))) for case in cases]
    found = [replace(case, variants=variants) for case, variants in left if variants]
    if not found:
        raise CliError("nothing that is predicted there waits for a measurement", hint="leave --missing out")
    return found


def _predict_missing(cases: Sequence[Case], ledger: Ledger) -> None:
    """Predict and write down what has not been predicted yet, where the simulator can run."""
    from wavecast.cli import simulate
    from wavecast.cli.measurement import row_key_of
    from wavecast.cli.predict import predicted_counters
    from wavecast.cli.prediction import predict_cases

    def missing(case: Case) -> tuple[str, ...]:
        name, shape = case.experiment.name, case.shape
        return tuple(
            variant
            for variant in case.variants
            if ledger.predicted(row_key_of(name, variant, simulate.device_name(case.device), shape)) is None
        )

    todo = [replace(case, variants=variants) for case in cases if (variants := missing(case))]
    if not todo:
        return
    obstacle = _prediction_obstacle(todo[0].device)
    if obstacle is not None:
        output.print_message(f"no new predictions: {obstacle}")
        return
    failures: dict[str, None] = {}
    with output.progress(sum(len(case.variants) for case in todo)) as steps:
        for outcome in predict_cases(todo, jobs=os.cpu_count() or 1, done=steps.done, apart=True):
            failures.update((str(error), None) for error in outcome.errors)
            if outcome.rows:
                for path in ledger.freeze(outcome.rows, predicted_counters([outcome])):
                    with steps.paused():
                        output.print_message(f"predicted first: {path}")
    for text in failures:
        output.print_message(f"not predicted: {text}")


def _prediction_obstacle(device: str) -> str | None:
    """Why nothing can be predicted here; None if it can."""
    from importlib.util import find_spec

    from wavecast.cli import simulate

    if not device.endswith(".toml") and device not in simulate.device_names():
        return f"no device is called {device!r}; --device names one to compare with"
    absent = [name for name in ("numba", "llvmlite", "msgpack", "elftools") if find_spec(name) is None]
    if absent:
        return f"the simulator needs {', '.join(absent)}; freeze predictions elsewhere, with predict --freeze"
    return None


class Session:
    """The cases of one call, what has been measured of them, and where it was written.

    Args:
        ledger: Where predictions come from, and measurements go to.
        measurement: Machine and day.
        show_tables: Print a table for each case.
        wide: Use more than 80 columns for it.
    """

    def __init__(self, ledger: Ledger, measurement: Measurement, *, show_tables: bool, wide: bool) -> None:
        self._ledger = ledger
        self._measurement = measurement
        self._show_tables = show_tables
        self._wide = wide
        self._rows: list[Row] = []
        self._seen: list[MeasuredRow] = []
        self._files: dict[Path, None] = {}

    def run(self, cases: Sequence[Case], benches: Sequence[Bench], *, seconds: float, step_s: float) -> None:
        """Measure cases; each is written down before the next one begins.

        Args:
            cases: What to measure.
            benches: The GPUs.
            seconds: About how long to time a case.
            step_s: A step that takes longer means that the GPU hangs, and ends the process.

        Raises:
            CliError: 1 if a GPU does not answer any more.
        """
        from wavecast.cli.measuring.gpu import GpuLostError
        from wavecast.cli.measuring.session import measure_case, watchdog

        machine = self._measurement.machine
        with (
            output.progress(sum(len(case.variants) for case in cases) * len(benches)) as steps,
            watchdog(step_s, lambda: self._hangs(step_s)) as still_here,
        ):

            def done(name: str) -> None:
                still_here()
                steps.done(name)

            for case in cases:
                try:
                    found = measure_case(case, benches, machine, seconds=seconds, done=done)
                except GpuLostError as error:
                    raise self._lost(str(error)) from error
                self._took(case.experiment, found, steps)

    def run_together(self, cases: Sequence[Case], gpus: int, *, seconds: float, step_s: float) -> None:
        """Measure cases that need all GPUs at once; arguments and errors as of ``run``."""
        if not cases:
            return
        from wavecast.cli.measuring import ranks
        from wavecast.cli.measuring.gpu import GpuLostError
        from wavecast.cli.measuring.group_session import GroupSession

        with output.progress(sum(len(case.variants) for case in cases)) as steps:
            group = GroupSession(
                ranks.gpu_places(gpus), self._measurement.machine, seconds=seconds, step_s=step_s, done=steps.done
            )
            try:
                for case in cases:
                    self._took(case.experiment, group.measure(case), steps)
            except GpuLostError as error:
                raise self._lost(str(error)) from error
            finally:
                group.close()

    def _took(self, experiment: Experiment, found: CaseResult, steps: output.Steps) -> None:
        """Write a case down, and show it."""
        self._keep(found.rows, found.seen)
        self._rows += [self._beside(row) for row in found.rows]
        self._seen += found.seen
        if self._show_tables:
            with steps.paused():
                self._print(experiment, len(found.seen))

    def count(self, cases: Sequence[Case], *, step_s: float) -> None:
        """Count what the variants do that were timed, and write it down.

        Args:
            cases: What was measured.
            step_s: How long the profiler may take for a variant.

        Raises:
            CliError: There is no profiler, it may not read counters, or what it wrote cannot be read.
        """
        from wavecast.cli.measuring.counting import count

        timed = {
            number: [row.variant for row in self._of(case) if row.cold_us is not None]
            for number, case in enumerate(cases)
        }
        machine = self._measurement.machine
        output.print_message("counting: the same calls once more, under the profiler")
        found = count(cases, timed, machine, seconds=step_s * max(1, sum(map(len, timed.values()))))
        for number, case in enumerate(cases):
            mine = {row.variant: row for row in self._of(case)}
            counted = {
                variant: replace(row, kernels=found[number, variant])
                for variant, row in mine.items()
                if (number, variant) in found
            }
            if counted:
                self._seen = [
                    next((new for variant, new in counted.items() if mine[variant] is row), row) for row in self._seen
                ]
                self._keep_counters(list(counted.values()))

    def _beside(self, row: Row) -> Row:
        """A measured row with what was predicted of it."""
        from wavecast.cli.measurement import row_key
        from wavecast.cli.records import with_time

        predicted = self._ledger.predicted(row_key(row))
        return row if predicted is None else with_time(predicted, row)

    def _keep(self, rows: Sequence[Row], seen: Sequence[MeasuredRow]) -> None:
        self._files.update(dict.fromkeys(self._ledger.add(rows, seen, self._measurement)))

    def _of(self, case: Case) -> list[MeasuredRow]:
        return [
            row for row in self._seen if (row.experiment, dict(row.shape)) == (case.experiment.name, dict(case.shape))
        ]

    def _keep_counters(self, seen: Sequence[MeasuredRow]) -> None:
        from wavecast.cli import tables
        from wavecast.cli.measurement import row_key
        from wavecast.cli.measuring.metrics import summed

        totals = {row_key(row): summed([kernel.counters for kernel in row.kernels]) for row in seen}
        mine = [replace(row, counters=totals[row_key(row)]) for row in self._rows if row_key(row) in totals]
        keys = {row_key(row): row for row in mine}
        self._rows = [keys.get(row_key(row), row) for row in self._rows]
        self._keep(mine, seen)
        if self._show_tables:
            predicted = [self._ledger.predicted_counters(row_key(row)) for row in seen]
            tables.print_counters(seen, [one for one in predicted if one is not None], wide=self._wide)

    def finish(self) -> None:
        """Say where the records are, and what could not be measured.

        Raises:
            CliError: 1 if a variant was wrong or failed.
        """
        for path in self._files:
            output.print_message(f"wrote {path}")
        untimed = [row for row in self._seen if row.cold_us is None and not row.check.startswith("refused: ")]
        for row in untimed[:-1]:
            output.print_error(_failure(row), "")
        if untimed:
            hint = "a wrong result is not timed; the others are in the records"
            raise CliError(_failure(untimed[-1]), hint=hint)

    def document(self) -> dict[str, object]:
        """All that was measured, as one record."""
        from wavecast.cli.records import Record, completed, record_to_json

        empty = Record(date.fromisoformat(self._measurement.date), None, None, ())
        seen = replace(self._measurement, rows=tuple(self._seen))
        return record_to_json(completed(empty, self._rows, seen))

    def _print(self, experiment: Experiment, count: int) -> None:
        from wavecast.cli import tables

        seen = self._seen[-count:]
        rows = self._rows[len(self._rows) - sum(row.cold_us is not None for row in seen) :]
        tables.print_measured(experiment, seen, rows, self._measurement, wide=self._wide)

    def _lost(self, message: str) -> CliError:
        kept = (
            f"measured before and kept: {', '.join(map(str, self._files))}" if self._files else "nothing was measured"
        )
        return CliError(f"{message}; {kept}", hint="see the system's log for the GPU's state; measure the rest again")

    def _hangs(self, seconds: float) -> None:
        error = self._lost(f"a step has taken more than {seconds:g} s: the GPU hangs, or --watchdog is too short")
        output.print_error(str(error), error.hint)
        os._exit(int(ExitCode.FAILED))


def _failure(row: MeasuredRow) -> str:
    sizes = " ".join(f"{key}={value}" for key, value in row.shape.items())
    return f"{row.experiment} {row.variant} {sizes}: {row.check}"


def _costs(measurement: Measurement) -> str:
    event, launch = output.significant(measurement.event_us), output.significant(measurement.launch_us)
    return f"between two events: nothing {event} µs, an empty kernel {launch} µs"

"""``predict``: the time of the catalogue's experiments and of users' kernels, from the code that a GPU would run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavecast.cli import launch_options, output
from wavecast.cli.errors import CliError, misuse
from wavecast.cli.findings import failure_of, print_findings
from wavecast.cli.kernel_file import Launch, existing_file, is_kernel_file

if TYPE_CHECKING:
    from wavecast.cli.measurement import RowCounters
    from wavecast.cli.prediction import Case, Outcome
    from wavecast.cli.rows import Document, Row

CATALOGUE_SCHEMA = "wavecast.catalogue/1"


def predict(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help="Names of the catalogue, or one file with a kernel (.hip, .s, .hsaco, …)."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole catalogue; takes some minutes.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the catalogue and stop.")] = False,
    device: Annotated[
        str | None,
        typer.Option(help="mi300x, mi325x, mi355x, mi300a, h200, or a device file; default: the experiment's."),
    ] = None,
    variant: Annotated[list[str] | None, typer.Option(help="Only this one and the baseline; may be repeated.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Sizes to change: tokens=4096,n=2048; may be repeated.")
    ] = None,
    holdout: Annotated[
        int | None, typer.Option(metavar="SEED", help="Kernels and shapes drawn with a seed, instead of chosen ones.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many --holdout draws.")] = 16,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a processor.")] = None,
    freeze: Annotated[Path | None, typer.Option(help="Write a record a measurement can complete, to DIR.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write pictures, each with its data, to DIR.")] = None,
    sensitivity: Annotated[bool, typer.Option("--sensitivity", help="Say which constants decide.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.predict/1 on stdout.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns; adds bytes and registers.")] = False,
    kernel: Annotated[str | None, typer.Option(help="Kernel of the file; may be left out if it has one.")] = None,
    grid: launch_options.Grid = None,
    block: launch_options.Block = None,
    arg: launch_options.Arguments = None,
    lds_bytes: launch_options.LdsBytes = 0,
    position: launch_options.Position = "first",
    warm: launch_options.Warm = False,
    check: Annotated[
        bool, typer.Option("--check", help="Look for faults in the file's kernel: races, stray reads, … (exit 1).")
    ] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Execute every workgroup, not a sample of them.")] = False,
    include: launch_options.Include = None,
    define: launch_options.Define = None,
    compile_option: launch_options.CompileOption = None,
) -> None:
    """Predict how long kernels take, and why, by executing their code objects without a GPU."""
    from wavecast.cli import plots, records, tables
    from wavecast.cli.doctor import package_version
    from wavecast.cli.rows import CLEAN, document_to_json

    targets = experiments or []
    launch = Launch(
        kernel,
        grid,
        block,
        arg or (),
        lds_bytes,
        position,
        warm,
        whole,
        include or (),
        define or (),
        compile_option or (),
        check,
    )
    if any(map(is_kernel_file, targets)):
        if len(targets) > 1 or everything or listing or variant or shape or freeze or holdout is not None:
            raise misuse(
                f"{next(filter(is_kernel_file, targets))} is a file",
                hint="name one file alone; --all, --list, --variant, --shape and --freeze are for experiments",
            )
        show = None if json else partial(tables.print_outcome, wide=wide, sensitivity=sensitivity)
        _predict_file(targets[0], launch, device=device, plot=plot, sensitivity=sensitivity, show=show)
        return
    if check:
        raise misuse(
            "--check, and no file to check a kernel of",
            hint="experiments execute a sample of their workgroups, and checks look at all: "
            "predict path/to/kernel.hip --check --whole …, or run SCRIPT.py --check",
        )
    if launch != Launch():
        raise misuse(
            "an option that describes a launch, and no file to launch a kernel of",
            hint="predict path/to/kernel.hip --kernel NAME --grid … --block … --arg …",
        )
    if listing and plot is not None:
        raise misuse("nothing to plot: --list predicts nothing", hint="leave one of --list and --plot out")
    if listing:
        _list_catalogue(json=json, wide=wide)
        return
    if everything and experiments:
        raise misuse(f"--all and {' '.join(experiments)}", hint="name experiments, or take all")
    if holdout is None:
        chosen = _cases(
            experiments or [], everything=everything, device=device, variants=variant or [], shapes=shape or []
        )
        # What is frozen waits for `measure`, which reads to clear the caches.
        cases = chosen if freeze is None else [replace(case, caches=CLEAN) for case in chosen]
    else:
        cases = drawn_cases(holdout, count=count, device=device, chosen=bool(targets or everything or variant or shape))
    if freeze is not None:
        names = [(case.experiment.name, case.device) for case in cases]
        records.check_place(freeze, predicted=names, triton=package_version("triton"), holdout=holdout)
    if plot is not None:
        plots.check_place(plot)
    show = None if json else partial(tables.print_outcome, wide=wide, sensitivity=sensitivity)
    outcomes, failures = _predict_all(cases, jobs=jobs or os.cpu_count() or 1, show=show)
    rows = tuple(row for outcome in outcomes for row in outcome.rows)
    if json:
        output.print_json(document_to_json(_document(outcomes, sensitivity=sensitivity)))
    if plot is not None:
        _say_written(plots.write(cases, outcomes, directory=plot), plot)
    if freeze is not None:
        # The draws of a hold-out do not belong together: one that fails takes no other with it.
        kept = _complete(rows, cases) if holdout is None else list(rows)
        counters = predicted_counters(outcomes)
        for path in records.freeze(kept, directory=freeze, counters=counters, holdout=holdout):
            output.print_message(f"wrote {path}")
    for error in failures[:-1]:
        output.print_error(str(error), error.hint)
    if failures:
        raise failures[-1]


def _predict_file(
    target: str,
    launch: Launch,
    *,
    device: str | None,
    plot: Path | None,
    sensitivity: bool,
    show: Callable[[Outcome], None] | None,
) -> None:
    from wavecast.cli import plots
    from wavecast.cli.kernel_file import predict_file
    from wavecast.cli.prediction import Outcome
    from wavecast.cli.rows import document_to_json

    path = existing_file(target)
    if plot is not None:
        plots.check_place(plot)
    row, prediction = predict_file(path, launch, device=device)
    outcome = Outcome((row,), (), (prediction,))
    if show is None:
        output.print_json(document_to_json(_document([outcome], sensitivity=sensitivity)))
    else:
        show(outcome)
    if plot is not None:
        files = plots.write_rows(
            outcome.rows, outcome.predictions, device=device or outcome.rows[0].device, directory=plot
        )
        _say_written(files, plot)
    if launch.check:
        print_findings(prediction.findings)
        if failed := failure_of(prediction.findings):
            raise CliError(failed, hint="each is listed above, with its line and what to do")


def _say_written(files: Sequence[Path], directory: Path) -> None:
    traces = "; *.trace.json for Perfetto" if any(path.name.endswith(".trace.json") for path in files) else ""
    output.print_message(f"wrote {len(files)} files to {directory}: every picture as PNG, SVG and CSV{traces}")


def _list_catalogue(*, json: bool, wide: bool) -> None:
    from wavecast.cli import tables
    from wavecast.cli.experiments.catalogue import EXPERIMENTS

    if not json:
        tables.print_catalogue(list(EXPERIMENTS.values()), wide=wide)
        return
    entries = [
        {
            "name": item.name,
            "summary": item.summary,
            "by_default": item.by_default,
            "device": item.device,
            "variants": list(item.variants),
            "shapes": [dict(shape) for shape in item.shapes],
        }
        for item in EXPERIMENTS.values()
    ]
    output.print_json({"schema": CATALOGUE_SCHEMA, "experiments": entries})


def _cases(
    names: list[str], *, everything: bool, device: str | None, variants: list[str], shapes: list[str]
) -> list[Case]:
    """Everything that can be wrong with the arguments is found here, before anything runs."""
    from wavecast.cli import simulate
    from wavecast.cli.experiments.catalogue import choose_shapes, choose_variants, find_experiments
    from wavecast.cli.prediction import Case

    chosen = find_experiments(names, everything=everything)
    if device is not None:
        simulate.check_device(device)
    return [
        Case(experiment, item, device or experiment.device, choose_variants(experiment, variants))
        for experiment in chosen
        for item in choose_shapes(experiment, shapes)
    ]


def drawn_cases(seed: int, *, count: int, device: str | None, chosen: bool) -> list[Case]:
    """The cases of a hold-out.

    Args:
        seed: Of the draw.
        count: How many.
        device: Name of the device.
        chosen: Whether experiments, variants or shapes were named as well.

    Raises:
        CliError: 2 if they were, or no device is named.
    """
    from wavecast.cli import simulate
    from wavecast.cli.holdout import draw

    if chosen:
        raise misuse("a hold-out is drawn, and something was chosen as well", hint="--holdout SEED, and no names")
    if device is None:
        raise misuse("--holdout draws for one device, and none is named", hint="--device mi300x")
    return draw(seed, count=count, device=simulate.check_device(device))


def _document(outcomes: Sequence[Outcome], *, sensitivity: bool) -> Document:
    from wavecast.cli.rows import PREDICT_SCHEMA, Document, RowSensitivity, RowTuning

    found = [pair for outcome in outcomes for pair in zip(outcome.rows, outcome.predictions, strict=True)]
    constants = tuple(RowSensitivity.of(row, prediction.sensitivity) for row, prediction in found)
    tunings = tuple(RowTuning.of(row, prediction.tunings) for row, prediction in found if prediction.tunings)
    return Document(
        schema=PREDICT_SCHEMA,
        rows=tuple(row for row, _ in found),
        sensitivity=constants if sensitivity else None,
        tuning=tunings or None,
    )


def _complete(rows: Sequence[Row], cases: Sequence[Case]) -> list[Row]:
    """Rows of the experiments of which nothing failed: a record is not changed later, so none is written in part."""
    missing = Counter(case.experiment.name for case in cases for _ in case.variants)
    missing.subtract(row.experiment for row in rows)
    return [row for row in rows if not missing[row.experiment]]


def predicted_counters(outcomes: Sequence[Outcome]) -> list[RowCounters]:
    """What counters are predicted to show, launch by launch."""
    from wavecast.cli.measurement import KernelCounters, RowCounters

    return [
        RowCounters(
            row.experiment,
            row.variant,
            row.device,
            dict(row.shape),
            tuple(KernelCounters(launch.kernel, launch.counters) for launch in prediction.launches),
        )
        for outcome in outcomes
        for row, prediction in zip(outcome.rows, outcome.predictions, strict=True)
        if prediction.launches
    ]


def _predict_all(
    cases: Sequence[Case], *, jobs: int, show: Callable[[Outcome], None] | None
) -> tuple[list[Outcome], list[CliError]]:
    """Predict every case, in their order; one that fails does not keep the others from being answered.

    Args:
        cases: What to predict.
        jobs: Processes to spread them over.
        show: Called with the outcome of each case as soon as it is known, if it has rows.
    """
    from wavecast.cli.prediction import predict_cases

    outcomes: list[Outcome] = []
    errors: dict[str, CliError] = {}
    with output.progress(sum(len(case.variants) for case in cases)) as steps:
        for outcome in predict_cases(cases, jobs=jobs, done=steps.done):
            outcomes.append(outcome)
            for error in outcome.errors:
                # One wrong size makes every variant say the same.
                errors.setdefault(str(error), error)
            if show is not None and outcome.rows:
                with steps.paused():
                    show(outcome)
    return outcomes, list(errors.values())

"""From an experiment to its rows: every variant on every shape, under a virtual device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import active_children, get_context

from wavecast.cli import __version__, schedules, simulate
from wavecast.cli.errors import CliError
from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.operators import last_path, result_dtype
from wavecast.cli.processes import end_with_parent
from wavecast.cli.rows import KernelRow, Row, error_percent


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment on one shape and device: what one table shows.

    Attributes:
        experiment: The experiment.
        shape: The shape.
        device: The device.
        variants: The variants to run, the baseline first.
        caches: What the caches hold before the call, as ``Row.caches`` says; None for what they held where times for
            this device were published.
    """

    experiment: Experiment
    shape: Shape
    device: str
    variants: tuple[str, ...]
    caches: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        rows: One row for each variant that could be predicted, with speedups over the baseline.
        errors: One for each that could not.
        predictions: What each row was made from.
    """

    rows: tuple[Row, ...]
    errors: tuple[CliError, ...]
    predictions: tuple[simulate.Prediction, ...] = ()


def predict_cases(
    cases: Sequence[Case], *, jobs: int, done: Callable[[str], None], apart: bool = False
) -> Iterator[Outcome]:
    """Predict all variants of all cases; the outcomes come in the order of the cases.

    Args:
        cases: What to predict.
        jobs: Processes to spread the variants over; 1 stays in this one.
        apart: Never predict in this process: it has a GPU whose driver is active.
        done: Called with a name whenever a variant is through, perhaps from another thread.
    """
    tasks = [(case, variant) for case in cases for variant in case.variants]
    with _executor(min(jobs, len(tasks)), apart=apart) as submit:
        # Whole grids take longest: were they submitted last, the other processes would stand idle beside them.
        order = sorted(range(len(tasks)), key=lambda number: not tasks[number][0].experiment.whole)
        submitted = {number: submit(*tasks[number]) for number in order}
        futures = [submitted[number] for number in range(len(tasks))]
        for (case, variant), future in zip(tasks, futures, strict=True):
            future.add_done_callback(partial(_report, done, f"{case.experiment.name} {variant}"))
        results = iter(futures)
        for case in cases:
            answers = [_result(next(results)) for _ in case.variants]
            found = [answer for answer in answers if not isinstance(answer, CliError)]
            rows = tuple(with_speedups([row for row, _ in found]))
            errors = tuple(answer for answer in answers if isinstance(answer, CliError))
            yield Outcome(rows, errors, tuple(prediction for _, prediction in found))


Answer = tuple[Row, simulate.Prediction] | CliError


@contextmanager
def _executor(jobs: int, *, apart: bool = False) -> Iterator[Callable[[Case, str], Future[Answer]]]:
    """A function that predicts one variant, now or in another process."""
    if jobs <= 1 and not apart:
        yield _predict_now
        return
    # Fresh processes: a fork would inherit the progress bar's thread and what the compilers hold.
    others = set(active_children())
    with ProcessPoolExecutor(max(jobs, 1), mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        try:
            yield lambda case, variant: pool.submit(_answer, case, variant)
        except BaseException:
            # Nobody waits for the answers any more, and a variant may take many seconds.
            for process in set(active_children()) - others:
                process.terminate()
            raise


def _result(future: Future[Answer]) -> Answer:
    try:
        return future.result()
    except BrokenProcessPool as error:
        hint = "the machine may be short of memory: take fewer processes, --jobs 1"
        raise CliError("a process that predicts ended before it answered", hint=hint) from error


def _report(done: Callable[[str], None], name: str, _: Future[Answer]) -> None:
    done(name)


def _predict_now(case: Case, variant: str) -> Future[Answer]:
    future: Future[Answer] = Future()
    future.set_result(_answer(case, variant))
    return future


def _answer(case: Case, variant: str) -> Answer:
    try:
        return predict_variant(case, variant)
    except CliError as error:
        return error


def predict_variant(case: Case, variant: str) -> tuple[Row, simulate.Prediction]:
    """Predict one variant: its row, whose speedups are still unknown, and what it is made from."""
    experiment, shape = case.experiment, case.shape
    if experiment.schedule is not None:
        return schedules.predict_schedule(experiment, variant, shape=shape, device=case.device)
    operands = experiment.operands(variant)
    device = simulate.device_name(case.device)
    caches = case.caches or experiment.caches_on(device)
    with simulate.translated_errors():
        inputs = operands.make_inputs(shape)
        results: list[object] = []
        run = partial(_run_into, results, experiment, variant, inputs)
        works = experiment.works(variant, shape) if experiment.works else None
        prediction = simulate.predict_run(run, device=case.device, whole=experiment.whole, works=works, caches=caches)
    published = experiment.published_for(variant, shape=shape, device=device)
    published_us = published.time_us if published else None
    kernels = prediction.kernels
    longest = max(kernels, key=lambda kernel: kernel.predicted_us or 0.0, default=None)
    row = Row(
        experiment=experiment.name,
        variant=variant,
        baseline=experiment.baseline,
        device=device,
        arch=prediction.arch,
        shape=dict(shape),
        dtype=f"{operands.dtype} -> {result_dtype(results[-1]) or experiment.dtype}",
        path=last_path(),
        launches=sum(kernel.launches for kernel in kernels),
        kernels=kernels,
        caches=caches,
        predicted_us=prediction.time_us,
        predicted_low_us=prediction.low_us,
        predicted_high_us=prediction.high_us,
        published_us=published_us,
        published_source=published.source if published else None,
        error_percent=error_percent(prediction.time_us, published_us=published_us),
        bound=longest.bound if longest else None,
        cause=_cause(kernels, longest),
        hbm_read_bytes=_total(kernels, "hbm_read_bytes"),
        hbm_write_bytes=_total(kernels, "hbm_write_bytes"),
        minimum_bytes=operands.minimum_bytes(shape),
        coalescing_efficiency=longest.coalescing_efficiency if longest else None,
        fence_release=_total(kernels, "fence_release"),
        fence_acquire=_total(kernels, "fence_acquire"),
        vgpr=_extreme(kernels, "vgpr", max),
        sgpr=_extreme(kernels, "sgpr", max),
        lds_bytes=_extreme(kernels, "lds_bytes", max),
        spill_bytes=_extreme(kernels, "spill_bytes", max),
        waves_per_simd=_extreme(kernels, "waves_per_simd", min),
        wavecast=__version__,
        triton=prediction.triton,
        spec=prediction.spec,
        code_object=",".join(dict.fromkeys(kernel.code_object for kernel in kernels)),
    )
    return row, prediction


def _run_into(results: list[object], experiment: Experiment, variant: str, inputs: tuple[object, ...]) -> None:
    results.append(experiment.run(variant, inputs))


def with_speedups(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows of one case with ``speedup`` and ``speedup_published`` over the row of the baseline."""
    baseline = next((row for row in rows if row.variant == row.baseline), None)
    for row in rows:
        yield replace(
            row,
            speedup=_ratio(baseline.predicted_us if baseline else None, row.predicted_us),
            speedup_published=_ratio(baseline.published_us if baseline else None, row.published_us),
        )


def _cause(kernels: Sequence[KernelRow], longest: KernelRow | None) -> str | None:
    if longest is None or longest.cause is None or len(kernels) == 1:
        return longest.cause if longest else None
    return f"{longest.name}, the longest of {len(kernels)} kernels: {longest.cause}"


def _ratio(before: float | None, after: float | None) -> float | None:
    return before / after if before is not None and after else None


def _known(kernels: Sequence[KernelRow], key: str) -> list[float]:
    return [value for kernel in kernels if (value := getattr(kernel, key)) is not None]


def _total(kernels: Sequence[KernelRow], key: str) -> float | None:
    """Sum over the kernels, None if any of them does not know."""
    values = _known(kernels, key)
    return sum(values) if values and len(values) == len(kernels) else None


def _extreme(kernels: Sequence[KernelRow], key: str, choose: Callable[[list[float]], float]) -> int | None:
    values = _known(kernels, key)
    return int(choose(values)) if values else None

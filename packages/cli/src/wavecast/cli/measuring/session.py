"""Measuring the catalogue: every variant on every shape, checked first, then timed beside the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from wavecast.cli import __version__, simulate
from wavecast.cli.experiments.experiment import Operands
from wavecast.cli.experiments.operators import last_path, result_dtype
from wavecast.cli.measurement import Machine, MeasuredRow, Measurement
from wavecast.cli.measuring import timing
from wavecast.cli.measuring.checking import GEMM_TOLERANCE, Verdict, check_bytes, check_close, flatten, poisoned
from wavecast.cli.measuring.gpu import Bench, reported
from wavecast.cli.measuring.launched import Launched, recorded_launches
from wavecast.cli.measuring.timing import Call, Samples
from wavecast.cli.prediction import Case
from wavecast.cli.rows import KernelRow, Row, error_percent


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of a case on the GPU.

    Attributes:
        rows: One for each variant that was timed.
        seen: One for each variant, timed or not.
    """

    rows: tuple[Row, ...]
    seen: tuple[MeasuredRow, ...]


@dataclass
class _Ready:
    """A variant that came out right.

    Attributes:
        call: Runs it.
        launches: The kernels that one call launches.
        check: What the comparison said.
        dtype: Of input and result.
        path: How the operator was carried out.
    """

    call: Call
    launches: Sequence[Launched]
    check: str
    dtype: str
    path: str | None


@dataclass
class _OnOne:
    """A case on one GPU: variants that are ready, those that are not with the reason, and the times."""

    ready: dict[str, _Ready] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    cold: dict[str, Samples] = field(default_factory=dict)
    warm: dict[str, Samples] = field(default_factory=dict)
    clock_mhz: float | None = None


def measure_case(
    case: Case, benches: Sequence[Bench], machine: Machine, *, seconds: float, done: Callable[[str], None]
) -> CaseResult:
    """Check and time the variants of a case.

    Args:
        case: What to measure.
        benches: The GPUs; each measures all of it, and the slowest counts.
        machine: What they are.
        seconds: About how long the timing of a case may take on a GPU, half of it with cold caches.
        done: Called with a name whenever a variant is through.

    Raises:
        GpuLostError: A GPU does not answer any more.
    """
    found = [_on_one(case, bench, seconds=seconds, done=done) for bench in benches]
    seen = tuple(_seen(case, variant, found) for variant in case.variants)
    rows = tuple(_row(case, one, found[0].ready[one.variant], machine) for one in seen if one.cold_us is not None)
    return CaseResult(rows, seen)


def _on_one(case: Case, bench: Bench, *, seconds: float, done: Callable[[str], None]) -> _OnOne:
    found = _OnOne()
    with bench.current():
        placed: dict[int, tuple[Any, ...]] = {}
        for variant in case.variants:
            with reported(bench) as told:
                operands = case.experiment.operands(variant)
                # Variants with the same operands share them: they may fill half of the memory.
                key = id(operands.make_inputs)
                if key not in placed:
                    placed.clear()
                    placed[key] = bench.place(operands.make_inputs(case.shape))
                _check(case, variant, operands, placed[key], bench, found)
            if told:
                found.failed[variant] = told[0]
            done(f"{case.experiment.name} {variant}")
        calls = {variant: ready.call for variant, ready in found.ready.items()}
        if calls:
            with reported(bench) as told:
                found.cold = timing.interleaved(bench.clock, calls, seconds=seconds / 2)
                found.clock_mhz = bench.clock_mhz()
                found.warm = timing.interleaved(bench.clock, calls, seconds=seconds / 2, warm=True)
            found.failed.update(dict.fromkeys(calls, told[0]) if told else {})
        found.ready = {variant: replace(ready, call=_gone) for variant, ready in found.ready.items()}
        placed.clear()
        bench.free()
    return found


def _gone() -> None:
    """Stands for a call whose tensors have been given back."""


def _check(case: Case, variant: str, operands: Operands, inputs: tuple[Any, ...], bench: Bench, found: _OnOne) -> None:
    def call() -> Any:
        return case.experiment.run(variant, inputs)

    result = poisoned(call)
    path = last_path()
    with bench.reference():
        wanted = flatten(call())
    verdict = compared(result, wanted, product=case.experiment.flop is not None)
    dtype = f"{operands.dtype} -> {result_dtype(result) or case.experiment.dtype}"
    del result, wanted
    if not verdict.right:
        found.failed[variant] = f"wrong: {verdict.text}"
        return
    with recorded_launches() as launches:
        call()
    bench.clock.synchronize()
    found.ready[variant] = _Ready(call, launches, verdict.text, dtype, path)


def compared(result: Any, wanted: Sequence[Any], *, product: bool) -> Verdict:
    """Whether a result is right: a product as near as its sums allow, everything else byte for byte."""
    if product:
        return check_close(result, list(wanted), tolerance=GEMM_TOLERANCE)
    return check_bytes(result, list(wanted))


def _seen(case: Case, variant: str, found: Sequence[_OnOne]) -> MeasuredRow:
    head: dict[str, Any] = {
        "experiment": case.experiment.name,
        "variant": variant,
        "device": simulate.device_name(case.device),
        "shape": dict(case.shape),
    }
    failed = next((one.failed[variant] for one in found if variant in one.failed), None)
    if failed is not None:
        return MeasuredRow(**head, check=failed)
    slowest = max(found, key=lambda one: one.cold[variant].median_us)
    cold = slowest.cold[variant]
    warm = max((one.warm[variant] for one in found), key=lambda samples: samples.median_us)
    ready = found[0].ready[variant]
    return MeasuredRow(
        **head,
        check=ready.check,
        cold_us=cold.median_us,
        cold_low_us=cold.low_us,
        cold_high_us=cold.high_us,
        warm_us=warm.median_us,
        warm_low_us=warm.low_us,
        warm_high_us=warm.high_us,
        host_us=cold.host_us,
        rounds=len(cold.device_us),
        clock_mhz=slowest.clock_mhz,
        gpus_us=tuple(one.cold[variant].median_us for one in found),
        code_object=",".join(dict.fromkeys(launch.code_object for launch in ready.launches)),
    )


def _row(case: Case, seen: MeasuredRow, ready: _Ready, machine: Machine) -> Row:
    """The measured row, without a prediction."""
    experiment, shape = case.experiment, case.shape
    published = experiment.published_for(seen.variant, shape=shape, device=seen.device)
    published_us = published.time_us if published else None
    kernels = kernel_rows(ready.launches)
    return Row(
        experiment=experiment.name,
        variant=seen.variant,
        baseline=experiment.baseline,
        device=seen.device,
        arch=machine.arch,
        shape=dict(shape),
        dtype=ready.dtype,
        path=ready.path,
        launches=len(ready.launches),
        kernels=kernels,
        measured_us=seen.cold_us,
        measured_on=f"{machine.gpu}, {date.today().isoformat()}",
        published_us=published_us,
        published_source=published.source if published else None,
        error_percent=error_percent(None, measured_us=seen.cold_us, published_us=published_us),
        minimum_bytes=experiment.operands(seen.variant).minimum_bytes(shape),
        vgpr=max((kernel.vgpr for kernel in kernels if kernel.vgpr is not None), default=None),
        lds_bytes=max((kernel.lds_bytes for kernel in kernels if kernel.lds_bytes is not None), default=None),
        wavecast=__version__,
        triton=machine.triton,
        code_object=seen.code_object,
    )


def kernel_rows(launches: Sequence[Launched]) -> tuple[KernelRow, ...]:
    """One row for each code object and grid, in the order of the first launch."""
    groups: dict[tuple[str, tuple[int, ...]], list[Launched]] = {}
    for launch in launches:
        groups.setdefault((launch.code_object, launch.grid), []).append(launch)
    return tuple(
        KernelRow(
            name=members[0].name,
            code_object=code,
            launches=len(members),
            grid=grid,
            vgpr=members[0].vgpr,
            lds_bytes=members[0].lds_bytes,
        )
        for (code, grid), members in groups.items()
    )


def overheads(bench: Bench, launch: Call) -> Mapping[str, float]:
    """Median times, caches warm, of nothing between two events (``event``) and of an empty launch (``launch``)."""
    with bench.current():
        launch()  # which compiles it
        samples = timing.interleaved(bench.clock, {"event": _gone, "launch": launch}, seconds=0, warm=True)
    return {name: item.median_us for name, item in samples.items()}


def launch_empty() -> None:
    """Launch a kernel that does nothing."""
    from wavecast.cli.measuring.kernels import empty_kernel

    empty_kernel[(1,)]()


def new_measurement(machine: Machine, bench: Bench, *, launch: Call = launch_empty) -> Measurement:
    """A measurement without rows: machine, day and what a launch costs there."""
    costs = overheads(bench, launch)
    return Measurement(
        date=date.today().isoformat(),
        machine=machine,
        event_us=costs["event"],
        launch_us=costs["launch"],
        flush_bytes=timing.FLUSH_BYTES,
    )


@contextmanager
def watchdog(seconds: float, expired: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call ``expired`` from another thread if the block is not reset for so long: a GPU can hang.

    Args:
        seconds: How long a step may take.
        expired: Says so and ends the process; nothing else can, as the host waits inside the driver.

    Yields:
        A function that starts the time anew.
    """
    again, over = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            if not again.wait(seconds) and not over.is_set():
                expired()
                return
            again.clear()

    def reset() -> None:
        again.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield reset
    finally:
        over.set()
        again.set()

"""Predicts schedules of several GPUs: asks the simulator, and gives plain data of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wavecast.cli import __version__, simulate
from wavecast.cli.errors import CliError
from wavecast.cli.experiments.experiment import Experiment, Schedule, Shape
from wavecast.cli.rows import Effect, Row, error_percent
from wavecast.cli.timeline import Bar, Timeline

if TYPE_CHECKING:
    from wavecast.simulator.devices import Device
    from wavecast.simulator.overlap.outcome import Outcome
    from wavecast.simulator.overlap.prices import Prices
    from wavecast.simulator.overlap.program import KernelLike
    from wavecast.simulator.overlap.verdict import Verdict
    from wavecast.simulator.timing.prediction import Sensitivity

_PRODUCT = "product alone"
_ELSEWHERE = ("link.nic_", "link.ring_plateau", "link.captured_")
"""Constants of what leads out of a node and of graphs, which a schedule here does not use."""


def predict_schedule(
    experiment: Experiment, variant: str, *, shape: Shape, device: str
) -> tuple[Row, simulate.Prediction]:
    """Predict one variant of an experiment that is a schedule: its row, and what it is made from.

    Raises:
        CliError: 1 for what the schedule cannot do on the device, or if it does not end.
    """
    assert experiment.schedule is not None
    with simulate.translated_errors():
        from wavecast.simulator.overlap.prices import Prices

        schedule = experiment.schedule(variant, shape, device)
        prices = Prices(schedule.node)
        outcome = _run(schedule, prices)
        verdict = None if _is_alone(schedule) else _judge(schedule, prices, outcome)
        effects, (low_us, high_us) = _uncertainty(schedule, prices, outcome.total_us)
        others = experiment.alternatives(variant, shape, device) if experiment.alternatives else {}
        ways = {name: _total_us(other) for name, other in others.items()}
    published = experiment.published_for(variant, shape=shape, device=device)
    published_us = published.time_us if published else None
    target = schedule.node.device
    operands = experiment.operands(variant)
    row = Row(
        experiment=experiment.name,
        variant=variant,
        baseline=experiment.baseline,
        device=device,
        arch=target.arch,
        ranks=schedule.node.ranks,
        shape=dict(shape),
        dtype=operands.dtype,
        path="schedule",
        launches=sum(span.kind == "kernel" for span in outcome.spans if span.rank == 0),
        predicted_us=outcome.total_us,
        predicted_low_us=low_us,
        predicted_high_us=high_us,
        published_us=published_us,
        published_source=published.source if published else None,
        error_percent=error_percent(outcome.total_us, published_us=published_us),
        bound=_bound(verdict) if verdict else _bound_alone(schedule),
        cause=verdict.reason + _ways(ways) if verdict else None,
        minimum_bytes=operands.minimum_bytes(shape),
        exposed_us=verdict.exposed_us if verdict else None,
        wavecast=__version__,
        spec=target.digest,
    )
    prediction = simulate.Prediction(
        arch=target.arch,
        spec=target.digest,
        triton=None,
        kernels=(),
        time_us=outcome.total_us,
        low_us=low_us,
        high_us=high_us,
        sensitivity=effects,
        timeline=_timeline(outcome, f"{experiment.name} {variant}"),
    )
    return row, prediction


def _run(schedule: Schedule, prices: Prices) -> Outcome:
    from wavecast.simulator.overlap.remedy import remedies
    from wavecast.simulator.overlap.simulate import simulate as run

    outcome = run(schedule.program, prices.node, prices)
    if outcome.deadlock is not None:
        ways = [entry.description for entry in remedies(schedule.program, prices.node, prices)]
        raise CliError(str(outcome.deadlock), hint="; or ".join(ways) or "no single change of queues or grid helps")
    return outcome


def _total_us(schedule: Schedule) -> float | None:
    """Time of a schedule, None where it does not end."""
    from wavecast.simulator.overlap.prices import Prices
    from wavecast.simulator.overlap.simulate import simulate as run

    outcome = run(schedule.program, schedule.node, Prices(schedule.node))
    return None if outcome.deadlock else outcome.total_us


def _ways(ways: Mapping[str, float | None]) -> str:
    """Other ways of carrying it out, the fastest first."""
    timed = sorted((us, name) for name, us in ways.items() if us is not None)
    stuck = [name for name, us in ways.items() if us is None]
    parts = [f"{name} {us:,.0f} µs" for us, name in timed] + [f"{name} never ends" for name in stuck]
    return "; transports: " + ", ".join(parts) if parts else ""


def _is_alone(schedule: Schedule) -> bool:
    """Whether it is the product or what it is to hide: nothing runs beside it, and nothing is to say of overlap."""
    return schedule.product is None or not schedule.collectives


def _bound_alone(schedule: Schedule) -> str:
    return "transfers" if schedule.product is None else "product"


def _judge(schedule: Schedule, prices: Prices, outcome: Outcome) -> Verdict:
    from wavecast.simulator.overlap.verdict import judge

    assert schedule.product is not None
    collective_us = sum(prices(kernel).alone_us for kernel in schedule.collectives)
    return judge(outcome, schedule.node, whole_us=prices(schedule.product).alone_us, collective_us=collective_us)


def _uncertainty(schedule: Schedule, prices: Prices, point_us: float) -> tuple[tuple[Effect, ...], tuple[float, float]]:
    """What constants of links, and the uncertain times of products, make of the time."""
    from wavecast.simulator.overlap.prices import Prices
    from wavecast.simulator.overlap.simulate import simulate as run
    from wavecast.simulator.timing.prediction import Sensitivity
    from wavecast.simulator.timing.uncertainty import interval, sensitivities

    node, known = schedule.node, prices.products

    def time_us(device: Device) -> float:
        changed = replace(node, device=device)
        return run(schedule.program, changed, Prices(changed, known)).total_us

    def scaled_us(factor: float) -> float:
        longer = {key: replace(time, alone_us=time.alone_us * factor) for key, time in known.items()}
        return run(schedule.program, node, Prices(node, longer)).total_us

    others = []
    if schedule.product is not None:
        low, high = _product_range(schedule.product, node.device)
        others.append(Sensitivity(_PRODUCT, scaled_us(low), scaled_us(high)))
    device = node.device
    keys = tuple(key for key in device.uncertain_links if not key.startswith(_ELSEWHERE))
    moved = sensitivities(time_us, device, point_us=point_us, others=others, keys=keys)
    return tuple(_effect(entry, device) for entry in moved), interval(time_us, device, moved, point_us=point_us)


def _product_range(product: KernelLike, device: Device) -> tuple[float, float]:
    """Lower and upper end of the whole product's time, over the point."""
    from wavecast.simulator.overlap.prices import LIBRARIES, problem_of
    from wavecast.simulator.timing.gemm import predict_gemm

    found = predict_gemm(problem_of(product.shape), device, LIBRARIES[device.arch])
    return found.low_us / found.predicted_us, found.high_us / found.predicted_us


def _effect(entry: Sensitivity, device: Device) -> Effect:
    quantity = device.quantities.get(entry.constant)
    if quantity is None:
        return Effect(
            entry.constant,
            None,
            None,
            None,
            None,
            entry.low_us,
            entry.high_us,
            "model",
            "interval of the product's time",
        )
    return Effect(
        entry.constant, quantity.value, quantity.low, quantity.high, quantity.unit, entry.low_us, entry.high_us,
        str(quantity.kind), "; ".join(quantity.sources),
    )  # fmt: skip


def _bound(verdict: Verdict) -> str:
    """The largest part of the time."""
    parts = {"product": verdict.product_us, "transfers": verdict.moving_us, "launches": verdict.idle_us}
    return max(parts, key=lambda name: parts[name])


def _timeline(outcome: Outcome, name: str) -> Timeline:
    from wavecast.simulator.overlap.trace import trace_events

    bars = tuple(
        Bar(
            span.rank, span.stream, span.queue, span.role, span.name, span.ready_us, span.start_us, span.end_us,
            span.units, span.size_bytes, span.waited_us,
        )
        for span in outcome.spans
    )  # fmt: skip
    slowest = max(outcome.spans, key=lambda span: span.end_us).rank
    return Timeline(bars, outcome.total_us, slowest, json.dumps(trace_events(outcome, name=name)))


def fastest_line(rows: Sequence[Row], say: Callable[[float], str]) -> str | None:
    """One line on which variant to take, None where there is nothing to choose from.

    Args:
        rows: Of one case.
        say: Writes a number.
    """
    timed = [row for row in rows if row.predicted_us is not None]
    baseline = next((row for row in timed if row.variant == row.baseline), None)
    best = min(timed, key=lambda row: row.predicted_us or 0.0, default=None)
    if best is None or baseline is None or len(timed) < 2:
        return None
    if best is baseline:
        return f"best: {best.variant}; overlapping gains nothing here"
    from wavecast.simulator.overlap.verdict import ALIKE

    why = (best.cause or "").partition(";")[0]  # the rest stands in its own line
    if (best.speedup or 1.0) < 1 + ALIKE:
        return f"best: {best.variant}, but no more than {baseline.variant} within what runs differ by: {why}"
    return f"best: {best.variant}, {say(best.speedup or 1.0)} times as fast as {baseline.variant}: {why}"

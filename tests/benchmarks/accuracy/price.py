"""Times of programs from what their launches executed and moved: the fast half, repeated for every set of constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from observe import Observation
from programs import HostCopy, Launch, Program
from scores import Point

from wavecast.simulator.devices import Device
from wavecast.simulator.timing import Bound, Position, TimePrediction, predict_time

Observations = Mapping[tuple[Launch, str], Observation]


@dataclass(frozen=True, slots=True)
class Priced:
    """A program's prediction.

    Attributes:
        program: What was timed.
        point: Measured and predicted time.
        host_us: Part of the prediction that copies from the host take.
        terms: µs by resource, summed over the launches.
        bound: What bounds the launch that takes the most time, all its repetitions together.
        cause: Its sentence.
        ends: Predicted time with a constant at the lower and the upper end of its range, by constant; those that
            change nothing are left out.
    """

    program: Program
    point: Point
    host_us: float
    terms: dict[Bound, float]
    bound: Bound
    cause: str
    ends: Mapping[str, tuple[float, float]]


class Pricer:
    """Prices programs; launches that programs share are priced once for a device."""

    def __init__(self, observations: Observations) -> None:
        self._observations = observations
        self._predictions: dict[tuple[str, str, Position], TimePrediction] = {}

    def __call__(self, program: Program, device: Device) -> Priced:
        """Price a program.

        The first launch meets an idle queue, the others follow; every program ran once before, untimed, so that its
        data are in the memory-side cache as far as they fit. The ends of an interval are sums over the launches, which
        share their constants.
        """
        host_us = sum(step.time_us for step in program.steps if isinstance(step, HostCopy))
        total = low = high = host_us
        terms: dict[Bound, float] = {}
        longest: tuple[float, TimePrediction] | None = None
        moved: dict[str, tuple[float, float]] = {}
        is_first = True
        for step in program.launches:
            counts = {Position.FIRST: 1 if is_first else 0, Position.BACK_TO_BACK: step.times - (1 if is_first else 0)}
            if program.each_alone:
                counts = {Position.FIRST: step.times}
            is_first = False
            step_us = 0.0
            for position, count in counts.items():
                if not count:
                    continue
                prediction = self._predict(program, step.launch, device, position)
                step_us += count * prediction.predicted_us
                low += count * prediction.low_us
                high += count * prediction.high_us
                for bound, value in prediction.terms.items():
                    terms[bound] = terms.get(bound, 0.0) + count * value
                for entry in prediction.sensitivity:
                    down, up = moved.get(entry.constant, (0.0, 0.0))
                    down += count * (entry.low_us - prediction.predicted_us)
                    moved[entry.constant] = (down, up + count * (entry.high_us - prediction.predicted_us))
            total += step_us
            if longest is None or step_us > longest[0]:
                longest = step_us, prediction
        if longest is None:
            raise ValueError(f"{program.dataset}, {program.benchmark} {program.label}: a program without a launch")
        point = Point(program.dataset, program.benchmark, program.label, program.measured_us, total, low, high)
        ends = {constant: (total + down, total + up) for constant, (down, up) in moved.items()}
        return Priced(program, point, host_us, terms, longest[1].bound, longest[1].cause, ends)

    def _predict(self, program: Program, launch: Launch, device: Device, position: Position) -> TimePrediction:
        observation = self._observations[launch, program.dataset]
        key = (observation.key, device.digest, position)
        if key not in self._predictions:
            kernel = observation.execution.kernel
            self._predictions[key] = predict_time(
                kernel, observation.execution, observation.traffic, device, position=position, warm=True
            )
        return self._predictions[key]

"""Times of programs from what their launches executed and moved: the fast half, repeated for every set of constants."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from observe import Store
from programs import HostCopy, Launch, Program

import wavecast.simulator
from wavecast.cli.scores import Point
from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.timing import Bound, Position, predict_time

Keys = Mapping[tuple[Launch, str], str]
Place = tuple[Position, bool]
"""Position in the stream, and whether the launch reads what others wrote just before."""
# Launches that a process prices before it says so.
_CHUNK = 8


@dataclass(frozen=True, slots=True)
class Price:
    """What a prediction says of one launch.

    Attributes:
        us: The time.
        low_us: Lower end of the interval.
        high_us: Upper end.
        terms: µs by resource.
        bound: What bounds it.
        cause: The sentence that says why.
        ends: Times with each constant that matters at the lower and the upper end of its range.
    """

    us: float
    low_us: float
    high_us: float
    terms: dict[Bound, float]
    bound: Bound
    cause: str
    ends: dict[str, tuple[float, float]]


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


@dataclass(frozen=True, slots=True)
class Variant:
    """A device with some constants changed, as text that another process can build it from.

    Attributes:
        device: Name.
        changes: Constants with their values.
    """

    device: str
    changes: tuple[tuple[str, float], ...] = ()

    def build(self) -> Device:
        """The device."""
        return _build(self)


@functools.cache
def _build(variant: Variant) -> Device:
    device = load_device(variant.device)
    for key, value in variant.changes:
        device = device.with_value(key, value)
    return device


class Pricer:
    """Prices programs; a launch that programs share is priced once, and again only when constants or model change.

    Args:
        keys: Of the launches' observations.
        store: Where those are.
    """

    def __init__(self, keys: Keys, store: Store) -> None:
        self._keys, self._store = keys, store
        self._prices: dict[Variant, dict[tuple[str, Place], Price]] = {}

    def price(
        self,
        programs: Sequence[Program],
        variants: Callable[[str], Variant],
        *,
        jobs: int = 1,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Priced]:
        """Price programs.

        Args:
            programs: What was timed.
            variants: From the name of a device to the constants that are meant.
            jobs: Processes.
            progress: Called with how many launches are priced, of how many.
        """
        wanted: dict[Variant, dict[tuple[str, Place], None]] = {}
        for program in programs:
            for launch, place, _ in _counted(program):
                key = (self._keys[launch, program.dataset], place)
                wanted.setdefault(variants(program.dataset), {})[key] = None
        missing = []
        for variant, keys in wanted.items():
            known = self._prices.setdefault(variant, _read(self._file(variant)))
            missing += [(variant, *key) for key in keys if key not in known]
        for done, (task, price) in enumerate(_price_all(self._store.folder, missing, jobs)):
            progress(done, len(missing))
            variant, key, place = task
            self._prices[variant][key, place] = price
        for variant in {task[0] for task in missing}:
            self._file(variant).write_bytes(pickle.dumps(self._prices[variant]))
        return [self._program(program, variants(program.dataset)) for program in programs]

    def _file(self, variant: Variant) -> Path:
        return self._store.folder / f"prices-{variant.build().digest}-{_timing_digest()}.pickle"

    def _program(self, program: Program, variant: Variant) -> Priced:
        """The ends of an interval are sums over the launches, which share their constants."""
        host_us = sum(step.time_us for step in program.steps if isinstance(step, HostCopy))
        total = low = high = host_us
        terms: dict[Bound, float] = {}
        moved: dict[str, tuple[float, float]] = {}
        longest: tuple[float, Price] | None = None
        for launch, place, count in _counted(program):
            price = self._prices[variant][self._keys[launch, program.dataset], place]
            total += count * price.us
            low += count * price.low_us
            high += count * price.high_us
            for bound, value in price.terms.items():
                terms[bound] = terms.get(bound, 0.0) + count * value
            for constant, (at_low, at_high) in price.ends.items():
                down, up = moved.get(constant, (0.0, 0.0))
                moved[constant] = (down + count * (at_low - price.us), up + count * (at_high - price.us))
            if longest is None or count * price.us > longest[0]:
                longest = count * price.us, price
        if longest is None:
            raise ValueError(f"{program.dataset}, {program.benchmark} {program.label}: a program without a launch")
        point = Point(program.dataset, program.benchmark, program.label, program.measured_us, total, low, high)
        ends = {constant: (total + down, total + up) for constant, (down, up) in moved.items()}
        return Priced(program, point, host_us, terms, longest[1].bound, longest[1].cause, ends)


def _counted(program: Program) -> Iterator[tuple[Launch, Place, int]]:
    """Launches with their place and number.

    The first launch meets an idle queue, the others follow, unless each is timed on its own.
    """
    is_first = True
    for step in program.launches:
        if program.each is not None:
            yield step.launch, (program.each, step.reads_fresh), step.times
            continue
        first = int(is_first)
        is_first = False
        if first:
            yield step.launch, (Position.FIRST, step.reads_fresh), first
        if step.times > first:
            yield step.launch, (Position.BACK_TO_BACK, step.reads_fresh), step.times - first


Task = tuple[Variant, str, Place]


def _price_all(folder: Path, tasks: Sequence[Task], jobs: int) -> Iterable[tuple[Task, Price]]:
    price = functools.partial(_price, folder)
    if jobs == 1 or len(tasks) < 2 * _CHUNK:
        yield from ((task, price(task)) for task in tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(tasks, pool.map(price, tasks, chunksize=_CHUNK), strict=True)


def _price(folder: Path, task: Task) -> Price:
    """Every program ran once before, untimed, so that an equal launch came before each."""
    variant, key, (position, reads_fresh) = task
    observation = Store(folder).load(key)
    kernel, execution = observation.execution.kernel, observation.execution
    device = variant.build()
    found = predict_time(
        kernel, execution, observation.traffic, device, position=position, warm=True, fresh=reads_fresh
    )
    ends = {entry.constant: (entry.low_us, entry.high_us) for entry in found.sensitivity}
    return Price(found.predicted_us, found.low_us, found.high_us, dict(found.terms), found.bound, found.cause, ends)


def _read(path: Path) -> dict[tuple[str, Place], Price]:
    return pickle.loads(path.read_bytes()) if path.is_file() else {}


@functools.cache
def _timing_digest() -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted((Path(wavecast.simulator.__path__[0]) / "timing").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]

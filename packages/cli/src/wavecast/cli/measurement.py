"""What a measurement adds to rows: on which machine, how it was timed, and what was seen of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from wavecast.cli.rows import Row
from wavecast.cli.schema import check_types, known_keys


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with GPUs of one kind.

    Attributes:
        gpu: Name of the GPU, as its driver gives it.
        arch: ``gfx942``, ``sm_90``, …
        gpus: How many took part.
        compute_units: Compute units (SMs) of one.
        memory_bytes: Memory of one.
        l2_bytes: Size of its L2 as the driver gives it, of one XCD where there are several.
        driver: Version of the kernel driver.
        runtime: ``rocm 7.2``, ``cuda 13.0``.
        torch: Version of torch.
        triton: Version of Triton.
        python: Version of Python.
    """

    gpu: str
    arch: str
    gpus: int
    compute_units: int
    memory_bytes: int
    l2_bytes: int | None
    driver: str | None
    runtime: str
    torch: str
    triton: str
    python: str

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def text(self) -> str:
        """One line for a person."""
        count = f"{self.gpus} × " if self.gpus > 1 else ""
        return f"{count}{self.gpu} ({self.arch}), torch {self.torch}, Triton {self.triton}"


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """Hardware counters of one launch.

    Attributes:
        kernel: Symbol of the kernel.
        counters: Name to value; names are listed in ``wavecast.cli.measuring.metrics``.
    """

    kernel: str
    counters: Mapping[str, float]

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True)
class RowCounters:
    """What a prediction says that counters would show.

    Attributes:
        experiment: Of the row.
        variant: Of the row.
        device: Of the row.
        shape: Of the row.
        kernels: One entry for each launch, in order.
    """

    experiment: str
    variant: str
    device: str
    shape: Mapping[str, int]
    kernels: tuple[KernelCounters, ...]

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """What was seen of one row.

    Attributes:
        experiment: Of the row.
        variant: Of the row.
        device: Of the row.
        shape: Of the row.
        check: Against the reference: ``exact``, ``12 bytes next`` (one FP8 value off), ``scale rounded``,
            ``error 0.0026`` of a product; or why there is no time: ``wrong: …``, ``refused: …``, ``no memory: …``,
            ``failed: …``.
        cold_us: Median time with cold caches, which is the row's ``measured_us``; of several GPUs, of the slowest.
        cold_low_us: 5th percentile.
        cold_high_us: 95th percentile.
        warm_us: Median time just after the same call; of several GPUs, of the slowest.
        warm_low_us: 5th percentile.
        warm_high_us: 95th percentile.
        host_us: Time that the host takes to enqueue a call.
        rounds: Samples behind each median.
        clock_mhz: Clock of the compute units just after the samples.
        gpus_us: Cold median of each GPU.
        code_object: Content hashes of the kernels that ran, joined by commas in launch order.
        kernels: Counters of each launch, in order; empty where nothing was counted.
    """

    experiment: str
    variant: str
    device: str
    shape: Mapping[str, int]
    check: str
    cold_us: float | None = None
    cold_low_us: float | None = None
    cold_high_us: float | None = None
    warm_us: float | None = None
    warm_low_us: float | None = None
    warm_high_us: float | None = None
    host_us: float | None = None
    rounds: int = 0
    clock_mhz: float | None = None
    gpus_us: tuple[float, ...] = ()
    code_object: str | None = None
    kernels: tuple[KernelCounters, ...] = ()

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def spread(self) -> float | None:
        """95th over 5th percentile of the cold times minus 1; None if it was not timed."""
        if self.cold_low_us is None or self.cold_high_us is None or not self.cold_low_us:
            return None
        return self.cold_high_us / self.cold_low_us - 1.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement of the rows of a record.

    Attributes:
        date: Day of the measurement, ``2026-12-01``.
        machine: Where.
        event_us: Time between two events with nothing between: what every time includes.
        launch_us: Time between two events with an empty kernel between.
        flush_bytes: Bytes read before each cold sample.
        rows: One for each variant that was tried, in the order of the experiment.
    """

    date: str
    machine: Machine
    event_us: float | None
    launch_us: float | None
    flush_bytes: int
    rows: tuple[MeasuredRow, ...] = ()

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def spread(self) -> float | None:
        """Largest relative spread of its rows."""
        return max((row.spread for row in self.rows if row.spread is not None), default=None)


def row_key(row: Row | MeasuredRow | RowCounters) -> tuple[object, ...]:
    """What tells rows of one record apart."""
    return row_key_of(row.experiment, row.variant, row.device, row.shape)


def row_key_of(experiment: str, variant: str, device: str, shape: Mapping[str, int]) -> tuple[object, ...]:
    """The key of a row with these."""
    return experiment, variant, device, tuple(sorted(shape.items()))


def measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    """The measurement as plain JSON data, keys in the order of the fields."""
    return _plain(measurement)


def measurement_from_json(data: Any) -> Measurement:
    """Read a measurement back.

    Raises:
        RowError: If a key is missing or unknown, or a value has the wrong type.
    """
    values = known_keys(Measurement, data)
    machine = Machine(**known_keys(Machine, values["machine"]))
    rows = tuple(_row_from_json(row) for row in values["rows"])
    return Measurement(**{**values, "machine": machine, "rows": rows})


def _row_from_json(data: Any) -> MeasuredRow:
    values = known_keys(MeasuredRow, data)
    return MeasuredRow(**{**values, "gpus_us": tuple(values["gpus_us"]), "kernels": _kernels(values["kernels"])})


def row_counters_to_json(counters: RowCounters) -> dict[str, Any]:
    """Predicted counters as plain JSON data."""
    return _plain(counters)


def row_counters_from_json(data: Any) -> RowCounters:
    """Read predicted counters back; errors as of ``measurement_from_json``."""
    values = known_keys(RowCounters, data)
    return RowCounters(**{**values, "kernels": _kernels(values["kernels"])})


def _kernels(data: Any) -> tuple[KernelCounters, ...]:
    return tuple(KernelCounters(**known_keys(KernelCounters, item)) for item in data)


def _plain(value: Any) -> Any:
    if isinstance(value, Measurement | Machine | MeasuredRow | RowCounters | KernelCounters):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value

"""The row that every verb speaks: one variant of one experiment on one shape, all its kernels together.

Times are in microseconds, sizes in bytes; what is not known is None (``null`` in JSON). The keys and their order are
those of ``docs/reference/rows.md``; ``predict --json`` prints a ``Document`` of schema ``wavecast.predict/1``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from wavecast.cli.schema import RowError, check_types, known_keys

PREDICT_SCHEMA = "wavecast.predict/1"

CLEAN, DIRTY = "clean", "dirty"
"""What the caches hold before a call: nothing of it, and either nothing that still has to be written to memory, or
nothing else."""


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel of a row, summed over the launches that ran the same code object on the same grid.

    Attributes:
        name: Symbol of the kernel.
        code_object: Content hash of its assembly text.
        launches: How often it was launched.
        grid: Workgroups in x, y, z.
        predicted_us: Time of all its launches; those of all kernels add up to the time of the row.
        predicted_low_us: Lower end of the interval.
        predicted_high_us: Upper end of the interval.
        bound: What limits it: ``hbm``, ``l2-requests``, ``latency``, …
        cause: One sentence that says why.
        hbm_read_bytes: Bytes read from HBM.
        hbm_write_bytes: Bytes written to HBM.
        coalescing_efficiency: Bytes asked for over bytes moved between L1 and L2, in (0, 1].
        fence_release: ``buffer_wbl2`` instructions executed, over all waves.
        fence_acquire: ``buffer_inv`` instructions executed, over all waves.
        vgpr: Vector registers a wave is allocated, accumulation registers included.
        sgpr: Scalar registers a wave.
        lds_bytes: LDS bytes a workgroup.
        spill_bytes: Private bytes a lane.
        waves_per_simd: Waves that fit a SIMD at once.
    """

    name: str
    code_object: str
    launches: int
    grid: tuple[int, ...]
    predicted_us: float | None = None
    predicted_low_us: float | None = None
    predicted_high_us: float | None = None
    bound: str | None = None
    cause: str | None = None
    hbm_read_bytes: float | None = None
    hbm_write_bytes: float | None = None
    coalescing_efficiency: float | None = None
    fence_release: float | None = None
    fence_acquire: float | None = None
    vgpr: int | None = None
    sgpr: int | None = None
    lds_bytes: int | None = None
    spill_bytes: int | None = None
    waves_per_simd: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        _check_interval(self.predicted_low_us, self.predicted_us, self.predicted_high_us, where=self.name)


@dataclass(frozen=True, slots=True)
class Row:
    """One variant on one shape.

    Attributes:
        experiment: Name in the catalogue; of a kernel file, its name.
        variant: Name in the experiment; of a kernel file, the kernel's.
        baseline: The variant that ``speedup`` compares with.
        device: ``mi300x``, …
        arch: ``gfx942``, ``gfx950``.
        ranks: GPUs taking part.
        recipe: Training recipe, for training steps.
        shape: Sizes by name, ``{"tokens": 32768, "n": 2048, "groups": 32}``.
        dtype: Element type of the input and of the result, ``bf16 -> e4m3fnuz``.
        path: What ran: ``triton``, ``hip``, ``reference``; of a kernel file ``hip``, ``assembly``, ``code-object``;
            ``schedule`` of several GPUs' streams.
        launches: Kernel launches.
        kernels: The kernels, in launch order.
        caches: What the caches hold before the call: nothing of it, and nothing that waits to be written to memory
            (``clean``, as ``measure`` leaves them), or as much of that as they take (``dirty``, as
            ``triton.testing.do_bench`` leaves them). A published time's way of measuring is that of its whole table.
        predicted_us: Predicted time of all kernels in one stream.
        predicted_low_us: Lower end of the interval that the uncertain constants give.
        predicted_high_us: Upper end of it.
        measured_us: Measured time.
        measured_on: Machine and date of the measurement.
        published_us: Published time for this variant, shape and device.
        published_source: Where it was published.
        error_percent: 100 · (predicted / reference − 1); the reference is measured, if not published.
        speedup: Predicted time of the baseline over the predicted time.
        speedup_published: The same from the published times.
        bound: What limits the kernel that takes the most time.
        cause: One sentence that says why, of the kernel that takes the most time.
        hbm_read_bytes: Bytes read from HBM by all kernels.
        hbm_write_bytes: Bytes written to HBM by all kernels.
        minimum_bytes: Bytes that any implementation must move: inputs once, outputs once.
        coalescing_efficiency: Bytes asked for over bytes moved between L1 and L2, of the longest kernel.
        fence_release: ``buffer_wbl2`` instructions executed by all kernels.
        fence_acquire: ``buffer_inv`` instructions executed by all kernels.
        vgpr: Vector registers a wave, the largest of the kernels.
        sgpr: Scalar registers a wave, the largest of the kernels.
        lds_bytes: LDS bytes a workgroup, the largest of the kernels.
        spill_bytes: Private bytes a lane, the largest of the kernels.
        waves_per_simd: Waves that fit a SIMD, the smallest of the kernels.
        exposed_us: Of a schedule: time in which no product runs on the GPU that ends last.
        tokens_per_s: Training throughput.
        memory_bytes: Peak memory of a rank.
        counters: Hardware counters by name.
        wavecast: Version of Wavecast.
        triton: Version of Triton that compiled the kernels; null if another compiler did.
        spec: Identity of the device specification.
        code_object: Content hashes of the kernels, joined by commas in launch order.
    """

    experiment: str
    variant: str
    baseline: str
    device: str
    arch: str
    ranks: int = 1
    recipe: str | None = None
    shape: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None
    path: str | None = None
    launches: int | None = None
    kernels: tuple[KernelRow, ...] = ()
    caches: str | None = None
    predicted_us: float | None = None
    predicted_low_us: float | None = None
    predicted_high_us: float | None = None
    measured_us: float | None = None
    measured_on: str | None = None
    published_us: float | None = None
    published_source: str | None = None
    error_percent: float | None = None
    speedup: float | None = None
    speedup_published: float | None = None
    bound: str | None = None
    cause: str | None = None
    hbm_read_bytes: float | None = None
    hbm_write_bytes: float | None = None
    minimum_bytes: int | None = None
    coalescing_efficiency: float | None = None
    fence_release: float | None = None
    fence_acquire: float | None = None
    vgpr: int | None = None
    sgpr: int | None = None
    lds_bytes: int | None = None
    spill_bytes: int | None = None
    waves_per_simd: int | None = None
    exposed_us: float | None = None
    tokens_per_s: float | None = None
    memory_bytes: int | None = None
    counters: Mapping[str, float] | None = None
    wavecast: str | None = None
    triton: str | None = None
    spec: str | None = None
    code_object: str | None = None

    def __post_init__(self) -> None:
        check_types(self)
        where = f"{self.experiment}/{self.variant}"
        _check_interval(self.predicted_low_us, self.predicted_us, self.predicted_high_us, where=where)
        expected = error_percent(self.predicted_us, measured_us=self.measured_us, published_us=self.published_us)
        if (expected is None) != (self.error_percent is None) or not math.isclose(
            expected or 0.0, self.error_percent or 0.0, rel_tol=1e-9, abs_tol=1e-9
        ):
            raise RowError(f"{where}: error_percent is {self.error_percent}, but the times give {expected}")
        if self.published_us is not None and not self.published_source:
            raise RowError(f"{where}: published_us = {self.published_us} has no published_source")


@dataclass(frozen=True, slots=True)
class Effect:
    """What one uncertain constant makes of a predicted time; every other constant keeps its value.

    Attributes:
        constant: ``section.name`` in the device file, or ``sampling`` where only some workgroups were executed.
        value: The number that the prediction uses.
        low: Lower end of its range.
        high: Upper end of its range.
        unit: Its unit.
        low_us: Time with the constant at its lower end.
        high_us: Time with it at its upper end.
        kind: ``measured``, ``derived``, ``fitted`` or ``sampling``.
        source: Where the constant and its range are from.
    """

    constant: str
    value: float | None
    low: float | None
    high: float | None
    unit: str | None
    low_us: float
    high_us: float
    kind: str
    source: str

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True)
class RowEntry:
    """What an entry beside the rows belongs to.

    Attributes:
        experiment: Of the row.
        variant: Of the row.
        device: Of the row.
        shape: Of the row.
        predicted_us: Of the row.
    """

    experiment: str
    variant: str
    device: str
    shape: Mapping[str, int]
    predicted_us: float | None

    def __post_init__(self) -> None:
        check_types(self)


def _owner(row: Row) -> tuple[str, str, str, Mapping[str, int], float | None]:
    """The fields of ``RowEntry``."""
    return row.experiment, row.variant, row.device, dict(row.shape), row.predicted_us


@dataclass(frozen=True, slots=True)
class RowSensitivity(RowEntry):
    """The constants that decide one row.

    Attributes:
        constants: The constants, the one that moves the time most first; those that do not move it are left out.
    """

    constants: tuple[Effect, ...]

    @classmethod
    def of(cls, row: Row, constants: tuple[Effect, ...]) -> RowSensitivity:
        """The entry of a row."""
        return cls(*_owner(row), constants)


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the configuration of one kernel was chosen.

    Attributes:
        kernel: Symbol of the kernel.
        configurations: Configurations that there were to choose from.
        programs: Different programs that they compile to.
        ruled_out: Configuration to what rules it out.
        best: The one that is predicted to be fastest.
        default: The one that is taken without tuning.
        alike: Those that a benchmark would not tell from the best, which is among them.
        default_ratio: Time with the default over that with the best; null if the default is ruled out.
        default_ratio_low: Lower end of its interval, from what the two do not have in common.
        default_ratio_high: Upper end of it.
        compile_s: Seconds that compiling took, all configurations that it is noted of, on the machine that did it.
        compiled: Configurations that were compiled.
        compile_noted: Those of them whose compilation's time was noted.
    """

    kernel: str
    configurations: int
    programs: int
    ruled_out: Mapping[str, str]
    best: str
    default: str
    alike: tuple[str, ...]
    default_ratio: float | None
    default_ratio_low: float | None
    default_ratio_high: float | None
    compile_s: float
    compiled: int
    compile_noted: int

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True)
class RowTuning(RowEntry):
    """How the configurations of one row's kernels were chosen.

    Attributes:
        kernels: The kernels that were tuned, in launch order.
    """

    kernels: tuple[Tuning, ...]

    @classmethod
    def of(cls, row: Row, kernels: tuple[Tuning, ...]) -> RowTuning:
        """The entry of a row."""
        return cls(*_owner(row), kernels)


@dataclass(frozen=True, slots=True)
class Document:
    """Rows with the name of their schema.

    Attributes:
        schema: ``wavecast.predict/1``.
        rows: The rows.
        sensitivity: One entry a row, in their order; None where nobody asked.
        tuning: One entry for each row whose kernels were tuned, in their order; None if none was.
    """

    schema: str
    rows: tuple[Row, ...]
    sensitivity: tuple[RowSensitivity, ...] | None = None
    tuning: tuple[RowTuning, ...] | None = None

    def __post_init__(self) -> None:
        if self.schema != PREDICT_SCHEMA:
            raise RowError(f"schema {self.schema!r} is not known; this version reads {PREDICT_SCHEMA!r}")
        if self.sensitivity is not None and [_identity(row) for row in self.rows] != [
            _identity(entry) for entry in self.sensitivity
        ]:
            raise RowError("sensitivity has not one entry for each row, in the order of the rows")
        known = [_identity(row) for row in self.rows]
        if any(_identity(entry) not in known for entry in self.tuning or ()):
            raise RowError("tuning has an entry for a row that is not there")


def error_percent(
    predicted_us: float | None, *, measured_us: float | None = None, published_us: float | None = None
) -> float | None:
    """100 · (predicted / reference − 1), where the reference is the measured time, if there is none the published."""
    reference_us = measured_us if measured_us is not None else published_us
    if predicted_us is None or reference_us is None:
        return None
    return 100.0 * (predicted_us / reference_us - 1.0)


def document_to_json(document: Document) -> dict[str, Any]:
    """The document as plain JSON data, keys in the order of the fields; the optional ones only where they are known."""
    data: dict[str, Any] = {"schema": document.schema, "rows": [row_to_json(row) for row in document.rows]}
    optional = {"sensitivity": document.sensitivity, "tuning": document.tuning}
    return {**data, **{name: _to_json(entries) for name, entries in optional.items() if entries is not None}}


def row_to_json(row: Row) -> dict[str, Any]:
    """One row as plain JSON data."""
    return {item.name: _to_json(getattr(row, item.name)) for item in fields(row)}


def kernel_row_to_json(kernel: KernelRow) -> dict[str, Any]:
    """One kernel as plain JSON data."""
    data = _to_json(kernel)
    assert isinstance(data, dict)
    return data


def document_from_json(data: Any) -> Document:
    """Read a document back.

    Raises:
        RowError: If the schema is not known, a key is missing or unknown, or a value has the wrong type.
    """
    if not isinstance(data, dict) or set(data) - {"sensitivity", "tuning"} != {"schema", "rows"}:
        raise RowError('a document is {"schema": …, "rows": […]}, and perhaps "sensitivity": […] and "tuning": […]')
    lists = {name: content for name, content in data.items() if name != "schema"}
    if any(not isinstance(content, list) for content in lists.values()):
        raise RowError(f"{' and '.join(lists)} must be lists")
    entries, tunings = lists.get("sensitivity"), lists.get("tuning")
    return Document(
        schema=data["schema"],
        rows=tuple(_row_from_json(row) for row in lists["rows"]),
        sensitivity=None if entries is None else tuple(_sensitivity_from_json(entry) for entry in entries),
        tuning=None if tunings is None else tuple(_tuning_from_json(entry) for entry in tunings),
    )


def _to_json(value: Any) -> Any:
    if isinstance(value, KernelRow | RowSensitivity | Effect | RowTuning | Tuning):
        return {item.name: _to_json(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return value


def _row_from_json(data: Any) -> Row:
    # Rows that are older than the key do not have it.
    values = known_keys(Row, {"caches": None, **data} if isinstance(data, dict) else data)
    kernels = tuple(
        KernelRow(**{**kernel, "grid": tuple(kernel["grid"])})
        for kernel in (known_keys(KernelRow, item) for item in values["kernels"])
    )
    return Row(**{**values, "kernels": kernels})


def _sensitivity_from_json(data: Any) -> RowSensitivity:
    values = known_keys(RowSensitivity, data)
    constants = tuple(Effect(**known_keys(Effect, item)) for item in values["constants"])
    return RowSensitivity(**{**values, "constants": constants})


def _tuning_from_json(data: Any) -> RowTuning:
    values = known_keys(RowTuning, data)
    kernels = tuple(
        Tuning(**{**kernel, "alike": tuple(kernel["alike"])})
        for kernel in (known_keys(Tuning, item) for item in values["kernels"])
    )
    return RowTuning(**{**values, "kernels": kernels})


def _identity(entry: Row | RowSensitivity | RowTuning) -> tuple[object, ...]:
    return entry.experiment, entry.variant, entry.device, dict(entry.shape), entry.predicted_us


def _check_interval(low: float | None, middle: float | None, high: float | None, *, where: str) -> None:
    values = [value for value in (low, middle, high) if value is not None]
    if any(not math.isfinite(value) or value < 0 for value in values):
        raise RowError(f"{where}: predicted times must be finite and not negative, got {values}")
    if values != sorted(values):
        raise RowError(f"{where}: predicted {middle} µs is outside its interval {low} to {high} µs")

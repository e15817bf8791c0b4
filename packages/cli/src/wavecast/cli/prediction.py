"""From an experiment to its rows: every variant on every shape, under a virtual device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from wavecast.cli import __version__, simulate
from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.operators import last_path
from wavecast.cli.rows import KernelRow, Row, error_percent


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment on one shape and device: what one table shows.

    Attributes:
        experiment: The experiment.
        shape: The shape.
        device: The device.
        variants: The variants to run, the baseline first.
    """

    experiment: Experiment
    shape: Shape
    device: str
    variants: tuple[str, ...]


def predict_case(case: Case, *, advance: Callable[[str], None]) -> tuple[Row, ...]:
    """Predict all variants of a case.

    Args:
        case: What to predict.
        advance: Called with the variant's name before each one runs.

    Returns:
        One row a variant, with speedups over the baseline.
    """
    return tuple(with_speedups(list(_rows(case, advance))))


def _rows(case: Case, advance: Callable[[str], None]) -> Iterator[Row]:
    for variant in case.variants:
        advance(f"{case.experiment.name} {variant}")
        yield predict_variant(case, variant)


def predict_variant(case: Case, variant: str) -> Row:
    """Predict one variant; the speedups of the row are still unknown."""
    experiment, shape = case.experiment, case.shape
    with simulate.translated_errors():
        inputs = experiment.make_inputs(shape)
        prediction = simulate.predict_run(lambda: experiment.run(variant, inputs), device=case.device)
    published = experiment.published_for(variant, shape=shape, device=case.device)
    published_us = published.time_us if published else None
    kernels = prediction.kernels
    longest = max(kernels, key=lambda kernel: kernel.predicted_us or 0.0, default=None)
    return Row(
        experiment=experiment.name,
        variant=variant,
        baseline=experiment.baseline,
        device=case.device,
        arch=prediction.arch,
        shape=dict(shape),
        dtype=experiment.dtype,
        path=last_path(),
        launches=sum(kernel.launches for kernel in kernels),
        kernels=kernels,
        predicted_us=prediction.time_us,
        predicted_low_us=prediction.low_us,
        predicted_high_us=prediction.high_us,
        published_us=published_us,
        published_source=published.source if published else None,
        error_percent=error_percent(prediction.time_us, published_us=published_us),
        bound=longest.bound if longest else None,
        cause=longest.cause if longest else None,
        hbm_read_bytes=_total(kernels, "hbm_read_bytes"),
        hbm_write_bytes=_total(kernels, "hbm_write_bytes"),
        minimum_bytes=experiment.minimum_bytes(shape),
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


def with_speedups(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows of one case with ``speedup`` and ``speedup_published`` over the row of the baseline."""
    baseline = next((row for row in rows if row.variant == row.baseline), None)
    for row in rows:
        yield replace(
            row,
            speedup=_ratio(baseline.predicted_us if baseline else None, row.predicted_us),
            speedup_published=_ratio(baseline.published_us if baseline else None, row.published_us),
        )


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

"""``scaled-gemm``: a dense FP8 product with a scale a row and column."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Published, Shape
from wavecast.cli.experiments.inputs import as_fp8, lazy_fp8, ones
from wavecast.cli.experiments.works import Works, product

FP8_BYTES, BF16_BYTES, SCALE_BYTES = 1, 2, 4
PUBLISHED_SHAPE: Shape = {"m": 8192, "n": 3584, "k": 9728}


def minimum_bytes(shape: Shape) -> int:
    """Operands and inverse scales once, result once."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    return FP8_BYTES * k * (m + n) + SCALE_BYTES * (m + n) + BF16_BYTES * m * n


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """(m, k) and (k, n), k contiguous in both, as bytes, and the inverse scales."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    return lazy_fp8(m, k), lazy_fp8(n, k).t(), ones(m, 1), ones(1, n)


def flop(shape: Shape) -> int:
    """Two for each product."""
    return 2 * shape["m"] * shape["n"] * shape["k"]


def _multiply(a: Any, b: Any, a_inverse: Any, b_inverse: Any) -> Any:
    return import_module("wavecast.kernels.scaled_gemm").scaled_gemm(as_fp8(a), as_fp8(b), a_inverse, b_inverse)


def _works(_: str, shape: Shape) -> Works:
    from wavecast.simulator.timing.gemm import GemmProblem, Scaling

    return product(GemmProblem.dense(shape["m"], shape["n"], shape["k"], "fp8", Scaling.ROWWISE))


VARIANTS: dict[str, Callable[..., Any]] = {"wavecast": _multiply}

EXPERIMENT = Experiment(
    name="scaled-gemm",
    summary="a dense FP8 product with a scale a row and column",
    variants=("wavecast",),
    shapes=(PUBLISHED_SHAPE, {"m": 4096, "n": 4096, "k": 4096}),
    device="mi300x",
    dtype="fp8",
    published=(),
    remark="",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator=__name__,
    flop=flop,
    elsewhere=(
        Published(
            variant="FBGEMM, CK row-wise",
            shape=PUBLISHED_SHAPE,
            time_us=558,
            device="mi300x",
            source="FBGEMM: MI300X, CK row-wise FP8 GEMM, 1022.8 TFLOP/s",
        ),
    ),
    by_default=False,
    whole=True,
    works=_works,
)

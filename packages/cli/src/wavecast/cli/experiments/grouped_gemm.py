"""``grouped-gemm``: the product of a grouped linear layer, and the gradient of its weights, in bf16 and in FP8."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wavecast.cli.experiments.experiment import Experiment, Operands, Shape
from wavecast.cli.experiments.inputs import as_fp8, equal_group_ends, lazy_bf16, lazy_fp8, ones
from wavecast.cli.experiments.works import Works, product

if TYPE_CHECKING:
    from wavecast.simulator.timing.gemm import Scaling

BF16_BYTES, SCALE_BYTES, OFFSET_BYTES = 2, 4, 4
# Gate and up, and down, of DeepSeek-V3: four of the 32 experts that a GPU has with 8-way expert parallelism, since
# every workgroup is executed. The groups follow one another: all of them take eight times as long.
SHAPES: tuple[Shape, ...] = (
    {"tokens": 4096, "k": 7168, "n": 4096, "groups": 4},
    {"tokens": 4096, "k": 2048, "n": 7168, "groups": 4},
)
EXPERTS = "four of the 32 experts of a GPU; all of them take eight times as long"
LEFT_OUT = (
    "published but left out: FBGEMM's CK kernel (598.6 against 351.6 TFLOP/s on MI300X), without a shape; hipBLASLt "
    "and Primus-Turbo on MI355X, means over two shapes that include quantization"
)


def flop(shape: Shape) -> int:
    """Two for each product, the same for the layer and for the gradient of its weights."""
    return 2 * shape["tokens"] * shape["k"] * shape["n"]


def _rows_bytes(shape: Shape, *, element_bytes: int, scales: int) -> int:
    tokens, k, n, groups = shape["tokens"], shape["k"], shape["n"], shape["groups"]
    operands = element_bytes * (tokens * k + groups * k * n) + scales * SCALE_BYTES * (tokens + groups * n)
    return operands + OFFSET_BYTES * groups + BF16_BYTES * tokens * n


def _sum_bytes(shape: Shape, *, element_bytes: int, scales: int) -> int:
    tokens, k, n, groups = shape["tokens"], shape["k"], shape["n"], shape["groups"]
    operands = element_bytes * tokens * (k + n) + scales * SCALE_BYTES * groups * (k + n)
    return operands + OFFSET_BYTES * groups + BF16_BYTES * groups * k * n


def _rows(shape: Shape, lazy: Callable[..., Any]) -> tuple[Any, ...]:
    """(tokens, k), (groups, k, n) with k contiguous, end offsets."""
    tokens, k, n, groups = shape["tokens"], shape["k"], shape["n"], shape["groups"]
    return lazy(tokens, k), lazy(groups, n, k).transpose(1, 2), equal_group_ends(tokens, groups)


def _sum(shape: Shape, lazy: Callable[..., Any]) -> tuple[Any, ...]:
    """(n, tokens) and (tokens, k), tokens contiguous in both, end offsets."""
    tokens = shape["tokens"]
    return lazy(shape["n"], tokens), lazy(shape["k"], tokens).t(), equal_group_ends(tokens, shape["groups"])


def _rows_fp8(shape: Shape) -> tuple[Any, ...]:
    return *_rows(shape, lazy_fp8), ones(shape["tokens"]), ones(shape["groups"], shape["n"])


def _sum_fp8(shape: Shape) -> tuple[Any, ...]:
    return *_sum(shape, lazy_fp8), ones(shape["groups"], shape["n"]), ones(shape["groups"], shape["k"])


def _multiply(a: Any, b: Any, offs: Any) -> Any:
    return import_module("wavecast.kernels.grouped_gemm").grouped_gemm(a, b, offs)


def _multiply_fp8(a: Any, b: Any, offs: Any, a_inverse: Any, b_inverse: Any) -> Any:
    operator = import_module("wavecast.kernels.grouped_gemm").grouped_gemm
    return operator(as_fp8(a), as_fp8(b), offs, a_inverse, b_inverse)


def _rows_works(variant: str, shape: Shape) -> Works:
    from wavecast.simulator.timing.gemm import GemmProblem

    rows = [shape["tokens"] // shape["groups"]] * shape["groups"]
    return product(GemmProblem.grouped_rows(rows, shape["n"], shape["k"], *_types(variant)))


def _sum_works(variant: str, shape: Shape) -> Works:
    from wavecast.simulator.timing.gemm import GemmProblem

    depths = [shape["tokens"] // shape["groups"]] * shape["groups"]
    return product(GemmProblem.grouped_sums(shape["n"], shape["k"], depths, *_types(variant)))


def _types(variant: str) -> tuple[str, Scaling]:
    from wavecast.simulator.timing.gemm import Scaling

    return variant, Scaling.ROWWISE if variant == "fp8" else Scaling.NONE


VARIANTS: dict[str, Callable[..., Any]] = {"bf16": _multiply, "fp8": _multiply_fp8}
"""One operator, called with operands of either type."""

EXPERIMENT = Experiment(
    name="grouped-gemm",
    summary="the product of a grouped linear layer: operands in bf16, and in FP8 with a scale a row and column",
    variants=("bf16", "fp8"),
    shapes=SHAPES,
    device="mi300x",
    dtype="bf16",
    published=(),
    remark=f"{EXPERTS}; {LEFT_OUT}",
    minimum_bytes=partial(_rows_bytes, element_bytes=2, scales=0),
    make_inputs=partial(_rows, lazy=lazy_bf16),
    operator=__name__,
    flop=flop,
    other_operands={
        "fp8": Operands(
            dtype="fp8",
            minimum_bytes=partial(_rows_bytes, element_bytes=1, scales=1),
            make_inputs=_rows_fp8,
        )
    },
    by_default=False,
    whole=True,
    works=_rows_works,
)

WEIGHT_GRADIENT = Experiment(
    name="grouped-weight-gradient",
    summary="the gradient of a grouped layer's weights: a product summed over the tokens of each group",
    variants=("bf16", "fp8"),
    shapes=SHAPES,
    device="mi300x",
    dtype="bf16",
    published=(),
    remark=EXPERTS,
    minimum_bytes=partial(_sum_bytes, element_bytes=2, scales=0),
    make_inputs=partial(_sum, lazy=lazy_bf16),
    operator=__name__,
    flop=flop,
    other_operands={
        "fp8": Operands(
            dtype="fp8",
            minimum_bytes=partial(_sum_bytes, element_bytes=1, scales=1),
            make_inputs=_sum_fp8,
        )
    },
    by_default=False,
    whole=True,
    works=_sum_works,
)

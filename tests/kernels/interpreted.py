"""Run as a script: the kernels of operators against their references, in Triton's interpreter.

The forms that have upstream's numerics are left out: Inf is one of the inputs.

The interpreter's FP8 cast does not round to nearest even and knows neither NaN nor e4m3fnuz, so the format is e4m3fn
and the inputs are values whose codes are exact. Masks, addresses, tails, zero rows, Inf and the canaries round the
outputs are what this checks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import torch
from quantizers import check_launch, column_major, exact_values

from wavecast.kernels.formats import E4M3FN, Fp8Format
from wavecast.kernels.quantizer import Quantized

Launch = Callable[..., None]
Reference = Callable[..., Quantized]

WEIGHT_SHAPES = [(2, 40, 70), (1, 33, 25), (3, 100, 8), (2, 31, 40), (1, 16, 4), (1, 1, 1)]
FEW_COLUMNS = [(2, 40, 9), (1, 33, 5), (3, 100, 8), (1, 1, 1)]
"""For what has a program for each column."""

LONG_WEIGHT_SHAPES = [(1, 3, 1100), (1, 3, 5200)]
"""Several resident blocks, and rows that are streamed."""


def rowwise() -> tuple[list[Launch], Reference, list[torch.Tensor]]:
    from wavecast.kernels.rowwise.api import launch_fused
    from wavecast.kernels.rowwise.baseline import launch_separate_kernels
    from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

    inputs = [exact_values(m, k) for m, k in [(5, 100), (1, 16), (20, 48), (2, 5000), (1, 1), (1, 70000)]]
    inputs.append(exact_values(9, 64)[:, :40])  # padded rows
    inputs.append(exact_values(4, 24, dtype=torch.float16))
    inputs.append(exact_values(4, 24, dtype=torch.float32))
    for x in inputs:
        x[x.shape[0] // 2] = 0
        x[0, x.shape[1] // 2] = float("-inf")
    return [launch_separate_kernels, launch_fused], quantize_rowwise_reference, inputs


def _weights(shapes: list[tuple[int, int, int]]) -> list[torch.Tensor]:
    weights = [column_major(exact_values(*shape)) for shape in shapes]
    weights += [column_major(exact_values(2, 20, 12, dtype=dtype)) for dtype in (torch.float16, torch.float32)]
    for weight in weights:
        experts, k, n = weight.shape
        weight[0, k // 2, n // 2] = float("inf")
        weight[experts // 2, k // 3] = 0
        weight[experts // 2, :, n // 3] = 0
    return weights


def weight_transpose() -> tuple[list[Launch], Reference, list[torch.Tensor]]:
    from wavecast.kernels.weight_transpose.api import launch_transposed
    from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

    return [launch_transposed], quantize_weight_transpose_reference, _weights(WEIGHT_SHAPES + LONG_WEIGHT_SHAPES)


def expert_weights() -> tuple[list[Launch], Reference, list[torch.Tensor]]:
    from wavecast.kernels.expert_weights.api import launch_rows
    from wavecast.kernels.expert_weights.baseline import launch_five_kernels
    from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference

    return [launch_five_kernels, launch_rows], quantize_expert_weights_reference, _weights(FEW_COLUMNS)


def _padded_rows(m: int, k: int) -> list[torch.Tensor]:
    """One matrix: an input takes a second or two here."""
    x = exact_values(m, k + 24)[:, :k]
    x[m // 2] = 0
    x[0, k // 2] = float("-inf")
    return [x]


def tensorwise() -> tuple[list[Launch], Reference, list[torch.Tensor]]:
    from wavecast.kernels.tensorwise.api import launch_tensorwise
    from wavecast.kernels.tensorwise.reference import quantize_tensorwise_reference

    return [launch_tensorwise], quantize_tensorwise_reference, _padded_rows(30, 45)


def blockwise() -> tuple[list[Launch], Reference, list[torch.Tensor]]:
    from wavecast.kernels.blockwise.api import launch_blockwise
    from wavecast.kernels.blockwise.reference import quantize_blockwise_reference

    def reference(x: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> Quantized:
        return quantize_blockwise_reference(x, block=(1, 128), fmt=fmt, power_of_two=power_of_two)

    return [partial(launch_blockwise, block=(1, 128))], reference, _padded_rows(67, 140)


ENDS = [3, 3, 17, 29]


def _grouped(launch: Launch, reference: Callable[..., Any]) -> tuple[Launch, Reference]:
    """Both with the groups that end at `ENDS`."""
    offs = torch.tensor(ENDS, dtype=torch.int32)

    def of_groups(x: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> Quantized:
        return Quantized(*reference(x, offs, fmt=fmt, power_of_two=power_of_two))

    return lambda x, out, conversion: launch(x, offs, out, conversion), of_groups


def rowwise_per_group() -> tuple[list[Launch], Reference, list[torch.Tensor]]:
    from wavecast.kernels.rowwise_per_group.api import launch_groups
    from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference

    launch, reference = _grouped(launch_groups, quantize_rowwise_per_group_reference)
    return [launch], reference, _padded_rows(5, 31)


def colwise_per_group() -> tuple[list[Launch], Reference, list[torch.Tensor]]:
    from wavecast.kernels.colwise_per_group.api import launch_planned
    from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference

    launch, reference = _grouped(launch_planned, colwise_per_group_reference)
    return [launch], reference, _padded_rows(31, 5)


OPERATORS = {
    "rowwise": rowwise,
    "weight_transpose": weight_transpose,
    "expert_weights": expert_weights,
    "tensorwise": tensorwise,
    "blockwise": blockwise,
    "rowwise_per_group": rowwise_per_group,
    "colwise_per_group": colwise_per_group,
}


def main(operators: list[str]) -> None:
    checks = 0
    for operator in operators:
        launches, reference, inputs = OPERATORS[operator]()
        for x in inputs:
            for launch in launches:
                check_launch(launch, reference, x, fmt=E4M3FN, power_of_two=True, arch=None)
                checks += 1
    print(f"{checks} checks")


if __name__ == "__main__":
    main(sys.argv[1:])

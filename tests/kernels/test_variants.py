"""Every operator's variants: found in one place, called in one way, and launched as the code that they stand for."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

import pytest
import torch
from quantizers import special_weights

import wavecast.kernels
from wavecast.kernels import (
    colwise_per_group,
    dual_layout,
    expert_weights,
    fnuz,
    rowwise,
    weight_layouts,
    weight_transpose,
    wgrad_copies,
)
from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.formats import E4M3FNUZ

OPERATORS = {
    fnuz: ["max-448", "max-240"],
    colwise_per_group: ["byte-stores", "vector-two-pass", "fused-single-pass", "wavecast"],
    wgrad_copies: ["transpose-copies", "strided-read", "wavecast"],
    weight_transpose: ["atomic-acq-rel", "atomic-relaxed", "wavecast"],
    rowwise: ["separate-kernels", "wavecast"],
    expert_weights: ["five-kernels", "fused", "wavecast"],
    dual_layout: ["two-kernels", "wavecast"],
    weight_layouts: ["two-kernels", "wavecast"],
}
WEIGHTS = (weight_transpose, expert_weights, weight_layouts)
EVERY_VARIANT = pytest.mark.parametrize(
    ("operator", "variant"),
    [pytest.param(o, v, id=f"{o.__name__.split('.')[-1]}-{v}") for o, variants in OPERATORS.items() for v in variants],
)


def inputs(operator: ModuleType) -> tuple[torch.Tensor, ...]:
    """Small tensors for an operator."""
    x = torch.randn(512, 64, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    offs = torch.tensor([256, 512], dtype=torch.int32)
    if operator in (colwise_per_group, dual_layout):
        return x, offs
    if operator is wgrad_copies:
        return x, x + 1, offs
    return (special_weights(2, 144, 272),) if operator in WEIGHTS else (x,)


def tensors(result: Any) -> list[torch.Tensor]:
    """All tensors of a result."""
    if isinstance(result, tuple):
        return [tensor for part in result for tensor in tensors(part)]
    return [] if result is None else [result]


def test_every_operator_with_variants_is_here() -> None:
    folders = (module.name for module in pkgutil.iter_modules(wavecast.kernels.__path__) if module.ispkg)
    modules = [importlib.import_module(f"wavecast.kernels.{name}") for name in folders]
    assert {module for module in modules if hasattr(module, "VARIANTS")} == set(OPERATORS)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_the_catalogue_names(operator: ModuleType) -> None:
    assert list(operator.VARIANTS) == OPERATORS[operator]
    assert "VARIANTS" in operator.__all__


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
@EVERY_VARIANT
def test_without_a_device_the_reference_answers(operator: ModuleType, variant: str) -> None:
    arguments = inputs(operator)
    format_argument = {} if operator is fnuz else {"format": E4M3FNUZ}
    result = operator.VARIANTS[variant](*arguments, power_of_two=True, **format_argument)
    assert last_path() is Path.REFERENCE
    found = tensors(result)
    assert found[0].dtype is E4M3FNUZ.dtype
    mantissa, _ = torch.frexp(found[1])
    assert (mantissa == 0.5).all()  # the power of two has arrived


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
@EVERY_VARIANT
def test_results_are_no_part_of_an_autograd_graph(operator: ModuleType, variant: str) -> None:
    """A kernel's results never are; the reference's would be, without care."""
    arguments = [t.requires_grad_() if t.is_floating_point() else t for t in inputs(operator)]
    format_argument = {} if operator is fnuz else {"format": E4M3FNUZ}
    result = operator.VARIANTS[variant](*arguments, **format_argument)
    assert not any(tensor.requires_grad for tensor in tensors(result))


# Kernel, grid and waves of each launch, in order, for the shapes of `inputs`.
ATOMIC = [("fill_kernel", (1, 1, 1), 4), ("tile_scale_kernel", (2, 2, 3), 4), ("tile_cast_kernel", (2, 2, 3), 4)]
COPY_AND_QUANTIZE = [("transpose_copy_kernel", (1, 8, 1), 4), ("two_pass_kernel", (2, 2, 1), 4)]
GEOMETRY = {
    (rowwise, "separate-kernels"): [
        ("row_amax_kernel", (512, 1, 1), 4),
        ("scale_kernel", (1, 1, 1), 4),
        ("multiply_kernel", (512, 1, 1), 4),
        ("saturating_cast_kernel", (32, 1, 1), 4),
    ],
    (expert_weights, "five-kernels"): [
        ("row_amax_kernel", (544, 1, 1), 4),
        ("divide_kernel", (1, 1, 1), 4),
        ("round_kernel", (1, 1, 1), 4),
        ("multiply_kernel", (544, 1, 1), 4),
        ("saturating_cast_kernel", (77, 1, 1), 4),
    ],
    (expert_weights, "fused"): [("two_pass_kernel", (2, 5, 1), 4)],
    (weight_transpose, "atomic-acq-rel"): ATOMIC,
    (weight_transpose, "atomic-relaxed"): ATOMIC,
    (colwise_per_group, "byte-stores"): [("two_pass_kernel", (2, 2, 1), 4)],
    (colwise_per_group, "vector-two-pass"): [("two_pass_unit_stride_kernel", (2, 2, 1), 4)],
    (colwise_per_group, "fused-single-pass"): [("fused_kernel", (2, 2, 1), 8)],
    (wgrad_copies, "transpose-copies"): 2 * COPY_AND_QUANTIZE,
    (wgrad_copies, "strided-read"): 2 * [("two_pass_kernel", (1, 2, 1), 8)],
    (dual_layout, "two-kernels"): [
        ("rowwise_resident_kernel", (512, 1, 1), 1),
        ("colwise_per_group_kernel", (1, 2, 1), 2),
    ],
    (weight_layouts, "two-kernels"): [
        ("rowwise_resident_kernel", (544, 1, 1), 1),
        ("transpose_strip_kernel", (10, 1, 1), 4),
    ],
}
OURS = {operator: 2 if operator is wgrad_copies else 1 for operator in OPERATORS}


@pytest.mark.execute
@EVERY_VARIANT
def test_launches(operator: ModuleType, variant: str) -> None:
    """Upstream's tiles are 128 x 128 on 4 waves for the transpose, 128 x 64 for the fused weights, 128 x 32 (and 128 x
    128 on 8 waves in #3972) for the column-wise kernels; the operator chains have a launch for each operator. What is
    ours is launched once for each tensor."""
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    with virtual.virtual_device("mi300x") as device:
        operator.VARIANTS[variant](*inputs(operator), power_of_two=True)
    found = [(launch.kernel, launch.grid, launch.num_warps) for launch in device.launches]
    if (operator, variant) in GEOMETRY:
        assert found == GEOMETRY[operator, variant]
    else:
        assert len(found) == OURS[operator]

"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quantizers import (
    REPEATABLE,
    SEEDS,
    any_bits,
    assert_same_results,
    check_launch,
    far_apart_rows,
    put_specials,
    skewed_values,
)

from wavecast.kernels.device import native_format
from wavecast.kernels.formats import E4M3FNUZ, FORMATS, Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.rowwise import VARIANTS
from wavecast.kernels.rowwise.api import launch_fused, launch_planned
from wavecast.kernels.rowwise.baseline import launch_separate_kernels
from wavecast.kernels.rowwise.plan import plan_rowwise
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

pytestmark = pytest.mark.execute

# Tails; several rows a program; wide accesses; several blocks of the chain; two reads of the fused kernel.
CASES = [((1, 1), False), ((5, 100), True), ((300, 48), False), ((2, 4096), True), ((3, 5000), False)]
LONG = ((1, 70000), True)


@pytest.mark.parametrize(
    ("launch", "shape", "power_of_two"),
    [
        *((launch_separate_kernels, *case) for case in CASES),
        *((launch_fused, *case) for case in [*CASES, LONG]),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_equal_to_the_reference_between_canaries(
    virtual_arch: str, launch: Callable[..., None], shape: tuple[int, int], power_of_two: bool
) -> None:
    x = put_specials(skewed_values(*shape))
    x[shape[0] // 2, : shape[1] // 2] = 0
    fmt = native_format(virtual_arch)
    check_launch(launch, quantize_rowwise_reference, x, fmt=fmt, power_of_two=power_of_two, arch=virtual_arch)


@pytest.mark.parametrize("k", [5120, 1800])
def test_rows_in_several_pieces(virtual_arch: str, k: int) -> None:
    """What is launched on NVIDIA, whose waves have half the lanes: any number of pieces, the last one cut."""

    def launch_pieces(x: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
        launch_planned(x, out, conversion, plan_rowwise(*x.shape, dtype=x.dtype, arch="sm_90"))

    x = put_specials(skewed_values(3, k))
    fmt = native_format(virtual_arch)
    check_launch(launch_pieces, quantize_rowwise_reference, x, fmt=fmt, power_of_two=False, arch=virtual_arch)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_other_inputs_and_padded_rows(virtual_arch: str, variant: str, dtype: torch.dtype) -> None:
    x = skewed_values(9, 64, dtype=dtype)[:, 1:41]  # and no row starts at a multiple of 16 bytes
    x[4] = 0
    x[5] = x[5].sign() * torch.finfo(dtype).tiny / 64  # subnormal, and above eps in fp16
    wanted = quantize_rowwise_reference(x, native_format(virtual_arch), power_of_two=False)
    assert_same_results(variant, VARIANTS[variant](x), wanted)


@pytest.mark.parametrize("fmt", [*FORMATS, E4M3FNUZ.limited_to(224)], ids=lambda fmt: fmt.name)
def test_a3_every_bf16_value_in_every_format(virtual_arch: str, fmt: Fp8Format) -> None:
    """All 2^16 inputs, scaled by 1: the cast alone, in hardware, and in software where a format is not native."""
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).reshape(256, 256)
    x = torch.cat([x, torch.full((256, 1), fmt.max, dtype=torch.bfloat16)], dim=1)
    big = x.float().abs() > fmt.max
    x[big & x.isfinite()] = fmt.max
    wanted = quantize_rowwise_reference(x, fmt, power_of_two=False)
    assert (wanted[1] == 1).all()
    assert_same_results("wavecast", VARIANTS["wavecast"](x, format=fmt), wanted)


@pytest.mark.parametrize("variant", VARIANTS)
def test_d7_rows_beyond_32_bit_offsets(virtual_arch: str, variant: str) -> None:
    """The third row starts 2^31 values behind the first, in memory of which only these rows are ever touched."""
    x = far_apart_rows(skewed_values(3, 48))
    wanted = quantize_rowwise_reference(x, native_format(virtual_arch), power_of_two=False)
    assert_same_results(variant, VARIANTS[variant](x), wanted)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(0, 16), (3, 0)], ids=str)
def test_nothing_to_do(virtual_arch: str, variant: str, shape: tuple[int, int]) -> None:
    x = torch.empty(*shape, dtype=torch.bfloat16)
    wanted = quantize_rowwise_reference(x, native_format(virtual_arch), power_of_two=False)
    assert_same_results(variant, VARIANTS[variant](x), wanted)


@REPEATABLE
@given(m=st.integers(1, 9), k=st.integers(17, 31), padding=st.integers(0, 5), seed=SEEDS)
def test_any_rows(virtual_arch: str, m: int, k: int, padding: int, seed: int) -> None:
    x = any_bits(m, k + padding, seed=seed)[:, :k]
    fmt = native_format(virtual_arch)
    check_launch(launch_fused, quantize_rowwise_reference, x, fmt=fmt, power_of_two=False, arch=virtual_arch)

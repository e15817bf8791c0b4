"""torchao's quantizers: its signatures, and our references' results in its shapes."""

from __future__ import annotations

import inspect

import pytest
import torch
from quantizers import assert_same_bytes, exact_values, put_specials, skewed_values, special_weights

import wavecast.kernels.torchao as adapter
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.device import Path, last_path
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, FORMATS, Fp8Format
from wavecast.kernels.reference_ops import EPS, scale_from_amax
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference
from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

NO_DEFAULT = inspect.Parameter.empty
COMMON = [("output_dtype", torch.float8_e4m3fn), ("round_scales_to_power_of_2", False)]
SIGNATURES = {
    "triton_fp8_rowwise_2d_scale_and_cast": [("hp_tensor", NO_DEFAULT), *COMMON],
    "triton_fp8_colwise_3d_scale_and_cast": [("hp_tensor", NO_DEFAULT), *COMMON],
    "triton_fp8_rowwise_3d_transpose_rhs": [("hp_tensor", NO_DEFAULT), *COMMON],
    "triton_fp8_rowwise_3d_transpose_rhs_fused_reduction": [("hp_tensor", NO_DEFAULT), *COMMON],
    "triton_fp8_per_group_rowwise_scales": [("hp_tensor", NO_DEFAULT), ("offsets", NO_DEFAULT), *COMMON],
    "triton_fp8_per_group_colwise_scales": [("hp_tensor", NO_DEFAULT), ("offsets", NO_DEFAULT), *COMMON],
    "triton_fp8_per_group_colwise_scales_dual": [
        ("hp_tensor_1", NO_DEFAULT),
        ("hp_tensor_2", NO_DEFAULT),
        ("offsets", NO_DEFAULT),
        *COMMON,
    ],
}
"""What torchao's functions at commit 36027d82 take: names in order, and defaults."""

both_formats = pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)
both_roundings = pytest.mark.parametrize("power_of_two", [False, True])


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    parameters = inspect.signature(getattr(adapter, name)).parameters.values()
    assert [(p.name, p.default) for p in parameters] == SIGNATURES[name]
    assert {p.kind for p in parameters} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_every_quantizer_is_in_the_contract() -> None:
    assert {name for name in adapter.__all__ if name.startswith("triton_")} == set(SIGNATURES)


def check(actual: tuple[torch.Tensor, ...], *wanted: torch.Tensor) -> None:
    for part, (a, w) in enumerate(zip(actual, wanted, strict=True)):
        assert_same_bytes(f"part {part}", a, w)


@both_formats
@both_roundings
def test_rowwise_2d(fmt: Fp8Format, power_of_two: bool) -> None:
    x = put_specials(skewed_values(7, 48))
    values, scale, _ = quantize_rowwise_reference(x, fmt, power_of_two=power_of_two)
    assert scale.shape == (7, 1)
    check(adapter.triton_fp8_rowwise_2d_scale_and_cast(x, fmt.dtype, power_of_two), values, scale)


@both_formats
@both_roundings
def test_colwise_3d(fmt: Fp8Format, power_of_two: bool) -> None:
    weight = special_weights(3, 32, 48)
    values, scale, _ = quantize_expert_weights_reference(weight, fmt, power_of_two=power_of_two)
    assert (scale.shape, values.stride()) == ((3, 1, 48), (32 * 48, 1, 32))
    check(adapter.triton_fp8_colwise_3d_scale_and_cast(weight, fmt.dtype, power_of_two), values, scale)


@both_formats
@both_roundings
@pytest.mark.parametrize("suffix", ["", "_fused_reduction"])
def test_transpose(fmt: Fp8Format, power_of_two: bool, suffix: str) -> None:
    weight = special_weights(3, 32, 48)
    values, scale, _ = quantize_weight_transpose_reference(weight, fmt, power_of_two=power_of_two)
    assert (scale.shape, values.shape, values.stride()) == ((3, 32), (3, 48, 32), (32 * 48, 1, 48))
    quantize = getattr(adapter, f"triton_fp8_rowwise_3d_transpose_rhs{suffix}")
    check(quantize(weight, output_dtype=fmt.dtype, round_scales_to_power_of_2=power_of_two), values, scale)


def offsets(*ends: int) -> torch.Tensor:
    return torch.tensor(ends, dtype=torch.int32)


@both_formats
@both_roundings
def test_per_group_rowwise(fmt: Fp8Format, power_of_two: bool) -> None:
    x, offs = put_specials(skewed_values(6, 80)), offsets(16, 16, 70)
    values, scale, _ = quantize_rowwise_per_group_reference(x, offs, fmt, power_of_two=power_of_two)
    actual = adapter.triton_fp8_per_group_rowwise_scales(x, offs, fmt.dtype, power_of_two)
    check(actual, values, scale.flatten())
    assert actual[1][4 + 6 * 2] == scale[2, 4]


@both_formats
@both_roundings
def test_per_group_colwise(fmt: Fp8Format, power_of_two: bool) -> None:
    x, offs = put_specials(skewed_values(80, 6)), offsets(16, 16, 70)
    values, scale, _ = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=power_of_two)
    actual = adapter.triton_fp8_per_group_colwise_scales(x, offs, fmt.dtype, power_of_two)
    check(actual, values, scale.flatten())
    assert actual[0].stride() == (1, 80)
    assert actual[1][4 + 6 * 2] == scale[2, 4]


def test_dual_is_one_after_the_other() -> None:
    a, b, offs = skewed_values(48, 6), skewed_values(48, 10, seed=1), offsets(16, 48)
    one = adapter.triton_fp8_per_group_colwise_scales(a, offs, E4M3FNUZ.dtype, True)
    two = adapter.triton_fp8_per_group_colwise_scales(b, offs, E4M3FNUZ.dtype, True)
    check(adapter.triton_fp8_per_group_colwise_scales_dual(a, b, offs, E4M3FNUZ.dtype, True), *one, *two)


def test_scale_is_multiplied_in() -> None:
    x = exact_values(4, 32)
    values, scale = adapter.triton_fp8_rowwise_2d_scale_and_cast(x, round_scales_to_power_of_2=True)
    assert torch.equal(values.float() / scale, x.float())


def test_another_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match=r"torch.int8 is not an FP8 dtype; use one of"):
        adapter.triton_fp8_rowwise_2d_scale_and_cast(torch.zeros(2, 16), torch.int8)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_scale_equals_the_fp64_quotient_rounded_to_fp32(fmt: Fp8Format) -> None:
    """torchao divides in fp64. Every bf16 amax, and every fp32 mantissa: binades differ by a power of two alone."""
    bf16 = (torch.arange(0x7F80, dtype=torch.int32) << 16).view(torch.float32)
    mantissas = (torch.arange(1 << 23, dtype=torch.int32) | 0x3F800000).view(torch.float32)
    for amax in (bf16, mantissas):
        scale = scale_from_amax(amax, fmt, power_of_two=False)
        wanted = (torch.full((), fmt.max, dtype=torch.float64) / amax.double().clamp(min=EPS)).float()
        assert torch.equal(scale, wanted)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_power_of_two_equals_the_logarithm_for_bf16_and_fp16(fmt: Fp8Format) -> None:
    bf16 = (torch.arange(0x7F80, dtype=torch.int32) << 16).view(torch.float32)
    fp16 = torch.arange(0x7C00, dtype=torch.int16).view(torch.float16).float()
    for amax in (bf16, fp16):
        scale = scale_from_amax(amax, fmt, power_of_two=False)
        logarithm = scale.double().log2().float()  # correctly rounded, but for ties that do not occur
        assert torch.equal(scale_from_amax(amax, fmt, power_of_two=True), logarithm.floor().exp2())


@pytest.mark.execute
def test_on_a_virtual_device(virtual_arch: str) -> None:
    """The adapter reaches the compiled kernel, with the dtype asked for."""
    fmt = {"gfx942": E4M3FNUZ, "gfx950": E4M3FN}[virtual_arch]
    x, offs = skewed_values(96, 64), offsets(32, 96)
    wanted = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=True)
    actual = adapter.triton_fp8_per_group_colwise_scales(x, offs, fmt.dtype, True)
    assert last_path() is Path.TRITON
    check(actual, wanted[0], wanted[1].flatten())

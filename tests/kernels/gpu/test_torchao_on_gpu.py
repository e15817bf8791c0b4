"""torchao's names on a real GPU: bytes equal to the references, and gradients of converted parameters."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_bytes, put_specials, skewed_values, special_weights
from torch import nn

import wavecast.kernels.torchao as adapter
from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.device import Path, active_arch, last_path, native_format
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference
from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference
from wavecast.kernels.training import scaled_grouped_mm
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

pytestmark = pytest.mark.gpu
both_roundings = pytest.mark.parametrize("power_of_two", [False, True])


@pytest.fixture(scope="module")
def fmt() -> Fp8Format:
    """The native format of the GPU that Triton has."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    arch = active_arch()
    assert arch is not None
    return native_format(arch)


def check(actual: tuple[torch.Tensor, ...], *wanted: torch.Tensor) -> None:
    assert last_path() is Path.TRITON
    for part, (a, w) in enumerate(zip(actual, wanted, strict=True)):
        assert_same_bytes(f"part {part}", a.cpu(), w)


@both_roundings
def test_matrices(fmt: Fp8Format, power_of_two: bool) -> None:
    x = put_specials(skewed_values(300, 512))
    values, scale, _ = quantize_rowwise_reference(x, fmt, power_of_two=power_of_two)
    check(adapter.triton_fp8_rowwise_2d_scale_and_cast(x.cuda(), fmt.dtype, power_of_two), values, scale)


@both_roundings
def test_weights(fmt: Fp8Format, power_of_two: bool) -> None:
    weight = special_weights(3, 256, 384)
    values, scale, _ = quantize_expert_weights_reference(weight, fmt, power_of_two=power_of_two)
    check(adapter.triton_fp8_colwise_3d_scale_and_cast(weight.cuda(), fmt.dtype, power_of_two), values, scale)
    values, scale, _ = quantize_weight_transpose_reference(weight, fmt, power_of_two=power_of_two)
    check(adapter.triton_fp8_rowwise_3d_transpose_rhs(weight.cuda(), fmt.dtype, power_of_two), values, scale)


@both_roundings
def test_groups(fmt: Fp8Format, power_of_two: bool) -> None:
    x, offs = put_specials(skewed_values(512, 512)), torch.tensor([16, 16, 400, 500], dtype=torch.int32)
    values, scale, _ = quantize_rowwise_per_group_reference(x, offs, fmt, power_of_two=power_of_two)
    actual = adapter.triton_fp8_per_group_rowwise_scales(x.cuda(), offs.cuda(), fmt.dtype, power_of_two)
    check(actual, values, scale.flatten())
    values, scale, _ = colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=power_of_two)
    actual = adapter.triton_fp8_per_group_colwise_scales(x.cuda(), offs.cuda(), fmt.dtype, power_of_two)
    check(actual, values, scale.flatten())
    both = adapter.triton_fp8_per_group_colwise_scales_dual(x.cuda(), x.cuda(), offs.cuda(), fmt.dtype, power_of_two)
    check(both, values, scale.flatten(), values, scale.flatten())


def test_converted_experts(fmt: Fp8Format) -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 384, 256, dtype=torch.bfloat16))

        def forward(self, x: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
            return torch._grouped_mm(x, self.weight.transpose(-2, -1), offs=offs)

    experts = Experts().cuda()
    x, offs = torch.randn(300, 256).bfloat16().cuda(), torch.tensor([37, 37, 300], dtype=torch.int32).cuda()
    weight = experts.weight.detach().clone().requires_grad_()
    wanted = scaled_grouped_mm(x, weight.transpose(1, 2), offs)
    config = adapter.Float8TrainingOpConfig.from_recipe(adapter.Float8TrainingRecipe.FP8_ROWWISE)
    assert config.float8_dtype == fmt.dtype
    adapter.quantize_(experts, config, filter_fn=lambda module, name: True)
    actual = experts(x, offs)
    for out in (wanted, actual):
        out.float().square().sum().backward()
    assert torch.equal(actual, wanted)
    assert torch.equal(experts.weight.grad, weight.grad)

"""The tuned form: spaces within one another, and the same results whatever is chosen."""

from __future__ import annotations

import pytest
import torch
import triton

from wavecast.kernels.weight_transpose.baseline import VARIANTS as UNTUNED
from wavecast.kernels.weight_transpose.tuned import SPACES, quantize_weight_transpose_tuned
from wavecast.simulator.virtual import virtual_device

pytestmark = pytest.mark.execute


def test_each_space_contains_the_smaller_ones_and_begins_with_the_default() -> None:
    one, sixteen, thirty_six = (list(space) for space in SPACES.values())
    assert [len(set(space)) for space in (one, sixteen, thirty_six)] == [1, 16, 36]
    assert set(one) < set(sixteen) < set(thirty_six)
    assert one[0] == sixteen[0] == thirty_six[0]


def weight() -> torch.Tensor:
    values = torch.randn(2, 144, 272, generator=torch.Generator().manual_seed(0))
    return values.to(torch.bfloat16).transpose(1, 2)


@pytest.mark.parametrize("position", [0, 7, 13])
def test_results_do_not_depend_on_the_configuration(position: int) -> None:
    asked = []

    def choose(kernel: object, configs: tuple[triton.Config, ...], *_: object) -> triton.Config:
        asked.append(kernel)
        return configs[position]

    with virtual_device("mi300x"):
        wanted = UNTUNED["atomic-relaxed"](weight())
        found = quantize_weight_transpose_tuned(weight(), space="sixteen", choose=choose)
    assert len(asked) == 2
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def test_without_a_choice_triton_tunes_and_the_result_is_the_same() -> None:
    with virtual_device("mi300x") as device:
        wanted = UNTUNED["atomic-relaxed"](weight())
        found = quantize_weight_transpose_tuned(weight(), space="sixteen")
    assert [launch.kernel for launch in device.launches[-3:]] == [
        "fill_kernel",
        "tile_scale_kernel",
        "tile_cast_kernel",
    ]
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))

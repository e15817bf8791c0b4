"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

import mmap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quantizers import assert_same_results, check_launch, column_major, put_specials, skewed_values

from wavecast.kernels.device import Path, last_path, native_format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.tensorwise import quantize_tensorwise
from wavecast.kernels.tensorwise.api import launch_tensorwise
from wavecast.kernels.tensorwise.reference import quantize_tensorwise_reference
from wavecast.simulator.virtual import active_virtual_device, virtual_device

pytestmark = pytest.mark.execute


def inputs() -> dict[str, torch.Tensor]:
    return {
        "one value": torch.tensor([3.0], dtype=torch.bfloat16),
        "less than a vector": skewed_values(7),
        "tail behind whole tiles": put_specials(skewed_values(37, 911)),
        "any rank": put_specials(skewed_values(3, 5, 2, 8)),
        "transposed": put_specials(skewed_values(33, 40)).t(),
        "experts' weights": column_major(put_specials(skewed_values(3, 40, 50))),
        "padded rows": put_specials(skewed_values(65, 3000))[:, :2000],
        "padded rows, odd stride": put_specials(skewed_values(9, 101))[:, :50],
        "fp16": put_specials(skewed_values(33, 41, dtype=torch.float16)),
        "fp32": put_specials(skewed_values(33, 41, dtype=torch.float32)),
        "unaligned": put_specials(skewed_values(1001))[1:],
        "zero": torch.zeros(4, 128, dtype=torch.bfloat16),
        "nothing but NaN and infinity": torch.tensor([float("nan"), float("inf"), -float("inf")] * 9),
        "no value": torch.empty(0, 5),
    }


@pytest.mark.parametrize("name", inputs())
def test_equal_to_the_reference_between_canaries(virtual_arch: str, name: str) -> None:
    x = inputs()[name]
    fmt, power_of_two = native_format(virtual_arch), name == "experts' weights"
    check_launch(
        launch_tensorwise, quantize_tensorwise_reference, x, fmt=fmt, power_of_two=power_of_two, arch=virtual_arch
    )


def test_tiny_amaxes_and_eps(virtual_arch: str) -> None:
    fmt = native_format(virtual_arch)
    for amax in (2.0**-149, 2.0**-133, 2.0**-126, 1e-36, EPS / 2, EPS, 2 * EPS):
        x = torch.tensor([amax, -amax, 0.0])
        assert_same_results(
            str(amax), quantize_tensorwise(x), quantize_tensorwise_reference(x, fmt, power_of_two=False)
        )


def test_saturation_next_to_the_maximum(virtual_arch: str) -> None:
    """With a scale of 1: only infinities exceed the maximum, as the amax is that of the finite values."""
    fmt = native_format(virtual_arch)
    near = [fmt.max, fmt.max * (1 - 2**-5), -fmt.max, float("inf"), float("-inf"), float("nan")]
    x = torch.tensor(near, dtype=torch.bfloat16)
    out = quantize_tensorwise(x)
    assert out.scale == 1
    assert out.values.float()[[0, 2, 3, 4]].tolist() == [fmt.max, -fmt.max, fmt.max, -fmt.max]
    assert out.values.float()[5].isnan()
    assert_same_results("near", out, quantize_tensorwise_reference(x, fmt, power_of_two=False))


@settings(derandomize=True, deadline=None, max_examples=15)
@given(values=st.lists(st.floats(width=32, allow_subnormal=True), min_size=1, max_size=40), power_of_two=st.booleans())
def test_any_values(values: list[float], power_of_two: bool) -> None:
    with virtual_device("mi300x"):
        x = torch.tensor(values)
        wanted = quantize_tensorwise_reference(x, native_format("gfx942"), power_of_two=power_of_two)
        assert_same_results("any", quantize_tensorwise(x, power_of_two=power_of_two), wanted)


def test_d7_rows_beyond_32_bit_offsets(virtual_arch: str) -> None:
    """The third row starts 2^31 values behind the first, in memory of which only these rows are ever touched."""
    k, stride = 48, 1 << 30
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 2 * (2 * stride + k), flags=flags)
    x = torch.frombuffer(memory, dtype=torch.bfloat16).as_strided((3, k), (stride, 1))
    x.copy_(skewed_values(3, k))
    wanted = quantize_tensorwise_reference(x, native_format(virtual_arch), power_of_two=False)
    assert_same_results("far", quantize_tensorwise(x), wanted)


def test_bytes_moved_and_launches(virtual_arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two launches of the same code for a new size; each moves the least it can; the host reads no value."""
    device = active_virtual_device()
    assert device is not None
    quantize_tensorwise(skewed_values(40, 64))
    x = skewed_values(600, 2048)

    def refuse(*_: object) -> None:
        raise AssertionError("the host reads a tensor")

    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__index__", "__float__", "__iter__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    quantize_tensorwise(x)
    monkeypatch.undo()
    assert last_path() is Path.TRITON
    small_amax, small_cast, amax, cast = device.launches
    assert (small_amax.code_object, small_cast.code_object) == (amax.code_object, cast.code_object)
    read, written = amax.result.traffic, cast.result.traffic
    assert read.hbm_read_bytes <= 1.05 * 2 * x.numel()
    assert written.hbm_read_bytes <= 1.05 * 2 * x.numel()
    assert written.hbm_write_bytes <= 1.05 * x.numel()
    assert written.release_fences + written.acquire_fences + written.atomic_requests == 0

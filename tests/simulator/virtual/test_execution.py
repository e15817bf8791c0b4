"""Kernels launched through Triton on a virtual device compute what the GPU would."""

from __future__ import annotations

import math

import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

from wavecast.simulator.errors import MemoryFaultError
from wavecast.simulator.virtual import virtual_device

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]


@triton.jit
def scale_kernel(source, target, count, factor, BLOCK: tl.constexpr, MASKED: tl.constexpr = True):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (index < count) | (not MASKED)
    tl.store(target + index, tl.load(source + index, mask=inside) * factor, mask=inside)


@triton.jit
def row_sum_kernel(source, target, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    value = tl.load(source + tl.program_id(0) * columns + column, mask=column < columns, other=0)
    tl.store(target + tl.program_id(0), tl.sum(value, axis=0))


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
@pytest.mark.parametrize("count", [1, 63, 992, 1000])
def test_elementwise_result_is_exact_and_nothing_else_is_touched(device: str, count: int) -> None:
    source = torch.randn(1000)
    target = torch.full((1000,), 7.0)
    with virtual_device(device) as virtual:
        scale_kernel[(triton.cdiv(count, 256),)](source, target, count, 2.5, BLOCK=256)
    assert torch.equal(target[:count], source[:count] * 2.5)
    assert bool((target[count:] == 7.0).all())
    [launch] = virtual.launches
    assert launch.result.time.predicted_us > 0
    assert launch.result.execution.total_workgroups == triton.cdiv(count, 256)


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_reduction_over_waves_is_exact(device: str) -> None:
    source = torch.randint(-1000, 1000, (5, 700), dtype=torch.int32)
    target = torch.zeros(5, dtype=torch.int32)
    with virtual_device(device):
        row_sum_kernel[(5,)](source, target, 700, BLOCK=1024)
    assert target.tolist() == source.sum(dim=1).tolist()


def test_views_and_integer_specialisation() -> None:
    whole = torch.randn(1024)
    with virtual_device("mi300x"):
        scale_kernel[(1,)](whole[3:], whole[512:], 100, 0.5, BLOCK=128)
    assert torch.equal(whole[512:612], whole[3:103] * 0.5)


def test_stray_access_names_kernel_and_line() -> None:
    source, target = torch.zeros(100), torch.zeros(1024)
    with (
        virtual_device("mi300x"),
        pytest.raises(MemoryFaultError, match=r"(?s)scale_kernel.*test_execution\.py:\d+") as error,
    ):
        scale_kernel[(4,)](source, target, 100, 2.0, BLOCK=256, MASKED=False)
    assert "source" in str(error.value)


@triton.jit
def descriptor_sum_kernel(block, target, rows, BM: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    value = block.load([tl.program_id(0) * BM, 0])
    tl.store(target + row, tl.sum(value, axis=1), mask=row < rows)


@triton.jit
def tuple_kernel(tensors, factors, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(tensors[1] + index, tl.load(tensors[0] + index) * factors[0] * factors[1])


@triton.jit
def scalar_kernel(target, a: tl.float16, b: tl.bfloat16, c: tl.float64, d: tl.int8, BLOCK: tl.constexpr):
    total = a.to(tl.float32) + b.to(tl.float32) + c.to(tl.float32) + d.to(tl.float32)
    tl.store(target + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32) + total)


def test_host_descriptor_reads_zero_outside_its_shape() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    source = torch.randint(-100, 100, (60, 64), dtype=torch.int32)
    target = torch.zeros(64, dtype=torch.int32)
    with virtual_device("mi300x"):
        descriptor_sum_kernel[(4,)](TensorDescriptor.from_tensor(source, [16, 64]), target, 64, BM=16)
    assert target.tolist() == [*source.sum(dim=1).tolist(), 0, 0, 0, 0]


def test_tuples_are_passed_item_by_item() -> None:
    source, target = torch.randn(64), torch.zeros(64)
    with virtual_device("mi355x") as device:
        tuple_kernel[(1,)]((source, target), (3, 0.5), BLOCK=64)
    assert torch.equal(target, source * 3 * 0.5)
    assert device.launches[0].argument_names[:4] == ("tensors.0", "tensors.1", "factors.0", "factors.1")


def test_scalars_of_every_width_arrive() -> None:
    target = torch.zeros(64)
    with virtual_device("mi300x"):
        scalar_kernel[(1,)](target, 1.5, 2.25, 0.125, -7, BLOCK=64)
    assert target.tolist() == [1.5 + 2.25 + 0.125 - 7] * 64


def test_launches_share_the_memory_side_cache_if_whole_grids_run() -> None:
    source, target = torch.zeros(1 << 16), torch.zeros(1 << 16)

    def read_bytes(workgroups: str) -> list[int]:
        with virtual_device("mi300x", workgroups=workgroups) as virtual:
            for _ in range(2):
                scale_kernel[(64,)](source, target, 1 << 16, 2.0, BLOCK=1024)
        return [launch.result.traffic.hbm_read_bytes for launch in virtual.launches]

    assert read_bytes("all") == [1 << 18, 0]
    assert read_bytes("sample") == [1 << 18, 1 << 18]


@triton.jit
def sine_kernel(source, target, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(target + index, libdevice.sin(tl.load(source + index)))


def test_sine_in_double_precision_of_angles_of_any_size() -> None:
    """Large angles need bits of 2/π. With contraction, Triton's default, the compiled reduction itself loses them."""
    source = torch.cat([torch.linspace(-10, 10, 32, dtype=torch.float64), 10.0 ** torch.linspace(3, 308, 32).double()])
    target = torch.zeros_like(source)
    with virtual_device("mi300x"):
        sine_kernel[(1,)](source, target, BLOCK=64, enable_fp_fusion=False)
    expected = torch.tensor([math.sin(angle) for angle in source.tolist()], dtype=torch.float64)
    assert float((target - expected).abs().max()) <= 2.0**-52

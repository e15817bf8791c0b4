"""Kernels as in Triton's tutorials, launched on a virtual H200, compute what torch does."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from wavecast.simulator.errors import LaunchError, MemoryFaultError
from wavecast.simulator.virtual import virtual_device

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]


@triton.jit
def add_kernel(x, y, target, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    tl.store(target + index, tl.load(x + index, mask=inside) + tl.load(y + index, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(target, source, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        column = tl.arange(0, BLOCK)
        value = tl.load(source + row * columns + column, mask=column < columns, other=-float("inf"))
        power = tl.exp(value - tl.max(value, 0))
        tl.store(target + row * columns + column, power / tl.sum(power, 0), mask=column < columns)


@triton.jit
def layer_norm_kernel(x, y, weight, bias, columns, eps, BLOCK: tl.constexpr):
    x += tl.program_id(0) * columns
    y += tl.program_id(0) * columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x + column, mask=column < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / columns
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + column, mask=column < columns, other=0.0).to(tl.float32)
        square += tl.where(column < columns, value - mean, 0.0) * (value - mean)
    inverse = 1 / tl.sqrt(tl.sum(square, 0) / columns + eps)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        value = (tl.load(x + column, mask=inside).to(tl.float32) - mean) * inverse
        scaled = value * tl.load(weight + column, mask=inside) + tl.load(bias + column, mask=inside)
        tl.store(y + column, scaled, mask=inside)


@triton.jit
def product_kernel(a, b, c, N, K, M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.arange(0, M), tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros([M, BN], dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * K + depth[None, :])
        total = tl.dot(left, tl.load(b + depth[:, None] * N + column[None, :]), total)
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def scan_sort_kernel(x, sums, ordered, counts, peak, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    value = tl.load(x + index)
    tl.store(sums + index, tl.cumsum(value, 0))
    tl.store(ordered + index, tl.sort(value))
    tl.atomic_add(counts + value // 100, 1)
    tl.atomic_max(peak, tl.max(value, 0))


@triton.jit
def math_kernel(x, target, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    value = tl.load(x + index)
    result = tl.sin(value) + tl.cos(value) + tl.log(value) + tl.exp2(value) + tl.rsqrt(value) + tl.erf(value)
    tl.store(target + index, result + tl.floor(value) + tl.sqrt_rn(value) + tl.div_rn(value, value + 1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32", "int8"])
def test_sums_of_every_type_are_exact(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x, y = (torch.randn(1000).mul(20).to(kind) for _ in range(2))
    target = torch.full((1000,), 7, dtype=kind)
    with virtual_device("h200") as virtual:
        add_kernel[(4,)](x, y, target, 990, BLOCK=256)
    assert torch.equal(target[:990], (x + y)[:990])
    assert bool((target[990:] == 7).all())
    assert virtual.launches[0].result.traffic.l2_read_bytes > 0


@pytest.mark.parametrize(("columns", "warps", "stages"), [(64, 1, 1), (781, 4, 2), (1000, 8, 4)])
def test_softmax_with_asynchronous_copies_agrees_with_torch(columns: int, warps: int, stages: int) -> None:
    source = torch.randn(9, columns)
    target = torch.zeros_like(source)
    block = triton.next_power_of_2(columns)
    with virtual_device("h200"):
        softmax_kernel[(2,)](target, source, 9, columns, BLOCK=block, STAGES=stages, num_warps=warps)
    assert torch.allclose(target.double(), source.double().softmax(1), rtol=2e-6, atol=1e-9)


def test_layer_norm_agrees_with_torch() -> None:
    x, weight, bias = torch.randn(5, 1151).half(), torch.rand(1151), torch.randn(1151)
    y = torch.zeros_like(x)
    with virtual_device("h200"):
        layer_norm_kernel[(5,)](x, y, weight, bias, 1151, 1e-5, BLOCK=512)
    want = torch.nn.functional.layer_norm(x.double(), (1151,), weight.double(), bias.double(), 1e-5)
    assert torch.allclose(y.double(), want, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_products_on_tensor_cores_of_one_warp_are_executed(dtype: str) -> None:
    a, b = (torch.randint(-4, 5, shape).to(getattr(torch, dtype)) for shape in ((16, 64), (64, 32)))
    c = torch.zeros(16, 32)
    with virtual_device("h200"):
        product_kernel[(2,)](a, b, c, 32, 64, M=16, BN=16, BK=32, num_warps=1)
    assert torch.equal(c, a.float() @ b.float())


def test_scans_sorts_and_atomics_agree_with_torch() -> None:
    x = torch.randint(0, 1000, (256,), dtype=torch.int32)
    sums, ordered, counts, peak = torch.zeros_like(x), torch.zeros_like(x), *(torch.zeros(n).int() for n in (10, 1))
    with virtual_device("h200"):
        scan_sort_kernel[(1,)](x, sums, ordered, counts, peak, BLOCK=256)
    assert torch.equal(sums, x.cumsum(0).int())
    assert torch.equal(ordered, x.sort().values)
    assert torch.equal(counts, (x // 100).bincount(minlength=10).int())
    assert int(peak) == int(x.max())


def test_functions_that_branch_for_large_arguments_agree_with_torch() -> None:
    x = torch.cat([torch.rand(128) * 3 + 0.01, torch.rand(64) * 1e6 + 1e5, torch.rand(64) * 20 + 1])
    x[128:192] = x[128:192].clamp(max=1.2e6)
    x[192:] = x[192:].clamp(max=60)
    target = torch.zeros_like(x)
    small = x.clone()
    small[128:192] = torch.rand(64) * 80
    with virtual_device("h200"):
        math_kernel[(1,)](small, target, BLOCK=256)
    value = small.double()
    want = value.sin() + value.cos() + value.log() + value.exp2() + value.rsqrt() + value.erf()
    want += value.floor() + value.sqrt() + value / (value + 1)
    assert torch.allclose(target.double(), want, rtol=3e-6, atol=3e-5)


def test_a_stray_access_names_kernel_and_line() -> None:
    with virtual_device("h200"), pytest.raises(MemoryFaultError, match=r"add_kernel.*test_ptx_execution\.py:\d+"):
        add_kernel[(4,)](torch.zeros(100), torch.zeros(1024), torch.zeros(1024), 1000, BLOCK=256)


def test_checks_are_refused() -> None:
    with virtual_device("h200", check=True), pytest.raises(LaunchError, match="cannot be checked"):
        add_kernel[(1,)](torch.zeros(256), torch.zeros(256), torch.zeros(256), 256, BLOCK=256)

"""Reductions, scans, sorts, casts, atomics and quantizers, compiled by Triton and executed from their code object."""

from __future__ import annotations

import pytest
import torch
from corpus import elementwise_kernels as elementwise
from corpus import reduction_kernels as kernels

from wavecast.simulator.virtual import VirtualDevice

pytestmark = [pytest.mark.compile, pytest.mark.execute]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_softmax(device: VirtualDevice) -> None:
    x = normal(5, 1000)
    output = torch.empty_like(x)
    kernels.softmax_kernel[(5,)](x, output, 1000, 1000, BLOCK=1024)
    # One division and one exp2 within 1 ulp, after a sum of 1000 rounded terms.
    torch.testing.assert_close(output.double(), x.double().softmax(1), rtol=5e-6, atol=0)


def test_layernorm(device: VirtualDevice) -> None:
    x, weight, bias = normal(3, 777), normal(777, seed=1), normal(777, seed=2)
    output, means = torch.empty_like(x), torch.empty(3)
    kernels.layernorm_kernel[(3,)](x, weight, bias, output, means, 777, 1e-5, BLOCK=1024)
    expected = torch.nn.functional.layer_norm(x.double(), (777,), weight.double(), bias.double())
    torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-5)


def test_column_sum_over_a_ragged_shape(device: VirtualDevice) -> None:
    x = integers(-8, 9, 100, 70).float()
    output = torch.full((71,), 7.0)
    kernels.column_sum_kernel[(2,)](x, output, 100, 70, ROWS=32, COLUMNS=64)
    torch.testing.assert_close(output[:70], x.sum(0), rtol=0, atol=0)
    assert output[70] == 7


def test_maximum_with_place(device: VirtualDevice) -> None:
    x = normal(32, 256)
    largest, smallest, places = torch.empty(32), torch.empty(32, dtype=torch.int32), torch.empty(32, dtype=torch.int32)
    kernels.argument_reduce_kernel[(2,)](x, largest, smallest, places, COLUMNS=256, ROWS=16)
    torch.testing.assert_close(largest, x.max(1).values, rtol=0, atol=0)
    assert torch.equal(places.long(), x.argmax(1)) and torch.equal(smallest.long(), x.argmin(1))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integer_reductions(device: VirtualDevice, dtype: torch.dtype) -> None:
    x = integers(-(2**20), 2**20, 16, 128, dtype=dtype)
    output = torch.empty(16, dtype=dtype)
    kernels.integer_reduce_kernel[(1,)](x, output, COLUMNS=128, ROWS=16)
    folded = x[:, 0].clone()
    for column in range(1, 128):
        folded ^= x[:, column]
    assert torch.equal(output, x.sum(1).to(dtype) + x.max(1).values - x.min(1).values + folded)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(device: VirtualDevice, reverse: bool) -> None:
    x = integers(-1, 2, 16, 128).float()
    sums, products = torch.empty_like(x), torch.empty_like(x)
    kernels.scan_kernel[(1,)](x, sums, products, COLUMNS=128, ROWS=16, REVERSE=reverse)
    expected = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    assert torch.equal(sums, expected) and torch.equal(products, x.cumprod(0))


def test_histogram(device: VirtualDevice) -> None:
    x = integers(0, 1000, 3000)
    counts = torch.zeros(64, dtype=torch.int32)
    kernels.histogram_kernel[(3,)](x, counts, 3000, BINS=64, BLOCK=1024)
    expected = torch.bincount((x % 64).long(), minlength=64).int()
    # Lanes beyond the end load 0 and are counted in bin 0.
    expected[0] += 3 * 1024 - 3000
    assert torch.equal(counts, expected)


@pytest.mark.parametrize("descending", [False, True])
def test_sort(device: VirtualDevice, descending: bool) -> None:
    x = integers(-1000, 1000, 8, 128)
    output = torch.empty_like(x)
    kernels.sort_kernel[(2,)](x, output, COLUMNS=128, ROWS=4, DESCENDING=descending)
    assert torch.equal(output, x.sort(1, descending=descending).values)


def test_transpose_with_tails(device: VirtualDevice) -> None:
    x = integers(-128, 128, 70, 50, dtype=torch.int8)
    output = torch.zeros(50, 70, dtype=torch.int8)
    kernels.transpose_kernel[(2, 2)](x, output, 70, 50, ROWS=64, COLUMNS=32)
    assert torch.equal(output, x.t())


@pytest.mark.parametrize("semantics", ["relaxed", "acq_rel"])
def test_float_extremes_by_atomics(device: VirtualDevice, semantics: str) -> None:
    x = normal(5000)
    output = torch.tensor([0.0, float("inf")])
    elementwise.amax_atomic_kernel[(5,)](x, output, 5000, SEM=semantics, BLOCK=1024)
    assert output[0] == x.abs().max() and output[1] == min(x.min(), torch.tensor(0.0))
    fences = device.launches[-1].result.traffic
    # The two float atomics become two integer ones each, of which a wave executes those its sign needs.
    assert (fences.release_fences > 0) == (fences.acquire_fences > 0) == (semantics == "acq_rel")


def test_a_lock_serialises_workgroups(device: VirtualDevice) -> None:
    x = integers(0, 100, 4096).float()
    lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    elementwise.lock_kernel[(16,)](x, lock, total, 4096, BLOCK=256)
    assert total.item() == x.sum().item() and lock.item() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_float_atomics(device: VirtualDevice, dtype: torch.dtype) -> None:
    x = integers(-8, 9, 4096).float()
    output = torch.zeros(1024, dtype=dtype)
    elementwise.float_atomic_kernel[(8,)](x, output, 4096, BLOCK=512)
    assert torch.equal(output.float(), x.reshape(4, 1024).sum(0))


def test_integer_division(device: VirtualDevice) -> None:
    x, y = integers(1, 2**30, 1024), integers(1, 1000, 1024, seed=1)
    output = torch.empty(1024, dtype=torch.int32)
    elementwise.division_kernel[(4,)](x, y, output, 1024, BLOCK=256)
    a, b = x.long(), y.long()
    expected = a // b + a % b + a // 7 + a % b
    assert torch.equal(output.long(), (expected + 2**31) % 2**32 - 2**31)


def test_random_numbers_are_philox(device: VirtualDevice) -> None:
    """Philox4x32-10 with key (seed, 0) and counter (index, 0, 0, 0), computed here in Python integers."""
    output = torch.empty(256)
    elementwise.random_kernel[(1,)](output, 1234, 256, NORMAL=False, BLOCK=256)

    def philox(counter: int, key: int) -> int:
        c, k = [counter, 0, 0, 0], [key, 0]
        for _ in range(10):
            low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(high >> 32) ^ c[1] ^ k[0], high & 0xFFFFFFFF, (low >> 32) ^ c[3] ^ k[1], low & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c[0]

    for index in (0, 1, 17, 255):
        signed = (philox(index, 1234) + 2**31) % 2**32 - 2**31
        positive = -signed - 1 if signed < 0 else signed
        expected = torch.tensor(positive, dtype=torch.float32) * 4.6566127342e-10
        assert output[index] == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.int32),
        (torch.int32, torch.float32),
        (torch.int64, torch.float32),
    ],
)
def test_casts(device: VirtualDevice, source: torch.dtype, target: torch.dtype) -> None:
    bits = torch.arange(2**16, dtype=torch.int32)
    if source is torch.float32 and target is not torch.int32:
        x = ((bits << 16) | (bits * 40503 & 0xFFFF)).view(torch.float32)
    elif source in (torch.bfloat16, torch.float16):
        x = bits.to(torch.int16).view(source)
    else:
        x = (normal(2**16) * 1e6).to(source)
    output = torch.empty(2**16, dtype=target)
    elementwise.cast_kernel[(64,)](x, output, 2**16, BLOCK=1024)
    expected = x.to(target)
    both_nan = torch.isnan(output.float()) & torch.isnan(expected.float())
    assert torch.equal(torch.where(both_nan, 0, output.view(expected.dtype)), torch.where(both_nan, 0, expected))


def test_rounding_to_fp8_and_back_over_every_code(device: VirtualDevice) -> None:
    fp8 = torch.float8_e4m3fnuz if device.arch == "gfx942" else torch.float8_e4m3fn
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).repeat(4)
    wide, back = torch.empty(1024), torch.empty(1024, dtype=torch.uint8)
    elementwise.cast_kernel[(1,)](codes.view(fp8), wide, 1024, BLOCK=1024)
    expected = codes.view(fp8).float()
    assert torch.equal(wide.isnan(), expected.isnan()) and torch.equal(wide.nan_to_num(), expected.nan_to_num())
    elementwise.cast_kernel[(1,)](wide, back.view(fp8), 1024, BLOCK=1024)
    assert torch.equal(torch.where(wide.isnan(), codes, back), codes)

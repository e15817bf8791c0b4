"""HIP kernels, launched with a block of their own: results equal numpy's, and residency follows the launch."""

from __future__ import annotations

import importlib.util
import math
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.devices.loader import load_device
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.launch import LaunchResult, simulate_launch

HERE = Path(__file__).parent / "compile" / "hip"
HAS_COMPILER = shutil.which("hipcc") is not None or importlib.util.find_spec("ziglang") is not None
pytestmark = [
    pytest.mark.compile,
    pytest.mark.execute,
    pytest.mark.skipif(not HAS_COMPILER, reason="neither hipcc nor ziglang is installed"),
]
ARCHITECTURES = {"gfx942": "mi300x", "gfx950": "mi355x"}
every_architecture = pytest.mark.parametrize("arch", ARCHITECTURES)


@cache
def code(file: str, name: str, arch: str) -> CodeObject:
    return next(item for item in compile_hip(HERE / file, arch=arch) if name in item.name)


def launch(
    file: str,
    name: str,
    *values: np.ndarray | int,
    grid: tuple[int, int, int],
    block: tuple[int, int, int] | None,
    arch: str = "gfx942",
    lds_bytes: int = 0,
) -> LaunchResult:
    memory = AddressSpace()
    arguments = [
        memory.map_array(value, f"argument {index}") if isinstance(value, np.ndarray) else value
        for index, value in enumerate(values)
    ]
    device = load_device(ARCHITECTURES[arch])
    return simulate_launch(
        code(file, name, arch),
        grid=grid,
        block=block,
        lds_bytes=lds_bytes,
        arguments=arguments,
        memory=memory,
        device=device,
    )


def uniform(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-4, 4, shape).astype(np.float32)


@every_architecture
@pytest.mark.parametrize("items", [64, 100, 256, 1024])
def test_vector_add_of_any_block(arch: str, items: int) -> None:
    n = 10_000
    a, b, out = uniform(n), uniform(n, seed=2), np.zeros(n, dtype=np.float32)
    result = launch(
        "vector_add.hip", "vector_add", a, b, out, n, grid=(-(-n // items), 1, 1), block=(items, 1, 1), arch=arch
    )
    np.testing.assert_array_equal(out, a + b)
    waves = -(-items // 64)
    assert result.traffic.residency.waves_per_workgroup == waves
    first = result.execution.executed[0]
    assert first == waves * -(-n // items)


@every_architecture
def test_a_reduction_in_lds(arch: str) -> None:
    n, items = 5_000, 128
    data, out = uniform(n), np.zeros(-(-n // items), dtype=np.float32)
    launch("workgroup.hip", "block_sum", data, out, n, grid=(len(out), 1, 1), block=(items, 1, 1), arch=arch)
    padded = np.zeros(len(out) * items, dtype=np.float32)
    padded[:n] = data
    part = padded.reshape(-1, items)
    while part.shape[1] > 1:
        half = part.shape[1] // 2
        part = part[:, :half] + part[:, half:]
    np.testing.assert_array_equal(out, part[:, 0])


@every_architecture
def test_lds_of_a_size_that_the_launch_gives(arch: str) -> None:
    items = 192
    data = np.arange(items * 4, dtype=np.int32)
    out = np.zeros_like(data)
    result = launch(
        "workgroup.hip", "reverse", data, out, grid=(4, 1, 1), block=(items, 1, 1), arch=arch, lds_bytes=items * 4
    )
    np.testing.assert_array_equal(out, data.reshape(4, items)[:, ::-1].ravel())
    assert result.kernel.resources.lds_bytes == items * 4
    assert result.execution.stray_lds_accesses == 0


@every_architecture
def test_values_of_other_lanes(arch: str) -> None:
    data = np.random.default_rng(3).integers(-1000, 1000, 1024, dtype=np.int32)
    out = np.zeros(16, dtype=np.int32)
    launch("workgroup.hip", "wave_sum", data, out, grid=(4, 1, 1), block=(256, 1, 1), arch=arch)
    np.testing.assert_array_equal(out, data.reshape(16, 64).sum(axis=1))


@every_architecture
def test_atomics(arch: str) -> None:
    n = 3_000
    data = np.random.default_rng(4).integers(0, 1 << 30, n, dtype=np.uint32)
    bins, total = np.zeros(16, dtype=np.uint32), np.zeros(1, dtype=np.float32)
    launch("workgroup.hip", "histogram", data, bins, total, n, grid=(12, 1, 1), block=(256, 1, 1), arch=arch)
    np.testing.assert_array_equal(bins, np.bincount(data & 15, minlength=16))
    assert total[0] == n / 2


@every_architecture
def test_a_block_of_two_axes(arch: str) -> None:
    rows, columns = 70, 45
    data, out = uniform(rows, columns), np.zeros((columns, rows), dtype=np.float32)
    result = launch(
        "workgroup.hip", "transpose", data, out, rows, columns, grid=(3, 5, 1), block=(16, 16, 1), arch=arch
    )
    np.testing.assert_array_equal(out, data.T)
    assert result.traffic.residency.waves_per_workgroup == 4


@every_architecture
def test_mathematics_is_that_of_the_device_library(arch: str) -> None:
    n = 512
    x = uniform(n)
    out = np.zeros((24, n), dtype=np.float32)
    launch("mathematics.hip", "mathematics", x, out, n, grid=(2, 1, 1), block=(256, 1, 1), arch=arch)
    wide, y = x.astype(np.float64), np.roll(x, -1).astype(np.float64)
    size = np.abs(wide)
    expected = [
        np.sin(wide), np.cos(wide), np.tan(wide), np.tanh(wide), np.exp(wide), np.exp2(wide),
        np.log(size), np.log10(size),
        np.sqrt(size), 1 / np.sqrt(size), size**y, np.cbrt(wide), np.vectorize(math.erf)(wide), np.arctan2(wide, y),
        np.hypot(wide, y), np.fmod(wide, y), np.floor(wide), np.ceil(wide), np.rint(wide), np.trunc(wide),
        wide * y + 1, np.fmin(wide, y), np.fmax(wide, y), np.copysign(wide, y),
    ]  # fmt: skip
    for row, (got, want) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_allclose(got, want, rtol=6e-7, atol=4e-7, err_msg=f"row {row}")


def test_mathematics_in_double_precision() -> None:
    n = 256
    x = np.random.default_rng(5).uniform(-4, 4, n)
    out = np.zeros((6, n))
    launch("mathematics.hip", "mathematics64", x, out, n, grid=(1, 1, 1), block=(256, 1, 1))
    size = np.abs(x)
    for got, want in zip(out, [np.cbrt(x), np.exp(x), np.log(size), size**1.5, np.sqrt(size), np.tanh(x)], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)


@every_architecture
def test_constants_and_functions_that_the_linker_puts_in(arch: str) -> None:
    n = 300
    data, out = uniform(n), np.zeros(n, dtype=np.float32)
    launch("linked.hip", "convolve", data, out, n, grid=(2, 1, 1), block=(256, 1, 1), arch=arch)
    table = np.array([9, 8, 7, 6, 5, 4, 3, 2], dtype=np.float64)
    expected = np.correlate(data.astype(np.float64), [0.5, 1, 2, -1]) + table[np.arange(n - 3) % 8]
    np.testing.assert_allclose(out[: n - 3], expected, rtol=1e-6, atol=2e-6)
    launch("linked.hip", "call", out, n, grid=(2, 1, 1), block=(256, 1, 1), arch=arch)
    np.testing.assert_array_equal(out, table[np.arange(1, n + 1) % 8] * 0.25)


@every_architecture
def test_half_precision(arch: str) -> None:
    n = 512
    a, b = uniform(n).astype(np.float16), uniform(n, seed=2).astype(np.float16)
    out, wide = np.zeros(n, dtype=np.float16), np.zeros(n, dtype=np.float32)
    launch("narrow.hip", "halves", a, b, out, wide, n, grid=(2, 1, 1), block=(256, 1, 1), arch=arch)
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(wide, x * y + (x < y), rtol=2e-7, atol=2e-7)
    # A fused product and sum, then one fused with the next product: each is rounded once.
    fused = (x * y + 1).astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(out, ((a - b).astype(np.float64) * 0.5 + fused).astype(np.float16))
    out, wide = np.zeros(n, dtype=np.float16), np.zeros(n, dtype=np.float32)
    launch("narrow.hip", "pairs", a, b, out, wide, n // 2, grid=(1, 1, 1), block=(256, 1, 1), arch=arch)
    np.testing.assert_array_equal(out, (x * y + 2).astype(np.float16))
    np.testing.assert_array_equal(wide, (a + b).astype(np.float32))


@every_architecture
def test_brain_floats(arch: str) -> None:
    n = 256

    def rounded(values: np.ndarray) -> np.ndarray:
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)

    a = rounded(uniform(n))
    out = np.zeros(n, dtype=np.uint16)
    half_way = (a.view(np.uint32) >> 16).astype(np.uint16)
    factor = int(np.float32(1.7).view(np.uint32))
    launch("narrow.hip", "brains", half_way, out, factor, n, grid=(1, 1, 1), block=(256, 1, 1), arch=arch)
    expected = rounded(rounded(a * np.float32(1.7)) + a)
    np.testing.assert_array_equal((out.astype(np.uint32) << 16).view(np.float32), expected)


def test_waves_occupancy_and_time_follow_the_launch_and_not_the_bound() -> None:
    n = 1 << 16
    a, b, out = uniform(n), uniform(n, seed=2), np.zeros(n, dtype=np.float32)
    by_items = {
        items: launch("vector_add.hip", "vector_add", a, b, out, n, grid=(n // items, 1, 1), block=(items, 1, 1))
        for items in (64, 256, 1024)
    }
    assert [item.traffic.residency.workgroups_per_cu for item in by_items.values()] == [32, 8, 2]
    # The same lanes do the same: everything that is counted a lane is equal, however they are put into workgroups.
    assert len({item.execution.executed.sum() for item in by_items.values()}) == 1
    assert len({item.traffic.hbm_read_bytes for item in by_items.values()}) == 1


def test_without_a_block_the_workgroup_is_as_large_as_the_kernel_was_compiled_for() -> None:
    n = 2048
    a, b, out = uniform(n), uniform(n, seed=2), np.zeros(n, dtype=np.float32)
    result = launch("vector_add.hip", "vector_add", a, b, out, n, grid=(2, 1, 1), block=None)
    np.testing.assert_array_equal(out, a + b)
    assert result.traffic.residency.waves_per_workgroup == 16


def test_dynamic_lds_limits_the_workgroups_of_a_compute_unit() -> None:
    data = np.zeros(256, dtype=np.int32)
    result = launch(
        "workgroup.hip", "reverse", data, data.copy(), grid=(1, 1, 1), block=(256, 1, 1), lds_bytes=20 * 1024
    )
    assert result.traffic.residency.workgroups_per_cu == 3
    assert result.traffic.residency.limiter == "LDS"


@pytest.mark.parametrize(
    ("block", "lds_bytes", "message"),
    [
        ((512, 1, 1), 0, "at most 256"),
        ((0, 1, 1), 0, "work-items"),
        ((64, 1, 1), -4, "-4"),
        ((64, 1, 1), 1 << 20, "LDS"),
    ],
)
def test_launches_that_cannot_be(block: tuple[int, int, int], lds_bytes: int, message: str) -> None:
    data = np.zeros(256, dtype=np.float32)
    with pytest.raises(LaunchError, match=message):
        launch("workgroup.hip", "block_sum", data, data.copy(), 256, grid=(1, 1, 1), block=block, lds_bytes=lds_bytes)

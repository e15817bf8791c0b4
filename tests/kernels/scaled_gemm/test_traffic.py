"""Bytes that the executed kernel moves, against a count of its panels that knows nothing of its code."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.device import native_format
from wavecast.kernels.scaled_gemm import scaled_gemm
from wavecast.kernels.scaled_gemm.plan import plan_gemm
from wavecast.simulator.devices import load_device
from wavecast.simulator.timing.gemm import Configuration, GemmProblem, Tile
from wavecast.simulator.timing.gemm.reuse import Caches, movement
from wavecast.simulator.virtual import virtual_device

pytestmark = pytest.mark.execute


@pytest.mark.parametrize(("name", "m", "n", "k"), [("mi300x", 1024, 1216, 1024), ("mi355x", 1024, 1216, 1024)])
def test_executed_bytes_equal_those_of_the_panels_of_its_tile_order(name: str, m: int, n: int, k: int) -> None:
    device = load_device(name)
    dtype = native_format(device.arch).dtype
    a = torch.zeros(m, k, dtype=torch.uint8).view(dtype)
    b = torch.zeros(n, k, dtype=torch.uint8).view(dtype).t()
    with virtual_device(name) as virtual:
        scaled_gemm(a, b, torch.ones(m, 1), torch.ones(1, n))
    (launch,) = virtual.launches
    traffic = launch.result.traffic
    plan = plan_gemm(m, n, k, element_bytes=1, arch=device.arch)
    order = Configuration(Tile(plan.block_m, plan.block_n), window=plan.band, chunked=True)
    caches = Caches(plan.programs, plan.xcds, int(device.l2.bytes_per_xcd), device.mall.bytes, warm=False)
    counted = movement(GemmProblem.dense(m, n, k, "fp8"), order, caches)
    # Scales come on top, and tiles at the edge read their last row again.
    assert traffic.l2_read_bytes == pytest.approx(counted.l2_read, rel=0.06)
    assert traffic.fabric_read_bytes == pytest.approx(counted.fabric_read, rel=0.05)
    assert traffic.hbm_read_bytes == pytest.approx(counted.hbm_read, rel=0.02)
    assert traffic.hbm_write_bytes == pytest.approx(counted.written, rel=0.02)

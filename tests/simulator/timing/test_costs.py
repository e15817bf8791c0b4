"""What instructions cost: shares of the device's time add up, and levels are drawn as the traffic says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.compute_unit import Demand, KnownCosts, kernel_form, price
from wavecast.simulator.timing.compute_unit.layout import NO_LIMIT, TICKS_PER_CLK, WHOLE, Cost
from wavecast.simulator.traffic import Traffic

LOADS_AND_STORES = [
    "global_load_dword v1, v0",
    "global_load_dwordx4 v1, v0",
    "global_store_dword v0, v1",
    "s_endpgm",
]


@pytest.fixture
def costs_of(
    device: Device, kernel_of: Callable[..., Kernel], traffic_of: Callable[..., Traffic]
) -> Callable[..., np.ndarray]:
    def build(
        texts: list[str],
        rows: dict[int, dict[str, int]] | None = None,
        demand: Demand | None = None,
        *,
        warm: float = 0.0,
    ) -> np.ndarray:
        kernel = kernel_of(texts)
        traffic = traffic_of(kernel, device, 10)
        changed = tuple(replace(row, **(rows or {}).get(row.index, {})) for row in traffic.instructions)
        traffic = replace(traffic, instructions=changed)
        return price(kernel_form(kernel, traffic, device), device, demand or Demand(), warm=warm)

    return build


def test_a_workgroups_demand_is_spread_over_its_instructions(costs_of: Callable[..., np.ndarray]) -> None:
    """Ten workgroups of four waves; a share that only some executions reach is larger where they do."""
    rows = {0: {"l1_hits": 60, "l2_requests": 20, "l2_hits": 5}, 1: {"l2_hits": 10}}
    costs = costs_of(LOADS_AND_STORES, rows, Demand(l2=1000.0, memory=5000.0))
    beyond_l2 = costs[:, Cost.BEYOND_L1] / WHOLE * costs[:, Cost.BEYOND_L2]
    reached = np.where(costs[:, Cost.POSTED] > 0, WHOLE, beyond_l2) / WHOLE
    l2 = costs[:, Cost.L2] * costs[:, Cost.BEYOND_L1] / WHOLE
    assert 4 * l2.sum() / TICKS_PER_CLK == pytest.approx(1000, rel=1e-3)
    assert 4 * (costs[:, Cost.MEMORY] * reached).sum() / TICKS_PER_CLK == pytest.approx(5000, rel=1e-3)


def test_levels_are_reached_in_the_proportions_of_the_traffic(costs_of: Callable[..., np.ndarray]) -> None:
    """Eighty lines, two an execution that lie side by side: half hit L1, a quarter of the rest L2, and so on."""
    rows = {0: {"l1_hits": 40, "l2_requests": 40, "l2_hits": 10, "mall_hits": 15}}
    shares = costs_of(LOADS_AND_STORES, rows)[0, [Cost.BEYOND_L1, Cost.BEYOND_L2, Cost.BEYOND_MALL]] / WHOLE
    assert shares.tolist() == pytest.approx([0.5, 0.75, 0.75 * 0.5])
    warmed = costs_of(LOADS_AND_STORES, rows, warm=1.0)[0]
    assert warmed[Cost.BEYOND_MALL] == 0


def test_a_line_on_its_way_takes_as_long_as_one_that_is_not_there(costs_of: Callable[..., np.ndarray]) -> None:
    """Eighty lines beyond L1: of 60 that L2 has 20 are on their way, 5 of those and 5 the cache has from HBM."""
    counts = {"l1_hits": 0, "l2_requests": 80, "l2_hits": 60, "mall_hits": 15, "l2_joined": 20, "mall_joined": 10}
    costs = costs_of(LOADS_AND_STORES, {0: counts})[0]
    assert costs[[Cost.BEYOND_L1, Cost.BEYOND_L2, Cost.BEYOND_MALL]].tolist() == pytest.approx(
        [WHOLE, 40 / 80 * WHOLE, 15 / 80 * WHOLE]
    )


def test_scattered_lines_find_their_levels_independently(costs_of: Callable[..., np.ndarray]) -> None:
    """Of 64 lines, each of which hits L1 nine times out of ten, some line nearly always misses."""
    lines = 64 * 40
    rows = {0: {"lines": lines, "l1_hits": lines * 9 // 10, "l2_requests": lines // 10, "l2_hits": lines // 10}}
    costs = costs_of(LOADS_AND_STORES, rows)[0]
    assert costs[Cost.BEYOND_L1] / WHOLE == pytest.approx(1 - 0.9**32)
    assert costs[Cost.BEYOND_L2] == 0


def test_scattered_lines_miss_l2_together_or_each_for_itself(costs_of: Callable[..., np.ndarray]) -> None:
    """64 lines, none in L1, where two lie side by side in as many bytes: one in ten misses L2. All at once, a tenth of
    the executions goes past it, each for itself 97 %; nobody counted, so it is the geometric mean."""
    lines = 64 * 40
    rows = {0: {"lines": lines, "l1_hits": 0, "l2_requests": lines, "l2_hits": lines * 9 // 10}}
    costs = costs_of(LOADS_AND_STORES, rows)[0]
    assert costs[Cost.BEYOND_L1] == WHOLE
    assert costs[Cost.BEYOND_L2] / WHOLE == pytest.approx((0.1 * (1 - 0.9**32)) ** 0.5)


def test_one_lane_asks_for_one_line(costs_of: Callable[..., np.ndarray]) -> None:
    """However few bytes all executions ask for, lines of different ones are not scattered."""
    rows = {0: {"lanes": 40, "bytes_asked": 160, "lines": 40, "l1_hits": 20, "l2_requests": 20, "l2_hits": 10}}
    shares = costs_of(LOADS_AND_STORES, rows)[0, [Cost.BEYOND_L1, Cost.BEYOND_L2]] / WHOLE
    assert shares.tolist() == pytest.approx([0.5, 0.5])


def test_a_store_goes_to_l2_whatever_the_lines_before_it_did(costs_of: Callable[..., np.ndarray]) -> None:
    store = costs_of(LOADS_AND_STORES)[2]
    assert (store[Cost.BEYOND_L1], store[Cost.BEYOND_L2], store[Cost.POSTED]) == (WHOLE, 0, 1)
    assert (store[Cost.FILL], store[Cost.LINES]) == (0, 0)


def test_narrow_stores_take_a_price_a_quad(costs_of: Callable[..., np.ndarray]) -> None:
    rows = {0: {"bytes_asked": 40 * 64, "quad_clk": 40 * 16, "run_clk": 40}}
    costs = costs_of(["global_store_byte v0, v1", "s_endpgm"], rows)
    assert costs[0, Cost.ADDRESS] / TICKS_PER_CLK == pytest.approx(16 * 1.32, abs=0.01)


def test_a_store_takes_a_cycle_for_each_request(costs_of: Callable[..., np.ndarray]) -> None:
    """16 lanes across the end of a segment go together, but what they store leaves in a request for each part."""
    rows = {0: {"run_clk": 40 * 8, "requests": 40 * 12}}
    for text, clk in (("global_store_dword v0, v1", 12), ("global_load_dword v0, v1", 8)):
        assert costs_of([text, "s_endpgm"], rows)[0, Cost.ADDRESS] / TICKS_PER_CLK == clk


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("s_waitcnt vmcnt(3)", (3, NO_LIMIT)),
        ("s_waitcnt vmcnt(0) lgkmcnt(2)", (0, 2)),
        ("s_waitcnt lgkmcnt(0)", (NO_LIMIT, 0)),
        ("s_waitcnt expcnt(0)", (NO_LIMIT, NO_LIMIT)),
        ("s_waitcnt 0x8f71", (33, NO_LIMIT)),
        ("s_waitcnt 0", (0, 0)),
    ],
)
def test_waits(costs_of: Callable[..., np.ndarray], text: str, left: tuple[int, int]) -> None:
    row = costs_of([text, "s_endpgm"])[0]
    assert (row[Cost.VECTOR_LEFT], row[Cost.LGKM_LEFT]) == left


def test_a_wait_that_is_not_understood_is_refused(costs_of: Callable[..., np.ndarray]) -> None:
    with pytest.raises(AssemblyError, match=r"'s_waitcnt somecnt\(1\)' waits for no counter that is known"):
        costs_of(["s_waitcnt somecnt(1)", "s_endpgm"])


def test_costs_that_are_known_are_those_of_the_constants(
    device: Device, kernel_of: Callable[..., Kernel], traffic_of: Callable[..., Traffic]
) -> None:
    """Moving any constant gives what ``price`` gives; what the kernel has no instruction for is not priced again."""
    kernel = kernel_of(LOADS_AND_STORES)
    form = kernel_form(kernel, traffic_of(kernel, device, 10), device)
    known, demand = KnownCosts(form), Demand(l2=1000.0, memory=5000.0)
    point = known.price(device, demand, warm=0.0)
    unmoved = set()
    for key in device.uncertain:
        for end in (device.quantities[key].low, device.quantities[key].high):
            moved = device.with_value(key, end)
            costs = known.price(moved, demand, warm=0.0)
            np.testing.assert_array_equal(costs.ticks, price(form, moved, demand, warm=0.0))
            if costs is point:
                unmoved.add(key)
    assert {"fences.writeback_clk", "atomics.latency_clk", "lds.latency_clk", "hbm.read_tb_s"} <= unmoved
    assert not {"l1.latency_clk", "l2.store_ack_clk", "l2.latency_clk"} & unmoved
    assert known.price(device, Demand(l2=2000.0), warm=0.0).key != point.key

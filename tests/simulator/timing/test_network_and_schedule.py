"""The queueing network and the list schedule, on cases with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavecast.simulator.timing.network import Demands, residence
from wavecast.simulator.timing.schedule import Schedule, equal_schedule, list_schedule


@pytest.mark.parametrize(("waves", "published_clk", "exact_clk"), [(4, 362, 362), (8, 447, 455), (12, 590, 586)])
def test_nbody_inner_iteration(waves: int, published_clk: int, exact_clk: int) -> None:
    """sarchlab/mgpusim, nbody on MI300A: cycles an iteration with one, two and three workgroups on a compute unit."""
    life = residence(Demands(362 - 184, 184, 0, 0, 0), waves, simds=4).life_clk
    assert life == pytest.approx(exact_clk, abs=1)
    assert life == pytest.approx(published_clk, rel=0.02)


def test_one_wave_never_queues() -> None:
    found = residence(Demands(100, 10, 20, 30, 40), 1, simds=4)
    assert found.life_clk == 200


def test_many_waves_are_bound_by_the_busiest_unit() -> None:
    life = residence(Demands(100, 4, 50, 1, 1), 64, simds=4).life_clk
    assert life / 64 == pytest.approx(50, rel=0.01)


def test_waves_without_any_work() -> None:
    assert residence(Demands(0, 0, 0, 0, 0), 8, simds=4).life_clk == 0


clk = st.floats(0, 1e4)


@given(clk, clk, clk, clk, clk, st.integers(1, 32))
def test_more_waves_live_longer_and_get_more_done(
    think: float, simd: float, address: float, fill: float, lds: float, waves: int
) -> None:
    demands = Demands(think, simd, address, fill, lds)
    few, many = (residence(demands, count, simds=4).life_clk for count in (waves, waves + 1))
    assert many >= few * (1 - 1e-9)
    if few > 1e-6 and (waves % 4 or simd == 0):
        assert (waves + 1) / many >= waves / few * (1 - 1e-9)


def test_equal_workgroups_go_in_rounds() -> None:
    assert equal_schedule(256, slots=228) == Schedule(1.0, 1.0, 28.0)
    assert equal_schedule(200, slots=228) == Schedule(0.0, 1.0, 200.0)
    assert equal_schedule(456, slots=228) == Schedule(1.0, 1.0, 228.0)
    assert list_schedule(np.full(256, 7), slots=228) == equal_schedule(256, slots=228)


def test_a_long_workgroup_makes_a_tail() -> None:
    work = np.ones(100)
    work[-1] = 10
    found = list_schedule(work, slots=10)
    mean = work.mean()
    assert found.filled * mean == pytest.approx(9)
    assert found.tail * mean == pytest.approx(10)
    assert found.tail_workgroups == pytest.approx((9 * 1 + 10) / 10)


def test_fewer_workgroups_than_slots() -> None:
    found = list_schedule(np.array([1.0, 3.0]), slots=10)
    assert (found.filled, found.tail) == (0.0, 1.5)


def test_nothing_to_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="0 workgroups on 4 slots"):
        list_schedule(np.zeros(0), slots=4)


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=60), st.integers(1, 20))
def test_the_schedule_is_no_shorter_than_its_bounds(work: list[float], slots: int) -> None:
    values = np.array(work)
    found = list_schedule(values, slots=slots)
    end = (found.filled + found.tail) * values.mean()
    assert end >= max(values.max(), values.sum() / slots) * (1 - 1e-9)
    assert end <= (values.sum() / slots + values.max()) * (1 + 1e-9)
    assert 0 < found.tail_workgroups <= min(slots, len(work)) * (1 + 1e-9)

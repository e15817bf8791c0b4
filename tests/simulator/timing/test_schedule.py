"""The list schedule, on cases with a known answer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavecast.simulator.timing.predict import _schedule
from wavecast.simulator.timing.schedule import Schedule, list_schedule


def test_equal_workgroups_go_in_rounds() -> None:
    assert list_schedule(np.ones(256), slots=228) == Schedule(1.0, 1.0, 28.0)
    assert list_schedule(np.full(200, 7), slots=228) == Schedule(0.0, 1.0, 200.0)
    assert list_schedule(np.ones(456), slots=228) == Schedule(1.0, 1.0, 228.0)


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


@pytest.mark.parametrize("total", [6_400, 65_536, 229_376, 1_000_003])
def test_a_small_sample_schedules_as_many_rounds_as_the_grid_has(total: int) -> None:
    """64 of very many workgroups, two of them longer, on 36 slots of each of 132 units."""
    work = np.full(64, 402)
    work[[7, 40]] = 450
    execution = SimpleNamespace(instructions_per_workgroup=work, total_workgroups=total)
    found, slots = _schedule(execution, 36 * 132)  # type: ignore[arg-type]
    assert found is not None
    assert slots >= 30
    rounds = total / (36 * 132)
    assert rounds - 1.1 < found.filled + found.tail - 1 < 1.03 * rounds + 0.2

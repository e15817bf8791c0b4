"""Places spread evenly, in step with nothing."""

from __future__ import annotations

import numpy as np

from wavecast.simulator.evenly import golden_fractions, spread_evenly


def test_places_do_not_fall_in_step_with_a_grid() -> None:
    for total, row in ((18432, 576), (4096, 64), (1000, 10)):
        chosen = spread_evenly(total, 16)
        assert (np.diff(chosen // (total // 16 + 1)) >= 0).all() and len(np.unique(chosen)) == 16
        # In each half of the rows there are some, and in most of their eighths.
        assert len(np.unique(chosen % row * 8 // row)) >= 6


def test_as_many_places_as_are_wanted_and_none_twice() -> None:
    for total in range(70):
        for count in range(40):
            chosen = spread_evenly(total, count)
            assert chosen.dtype == np.int64 and len(chosen) == min(total, count)
            assert (np.diff(chosen) > 0).all() and ((chosen >= 0) & (chosen < total)).all()


def test_few_that_are_left_out_are_spread_as_well() -> None:
    left_out = np.setdiff1d(np.arange(40), spread_evenly(40, 32))
    assert left_out.tolist() == spread_evenly(40, 8).tolist()


def test_any_few_fractions_in_turn_fill_the_range() -> None:
    for begin in range(50):
        found = np.sort(golden_fractions(np.arange(begin, begin + 8), first=0.5))
        assert np.diff(found, prepend=found[-1] - 1).max() < 0.25

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavecast.cli import simulate
from wavecast.cli.launches import LaunchFacts
from wavecast.cli.plots.shapley import exchange_gains, paired
from wavecast.simulator.timing import Bound

TERMS = [str(name) for name in Bound]
TIMES = st.floats(0, 1000)


def by_definition(
    before: Mapping[str, float], after: Mapping[str, float], combine: Callable[[Mapping[str, float]], float]
) -> dict[str, float]:
    """Every order of exchanging the terms, one after another."""
    gains: dict[str, list[float]] = {name: [] for name in before}
    for order in permutations(before):
        now = dict(before)
        for name in order:
            then = {**now, name: after[name]}
            gains[name].append(combine(now) - combine(then))
            now = then
    return {name: mean(values) for name, values in gains.items()}


def test_gains_are_the_mean_over_all_orders() -> None:
    def combine(terms: Mapping[str, float]) -> float:
        return max(terms["a"], terms["b"]) + terms["c"] * terms["a"]

    before, after = {"a": 5.0, "b": 4.0, "c": 3.0}, {"a": 1.0, "b": 2.0, "c": 7.0}
    assert exchange_gains(before, after, combine) == pytest.approx(by_definition(before, after, combine))


def test_of_two_equal_limits_each_is_credited_half() -> None:
    """Only both together make it faster, so neither may be left out nor take it all."""
    gains = exchange_gains({"a": 8.0, "b": 8.0}, {"a": 2.0, "b": 2.0}, lambda terms: max(terms.values()))
    assert gains == {"a": 3.0, "b": 3.0}


@settings(deadline=None, max_examples=20, derandomize=True)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=len(TERMS), max_size=len(TERMS)))
def test_gains_add_up_to_the_difference(values: list[tuple[float, float]]) -> None:
    combine = simulate.combined_us("mi300x")
    before = dict(zip(TERMS, (pair[0] for pair in values), strict=True))
    after = dict(zip(TERMS, (pair[1] for pair in values), strict=True))
    gains = exchange_gains(before, after, combine)
    assert sum(gains.values()) == pytest.approx(combine(before) - combine(after), abs=1e-8)
    assert all(gains[name] == 0 for name in TERMS if before[name] == after[name])
    # A term that becomes smaller never costs anything.
    assert all(gains[name] >= -1e-9 for name in TERMS if after[name] < before[name])


def test_terms_must_have_the_same_names() -> None:
    with pytest.raises(ValueError, match=r"\['a'\] exchanged for \['b'\]"):
        exchange_gains({"a": 1.0}, {"b": 1.0}, lambda terms: 0.0)


def test_equal_launches_are_paired_whatever_stands_between_them(launch: Callable[..., LaunchFacts]) -> None:
    amax, scale, cast = launch("amax", hbm=40.0), launch("scale", launch=2.0), launch("cast", hbm=60.0)
    assert paired((amax, scale, cast), (amax, cast)) == [(amax, amax), (scale, None), (cast, cast)]
    assert paired((amax, cast), (amax, scale, cast)) == [(amax, amax), (None, scale), (cast, cast)]


def test_one_launch_takes_the_place_of_the_most_similar(launch: Callable[..., LaunchFacts]) -> None:
    small, large, fused = launch("small", hbm=5.0), launch("large", hbm=90.0), launch("fused", hbm=80.0)
    assert paired((small, large, small), (fused,)) == [(small, None), (large, fused), (small, None)]
    assert paired((), (fused,)) == [(None, fused)]
    assert paired((), ()) == []

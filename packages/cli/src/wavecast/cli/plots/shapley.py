"""How much of a difference each of several causes accounts for, when they do not simply add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import comb, fsum

from wavecast.cli.launches import LaunchFacts

Combine = Callable[[Mapping[str, float]], float]


def exchange_gains(before: Mapping[str, float], after: Mapping[str, float], combine: Combine) -> dict[str, float]:
    """What exchanging each term for its new value gains, averaged over all orders of exchanging them (Shapley value).

    The gains add up to ``combine(before) - combine(after)``; equal terms gain nothing; a cause is credited the same
    whether it is named first or last. 2ⁿ evaluations for n terms that differ.

    Args:
        before: Terms by name.
        after: The same names.
        combine: From terms to the total.

    Returns:
        Gain by name, positive where the new term makes the total smaller.

    Raises:
        ValueError: If the names differ.
    """
    if set(before) != set(after):
        raise ValueError(f"terms {sorted(before)} exchanged for {sorted(after)}; wanted the same names")
    names = [name for name in before if before[name] != after[name]]
    players = len(names)
    totals = [
        combine({**before, **{name: after[name] for bit, name in enumerate(names) if taken >> bit & 1}})
        for taken in range(1 << players)
    ]
    gains = dict.fromkeys(before, 0.0)
    for bit, name in enumerate(names):
        gains[name] = fsum(
            (totals[taken] - totals[taken | 1 << bit]) / (players * comb(players - 1, taken.bit_count()))
            for taken in range(1 << players)
            if not taken >> bit & 1
        )
    return gains


def paired(
    before: tuple[LaunchFacts, ...], after: tuple[LaunchFacts, ...]
) -> list[tuple[LaunchFacts | None, LaunchFacts | None]]:
    """Launches of two variants side by side, in order, so that the terms differ least in sum; None where one has none.

    The least-cost alignment of two sequences: a pair costs the absolute differences of its terms, a launch without a
    partner all of its terms.
    """
    rows, columns = len(before) + 1, len(after) + 1
    costs = [[0.0] * columns for _ in range(rows)]
    for i in range(rows):
        for j in range(columns):
            ways = _ways(costs, before, after, i, j)
            costs[i][j] = min(ways)[0] if ways else 0.0
    pairs: list[tuple[LaunchFacts | None, LaunchFacts | None]] = []
    i, j = len(before), len(after)
    while i or j:
        _, back_i, back_j = min(_ways(costs, before, after, i, j))
        pairs.append((before[back_i] if back_i < i else None, after[back_j] if back_j < j else None))
        i, j = back_i, back_j
    return pairs[::-1]


def _ways(
    costs: list[list[float]], before: tuple[LaunchFacts, ...], after: tuple[LaunchFacts, ...], i: int, j: int
) -> list[tuple[float, int, int]]:
    """(cost, i, j before) of every way to end an alignment of the first ``i`` with the first ``j`` launches."""
    ways = []
    if i and j:
        ways.append((costs[i - 1][j - 1] + _distance(before[i - 1].terms, after[j - 1].terms), i - 1, j - 1))
    if i:
        ways.append((costs[i - 1][j] + _distance(before[i - 1].terms, {}), i - 1, j))
    if j:
        ways.append((costs[i][j - 1] + _distance({}, after[j - 1].terms), i, j - 1))
    return ways


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(abs(one.get(name, 0.0) - other.get(name, 0.0)) for name in {**one, **other})

"""The compiled event loop equals the plain one, on random streams and costs."""

from __future__ import annotations

import numpy as np
import pytest
from plain_unit import PlainUnit

from wavecast.simulator.timing.compute_unit.events import simulate
from wavecast.simulator.timing.compute_unit.layout import (
    COSTS,
    NO_LIMIT,
    PARTS,
    UNKNOWN,
    WHOLE,
    Action,
    Cost,
    Pipe,
    Size,
    Spent,
)

INSTRUCTIONS = 24


def random_costs(random: np.random.Generator) -> np.ndarray:
    costs = np.zeros((INSTRUCTIONS, COSTS), dtype=np.int64)
    for row in costs:
        row[Cost.ACTION] = random.choice([0, 0, 0, 1, 1, 2, 4, 4, 4, 5, 6])
        row[Cost.PIPE] = random.integers(-1, 4) if row[Cost.ACTION] == Action.PLAIN else Pipe.NONE
        row[Cost.ISSUE], row[Cost.BUSY] = random.integers(1, 600, 2)
        row[Cost.JUMP] = random.integers(0, 800)
        row[Cost.VECTOR_LEFT], row[Cost.LGKM_LEFT] = random.choice([0, 1, 3, NO_LIMIT], 2)
        is_vector = row[Cost.ACTION] == Action.VECTOR_MEMORY
        row[Cost.COUNTS_VECTOR] = is_vector
        row[Cost.COUNTS_LGKM] = row[Cost.ACTION] in (Action.LDS, Action.SCALAR_MEMORY) or random.random() < 0.2
        for column in (Cost.ADDRESS, Cost.FILL, Cost.L2, Cost.MEMORY, Cost.ATOMICS, Cost.FENCES):
            row[column] = random.integers(0, 3000) * (random.random() < 0.6)
        row[Cost.LDS] = random.integers(0, 2000) * (row[Cost.ACTION] == Action.LDS or random.random() < 0.2)
        row[Cost.POSTED] = random.random() < 0.3
        row[Cost.ORDERED] = random.random() < 0.6
        row[Cost.BEYOND_L1] = round(random.random() * WHOLE) * (random.random() < 0.8)
        shares = np.sort(random.random(2))[::-1]
        row[[Cost.BEYOND_L2, Cost.BEYOND_MALL]] = np.rint(shares * WHOLE)
        row[Cost.LATENCY_L1 : Cost.LATENCY_HBM + 1] = np.sort(random.integers(1, 60_000, 4))
        row[Cost.LATER_LATENCY] = random.integers(1, 5000)
        row[Cost.LINES] = random.integers(0, 12)
    costs[-1, Cost.ACTION], costs[-1, Cost.PIPE] = Action.END, Pipe.NONE
    return costs


@pytest.mark.parametrize("seed", range(40))
def test_the_compiled_loop_equals_the_plain_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = np.zeros(len(Size), dtype=np.int64)
    sizes[Size.SLOTS], sizes[Size.WAVES], sizes[Size.WORKGROUPS] = random.integers(1, [5, 7, 12])
    sizes[Size.SIMDS], sizes[Size.POOL], sizes[Size.LINES] = random.integers(1, [5, 4, 40])
    sizes[Size.INTERVAL], sizes[Size.START] = random.integers(0, 20_000, 2)
    sizes[Size.SPREAD] = random.integers(0, 512)
    costs = random_costs(random)
    lengths = random.integers(1, 60, sizes[Size.POOL] * sizes[Size.WAVES])
    parts = [np.append(random.integers(0, INSTRUCTIONS - 1, length), INSTRUCTIONS - 1) for length in lengths]
    code = np.concatenate(parts).astype(np.int32)
    last = np.cumsum([len(part) for part in parts])
    first = last - [len(part) for part in parts]
    again = np.concatenate([[part[place] in part[:place] for place in range(len(part))] for part in parts])
    starts, ends = (np.zeros(sizes[Size.WORKGROUPS], dtype=np.int64) for _ in range(2))
    spent, shares = np.zeros((INSTRUCTIONS, len(Spent)), dtype=np.int64), np.zeros(PARTS, dtype=np.int64)
    missing = np.rint(random.choice([0.0, 0.3, 1.0], len(code)) * WHOLE).astype(np.int64)
    missing[random.random(len(code)) < 0.4] = UNKNOWN
    finish = simulate(code, again, missing, first, last, costs, sizes, starts, ends, spent, shares)

    plain = PlainUnit(code, missing, first, last, costs, sizes)
    assert plain.run() == finish
    assert [plain.starts[group] for group in range(len(starts))] == starts.tolist()
    assert [plain.ends[group] for group in range(len(ends))] == ends.tolist()
    np.testing.assert_array_equal(plain.spent, spent)
    np.testing.assert_array_equal(plain.parts, shares)
    # Every tick of every wave's life is accounted for, and twice the same.
    assert shares.sum() == spent[:, [Spent.ISSUE, Spent.STALL, Spent.WAIT]].sum() + shares[-1]

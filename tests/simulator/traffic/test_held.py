"""What an L2 that keeps two copies of some lines holds of writes at the end of a launch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.traffic.summary import _held_at_the_end

H200, MI300X = load_device("h200"), load_device("mi300x")
MB = 1_000_000


@pytest.mark.parametrize(
    ("simulated", "read", "written", "held"),
    [
        # 40 of 60 MB simulated. A copy: 60 / (1.5 + 1) instead of 40 / 2.
        (20 * MB, 200 * MB, 200 * MB, 24 * MB),
        # Twice as much read as written: 60 / (3 + 1) instead of 40 / 3.
        (40 * MB // 3, 400 * MB, 200 * MB, 15 * MB),
        # Nothing read: all of the L2.
        (40 * MB, 0, 200 * MB, 60 * MB),
        # Never more than was written.
        (30 * MB, 0, 30 * MB, 30 * MB),
    ],
)
def test_writes_lie_once_and_reads_one_and_a_half_times(simulated: int, read: int, written: int, held: int) -> None:
    observed = SimpleNamespace(last_write_back_bytes=simulated)
    assert _held_at_the_end(observed, read, written, H200) == pytest.approx(held, rel=1e-6)  # type: ignore[arg-type]


def test_where_lines_lie_once_the_simulation_says_it() -> None:
    observed = SimpleNamespace(last_write_back_bytes=7)
    assert _held_at_the_end(observed, 100, 50, MI300X) == 7  # type: ignore[arg-type]

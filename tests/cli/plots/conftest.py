from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from wavecast.cli import simulate
from wavecast.cli.launches import LaunchFacts, LevelBytes
from wavecast.cli.plots.comparison import Comparison, compare
from wavecast.cli.rows import Row, error_percent
from wavecast.simulator.timing import Bound

TERMS = [str(name) for name in Bound]
MB = 1e6


def a_launch(
    kernel: str = "kernel", *, device: str = "mi300x", counts: Mapping[str, Any] | None = None, **us: float
) -> LaunchFacts:
    """A launch whose terms are 0 but for those given, with the time that the device makes of them."""
    terms = {**dict.fromkeys(TERMS, 0.0), **{name.replace("_", "-"): value for name, value in us.items()}}
    launch = LaunchFacts(
        kernel=kernel,
        predicted_us=simulate.combined_us(device)(terms),
        terms=terms,
        bytes=LevelBytes(260 * MB, 70 * MB, 10 * MB, 500 * MB, 100 * MB, 300 * MB, 100 * MB, 150 * MB, 70 * MB),
        workgroups=1000,
        matrix_flop=0.0,
        vector_ops=1.5e9,
        instructions=1.5e9 / 64,
        l2_requests=7.1e7,
        lds_clk=1e6,
        atomic_requests=0.0,
        release_fences=0.0,
        last_write_back_bytes=0.0,
    )
    return replace(launch, **(counts or {}))


def a_comparison(
    launches: Mapping[str, tuple[LaunchFacts, ...]], *, device: str = "mi300x", **changes: Any
) -> Comparison:
    """The variants of an experiment by their launches, the baseline first; ``changes`` are of every row."""
    rows, predictions = [], []
    for variant, members in launches.items():
        time_us = sum(launch.predicted_us for launch in members)
        published = changes.get("published_us")
        row = Row(
            experiment="rowwise",
            variant=variant,
            baseline=next(iter(launches)),
            device=device,
            arch="gfx942",
            shape={"tokens": 32768, "n": 2048},
            predicted_us=time_us,
            predicted_low_us=0.8 * time_us,
            predicted_high_us=1.5 * time_us,
            error_percent=error_percent(time_us, published_us=published),
            minimum_bytes=200_000_000,
            wavecast="0.1.0",
            triton="3.7.1",
            spec=f"{device}-0",
            **changes,
        )
        rows.append(row)
        predictions.append(
            simulate.Prediction("gfx942", f"{device}-0", "3.7.1", (), time_us, None, None, launches=members)
        )
    found = compare(rows, predictions, device=simulate.device_facts(device))
    assert found is not None
    return found


@pytest.fixture
def launch() -> Callable[..., LaunchFacts]:
    return a_launch


@pytest.fixture
def comparison() -> Callable[..., Comparison]:
    return a_comparison


@pytest.fixture
def three_variants() -> Comparison:
    """Scattered stores; fewer requests but a launch more; all bytes once."""
    fast_bytes = LevelBytes(140 * MB, 70 * MB, 0, 140 * MB, 70 * MB, 140 * MB, 70 * MB, 133 * MB, 67 * MB)
    return a_comparison(
        {
            "byte-stores": (a_launch(launch=5.2, l2=400.0, hbm=50.0, mall=110.0, latency=30.0, l1=80.0),),
            "two-kernels": (
                a_launch("amax", launch=5.2, hbm=40.0, mall=50.0, issue=3.0),
                a_launch("cast", launch=1.7, hbm=50.0, mall=50.0, latency=3.0),
            ),
            "wavecast": (
                a_launch(
                    launch=5.2,
                    l2=12.0,
                    hbm=50.0,
                    mall=38.0,
                    issue=20.0,
                    counts={"l2_requests": 2e6, "bytes": fast_bytes},
                ),
            ),
        },
        published_us=500.0,
        published_source="somewhere",
    )

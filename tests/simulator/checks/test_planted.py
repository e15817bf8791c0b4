"""Every planted fault is found at its line, and kernels without a fault give no finding."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wavecast.simulator.checks import Check, Severity

pytestmark = [pytest.mark.compile, pytest.mark.execute]


def faulty_lines() -> dict[str, set[int]]:
    """Lines marked FAULT of every kernel."""
    result: dict[str, set[int]] = {}
    kernel = ""
    for number, line in enumerate((Path(__file__).parent / "planted.hip").read_text().splitlines(), start=1):
        if match := re.search(r"__global__ void (\w+)", line):
            kernel = match[1]
            result[kernel] = set()
        if line.endswith("// FAULT"):
            result[kernel].add(number)
    return result


LINES = faulty_lines()


@dataclass(frozen=True)
class Case:
    """A launch of a planted kernel.

    Attributes:
        name: Of the kernel.
        check: What must be found, or None.
        arguments: Makes the arguments.
        options: Of the launch.
        severity: Of the finding.
        facts: Attributes that the finding must have.
    """

    name: str
    check: Check | None
    arguments: Callable[[], tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)
    severity: Severity = Severity.ERROR
    facts: dict[str, Any] = field(default_factory=dict)


def words(*sizes: int) -> Callable[[], tuple[Any, ...]]:
    """Zeroed arrays of so many words."""
    return lambda: tuple(np.zeros(size, dtype=np.int32) for size in sizes)


def with_numbers(sizes: tuple[int, ...], *numbers: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (*words(*sizes)(), *numbers)


TWO = {"grid": 2}
PAIR = {"grid": 2, "block": 128}
ALL = tuple(range(64))
CASES = [
    Case(
        *("read_other_buffer", Check.OTHER_BUFFER, with_numbers((64, 64), 0)),
        *(
            {"distances": ((2, 0, 1),)},
            Severity.ERROR,
            {"lanes": ALL, "buffer": "argument 1", "offset": 0, "count": 64},
        ),
    ),
    Case(
        *("write_other_buffer", Check.OTHER_BUFFER, with_numbers((64, 64), 0)),
        *({"distances": ((2, 1, 0),)}, Severity.ERROR, {"buffer": "argument 0"}),
    ),
    Case("right_chosen_buffer", None, with_numbers((64, 64), 1)),
    Case(
        "lds_read_beyond",
        Check.LDS_BOUNDS,
        with_numbers((64,), 60),
        facts={"lanes": tuple(range(4, 64)), "offset": 256},
    ),
    Case("lds_write_beyond", Check.LDS_BOUNDS, with_numbers((64,), 1), facts={"lanes": (63,), "buffer": "LDS"}),
    Case(
        "misaligned_load",
        Check.MISALIGNED,
        words(65, 64),
        {},
        Severity.WARNING,
        {"offset": 1, "lanes": ALL, "count": 64},
    ),
    Case("misaligned_atomic", Check.MISALIGNED, words(4)),
    Case("misaligned_scalar", Check.MISALIGNED, with_numbers((8, 64), 6)),
    Case("misaligned_lds", Check.MISALIGNED, with_numbers((64,), 2), {}, Severity.WARNING, {"buffer": "LDS"}),
    Case("read_never_written", Check.NEVER_WRITTEN, words(64, 64), {"never_written": (0,)}, facts={"lanes": ALL}),
    Case("scalar_never_written", Check.NEVER_WRITTEN, with_numbers((8, 64), 3), {"never_written": (0,)}),
    Case("atomic_never_written", Check.NEVER_WRITTEN, words(64), {"never_written": (0,)}),
    Case("right_written_first", None, words(64, 64), {"never_written": (0, 1)}),
    Case(
        *("lds_never_written", Check.NEVER_WRITTEN, with_numbers((64,), 60)),
        facts={"lanes": (60, 61, 62, 63), "offset": 240, "count": 4},
    ),
    Case("lds_read_after_write", Check.RACE, words(256), {"block": 256}),
    Case("lds_write_after_read", Check.RACE, words(256), {"block": 256}),
    Case("lds_write_after_write", Check.RACE, words(256), {"block": 256}),
    Case("lds_bytes_after_write", Check.RACE, words(64), {"block": 256}, facts={"lanes": (0,), "offset": 64}),
    Case("right_lds_barrier", None, words(512), {"block": 256, "grid": 2}),
    Case("right_lds_atomics", None, words(16), {"block": 256}),
    Case("right_lds_same_value", None, with_numbers((256,), 5), {"block": 256}),
    Case("read_after_write_in_workgroup", Check.RACE, words(128, 128), {"block": 128}),
    Case("read_after_write", Check.RACE, words(128, 128), TWO, facts={"lanes": ALL, "offset": 0, "count": 64}),
    Case("write_after_read", Check.RACE, words(192, 128), TWO),
    Case("write_after_own_read", Check.RACE, words(64, 128), TWO),
    Case("write_after_write", Check.RACE, words(64), TWO),
    Case("bytes_after_write", Check.RACE, words(64), TWO, facts={"lanes": (0,), "offset": 63, "count": 1}),
    Case("plain_read_of_atomic", Check.RACE, words(1, 128), TWO),
    Case("right_bytes_side_by_side", None, words(64), TWO),
    Case("right_atomics", None, words(4), {"grid": 3, "block": 128}),
    Case("collision", Check.COLLISION, words(64), facts={"lanes": tuple(range(0, 64, 2))}),
    Case("lds_collision", Check.COLLISION, words(64)),
    Case("right_same_value", None, with_numbers((64,), 9)),
    Case("right_flag", None, words(128, 1, 128), PAIR),
    Case("right_system_flag", None, words(128, 1, 128), PAIR),
    Case("right_acquire_by_one", None, words(128, 1, 128), PAIR),
    Case("right_last_one_sums", None, words(320, 1, 64), {"grid": 5}),
    Case("right_released_sum", None, words(320, 1, 64), {"grid": 5}),
    Case("right_passed_on", None, words(64, 4, 256), {"grid": 4}),
    Case("right_written_through", None, words(128, 1, 128), PAIR),
    Case("no_release", Check.MISSING_RELEASE, words(128, 1, 128), PAIR),
    Case("no_wait", Check.MISSING_RELEASE, words(128, 1, 128), PAIR),
    Case("no_acquire", Check.MISSING_ACQUIRE, words(128, 1, 128), PAIR),
    Case("acquire_too_early", Check.MISSING_ACQUIRE, words(128, 1, 128), PAIR),
    Case("scopes_differ", Check.SCOPE, words(128, 1, 128), PAIR, Severity.WARNING),
    Case("flag_before_data", Check.RACE, words(64, 1, 64), TWO),
    Case("other_waves_not_waited_for", Check.RACE, words(128, 1, 128), PAIR),
    Case("plain_flag", Check.RACE, words(128, 1, 128), PAIR),
    Case("barrier_of_some_lanes", Check.BARRIER, with_numbers((64,), 32), {}, Severity.WARNING, {"lanes": ALL[:32]}),
    Case("different_barriers", Check.BARRIER, words(128), {"block": 128}, Severity.WARNING),
    Case("right_some_waves_end_early", None, with_numbers((256,), 128), {"block": 256}),
    Case("waits_for_a_later_workgroup", Check.SPIN, words(4), TWO, facts={"offset": 12, "buffer": "argument 0"}),
    Case("waits_and_broadcasts", Check.SPIN, words(1), {"block": 128}),
    Case("right_long_loop_of_one_atomic", None, with_numbers((1,), 150_000)),
    Case("right_long_loop_of_one_read", None, with_numbers((64,), 150_000)),
    Case("takes_a_lock_twice", Check.SPIN, words(1)),
    Case("waits_for_its_own_workgroup", Check.SPIN, words(128), {"block": 128}, facts={"buffer": "LDS"}),
]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_fault_and_nothing_else_is_found(planted: Callable[..., Any], case: Case, arch: str) -> None:
    run = planted(case.name, *case.arguments(), arch=arch, **case.options)
    if case.check is None:
        assert [str(finding) for finding in run.findings] == []
        return
    assert {finding.check for finding in run.findings} == {case.check}, [str(finding) for finding in run.findings]
    assert {finding.severity for finding in run.findings} == {case.severity}
    for finding in run.findings:
        assert finding.kernel == case.name
        # Which of the two sides of a race comes second is a matter of order.
        sites = (finding.site, finding.other) if case.check is Check.RACE else (finding.site,)
        lines = {site.source.line for site in sites if site and site.source}
        assert lines & LINES[case.name], str(finding)
    for name, value in case.facts.items():
        assert getattr(run.findings[0], name) == value, str(run.findings[0])
    assert (run.error is not None) == (case.check is Check.SPIN)


def test_every_kernel_of_the_file_is_launched() -> None:
    elsewhere = {"overflowed_index", "right_loaded_pointer"}
    assert {case.name for case in CASES} | elsewhere == set(LINES)

"""What the checks are made of: provenance of addresses, order by fences, the pattern of memory nobody wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wavecast.simulator.checks import Check, Finding, Severity, Site, mark_never_written
from wavecast.simulator.checks.cells import STEP_BITS, WAVE_BITS
from wavecast.simulator.checks.checker import LaunchCheck
from wavecast.simulator.checks.finding import ranges
from wavecast.simulator.checks.joins import EarlyCopies, early_copies
from wavecast.simulator.checks.ordering import order_of
from wavecast.simulator.checks.scan import Lack
from wavecast.simulator.checks.unwritten import never_written_words
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.program.assembly import parse_assembly

AGENT, SYSTEM = 2, 3


def thread(workgroup: int, wave: int = 0) -> int:
    return (workgroup + 1) << WAVE_BITS | wave


def time(epoch: int, step: int) -> int:
    return epoch << STEP_BITS | step


def rows(*entries: tuple[int, ...]) -> np.ndarray:
    return np.array(entries, dtype=np.int64).reshape(len(entries), 5)


def observations(*entries: tuple[int, ...], is_atomic: bool = True) -> np.ndarray:
    """Of (wave, time, writer, its time, address of the flag), all written by atomics or all by stores."""
    return np.array([(*entry, is_atomic) for entry in entries], dtype=np.int64)


def released(writer: int, at: int, scope: int = AGENT) -> tuple[tuple[int, ...], ...]:
    """A write-back at a time and the wait that completes it."""
    return (writer, at, at, scope, 0), (writer, at + 1, at, scope, 1)


def test_release_and_acquire_order_what_came_before_the_write_back() -> None:
    edges = observations((thread(1), time(0, 0), thread(0), time(1, 2), 64))
    order = order_of(thread(1), 0, 2, edges, rows(*released(thread(0), time(1, 0))), rows((thread(1), 0, 0, AGENT, 1)))
    assert order.ordered == {thread(0): time(1, 0), thread(0, 1): time(1, 0) - 1}
    assert order.observed == {thread(0): time(1, 2), thread(0, 1): time(1, 0) - 1}


@pytest.mark.parametrize(
    ("fences", "invalidations", "lack"),
    [
        ((), ((thread(1), 0, 0, AGENT, 1),), Lack.WRITE_BACK),
        (released(thread(0), 0)[:1], ((thread(1), 0, 0, AGENT, 1),), Lack.WAIT),
        (released(thread(0), 0), (), Lack.INVALIDATE),
        (released(thread(0), 0, SYSTEM), ((thread(1), 0, 0, AGENT, 1),), Lack.SCOPE),
        (released(thread(0), 0, 1), ((thread(1), 0, 0, 1, 1),), Lack.SCOPE),
    ],
)
def test_without_one_of_the_fences_nothing_is_ordered(fences: Any, invalidations: Any, lack: Lack) -> None:
    edges = observations((thread(1), 0, thread(0), 5, 64))
    order = order_of(thread(1), 0, 1, edges, rows(*fences), rows(*invalidations))
    assert (order.ordered, order.observed, order.lacking) == ({}, {thread(0): 5}, {thread(0): lack})


def test_order_goes_through_a_third_workgroup_but_not_around_its_fences() -> None:
    edges = observations((thread(1), 0, thread(0), 2, 64), (thread(2), 0, thread(1), 4, 68))
    fences = rows(*released(thread(0), 0), *released(thread(1), 2))
    both = rows((thread(1), 0, 0, AGENT, 1), (thread(2), 0, 0, AGENT, 1))
    assert order_of(thread(2), 0, 1, edges, fences, both).ordered[thread(0)] == 0
    missing = order_of(thread(2), 0, 1, edges, fences, both[1:])
    assert thread(0) not in missing.ordered
    assert missing.observed[thread(0)] == 2


def test_an_atomic_hands_on_what_it_saw_itself() -> None:
    """Relaxed additions to one counter: the last one sees all, by the release sequence."""
    edges = observations((thread(1), 2, thread(0), 2, 64), (thread(2), 2, thread(1), 2, 64))
    fences = rows(*released(thread(0), 0), *released(thread(1), 0))
    order = order_of(thread(2), 0, 1, edges, fences, rows((thread(2), 3, 3, AGENT, 1)))
    assert order.ordered == {thread(0): 0, thread(1): 0}


def test_an_atomic_that_releases_nothing_hands_on_what_others_released() -> None:
    """In the middle of a release sequence it is no break: only its own accesses are not in order."""
    edges = observations((thread(1), 2, thread(0), 2, 64), (thread(2), 2, thread(1), 2, 64))
    order = order_of(thread(2), 0, 1, edges, rows(*released(thread(0), 0)), rows((thread(2), 3, 3, AGENT, 1)))
    assert order.ordered == {thread(0): 0}
    assert (order.observed[thread(1)], order.lacking[thread(1)]) == (2, Lack.WRITE_BACK)


@pytest.mark.parametrize("is_atomic", [True, False])
def test_an_atomic_reads_on_what_its_wave_left_and_a_store_begins_anew(is_atomic: bool) -> None:
    """A wave polls twice; a third sees what the second poll, or a store after the first, left in the flag."""
    first, second = (thread(1), 2, thread(0), 2, 64), (thread(2), 2, thread(1), 5, 64)
    edges = np.concatenate([observations(first), observations(second, is_atomic=is_atomic)])
    order = order_of(thread(2), 0, 1, edges, rows(*released(thread(0), 0)), rows((thread(2), 3, 3, AGENT, 1)))
    assert (thread(0) in order.ordered) is is_atomic
    assert order.observed[thread(0)] == 2
    assert order.lacking[thread(1)] is Lack.WRITE_BACK


@pytest.mark.parametrize(
    ("relay", "lack"),
    [
        (((thread(1), 4, 4, SYSTEM, 0), (thread(1), 5, 4, SYSTEM, 1)), Lack.NOTHING),
        (((thread(1), 4, 4, SYSTEM, 0),), Lack.NOTHING),
        (((thread(1), 1, 1, SYSTEM, 0),), Lack.WRITE_BACK),
        ((), Lack.WRITE_BACK),
        (((thread(1), 4, 4, 1, 0),), Lack.SCOPE),
    ],
    ids=["release", "release not waited for", "release before the acquire", "no release", "release of the workgroup"],
)
def test_what_was_acquired_is_released_by_a_write_back_that_need_not_be_waited_for(
    relay: tuple[tuple[int, ...], ...], lack: Lack
) -> None:
    """Compilers leave that wait out; others have written back what the wave hands on, but not what it wrote itself."""
    edges = observations((thread(1), 2, thread(0), 2, 64), (thread(2), 2, thread(1), 6, 68))
    acquires = rows((thread(1), 3, 3, SYSTEM, 1), (thread(2), 3, 3, SYSTEM, 1))
    order = order_of(thread(2), 0, 1, edges, rows(*released(thread(0), 0, SYSTEM), *relay), acquires)
    assert (thread(0) in order.ordered) is (lack is Lack.NOTHING)
    assert order.observed[thread(0)] == 2
    if lack is not Lack.NOTHING:
        assert order.lacking[thread(0)] is lack
    assert (thread(1) in order.ordered) is (len(relay) == 2)


def test_barriers_hand_on_what_another_wave_acquired() -> None:
    edges = observations((thread(1, 1), time(0, 0), thread(0), 2, 64))
    fences, invalidations = rows(*released(thread(0), 0)), rows((thread(1, 1), 0, 0, AGENT, 1))
    assert order_of(thread(1, 0), 0, 2, edges, fences, invalidations).ordered == {}
    assert order_of(thread(1, 0), 1, 2, edges, fences, invalidations).ordered[thread(0)] == 0


@pytest.mark.parametrize("skip", [0, 4, 5, 7])
def test_what_was_written_is_told_from_what_was_not(skip: int) -> None:
    memory = np.zeros(200, dtype=np.uint8)
    mark_never_written(memory[skip : skip + 80])
    first = -(-skip // 4)
    words = never_written_words(memory.ctypes.data, 200)
    assert np.flatnonzero(words).tolist() == list(range(first, (skip + 80) // 4))
    memory[4 * first + 5] ^= 1
    assert not never_written_words(memory.ctypes.data, 200)[first + 1]
    # From an odd address on, the words are others and the answer is the same.
    assert never_written_words(memory.ctypes.data + 4 * first + 9, 40).all()


def test_memory_with_gaps_cannot_be_marked() -> None:
    with pytest.raises(LaunchError, match="gaps"):
        mark_never_written(np.zeros((8, 8), dtype=np.float32)[:, :4])


def test_a_finding_reads_as_a_sentence_with_all_it_knows() -> None:
    site = Site(None, "ds_read_b32 v0, v1", (1, 2, 0), 3)
    finding = Finding(
        *(Check.RACE, Severity.ERROR, "kernel", site, "read after write,", "a barrier"),
        lanes=(0, 1, 2, 5),
        address=16,
        buffer="LDS",
        offset=16,
        count=9,
    )
    assert str(finding).splitlines() == [
        "error: race: read after write, at LDS byte 16 (9 lanes in all)",
        "  in kernel kernel, no source line, 'ds_read_b32 v0, v1', workgroup (1, 2, 0), wave 3, lanes 0-2, 5",
        "  hint: a barrier",
    ]
    assert ranges(()) == ""


@pytest.mark.compile
@pytest.mark.execute
def test_index_that_overflows_32_bits_lands_in_another_buffer(planted: Callable[..., Any]) -> None:
    """Buffers lie 4 GiB apart or less, so that an offset without its sign may reach one."""
    source, target = np.zeros(64, dtype=np.int32), np.zeros(1 << 20, dtype=np.int32)
    # 2 MiB of guard behind the first buffer: the second begins 4 MiB, so 2^20 words, behind it.
    run = planted("overflowed_index", source, target, 1024, 1024)
    [finding] = [finding for finding in run.findings if finding.check is Check.OTHER_BUFFER]
    assert (finding.buffer, finding.offset, finding.lanes) == ("argument 1", 0, tuple(range(64)))


@pytest.mark.compile
@pytest.mark.execute
def test_pointers_that_come_from_memory_may_point_anywhere(planted: Callable[..., Any]) -> None:
    first, second = (np.zeros(64, dtype=np.float32) for _ in range(2))
    table = np.zeros(2, dtype=np.int64)
    # Where they will be mapped: buffers follow one another at 4 MiB, in the order of the arguments.
    table[:] = (1 << 40) + (1 << 22), (1 << 40) + (2 << 22)
    run = planted("right_loaded_pointer", table, 2, keep=(first, second))
    assert [str(finding) for finding in run.findings] == []
    assert set(second) == {1.0}


# What the registers' allocator of Triton 3.6 made of a public kernel, shortened.
_JOIN = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
\t.text
join:
\tv_cmp_gt_u32_e32 vcc, 32, v0
\ts_and_saveexec_b64 s[0:1], vcc
\ts_cbranch_execz .LBB0_2
\tv_mov_b32_e32 v1, v0
.LBB0_2:
\tv_writelane_b32 v255, s24, 30
{before}
\ts_mov_b32 s2, s26
\ts_or_b64 exec, exec, s[0:1]
{behind}
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel join
\t\t.amdhsa_next_free_vgpr 512
\t\t.amdhsa_accum_offset 256
\t.end_amdhsa_kernel
; NumVgprs: 256
; NumAgprs: 256
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:           []
    .name:           join
    .max_flat_workgroup_size: 64
...
\t.end_amdgpu_metadata
"""
_COPIES = "\tv_accvgpr_write_b32 a64, v232\n\tv_accvgpr_write_b32 a65, v233"


@pytest.mark.parametrize(
    ("before", "behind", "found"),
    [
        (_COPIES, "", [EarlyCopies((5, 6), 8)]),
        ("\tv_mov_b32_e32 v3, v2", "", [EarlyCopies((5,), 7)]),
        ("", _COPIES, []),
        ("\tv_mov_b32_e32 v3, 0", "", []),
        ("\tv_mov_b32_e32 v3, s2", "", []),
        ("\tv_mov_b32_e32 v3, v2\n\ts_mov_b64 exec, -1", "", []),
        ("\ts_andn2_saveexec_b64 s[0:1], s[0:1]\n\tv_mov_b32_e32 v3, v2", "", []),
        ("\tv_cmpx_gt_u32_e32 vcc, 8, v0\n\tv_mov_b32_e32 v3, v2", "", []),
    ],
    ids=["accumulation", "vector", "behind", "constant", "scalar", "other write of EXEC", "short else", "compare"],
)
def test_copies_before_the_lanes_join(before: str, behind: str, found: list[EarlyCopies]) -> None:
    assert early_copies(parse_assembly(_JOIN.format(before=before, behind=behind), name="join")) == found


def test_an_early_copy_is_an_error_with_both_places() -> None:
    kernel = parse_assembly(_JOIN.format(before=_COPIES, behind=""), name="join")
    checks = LaunchCheck(kernel, grid=(1, 1, 1), block=(64, 1, 1), arguments=(), memory=AddressSpace())
    (finding,) = checks.findings()
    assert (finding.check, finding.severity) == (Check.EARLY_COPY, Severity.ERROR)
    assert "2 registers are copied before the lanes" in str(finding)
    assert finding.site.instruction.split() == ["v_accvgpr_write_b32", "a64,", "v232"]
    assert finding.other is not None
    assert finding.other.instruction.startswith("s_or_b64 exec")

"""Reads of what a copy or another rank wrote need an acquire of system scope after the signal was seen."""

from __future__ import annotations

import pytest
from signal_kernels import chunk_sum_kernel, produce_kernel

from wavecast.simulator.checks import Check, Finding
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.virtual.node import NodeOptions, Seeded, virtual_node

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]
SIZE = 256


def by_copy(sem: str, scope: str, *, first: bool = False) -> tuple[Finding, ...]:
    """A kernel waits for a chunk that a copy brings; ``first``: it starts when the copy is over."""
    options = NodeOptions(check=True, blit_limit_bytes=0)
    with virtual_node("mi300x", 1, 1, options=options) as node:
        rank, source = node.rank(0), torch.ones(SIZE, dtype=torch.int32)
        gathered, signals = torch.zeros(SIZE, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        total, copies = torch.zeros(1, dtype=torch.int32), rank.stream("copies")
        node.share(0, signals, "signals")
        if first:
            rank.copy(gathered, source, copies)
            rank.write_signal(signals, 1, copies)
            rank.wait_stream(rank.stream(), copies)
        with rank.active():
            chunk_sum_kernel[(1,)](gathered, signals, total, SIZE=SIZE, SEM=sem, SCOPE=scope)
        if not first:
            for _ in range(40):  # so that the kernel polls already
                node.step()
            rank.copy(gathered, source, copies)
            rank.write_signal(signals, 1, copies)
        node.synchronize()
        assert total.item() == SIZE
        return node.findings


def test_an_acquire_of_system_scope_is_enough() -> None:
    assert by_copy("acquire", "sys") == ()


def test_no_acquire_is_found() -> None:
    [finding] = by_copy("relaxed", "sys")
    assert finding.check is Check.MISSING_ACQUIRE
    assert finding.count == SIZE
    assert finding.kernel == "chunk_sum_kernel"
    assert "rank 0 reads what a copy wrote while the kernel ran, with no acquire since" in str(finding)
    assert finding.site.source is not None
    assert finding.site.source.file.endswith("signal_kernels.py")


def test_an_acquire_of_the_devices_scope_is_too_narrow() -> None:
    [finding] = by_copy("acquire", "gpu")
    assert finding.check is Check.SCOPE
    assert "an acquire of the device's scope alone" in finding.message


def test_the_start_of_a_kernel_acquires_what_came_before() -> None:
    assert by_copy("relaxed", "sys", first=True) == ()


@pytest.mark.parametrize(("sem", "checks"), [("acquire", set()), ("relaxed", {Check.MISSING_ACQUIRE})])
def test_what_another_ranks_kernel_wrote_needs_one_too(sem: str, checks: set[Check]) -> None:
    with virtual_node("mi300x", 2, Seeded(3), options=NodeOptions(check=True)) as node:
        windows = [torch.zeros(SIZE, dtype=torch.int32) for _ in range(2)]
        signals = [torch.zeros(1, dtype=torch.int32) for _ in range(2)]
        totals = [torch.zeros(1, dtype=torch.int32) for _ in range(2)]
        for index in range(2):
            node.share(index, windows[index], "window")
            node.share(index, signals[index], "signals")
        for index in range(2):
            rank = node.rank(index)
            with rank.active():
                chunk_sum_kernel[(1,)](windows[index], signals[index], totals[index], SIZE=SIZE, SEM=sem, SCOPE="sys")
        for _ in range(60):
            node.step()
        for index in range(2):
            rank = node.rank(index)
            with rank.active(rank.stream("produce")):
                produce_kernel[(1,)](windows[1 - index], signals[1 - index], SIZE, BLOCK=SIZE, EARLY=False)
        node.synchronize()
    assert [total.item() for total in totals] == [sum(i * i for i in range(SIZE))] * 2
    assert {finding.check for finding in node.findings} == checks
    text = "".join(map(str, node.findings))
    assert ("rank 0 reads what rank 1 wrote" in text or "rank 1 reads what rank 0 wrote" in text) == bool(checks)


def test_a_device_with_other_fences_is_refused() -> None:
    with (
        pytest.raises(LaunchError, match="the check of acquires on h200"),
        virtual_node("h200", 2, options=NodeOptions(check=True)),
    ):
        pass

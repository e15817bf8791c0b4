"""Work that waits for what cannot come is reported in bounded time, with who waits for what and who holds it."""

from __future__ import annotations

import pytest
from signal_kernels import patient_kernel, wait_kernel

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.errors import DeadlockError
from wavecast.simulator.virtual.node import NodeOptions, VirtualNode, virtual_node

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]


def signals_of(node: VirtualNode, count: int = 8) -> list[torch.Tensor]:
    signals = [torch.zeros(count, dtype=torch.int32) for _ in range(node.ranks)]
    for rank, words in enumerate(signals):
        node.share(rank, words, "signals")
    return signals


def small_device(units: int = 8) -> Device:
    """One XCD with four shader engines, of two compute units each; the first has a third one if there are nine."""
    return load_device("mi300x").with_value("compute.num_xcd", 1).with_value("compute.num_cu", units)


# Workgroups of the waiting kernel, of four waves, on one compute unit.
ON_ONE = 8


def spin(node: VirtualNode, workgroups: int) -> None:
    """A kernel that waits for a signal; when all of it that has room is resident, another stream writes the signal."""
    [signals] = signals_of(node)
    rank = node.rank(0)
    with rank.active():
        wait_kernel[(workgroups,)](signals, 3, 1)
    for _ in range(4 * workgroups):
        node.step()
    rank.write_signal(signals[3:4], 1, rank.stream("backend", priority=-1))
    node.synchronize()


@pytest.mark.parametrize("seed", range(3))
def test_a_full_grid_starves_the_kernel_that_writes_its_signal(seed: int) -> None:
    with virtual_node(small_device(), 1, seed) as node, pytest.raises(DeadlockError) as error:
        spin(node, 8 * ON_ONE)
    text = str(error.value)
    assert (
        "rank 0, stream 'compute': kernel wait_kernel of 64 workgroups, 0 ended, 64 resident of which 64 poll" in text
    )
    assert "polls signals of rank 0, element 3 at " in text
    assert "signal_kernels.py:" in text
    assert "and sees 0; 'write of 1 to signals of rank 0, element 3' of rank 0, stream 'backend'" in text
    assert "is without a compute unit" in text
    assert "waits with 1 of 1 workgroups for room in shader engine" in text
    assert "of kernel wait_kernel of 64 workgroups" in text


@pytest.mark.parametrize("seed", range(3))
def test_one_compute_unit_of_each_shader_engine_left_free_is_enough(seed: int) -> None:
    with virtual_node(small_device(), 1, seed) as node:
        spin(node, 4 * ON_ONE)


def test_compute_units_left_free_in_the_total_are_not() -> None:
    """One of nine is free, and a shader engine is full all the same: whether that one is next depends on what ran."""
    outcomes = set()
    for seed in range(12):
        with virtual_node(small_device(9), 1, seed) as node:
            try:
                spin(node, 8 * ON_ONE)
                outcomes.add("done")
            except DeadlockError:
                outcomes.add("deadlock")
    assert outcomes == {"done", "deadlock"}


@pytest.mark.parametrize(("grid", "stuck"), [(304, True), (256, False)])
def test_an_mi300x_is_starved_unless_a_unit_of_each_shader_engine_is_free(grid: int, stuck: bool) -> None:
    """One workgroup a unit: each of 32 shader engines has at least 9 of the 304 units, and 8 of them are filled."""
    device = load_device("mi300x").with_value("compute.waves_per_simd", 1)
    with virtual_node(device, 1, 4) as node:
        if stuck:
            with pytest.raises(DeadlockError, match="for room in shader engine"):
                spin(node, grid)
        else:
            spin(node, grid)


def test_a_command_processor_needs_no_compute_unit() -> None:
    with virtual_node(small_device(), 1, options=NodeOptions(stream_operations="command-processor")) as node:
        spin(node, 8 * ON_ONE)


@pytest.mark.parametrize(("streams", "stuck"), [(3, False), (4, True)])
def test_streams_that_share_a_hardware_queue_wait_for_each_other(streams: int, stuck: bool) -> None:
    """The write that a stream waits for is behind it, on the queue that the two share: one of five on four queues."""
    with virtual_node("mi300x", 1) as node:
        [signals] = signals_of(node)
        rank = node.rank(0)
        waiting = rank.stream("waiting")
        others = [rank.stream(f"other {number}") for number in range(streams)]
        rank.wait_signal(signals[:1], 7, waiting)
        rank.write_signal(signals[:1], 7, others[-1])
        if not stuck:
            node.synchronize()
            return
        with pytest.raises(DeadlockError) as error:
            node.synchronize()
    text = str(error.value)
    assert "rank 0, stream 'waiting': wait for 7 in signals of rank 0, element 0" in text
    assert "and sees 0, and waits for 7; 'write of 7 to signals of rank 0, element 0'" in text
    assert "is 1 behind the first of its queue" in text
    assert "of stream 'other 3', which shares hardware queue 0 with it" in text


def test_two_ranks_that_wait_for_each_other_are_both_named() -> None:
    with virtual_node("mi300x", 2) as node:
        signals = signals_of(node)
        for index in range(2):
            rank = node.rank(index)
            rank.wait_signal(signals[index][:1], 1)
            rank.write_signal(signals[1 - index][:1], 1)
        with pytest.raises(DeadlockError) as error:
            node.synchronize()
    text = str(error.value)
    for index in range(2):
        assert f"rank {index}, stream 'compute': wait for 1 in signals of rank {index}, element 0" in text
        assert f"'write of 1 to signals of rank {index}, element 0' of rank {1 - index}" in text


def test_a_barrier_that_a_rank_does_not_reach_says_how_many_have() -> None:
    with virtual_node("mi300x", 3) as node:
        signals = signals_of(node)
        node.rank(2).wait_signal(signals[2][:1], 1)
        for index in range(3):
            node.rank(index).barrier()
        with pytest.raises(DeadlockError, match="a barrier that 2 of 3 ranks have reached"):
            node.synchronize()


def test_a_kernel_that_gives_up_ends_by_itself() -> None:
    """It counts its polls, so it is not stuck: it is left to count when nothing else can happen, and only then."""
    with virtual_node("mi300x", 1) as node:
        [signals] = signals_of(node)
        seen = torch.zeros(2, dtype=torch.int32)
        with node.rank(0).active():
            patient_kernel[(1,)](signals, 1, seen, 20000)
        node.synchronize()
        assert seen.tolist() == [0, 20000]
        with node.rank(0).active():
            patient_kernel[(1,)](signals, 1, seen, 20000)
        node.rank(0).write_signal(signals[:1], 1, node.rank(0).stream("other"))
        node.synchronize()
        assert seen[0] == 1
        assert seen[1] < 20000


def test_a_loop_that_never_ends_and_counts_is_reported() -> None:
    with virtual_node("mi300x", 1, options=NodeOptions(stall_instructions=1_000_000)) as node:
        [signals] = signals_of(node)
        with node.rank(0).active():
            patient_kernel[(1,)](signals, 1, torch.zeros(2, dtype=torch.int32), 1 << 30)
        with pytest.raises(DeadlockError, match="instructions executed") as error:
            node.synchronize()
    assert "workgroup 0 polls signals of rank 0, element 0" in str(error.value)

"""Timelines that can be worked out by hand, on devices whose constants are read here, not repeated."""

from __future__ import annotations

import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.outcome import Outcome, Span
from wavecast.simulator.overlap.program import (
    Barrier,
    Copy,
    Kernel,
    KernelLike,
    Operation,
    Program,
    Record,
    Stream,
    WaitEvent,
    WaitSignal,
    WriteSignal,
)
from wavecast.simulator.overlap.simulate import simulate
from wavecast.simulator.overlap.times import KernelTime, kernel_key

H200, MI300X = load_device("h200"), load_device("mi300x")
LAUNCH = H200.launch.back_to_back_us
UNITS = H200.compute.num_cu


def kernel(name: str, tiles: int, waits: tuple[int | None, ...] = (), **more: object) -> Kernel:
    return Kernel(name, name, {}, tiles, waits, **more)  # type: ignore[arg-type]


def program(ranks: int, *streams: tuple[int, str, list[Operation]], priority: int = 0) -> Program:
    made = tuple(Stream(rank, name, priority, tuple(operations)) for rank, name, operations in streams)
    return Program("test", ranks, made)


def run(node: Node, made: Program, us: float = 100.0, hbm_bytes: float = 0.0) -> Outcome:
    def time(_: KernelLike) -> KernelTime:
        return KernelTime(us, hbm_bytes)

    outcome = simulate(made, node, time)
    assert outcome.deadlock is None, outcome.deadlock
    return outcome


def span(outcome: Outcome, name: str, rank: int = 0) -> Span:
    (found,) = (entry for entry in outcome.spans if (entry.name, entry.rank) == (name, rank))
    return found


def test_kernels_of_one_stream_follow_one_another() -> None:
    outcome = run(Node(H200, 1), program(1, (0, "s", [kernel("a", UNITS), kernel("b", UNITS)])))
    assert outcome.total_us == pytest.approx(200.0)
    assert span(outcome, "b").ready_us == pytest.approx(span(outcome, "a").end_us)


def test_two_streams_share_the_compute_units_round_by_round() -> None:
    # Each kernel has one round and a half: alone 2 rounds, together 3 and not 4.
    one, two = kernel("a", UNITS * 3 // 2), kernel("b", UNITS * 3 // 2)
    outcome = run(Node(H200, 1), program(1, (0, "s", [one]), (0, "t", [two])))
    round_us = (100.0 - LAUNCH) / 2
    assert outcome.total_us == pytest.approx(LAUNCH + 3 * round_us)


def test_exclusive_kernels_do_not_fill_each_other_s_last_round_but_others_do() -> None:
    streams = (
        (0, "s", [kernel("a", UNITS * 3 // 2)]),
        (0, "t", [kernel("b", UNITS * 3 // 2)]),
        (0, "u", [kernel("c", 8)]),
    )
    times = {kernel_key(name, {}): KernelTime(100.0, exclusive=name != "c") for name in "abc"}
    outcome = simulate(program(1, *streams), Node(H200, 1), times)
    assert span(outcome, "b").start_us > span(outcome, "a").end_us
    assert span(outcome, "c").start_us < span(outcome, "a").end_us


def test_fewer_units_cost_whole_rounds() -> None:
    # 7 rounds on all units; beside a kernel that holds 24 of them, 9.
    held = Kernel("held", "held", {}, 24, compute_units=24)
    wide = kernel("wide", 7 * UNITS - 10)
    times = {
        kernel_key("held", {}): KernelTime(5000.0),
        kernel_key("wide", {}): KernelTime(700.0 + LAUNCH),
    }
    outcome = simulate(program(1, (0, "s", [held]), (0, "t", [wide])), Node(H200, 1), times)
    assert span(outcome, "wide").end_us == pytest.approx(LAUNCH + 900.0)


def test_a_copy_takes_what_the_engine_needs_to_start_and_what_the_link_carries() -> None:
    size, link = 2**28, H200.link
    assert link is not None
    alone = run(Node(H200, 2), program(2, (0, "s", [Copy(1, 0, size)])))
    rate = link.links_per_peer * link.engine_gb_s * 1e3
    assert alone.total_us == pytest.approx(link.engine_start_us + size / rate)
    both = run(Node(H200, 2), program(2, (0, "s", [Copy(1, 0, size)]), (1, "s", [Copy(0, 1, size)])))
    assert both.total_us > alone.total_us


def test_copies_between_one_pair_share_its_link_and_others_do_not() -> None:
    size = 2**26
    same = program(3, (0, "s", [Copy(1, 0, size)]), (0, "t", [Copy(1, 0, size)]))
    other = program(3, (0, "s", [Copy(1, 0, size)]), (0, "t", [Copy(2, 0, size)]))
    node = Node(MI300X, 3)
    assert MI300X.link is not None
    start = MI300X.link.engine_start_us
    assert run(node, same).total_us - start == pytest.approx(2 * (run(node, other).total_us - start))


def test_what_workgroups_of_a_kernel_do_themselves_needs_no_queue_and_no_kernel() -> None:
    # Every compute unit spins for a signal that the kernel's own workgroups write: nothing else has to start.
    units = MI300X.compute.num_cu
    spins = kernel("spins", units, (None,) * units + (1,) * units)
    fetches: list[Operation] = [Copy(1, 0, 2**24, "fetcher"), WriteSignal(0, 1)]
    made = program(2, (0, "compute", [spins]), (0, "fetch", fetches))
    outcome = run(Node(MI300X, 2, hardware_queues=1), made)
    assert [entry.queue for entry in outcome.spans if entry.stream == "fetch"] == [-1, -1]


def test_a_small_copy_of_amd_holds_compute_units() -> None:
    outcome = run(Node(MI300X, 2), program(2, (0, "s", [Copy(1, 0, 2**20, "blit")])))
    assert MI300X.link is not None
    assert outcome.spans[0].units == MI300X.link.blit_workgroups
    with pytest.raises(OverlapError, match="copies between GPUs with copy engines only"):
        run(Node(H200, 2), program(2, (0, "s", [Copy(1, 0, 2**20, "blit")])))


def test_memory_bound_kernels_together_take_as_long_as_one_after_the_other() -> None:
    node = Node(H200, 1)
    moved = node.hbm_gb_s * 1e3 * 100.0  # bytes that HBM moves in 100 µs
    together = program(1, (0, "s", [kernel("a", 8)]), (0, "t", [kernel("b", 8)]))
    outcome = run(node, together, us=100.0 + LAUNCH, hbm_bytes=moved)
    assert outcome.total_us == pytest.approx(200.0 + LAUNCH, rel=1e-3)


def test_a_product_that_needs_little_of_hbm_hardly_notices_a_copy() -> None:
    node = Node(H200, 2)
    made = program(2, (0, "s", [kernel("a", UNITS)]), (0, "t", [Copy(1, 0, 2**28)]))
    tenth = node.hbm_gb_s * 1e3 * 100.0 * 0.1
    assert run(node, made, us=2000.0, hbm_bytes=20 * tenth).total_us == pytest.approx(2000.0, rel=0.01)


def test_tiles_start_when_their_chunk_has_arrived() -> None:
    # Two rounds: the first chunk is there, the second comes 500 µs later than the first round ends.
    waits = (None,) * UNITS + (3,) * UNITS
    late = [kernel("late", UNITS), WriteSignal(0, 3)]
    consumer = kernel("consumer", UNITS, waits)
    times = {
        kernel_key("late", {}): KernelTime(600.0),
        kernel_key("consumer", {}): KernelTime(200.0 + LAUNCH),
    }
    outcome = simulate(program(2, (0, "s", [consumer]), (1, "t", late)), Node(H200, 2), times)
    link = H200.link
    assert link is not None
    arrived = 600.0 + link.write_signal_us + link.signal_us
    assert span(outcome, "consumer").end_us == pytest.approx(arrived + 100.0)
    assert span(outcome, "consumer").waited_us == pytest.approx(arrived - 100.0 - LAUNCH)


def test_tiles_that_wait_at_their_end_are_computed_meanwhile() -> None:
    late = [kernel("late", UNITS), WriteSignal(0, 3)]
    consumer = kernel("consumer", UNITS, (3,) * (2 * UNITS), waits_at_end=True)
    times = {
        kernel_key("late", {}): KernelTime(600.0),
        kernel_key("consumer", {}): KernelTime(200.0 + LAUNCH),
    }
    outcome = simulate(program(2, (0, "s", [consumer]), (1, "t", late)), Node(H200, 2), times)
    link = H200.link
    assert link is not None
    # The first round is there when the signal comes, the second is computed after it and need not wait.
    arrived = 600.0 + link.write_signal_us + link.signal_us
    assert span(outcome, "consumer").end_us == pytest.approx(arrived + 100.0)
    assert span(outcome, "consumer").waited_us == pytest.approx(arrived - 100.0 - LAUNCH)


def test_a_kernel_announces_its_chunks() -> None:
    producer = kernel("producer", 2 * UNITS, tile_signals=((UNITS, 1), (2 * UNITS, 2)))
    waiter: list[Operation] = [WaitSignal(1), kernel("first", 1), WaitSignal(2), kernel("second", 1)]
    outcome = run(Node(H200, 1), program(1, (0, "s", [producer]), (0, "t", waiter)))
    half = LAUNCH + (100.0 - LAUNCH) / 2
    link = H200.link
    assert link is not None
    assert span(outcome, "wait for signal 1").end_us == pytest.approx(half + link.signal_us)
    assert span(outcome, "first").end_us > half


def test_what_workgroups_of_a_kernel_do_begins_when_the_kernel_has_begun() -> None:
    fetches = kernel("fetches", 2, (None,) * 4, tile_signals=((0, 3),))
    copy = Copy(1, 0, 2**20, "fetcher")
    made = program(2, (0, "s", [kernel("before", 1), fetches]), (0, "f", [WaitSignal(3), copy, WriteSignal(0, 7)]))
    outcome = run(Node(H200, 2), made)
    assert span(outcome, "copy 1 MiB 1→0").start_us == pytest.approx(span(outcome, "fetches").start_us)
    assert span(outcome, "fetches").start_us == pytest.approx(100.0 + LAUNCH)


def test_events_order_streams_and_barriers_join_gpus() -> None:
    first: list[Operation] = [kernel("a", 1), Record("a is done"), Barrier()]
    second: list[Operation] = [WaitEvent("a is done"), kernel("b", 1)]
    other: list[Operation] = [Barrier(), kernel("c", 1)]
    outcome = run(Node(H200, 2), program(2, (0, "s", first), (0, "t", second), (1, "s", other)))
    assert span(outcome, "b").ready_us >= span(outcome, "a").end_us
    assert span(outcome, "c", 1).ready_us >= span(outcome, "a").end_us


def test_a_barrier_that_copies_waits_for_all_a_second_time() -> None:
    """What rank 0 does next begins when rank 1, which has more to copy, is through, and all is one launch."""
    node, copied = Node(H200, 2), 1 << 30

    def end_us(*copied_bytes: int) -> float:
        streams = [(rank, "s", [Barrier(copied_bytes=size)]) for rank, size in enumerate(copied_bytes)]
        ends = [entry.end_us for entry in run(node, program(2, *streams)).spans]
        assert ends[0] == ends[1]
        return ends[0]

    copy_us = 2 * copied / UNITS / node.link.unit_copy_gb_s * 1e-3
    assert end_us(1, copied) - end_us(0, 0) == pytest.approx(copy_us + 2 * node.link.signal_us)


def test_an_urgent_stream_gets_freed_units_first() -> None:
    hog = Stream(0, "hog", 0, (kernel("hog", 4 * UNITS),))
    later = Stream(0, "later", 0, (kernel("later", UNITS),))
    urgent = Stream(0, "urgent", -1, (WaitSignal(0), kernel("urgent", UNITS)))
    starter = Stream(1, "starter", 0, (WriteSignal(0, 0),))
    outcome = run(Node(H200, 2), Program("p", 2, (hog, later, urgent, starter)))
    assert span(outcome, "urgent").end_us < span(outcome, "later").end_us


def test_a_slow_host_delays_what_it_has_not_yet_enqueued() -> None:
    made = program(1, (0, "s", [kernel("a", 1) for _ in range(3)]))
    assert run(Node(H200, 1, host_us=500.0), made).total_us == pytest.approx(3 * 500.0 + 100.0)


def test_streams_that_share_a_queue_run_one_after_the_other() -> None:
    streams = [(0, f"s{index}", [kernel(f"k{index}", 1)]) for index in range(5)]
    outcome = run(Node(MI300X, 1), program(1, *streams))  # four queues
    assert span(outcome, "k4").ready_us == pytest.approx(span(outcome, "k0").end_us)
    assert span(outcome, "k3").ready_us == 0.0


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (program(3, (0, "s", [])), "is for 3 GPUs, the node has 2"),
        (program(2, (2, "s", [])), "there are 2, from 0"),
        (program(2, (0, "s", [Copy(0, 5, 8)])), "a copy's target is of GPU 5"),
        (program(2, (0, "s", [Copy(0, 1, 8, "dma")])), "copy-engine, blit, fetcher"),  # type: ignore[arg-type]
        (program(2, (0, "s", [WaitEvent("x")])), "'x', never recorded"),
        (program(2, (0, "s", [WaitEvent("x"), Record("x")])), "no host can enqueue stream 's'"),
        (program(2, (0, "s", [Record("x")]), (1, "s", [Record("x")])), "records event 'x' twice"),
        (program(2, (0, "s", []), (0, "s", [])), "two streams of one name"),
        (program(2, (0, "s", [kernel("k", 0)])), "no workgroups"),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(made: Program, says: str) -> None:
    with pytest.raises(OverlapError, match=says):
        simulate(made, Node(H200, 2), {})


def test_a_kernel_without_a_time_is_named() -> None:
    with pytest.raises(OverlapError, match="no time is known for gemm"):
        simulate(program(1, (0, "s", [Kernel("g", "gemm", {"M": 8}, 1)])), Node(H200, 1), {})


def test_a_node_needs_links_and_a_possible_number_of_gpus() -> None:
    with pytest.raises(OverlapError, match="says nothing of links"):
        Node(load_device("mi300a"), 2)
    with pytest.raises(OverlapError, match="9 GPUs do not make a node"):
        Node(MI300X, 9)


def test_late_workgroups_hold_their_units_and_take_tiles_when_their_signal_is_there() -> None:
    # 10 tiles of 20 us; 2 workgroups, one of which begins when its copy has come.
    late = kernel("k", 2, (None,) * 10, late_workgroups=((7, 1),))
    copy = Copy(1, 0, 1_000_000, "fetcher")
    made = program(2, (0, "s", [late]), (0, "f", [copy, WriteSignal(0, 7)]))
    node = Node(MI300X, 2)
    outcome = run(node, made, us=MI300X.launch.back_to_back_us + 100.0)
    arrives = 1_000_000 / node.pair_gb_s("fetcher", both=False) * 1e-3
    first = MI300X.launch.back_to_back_us
    ends = sorted([*(first + 20.0 * i for i in range(1, 11)), *(arrives + 20.0 * i for i in range(1, 11))])
    assert span(outcome, "k").units == 2
    assert span(outcome, "k").end_us == pytest.approx(ends[9], abs=0.01)


def test_a_kernel_does_not_end_while_workgroups_of_it_still_fetch() -> None:
    # Its tiles are done long before the copy that one of its workgroups makes.
    fetches = kernel("fetches", 2, (None,) * 4, late_workgroups=((7, 1),))
    copy = Copy(1, 0, 2**27, "fetcher")
    made = program(2, (0, "s", [fetches, kernel("next", 1)]), (0, "f", [copy, WriteSignal(0, 7)]))
    outcome = run(Node(H200, 2), made)
    arrives = span(outcome, "copy 128 MiB 1→0").end_us
    assert arrives > LAUNCH + 4 * 50.0
    assert span(outcome, "fetches").end_us == pytest.approx(arrives)
    assert span(outcome, "next").ready_us == pytest.approx(arrives)


def test_workgroups_that_find_no_tile_left_must_have_had_a_unit_before_the_kernel_ends() -> None:
    # One unit is free: the second workgroup follows the first one on it.
    spins = kernel("spins", UNITS - 1, (5,) * (UNITS - 1))
    two = kernel("two", 2, (None, None))
    made = program(1, (0, "s", [spins]), (0, "t", [two, WriteSignal(0, 5)]))
    outcome = run(Node(H200, 1), made)
    assert span(outcome, "two").end_us == pytest.approx(LAUNCH + 2 * (100.0 - LAUNCH))
    # A grid of more workgroups than units ends as well.
    many = run(Node(H200, 1), program(1, (0, "s", [kernel("many", 2 * UNITS, (None,) * (3 * UNITS))])))
    assert span(many, "many").units == UNITS

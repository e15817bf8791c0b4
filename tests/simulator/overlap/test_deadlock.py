"""Deadlocks of the field are found with who waits for whom, their fixes pass, and nothing else is called a deadlock."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from exhaustive import TooManyStatesError, explore

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import Product, all_gather_matmul, async_matmul, native_grid, peer_copies
from wavecast.simulator.overlap.program import (
    Barrier,
    Copy,
    Kernel,
    OperationLike,
    Program,
    Record,
    Stream,
    WaitEvent,
    WaitSignal,
    WriteSignal,
)
from wavecast.simulator.overlap.remedy import remedies
from wavecast.simulator.overlap.simulate import simulate
from wavecast.simulator.overlap.times import KernelTime

TIME = KernelTime(500.0)


def native(device: Device, workgroups: int, ranks: int = 2) -> Program:
    """The native path with another grid."""
    node, product = Node(device, ranks), Product(16384, 8192, 512)
    streams = []
    for rank in range(ranks):
        gemm = async_matmul(product, node, rank, workgroups=workgroups)
        shard, rows = product.gathered_bytes // ranks, product.m // ranks
        pulls: list[OperationLike] = []
        for step in range(1, ranks):
            source = (rank + step) % ranks
            pulls += [*peer_copies(source, rank, shard, node, rows=rows), WriteSignal(rank, source)]
        streams += [
            Stream(rank, "current", 0, (WriteSignal(rank, rank), gemm)),
            Stream(rank, "backend", -1, tuple(pulls)),
        ]
    return Program("native", ranks, tuple(streams))


@pytest.mark.parametrize(("name", "most"), [("mi300x", 256), ("mi325x", 256), ("mi355x", 224)])
def test_one_unit_of_each_shader_engine_must_stay_free(name: str, most: int) -> None:
    device = load_device(name)
    node = Node(device, 2)
    stuck = simulate(native(device, device.compute.num_cu), node, lambda _: TIME)
    assert stuck.deadlock is not None
    assert stuck.deadlock.closed
    text = str(stuck.deadlock)
    assert "spinning" in text
    assert "a compute unit on every shader engine, which 'async matmul' holds" in text
    grid = next(entry for entry in remedies(native(device, device.compute.num_cu), node, lambda _: TIME))
    assert (grid.kind, grid.value) == ("grid", most)
    assert native_grid(node) == most
    assert simulate(native(device, most), node, lambda _: TIME).deadlock is None
    assert simulate(native(device, most + 1), node, lambda _: TIME).deadlock is not None


def test_where_signals_are_no_kernels_the_whole_gpu_may_spin() -> None:
    device = load_device("h200")
    assert simulate(native(device, device.compute.num_cu), Node(device, 2), lambda _: TIME).deadlock is None


def test_a_captured_graph_that_serialises_both_streams_deadlocks() -> None:
    # hipGraph may put both branches on one stream: the copies are behind the product that waits for them.
    device, product = load_device("mi300x"), Product(4096, 1024, 512)
    eager = all_gather_matmul(product, Node(device, 2), "native-upstream")
    assert simulate(eager, Node(device, 2, hardware_queues=1), lambda _: TIME).deadlock is None  # a queue a priority
    alike = [Stream(stream.rank, stream.name, 0, tuple(stream.operations)) for stream in eager.streams]
    made = Program("captured", 2, tuple(alike))
    assert simulate(made, Node(device, 2), lambda _: TIME).deadlock is None
    stuck = simulate(made, Node(device, 2, hardware_queues=1), lambda _: TIME).deadlock
    assert stuck is not None
    assert "in the same hardware queue" in str(stuck)
    found = remedies(made, Node(device, 2, hardware_queues=1), lambda _: TIME)
    assert ("queues", 2) in [(entry.kind, entry.value) for entry in found]


def test_a_write_behind_the_wait_in_a_shared_queue() -> None:
    # ROCm/clr#133 and rocm-systems#9249: five streams, four queues.
    streams = [Stream(0, "waits", 0, (WaitSignal(0),))]
    streams += [Stream(0, f"idle {index}", 0, (WriteSignal(0, 10 + index),)) for index in range(3)]
    streams += [Stream(0, "writes", 0, (WriteSignal(0, 0),))]
    program, node = Program("E3", 1, tuple(streams)), Node(load_device("mi300x"), 1)
    stuck = simulate(program, node, {}).deadlock
    assert stuck is not None
    assert stuck.closed
    assert [holder.stream for holder in stuck.cycle] == ["waits", "writes"]
    found = {entry.kind: entry for entry in remedies(program, node, {})}
    assert found["queues"].value == 5
    assert found["order"].description == "enqueue stream 'writes' before the others"
    assert simulate(program, Node(load_device("mi300x"), 1, hardware_queues=5), {}).deadlock is None


def test_on_nvidia_a_shared_queue_holds_what_is_behind_a_wait_and_not_what_is_behind_a_kernel() -> None:
    # Probed on an H200: on one connection a kernel writes what a spinning one of another stream waits for.
    node, sets = Node(load_device("h200"), 1, hardware_queues=1), (WriteSignal(0, 0),)
    spins = Stream(0, "spins", 0, (Kernel("spins", "k", {}, 1, (0,)),))
    assert simulate(Program("p", 1, (spins, Stream(0, "sets", 0, sets))), node, lambda _: TIME).deadlock is None
    waits = Stream(0, "waits", 0, (WaitSignal(0),))
    stuck = simulate(Program("p", 1, (waits, Stream(0, "sets", 0, sets))), node, {}).deadlock
    assert stuck is not None
    assert [holder.stream for holder in stuck.cycle] == ["waits", "sets"]


def test_a_signal_that_nobody_writes_is_no_cycle() -> None:
    program = Program("p", 1, (Stream(0, "s", 0, (WaitSignal(7),)),))
    stuck = simulate(program, Node(load_device("h200"), 1), {}).deadlock
    assert stuck is not None
    assert not stuck.closed
    assert "signal 7 to reach 1 (is 0), which nothing left writes" in str(stuck)
    assert remedies(program, Node(load_device("h200"), 1), {}) == ()


def test_late_workgroups_of_a_kernel_wait_for_their_signal_too() -> None:
    late = Kernel("k", "k", {}, 2, (None,) * 4, late_workgroups=((7, 2),))
    program = Program("p", 1, (Stream(0, "s", 0, (late,)),))
    stuck = simulate(program, Node(load_device("mi300x"), 1), lambda _: TIME).deadlock
    assert stuck is not None
    assert "2 compute units, 2 of them spinning" in str(stuck)
    assert "signal 7 to reach 1 (is 0), which nothing left writes" in str(stuck)


def test_a_barrier_that_a_gpu_never_comes_to() -> None:
    program = Program("p", 2, (Stream(0, "s", 0, (Barrier(),)), Stream(1, "s", 0, ())))
    stuck = simulate(program, Node(load_device("h200"), 2), {}).deadlock
    assert stuck is not None
    assert "never comes to the barrier" in str(stuck)


def test_a_program_that_ends_needs_no_remedy() -> None:
    assert remedies(native(load_device("mi300x"), 128), Node(load_device("mi300x"), 2), lambda _: TIME) == ()


def tiny(amd: bool) -> Device:
    """Three shader engines of two, two and one compute units, or two multiprocessors."""
    device = load_device("mi300x" if amd else "h200")
    assert device.link is not None
    if not amd:
        return device.with_value("compute.num_cu", 2)
    changed = device.with_value("compute.num_xcd", 1).with_value("compute.num_cu", 5)
    return replace(changed, link=replace(device.link, shader_engines_per_xcd=3, blit_workgroups=2))


def random_program(seed: int, amd: bool) -> tuple[Program, int]:
    """A program of up to two GPUs, three streams and three operations each, and a number of queues."""
    choose = random.Random(seed)
    ranks = choose.choice((1, 1, 2))
    streams, events = [], []
    for rank in range(ranks):
        for index in range(choose.randint(1, 3 if ranks == 1 else 2)):
            operations: list[OperationLike] = []
            for _ in range(choose.randint(1, 3 if ranks == 1 else 2)):
                kind = choose.choice(
                    ("kernel", "persistent", "persistent", "write", "write", "wait", "event", "copy", "barrier")
                )
                signal = choose.randint(0, 1)
                if kind == "kernel":
                    operations.append(Kernel("k", "k", {}, choose.randint(1, 3)))
                elif kind == "persistent":
                    waits = tuple(choose.choice((None, 0, 1)) for _ in range(choose.randint(1, 3)))
                    late = ((signal, 1),) if choose.random() < 0.2 else ()
                    operations.append(Kernel("p", "p", {}, choose.randint(1, 4), waits, late_workgroups=late))
                elif kind == "write":
                    operations.append(WriteSignal(choose.randrange(ranks), signal))
                elif kind == "wait":
                    operations.append(WaitSignal(signal))
                elif kind == "event":
                    if events and choose.random() < 0.5:
                        operations.append(WaitEvent(choose.choice(events)))
                    else:
                        events.append(f"e{len(events)}")
                        operations.append(Record(events[-1]))
                elif kind == "copy" and ranks == 2:
                    operations.append(Copy(1 - rank, rank, 2**16, "blit" if amd else "copy-engine"))
                elif kind == "barrier" and ranks == 2:
                    operations.append(Barrier())
            streams.append(Stream(rank, f"s{index}", 0, tuple(operations)))
    return Program(f"random {seed}", ranks, tuple(streams)), choose.randint(1, 3)


def compare(seeds: range, amd: bool, limit: int) -> dict[str, int]:
    """Simulate and search programs; what they do."""
    device, counts = tiny(amd), {"deadlock": 0, "ends": 0, "either": 0, "too large": 0}
    for seed in seeds:
        program, queues = random_program(seed, amd)
        node = Node(device, program.ranks, hardware_queues=queues)
        try:
            verdict = explore(program, node, limit=limit)
        except TooManyStatesError:
            counts["too large"] += 1
            continue
        stuck = simulate(program, node, lambda kernel: KernelTime(10.0 * (1 + kernel.workgroups))).deadlock
        if stuck is not None:
            assert verdict.can_stick, f"false alarm for seed {seed}: {stuck}"
        if not verdict.can_end:
            assert stuck is not None, f"seed {seed} can never end, and was not called a deadlock"
        counts["either" if verdict.can_end and verdict.can_stick else "deadlock" if stuck else "ends"] += 1
    return counts


@pytest.mark.parametrize(("amd", "seeds"), [(True, 110), (False, 250)])
def test_random_programs_agree_with_every_interleaving(amd: bool, seeds: int) -> None:
    counts = compare(range(seeds), amd, limit=1_500)
    assert counts["deadlock"] > 30
    assert counts["ends"] > 25

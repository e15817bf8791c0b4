from __future__ import annotations

import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.overlap.collectives import COLLECTIVES, algorithms, collective_time
from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import Product, collective, matmul
from wavecast.simulator.overlap.prices import Prices

MI300X = load_device("mi300x")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_time_grows_with_size_and_a_large_one_is_bound_by_links(name: str) -> None:
    node = Node(MI300X, 8)
    times = [collective_time(name, 2**power, node) for power in range(10, 34)]
    assert [entry.us for entry in times] == sorted(entry.us for entry in times)
    assert times[0].bound == "latency"
    assert times[-1].bound == "link"
    assert times[0].protocol == "low-latency"
    assert times[-1].protocol == "simple"
    link = MI300X.link
    assert link is not None
    assert times[-1].bus_gb_s == pytest.approx(link.num_links * link.ring_gb_s, rel=0.01)


def test_an_all_reduce_of_a_mesh_is_two_passes() -> None:
    node = Node(MI300X, 8)
    gather, reduce = collective_time("all-gather", 2**32, node), collective_time("all-reduce", 2**32, node)
    assert reduce.us == pytest.approx(2 * gather.us, rel=0.02)
    assert reduce.sent_bytes == pytest.approx(2 * gather.sent_bytes)


def test_fewer_gpus_of_a_mesh_have_fewer_links() -> None:
    rates = [collective_time("all-gather", 2**32, Node(MI300X, ranks)).bus_gb_s for ranks in (2, 4, 8)]
    assert rates[0] == pytest.approx(rates[2] / 7, rel=0.02)
    assert rates[1] == pytest.approx(rates[2] * 3 / 7, rel=0.02)


def test_across_nodes_the_network_and_its_steps_count() -> None:
    node = Node(MI300X, 8)
    assert collective_time("all-to-all", 2**32, node, nodes=4).bound == "network"
    one, four = (collective_time("all-gather", 2**12, node, nodes=nodes).us for nodes in (1, 4))
    assert four > one
    # Each of 30 steps posts to the network, three times with the simple protocol.
    two, link = collective_time("all-reduce", 2**30, node, nodes=2), node.link
    posting = link.ring_plateau * (link.ring_base_us + 28 * 3 * link.nic_post_us + 2 * link.nic_hop_us)
    assert two.us == pytest.approx(posting + two.sent_bytes / (7 * link.kernel_both_gb_s) * 1e-3)
    lonely = collective_time("all-gather", 2**32, Node(MI300X, 1), nodes=2)
    assert lonely.bus_gb_s == pytest.approx(50.0 * 0.94, rel=0.01)


def test_trees_are_there_across_nodes_only_and_cross_the_network_less_than_rings() -> None:
    node = Node(MI300X, 8)
    assert {entry.algorithm for entry in algorithms("all-reduce", 2**26, node)} == {"ring"}
    assert {entry.algorithm for entry in algorithms("all-gather", 2**26, node, nodes=4)} == {"ring"}
    found = {(entry.algorithm, entry.protocol): entry for entry in algorithms("all-reduce", 2**26, node, nodes=16)}
    protocols = ("simple", "low-latency", "low-latency-128")
    assert set(found) == {(algorithm, protocol) for algorithm in ("ring", "tree") for protocol in protocols}
    # A ring's 254 steps follow one another; a tree has 2 x (7 + 4).
    assert found["tree", "simple"].us < found["ring", "simple"].us
    slow = Node(MI300X.with_value("link.nic_gb_s", 5.0), 8)
    fastest = {entry.algorithm: entry for entry in reversed(algorithms("all-reduce", 2**32, slow, nodes=2))}
    ring, tree = fastest["ring"], fastest["tree"]
    assert ring.bound == tree.bound == "network"
    # Of two nodes, a tree sends every byte once each way, a ring almost twice.
    assert ring.us / tree.us == pytest.approx(2 * 15 / 16, rel=0.03)


def test_a_collective_takes_longer_as_a_node_of_a_graph() -> None:
    device = load_device("h200")
    eager, captured = Node(device, 2), Node(device, 2, captured=True)
    one, other = (Prices(node)(collective("all-gather", 2**16, node)).alone_us for node in (eager, captured))
    assert device.link is not None
    assert other - one == pytest.approx(device.link.captured_collective_us)
    product = matmul(Product(4096, 1024, 512), 4096)
    assert Prices(eager)(product) == Prices(captured)(product)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(OverlapError, match="known are all-gather, reduce-scatter"):
        collective_time("broadcast", 8, Node(MI300X, 8))
    with pytest.raises(OverlapError, match="two GPUs"):
        collective_time("all-gather", 8, Node(MI300X, 1))

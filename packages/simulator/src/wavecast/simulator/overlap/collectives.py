"""Time of a collective by size, ranks and nodes, for the algorithms and protocols of RCCL and NCCL.

Rings use every link that their GPUs have among them. The simple protocol moves data as it is; the low-latency one sends
a flag with every word, which saves the handshake of each step and costs half of the rate. The library takes what is
faster for the size. Across nodes every step posts to the network, somewhere on the ring, and none is faster than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node

Collective = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all"]
COLLECTIVES: tuple[str, ...] = get_args(Collective)

_SIMPLE_POSTS = 3  # to the network in a step of the simple protocol, as RCCL and NCCL count them


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """What a collective takes.

    Attributes:
        us: Time behind queued work, launch included.
        algorithm: ``ring`` or ``direct``.
        protocol: ``simple`` or ``low-latency``.
        sent_bytes: What each GPU sends.
        bus_gb_s: ``sent_bytes`` in that time: the bus bandwidth of rccl-tests.
        hbm_bytes: What each GPU's HBM moves.
        bound: What limits it: ``latency``, ``link`` or ``network``.
    """

    us: float
    algorithm: str
    protocol: str
    sent_bytes: float
    bus_gb_s: float
    hbm_bytes: float
    bound: str


def collective_time(name: str, total_bytes: int, node: Node, *, nodes: int = 1) -> CollectiveTime:
    """The faster of the protocols that fit.

    Args:
        name: One of ``COLLECTIVES``.
        total_bytes: Bytes of the larger buffer of a rank, as rccl-tests counts: the gathered result of an all-gather,
            the input of the others.
        node: GPUs of a node.
        nodes: Equal nodes, each GPU with a network interface of its own.

    Raises:
        OverlapError: if the collective is not known, the size is below 1, or there is but one rank.
    """
    if name not in COLLECTIVES:
        raise OverlapError(f"no collective is called {name!r}; known are {', '.join(COLLECTIVES)}")
    if total_bytes < 1 or nodes < 1 or node.ranks * nodes < 2:
        raise OverlapError(
            f"{total_bytes} bytes over {node.ranks} GPUs in {nodes} nodes; wanted is at least one byte and two GPUs"
        )
    return min(_candidates(name, total_bytes, node, nodes), key=lambda entry: entry.us)


def _candidates(name: str, total_bytes: int, node: Node, nodes: int) -> Iterator[CollectiveTime]:
    link, ranks = node.link, node.ranks * nodes
    passes = 2 if name == "all-reduce" else 1
    sent = passes * total_bytes * (ranks - 1) / ranks
    direct = name == "all-to-all"
    steps, crossings = (1, min(1, nodes - 1)) if direct else (passes * (ranks - 1), passes * (nodes - 1))
    network = node.ranks * link.nic_gb_s * link.nic_efficiency
    if direct:
        network = link.nic_gb_s * link.nic_efficiency * (ranks - 1) / max(1, ranks - node.ranks)
    both = _links(node) * link.kernel_both_gb_s
    # The two passes of an all-reduce follow one another piece by piece, so both are under way at once.
    simple = both if direct else min(both, passes * _links(node) * link.ring_gb_s)
    rates = {"simple": simple, "low-latency": _links(node) * link.ll_gb_s}
    latencies = {"simple": (link.ring_base_us, link.ring_hop_us), "low-latency": (link.ll_base_us, link.ll_hop_us)}
    posts = {"simple": _SIMPLE_POSTS * link.nic_post_us, "low-latency": link.nic_post_us}
    for protocol, rate in rates.items():
        base, hop = latencies[protocol]
        if nodes > 1:
            hop = max(hop, posts[protocol])
        if node.ranks == 1:
            rate = network
        reached = min(rate, network if protocol == "simple" else network / 2) if nodes > 1 else rate
        fixed = base + (steps - crossings) * hop + crossings * link.nic_hop_us
        moving = sent / reached * 1e-3
        us = fixed + moving
        bound = "latency" if fixed > moving else "network" if reached < rate else "link"
        # Each byte that arrives is written once and read once more to be sent on or summed.
        yield CollectiveTime(us, "direct" if direct else "ring", protocol, sent, sent / us * 1e-3, 2 * sent, bound)


def _links(node: Node) -> int:
    """Links of a GPU that lead to others of the collective."""
    link = node.link
    return max(1, (node.ranks - 1) * link.links_per_peer) if link.full_mesh else link.num_links

"""Time of a collective by size, ranks and nodes, for the algorithms and protocols of RCCL and NCCL.

Rings use every link that their GPUs have among them. The simple protocol moves data as it is; the low-latency one sends
a flag with every word, which saves the handshake of each step and costs half of the rate, or with every line of 128
bytes. The library takes what is faster for the size.

Across nodes every step of a ring posts to the network, somewhere on the ring, and none is faster than that. An
all-reduce has trees there as well: the GPUs of a node are a chain, along which chunks are summed on their way up and
copied on their way down. Of two nodes less goes out than in a ring, but the first chunk is back only when it has gone
along the chain twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node

Collective = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all"]
COLLECTIVES: tuple[str, ...] = get_args(Collective)

_SIMPLE_POSTS = 3  # to the network in a step of the simple protocol, as RCCL and NCCL count them
_TREE_SPLIT = 2  # threads of a workgroup send up, or down
_BUFFER_BYTES = 2**22  # of a channel, in eight steps; a chunk is a step of a tree's
_STEPS = 8
# A chunk is halved while a channel has fewer of them than so many times the depth of the tree, down to a size.
_CHUNKS = ((8, 2**17), (4, 2**16), (1, 2**15))
_LINE_SHARE = 120 / 128  # of a line of the low-latency protocol, what is not a flag


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """What a collective takes.

    Attributes:
        us: Time behind queued work, launch included.
        algorithm: ``ring``, ``tree`` or ``direct``.
        protocol: ``simple``, ``low-latency``, or ``low-latency-128``: with lines of 128 bytes.
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
    """The fastest of ``algorithms``; arguments and errors as there."""
    return algorithms(name, total_bytes, node, nodes=nodes)[0]


def algorithms(name: str, total_bytes: int, node: Node, *, nodes: int = 1) -> tuple[CollectiveTime, ...]:
    """What each algorithm and protocol takes that fits, the fastest first.

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
    return tuple(sorted(_candidates(name, total_bytes, node, nodes), key=lambda entry: entry.us))


@dataclass(frozen=True, slots=True)
class _Protocol:
    """What a protocol makes of links and network: rates in GB/s, times in µs."""

    name: str
    base_us: float
    hop_us: float
    nic_hop_us: float
    post_us: float
    rate: float  # of a GPU within its node
    network_share: float


def _protocols(node: Node, rate: float, *, far: bool) -> Iterator[_Protocol]:
    """Protocols by name.

    Args:
        node: GPUs of a node.
        rate: What the simple protocol reaches within it, GB/s a GPU.
        far: Whether there are other nodes.
    """
    link = node.link
    yield _Protocol(
        "simple", link.ring_base_us, link.ring_hop_us, link.nic_hop_us, _SIMPLE_POSTS * link.nic_post_us, rate, 1.0
    )
    low = (link.ll_base_us, link.ll_hop_us, link.nic_ll_hop_us, link.nic_post_us)
    yield _Protocol("low-latency", *low, node.links * link.ll_gb_s, 1 / 2)
    if far:  # within a node, constants of the low-latency protocol are of whichever of both the library takes
        yield _Protocol("low-latency-128", *low, rate * _LINE_SHARE, link.nic_ll128_share)


def _candidates(name: str, total_bytes: int, node: Node, nodes: int) -> Iterator[CollectiveTime]:
    passes = 2 if name == "all-reduce" else 1
    direct = name == "all-to-all"
    both = node.links * node.link.kernel_both_gb_s
    # The two passes of an all-reduce follow one another piece by piece, so both are under way at once.
    rate = both if direct else min(both, passes * node.links * node.link.ring_gb_s)
    for protocol in _protocols(node, rate, far=nodes > 1):
        yield _ring(name, total_bytes, node, nodes, protocol)
        if name == "all-reduce" and nodes > 1 and node.ranks > 1:
            yield _tree(total_bytes, node, nodes, protocol)


def _ring(name: str, total_bytes: int, node: Node, nodes: int, protocol: _Protocol) -> CollectiveTime:
    """A ring over all ranks; of an all-to-all the exchange of each with each."""
    link, ranks = node.link, node.ranks * nodes
    passes, direct = 2 if name == "all-reduce" else 1, name == "all-to-all"
    sent = passes * total_bytes * (ranks - 1) / ranks
    steps, crossings = (1, min(1, nodes - 1)) if direct else (passes * (ranks - 1), passes * (nodes - 1))
    network = link.nic_gb_s * link.nic_efficiency * protocol.network_share
    network *= (ranks - 1) / max(1, ranks - node.ranks) if direct else node.ranks
    hop = max(protocol.hop_us, protocol.post_us) if nodes > 1 else protocol.hop_us
    fixed = protocol.base_us + (steps - crossings) * hop + crossings * protocol.nic_hop_us
    if name == "all-reduce" and nodes > 1 and protocol.name == "simple":
        fixed *= link.ring_plateau
    rate = network if node.ranks == 1 else protocol.rate
    reached = min(rate, network) if nodes > 1 else rate
    return _time("direct" if direct else "ring", protocol, fixed, sent, sent / reached * 1e-3, reached < rate)


def _tree(total_bytes: int, node: Node, nodes: int, protocol: _Protocol) -> CollectiveTime:
    """Trees over nodes, along a chain of the GPUs of each; every channel has one."""
    link, ranks = node.link, node.ranks * nodes
    levels = math.ceil(math.log2(nodes))
    depth = node.ranks + levels - 1
    chunk = _chunk_bytes(total_bytes / link.nic_channels, depth)
    fixed = protocol.base_us + 2 * ((node.ranks - 1) * protocol.hop_us + levels * protocol.nic_hop_us)
    # The first chunk goes up and down alone, as fast as the threads of its workgroup send.
    fixed += (2 * depth - 1) * chunk / (link.unit_gb_s / _TREE_SPLIT) * 1e-3
    within = 2 * total_bytes / protocol.rate * 1e-3
    # Of two nodes one sends up and the other down; of more, those between leaves and root send both.
    out = total_bytes * (1 if nodes == 2 else 2)
    across = out / (node.ranks * link.nic_gb_s * link.nic_efficiency * protocol.network_share) * 1e-3
    sent = 2 * total_bytes * (ranks - 1) / ranks
    return _time("tree", protocol, fixed, sent, max(within, across), across > within)


def _chunk_bytes(channel_bytes: float, depth: int) -> int:
    """Bytes of a chunk of a tree."""
    chunk = _BUFFER_BYTES // _STEPS
    for times, least in _CHUNKS:
        while channel_bytes / chunk < times * depth and chunk > least:
            chunk //= 2
    return chunk


def _time(
    algorithm: str, protocol: _Protocol, fixed: float, sent: float, moving: float, network_bound: bool
) -> CollectiveTime:
    us = fixed + moving
    bound = "latency" if fixed > moving else "network" if network_bound else "link"
    # Each byte that arrives is written once and read once more to be sent on or summed.
    return CollectiveTime(us, algorithm, protocol.name, sent, sent / us * 1e-3, 2 * sent, bound)

"""A node: several virtual devices in one process, with streams, copies and signals between them."""

from __future__ import annotations

from wavecast.simulator.virtual.node.node import NodeOptions, NodeRank, VirtualNode, virtual_node
from wavecast.simulator.virtual.node.operations import Event
from wavecast.simulator.virtual.node.policy import Ordered, Policy, Seeded, every_order
from wavecast.simulator.virtual.node.streams import NodeStream

__all__ = [
    "Event",
    "NodeOptions",
    "NodeRank",
    "NodeStream",
    "Ordered",
    "Policy",
    "Seeded",
    "VirtualNode",
    "every_order",
    "virtual_node",
]

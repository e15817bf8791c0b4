"""Work that progresses at a rate: tiles that run and bytes that move, sharing links and HBM.

Copies share links evenly. Where more bytes want HBM than it moves, all get the same part of what they want. A kernel
hides memory behind its other work as it does alone: its resources add up in the same norm, and only the part of its
time that HBM takes grows, by what others take of HBM.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wavecast.simulator.overlap.node import Node


@dataclass(slots=True, eq=False)
class Tiles:
    """Tiles of a kernel that started together.

    Attributes:
        owner: Number of the launch; others of the same are no strangers.
        rank: Where.
        count: How many.
        left_us: Time that is left at the kernel's own speed.
        hbm_gb_s: What all of them move at that speed.
        done: Called when they end.
        speed: Progress at present; 1: as alone.
    """

    owner: int
    rank: int
    count: int
    left_us: float
    hbm_gb_s: float
    done: Callable[[], None]
    speed: float = 1.0


@dataclass(slots=True, eq=False)
class Transfer:
    """Bytes on their way between two GPUs, or within one.

    Attributes:
        source: GPU that is read.
        target: GPU that is written.
        engine: Who moves them, one of ``program.ENGINES``.
        left_bytes: What is left.
        limit_gb_s: What whoever copies reaches at most.
        done: Called at the end.
        gb_s: Rate at present.
    """

    source: int
    target: int
    engine: str
    left_bytes: float
    limit_gb_s: float
    done: Callable[[], None]
    gb_s: float = 1.0


def set_rates(tiles: Iterable[Tiles], transfers: Iterable[Transfer], node: Node) -> None:
    """Set the speed of everything that is under way."""
    transfers = list(transfers)
    pairs = Counter((entry.source, entry.target) for entry in transfers)
    out = Counter(entry.source for entry in transfers if entry.source != entry.target)
    into = Counter(entry.target for entry in transfers if entry.source != entry.target)
    taken: defaultdict[int, float] = defaultdict(float)
    for entry in transfers:
        if entry.source == entry.target:
            entry.gb_s = min(entry.limit_gb_s, node.hbm_gb_s / 2)
        else:
            both = (entry.target, entry.source) in pairs
            rates = (
                entry.limit_gb_s,
                node.pair_gb_s(entry.engine, both=both) / pairs[entry.source, entry.target],
                node.total_gb_s(entry.engine, both=both) / max(out[entry.source], into[entry.target]),
            )
            entry.gb_s = min(rates)
        taken[entry.source] += entry.gb_s
        taken[entry.target] += entry.gb_s
    wanted = taken.copy()
    kernels = list(tiles)
    own: defaultdict[int, float] = defaultdict(float)
    for running in kernels:
        wanted[running.rank] += running.hbm_gb_s
        own[running.owner] += running.hbm_gb_s
    for entry in transfers:
        entry.gb_s *= min(1.0, *(node.hbm_gb_s / max(wanted[rank], 1e-9) for rank in (entry.source, entry.target)))
    for running in kernels:
        mine = own[running.owner]
        running.speed = _speed(mine, wanted[running.rank] - mine, node)


def _speed(own_gb_s: float, others_gb_s: float, node: Node) -> float:
    """Progress of a kernel's tiles beside ``others_gb_s`` on the same HBM."""
    if own_gb_s <= 0 or (others_gb_s <= 0 and own_gb_s <= node.hbm_gb_s):
        return 1.0
    norm = node.device.combine.pipeline_norm
    alone = min(1.0, own_gb_s / node.hbm_gb_s)
    share = max(node.hbm_gb_s - others_gb_s, node.hbm_gb_s * own_gb_s / (own_gb_s + others_gb_s))
    memory = own_gb_s / share
    other = 1.0 - alone**norm  # of the norm, what is not HBM
    return 1.0 / max(1.0, (other + memory**norm) ** (1 / norm))

"""A node: equal GPUs, their links, and the settings of the runtime that decide who shares what."""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.devices.constants import Link
from wavecast.simulator.overlap.errors import OverlapError


@dataclass(frozen=True, slots=True)
class Node:
    """GPUs of one kind that reach each other's memory.

    Attributes:
        device: Each of the GPUs.
        ranks: Their number.
        hardware_queues: Queues of a GPU that streams of one priority share; None: what the runtime makes by default.
        host_us: Host time to enqueue one operation; 0 for a captured graph, or where the host is ahead.
        captured: Whether calls are nodes of a graph, which takes collectives longer.
    """

    device: Device
    ranks: int
    hardware_queues: int | None = None
    host_us: float = 0.0
    captured: bool = False

    def __post_init__(self) -> None:
        if self.device.link is None:
            raise OverlapError(
                f"the specification of {self.device.name} says nothing of links between GPUs",
                hint="choose a device with a link section: mi300x, mi325x, mi355x, h200",
            )
        most = self.link.num_links // self.link.links_per_peer + 1
        if self.ranks < 1 or (self.link.full_mesh and self.ranks > most):
            raise OverlapError(f"{self.ranks} GPUs do not make a node of {self.device.title}; wanted are 1 to {most}")
        if self.queues < 1 or self.host_us < 0:
            raise OverlapError(f"{self.queues} hardware queues, {self.host_us} µs a call: wanted is at least 1 and 0")

    @property
    def link(self) -> Link:
        """Constants of links and queues."""
        assert self.device.link is not None
        return self.device.link

    @property
    def queues(self) -> int:
        """Hardware queues that streams of a GPU share."""
        return self.link.hardware_queues if self.hardware_queues is None else self.hardware_queues

    @property
    def engines(self) -> int:
        """Shader engines of a GPU."""
        return self.device.compute.num_xcd * self.link.shader_engines_per_xcd

    @property
    def units_per_engine(self) -> tuple[int, ...]:
        """Compute units of each shader engine.

        Those that an XCD's engines do not divide evenly go to its first ones; which ones a part really lacks is not
        published.
        """
        per_xcd = self.device.compute.num_cu // self.device.compute.num_xcd
        least, more = divmod(per_xcd, self.link.shader_engines_per_xcd)
        one = [least + (index < more) for index in range(self.link.shader_engines_per_xcd)]
        return tuple(one * self.device.compute.num_xcd)

    @property
    def links(self) -> int:
        """Links of a GPU that lead to others of the node."""
        link = self.link
        return max(1, (self.ranks - 1) * link.links_per_peer) if link.full_mesh else link.num_links

    @property
    def fetchers(self) -> int:
        """Workgroups that saturate the links to one other GPU."""
        return max(1, round(self.link.links_per_peer * self.link.kernel_gb_s / self.link.unit_gb_s))

    def pair_gb_s(self, engine: str, *, both: bool) -> float:
        """What copies from one GPU to one other reach together.

        Args:
            engine: Who copies, one of ``program.ENGINES``.
            both: Whether the other direction is busy as well.
        """
        link = self.link
        by_engine = {False: link.engine_gb_s, True: link.engine_both_gb_s}
        by_kernel = {False: link.kernel_gb_s, True: link.kernel_both_gb_s}
        return link.links_per_peer * (by_engine if engine == "copy-engine" else by_kernel)[both]

    def total_gb_s(self, engine: str, *, both: bool) -> float:
        """What all copies out of a GPU, or into it, reach together."""
        return self.pair_gb_s(engine, both=both) / self.link.links_per_peer * self.link.num_links

    @property
    def hbm_gb_s(self) -> float:
        """HBM bandwidth under reads and writes."""
        return self.device.hbm.mixed_tb_s * 1e3

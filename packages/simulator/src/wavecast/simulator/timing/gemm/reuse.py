"""Bytes that a GEMM moves between the levels of memory, from the order of its tiles.

A tile reads a panel of A (its rows over the whole depth) and a panel of B. Workgroups that run at the same time read
the panels they share in step, so that an L2 fetches a panel once for all its workgroups of a round; from round to round
it keeps the panels that were used last, as far as they fit. The memory-side cache does the same for all L2s.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.timing.gemm.problem import GemmProblem
from wavecast.simulator.timing.gemm.tile import Configuration


@dataclass(frozen=True, slots=True)
class Caches:
    """What decides reuse.

    Attributes:
        slots: Workgroups that run at once.
        l2s: L2 caches.
        l2_bytes: Capacity of each.
        mall_bytes: Capacity of the memory-side cache, 0 without one.
        warm: Whether an equal launch just before left its operands in the caches.
    """

    slots: int
    l2s: int
    l2_bytes: int
    mall_bytes: int
    warm: bool


@dataclass(frozen=True, slots=True)
class Movement:
    """Bytes of a launch.

    Attributes:
        l2_read: From L2 into the compute units.
        fabric_read: Into the L2s.
        hbm_read: From HBM.
        written: Result, once.
    """

    l2_read: float
    fabric_read: float
    hbm_read: float
    written: float


@dataclass(frozen=True, slots=True)
class _Panels:
    """One entry for each workgroup, in dispatch order: its panels by number. Sizes by panel, in bytes."""

    a: np.ndarray
    b: np.ndarray
    sizes: np.ndarray
    written: np.ndarray


def tile_order(rows: int, columns: int, *, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each tile, in dispatch order: windows of rows, inside a window column by column."""
    if not window:
        window = rows if columns > rows else 1
    window = min(window, rows)
    index = np.arange(rows * columns)
    first = index // (window * columns) * window
    height = np.minimum(window, rows - first)
    inside = index - first * columns
    return first + inside % height, inside // height


def movement(problem: GemmProblem, configuration: Configuration, caches: Caches) -> Movement:
    """Bytes between the levels.

    Args:
        problem: What is computed.
        configuration: Tiles and their order.
        caches: Capacities.
    """
    return _movement(problem, configuration, caches)


def no_reuse(problem: GemmProblem, configuration: Configuration) -> Movement:
    """Bytes if every workgroup fetched its panels from HBM."""
    panels = _panels(problem, configuration)
    read = float(panels.sizes[panels.a].sum() + panels.sizes[panels.b].sum())
    return Movement(read, read, read, float(panels.written.sum()))


@functools.lru_cache(maxsize=4096)
def _movement(problem: GemmProblem, configuration: Configuration, caches: Caches) -> Movement:
    panels = _panels(problem, configuration)
    count, l2s = len(panels.a), caches.l2s
    l2 = [_Cache(caches.l2_bytes) for _ in range(l2s)]
    mall = _Cache(caches.mall_bytes)
    fabric = hbm = 0.0
    for counted in (False, True) if caches.warm else (True,):
        if counted:
            fabric = hbm = 0.0
        for start in range(0, count, caches.slots):
            stop = min(start + caches.slots, count)
            missed: set[int] = set()
            for number in range(l2s):
                members = _members(start, stop, number, l2s, chunked=configuration.chunked)
                used = np.unique(np.concatenate((panels.a[members], panels.b[members]))).tolist()
                misses = l2[number].use(used, panels.sizes, float(panels.written[members].sum()))
                fabric += float(panels.sizes[misses].sum())
                missed.update(misses)
            wanted = sorted(missed)
            misses = mall.use(wanted, panels.sizes, float(panels.written[start:stop].sum()))
            hbm += float(panels.sizes[misses].sum())
    rows, columns = configuration.cluster
    read = float(panels.sizes[panels.a].sum() / columns + panels.sizes[panels.b].sum() / rows)
    return Movement(read, fabric, hbm, float(panels.written.sum()))


def _members(start: int, stop: int, number: int, l2s: int, *, chunked: bool) -> slice:
    """Workgroups of a round that one L2 serves."""
    if not chunked:
        return slice(start + (number - start) % l2s, stop, l2s)
    share = -(-(stop - start) // l2s)
    return slice(min(stop, start + number * share), min(stop, start + (number + 1) * share))


class _Cache:
    """Panels used last and what was written since, as far as they fit.

    A round walks along all its panels at once: if they do not fit together, nothing of them is left for the next one.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held: OrderedDict[int, float] = OrderedDict()
        self.filled = 0.0
        self.rounds = 0

    def use(self, panels: list[int], sizes: np.ndarray, written: float) -> list[int]:
        """Touch the panels of a round, write its result, and return the panels that were not there."""
        misses = [panel for panel in panels if panel not in self.held]
        self.rounds += 1
        if sum(float(sizes[panel]) for panel in panels) > self.capacity:
            self.held.clear()
            self.filled = 0.0
        else:
            for panel in panels:
                self._add(panel, float(sizes[panel]))
        self._add(-self.rounds, written)
        return misses

    def _add(self, key: int, size: float) -> None:
        self.filled += size - self.held.pop(key, 0.0)
        self.held[key] = size
        while self.filled > self.capacity:
            self.filled -= self.held.popitem(last=False)[1]


def _panels(problem: GemmProblem, configuration: Configuration) -> _Panels:
    tile, split = configuration.tile, configuration.split_k
    a, b, written = [], [], []
    sizes: list[float] = []
    for shape in problem.groups:
        rows, columns = configuration.grid(shape)
        if not rows * columns:
            continue
        heights = np.clip(shape.m - tile.m * np.arange(rows), 0, tile.m)
        widths = np.clip(shape.n - tile.n * np.arange(columns), 0, tile.n)
        depth_bytes = shape.k * problem.bits / 8 / split
        row, column = tile_order(rows, columns, window=configuration.window)
        for _ in range(split):
            first = len(sizes)
            a.append(first + row)
            b.append(first + rows + column)
            sizes += [*(heights * depth_bytes), *(widths * depth_bytes)]
            written.append(heights[row] * widths[column] * (problem.out_bytes if split == 1 else 4))
    return _Panels(np.concatenate(a), np.concatenate(b), np.array(sizes), np.concatenate(written))

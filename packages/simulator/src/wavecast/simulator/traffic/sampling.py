"""Which workgroups of a large grid to execute, and how far the rest may differ from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device

# Workgroups of a cluster for each XCD, at most: those that follow one another on an XCD share its L2.
_ROUNDS = 4
_CLUSTERS = 16
# The variance between clusters is not known from fewer.
_FEWEST_CLUSTERS = 4
_GOLDEN_RATIO = 0.6180339887498949
# Work that a sample is sized to, in wave instructions: about half a second of the host.
_WORK = 1.2e7
# Of a line that a wave instruction touches, beside the instruction's own.
_WORK_PER_LINE = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """Workgroups that stand for a grid.

    Attributes:
        workgroups: int64 linear ids, ascending.
        starts: First position in ``workgroups`` of each cluster of consecutive ids.
        total_workgroups: Size of the grid.
    """

    workgroups: np.ndarray
    starts: np.ndarray
    total_workgroups: int

    @property
    def fraction(self) -> float:
        """Part of the grid that is executed."""
        return len(self.workgroups) / self.total_workgroups

    @property
    def is_complete(self) -> bool:
        return len(self.workgroups) == self.total_workgroups


def pilot_workgroups(total_workgroups: int, device: Device) -> np.ndarray:
    """The workgroups to run first, to learn how much work one is: every sample of the grid begins with them.

    Args:
        total_workgroups: Size of the grid, at least 1.
        device: Tells the number of XCDs.

    Returns:
        int64 linear ids, one for each XCD; the whole grid if no sample of it would be much smaller.
    """
    xcds = device.compute.num_xcd
    if total_workgroups <= 2 * _FEWEST_CLUSTERS * xcds:
        return np.arange(total_workgroups, dtype=np.int64)
    return _first_of_all(total_workgroups, xcds) + np.arange(xcds, dtype=np.int64)


def choose_workgroups(total_workgroups: int, device: Device, *, work_per_workgroup: float = 0.0) -> Sample:
    """A stratified sample of clusters of consecutive workgroups.

    Ids go round-robin over the XCDs, and workgroups that share cache lines have neighbouring ids: they are taken
    together, up to four for every XCD. The grid is cut into up to 16 strata of equal size, and each gives one cluster.
    Where in the stratum follows the golden ratio: equal distances would fall in step with the powers of two that grids
    and address maps are made of. If workgroups are long, the sample has fewer clusters, at last smaller ones. A grid
    that is not much larger than the sample is taken whole.

    Args:
        total_workgroups: Size of the grid, at least 1.
        device: Tells the number of XCDs.
        work_per_workgroup: See ``work_of``; 0 for as large a sample as is ever taken.

    Raises:
        ValueError: if there is no workgroup.
    """
    if total_workgroups < 1:
        raise ValueError(f"{total_workgroups} workgroups to choose from; wanted at least 1")
    xcds = device.compute.num_xcd
    affordable = min(total_workgroups, _WORK / work_per_workgroup if work_per_workgroup else total_workgroups)
    clusters = int(np.clip(affordable // (xcds * _ROUNDS), _FEWEST_CLUSTERS, _CLUSTERS))
    size = xcds * int(np.clip(affordable // (xcds * clusters), 1, _ROUNDS))
    if total_workgroups <= 2 * clusters * size:
        return Sample(np.arange(total_workgroups, dtype=np.int64), np.zeros(1, dtype=np.int64), total_workgroups)
    stratum = total_workgroups / clusters
    places = (np.arange(clusters) * _GOLDEN_RATIO + 0.5) % 1.0
    first_ids = np.round(np.arange(clusters) * stratum + places * (stratum - size)).astype(np.int64)
    # Clusters start at XCD 0, so that each XCD runs the same number of consecutive rounds.
    first_ids -= first_ids % xcds
    first_ids[0] = _first_of_all(total_workgroups, xcds)
    ids = (first_ids[:, None] + np.arange(size, dtype=np.int64)).ravel()
    return Sample(ids, np.arange(clusters, dtype=np.int64) * size, total_workgroups)


def work_of(line_accesses: int, instructions: int) -> float:
    """Work of executed workgroups, as ``choose_workgroups`` weighs it.

    Args:
        line_accesses: Lines touched by wave instructions.
        instructions: Wave instructions.
    """
    return instructions + _WORK_PER_LINE * line_accesses


def _first_of_all(total_workgroups: int, xcds: int) -> int:
    """Where the first cluster begins, however many there are: mid-stratum of the most, or 0 if all may run."""
    largest = _CLUSTERS * _ROUNDS * xcds
    if total_workgroups <= 2 * largest:
        return 0
    first = round(0.5 * (total_workgroups - largest) / _CLUSTERS)
    return first - first % xcds


def sampling_error(per_workgroup: np.ndarray, workgroups: np.ndarray, total_workgroups: int) -> float:
    """Relative standard error of the grid's total as estimated from clusters of workgroups.

    Taken from the variance between the means of the clusters (runs of consecutive ids), with the correction for a
    finite grid. It sees no difference between workgroups that fall between the clusters in a regular pattern.

    Args:
        per_workgroup: One number per workgroup that ran, in the order of ``workgroups``.
        workgroups: Their linear ids, ascending.
        total_workgroups: Size of the grid.

    Returns:
        0.0 if the whole grid ran; otherwise at least 0. One cluster alone gives infinity.
    """
    if len(workgroups) >= total_workgroups:
        return 0.0
    breaks = np.flatnonzero(np.diff(workgroups) != 1) + 1
    means = np.array([chunk.mean() for chunk in np.split(np.asarray(per_workgroup, dtype=np.float64), breaks)])
    if len(means) < 2:
        return float("inf")
    if means.mean() == 0:
        return 0.0
    correction = np.sqrt(1 - len(workgroups) / total_workgroups)
    return float(means.std(ddof=1) / np.sqrt(len(means)) / means.mean() * correction)

"""Which workgroups of a large grid to execute, and how far the rest may differ from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device

_WORKGROUPS_PER_XCD = 4
_CLUSTERS = 16
_GOLDEN_RATIO = 0.6180339887498949


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


def choose_workgroups(total_workgroups: int, device: Device, *, clusters: int = _CLUSTERS) -> Sample:
    """A stratified sample of clusters of consecutive workgroups.

    Ids go round-robin over the XCDs, and workgroups that share cache lines have neighbouring ids: they are taken
    together, four for every XCD. The grid is cut into strata of equal size, and each gives one cluster. Where in the
    stratum follows the golden ratio: equal distances would fall in step with the powers of two that grids and address
    maps are made of. A grid that is not much larger than the sample is taken whole.

    Args:
        total_workgroups: Size of the grid, at least 1.
        device: Tells the number of XCDs.
        clusters: Number of clusters, at least 2.

    Raises:
        ValueError: if either count is too small.
    """
    if total_workgroups < 1 or clusters < 2:
        raise ValueError(f"{total_workgroups} workgroups in {clusters} clusters; wanted at least 1 and 2")
    size = device.compute.num_xcd * _WORKGROUPS_PER_XCD
    if total_workgroups <= 2 * clusters * size:
        return Sample(np.arange(total_workgroups, dtype=np.int64), np.zeros(1, dtype=np.int64), total_workgroups)
    stratum = total_workgroups / clusters
    places = (np.arange(clusters) * _GOLDEN_RATIO + 0.5) % 1.0
    first_ids = np.round(np.arange(clusters) * stratum + places * (stratum - size)).astype(np.int64)
    # Clusters start at XCD 0, so that each XCD runs the same number of consecutive rounds.
    first_ids -= first_ids % device.compute.num_xcd
    ids = (first_ids[:, None] + np.arange(size, dtype=np.int64)).ravel()
    return Sample(ids, np.arange(clusters, dtype=np.int64) * size, total_workgroups)


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

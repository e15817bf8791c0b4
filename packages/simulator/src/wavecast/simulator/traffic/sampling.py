"""Which workgroups of a large grid to execute, and how far the rest may differ from them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.evenly import golden_fractions

# Consecutive workgroups of a row for each XCD, at most, and of a cluster: those that follow one another on an XCD share
# its L2. The first of a row is only there for the others to find what it left.
_ROUNDS, _ROUNDS_OF_CLUSTER = 4, 8
_FEWEST_ROUNDS = 2
_CLUSTERS = 16
# The variance between clusters is not known from fewer.
_FEWEST_CLUSTERS = 4
# Of the distance between the places of clusters along the first axis, by which they are off an even one at most; and
# workgroups, by so many at least: else all clusters begin at even ids, where two neighbours share each line.
_UNEVEN, _FEWEST_UNEVEN = 0.25, 2
# Work that a sample is sized to, in wave instructions: about half a second of the host.
_WORK = 1.2e7
# Of a line that a wave instruction touches, beside the instruction's own.
_WORK_PER_LINE = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """Workgroups that stand for a grid.

    Attributes:
        workgroups: int64 linear ids, ascending.
        clusters: int64, number of the cluster that each belongs to.
        counted: bool, whether its neighbours before it in the grid ran too, as far as they are looked for: only of
            those it is known what they touch first.
        total_workgroups: Size of the grid.
        near: Clusters whose numbers differ by no more than this may be neighbours in the grid.
    """

    workgroups: np.ndarray
    clusters: np.ndarray
    counted: np.ndarray
    total_workgroups: int
    near: int = 0

    @property
    def fraction(self) -> float:
        """Part of the grid that is executed."""
        return len(self.workgroups) / self.total_workgroups

    @property
    def is_complete(self) -> bool:
        return len(self.workgroups) == self.total_workgroups


@dataclass(frozen=True, slots=True)
class _Shape:
    """Form of a sample.

    Attributes:
        clusters: How many.
        row: Consecutive workgroups of each row of a cluster.
        offsets: int64, ascending: distance of the rows of a cluster from the first.
    """

    clusters: int
    row: int
    offsets: np.ndarray

    @property
    def workgroups(self) -> int:
        return self.clusters * self.row * len(self.offsets)


def grid_strides(grid: Sequence[int]) -> tuple[int, ...]:
    """Distances between the ids of neighbours along each axis but the first, the nearest first."""
    strides, stride = [], 1
    for extent, longer in itertools.pairwise(grid):
        stride *= extent
        if longer > 1:
            strides.append(stride)
    return tuple(strides)


def pilot_workgroups(total_workgroups: int, device: Device, *, strides: Sequence[int] = ()) -> np.ndarray:
    """The workgroups to run first, to learn how much work one is: every sample of the grid begins with them.

    Args:
        total_workgroups: Size of the grid, at least 1.
        device: Tells the number of XCDs.
        strides: See ``choose_workgroups``.

    Returns:
        int64 linear ids, one for each XCD; the whole grid if it has no more.
    """
    xcds = device.compute.num_xcd
    if total_workgroups <= xcds:
        return np.arange(total_workgroups, dtype=np.int64)
    return _first_of_all(total_workgroups, xcds, strides) + np.arange(xcds, dtype=np.int64)


def choose_workgroups(
    total_workgroups: int, device: Device, *, strides: Sequence[int] = (), work_per_workgroup: float = 0.0
) -> Sample:
    """A stratified sample of clusters of neighbouring workgroups.

    Ids go round-robin over the XCDs, and workgroups that share cache lines are neighbours: a cluster is a row of
    consecutive ids, up to four for every XCD, and the rows before it along each further axis of the grid. The grid is
    cut into up to 16 strata of equal size, and each gives one cluster. Where in the stratum follows the golden ratio:
    equal distances would fall in step with the powers of two that grids and address maps are made of. So does where
    along the first axis, if that is longer than a row. If workgroups are
    long, the sample has fewer clusters, then shorter rows, at last no rows along the outer axes. A grid that is not
    much larger than the sample is taken whole.

    Args:
        total_workgroups: Size of the grid, at least 1.
        device: Tells the number of XCDs.
        strides: Distances between the ids of neighbours along the outer axes, see ``grid_strides``.
        work_per_workgroup: See ``work_of``; 0 for as large a sample as is ever taken.

    Raises:
        ValueError: if there is no workgroup.
    """
    if total_workgroups < 1:
        raise ValueError(f"{total_workgroups} workgroups to choose from; wanted at least 1")
    xcds = device.compute.num_xcd
    affordable = min(total_workgroups, _WORK / work_per_workgroup if work_per_workgroup else total_workgroups)
    shape = _shape(affordable, xcds, _row_offsets(total_workgroups, xcds, strides))
    if total_workgroups <= 2 * shape.workgroups:
        everything = np.arange(total_workgroups, dtype=np.int64)
        return Sample(everything, np.zeros_like(everything), np.ones(total_workgroups, np.bool_), total_workgroups)
    stratum = (total_workgroups - int(shape.offsets[-1])) / shape.clusters
    numbers = np.arange(shape.clusters)
    first_ids = _first_ids(total_workgroups, shape, stratum, xcds, strides)
    place_in_row = np.arange(shape.row, dtype=np.int64)
    ids = first_ids[:, None, None] + shape.offsets[:, None] + place_in_row
    counted = (np.arange(len(shape.offsets)) == len(shape.offsets) - 1)[:, None] & (place_in_row >= xcds)
    clusters = np.broadcast_to(numbers[:, None, None], ids.shape).ravel()
    counted = np.broadcast_to(counted, ids.shape).ravel()
    # A workgroup that two clusters want belongs to the one that counts it.
    order = np.lexsort((~counted, ids.ravel()))
    workgroups, first = np.unique(ids.ravel()[order], return_index=True)
    # Clusters may be nearer than a stratum to one another by a row at most, and several lie beside one another in a
    # row of the grid that is longer than a stratum.
    reach = 2 * int(shape.offsets[-1]) + (strides[0] if strides and strides[0] > stratum else 0)
    near = int(reach // stratum + 1) if reach else 0
    return Sample(workgroups, clusters[order][first], counted[order][first], total_workgroups, near)


def _first_ids(total_workgroups: int, shape: _Shape, stratum: float, xcds: int, strides: Sequence[int]) -> np.ndarray:
    """Where each cluster begins, int64.

    In a grid of several axes whose first is longer than the rows of clusters, each cluster has its own place along
    that axis, and together they cover it evenly: what a workgroup does often depends on where it stands there.
    """
    first_of_all = _first_of_all(total_workgroups, xcds, strides)
    numbers, most = np.arange(shape.clusters), total_workgroups - int(shape.offsets[-1])
    places = golden_fractions(numbers, first=0.5)
    wanted: np.ndarray
    if strides and strides[0] > shape.row:
        # Even distances, but for a part of them: see ``choose_workgroups`` on powers of two.
        uneven = min(1.0, max(_UNEVEN, _FEWEST_UNEVEN * shape.clusters / strides[0]))
        turns = np.argsort(np.argsort(golden_fractions(numbers))) + uneven * places
        along = (first_of_all + turns * strides[0] / shape.clusters) % strides[0]
        wanted = (numbers + places) * (most // strides[0]) // shape.clusters * strides[0] + along
    else:
        wanted = np.round(numbers * stratum + places * (stratum - shape.row))
    # Clusters start at XCD 0, so that each XCD runs the same number of consecutive rounds.
    first_ids = np.minimum(wanted, most - shape.row).astype(np.int64)
    first_ids -= first_ids % xcds
    first_ids[0] = first_of_all
    return first_ids


def work_of(line_accesses: int, instructions: int) -> float:
    """Work of executed workgroups, as ``choose_workgroups`` weighs it.

    Args:
        line_accesses: Lines touched by wave instructions.
        instructions: Wave instructions.
    """
    return instructions + _WORK_PER_LINE * line_accesses


def _row_offsets(total_workgroups: int, xcds: int, strides: Sequence[int]) -> np.ndarray:
    """Distances of the rows of a cluster from its first: every sum of strides.

    A stride that a row spans is left out, and so is one along an axis with so few steps that the strata would not fit.
    """
    offsets = np.zeros(1, dtype=np.int64)
    for stride in strides:
        if stride > xcds and offsets[-1] + stride <= total_workgroups // 2:
            offsets = np.concatenate([offsets, offsets + stride])
    return offsets


def _shape(affordable: float, xcds: int, offsets: np.ndarray) -> _Shape:
    """The largest sample that is affordable, and the smallest if none is."""
    while len(offsets) > 1 and affordable < _FEWEST_CLUSTERS * _FEWEST_ROUNDS * xcds * len(offsets):
        offsets = offsets[: len(offsets) // 2]
    most = int(np.clip(_ROUNDS_OF_CLUSTER // len(offsets), _FEWEST_ROUNDS, _ROUNDS))
    clusters = int(np.clip(affordable // (xcds * most * len(offsets)), _FEWEST_CLUSTERS, _CLUSTERS))
    rounds = int(np.clip(affordable // (xcds * clusters * len(offsets)), _FEWEST_ROUNDS, most))
    return _Shape(clusters, xcds * rounds, offsets)


def _first_of_all(total_workgroups: int, xcds: int, strides: Sequence[int]) -> int:
    """Where the first cluster begins, however many there are: mid-stratum of the most.

    It is 0 if all may run, or if other clusters may lie in the same row of the grid.
    """
    offsets = _row_offsets(total_workgroups, xcds, strides)
    largest = _CLUSTERS * _ROUNDS_OF_CLUSTER * xcds
    if total_workgroups <= 2 * largest or (strides and _CLUSTERS * strides[0] > total_workgroups - int(offsets[-1])):
        return 0
    first = max(0, round(0.5 * (total_workgroups - int(offsets[-1]) - largest) / _CLUSTERS))
    return first - first % xcds


def sampling_error(per_workgroup: np.ndarray, clusters: np.ndarray, total_workgroups: int) -> float:
    """Relative standard error of the grid's total as estimated from clusters of workgroups.

    Taken from the variance between the means of the clusters, with the correction for a finite grid. It sees no
    difference between workgroups that fall between the clusters in a regular pattern.

    Args:
        per_workgroup: One number per workgroup that ran.
        clusters: The cluster of each.
        total_workgroups: Size of the grid.

    Returns:
        0.0 if the whole grid ran; otherwise at least 0. One cluster alone gives infinity.
    """
    if len(per_workgroup) >= total_workgroups:
        return 0.0
    sizes = np.bincount(clusters)
    sums = np.bincount(clusters, weights=per_workgroup)
    means = sums[sizes > 0] / sizes[sizes > 0]
    if len(means) < 2:
        return float("inf")
    if means.mean() == 0:
        return 0.0
    correction = np.sqrt(1 - len(per_workgroup) / total_workgroups)
    return float(means.std(ddof=1) / np.sqrt(len(means)) / means.mean() * correction)

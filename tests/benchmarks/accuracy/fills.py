"""Contents of the arrays whose values decide what a kernel does; all others are zeros."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from programs import Array

FLOYD_WARSHALL_SEED = 1


def make_array(array: Array) -> np.ndarray:
    """The array's bytes; zeros take no memory until a kernel writes them."""
    data = np.zeros(array.nbytes, dtype=np.uint8)
    if array.fill:
        name, *numbers = array.fill
        FILLS[str(name)](data, *(int(number) for number in numbers))
    return data


def _ramp(data: np.ndarray, step: int) -> None:
    """int32: 0, step, 2·step, …"""
    words = data.view(np.int32)
    words[:] = np.arange(len(words), dtype=np.int64) * step


def _band(data: np.ndarray, rows: int, per_row: int) -> None:
    """int32 column numbers of a sparse matrix: row r has columns r, r+1, … modulo the number of rows."""
    columns = np.arange(rows, dtype=np.int64)[:, None] + np.arange(per_row)
    data.view(np.int32)[:] = (columns % rows).ravel()


def _distances(data: np.ndarray, nodes: int, passes: int) -> None:
    """uint32 distances of a full random graph, weights 1 to 100, after the first passes of Floyd and Warshall."""
    distances = data.view(np.uint32).reshape(nodes, nodes)
    generator = np.random.default_rng(FLOYD_WARSHALL_SEED)
    distances[:] = generator.integers(1, 101, size=(nodes, nodes), dtype=np.uint32)
    np.fill_diagonal(distances, 0)
    for node in range(passes):
        np.minimum(distances, distances[:, node, None] + distances[None, node, :], out=distances)


def _cycle(data: np.ndarray, node_bytes: int) -> None:
    """int32: one random cycle through the first words of all nodes; each word is the number of the next one's word."""
    words = data.view(np.int32)
    step = node_bytes // 4
    order = np.random.default_rng(42).permutation(len(words) // step).astype(np.int64) * step
    words[order] = np.roll(order, -1)


FILLS: dict[str, Callable[..., None]] = {"ramp": _ramp, "band": _band, "distances": _distances, "cycle": _cycle}

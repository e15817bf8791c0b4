"""Places spread evenly, but in step with nothing: the grids and address maps of programs repeat at equal distances."""

from __future__ import annotations

import numpy as np

_GOLDEN_RATIO = 0.6180339887498949


def golden_fractions(numbers: np.ndarray, *, first: float = 0.0) -> np.ndarray:
    """Multiples of the golden ratio modulo 1: however many of them follow one another, they fill the range evenly.

    Args:
        numbers: Which multiples.
        first: The fraction of number 0.

    Returns:
        float64 in [0, 1).
    """
    return np.asarray((numbers * _GOLDEN_RATIO + first) % 1.0)


def spread_evenly(total: int, count: int) -> np.ndarray:
    """Positions of ``count`` among ``total``, or all of them: one in each part of equal length, int64, ascending.

    Equal distances would fall in step with the rows of a grid, and find the workgroups of one column of it only.
    """
    if count >= total:
        return np.arange(total, dtype=np.int64)
    if total < 2 * count:
        # Parts so short that two neighbours may meet: those that are left out are spread instead.
        return np.delete(np.arange(total, dtype=np.int64), spread_evenly(total, total - count))
    part = np.arange(count)
    return ((part + golden_fractions(part, first=0.5)) * (total / max(1, count))).astype(np.int64)

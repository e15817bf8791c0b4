"""The dynamic instruction stream of chosen workgroups, as straight-line runs.

A run is what a wave executes between two places at which it may go elsewhere: from the target of a branch, or from
where it stopped at a barrier, to the next taken branch, barrier or end. A run that follows itself, as the body of a
loop does, is counted instead of being written again, so a long loop costs one entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# ``position`` is the place of the workgroup in the list of those that ran, ``wave`` counts in the workgroup; the
# instructions ``first`` to ``end - 1`` were executed one after another, ``repeats`` times.
RUN = np.dtype(
    [("position", np.int32), ("wave", np.int32), ("first", np.int32), ("end", np.int32), ("repeats", np.int64)]
)


def joined_runs(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Parts of one recording, each of dtype ``RUN``, as one array."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype=RUN)


def straight_runs(position: int, waves: int, instructions: int) -> np.ndarray:
    """Runs of a workgroup whose waves execute every instruction once."""
    runs = np.zeros(waves, dtype=RUN)
    runs["position"], runs["wave"], runs["end"], runs["repeats"] = position, np.arange(waves), instructions, 1
    return runs

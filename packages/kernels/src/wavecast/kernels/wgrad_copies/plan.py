"""Tile of the transposing copy: a pure function of the element size."""

from __future__ import annotations

from dataclasses import dataclass

LINE_BYTES = 128


@dataclass(frozen=True)
class CopyPlan:
    """Tile of one workgroup of the transposing copy: ``rows`` by ``columns`` elements on ``waves`` waves."""

    rows: int
    columns: int
    waves: int


def copy_plan(*, element_bytes: int) -> CopyPlan:
    """A square tile whose sides are whole cache lines on both sides of the transposition.

    Args:
        element_bytes: 2 or 4.
    """
    side = LINE_BYTES // element_bytes
    return CopyPlan(rows=side, columns=side, waves=4)

"""When the column-wise quantizer cuts groups into parts, and how many: a pure function. Nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from wavecast.kernels.colwise_per_group.plan import Plan, plan
from wavecast.kernels.device import compute_units

PROGRAMS_PER_UNIT = 4
"""Programs for each compute unit: what is resident at a time, once or twice."""

LEAST_PIECES = 2
"""Pieces of a part at least: the second loads while the first is stored, and the partial amax are few."""

NVIDIA_WARPS = 4
NVIDIA_ROW_LANES = 4
"""On NVIDIA parts are streamed in pieces of 128 rows of whole lines, as in the dual layout, not in those of a tile that
would hold a group."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How groups are cut.

    Attributes:
        tile: split of one piece over registers, lanes and waves; `Plan.pieces` is 1.
        parts: parts of each group.
        reason: one sentence on why.
    """

    tile: Plan
    parts: int
    reason: str


@lru_cache
def plan_split(tokens: int, columns: int, groups: int, *, element_bytes: int, arch: str | None) -> SplitPlan | None:
    """Parts of the groups of a matrix (tokens, columns), or None where one program a group and block of columns is
    better: where a tile holds the mean group, which is then read once, or such programs fill the device.

    Args:
        tokens, columns, groups: sizes; at least one group and one column.
        element_bytes: 2 or 4.
        arch: ``gfx…``, ``sm_…``, or None for the interpreter, which counts as gfx.
    """
    tile = plan(tokens, groups, element_bytes=element_bytes, arch=arch)
    mean = -(-tokens // groups)
    units = compute_units(arch)
    if mean <= tile.rows:
        return None
    if arch is not None and arch.startswith("sm_"):
        tile = replace(tile, waves=NVIDIA_WARPS, row_lanes=NVIDIA_ROW_LANES, col_lanes=32 // NVIDIA_ROW_LANES)
    tile = replace(tile, pieces=1)
    programs = -(-columns // tile.columns) * groups
    parts = min(-(-PROGRAMS_PER_UNIT * units // programs), -(-mean // tile.rows) // LEAST_PIECES)
    if programs > units or parts < 2:
        return None
    reason = (
        f"{programs} programs would leave {units} compute units idle: each group is {parts} parts, whose amax have a "
        "launch of their own"
    )
    return SplitPlan(replace(tile, reason=reason), parts, reason)

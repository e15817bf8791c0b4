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

IDLE_FROM = 4
"""Compute units for each program from which on parts are faster."""

NVIDIA_WARPS = 8
NVIDIA_ROW_LANES = 4
"""On NVIDIA parts are streamed in pieces of 256 rows of whole lines, not in those of a tile that
would hold a group."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How groups are cut.

    Attributes:
        tile: split of one piece over registers, lanes and waves; `Plan.pieces` is 1.
        programs: groups and blocks of columns, each of which would be one program uncut.
        parts: parts of each group.
        reason: one sentence on why.
    """

    tile: Plan
    programs: int
    parts: int
    reason: str


@lru_cache
def plan_parts(tokens: int, columns: int, groups: int, *, element_bytes: int, arch: str | None) -> SplitPlan | None:
    """Parts that fill the device; None where a tile holds the mean group, or it is too short to be cut.

    Args:
        tokens, columns, groups: sizes; at least one group.
        element_bytes: 2 or 4.
        arch: ``gfx…``, ``sm_…``, or None for the interpreter, which counts as gfx.
    """
    tile = plan(tokens, groups, element_bytes=element_bytes, arch=arch)
    mean = -(-tokens // groups)
    if columns == 0 or mean <= tile.rows:
        return None
    if arch is not None and arch.startswith("sm_"):
        tile = replace(tile, waves=NVIDIA_WARPS, row_lanes=NVIDIA_ROW_LANES, col_lanes=32 // NVIDIA_ROW_LANES)
    tile = replace(tile, pieces=1)
    programs = -(-columns // tile.columns) * groups
    parts = min(-(-PROGRAMS_PER_UNIT * compute_units(arch) // programs), -(-mean // tile.rows) // LEAST_PIECES)
    if parts < 2:
        return None
    reason = f"each group is {parts} parts, whose amax have a launch of their own"
    return SplitPlan(replace(tile, reason=reason), programs, parts, reason)


@lru_cache
def plan_split(tokens: int, columns: int, groups: int, *, element_bytes: int, arch: str | None) -> SplitPlan | None:
    """`plan_parts` where one program a group and block of columns would leave most of the device idle, else None.

    Of an MI300X, 32 programs (32,768 x 2,048 values in one group) are predicted to take 237 us, parts 114; 64 take as
    long as parts; 112 take 272 us, parts 317, since a program reads its last tile once. An H200 takes 158 us with 32
    programs, 100 in parts; 57 with 64, 55 in parts; 312 with 112, 343 in parts.
    """
    parts = plan_parts(tokens, columns, groups, element_bytes=element_bytes, arch=arch)
    return None if parts is None or parts.programs * IDLE_FROM > compute_units(arch) else parts

"""Programs of the dual-layout launch: a pure function of shape, dtype and architecture. Nothing is measured.

Each value is needed twice, for its row and for its column. The launch has the programs of one group after the other,
so that the second read finds the group in a cache, if that holds it beside what is in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from wavecast.kernels.colwise_per_group import plan as colwise
from wavecast.kernels.colwise_per_group.plan_split import SplitPlan, plan_parts, plan_split
from wavecast.kernels.device import compute_units
from wavecast.kernels.rowwise.plan import NARROWEST_ROW, VECTOR_BYTES, next_power_of_two, wave_lanes

MIB = 1 << 20

HELD_BY_INFINITY_CACHE = 128 * MIB
"""Input of a group that is still there when it is read again: half of the 256 MiB, as results are written meanwhile."""

HELD_BY_L2 = 20 * MIB
"""The same for NVIDIA's L2, 50 MB in two halves."""

BLOCK_K = 1024
"""Values of a row in one block: with one vector a lane, four waves of 32 lanes have a row's block of 16-bit values."""

NVIDIA_WARPS = 4
"""Warps of a program on NVIDIA: four programs fit a multiprocessor, and some load while others store. A group of 1,024
rows is then streamed in tiles of 256, from L2 the second time. With tiles that hold it, of 16 warps and one program a
multiprocessor, an H200 took 381 us instead of 332 for 32,768 x 7,168 values in 32 groups."""

NVIDIA_ROW_LANES = 4
"""Lanes of a warp along the rows of these tiles; the other eight read whole lines."""

NVIDIA_REGISTERS = 128
"""Registers of a lane of these programs, so that four fit."""

NVIDIA_COLUMNS = 4096
"""Columns from which on the one launch is faster on NVIDIA: on an H200, 332 us against 358 for 7,168 columns and 157
against 166 for 5,120, but 129 against 112 for 2,048, of which a group has too few programs. That is for equal groups;
for 32 of random sizes and 7,168 columns either takes 480 us."""

MOST_VALUES = 64
"""Values of rows that a lane holds at most, as in the row-wise quantizer."""

SPLIT_ROW_WAVES = (4, 8, 16)
"""Waves of a program that also keeps the amax of its columns."""

SPLIT_ROW_PROGRAMS, SHORT_ROW_PROGRAMS, SHORT_ROW_VALUES = 4, 8, 16
"""Such programs for each compute unit, and twice as many where a lane holds at most 16 values of a row: on an H200,
129 us instead of 144 for 32,768 x 2,048 values in one group, but 394 instead of 383 for 7,168 columns."""

REDUCED_AT_ONCE, REDUCED_COLUMNS, REDUCED_WARPS = 256, 64, 8
"""Partial amax and columns of a step of the launch between, and its waves."""


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """What a row program of ``waves`` waves holds: BLOCK_M whole rows of PIECES blocks of BLOCK_K values.

    Attributes:
        block_m, block_k, pieces: see above.
        vector: neighbouring values that a lane loads at once.
    """

    block_m: int
    block_k: int
    pieces: int
    vector: int


def plan_row_blocks(columns: int, *, waves: int, element_bytes: int, arch: str | None) -> RowBlocks | None:
    """Rows for a program of ``waves`` waves, a vector of each block a lane; None if not even one row fits it."""
    vector = VECTOR_BYTES // element_bytes
    width = waves * wave_lanes(arch) * vector
    block_k = min(max(next_power_of_two(columns), NARROWEST_ROW), BLOCK_K, width)
    while -(-columns // block_k) * vector > MOST_VALUES and block_k < width:
        block_k *= 2
    pieces = max(-(-columns // block_k), 1)
    return RowBlocks(width // block_k, block_k, pieces, vector) if pieces * vector <= MOST_VALUES else None


@dataclass(frozen=True, slots=True)
class SplitRows:
    """The launches for few long groups.

    Attributes:
        rows: blocks of the row programs.
        num_warps: waves of a row program.
        programs: row programs of each group.
        columns: the cast of the columns.
    """

    rows: RowBlocks
    num_warps: int
    programs: int
    columns: SplitPlan


def _plan_split_rows(
    tokens: int, columns: int, groups: int, parts: SplitPlan, *, element_bytes: int, arch: str | None
) -> SplitRows | None:
    """Row programs of as few waves as hold a row, which is spread over all lanes; None if a row fits none."""
    vector = VECTOR_BYTES // element_bytes
    for waves in SPLIT_ROW_WAVES:
        width = waves * wave_lanes(arch) * vector
        block_k = min(max(next_power_of_two(columns), NARROWEST_ROW), width)
        rows = RowBlocks(width // block_k, block_k, -(-columns // block_k), vector)
        if rows.pieces * vector <= MOST_VALUES:
            blocks = max(-(-tokens // (groups * rows.block_m)), 1)
            per_unit = SHORT_ROW_PROGRAMS if rows.pieces * vector <= SHORT_ROW_VALUES else SPLIT_ROW_PROGRAMS
            programs = min(-(-per_unit * compute_units(arch) // groups), blocks)
            return SplitRows(rows, waves, programs, parts)
    return None


@dataclass(frozen=True, slots=True)
class DualLayoutPlan:
    """How both layouts are launched.

    Attributes:
        columns: tile of the column-wise programs; the row programs have its waves.
        rows: blocks of the row programs, or None: each layout has a launch of its own.
        row_programs: row programs of each group: one block each, if groups are equal.
        max_registers: registers of a lane that the compiler may use at most; None leaves it to the compiler.
        held_bytes: input of a group up to which a cache holds it between its two reads, so that HBM reads it once.
        reason: one sentence on why.
        split: for few long groups, what takes the place of ``rows``.
    """

    columns: colwise.Plan
    rows: RowBlocks | None
    row_programs: int
    max_registers: int | None
    held_bytes: int
    reason: str
    split: SplitRows | None = None


@lru_cache
def plan_dual_layout(tokens: int, columns: int, groups: int, *, element_bytes: int, arch: str | None) -> DualLayoutPlan:
    """The programs for a matrix (tokens, columns) in ``groups`` groups.

    Sizes of groups are the device's data: their mean is what is planned with, others are right all the same.

    Args:
        tokens, columns, groups: sizes; at least one group.
        element_bytes: 2 or 4.
        arch: ``gfx…``, ``sm_…`` or None for the interpreter, which counts as gfx.
    """
    tile = colwise.plan(tokens, groups, element_bytes=element_bytes, arch=arch)
    on_nvidia = arch is not None and arch.startswith("sm_")
    held, cache = held_bytes(arch)
    mean = -(-tokens // groups)
    size = mean * columns * element_bytes
    # Of an MI300X, whose cache serves much of the second read all the same, neither is predicted to be faster: 384 us
    # and 386 for 32,768 x 7,168 values in one group. An H200 takes 737 us in one launch, 383 in three.
    cut = plan_parts if on_nvidia and size > held else plan_split
    parts = cut(tokens, columns, groups, element_bytes=element_bytes, arch=arch)
    if parts is not None:
        split = _plan_split_rows(tokens, columns, groups, parts, element_bytes=element_bytes, arch=arch)
        if split is not None:
            reason = (
                f"rows with the amax of their columns, then columns in parts: the mean group, {size / MIB:.1f} MiB, is "
                f"read twice, as {cache} holds {held / MIB:.0f} MiB, or too few programs would read it"
            )
            return DualLayoutPlan(parts.tile, None, 0, None, held, reason, split)
    if on_nvidia and columns < NVIDIA_COLUMNS:
        reason = f"a launch for each layout: one for both takes {NVIDIA_COLUMNS} columns or more to be faster"
        return DualLayoutPlan(tile, None, 0, None, held, reason)
    if on_nvidia:
        tile = replace(
            tile,
            waves=NVIDIA_WARPS,
            row_lanes=NVIDIA_ROW_LANES,
            col_lanes=32 // NVIDIA_ROW_LANES,
            reason="short tiles: a longer group is read twice but for its last",
        )
    rows = plan_row_blocks(columns, waves=tile.waves, element_bytes=element_bytes, arch=arch)
    if rows is None:
        reason = f"rows of {columns} values do not fit a program of {tile.waves} waves: a launch for each layout"
        return DualLayoutPlan(tile, None, 0, None, held, reason)
    reason = (
        f"one launch; the mean group, {size / MIB:.1f} MiB, is read from HBM {'once' if size <= held else 'twice'}, as "
        f"{cache} holds groups up to {held / MIB:.0f} MiB until they are read again"
    )
    registers = NVIDIA_REGISTERS if on_nvidia else None
    return DualLayoutPlan(tile, rows, max(-(-mean // rows.block_m), 1), registers, held, reason)


def held_bytes(arch: str | None) -> tuple[int, str]:
    """Input that a cache holds between two reads, and the cache's name."""
    on_nvidia = arch is not None and arch.startswith("sm_")
    return (HELD_BY_L2, "L2") if on_nvidia else (HELD_BY_INFINITY_CACHE, "the Infinity Cache")

"""Block sizes of the row-wise quantizer per group: a pure function of shape, dtype and architecture."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wavecast.kernels.rowwise.plan import LANE_VALUES, MAX_WAVES, VECTOR_BYTES, next_power_of_two, wave_lanes

BUNDLE_WAVES = 4
"""Waves over which short groups are bundled: several rows a program, so that a wave has `LANE_VALUES` values a lane."""

HELD_LANE_VALUES = 2 * LANE_VALUES
"""Most values that a lane holds between the amax and the cast: as many as the row-wise quantizer's lanes do."""

NARROWEST_BLOCK = 128
"""Columns of a block at least: 256 bytes of a 16-bit input, so that whole lines are read for a group of any size."""


@dataclass(frozen=True, slots=True)
class RowwisePerGroupPlan:
    """How the kernel is launched.

    Attributes:
        block_m: rows a program.
        block_k: columns of a block. A group whose columns, counted from the vector that it starts in, fit is read once.
        vector: neighbouring values that a lane loads at once.
        num_warps: waves a program.
        programs: size of the (one-dimensional) grid: row blocks times groups.
        reason: one sentence on why.
    """

    block_m: int
    block_k: int
    vector: int
    num_warps: int
    programs: int
    reason: str


def plan_rowwise_per_group(m: int, k: int, groups: int, *, dtype: torch.dtype, arch: str | None) -> RowwisePerGroupPlan:
    """Plan for an (m, k) input with ``groups`` groups of columns.

    A block holds one group of the mean size, as long as a workgroup can: 65,536 columns on AMD, 32,768 on NVIDIA. Group
    sizes are the device's data and not known here; a longer group is right all the same, all but its last block is
    read a second time.

    Args:
        m, k: rows and columns.
        groups: at least 1.
        dtype: of the input.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    lanes = wave_lanes(arch)
    longest = MAX_WAVES * lanes * HELD_LANE_VALUES
    mean = -(-k // groups)
    held = mean <= longest
    block_k = max(next_power_of_two(mean), NARROWEST_BLOCK) if held else MAX_WAVES * lanes * LANE_VALUES
    block_m = max(BUNDLE_WAVES * lanes * LANE_VALUES // block_k, 1)
    reason = (
        f"the mean group of {mean} columns is held in a block of {block_k} columns and read once"
        if held
        else f"the mean group of {mean} columns exceeds every block; blocks of {block_k}, read twice but for the last"
    )
    return RowwisePerGroupPlan(
        block_m=block_m,
        block_k=block_k,
        vector=VECTOR_BYTES // dtype.itemsize,
        num_warps=min(block_m * block_k // (lanes * LANE_VALUES), MAX_WAVES),
        programs=-(-m // block_m) * groups,
        reason=reason,
    )

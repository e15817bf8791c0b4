"""Block sizes of the row-wise quantizer per group: a pure function of shape, dtype and architecture."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wavecast.kernels.rowwise.plan import LANE_VALUES, MAX_WAVES, VECTOR_BYTES, next_power_of_two, wave_lanes

BUNDLE_WAVES = 4
"""Waves over which short groups are bundled: several rows a program, so that a wave has `LANE_VALUES` values a lane."""

HELD_LANE_VALUES = 2 * LANE_VALUES
"""Most values that a lane holds between the amax and the cast: as many as the row-wise quantizer's lanes do."""

WARP_VALUES = 1024
"""Values of a program on NVIDIA, where it is one warp: 32 a lane, as many as `LANE_VALUES`."""

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

    Group sizes are the device's data and not known here; a group longer than the block is right all the same, all but
    its last block is loaded a second time.

    On AMD a block holds one group of the mean size, as long as a workgroup can: 65,536 columns.

    On NVIDIA a program is a single warp with `WARP_VALUES` values. Its steps depend on one another (bounds, values,
    maximum, scale, results), and many programs that never wait for each other's warps hide that better than few large
    ones: 95 % of the bandwidth of a copy on an H200, where the same work in programs of four warps reaches 81 %.
    Rounding the mean group down, not up, spares work on lanes without a value; what is loaded twice comes from a cache.

    Args:
        m, k: rows and columns.
        groups: at least 1.
        dtype: of the input.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    lanes = wave_lanes(arch)
    mean = -(-k // groups)
    padded = max(next_power_of_two(mean), NARROWEST_BLOCK)
    if lanes == 32:
        block_k = min(max(next_power_of_two(mean + 1) // 2, NARROWEST_BLOCK), WARP_VALUES)
        block_m, num_warps = WARP_VALUES // block_k, 1
    else:
        longest = MAX_WAVES * lanes * HELD_LANE_VALUES
        block_k = padded if padded <= longest else MAX_WAVES * lanes * LANE_VALUES
        block_m = max(BUNDLE_WAVES * lanes * LANE_VALUES // block_k, 1)
        num_warps = min(block_m * block_k // (lanes * LANE_VALUES), MAX_WAVES)
    reason = (
        f"the mean group of {mean} columns is held in a block of {block_k} columns and read once"
        if mean <= block_k
        else f"the mean group of {mean} columns is loaded twice, but for its last block of {block_k}"
    )
    return RowwisePerGroupPlan(
        block_m=block_m,
        block_k=block_k,
        vector=VECTOR_BYTES // dtype.itemsize,
        num_warps=num_warps,
        programs=-(-m // block_m) * groups,
        reason=reason,
    )

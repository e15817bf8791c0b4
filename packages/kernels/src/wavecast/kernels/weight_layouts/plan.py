"""Programs of the launch for both layouts of expert weights: a pure function of shape, dtype and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from wavecast.kernels.dual_layout.plan import MIB, RowBlocks, held_bytes, plan_row_blocks
from wavecast.kernels.weight_transpose.plan import TransposePlan, plan_weight_transpose

MOST_WAVES = 8
"""Waves of a program at most: one of 16 takes the registers of a compute unit, so that nothing loads while it stores.
The rows of a strip that registers do not hold are read twice, from a cache the second time."""


@dataclass(frozen=True, slots=True)
class WeightLayoutsPlan:
    """How both layouts are launched.

    Attributes:
        strips: blocks of the transposing programs; the row programs have their waves.
        strips_of_expert: transposing programs of each expert.
        rows: blocks of the row programs, or None: each layout has a launch of its own.
        row_programs: row programs of each expert; those beyond the rows, if any, make the programs of an expert a
            multiple of the dies that they are dealt to, so that strips meet the dies that `TransposePlan` means.
        held_bytes: size of an expert up to which a cache holds it between its two reads, so that HBM reads it once.
        reason: one sentence on why.
    """

    strips: TransposePlan
    strips_of_expert: int
    rows: RowBlocks | None
    row_programs: int
    held_bytes: int
    reason: str


@lru_cache
def plan_weight_layouts(experts: int, k: int, n: int, *, dtype: torch.dtype, arch: str | None) -> WeightLayoutsPlan:
    """The programs for an (experts, k, n) weight with k contiguous; ``arch`` as in `plan_weight_transpose`."""
    strips = plan_weight_transpose(experts, k, n, dtype=dtype, arch=arch, most_waves=MOST_WAVES)
    count = strips.programs // max(experts, 1)
    held, cache = held_bytes(arch)
    if arch is not None and arch.startswith("sm_"):
        reason = "a launch for each layout: most experts are larger than what L2 holds beside the results"
        return WeightLayoutsPlan(strips, count, None, 0, held, reason)
    rows = plan_row_blocks(k, waves=strips.num_warps, element_bytes=dtype.itemsize, arch=arch)
    if rows is None:
        reason = f"{k} values of K do not fit a program of {strips.num_warps} waves: a launch for each layout"
        return WeightLayoutsPlan(strips, count, None, 0, held, reason)
    needed = -(-n // rows.block_m)
    total = -(-(count + needed) // strips.xcds) * strips.xcds
    size = k * n * dtype.itemsize
    reason = (
        f"one launch; an expert, {size / MIB:.1f} MiB, is read from HBM {'once' if size <= held else 'twice'}, as "
        f"{cache} holds up to {held / MIB:.0f} MiB until they are read again"
    )
    return WeightLayoutsPlan(strips, count, rows, total - count, held, reason)

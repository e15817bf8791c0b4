"""Block sizes of the row-wise quantizer: a pure function of shape, dtype and architecture; nothing is timed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

MAX_WAVES = 16
"""Waves of the largest workgroup (1,024 lanes of 64)."""

RESIDENT_VGPRS = 64
"""32-bit registers a lane may fill with fp32 copies of its part of the row. A workgroup of 16 waves has 128 a lane, and
the conversion needs the other half for temporaries and results."""

LANE_VALUES = 32
"""Values a lane owns where the row is long enough: four 16-byte loads of bf16 and four 8-byte stores of FP8. With half
as many, the reduction over lanes and the two divisions are a quarter of all instructions."""

VECTOR_BYTES = 16
"""Widest load of a lane. Neighbouring lanes load neighbouring vectors, so that a wave's load fills whole lines."""

NARROWEST_ROW = 16
"""Values a row is padded to at least: the sizes that FP8 matrix multiplications take are multiples of it."""

FILL_PROGRAMS = 1024
"""Programs below which rows are not bundled: about three for each of the 256 to 304 CUs of these GPUs, so that a short
matrix is spread over all of them."""


@dataclass(frozen=True, slots=True)
class RowwisePlan:
    """How the fused kernel is launched.

    Attributes:
        resident: the whole row stays in registers, and memory is read once; otherwise twice.
        block_m: rows a program.
        block_k: values of a row a step.
        pieces: steps of ``block_k`` values that hold the row if ``resident``; 1 otherwise.
        vector: neighbouring values that a lane loads at once.
        num_warps: waves a program.
        programs: size of the (one-dimensional) grid.
    """

    resident: bool
    block_m: int
    block_k: int
    pieces: int
    vector: int
    num_warps: int
    programs: int


def wave_lanes(arch: str | None) -> int:
    """Lanes of a wave: 64 on CDNA (and for the interpreter, where it has no effect), 32 on NVIDIA."""
    return 32 if arch is not None and arch.startswith("sm_") else 64


def next_power_of_two(value: int) -> int:
    """Smallest power of two >= ``value`` (1 for values below 1)."""
    return 1 << max(value - 1, 0).bit_length()


@lru_cache
def plan_rowwise(m: int, k: int, *, dtype: torch.dtype, arch: str | None) -> RowwisePlan:
    """Plan for an (m, k) input.

    A row is given to as many waves as leave each lane `LANE_VALUES` values, with 16-byte loads and stores of as many
    values; very long rows give a lane more. Rows shorter than a workgroup of four waves are bundled, unless that would
    leave CUs without a program.

    On AMD a row is padded to a power of two: the lanes behind its end cost no memory access. On NVIDIA a row is as many
    pieces, one vector a lane each, as it fills, and rows that need more than four waves give each lane up to
    `RESIDENT_VGPRS` values before they take more waves: 16,640 rows of 5,120 values reach 92.5 % of the bandwidth of a
    copy on an H200, where blocks of 8,192 reach 89.5 %.

    Args:
        m, k: rows and columns.
        dtype: of the input.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    lanes = wave_lanes(arch)
    vector = VECTOR_BYTES // dtype.itemsize
    longest = MAX_WAVES * lanes * RESIDENT_VGPRS
    padded = max(next_power_of_two(k), NARROWEST_ROW)
    if padded > longest:
        return RowwisePlan(
            resident=False,
            block_m=1,
            block_k=MAX_WAVES * lanes * LANE_VALUES,
            pieces=1,
            vector=vector,
            num_warps=MAX_WAVES,
            programs=m,
        )
    block_m = max(4 * lanes * LANE_VALUES // padded, 1)
    while block_m > 1 and -(-m // block_m) < FILL_PROGRAMS:
        block_m //= 2
    num_warps = min(max(block_m * padded // (lanes * LANE_VALUES), 1), MAX_WAVES)
    block_k = padded
    if lanes == 32:
        if num_warps > 4:
            num_warps = max(padded // (lanes * RESIDENT_VGPRS), 4)
        block_k = min(num_warps * lanes * vector // block_m, padded)
    return RowwisePlan(
        resident=True,
        block_m=block_m,
        block_k=block_k,
        pieces=max(-(-k // block_k), 1),
        vector=vector,
        num_warps=num_warps,
        programs=-(-m // block_m),
    )

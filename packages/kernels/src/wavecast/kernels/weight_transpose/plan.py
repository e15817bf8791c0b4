"""Block sizes of the transposing weight quantizer: a pure function of shape, dtype and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from wavecast.kernels.rowwise.plan import VECTOR_BYTES, wave_lanes

BLOCK_K = 32
"""Values of K in a strip: 64 bytes of bf16, the smallest read that L2 and HBM serve without waste. Twice as many would
fill whole 128-byte lines but halve the rows that fit in registers; the plan instead lets strips that share a line run
on one XCD."""

RESIDENT_VECTORS = 20
"""16-byte vectors a lane keeps: 80 of the 128 registers that a lane of a 16-wave workgroup has; the tests check that
the compiler needs no more than the rest."""

NARROW_BLOCK_K = 16
"""Values of K in a strip on NVIDIA where more rows are to fit."""

NVIDIA_VECTORS = 16
"""Vectors a lane keeps on NVIDIA; with `RESIDENT_VECTORS` it spills, unless a loop over further rows follows."""

WAVES = (4, 8, 16)
"""Workgroup sizes, smallest first: small ones let several workgroups overlap on a CU."""

LINE_BYTES = 128
XCDS = 8
"""Dies that workgroups are dealt to in turn on MI300X, MI325X and MI355X; NVIDIA has one. Another number (6 on MI300A)
changes the order of strips only, never a result."""


@dataclass(frozen=True, slots=True)
class TransposePlan:
    """How the strip kernel is launched.

    Attributes:
        block_n: rows of N a block; each lane loads ``pack`` vectors for it.
        block_k: values of K a strip.
        num_warps: waves a program.
        resident_blocks: blocks that stay in registers between amax and cast.
        streamed: whether rows beyond those exist, which are read twice.
        pack: neighbouring bytes of an output row that are joined before the exchange through LDS.
        sharers: strips that share one cache line of the input.
        xcds: dies that programs are dealt to.
        programs: size of the (one-dimensional) grid: experts times strips.
    """

    block_n: int
    block_k: int
    num_warps: int
    resident_blocks: int
    streamed: bool
    pack: int
    sharers: int
    xcds: int
    programs: int

    @property
    def resident_rows(self) -> int:
        """Rows of N that are read once."""
        return self.resident_blocks * self.block_n

    def read_bytes(self, experts: int, k: int, n: int, *, itemsize: int) -> int:
        """Bytes that the loads ask for: every value once, and once more those of the rows that do not stay.

        The second read follows the first within one program. With one program on each of 304 CUs and n = 8192 that is
        60 MB of bf16, and 50 MB of results are written in between, which the 256 MB Infinity Cache holds, so that HBM
        still serves each value once.
        """
        return experts * k * (n + max(n - self.resident_rows, 0)) * itemsize


@lru_cache
def plan_weight_transpose(
    experts: int, k: int, n: int, *, dtype: torch.dtype, arch: str | None, most_waves: int = WAVES[-1]
) -> TransposePlan:
    """Plan for an (experts, k, n) weight with k contiguous.

    The smallest workgroup whose registers hold a whole strip is taken; if none does, the largest, which keeps as many
    rows as fit (5,120 of bf16) and reads the rest twice.

    On NVIDIA a strip that does not fit is halved in width to `NARROW_BLOCK_K`: a sector of 32 bytes, the smallest read
    that costs nothing extra there, so that twice the rows stay in registers and the rest of all strips in flight in L2.

    Args:
        experts, k, n: sizes of the weight.
        dtype: of the weight.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
        most_waves: the largest workgroup to take, one of `WAVES`.
    """
    lanes = wave_lanes(arch)
    itemsize = dtype.itemsize
    pack = 4 if n and n % 4 == 0 else 1
    nvidia = lanes == 32
    vectors = NVIDIA_VECTORS if nvidia else RESIDENT_VECTORS

    def rows_of(waves: int, block_k: int) -> int:
        return waves * lanes * (VECTOR_BYTES // itemsize) // block_k * pack

    block_k = NARROW_BLOCK_K if nvidia and rows_of(most_waves, BLOCK_K) * (vectors // pack) < n else BLOCK_K
    if nvidia and rows_of(most_waves, block_k) * (RESIDENT_VECTORS // pack) < n:
        vectors = RESIDENT_VECTORS
    most_blocks = vectors // pack
    num_warps = next(w for w in WAVES if w == most_waves or rows_of(w, block_k) * most_blocks >= n)
    block_n = rows_of(num_warps, block_k)
    resident_blocks = min(max(-(-n // block_n), 1), most_blocks)
    return TransposePlan(
        block_n=block_n,
        block_k=block_k,
        num_warps=num_warps,
        resident_blocks=resident_blocks,
        streamed=n > resident_blocks * block_n,
        pack=pack,
        sharers=max(LINE_BYTES // (block_k * itemsize), 1),
        xcds=1 if nvidia else XCDS,
        programs=experts * -(-k // block_k),
    )

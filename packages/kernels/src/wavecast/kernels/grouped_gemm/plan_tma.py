"""Tiles of the GEMMs on sm_90, and which operands its tensor memory accelerator can read: pure functions of shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from wavecast.kernels.checks import INT32_MAX
from wavecast.kernels.device import compute_units
from wavecast.kernels.tma import ALIGNMENT, ARCH

BLOCK_M, BLOCK_N = 128, 256
"""An output tile. The two consumers' accumulators fill their registers half, and 384 rows of operands are read for
32,768 results: square tiles of 128 would need a third more from L2, whose bandwidth bounds a GPU that is not hot."""

BLOCK_K_BYTES = 128
"""Bytes of a row in a block: the widest swizzle of shared memory."""

K_ALIGNMENT_BYTES = ALIGNMENT
"""Where the first block of a group may begin in the sum form: the tensor memory accelerator starts at no byte in
between, an illegal instruction on an H200. Groups that begin at multiples of 16, as padded ones do, so have nothing to
be trimmed at their head, but rows of their blocks in two cache lines each. Not measured: whether whole lines would pay,
at the price of trimming most heads."""

STAGES = 4
"""K blocks in flight: 192 of the 227 KiB of shared memory."""

WAVE_ROWS = 16
"""Rows of tiles that are walked column by column: 132 programs then share about as many rows of a as of b."""


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """How the kernel for sm_90 is launched.

    Attributes:
        block_m, block_n: rows and columns of an output tile.
        block_k: summed values a step.
        stages: K blocks in flight.
        band: rows of tiles that are walked column by column.
        k_alignment: summed values that the first block of a group begins at a multiple of.
        out_stages: buffers of each consumer on the way out.
        programs: persistent programs, one an SM.
        reason: one sentence on why.
    """

    block_m: int
    block_n: int
    block_k: int
    stages: int
    band: int
    k_alignment: int
    out_stages: int
    programs: int
    reason: str


@lru_cache
def tma_obstacle(
    *,
    arch: str | None,
    rows: int,
    columns: int,
    summed: int,
    groups: int,
    sum_form: bool,
    strides: tuple[int, int, int],
    out_stride: int,
    element_bytes: int,
    out_bytes: int,
    aligned: bool,
) -> str | None:
    """Why the accelerator cannot be used for a GEMM, or None where it can.

    Args:
        arch: architecture of the active device.
        rows, columns: M (all groups) and N, or P and Q.
        summed: K or T.
        groups: number of groups; 1 for a dense GEMM.
        sum_form: whether groups are along the summed dimension.
        strides: elements between rows of a, between columns of b, and between the matrices of b (in the rows form).
        out_stride: elements between rows of the result.
        element_bytes, out_bytes: of an operand's and of the result's element.
        aligned: whether all three tensors begin at multiples of `ALIGNMENT` bytes.
    """
    a_stride, b_stride, b_group_stride = strides
    if arch != ARCH:
        return f"{arch} is not {ARCH}"
    if min(rows, columns, summed) == 0:
        return "nothing to multiply"
    if not aligned or any(s * element_bytes % ALIGNMENT for s in (a_stride, b_stride)):
        return f"rows of a or columns of b do not begin at multiples of {ALIGNMENT} bytes"
    if out_stride * out_bytes % ALIGNMENT:
        return f"rows of the result do not begin at multiples of {ALIGNMENT} bytes"
    if not sum_form and groups > 1 and b_group_stride != columns * b_stride:
        return "the matrices of b do not follow each other without gaps"
    lines = groups * max(rows if sum_form else 1, columns)  # rows of the result, or columns of b, one after another
    tiles_m = groups * (rows // BLOCK_M + 1) if sum_form else rows // BLOCK_M + groups
    if max(lines, summed, rows, tiles_m * (columns // BLOCK_N + 1)) > INT32_MAX - 2**16:  # tiles may reach beyond
        return "sizes or numbers of tiles exceed 32 bits"
    return None


@lru_cache
def plan_tma_grouped(*, element_bytes: int, out_bytes: int) -> TmaPlan:
    """Plan for operands without a `tma_obstacle`: one tile for all shapes.

    Measured beside it on a hot H200 were 3 stages, 8 blocks of half the bytes, bands of 4, 8 and 32 rows of tiles, and
    one buffer on the way out: no difference beyond the 8 % by which equal launches differed. Other tiles were not.

    Args:
        element_bytes, out_bytes: of an operand's and of the result's element.
    """
    return TmaPlan(
        block_m=BLOCK_M,
        block_n=BLOCK_N,
        block_k=BLOCK_K_BYTES // element_bytes,
        stages=STAGES,
        band=WAVE_ROWS,
        k_alignment=K_ALIGNMENT_BYTES // element_bytes,
        out_stages=2 if out_bytes == 2 else 1,
        programs=compute_units(ARCH),
        reason=f"tiles of {BLOCK_M} x {BLOCK_N}, {STAGES} blocks of {BLOCK_K_BYTES} bytes in flight",
    )

"""Tile of the column-wise quantizer on sm_90, and which tensors its memory accelerator can take: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from wavecast.kernels.checks import INT32_MAX
from wavecast.kernels.device import compute_units
from wavecast.kernels.tma import ALIGNMENT, ARCH

LEAST_TMA_VALUES = 1 << 25
"""Values from which on the kernel is faster than those that read twice: an H200 takes 28 us instead of 27 for 7,168 x
2,048, but 79 instead of 99 for 8,192 x 8,192."""

ROWS, COLUMNS = 128, 64
"""A piece: rows of whole lines of 16-bit values, so that columns of the result are whole lines too."""

STAGES, PART = 13, 12
"""Pieces in the ring, 208 of the 227 KiB of shared memory, and pieces of a part: one is fetched ahead. On an H200 parts
of 4, 6 and 10 pieces took 1,395, 1,168 and 959 us for 32 x 4,096 x 7,168 values, 12 take 812."""

OUT_STAGES, WRITERS, REDUCERS = 2, 4, 4
"""Stages on the way out, and warps that quantize and that look for the amax. With eight writers it is as fast."""

REGISTERS = (104, 32)
"""Registers of a lane of the reducers and of the producer; the writers have the rest."""


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """How the kernel for sm_90 is launched.

    Attributes:
        rows, columns: of a piece.
        stages: pieces in the ring.
        part: pieces of a part of a group.
        out_stages: pieces on the way out.
        writers, reducers: their warps.
        registers: of a lane of the reducers and the producer.
        programs: persistent programs, one an SM.
        reason: one sentence on why.
    """

    rows: int
    columns: int
    stages: int
    part: int
    out_stages: int
    writers: int
    reducers: int
    registers: tuple[int, int]
    programs: int
    reason: str

    @property
    def tile(self) -> tuple[int, ...]:
        """The kernel's TILE."""
        return (self.rows, self.columns, self.stages, self.part, self.out_stages, self.writers, self.reducers)

    @property
    def most_rows(self) -> int:
        """Rows of a group that can be in work at a time: its parts wait for each other, so all must be running."""
        return (self.programs * self.part - 1) * self.rows


@lru_cache
def tma_obstacle(
    *,
    arch: str | None,
    rows: int,
    columns: int,
    groups: int,
    row_stride: int,
    element_bytes: int,
    stacked: bool,
    saturates: bool,
    aligned: bool,
) -> str | None:
    """Why the accelerator cannot be used, or None where it can.

    Args:
        arch: architecture of the active device.
        rows: length of a column of the result.
        columns: of the input.
        groups: number of groups.
        row_stride: values between rows of the input.
        element_bytes: of the input.
        stacked: whether the groups of the result are matrices one after another.
        saturates: whether the conversion itself clamps to what the scales map the amax to.
        aligned: whether input and result begin at multiples of ``ALIGNMENT`` bytes.
    """
    if arch != ARCH:
        return f"{arch} is not {ARCH}"
    if not saturates:
        return "another format or maximum than those that the device's conversion saturates at"
    if element_bytes != 2:
        return f"values of {element_bytes} bytes; the kernel's maxima are of pairs of 16 bits"
    if min(rows, columns) == 0:
        return "nothing to quantize"
    if not aligned or row_stride * element_bytes % ALIGNMENT or rows % ALIGNMENT:
        return f"rows of the input or columns of the result do not begin at multiples of {ALIGNMENT} bytes"
    if stacked and columns % COLUMNS:
        return f"{columns} columns; what a store writes beyond a multiple of {COLUMNS} would be in the next matrix"
    if rows > plan_tma().most_rows:
        return f"{rows} rows, which may be one group; its parts would not all be running"
    if groups * columns + COLUMNS > INT32_MAX or groups * (rows // ROWS + 1) > INT32_MAX // columns * COLUMNS:
        return "numbers of scales or items exceed 32 bits"
    return None


@lru_cache
def plan_tma() -> TmaPlan:
    """The plan where there is no `tma_obstacle`: one tile for all shapes."""
    return TmaPlan(
        rows=ROWS,
        columns=COLUMNS,
        stages=STAGES,
        part=PART,
        out_stages=OUT_STAGES,
        writers=WRITERS,
        reducers=REDUCERS,
        registers=REGISTERS,
        programs=compute_units(ARCH),
        reason=f"every value read once: parts of {PART * ROWS} rows of {COLUMNS} columns stay in shared memory",
    )

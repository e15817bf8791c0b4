"""Tiles of the GEMMs: a pure function of shape, dtype and architecture.

The candidates were ranked by predicted time on the shapes of DeepSeek-V3 and Llama 4 (gfx942, gfx950) and by measured
time (sm_90), and by what the assembly says: on gfx no tile of this page spills, if sizes and strides are multiples of
16 elements; with others, loads are narrower and addresses more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2
from typing import Any

from wavecast.kernels.device import compute_units

WIDEST_UNIT = 16
"""Largest unit that sizes and strides are counted in: 16 bytes of FP8, the widest load of a lane."""

BLOCK_K_BYTES = 128
"""Summed bytes a step: a whole cache line of every row and column."""

SIMDS = 4
"""SIMDs of a compute unit on AMD: the compiler is told how many waves each is to hold, so that it takes no more
registers than they have."""

XCDS = 8
"""Dies that workgroups are dealt to in turn on gfx942 and gfx950. Another number changes the order of tiles only."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One candidate.

    Attributes:
        m, n: rows and columns.
        num_warps: waves that share the tile.
        per_unit: programs that a compute unit holds at a time.
        nonkdim: side of the matrix instruction on AMD, 16 or 32; 0 elsewhere.
        num_stages: Triton's pipeline stages.
        rate: operations a second within the loop over the sum, relative to the best candidate.
        between: what a program loses from one tile to the next, as a length of the sum. A second program on the unit
            works meanwhile.
    """

    m: int
    n: int
    num_warps: int
    per_unit: int
    nonkdim: int
    num_stages: int
    rate: float
    between: int


# On gfx, 8 waves with two on a SIMD take turns at loads and matrix instructions (Triton's "ping-pong"); 4 waves leave
# that to a second workgroup. A sum of 256 x 256 has half of a lane's registers on gfx942, and spills there.
_GFX942 = (
    Tile(256, 128, 8, per_unit=1, nonkdim=16, num_stages=2, rate=1.0, between=160),
    Tile(128, 128, 4, per_unit=2, nonkdim=16, num_stages=2, rate=0.9, between=0),
    Tile(64, 128, 4, per_unit=2, nonkdim=16, num_stages=2, rate=0.6, between=0),
)
_GFX950 = (
    Tile(256, 256, 8, per_unit=1, nonkdim=32, num_stages=2, rate=1.0, between=160),
    *(replace(tile, rate=tile.rate * 0.85) for tile in _GFX942),
)
# FP8 products are promoted to an fp32 sum step by step, which doubles the registers of the sum.
_SM_FP8 = (
    Tile(256, 128, 8, per_unit=1, nonkdim=0, num_stages=3, rate=1.0, between=480),
    Tile(128, 128, 8, per_unit=1, nonkdim=0, num_stages=4, rate=0.94, between=480),
    Tile(64, 128, 4, per_unit=2, nonkdim=0, num_stages=4, rate=0.6, between=240),
)
_SM_16_BIT = (
    Tile(128, 256, 8, per_unit=1, nonkdim=0, num_stages=3, rate=1.0, between=480),
    Tile(128, 128, 8, per_unit=1, nonkdim=0, num_stages=4, rate=0.92, between=480),
    Tile(64, 128, 4, per_unit=2, nonkdim=0, num_stages=4, rate=0.6, between=240),
)


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How a GEMM kernel is launched.

    Attributes:
        block_m, block_n: rows and columns of an output tile.
        block_k: summed values a step.
        num_warps: waves a program.
        num_stages: Triton's pipeline stages.
        band: rows of tiles that are walked column by column.
        on_gfx: whether the compiler is AMD's, for which empty assembly statements order the work (`issued_here`).
        xcds: dies that programs are dealt to.
        lanes: lanes of a wave, and groups looked at together.
        programs: programs of a persistent kernel, a multiple of ``xcds``.
        backend_options: options that only this architecture's compiler knows.
        reason: one sentence on why.
    """

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    band: int
    on_gfx: bool
    xcds: int
    lanes: int
    programs: int
    backend_options: tuple[tuple[str, int], ...]
    reason: str

    @property
    def constants(self) -> dict[str, Any]:
        """Constexprs and compiler options that every kernel takes."""
        blocks = {"BLOCK_M": self.block_m, "BLOCK_N": self.block_n, "BLOCK_K": self.block_k}
        launch = {"num_warps": self.num_warps, "num_stages": self.num_stages, **dict(self.backend_options)}
        return {**blocks, "ON_GFX": self.on_gfx, "BAND": self.band, "XCDS": self.xcds, **launch}


def candidates(arch: str | None, element_bytes: int) -> tuple[Tile, ...]:
    """The tiles that a plan chooses from; None counts as gfx942."""
    if arch is not None and arch.startswith("sm_"):
        return _SM_FP8 if element_bytes == 1 else _SM_16_BIT
    # Without FP8's wide matrix instruction, 256 x 256 spills on gfx950 too.
    return _GFX950 if arch == "gfx950" and element_bytes == 1 else _GFX942


@lru_cache
def plan_gemm(
    rows: int,
    columns: int,
    length: int,
    groups: int = 1,
    *,
    jagged: bool = False,
    element_bytes: int,
    arch: str | None,
    largest: int | None = None,
) -> GemmPlan:
    """The candidate that is through first, if all tiles of a kind take equally long.

    Args:
        rows: rows of each output; of jagged groups, those of all together.
        columns: columns of an output.
        length: products that one value sums, on average.
        groups: number of outputs, or of groups of rows.
        jagged: whether the groups share ``rows`` in parts that the host does not know. Each is taken to be the
            mean, and to cut a tile in half at its end.
        element_bytes: of an operand's element, 1 or 2.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
        largest: values of a tile at most, for kernels that need registers beside the sum.
    """
    on_gfx = arch is None or not arch.startswith("sm_")
    units = compute_units(arch)

    def estimate(tile: Tile) -> tuple[float, float]:
        """Output tiles, and the time of the rounds of all programs that they take."""
        down = max(rows / groups / tile.m + 0.5, 1.0) if jagged else -(-rows // tile.m)
        tiles = groups * down * -(-columns // tile.n)
        slots = units * tile.per_unit
        return tiles, -(-tiles // slots) * slots * tile.m * tile.n * (length / tile.rate + tile.between)

    possible = (t for t in candidates(arch, element_bytes) if largest is None or t.m * t.n <= largest)
    tile = min(possible, key=lambda tile: estimate(tile)[1])
    xcds = XCDS if on_gfx else 1
    most_tiles = (-(-rows // tile.m) + groups if jagged else groups * -(-rows // tile.m)) * -(-columns // tile.n)
    slots = units * tile.per_unit
    programs = -(-min(slots, max(most_tiles, 1)) // xcds) * xcds
    # kpack 2: two instructions' values of a lane are neighbours in LDS, 16 bytes of FP8. A block_k of one instruction
    # would then come out wrong (Triton 3.7); these have at least two.
    options = {
        "matrix_instr_nonkdim": tile.nonkdim,
        "kpack": 2 if arch == "gfx942" else 1,
        "waves_per_eu": tile.num_warps * tile.per_unit // SIMDS,
    }
    what = f"groups of {rows / groups:.0f} rows on average" if jagged else f"outputs of {rows} rows"
    return GemmPlan(
        block_m=tile.m,
        block_n=tile.n,
        block_k=BLOCK_K_BYTES // element_bytes,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        band=band_of(tile, programs // xcds),
        on_gfx=bool(arch) and on_gfx,
        xcds=xcds,
        lanes=64 if on_gfx else 32,
        programs=programs,
        backend_options=tuple(options.items()) if arch and on_gfx else (),
        reason=f"{what} and {columns} columns are about {estimate(tile)[0]:.0f} tiles of {tile.m} x {tile.n} for "
        f"{slots} programs at a time, the least time of the candidates",
    )


def band_of(tile: Tile, together: int) -> int:
    """Rows of tiles in a band, a power of two, for ``together`` programs that share an L2 and run in step.

    They read a block of ``band`` rows and ``together / band`` columns of tiles: the fewest rows and columns of operands
    where that block is square.
    """
    square = (max(together, 1) * tile.n / tile.m) ** 0.5
    return 1 << int(log2(square)) if square >= 1 else 1


def unit_of(length: int, *strides: int) -> int:
    """Largest power of two up to `WIDEST_UNIT` that divides the length and the strides of what is that long.

    Of no elements, torch sets strides that say nothing.
    """
    unit = WIDEST_UNIT
    while length % unit or (length and any(stride % unit for stride in strides)):
        unit //= 2
    return unit

"""Tiles of the GEMMs: a pure function of shape, dtype and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WIDEST_UNIT = 16
"""Largest unit that sizes and strides are counted in: 16 bytes of FP8, the widest load of a lane."""

COMPUTE_UNITS = {"gfx942": 304, "gfx950": 256, "sm_90": 132}
"""Compute units (SMs) that persistent programs are dealt to: MI300X and MI325X, MI355X, H100 and H200. A device with
another number is as right and less balanced."""

OTHER_COMPUTE_UNITS = 128
"""For architectures not listed."""

XCDS = 8
"""Dies that workgroups are dealt to in turn on gfx942 and gfx950; elsewhere 1."""


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
        programs: persistent programs, a multiple of ``xcds``.
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


def plan_gemm(rows: int, columns: int, outputs: int, *, element_bytes: int, arch: str | None) -> GemmPlan:
    """Plan for ``outputs`` matrices of (rows, columns), ``rows`` on average.

    Args:
        rows: rows of one output; of groups of rows, the mean group's.
        columns: columns of one output.
        outputs: number of groups; 1 for a dense GEMM.
        element_bytes: of an operand's element, 1 or 2.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    on_gfx = arch is not None and arch.startswith("gfx")
    block = 128 if rows > 64 else 64
    xcds = XCDS if on_gfx else 1
    units = COMPUTE_UNITS.get(arch or "", OTHER_COMPUTE_UNITS)
    tiles = outputs * -(-max(rows, 1) // block) * -(-max(columns, 1) // 128)
    programs = -(-min(units, max(tiles, 1)) // xcds) * xcds
    return GemmPlan(
        block_m=block,
        block_n=128,
        block_k=128 // element_bytes,
        num_warps=4,
        num_stages=2 if on_gfx else 3,
        band=8,
        on_gfx=on_gfx,
        xcds=xcds,
        lanes=64 if on_gfx else 32,
        programs=programs,
        backend_options=(("matrix_instr_nonkdim", 16), ("kpack", 2 if arch == "gfx942" else 1)) if on_gfx else (),
        reason=f"tiles of {block} x 128",
    )


def unit_of(*sizes: int) -> int:
    """Largest power of two up to `WIDEST_UNIT` that divides all sizes."""
    unit = WIDEST_UNIT
    while any(size % unit for size in sizes):
        unit //= 2
    return unit

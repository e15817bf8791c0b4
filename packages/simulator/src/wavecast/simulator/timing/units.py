"""Units of a compute unit, and rates of its vector pipe."""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    """Where an instruction issues."""

    VALU = "valu"
    MATRIX = "matrix"
    SCALAR = "scalar"
    BRANCH = "branch"
    VECTOR_MEMORY = "vector memory"
    SCALAR_MEMORY = "scalar memory"
    LDS = "lds"
    NONE = "none"  # no instruction of the machine: what PTX says and the assembler drops


class Rate(StrEnum):
    """How fast a vector instruction goes: as fast as any, half as fast, or as transcendental functions."""

    FULL = "full"
    HALF = "half"
    QUARTER = "quarter"

"""Which pipes of a multiprocessor's partition an instruction of Hopper's machine code keeps busy, and for how long.

Rates are those of the table of arithmetic instructions in the CUDA programming guide, compute capability 9.0. A
partition issues one instruction a cycle, of whatever kind. Arithmetic in fp32 and integer multiply-adds share a pipe;
other integer work, logic, comparisons, selections and packing conversions (``F2FP``, ``I2FP``) have another, special
functions and fp64 a third. So do conversions that are instructions of their own (``F2F``, ``F2I``, ``I2F``, ``FRND``),
at the rate of special functions: the table has them among those of 64 results a cycle.
"""

from __future__ import annotations

import functools
from enum import IntEnum

from wavecast.simulator.timing.units import Rate


class MachinePipe(IntEnum):
    """Pipes beside the one that issues."""

    ALU = 0
    FMA = 1
    SPECIAL = 2


_FULL = ("FFMA", "FMUL", "FADD", "HFMA2", "HADD2", "HMUL2")
_FMA = ("IMAD", "IDP")
_DOUBLE = ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX")
_SPECIAL = ("MUFU", "F2F", "F2I", "I2F", "POPC", "FLO", "BREV", "FRND", "F2IP")
# Uniform arithmetic, control, memory and what moves values between register files: no lanes are worked on.
_ISSUE_ONLY = (
    *("BRA", "BRX", "BSSY", "BSYNC", "BREAK", "EXIT", "RET", "CALL", "NOP", "WARPSYNC", "YIELD", "NANOSLEEP"),
    *("BAR", "DEPBAR", "LDGDEPBAR", "MEMBAR", "ERRBAR", "CCTL", "SYNCS", "FENCE", "ELECT", "ACQBULK", "WARPGROUP"),
    *("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDC", "LDSM", "STSM", "LDGSTS", "ATOM", "ATOMG", "ATOMS", "RED"),
    *("REDG", "REDUX", "SHFL", "MATCH", "S2R", "S2UR", "CS2R", "R2UR", "HMMA", "IMMA", "QMMA", "DMMA", "HGMMA"),
    *("QGMMA", "IGMMA", "UTMALDG", "UTMASTG", "UTMACMDFLUSH", "UTMAPF", "ENDCOLLECTIVE"),
)


@functools.cache
def machine_rate(head: str) -> tuple[MachinePipe, Rate] | None:
    """The pipe of an instruction and its rate there; None for what only takes its turn to issue.

    Args:
        head: Its mnemonic without modifiers.
    """
    if head in _FULL:
        return MachinePipe.FMA, Rate.FULL
    if head in _FMA:
        return MachinePipe.FMA, Rate.HALF
    if head in _DOUBLE:
        return MachinePipe.SPECIAL, Rate.HALF
    if head in _SPECIAL:
        return MachinePipe.SPECIAL, Rate.QUARTER
    if head in _ISSUE_ONLY or head.startswith("U"):
        return None
    return MachinePipe.ALU, Rate.HALF

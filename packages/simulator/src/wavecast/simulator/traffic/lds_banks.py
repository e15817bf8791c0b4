"""Which lanes the LDS serves together, and how many banks they meet.

A wave's LDS access is served in phases, a group of lanes a phase; lanes of a phase that want different dwords of one
bank queue. Groups for 128-bit reads on gfx942 are those that AMD documents for CK-Tile; HipKittens measured those for
gfx950, where 96-bit reads have the groups of gfx942. Where neither says anything, consecutive lanes that fill the width
of the LDS are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.errors import UnknownDeviceError
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess

LANES = 64
_WORD = 4
_READ_128_GFX942 = (
    (0, 1, 2, 3, 20, 21, 22, 23),
    (4, 5, 6, 7, 16, 17, 18, 19),
    (8, 9, 10, 11, 28, 29, 30, 31),
    (12, 13, 14, 15, 24, 25, 26, 27),
)
_READ_128_GFX950 = (
    (0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27),
    (4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31),
)


@dataclass(frozen=True, slots=True)
class LdsPhases:
    """How one kind of access is served.

    Attributes:
        phase_of_lane: int64[64].
        banks: 4-byte banks that the lanes of a phase spread over.
    """

    phase_of_lane: np.ndarray
    banks: int


def lds_phases(arch: str, access: MemoryAccess) -> LdsPhases:
    """Phases and banks of an LDS access.

    Raises:
        UnknownDeviceError: if nothing is known of the architecture.
    """
    if arch == "sm_90":
        # 32 banks for a whole warp of words; wider lanes take as many turns of 128 bytes (CUDA programming guide).
        return LdsPhases(_consecutive(32 * _WORD // max(_WORD, access.piece_bytes)), 32)
    if arch not in ("gfx942", "gfx950"):
        raise UnknownDeviceError(f"no LDS phases are known for {arch!r}; known are gfx942, gfx950 and sm_90")
    is_read = access.kind is AccessKind.LDS_READ
    width = access.piece_bytes
    if arch == "gfx950" and is_read:
        if width == 16:
            return LdsPhases(_mirrored(_READ_128_GFX950), 64)
        if width <= 8:
            return LdsPhases(_consecutive(32), 64)
    if is_read and width >= 12:
        return LdsPhases(_mirrored(_READ_128_GFX942), 32)
    lanes = 32 if width <= 4 else 16 if width == 8 else 8
    return LdsPhases(_consecutive(lanes), 32)


def _consecutive(lanes: int) -> np.ndarray:
    return np.arange(LANES, dtype=np.int64) // lanes


def _mirrored(groups: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """Groups of the lower 32 lanes, repeated for the upper 32."""
    phase = np.zeros(LANES, dtype=np.int64)
    for number, lanes in enumerate(groups):
        phase[list(lanes)] = number
        phase[[lane + 32 for lane in lanes]] = number + len(groups)
    return phase

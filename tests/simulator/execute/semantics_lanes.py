"""Which lane feeds which: the controls of data-parallel primitives, written down lane by lane from the ISA text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def _row(lane: int, position: int) -> int | None:
    return lane // 16 * 16 + position if 0 <= position < 16 else None


# Control → lane that a lane reads from, None where there is none.
DPP_CONTROLS: dict[str, Callable[[int], int | None]] = {
    "quad_perm:[2,3,0,1]": lambda lane: lane // 4 * 4 + [2, 3, 0, 1][lane % 4],
    "quad_perm:[0,0,0,0]": lambda lane: lane // 4 * 4,
    "row_shl:1": lambda lane: _row(lane, lane % 16 + 1),
    "row_shl:8": lambda lane: _row(lane, lane % 16 + 8),
    "row_shr:1": lambda lane: _row(lane, lane % 16 - 1),
    "row_shr:15": lambda lane: _row(lane, lane % 16 - 15),
    "row_ror:4": lambda lane: _row(lane, (lane % 16 - 4) % 16),
    "row_mirror": lambda lane: _row(lane, 15 - lane % 16),
    "row_half_mirror": lambda lane: lane // 8 * 8 + 7 - lane % 8,
    "row_bcast:15": lambda lane: lane // 16 * 16 - 1 if lane >= 16 else None,
    "row_bcast:31": lambda lane: 31 if lane >= 32 else None,
    "row_newbcast:5": lambda lane: _row(lane, 5),
    "wave_shl:1": lambda lane: lane + 1 if lane < 63 else None,
    "wave_shr:1": lambda lane: lane - 1 if lane > 0 else None,
    "wave_rol:1": lambda lane: (lane + 1) % 64,
    "wave_ror:1": lambda lane: (lane - 1) % 64,
}


def dpp_lanes(control: str, masks: str, bound: str, values: np.ndarray, exec_mask: int) -> list[tuple[bool, int]]:
    """For each lane whether its destination is written, and the source it gets."""
    row_mask, bank_mask = (int(part.split(":")[1], 16) for part in masks.split())
    result = []
    for lane in range(64):
        source = DPP_CONTROLS[control](lane)
        valid = source is not None and bool(exec_mask >> source & 1)
        written = bool(exec_mask >> lane & row_mask >> lane // 16 & bank_mask >> lane % 16 // 4 & 1)
        result.append((written and (valid or bool(bound)), int(values[source]) if valid and source is not None else 0))
    return result

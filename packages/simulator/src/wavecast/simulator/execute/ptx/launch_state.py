"""What a warp starts with: its parameters, its block's place and shape, and all lanes that it has."""

from __future__ import annotations

import numpy as np

from wavecast.simulator.execute.layout import SCALAR_SLOTS
from wavecast.simulator.execute.ptx.layout import BLOCK_INDEX, BLOCK_SHAPE, GRID_SHAPE, PARAMETERS, WARP_LANES
from wavecast.simulator.program.instruction import EXEC

Grid = tuple[int, int, int]


def initial_warp_scalars(segment: np.ndarray, grid: Grid, block: Grid) -> tuple[np.ndarray, Grid]:
    """Scalar slots at the start of a warp, and the slots that take the block's place x, y, z.

    Args:
        segment: Parameters, which must stay where they are.
        grid: Blocks.
        block: Threads of a block.
    """
    scalars = np.zeros(SCALAR_SLOTS, dtype=np.int32)
    words = scalars.view(np.uint32)
    host = int(segment.ctypes.data)
    words[PARAMETERS : PARAMETERS + 2] = (host & 0xFFFFFFFF, host >> 32)
    words[BLOCK_SHAPE : BLOCK_SHAPE + 3] = block
    words[GRID_SHAPE : GRID_SHAPE + 3] = grid
    words[EXEC] = (1 << WARP_LANES) - 1
    return scalars, (BLOCK_INDEX, BLOCK_INDEX + 1, BLOCK_INDEX + 2)

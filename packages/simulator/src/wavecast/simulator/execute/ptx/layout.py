"""Where the state of a running warp lies: the scalar slots of ``execute/layout.py`` as PTX uses them."""

from __future__ import annotations

from wavecast.simulator.program.instruction import EXEC

WARP_LANES = 32
# Row 0 of the vector registers holds each lane's place in the block, ten bits an axis; the kernel's registers follow.
THREAD_ROW = 0
FIRST_ROW = 1

# 32-bit scalar slots; two for a host address.
PARAMETERS = 0
BLOCK_INDEX = 2
BLOCK_SHAPE = 5
GRID_SHAPE = 8
STACK_DEPTH = 11
# The stack of lanes that wait: mask, instruction at which they go on, and the one at which all meet (or -1).
STACK = 12
STACK_WORDS = 3
STACK_ENTRIES = (EXEC - STACK) // STACK_WORDS

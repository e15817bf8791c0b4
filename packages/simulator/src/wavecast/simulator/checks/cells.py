"""Who touched a piece of memory last, in one 63-bit number.

From the top: workgroup (its place in the order of execution, plus 1), wave, epoch (barriers that the workgroup had
passed), step (fences and flags of the wave in this epoch, up to the highest), number of the instruction among the
kernel's memory instructions, flags. A larger number of the same wave is later; 0 is nobody.
"""

from __future__ import annotations

FLAG_BITS, INSTRUCTION_BITS, STEP_BITS, EPOCH_BITS, WAVE_BITS, WORKGROUP_BITS = 3, 12, 7, 17, 4, 20

INSTRUCTION = FLAG_BITS
STEP = INSTRUCTION + INSTRUCTION_BITS
EPOCH = STEP + STEP_BITS
WAVE = EPOCH + EPOCH_BITS
WORKGROUP = WAVE + WAVE_BITS

# Flags: an atomic, or a load or store with the scope of the device or wider.
SYNC = 1
# Of writers: an atomic.
ATOMIC = 2
# Of readers, of which a cell names one: others of the workgroup read in the same epoch; other workgroups read before.
OTHER_WAVES, OTHER_WORKGROUPS = 2, 4

MOST_WORKGROUPS = (1 << WORKGROUP_BITS) - 1
MOST_WAVES = 1 << WAVE_BITS
MOST_EPOCHS = (1 << EPOCH_BITS) - 1
MOST_STEPS = (1 << STEP_BITS) - 1
MOST_INSTRUCTIONS = 1 << INSTRUCTION_BITS

# A wave of the launch is numbered (workgroup << WAVE_BITS | wave); its time is (epoch << STEP_BITS | step).
TIME_BITS = EPOCH_BITS + STEP_BITS
TIME_MASK = (1 << TIME_BITS) - 1


def thread_of(cell: int) -> int:
    """The wave of the launch that a cell names."""
    return cell >> WAVE


def instruction_of(cell: int) -> int:
    """With which of the memory instructions."""
    return cell >> INSTRUCTION & (MOST_INSTRUCTIONS - 1)

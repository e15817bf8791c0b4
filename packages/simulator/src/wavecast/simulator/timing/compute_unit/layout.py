"""Arrays of the wave simulation: what costs, state and results mean, column by column.

Time is counted in ticks, whole fractions of a cycle, so that mean costs stay exact enough and sums do not depend on
their order.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

TICKS_PER_CLK = 64
# Draws that decide which level serves an access are compared with 32-bit shares.
WHOLE = 1 << 32
# Of an instruction of a stream: nobody knows how often it gets past L1 there.
UNKNOWN = -1
# Beyond every counter: a ``s_waitcnt`` that does not name it.
NO_LIMIT = 1 << 20
# Outstanding instructions that the counters can tell apart.
VECTOR_LIMIT = 63
LGKM_LIMIT = 15
RING = 64
# SIMDs that share a port to the LDS.
SIMDS_OF_PORT = 2

TURNS_UNIT = 1024
_STRATA, _BLOCKS = 64, 16


def _turns() -> np.ndarray:
    """Times until a compute unit has its turn at a server that it shares with many others, in parts of ``TURNS_UNIT``.

    The others come in between at random, so the times are distributed exponentially, with a mean of 1. Each block of 64
    holds every 64th part of the distribution once, in random order: even short sums come out right.
    """
    random = np.random.default_rng(0)
    quantiles = -np.log1p(-(np.arange(_STRATA) + 0.5) / _STRATA)
    scaled = np.rint(quantiles / quantiles.mean() * TURNS_UNIT).astype(np.int64)
    return np.concatenate([random.permutation(scaled) for _ in range(_BLOCKS)])


TURNS = _turns()


class Action(IntEnum):
    """What an instruction does beside taking its place on a pipe."""

    PLAIN = 0
    WAIT = 1
    BARRIER = 2
    END = 3
    VECTOR_MEMORY = 4
    LDS = 5
    SCALAR_MEMORY = 6


class Pipe(IntEnum):
    """Pipes that each SIMD has for its own waves."""

    NONE = -1
    VECTOR = 0
    MATRIX = 1
    SCALAR = 2
    BRANCH = 3
    ALU = 4
    FMA = 5
    SPECIAL = 6


PIPES = 7
# Pipes behind the vector pipe, which then only issues, where the machine code says what an instruction needs of them.
BEHIND = (Pipe.ALU, Pipe.FMA, Pipe.SPECIAL)


class Server(IntEnum):
    """What a compute unit shares with all others."""

    L2 = 0
    MEMORY = 1
    ATOMICS = 2
    FENCES = 3
    LAUNCH = 4


SERVERS = len(Server)


class Cost(IntEnum):
    """Columns of the costs of a static instruction; times in ticks."""

    ACTION = 0
    PIPE = 1
    ISSUE = 2  # until the wave can issue its next instruction
    BUSY = 3  # of the pipe
    VECTOR_LEFT = 4  # WAIT: outstanding instructions that may remain
    LGKM_LEFT = 5
    COUNTS_VECTOR = 6  # whether a counter tells of its completion
    COUNTS_LGKM = 7
    ADDRESS = 8  # address unit of the compute unit
    LDS = 9  # banks of the LDS of the compute unit
    FILL = 10  # path from L2 into L1, if L1 does not serve it
    L2 = 11  # the compute unit's share of the L2 channels, if L1 does not serve it
    MEMORY = 12  # its share of what lies behind L2, if neither serves it
    ATOMICS = 13
    FENCES = 14
    POSTED = 15  # whether the memory behind L2 takes it later, so that completion does not wait for it
    BEYOND_L1 = 16  # share of 2**32 that gets past L1, where the stream does not say
    BEYOND_L2 = 17  # and of those that do, shares that get past the next levels too
    BEYOND_MALL = 18
    LATENCY_L1 = 19  # by the level that serves it
    LATENCY_L2 = 20
    LATENCY_MALL = 21
    LATENCY_HBM = 22
    LINES = 23  # lines in flight while it is outstanding
    LATER_LATENCY = 24  # SCALAR_MEMORY: when the wave has executed it before
    JUMP = 25  # added to ISSUE where the wave goes on elsewhere
    BEHIND = 26  # whether it needs pipes behind the vector pipe
    ALU = 27  # cycles of each of them, in the order of ``BEHIND``
    FMA = 28
    SPECIAL = 29
    ORDERED = 30  # whether it completes after every such instruction before it, whichever wave's
    LDS_PORT = 31  # port to the LDS that the wave's SIMD shares with its neighbour


COSTS = len(Cost)


class Size(IntEnum):
    """Entries of the sizes of a simulation."""

    SLOTS = 0  # workgroups at once
    WAVES = 1  # of a workgroup
    WORKGROUPS = 2  # to run
    SIMDS = 3
    POOL = 4  # workgroups with a recorded stream; used in turn
    INTERVAL = 5  # ticks between starts of workgroups
    START = 6  # ticks from the start of a workgroup to the first instruction of its waves
    LINES = 7  # lines in flight at most
    SPREAD = 8  # of memory latencies around their mean, in parts of 1024


class Spent(IntEnum):
    """Columns of the ticks of all waves by static instruction."""

    EXECUTED = 0  # times, not ticks
    ISSUE = 1
    STALL = 2  # for a pipe or a unit that is busy
    WAIT = 3  # at a wait, a barrier or for a free counter
    CAUSED = 4  # waits of others that ended when this memory instruction completed


class Part(IntEnum):
    """What the waves' time goes to."""

    ISSUE = 0
    LATENCY = 1
    BARRIER = 2
    LDS = 3
    L1 = 4
    L2 = 5
    MEMORY = 6
    ATOMICS = 7
    FENCES = 8
    START = 9


PARTS = len(Part)

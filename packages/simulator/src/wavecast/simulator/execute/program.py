"""A kernel ready to run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.program.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel ready to run.

    Attributes:
        kernel: What was translated.
        table: int64 (instructions, Row.SIZE).
        vector_rows: Rows of vector registers a wave needs.
        constants: uint8, what lies at ``CONSTANT_BASE``.
        calls_host: Whether waves call the host, to print.
        lanes: Lanes of a wave.
    """

    kernel: Kernel
    table: np.ndarray
    vector_rows: int
    constants: np.ndarray
    calls_host: bool
    lanes: int = LANES

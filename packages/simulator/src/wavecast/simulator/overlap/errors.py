"""Errors of the overlap model."""

from __future__ import annotations

from wavecast.simulator.errors import SimulatorError


class OverlapError(SimulatorError):
    """A program or a node that cannot be simulated; the message says what is wrong with it."""

"""Checks: what a kernel does wrong without a crash, found while it is executed.

Out of bounds into another buffer, misaligned, never-written memory, races, flags without release or acquire, barriers
that not all come to, waiting without end. docs/guides/checks.md shows each, and says what they cannot see.
"""

from __future__ import annotations

from wavecast.simulator.checks.finding import Check, CheckWarning, Finding, Severity, Site
from wavecast.simulator.checks.unwritten import mark_never_written

__all__ = ["Check", "CheckWarning", "Finding", "Severity", "Site", "mark_never_written"]

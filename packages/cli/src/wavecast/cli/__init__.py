"""The command line: the only package that sees both the kernels and the simulator."""

from __future__ import annotations

__version__ = "0.1.0"

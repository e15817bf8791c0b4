"""All-gather of a matrix's rows, overlapped with its product: rows are multiplied as soon as they are there."""

from __future__ import annotations

from wavecast.kernels.all_gather_matmul.api import all_gather_matmul

__all__ = ["all_gather_matmul"]

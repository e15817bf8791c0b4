"""Transposing copy: a matrix, or each of a batch, with its other dimension contiguous."""

from __future__ import annotations

from wavecast.kernels.transposed_copy.api import copy_transposed

__all__ = ["copy_transposed"]

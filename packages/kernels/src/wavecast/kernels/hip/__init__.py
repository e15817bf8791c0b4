"""Kernels in HIP: compiled here, loaded and launched through the HIP runtime's module API, or by a virtual device."""

from __future__ import annotations

from wavecast.kernels.hip.kernel import HipKernel

__all__ = ["HipKernel"]

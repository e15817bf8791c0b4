"""CUDA's driver as the kernels of this package use it beside Triton's launcher."""

from __future__ import annotations

from wavecast.kernels.cuda.driver import CudaDriver, CudaError, cuda_driver
from wavecast.kernels.cuda.packed_launch import PackedLaunch, UnpackableError

__all__ = ["CudaDriver", "CudaError", "PackedLaunch", "UnpackableError", "cuda_driver"]

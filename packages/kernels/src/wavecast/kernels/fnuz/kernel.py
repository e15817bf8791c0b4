"""Device code of the wrong-maximum experiment: the row-wise kernels, whose maximum is a parameter."""

from __future__ import annotations

from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel, rowwise_streaming_kernel

__all__ = ["rowwise_resident_kernel", "rowwise_streaming_kernel"]

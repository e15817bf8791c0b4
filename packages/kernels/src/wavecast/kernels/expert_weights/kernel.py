"""Device code of the expert weight quantizer.

A weight (E, K, N) with K contiguous is E * N rows of K values in memory, one after the other, and its scales (E, 1, N)
are one value a row. So the kernels are those of the row-wise quantizer, which keep a row in registers.
"""

from __future__ import annotations

from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel, rowwise_streaming_kernel

__all__ = ["rowwise_resident_kernel", "rowwise_streaming_kernel"]

"""Device code of the weight quantizer in both layouts.

A weight (E, K, N) with K contiguous is, in memory, E matrices of N rows of K values. Its own layout with a scale per
expert and n is row-wise quantization of the rows, and its transposition with a scale per expert and k is column-wise
quantization of each matrix. So the kernels are those of the dual-layout quantizer, with one group a matrix.
"""

from __future__ import annotations

from wavecast.kernels.dual_layout.kernel import convert_kernel, measure_kernel, prepare_kernel

__all__ = ["convert_kernel", "measure_kernel", "prepare_kernel"]

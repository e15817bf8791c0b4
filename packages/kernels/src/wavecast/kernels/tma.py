"""The tensor memory accelerator of sm_90: which architecture has it, what it can address, and descriptors for it."""

from __future__ import annotations

from functools import cache

import torch
from triton.experimental.gluon.language import NVMMASharedLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ARCH = "sm_90"
"""The architecture with this accelerator that kernels here are written for."""

ALIGNMENT = 16
"""Bytes that addresses and row strides must be multiples of."""

WIDEST_SWIZZLE = 128
"""Bytes of a row over which shared memory is permuted, at most."""


def descriptor(matrix: torch.Tensor, columns: int, block_rows: int, block_columns: int) -> TensorDescriptor:
    """Descriptor of blocks of a matrix; what is outside is read as zero and not written."""
    layout = _layout(matrix.element_size(), block_columns)
    # A matrix of one row may have any stride; that of a descriptor may not be shorter than a row.
    stride = matrix.stride(0) if matrix.shape[0] > 1 else -(-columns // ALIGNMENT) * ALIGNMENT
    return TensorDescriptor(matrix, [matrix.shape[0], columns], [stride, 1], [block_rows, block_columns], layout)


def is_aligned(*tensors: torch.Tensor | None) -> bool:
    """Whether all begin where the tensor memory accelerator can, which is also what Triton compiles for."""
    return all(tensor is None or tensor.data_ptr() % ALIGNMENT == 0 for tensor in tensors)


@cache
def _layout(element_bytes: int, block_columns: int) -> NVMMASharedLayout:
    """Layout of a block in shared memory."""
    swizzle = min(WIDEST_SWIZZLE, block_columns * element_bytes)
    return NVMMASharedLayout(swizzle_byte_width=swizzle, element_bitwidth=8 * element_bytes, rank=2)

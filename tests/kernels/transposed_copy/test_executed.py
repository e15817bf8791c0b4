"""Executed code objects copy every byte, and write none beside."""

from __future__ import annotations

import mmap

import pytest
import torch
from quantizers import guarded_outputs, put_specials, skewed_values

from wavecast.kernels.device import Path, last_path
from wavecast.kernels.transposed_copy import copy_transposed
from wavecast.kernels.transposed_copy.api import launch_transposed_copy
from wavecast.kernels.transposed_copy.reference import copy_transposed_reference

pytestmark = pytest.mark.execute


def bytes_of(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.uint8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float8_e4m3fnuz], ids=str)
def test_equal_to_the_reference_between_canaries(virtual_arch: str, dtype: torch.dtype) -> None:
    inputs = [
        put_specials(skewed_values(256, 192)).to(dtype),
        skewed_values(3, 130, 70).to(dtype),  # ends inside tiles, rows at no multiple of 16 bytes
        skewed_values(5, 7).to(dtype),
        skewed_values(40, 80).to(dtype)[:, 3:67],
    ]
    for x in inputs:
        wanted = copy_transposed_reference(x)
        with guarded_outputs() as guard:
            out = guard.like(wanted)
            launch_transposed_copy(x, out)
        assert torch.equal(bytes_of(out), bytes_of(wanted))


def test_nothing_to_copy(virtual_arch: str) -> None:
    for shape in ((0, 4), (4, 0), (0, 4, 4)):
        assert copy_transposed(torch.empty(shape)).shape == (*shape[:-2], shape[-1], shape[-2])
    copy_transposed(torch.ones(2, 2))
    assert last_path() is Path.TRITON


def test_d7_matrices_beyond_32_bit_offsets(virtual_arch: str) -> None:
    """The second matrix starts 2^31 values behind the first, in memory of which only these are ever touched."""
    stride, rows, columns = 1 << 31, 16, 32
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 2 * (stride + rows * columns), flags=flags)
    x = torch.frombuffer(memory, dtype=torch.bfloat16).as_strided((2, rows, columns), (stride, columns, 1))
    x.copy_(skewed_values(2, rows, columns))
    assert torch.equal(copy_transposed(x), copy_transposed_reference(x))

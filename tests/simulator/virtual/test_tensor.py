"""Storages of numpy and torch tensors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.virtual.tensor import HostTensor, storage_of


def test_view_of_an_array_reaches_its_whole_allocation() -> None:
    whole = np.zeros((8, 16), np.float32)
    part = HostTensor(whole[2:, ::2][1:])
    storage = storage_of(part)
    assert (storage.pointer, storage.nbytes) == (whole.ctypes.data, whole.nbytes)
    assert storage.owner is whole
    assert part.data_ptr() == whole.ctypes.data + 3 * 16 * 4
    assert (part.stride(), part.stride(1), part.numel(), part.element_size()) == ((16, 2), 2, 40, 4)
    assert part.ptr_range() == whole.nbytes


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fnuz])
def test_dtypes_are_those_that_triton_knows(kind: type) -> None:
    utils = pytest.importorskip("triton._utils")
    assert utils.canonicalize_dtype(HostTensor(np.zeros(1, kind)).dtype) in {"u8", "i64", "fp16", "bf16", "fp8e4b8"}


def test_view_of_a_torch_tensor_reaches_its_whole_allocation() -> None:
    torch = pytest.importorskip("torch")
    whole = torch.zeros(8, 16, dtype=torch.bfloat16)
    storage = storage_of(whole[3:, 4:])
    assert (storage.pointer, storage.nbytes) == (whole.data_ptr(), 8 * 16 * 2)


def test_tensor_that_is_not_on_the_host_is_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(LaunchError, match="argument x lies on 'meta'") as error:
        storage_of(torch.empty(4, device="meta"), name="x")
    assert "cpu" in error.value.hint


def test_array_that_is_not_wrapped_is_refused_with_the_way_out() -> None:
    with pytest.raises(LaunchError, match="argument x is ndarray") as error:
        storage_of(np.zeros(4), name="x")
    assert "HostTensor" in error.value.hint

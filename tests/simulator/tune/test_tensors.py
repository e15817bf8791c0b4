"""Tensors of a launch that is only tried: host tensors get their bytes back, a GPU's are copied."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wavecast.simulator.tune.tensors import preserved
from wavecast.simulator.virtual import HostTensor

torch = pytest.importorskip("torch")


class GpuTensor:
    """A tensor whose storage says that it lies on a GPU, with the calls that a copy to the host needs."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def untyped_storage(self) -> Any:
        storage = self.tensor.untyped_storage()
        return SimpleNamespace(
            device=SimpleNamespace(type="cuda"), data_ptr=storage.data_ptr, cpu=lambda: storage.clone()
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)


@dataclass
class Descriptor:
    base: Any
    block_shape: list[int]


def test_every_byte_of_a_host_tensor_s_storage_is_restored() -> None:
    whole = torch.arange(12.0).view(3, 4)
    array = np.arange(5)
    with preserved({"part": whole[1:, ::2], "array": HostTensor(array), "n": 3}, keep=True) as here:
        assert here["n"] == 3
        whole.zero_()
        array[:] = 7
    assert torch.equal(whole, torch.arange(12.0).view(3, 4))
    assert array.tolist() == [0, 1, 2, 3, 4]


def test_an_error_restores_them_too() -> None:
    values = torch.ones(4)
    with pytest.raises(ZeroDivisionError), preserved({"values": values}, keep=True):
        values.copy_(values / (1 // int(values.zero_().sum())))
    assert bool((values == 1).all())


def test_tensors_of_a_gpu_become_copies_that_look_the_same_and_share_as_they_do() -> None:
    whole = torch.arange(12.0).view(3, 4)
    part = whole[1:, ::2]
    arguments = {
        "whole": GpuTensor(whole),
        "part": GpuTensor(part),
        "pair": (GpuTensor(whole), 1),
        "descriptor": Descriptor(GpuTensor(part), [1, 2]),
    }
    with preserved(arguments, keep=True) as here:
        assert torch.equal(here["part"], part)
        assert (here["part"].stride(), here["part"].storage_offset()) == (part.stride(), part.storage_offset())
        here["part"].zero_()
        assert here["whole"][1, 0] == here["pair"][0][1, 2] == here["descriptor"].base[0, 0] == 0
    assert torch.equal(whole, torch.arange(12.0).view(3, 4))

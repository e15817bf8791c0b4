"""What holds for every operator. `gpu/test_every_operator_on_gpu.py` is the same on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from every_operator import every_operator, tensors_of
from quantizers import stored_bytes
from torch.utils._python_dispatch import TorchDispatchMode

import wavecast.kernels.ops  # noqa: F401 - registers the operators
from wavecast.kernels.device import Path, last_path
from wavecast.kernels.formats import E4M3FNUZ

CALLS = every_operator(E4M3FNUZ)

READS = {
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.nonzero,
    torch.ops.aten.masked_select,
    torch.ops.aten.equal,
    torch.ops.aten._unique2,
}
"""Operators of torch whose answer, or its size, depends on values: on a GPU the host waits for each."""

METHODS = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__index__", "__float__", "__iter__")
"""Methods of a tensor of which the same is true, and of which some call none of `READS` for a tensor on the CPU."""

SCRATCH_BYTES = {"quantize_tensorwise": 4}
"""What operators store beside their results: one partial maximum a program."""


class NoReads(TorchDispatchMode):
    """Raises where an operator of torch would read values on the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        indexed = func.overloadpacket is torch.ops.aten.index
        by_mask = indexed and any(index is not None and index.dtype is torch.bool for index in args[1])
        if by_mask or func.overloadpacket in READS:
            raise AssertionError(f"the host reads a tensor: {func}")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def mi300x() -> Iterator[Any]:
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    with virtual.virtual_device("mi300x") as device:
        yield device


def test_every_operator_is_here() -> None:
    registered = {
        name.removeprefix("wavecast::").split(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("wavecast::")
    }
    assert {name.split(",")[0] for name in CALLS} == registered


def test_a_read_is_noticed() -> None:
    x = torch.ones(1)
    for read in (lambda: x.max().item(), lambda: x[x > 0], lambda: x.nonzero(), lambda: bool(x), lambda: x.unique()):
        with NoReads(), pytest.raises(AssertionError, match="the host reads a tensor"):
            read()


@pytest.mark.execute
@pytest.mark.parametrize("name", CALLS)
def test_no_value_is_read_on_the_host(mi300x: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Kernels are launched, and nothing waits for their inputs."""
    call = CALLS[name]

    def refuse(*_: object) -> None:
        raise AssertionError("the host reads a tensor")

    for method in METHODS:
        monkeypatch.setattr(torch.Tensor, method, refuse)
    with NoReads():
        call.operator(*call.tensors)
    monkeypatch.undo()
    assert last_path() is Path.TRITON
    assert mi300x.launches


@pytest.mark.execute
@pytest.mark.parametrize("name", CALLS)
def test_b9_every_element_is_written_exactly_once(mi300x: Any, name: str) -> None:
    """As many bytes are stored as the results have; that none keeps what it had is what canaries show elsewhere."""
    call = CALLS[name]
    results = tensors_of(call.operator(*call.tensors))
    wanted = sum(tensor.numel() * tensor.element_size() for tensor in results) + SCRATCH_BYTES.get(name, 0)
    assert sum(stored_bytes(launch) for launch in mi300x.launches) == wanted

"""Every operator on a real GPU, AMD's or NVIDIA's: the host does not wait, and calls can be captured in a graph."""

from __future__ import annotations

import pytest
import torch
from every_operator import every_operator, tensors_of
from quantizers import assert_same_bytes

from wavecast.kernels.device import Path, active_arch, last_path, native_format
from wavecast.kernels.formats import E4M3FN, Fp8Format

pytestmark = pytest.mark.gpu

EVERY_OPERATOR = pytest.mark.parametrize("name", every_operator(E4M3FN))


@pytest.fixture(scope="module")
def fmt() -> Fp8Format:
    """The native format of the GPU that Triton has."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    arch = active_arch()
    assert arch is not None
    return native_format(arch)


def on_gpu(fmt: Fp8Format, name: str, *, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """The tensors of a call, with the strides that they have on the CPU."""
    return tuple(tensor.cuda() for tensor in every_operator(fmt, seed=seed)[name].tensors)


@EVERY_OPERATOR
def test_the_host_does_not_wait(fmt: Fp8Format, name: str) -> None:
    operator, tensors = every_operator(fmt)[name].operator, on_gpu(fmt, name)
    operator(*tensors)  # compiles
    assert last_path() is Path.TRITON
    torch.cuda.set_sync_debug_mode("error")
    try:
        operator(*tensors)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@EVERY_OPERATOR
def test_captured_in_a_graph_and_replayed_on_new_values(fmt: Fp8Format, name: str) -> None:
    """And on new groups; a replay gives the bytes of a call, every time."""
    operator, tensors = every_operator(fmt)[name].operator, on_gpu(fmt, name)
    operator(*tensors)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = tensors_of(operator(*tensors))
    for seed in (1, 0, 1):
        given = on_gpu(fmt, name, seed=seed)
        for tensor, new in zip(tensors, given, strict=True):
            tensor.copy_(new)
        graph.replay()
        torch.cuda.synchronize()
        for part, (one, other) in enumerate(zip(captured, tensors_of(operator(*given)), strict=True)):
            assert_same_bytes(f"{name} {part}", one.cpu(), other.cpu())

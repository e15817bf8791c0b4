"""Every operator as the virtual H200 executes its PTX: the bytes of the reference, and no product on tensor cores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from every_operator import every_operator, tensors_of

from wavecast.kernels.device import Path, last_path
from wavecast.kernels.formats import E4M3FN

pytestmark = [pytest.mark.compile, pytest.mark.execute]
PRODUCTS = ("grouped_gemm", "grouped_gemm, sums", "scaled_gemm")
QUANTIZERS = [name for name in every_operator(E4M3FN) if name not in PRODUCTS]


def reference(operator: Any, tensors: tuple[torch.Tensor, ...]) -> Any:
    """What plain torch makes of the same call: no device is active."""
    try:
        return operator(*tensors, format=E4M3FN)
    except TypeError:
        # Copies have no format.
        return operator(*tensors)


@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_ptx_of_a_quantizer_gives_the_bytes_of_its_reference(name: str, seed: int) -> None:
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    call = every_operator(E4M3FN, seed=seed)[name]
    with virtual.virtual_device("h200") as device:
        results = tensors_of(call.operator(*call.tensors))
        assert last_path() is Path.TRITON
    assert all(launch.code_object.arch == "sm_90" for launch in device.launches)
    assert all(launch.code_object.registers for launch in device.launches)
    wanted = tensors_of(reference(call.operator, call.tensors))
    assert last_path() is Path.REFERENCE
    for have, want in zip(results, wanted, strict=True):
        assert have.shape == want.shape
        assert have.stride() == want.stride()
        assert torch.equal(*(tensor.flatten().view(torch.uint8) for tensor in (have, want)))


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_on_tensor_cores_is_refused_and_the_model_named(name: str) -> None:
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    errors = pytest.importorskip("wavecast.simulator.errors")
    call = every_operator(E4M3FN)[name]
    with (
        virtual.virtual_device("h200"),
        pytest.raises(errors.UnsupportedInstructionError, match=r"wgmma.*counted, but not executed") as error,
    ):
        call.operator(*call.tensors)
    assert "analytical model" in error.value.hint

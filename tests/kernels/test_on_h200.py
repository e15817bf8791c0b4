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


PROFILED = {
    # ncu 2025.3 on an H200, Triton 3.6, 4,096 x 2,048 values of bf16: requests and sectors of global loads, of global
    # stores, sectors that the L2 was asked for and that it was sent, bytes that HBM read.
    "rowwise_resident_kernel": (32_768, 524_288, 36_864, 266_240, 524_288, 266_239, 16_785_920),
    "row_amax_kernel": (32_768, 524_288, 4_096, 4_096, 524_288, 4_094, 16_781_568),
}


def test_counters_are_those_that_the_profiler_read_on_an_h200() -> None:
    virtual = pytest.importorskip("wavecast.simulator.virtual")
    from wavecast.kernels.rowwise import quantize_rowwise
    from wavecast.kernels.rowwise.baseline import launch_amax

    x = torch.randn(4096, 2048).bfloat16()
    with virtual.virtual_device("h200") as device:
        quantize_rowwise(x)
        launch_amax(x)
    found = {launch.kernel: launch.result.traffic for launch in device.launches}
    assert set(found) == set(PROFILED)
    for name, (loads, load_sectors, stores, store_sectors, read, written, hbm_read) in PROFILED.items():
        traffic = found[name]
        rows = {kind: [row for row in traffic.instructions if row.kind == kind] for kind in ("load", "store")}
        counts = {kind: (sum(r.executed for r in of), sum(r.sectors for r in of)) for kind, of in rows.items()}
        assert counts == {"load": (loads, load_sectors), "store": (stores, store_sectors)}
        assert traffic.l2_read_bytes == 32 * read
        assert traffic.l2_write_bytes == pytest.approx(32 * written, rel=1e-3)
        assert traffic.hbm_read_bytes == pytest.approx(hbm_read, rel=1e-3)
        # The profiler saw 50 KB and 512 bytes of writes: the rest was in the L2 when the kernel ended.
        assert traffic.hbm_write_bytes - traffic.last_write_back_bytes == 0

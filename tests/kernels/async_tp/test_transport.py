"""What moves chunks, and what is left free for it."""

from __future__ import annotations

import pytest

from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.async_tp.transport import BLIT_BYTES, ENGINE_CHUNK_BYTES, plan_transport
from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter


@pytest.mark.parametrize(("arch", "filled"), [("gfx942", 256), ("gfx950", 224)])
@pytest.mark.parametrize("engine", ["copy-engine", "blit"])
def test_signals_that_are_kernels_find_a_unit_on_every_shader_engine(arch: str, filled: int, engine: str) -> None:
    """The 38 or 32 units of a die are dealt to 4 shader engines: 9 or 8 whole ones each, less one."""
    plan = plan_transport(arch=arch, chunk_bytes=1 << 20, engine=engine)
    assert plan.most_units == filled
    assert "each stays free" in plan.reason
    assert plan.piece_bytes == (BLIT_BYTES if engine == "blit" else None)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90"])
def test_fetchers_need_nothing_left_free(arch: str) -> None:
    plan = plan_transport(arch=arch, chunk_bytes=1 << 20, engine="fetcher")
    assert plan.free_units == 0
    assert plan.fetchers % 8 == 0


def test_the_plan_chooses_by_the_size_of_a_chunk_on_rocm() -> None:
    assert plan_transport(arch="gfx942", chunk_bytes=ENGINE_CHUNK_BYTES - 1).engine == "fetcher"
    assert plan_transport(arch="gfx942", chunk_bytes=ENGINE_CHUNK_BYTES).engine == "copy-engine"
    assert plan_transport(arch="sm_90", chunk_bytes=1).engine == "copy-engine"


@pytest.mark.parametrize(("arch", "units"), [("gfx942", 228), ("gfx942", 38), ("sm_90", 114), ("sm_90", 78)])
@pytest.mark.parametrize("engine", ["copy-engine", "fetcher"])
def test_a_smaller_device_of_an_architecture_gets_a_smaller_grid(arch: str, units: int, engine: str) -> None:
    """MI300A, one die of an MI300X, H100 PCIe, H20: programs that did not fit would have others wait for them."""
    plan = plan_all_gather_matmul(
        shard_rows=4096, columns=8192, length=8192, ranks=2, element_bytes=2, arch=arch, engine=engine, units=units,
        tma_bytes=(2, 16384),
    )  # fmt: skip
    most = units if engine == "fetcher" else units - 1
    assert plan.programs <= most
    scatter = plan_matmul_reduce_scatter(
        rows=4096, columns=8192, length=8192, ranks=2, element_bytes=2, arch=arch, units=units, tma_stride_bytes=16384
    )
    assert (scatter.gemm if scatter.tma is None else scatter.tma).programs <= units


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match="engine is 'dma'"):
        plan_transport(arch="gfx942", chunk_bytes=1, engine="dma")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="CUDA does not have"):
        plan_transport(arch="sm_90", chunk_bytes=1, engine="blit")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90"])
@pytest.mark.parametrize("engine", ["copy-engine", "fetcher"])
@pytest.mark.parametrize("element_bytes", [1, 2])
def test_all_programs_of_a_grid_fit_at_a_time(arch: str, engine: str, element_bytes: int) -> None:
    """One that did not could wait for a signal that another, not yet started, is to write."""
    for rows, n, k in ((1024, 8192, 8192), (40, 100, 8192), (512, 1024, 512)):
        plan = plan_all_gather_matmul(
            shard_rows=rows, columns=n, length=k, ranks=8, element_bytes=element_bytes, arch=arch, engine=engine
        )
        per_unit = 2 if (plan.gemm.block_m, plan.gemm.num_warps) in ((64, 4), (128, 4)) else 1
        assert plan.programs <= plan.transport.most_units * per_unit
        assert plan.gemm.programs % plan.gemm.xcds == 0
        assert plan.transport.reason in plan.reason

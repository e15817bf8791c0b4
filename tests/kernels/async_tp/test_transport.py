"""What moves chunks, and what is left free for it."""

from __future__ import annotations

import pytest

from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.async_tp.transport import BLIT_BYTES, plan_transport, signal_rows
from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter

ASKED = {"ranks": 4, "shard_rows": 1024, "full_mesh": True}


@pytest.mark.parametrize(("arch", "filled"), [("gfx942", 256), ("gfx950", 224)])
@pytest.mark.parametrize("engine", ["copy-engine", "blit"])
def test_signals_that_are_kernels_find_a_unit_on_every_shader_engine(arch: str, filled: int, engine: str) -> None:
    """The 38 or 32 units of a die are dealt to 4 shader engines: 9 or 8 whole ones each, less one."""
    plan = plan_transport(arch=arch, engine=engine, **ASKED)
    assert plan.most_units == filled
    assert "each stays free" in plan.reason
    assert plan.piece_bytes == (BLIT_BYTES if engine == "blit" else None)
    assert plan.signal_rows == (256 if engine == "blit" else 1024)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90"])
def test_fetchers_need_nothing_left_free(arch: str) -> None:
    plan = plan_transport(arch=arch, engine="fetcher", **ASKED)
    assert plan.free_units == 0
    assert plan.fetchers % 8 == 0


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_on_a_full_mesh_chunks_of_all_peers_come_at_once(arch: str) -> None:
    plan = plan_transport(arch=arch, ranks=8, shard_rows=1024, full_mesh=True)
    assert (plan.engine, plan.peers, plan.fetchers, plan.signal_rows) == ("fetcher", 7, 56, 256)
    assert plan.reason.startswith("each of 7 peers has a link of its own, so chunks of all come at once")
    one = plan_transport(arch=arch, ranks=8, shard_rows=1024, full_mesh=False)
    assert (one.engine, one.peers, one.fetchers, one.signal_rows) == ("fetcher", 1, 16, 256)
    assert one.reason.startswith("chunks come from one peer after another")


def test_over_a_switch_copy_engines_take_one_chunk_after_another_with_one_signal_each() -> None:
    plan = plan_transport(arch="sm_90", ranks=8, shard_rows=1024, full_mesh=False)
    assert (plan.engine, plan.peers, plan.signal_rows) == ("copy-engine", 1, 1024)


def test_on_cuda_the_kernel_of_a_short_product_fetches() -> None:
    sizes = {"shard_rows": 1024, "length": 512, "ranks": 4, "element_bytes": 2, "arch": "sm_90", "tma_bytes": (2, 1024)}
    short = plan_all_gather_matmul(columns=1024, **sizes)
    assert (short.transport.engine, short.transport.fetchers, short.transport.most_units) == ("fetcher", 16, 132)
    assert "take the host longer than this product" in short.reason
    long = plan_all_gather_matmul(columns=16384, **sizes)
    assert long.transport.engine == "copy-engine"
    assert long.tma is not None


def test_a_narrow_product_moves_chunks_as_the_wide_one_of_its_call_does() -> None:
    given = {"shard_rows": 512, "length": 8192, "ranks": 8, "element_bytes": 2, "arch": "sm_90"}
    plans = [plan_all_gather_matmul(columns=n, call_columns=8192 + 64, **given) for n in (64, 8192)]
    assert plans[0].transport == plans[1].transport
    assert plan_all_gather_matmul(columns=64, **given).transport != plans[0].transport


@pytest.mark.parametrize(
    ("ranks", "rows", "signals"), [(8, 1024, 4), (8, 1280, 3), (2, 300, 2), (4, 1, 1), (63, 4096, 1)]
)
def test_signals_are_of_whole_tiles_and_few_enough_to_be_remembered(ranks: int, rows: int, signals: int) -> None:
    assert -(-rows // signal_rows(rows, ranks)) == signals
    assert signal_rows(rows, ranks) % 256 == 0


@pytest.mark.parametrize("units", [304, 228, 38, 16])
def test_most_units_multiply_on_a_small_device_too(units: int) -> None:
    plan = plan_transport(arch="gfx942", ranks=8, shard_rows=1024, full_mesh=True, units=units)
    assert plan.fetchers % plan.peers == 0
    assert 7 <= plan.fetchers <= max(units // 4, 7)


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
        plan_transport(arch="gfx942", engine="dma", **ASKED)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="CUDA does not have"):
        plan_transport(arch="sm_90", engine="blit", **ASKED)


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

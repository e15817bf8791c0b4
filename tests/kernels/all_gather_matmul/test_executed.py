"""One rank's kernel, executed as gfx942 and gfx950 code, with chunks that are there and chunks that do not come."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import numpy as np
import pytest
import torch
from gather_cases import OneRank, fill_windows, make_call, memory_of, run_rank, small_plans
from gemms import assert_exact, assert_within_bound
from symmetric import ImmediateMemory

from wavecast.kernels.all_gather_matmul.launch import Factor, Gathered, product_launch
from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.async_tp.order import gather_visits
from wavecast.kernels.async_tp.workspace import SignalTimeoutError, make_workspace
from wavecast.kernels.device import native_format
from wavecast.simulator.virtual import active_virtual_device, virtual_device

pytestmark = pytest.mark.execute
POLLS, LONG_POLLS = 3, 1 << 30


def workspace_of(call, rank, **options):
    return make_workspace(memory_of(call, rank, address_of=active_virtual_device().address_of, **options))


@pytest.mark.parametrize("engine", ["copy-engine", "blit", "fetcher"])
@pytest.mark.parametrize("rank", [0, 2])
def test_every_tile_once_from_every_chunk(one_rank: OneRank, engine: str, rank: int) -> None:
    """Rows that straddle chunks, columns and sums beyond whole tiles; outputs and the gathered matrix begin as NaN."""
    call = make_call(75, [200], 144, 4, torch.bfloat16)
    workspace = one_rank.workspace(call, rank)
    gathered, (out,) = run_rank(
        call, workspace, small_plans(call, one_rank.arch, engine, polls=LONG_POLLS), own_rows=True
    )
    assert_exact(out, call.exact_and_size()[0])
    assert torch.equal(gathered, call.a)
    assert workspace.state.tolist()[:2] == [2, 0]


@pytest.mark.parametrize(("engine", "rank"), [("copy-engine", 0), ("fetcher", 3), ("blit", 2)])
def test_chunks_of_all_ranks_at_once_in_parts(one_rank: OneRank, engine: str, rank: int) -> None:
    """Parts of 40 of 75 rows, which begin and end within tiles and chunks."""
    call = make_call(75, [200], 144, 4, torch.bfloat16)
    workspace = one_rank.workspace(call, rank)
    plans = small_plans(call, one_rank.arch, engine, polls=LONG_POLLS, signal_rows=40, full_mesh=True)
    assert plans[0].transport.peers == 3
    gathered, (out,) = run_rank(call, workspace, plans, own_rows=True)
    assert_exact(out, call.exact_and_size()[0])
    assert torch.equal(gathered, call.a)


@pytest.mark.parametrize(("full_mesh", "missing"), [(True, 1), (True, 4), (False, 7)])
def test_tiles_are_visited_in_the_order_of_arrival_up_to_the_signal_that_does_not_come(
    full_mesh: bool, missing: int
) -> None:
    """One program alone writes the tiles before the first one that waits for it, as the plain order has them."""
    with virtual_device("mi300x"):
        call = make_call(100, [32], 32, 4, torch.bfloat16)
        workspace = workspace_of(call, 1, withheld={missing})
        (plan,) = small_plans(
            call, "gfx942", "copy-engine", polls=POLLS, signal_rows=50, full_mesh=full_mesh, programs=1, xcds=1, band=2,
            block_m=32, block_n=16, num_warps=1,
        )  # fmt: skip
        _, (out,) = run_rank(call, workspace, [plan])
        with pytest.raises(SignalTimeoutError, match=f"chunk {missing // 2}: its signal was to be 1 and is 0"):
            workspace.check()
    order = gather_visits(
        rank=1, ranks=4, shard_rows=100, signal_rows=50, peers=plan.transport.peers, tiles_n=2, block_m=32, band=2
    )
    wanted = torch.zeros(400, 32, dtype=torch.bool)
    for visit in takewhile(lambda visit: missing not in visit.signals, order):
        wanted[visit.row * 32 : visit.row * 32 + 32, visit.column * 16 : visit.column * 16 + 16] = True
    assert torch.equal(~out.isnan(), wanted)
    assert torch.equal(out[wanted].double(), call.exact_and_size()[0][wanted])


def test_fp8_with_scales_bias_and_two_factors(one_rank: OneRank) -> None:
    """Scales of rows, on the one device, are gathered as the rows are; the second launch fetches nothing again."""
    dtype = native_format(one_rank.arch).dtype
    call = make_call(40, [72, 136], 160, 3, dtype, scaled_rows=one_rank.arch == "gfx942", biased=True)
    workspace = one_rank.workspace(call, 1)
    plans = small_plans(call, one_rank.arch, "fetcher", polls=LONG_POLLS, signal_rows=24, full_mesh=True)
    _, outs = run_rank(call, workspace, plans)
    for index, out in enumerate(outs):
        assert_exact(out, call.exact_and_size(index)[0])
    assert workspace.state[0] == 2


def test_within_the_bound_of_float64(virtual_arch: str) -> None:
    call = make_call(64, [128], 144, 2, torch.bfloat16, exact=False, biased=True)
    workspace = workspace_of(call, 0)
    plans = small_plans(call, virtual_arch, "copy-engine", polls=POLLS)
    _, (out,) = run_rank(call, workspace, plans, out_dtype=torch.bfloat16)
    exact, size = call.exact_and_size()
    assert_within_bound(out, exact, size, 144 + 1)


def test_later_calls_wait_for_their_own_signals(one_rank: OneRank) -> None:
    """The number of the call is on the device: the signals of an earlier one do not count."""
    first, second = (make_call(64, [128], 64, 2, torch.bfloat16, seed=seed) for seed in (1, 2))
    workspace = one_rank.workspace(first, 0)
    plans = small_plans(first, one_rank.arch, "fetcher", polls=LONG_POLLS)
    run_rank(first, workspace, plans)
    fill_windows(workspace.memory, second)
    _, (out,) = run_rank(second, workspace, plans)
    assert_exact(out, second.exact_and_size()[0])
    workspace.memory.withheld.add(1)
    plans = small_plans(first, one_rank.arch, "copy-engine", polls=POLLS)
    run_rank(first, workspace, plans)
    with pytest.raises(SignalTimeoutError, match="chunk 1: its signal was to be 3 and is 2"):
        workspace.check()


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_a_tile_is_read_only_after_its_chunks_signal(virtual_arch: str, missing: int) -> None:
    """A chunk that does not come is NaN: no tile of it is written, none before it misses, and the kernel ends."""
    call = make_call(96, [128], 64, 4, torch.bfloat16)
    workspace = workspace_of(call, 1, withheld={missing})
    _, (out,) = run_rank(call, workspace, small_plans(call, virtual_arch, "copy-engine", polls=POLLS))
    with pytest.raises(SignalTimeoutError) as error:
        workspace.check()
    assert (error.value.rank, error.value.chunk, error.value.expected, error.value.seen) == (1, missing, 1, 0)
    exact, _ = call.exact_and_size()
    written = ~out.isnan().any(1)
    assert torch.equal(out[written].double(), exact[written])
    of_missing = slice(missing * 96, missing * 96 + 96)
    assert not written[of_missing].any()
    assert written[128:192].all()  # a whole tile of the own chunk


@pytest.mark.parametrize("rows", [255, 256, 257, 320])
def test_e2_shards_of_any_number_of_rows(one_rank: OneRank, rows: int) -> None:
    """With the tile that large shapes have, of 256 x 128; N and K are no multiples of it either."""
    call = make_call(rows, [136], 72, 2, torch.bfloat16)
    workspace = one_rank.workspace(call, 1)
    plans = small_plans(call, one_rank.arch, "fetcher", polls=LONG_POLLS, block_m=256, num_warps=8)
    _, (out,) = run_rank(call, workspace, plans)
    assert_exact(out, call.exact_and_size()[0])


def test_e7_a_matrix_of_more_than_2_to_the_31_elements() -> None:
    """Its last tiles, which are beyond, are right; this rank's own is there too, and of the others no chunk comes."""
    rows, k, ranks, last = (
        34,
        1 << 20,
        63,
        2112,
    )  # the last rank's rows begin at 2108, the tiles that are its alone here
    assert last * k > 2**31
    with virtual_device("mi300x") as device:
        # numpy's zeros, unlike torch's, are pages that no one has touched.
        a = torch.from_numpy(np.zeros((ranks * rows, k), dtype=np.int16)).view(torch.bfloat16)
        b = torch.zeros(16, k, dtype=torch.bfloat16).t()
        a[-1, -64:], a[last, :64] = 1.0, 2.0
        b[-64:], b[:64] = 1.0, 0.5
        memory = ImmediateMemory(61, ranks, 4, address_of=device.address_of)
        workspace = make_workspace(memory)
        memory.signals(61)[62] = 1
        out = torch.full((ranks * rows, 16), float("nan"))
        plan = plan_all_gather_matmul(
            shard_rows=rows, columns=16, length=k, ranks=ranks, element_bytes=2, arch="gfx942", engine="copy-engine"
        )
        gemm = replace(plan.gemm, programs=8, block_m=16, block_n=16, num_warps=1, block_k=256)
        factor = Factor(b, None, None, out, replace(plan, gemm=gemm, polls=POLLS))
        gathered = Gathered(a, None, fetch_scales=False, own_rows=False)
        shard = a[61 * rows : 62 * rows]
        product_launch(workspace, shard, gathered, factor, 0, first=True, last=True)(shard, gathered, factor)
    assert out[: 61 * rows].isnan().all()
    assert out[last].eq(64.0).all()
    assert out[last + 1 : -1].eq(0.0).all()
    assert out[-1].eq(64.0).all()

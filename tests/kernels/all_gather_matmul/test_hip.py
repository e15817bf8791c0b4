"""The kernel in HIP, one rank's, executed as gfx942 and gfx950 code; what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gather_cases import fill_windows, hip_plans, make_call, memory_of, run_rank
from gemms import assert_exact, assert_within_bound

from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.all_gather_matmul.plan_hip import Layout, hip_obstacle
from wavecast.kernels.async_tp.transport import plan_transport
from wavecast.kernels.async_tp.workspace import SignalTimeoutError, make_workspace
from wavecast.kernels.device import native_format
from wavecast.simulator.virtual import active_virtual_device

pytest.importorskip("ziglang")
executes = [pytest.mark.compile, pytest.mark.execute]
POLLS = 3


def workspace_of(call, rank, **options):
    return make_workspace(memory_of(call, rank, address_of=active_virtual_device().address_of, **options))


class TestExecuted:
    pytestmark = executes

    @pytest.mark.parametrize("rank", [0, 2])
    def test_every_tile_once_from_every_chunk(self, virtual_arch: str, rank: int) -> None:
        """Rows that straddle chunks; rows, columns and a sum that end within a tile and a step."""
        call = make_call(150, [260], 152, 4, torch.bfloat16)
        workspace = workspace_of(call, rank)
        gathered, (out,) = run_rank(call, workspace, hip_plans(call, virtual_arch, polls=POLLS), own_rows=True)
        assert_exact(out, call.exact_and_size()[0])
        assert torch.equal(gathered, call.a)
        assert workspace.state.tolist()[:2] == [2, 0]

    @pytest.mark.parametrize("scaled_rows", [True, False])
    def test_fp8_with_scales_bias_and_two_factors(self, virtual_arch: str, scaled_rows: bool) -> None:
        dtype = native_format(virtual_arch).dtype
        call = make_call(40, [72, 136], 160, 2, dtype, scaled_rows=scaled_rows, biased=True)
        workspace = workspace_of(call, 1)
        _, outs = run_rank(call, workspace, hip_plans(call, virtual_arch, polls=POLLS))
        for index, out in enumerate(outs):
            assert_exact(out, call.exact_and_size(index)[0])
        assert workspace.state[0] == 2

    @pytest.mark.parametrize("fp8", [False, True])
    def test_within_the_bound_of_float64(self, virtual_arch: str, fp8: bool) -> None:
        dtype = native_format(virtual_arch).dtype if fp8 else torch.bfloat16
        call = make_call(64, [128], 144, 2, dtype, exact=False, biased=True, scaled_rows=fp8)
        workspace = workspace_of(call, 0)
        plans = hip_plans(call, virtual_arch, polls=POLLS, out_dtype=torch.bfloat16)
        _, (out,) = run_rank(call, workspace, plans, out_dtype=torch.bfloat16)
        exact, size = call.exact_and_size()
        assert_within_bound(out, exact, size, 144 + 1)

    def test_later_calls_wait_for_their_own_signals(self, virtual_arch: str) -> None:
        first, second = (make_call(64, [128], 64, 2, torch.bfloat16, seed=seed) for seed in (1, 2))
        workspace = workspace_of(first, 0)
        plans = hip_plans(first, virtual_arch, polls=POLLS)
        run_rank(first, workspace, plans)
        fill_windows(workspace.memory, second)
        _, (out,) = run_rank(second, workspace, plans)
        assert_exact(out, second.exact_and_size()[0])
        workspace.memory.withheld.add(1)
        run_rank(first, workspace, plans)
        with pytest.raises(SignalTimeoutError, match="chunk 1: its signal was to be 3 and is 2"):
            workspace.check()

    @pytest.mark.parametrize("missing", [0, 2])
    def test_a_tile_is_read_only_after_its_chunks_signal(self, virtual_arch: str, missing: int) -> None:
        """A chunk that does not come is NaN: no tile of it is written, none before it misses, and the kernel ends."""
        call = make_call(256, [128], 32, 3, torch.bfloat16)
        workspace = workspace_of(call, 1, withheld={missing})
        plans = hip_plans(call, virtual_arch, polls=POLLS)
        plans = [replace(plan, hip=replace(plan.hip, programs=1, xcds=1)) for plan in plans]
        _, (out,) = run_rank(call, workspace, plans)
        with pytest.raises(SignalTimeoutError) as error:
            workspace.check()
        assert (error.value.rank, error.value.signal, error.value.expected, error.value.seen) == (1, missing, 1, 0)
        exact, _ = call.exact_and_size()
        written = ~out.isnan().any(1)
        assert torch.equal(out[written].double(), exact[written])
        order = [1, 2, 0]
        came = order[: order.index(missing)]
        assert sorted(came) == [chunk for chunk in range(3) if written[chunk * 256 : chunk * 256 + 256].all()]
        assert not written[missing * 256 : missing * 256 + 256].any()


GOOD = Layout(torch.bfloat16, torch.bfloat16, None, 512, aligned=True)


@pytest.mark.parametrize(
    ("layout", "sizes", "message"),
    [
        ({}, {}, None),
        ({}, {"arch": "gfx90a"}, "it is for gfx942 and gfx950, got gfx90a"),
        ({"dtype": torch.float16}, {}, "operands are torch.float16; it takes bfloat16 and e4m3fnuz"),
        ({"dtype": torch.float8_e4m3fn}, {}, "operands are torch.float8_e4m3fn"),
        ({"out_dtype": torch.float16}, {}, "the result is torch.float16"),
        ({"bias_dtype": torch.float32}, {}, "the bias is torch.float32; it takes bfloat16"),
        ({"b_stride": 516}, {}, "columns of b are 516 elements apart; wanted is a multiple of 8"),
        ({"aligned": False}, {}, "does not begin at a multiple of 16 bytes"),
        ({}, {"length": 508}, "K is 508; it takes multiples of 8"),
        ({}, {"length": 0}, "K is 0"),
        ({}, {"columns": 510}, "N is 510; it takes multiples of 4"),
        ({}, {"ranks": 64}, "there are 64 ranks; at most 63"),
        ({}, {"length": 1 << 22}, "256 rows of an operand or the result have more than 2147483647 bytes"),
        ({}, {"shard_rows": 1 << 28}, "rows or tiles of the result are more than 2147483647"),
    ],
)
def test_what_it_refuses(layout: dict, sizes: dict, message: str | None) -> None:
    transport = plan_transport(arch="gfx942", chunk_bytes=1 << 20, engine="copy-engine")
    given = {"arch": "gfx942", "shard_rows": 1024, "columns": 512, "length": 512, "ranks": 8} | sizes
    found = hip_obstacle(**given, layout=replace(GOOD, **layout), transport=transport)
    assert (found is None) if message is None else (found is not None and message in found)


def test_asked_for_where_it_is_not_possible_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="asked for and not possible: its workgroups do not fetch; take engine 'copy-"):
        plan_all_gather_matmul(
            shard_rows=1024, columns=512, length=512, ranks=8, element_bytes=2, arch="gfx942", engine="fetcher",
            hip=GOOD,
        )  # fmt: skip

"""The kernel in HIP, one rank's, executed as gfx942 and gfx950 code; what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

import pytest
import torch
from gather_cases import OneRank, fill_windows, hip_plans, make_call, memory_of, run_rank, small_plans
from gemms import assert_exact, assert_within_bound
from hip_code import assert_nothing_spills_and_the_loop_has_wide_accesses_and_nothing_of_waiting, kernels_of

from wavecast.kernels.all_gather_matmul.launch_hip import SOURCE
from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.async_tp.order import gather_visits
from wavecast.kernels.async_tp.plan_hip import Layout, hip_obstacle
from wavecast.kernels.async_tp.workspace import SignalTimeoutError, make_workspace
from wavecast.kernels.device import native_format
from wavecast.simulator.virtual import active_virtual_device, virtual_device

pytest.importorskip("ziglang")
executes = [pytest.mark.compile, pytest.mark.execute]
POLLS, LONG_POLLS = 3, 1 << 30


def workspace_of(call, rank, **options):
    return make_workspace(memory_of(call, rank, address_of=active_virtual_device().address_of, **options))


class TestExecuted:
    pytestmark = executes

    @pytest.mark.parametrize("engine", ["copy-engine", "fetcher"])
    @pytest.mark.parametrize("rank", [0, 2])
    def test_every_tile_once_from_every_chunk(self, one_rank: OneRank, engine: str, rank: int) -> None:
        """Rows that straddle chunks; rows, columns and a sum that end within a tile and a step."""
        call = make_call(150, [260], 152, 4, torch.bfloat16)
        workspace = one_rank.workspace(call, rank)
        plans = hip_plans(call, one_rank.arch, polls=LONG_POLLS, engine=engine)
        gathered, (out,) = run_rank(call, workspace, plans, own_rows=True)
        assert_exact(out, call.exact_and_size()[0])
        assert torch.equal(gathered, call.a)
        assert workspace.state.tolist()[:2] == [2, 0]

    @pytest.mark.parametrize("engine", ["copy-engine", "fetcher"])
    def test_chunks_of_all_ranks_at_once_in_parts(self, one_rank: OneRank, engine: str) -> None:
        """Parts of 80 of 150 rows, which begin and end within tiles and chunks, with their rows' scales."""
        dtype = native_format(one_rank.arch).dtype
        call = make_call(150, [260], 160, 4, dtype, scaled_rows=True)
        workspace = one_rank.workspace(call, 2)
        plans = hip_plans(call, one_rank.arch, polls=LONG_POLLS, engine=engine, signal_rows=80, full_mesh=True)
        assert plans[0].transport.peers == 3
        gathered, (out,) = run_rank(call, workspace, plans, own_rows=True)
        assert_exact(out, call.exact_and_size()[0])
        assert torch.equal(gathered.double(), call.a.double())

    @pytest.mark.parametrize("missing", [1])
    def test_tiles_are_visited_in_the_order_of_arrival_up_to_the_signal_that_does_not_come(self, missing: int) -> None:
        with virtual_device("mi300x"):
            call = make_call(512, [64], 32, 3, torch.bfloat16)
            workspace = workspace_of(call, 1, withheld={missing})
            (plan,) = hip_plans(call, "gfx942", polls=POLLS, signal_rows=256, full_mesh=True)
            _, (out,) = run_rank(call, workspace, [replace(plan, hip=replace(plan.hip, programs=1, xcds=1))])
            with pytest.raises(SignalTimeoutError, match=f"chunk {missing // 2}: "):
                workspace.check()
        wanted = torch.zeros(6, dtype=torch.bool)
        order = gather_visits(
            rank=1, ranks=3, shard_rows=512, signal_rows=256, peers=2, tiles_n=1, block_m=256, band=plan.hip.band
        )
        for visit in takewhile(lambda visit: missing not in visit.signals, order):
            wanted[visit.row] = True
        assert torch.equal(~out.isnan(), wanted.repeat_interleave(256)[:, None].expand(-1, 64))

    @pytest.mark.parametrize("scaled_rows", [True, False])
    def test_fp8_with_scales_bias_and_two_factors(self, one_rank: OneRank, scaled_rows: bool) -> None:
        """The scales of rows are fetched as the rows are; the second launch fetches nothing again."""
        dtype = native_format(one_rank.arch).dtype
        call = make_call(40, [72, 136], 160, 2, dtype, scaled_rows=scaled_rows, biased=True)
        workspace = one_rank.workspace(call, 1)
        _, outs = run_rank(call, workspace, hip_plans(call, one_rank.arch, polls=LONG_POLLS, engine="fetcher"))
        for index, out in enumerate(outs):
            assert_exact(out, call.exact_and_size(index)[0])
        assert workspace.state[0] == 2

    @pytest.mark.parametrize("kind", ["bf16", "f16", "fp8"])
    def test_within_the_bound_of_float64(self, virtual_arch: str, kind: str) -> None:
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "fp8": native_format(virtual_arch).dtype}[kind]
        half = torch.float16 if kind == "f16" else torch.bfloat16
        call = make_call(64, [128], 144, 2, dtype, exact=False, biased=True, scaled_rows=kind == "fp8")
        call = replace(call, biases=tuple(bias.to(half) for bias in call.biases))
        workspace = workspace_of(call, 0)
        plans = hip_plans(call, virtual_arch, polls=POLLS, out_dtype=half)
        _, (out,) = run_rank(call, workspace, plans, out_dtype=half)
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

    def test_calls_of_both_kernels_alternate_on_one_workspace(self, one_rank: OneRank) -> None:
        """They count calls, fetchers and signals in the same words: each waits for what is of its own call."""
        calls = [make_call(64, [128], 64, 2, torch.bfloat16, seed=seed) for seed in range(4)]
        workspace = one_rank.workspace(calls[0], 1)
        for number, call in enumerate(calls):
            fill_windows(workspace.memory, call)
            make_plans = hip_plans if number % 2 else small_plans
            plans = make_plans(call, one_rank.arch, engine="fetcher", polls=LONG_POLLS)
            _, (out,) = run_rank(call, workspace, plans)
            assert_exact(out, call.exact_and_size()[0])
            assert workspace.state.tolist() == [number + 2] + [0] * (workspace.state.numel() - 1)

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
        assert (error.value.rank, error.value.chunk, error.value.expected, error.value.seen) == (1, missing, 1, 0)
        exact, _ = call.exact_and_size()
        written = ~out.isnan().any(1)
        assert torch.equal(out[written].double(), exact[written])
        order = [1, 2, 0]
        came = order[: order.index(missing)]
        assert sorted(came) == [chunk for chunk in range(3) if written[chunk * 256 : chunk * 256 + 256].all()]
        assert not written[missing * 256 : missing * 256 + 256].any()


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
class TestCompiled:
    def test_nothing_spills_and_the_loop_has_wide_accesses_and_nothing_of_waiting(self, arch: str) -> None:
        for kernel in kernels_of(SOURCE, arch):
            assert_nothing_spills_and_the_loop_has_wide_accesses_and_nothing_of_waiting(kernel, arch)

    def test_e5_one_wave_acquires_at_system_scope_before_the_barrier(self, arch: str) -> None:
        """The poll reads past the caches and drops none; the invalidation is behind it and before the barrier."""
        for kernel in kernels_of(SOURCE, arch):
            lines = [" ".join(i.text.split()) for i in kernel.instructions]
            (poll,) = (i for i, line in enumerate(lines) if re.match(r"global_load_dword v\d+, .* sc0 sc1$", line))
            acquire = lines.index("buffer_inv sc0 sc1", poll)
            behind = lines[acquire + 1 :]
            assert "s_barrier" in behind
            before_barrier = behind[: behind.index("s_barrier")]
            assert not [line for line in before_barrier if re.match(r"(global|flat|buffer)_load", line)]
            assert any(line.startswith("s_sleep") for line in lines[poll:acquire])

    def test_stores_of_all_waves_are_through_before_one_releases_them(self, arch: str) -> None:
        """Of what was fetched at system scope, before its count; of the call for the device."""
        for kernel in kernels_of(SOURCE, arch):
            lines = [" ".join(i.text.split()) for i in kernel.instructions]
            counts = [i for i, line in enumerate(lines) if line.startswith("global_atomic_add")]
            written_back = []
            for count in counts:
                barrier = max(i for i, line in enumerate(lines[:count]) if line == "s_barrier")
                released = [line for line in lines[max(barrier, count - 3) : count] if line.startswith("buffer_wbl2")]
                if not released:  # the turns that are taken order nothing
                    continue
                waits = [i for i in range(barrier) if re.match(r"s_waitcnt.*vmcnt\(0\)", lines[i])]
                assert not any(re.match(r"(global|buffer)_store", line) for line in lines[waits[-1] : barrier])
                written_back += released
            assert sorted(written_back) == ["buffer_wbl2 sc0 sc1", "buffer_wbl2 sc1"]


@pytest.mark.compile
@pytest.mark.execute
@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
@pytest.mark.parametrize("fp8", [False, True])
def test_the_simulators_checks_find_nothing(device: str, fp8: bool) -> None:
    """No race in LDS or on results, no stray access; of steps and tiles that end early too."""
    with virtual_device(device, check=True) as virtual:
        dtype = native_format(virtual.arch).dtype if fp8 else torch.bfloat16
        call = make_call(150, [260], 176, 2, dtype, scaled_rows=fp8, biased=True)
        plans = hip_plans(call, virtual.arch, polls=POLLS)
        run_rank(call, workspace_of(call, 1), plans, own_rows=True)
        assert virtual.launches
        assert [str(finding) for finding in virtual.findings] == []


GOOD = Layout(torch.bfloat16, torch.bfloat16, None, 512, aligned=True)


@pytest.mark.parametrize(
    ("layout", "sizes", "message"),
    [
        ({}, {}, None),
        ({}, {"arch": "gfx90a"}, "it is for gfx942 and gfx950, got gfx90a"),
        ({"dtype": torch.float32}, {}, "operands are torch.float32; it takes bfloat16, float16 and e4m3fnuz"),
        ({"dtype": torch.float16}, {}, "the result of torch.float16 is torch.bfloat16; it writes torch.float16 and"),
        ({"dtype": torch.float8_e4m3fn}, {}, "operands are torch.float8_e4m3fn"),
        ({"out_dtype": torch.float16}, {}, "the result of torch.bfloat16 is torch.float16"),
        ({"bias_dtype": torch.float32}, {}, "the bias of torch.bfloat16 is torch.float32; it takes torch.bfloat16"),
        ({"dtype": torch.float16, "out_dtype": torch.float16, "bias_dtype": torch.float16}, {}, None),
        ({"b_stride": 516}, {}, "columns of b are 516 elements apart; wanted is a multiple of 8"),
        ({"aligned": False}, {}, "does not begin at a multiple of 16 bytes"),
        ({}, {"length": 508}, "K is 508; it takes multiples of 8"),
        ({}, {"length": 0}, "K is 0"),
        ({}, {"columns": 510}, "N is 510; it takes multiples of 4"),
        ({}, {"ranks": 64}, "there are 64 ranks; at most 63"),
        ({}, {"length": 1 << 22}, "256 rows of an operand, the result or a part of it have more than 2147483647 bytes"),
        ({}, {"rows": 1 << 28}, "rows or tiles of the result are more than 2147483647"),
    ],
)
def test_what_it_refuses(layout: dict, sizes: dict, message: str | None) -> None:
    given = {"arch": "gfx942", "rows": 1024, "columns": 512, "length": 512, "ranks": 8} | sizes
    found = hip_obstacle(**given, layout=replace(GOOD, **layout), programs=256)
    assert (found is None) if message is None else (found is not None and message in found)


def test_asked_for_where_it_is_not_possible_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="asked for and not possible: N is 510; it takes multiples of 4: pad b with"):
        plan_all_gather_matmul(
            shard_rows=1024, columns=510, length=512, ranks=8, element_bytes=2, arch="gfx942", hip=GOOD
        )


def test_fetchers_and_multipliers_fit_the_device_together() -> None:
    plan = plan_all_gather_matmul(
        shard_rows=1024, columns=8192, length=512, ranks=8, element_bytes=2, arch="gfx942", hip=GOOD,
        full_mesh=True,
    )  # fmt: skip
    assert plan.hip is not None
    assert plan.transport.fetchers == 56
    assert plan.programs == plan.transport.fetchers + plan.hip.programs == 304
    assert plan.block_m == 256
    assert plan.reason.startswith("kernel in HIP: tiles of 256 × 256, one a compute unit, 248 workgroups; each of 7")

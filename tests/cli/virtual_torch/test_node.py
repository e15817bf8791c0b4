"""The overlapping operators run unchanged on the ranks of a virtual node, in whatever order copies come."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import pytest
import torch

from wavecast.cli.errors import CliError
from wavecast.cli.virtual_torch.node import NodeGroup, NodeSymmetricMemory, run_on_ranks
from wavecast.kernels.all_gather_matmul.call import GatherCall
from wavecast.kernels.all_gather_matmul.operands import RowScales
from wavecast.kernels.async_tp.transport import Engine
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.simulator.errors import DeadlockError, LaunchError
from wavecast.simulator.virtual.node import NodeOptions, Policy, VirtualNode, every_order, virtual_node

pytestmark = [pytest.mark.compile, pytest.mark.execute]
COPY_ENGINES = NodeOptions(blit_limit_bytes=0)


@dataclass
class Problem:
    """Small integers, so that every sum is exact: whatever differs from the reference is wrong."""

    ranks: int
    rows: int
    n: int = 72
    k: int = 96
    dtype: torch.dtype = torch.bfloat16
    calls: int = 1

    def shards(self, call: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(call)
        return [
            torch.randint(-3, 4, (self.rows, self.k), generator=generator).to(self.dtype) for _ in range(self.ranks)
        ]

    @property
    def b(self) -> torch.Tensor:
        return torch.randint(-3, 4, (self.n, self.k), generator=torch.Generator().manual_seed(99)).to(self.dtype).t()

    def run(self, policy: int | Policy, engine: Engine | None, options: NodeOptions | None = None) -> VirtualNode:
        """Make the calls on every rank, back to back, and compare."""
        with virtual_node("mi300x", self.ranks, policy, options=options) as node:

            def program(group: NodeGroup) -> list[tuple[torch.Tensor, torch.Tensor]]:
                chunk_bytes = self.rows * self.k * self.dtype.itemsize
                workspace = make_workspace(group.symmetric_memory(chunk_bytes + 512 + 4 * self.rows))
                own, b_inverse = None, None
                if self.dtype.itemsize == 1:
                    own, b_inverse = torch.full((self.rows, 1), 2.0 ** group.rank()), torch.tensor(0.5)
                b, results = self.b, []
                for call in range(self.calls):
                    gathered, [out] = GatherCall(workspace, [torch.float32], engine=engine)(
                        self.shards(call)[group.rank()], [b], RowScales(own=own, every=None), [b_inverse], [None]
                    )
                    results.append((gathered, out))
                node.rank(group.rank()).synchronize()
                workspace.check()
                return results

            for results in run_on_ranks(node, program):
                for call, (gathered, out) in enumerate(results):
                    wanted = torch.cat(self.shards(call)).double()
                    assert torch.equal(gathered.double(), wanted)
                    if self.dtype.itemsize == 1:
                        wanted = wanted * (2.0 ** torch.arange(self.ranks)).repeat_interleave(self.rows)[:, None] / 2
                    assert torch.equal(out.double(), wanted @ self.b.double())
        return node


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, E4M3FNUZ.dtype])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_kernel_in_hip_is_right_on_every_rank(
    ranks: int, dtype: torch.dtype, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launched with packed arguments, waiting and preempted as Triton's; chunks within one tile, in a drawn order."""
    monkeypatch.setenv("WAVECAST_ASYNC_TP_CODE", "hip")
    engine = "copy-engine" if seed == 1 else "fetcher"
    Problem(ranks, rows=70, dtype=dtype, calls=2).run(seed, engine, COPY_ENGINES)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("engine", ["copy-engine", "fetcher"])
def test_all_gather_matmul_is_right_on_every_rank(ranks: int, engine: Engine) -> None:
    """Rows that straddle tiles, and two calls back to back: the second's signals are not the first's."""
    Problem(ranks, rows=40, calls=2).run(ranks, engine, COPY_ENGINES)


@pytest.mark.parametrize(
    ("ranks", "rows", "engine", "dtype", "code"),
    [
        (2, 300, None, torch.bfloat16, "triton"),
        (3, 600, None, E4M3FNUZ.dtype, "triton"),
        (4, 520, None, torch.bfloat16, "hip"),
        (4, 300, "blit", torch.bfloat16, "triton"),
        (8, 300, None, torch.bfloat16, "triton"),
    ],
)
def test_several_signals_a_chunk_from_all_ranks_at_once(
    ranks: int, rows: int, engine: Engine | None, dtype: torch.dtype, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two or three signals a chunk, in a drawn order; programs that have fetched take tiles too. All is acquired."""
    monkeypatch.setenv("WAVECAST_ASYNC_TP_CODE", code)
    node = Problem(ranks, rows, n=40, k=32, dtype=dtype, calls=2 if ranks < 8 else 1).run(
        rows + ranks, engine, NodeOptions(check=True)
    )
    assert [str(finding) for finding in node.findings] == []


def test_every_order_in_which_parts_of_two_peers_can_come_is_right() -> None:
    """One of three ranks, whose peers' windows are full: two parts of each, and its own rows."""
    rows, k, n, orders = 260, 32, 16, 0
    problem = Problem(3, rows, n, k)
    for policy in every_order():
        with virtual_node("mi300x", 1, policy, options=COPY_ENGINES) as node, node.rank(0).active():
            windows = [shard.view(torch.uint8).view(-1).clone() for shard in problem.shards(0)]
            pads = [torch.zeros(64, dtype=torch.int32) for _ in windows]
            for window, pad in zip(windows, pads, strict=True):
                node.share(0, window, "window", element_bytes=1)
                node.share(0, pad, "signals")
            memory = NodeSymmetricMemory(node, 0, windows, pads)
            memory.rank, memory.ranks = 1, 3
            workspace = make_workspace(memory)
            own = memory.window(1, (rows, k), torch.bfloat16)
            gathered, [out] = GatherCall(workspace, [torch.float32], engine="blit")(
                own, [problem.b], RowScales(own=None, every=None), [None], [None]
            )
            node.rank(0).synchronize()
            workspace.check()
            wanted = torch.cat(problem.shards(0))
            assert torch.equal(gathered, wanted)
            assert torch.equal(out.double(), wanted.double() @ problem.b.double())
        orders += 1
    assert orders == 6  # of two streams with two parts each; the few own rows are copied before


@pytest.mark.parametrize("seed", range(3))
def test_copies_that_are_kernels_find_room_beside_the_waiting_one(seed: int) -> None:
    Problem(4, rows=75).run(seed, "blit")


def test_fp8_chunks_are_gathered_with_the_scales_of_their_rows() -> None:
    Problem(2, rows=75, dtype=E4M3FNUZ.dtype).run(0, "copy-engine", COPY_ENGINES)


@pytest.mark.parametrize("at_once_bytes", [0, 4 << 20])
def test_every_order_of_two_ranks_copies_is_right(at_once_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The own rows, if they are few, are copied before the barrier is reached; else beside all of that."""
    monkeypatch.setattr("wavecast.kernels.all_gather_matmul.launch.COPIED_AT_ONCE_BYTES", at_once_bytes)
    orders = 0
    for policy in every_order():
        Problem(2, rows=24, n=16, k=32).run(policy, "copy-engine", COPY_ENGINES)
        orders += 1
    # Each rank copies its shard to its window, and its rows to the gathered matrix; behind the barrier, the other's.
    copies = [f"{what} {rank}" for what in ("window", "own", "other") for rank in range(2)]
    before = [(f"window {rank}", f"own {rank}") for rank in range(2)] if at_once_bytes else []
    published = "own" if at_once_bytes else "window"
    before += [(f"{published} {rank}", f"other {other}") for rank in range(2) for other in range(2)]
    assert orders == sum(
        all(order.index(first) < order.index(then) for first, then in before) for order in permutations(copies)
    )


def test_a_torch_operation_comes_after_what_is_on_the_stream() -> None:
    with virtual_node("mi300x", 2) as node:

        def program(group: NodeGroup) -> torch.Tensor:
            memory = group.symmetric_memory(1024)
            rank, other = group.rank(), 1 - group.rank()
            stream = memory.stream("compute")
            memory.window(rank, (64,), torch.float32).fill_(float(rank + 1))
            memory.barrier(stream)
            pulled = torch.zeros(64)
            memory.copy(pulled, memory.window(other, (64,), torch.float32), stream)
            view = pulled.view(8, 8)[1:]
            return view * 2

        results = run_on_ranks(node, program)
    assert [result.unique().tolist() for result in results] == [[4.0], [2.0]]


def test_collectives_of_the_group() -> None:
    def program(group: NodeGroup) -> tuple[list[float], ...]:
        mine = torch.arange(4.0) + 10 * group.rank()
        gathered, part, summed, sent = torch.empty(12), torch.empty(2), mine.clone(), mine.clone()
        group.all_gather_into_tensor(gathered, mine)
        group.reduce_scatter_tensor(part, torch.arange(6.0) * (group.rank() + 1))
        group.all_reduce(summed)
        group.broadcast(sent, 2)
        group.barrier()
        return gathered.tolist(), part.tolist(), summed.tolist(), sent.tolist()

    with virtual_node("mi300x", 3) as node:
        for rank, (gathered, part, summed, sent) in enumerate(run_on_ranks(node, program)):
            assert gathered == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
            assert part == [6 * 2 * rank, 6 * (2 * rank + 1)]
            assert summed == [30, 33, 36, 39]
            assert sent == [20, 21, 22, 23]


def test_ranks_that_call_different_collectives_are_told() -> None:
    def program(group: NodeGroup) -> None:
        if group.rank():
            group.all_reduce(torch.zeros(1))
        else:
            group.barrier()

    with virtual_node("mi300x", 2) as node, pytest.raises(CliError, match="all_reduce, barrier"):
        run_on_ranks(node, program)


def test_a_program_that_ends_early_is_named_when_another_waits_for_it() -> None:
    def program(group: NodeGroup) -> None:
        if group.rank() != 1:
            group.barrier()

    with virtual_node("mi300x", 3) as node, pytest.raises(DeadlockError) as error:
        run_on_ranks(node, program)
    assert "rank 0: the program waits for the other ranks in barrier" in str(error.value)
    assert "rank 1: the program has ended" in str(error.value)


def test_a_program_that_fails_ends_the_others() -> None:
    def program(group: NodeGroup) -> None:
        if group.rank() == 1:
            raise LookupError("of rank 1")
        group.barrier()

    with virtual_node("mi300x", 2) as node, pytest.raises(LookupError, match="of rank 1") as error:
        run_on_ranks(node, program)
    assert error.value.__notes__ == ["in the program of rank 1"]


def test_a_program_that_cleans_up_after_a_failure_of_another_ends_too() -> None:
    cleaned = []

    def program(group: NodeGroup) -> None:
        if group.rank() == 1:
            raise LookupError("of rank 1")
        try:
            group.barrier()
        finally:
            cleaned.append(group.rank())
            group.barrier()

    with virtual_node("mi300x", 3) as node, pytest.raises(LookupError):
        run_on_ranks(node, program)
    assert set(cleaned) <= {0, 2}


def test_a_tensor_of_another_rank_is_not_reached() -> None:
    shared = torch.zeros(64)

    def program(group: NodeGroup) -> None:
        memory = group.symmetric_memory(1024)
        memory.copy(memory.window(group.rank(), (64,), torch.float32), shared, memory.stream("compute"))

    with virtual_node("mi300x", 2) as node, pytest.raises(LaunchError, match="that no other rank reaches"):
        run_on_ranks(node, program)

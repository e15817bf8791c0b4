"""Matmul+reduce-scatter runs unchanged on the ranks of a virtual node, whatever the interleaving."""

from __future__ import annotations

import pytest
import torch

from wavecast.cli.virtual_torch.node import NodeGroup, run_on_ranks
from wavecast.kernels.async_tp.selection import Code
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.matmul_reduce_scatter.call import ScatterCall
from wavecast.kernels.matmul_reduce_scatter.operands import as_parts
from wavecast.kernels.matmul_reduce_scatter.plan import window_bytes
from wavecast.simulator.virtual.node import virtual_node

pytestmark = [pytest.mark.compile, pytest.mark.execute]


def operands(
    rank: int, call: int, shape: tuple[int, int, int], ranks: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Small integers, so that every sum is exact."""
    rows, n, k = shape
    generator = torch.Generator().manual_seed(100 * call + rank)
    a = torch.randint(-3, 4, (rows * ranks, k), generator=generator).to(dtype)
    return a, torch.randint(-3, 4, (n, k), generator=generator).to(dtype).t()


@pytest.mark.parametrize("code", ["triton", "hip"])
@pytest.mark.parametrize(
    ("ranks", "seed", "dtype"),
    [(2, 0, torch.bfloat16), (2, 1, E4M3FNUZ.dtype), (4, 0, torch.bfloat16), (8, 0, torch.bfloat16)],
)
def test_every_rank_has_its_part_of_the_sum(ranks: int, seed: int, dtype: torch.dtype, code: Code) -> None:
    """Rows and columns beyond whole tiles, and two calls back to back whose windows are the same."""
    shape = rows, n, _ = 40, 72, 96
    calls, fp8 = 2, dtype.itemsize == 1
    inverse = 0.5 if fp8 else 1.0

    def program(group: NodeGroup) -> list[torch.Tensor]:
        workspace = make_workspace(group.symmetric_memory(window_bytes(rows, n, ranks)))
        results = []
        for call in range(calls):
            a, b = operands(group.rank(), call, shape, ranks, dtype)
            scales = (torch.full((rows * ranks, 1), inverse), torch.ones(1, n)) if fp8 else (None, None)
            parts = as_parts(a, b, ranks, 0, *scales)
            results.append(ScatterCall(workspace, torch.float32, average=False, code=code)(parts, b))
        group.node.rank(group.rank()).synchronize()
        workspace.check()
        return results

    with virtual_node("mi300x", ranks, seed) as node:
        found = run_on_ranks(node, program)
    for call in range(calls):
        given = [operands(rank, call, shape, ranks, dtype) for rank in range(ranks)]
        exact = inverse * sum(a.double() @ b.double() for a, b in given)
        for rank, wanted in enumerate(exact.chunk(ranks)):
            assert torch.equal(found[rank][call].double(), wanted)

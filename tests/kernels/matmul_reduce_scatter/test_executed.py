"""One rank's kernel after another, executed as gfx942 and gfx950 code over one memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gemms import OUT_ROUNDING, UNIT, exact_and_size, scales, values
from symmetric import ImmediateMemory

from wavecast.kernels.async_tp.plan_hip import Layout
from wavecast.kernels.async_tp.selection import Code
from wavecast.kernels.async_tp.workspace import SignalTimeoutError, Workspace, make_workspace
from wavecast.kernels.device import native_format
from wavecast.kernels.matmul_reduce_scatter.launch import ScatterLaunch
from wavecast.kernels.matmul_reduce_scatter.operands import Parts, as_parts
from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter, window_bytes
from wavecast.simulator.virtual import active_virtual_device

pytestmark = pytest.mark.execute


class Problem:
    """Every rank's operands, and views of one memory for each."""

    def __init__(
        self, rows: int, n: int, k: int, ranks: int, dtype: torch.dtype, code: Code, *, exact: bool = True
    ) -> None:  # fmt: skip
        fp8 = dtype.itemsize == 1
        self.code = code
        self.rows, self.n, self.k, self.ranks, self.dtype = rows, n, k, ranks, dtype
        self.operands = [
            (
                values(rows * ranks, k, dtype=dtype, exact=exact, seed=r),
                values(n, k, dtype=dtype, exact=exact, seed=r).t(),
            )
            for r in range(ranks)
        ]
        self.inverses = [
            (scales(rows * ranks, 1, exact=exact, seed=r), scales(1, n, exact=exact, seed=r)) if fp8 else (None, None)
            for r in range(ranks)
        ]
        address_of = active_virtual_device().address_of
        shared = ImmediateMemory(0, ranks, window_bytes(rows, n, ranks), address_of=address_of)
        for buffer in shared.buffers:
            buffer.view(torch.float32).fill_(float("nan"))
        self.workspaces: list[Workspace] = []
        for rank in range(ranks):
            view = ImmediateMemory(rank, ranks, window_bytes(rows, n, ranks), address_of=address_of)
            view.buffers, view.pads = shared.buffers, shared.pads
            self.workspaces.append(make_workspace(view))

    def run(self, rank: int, *, polls: int, average: bool = False, full_mesh: bool = False) -> torch.Tensor:
        out = torch.full((self.rows, self.n), float("nan"))
        a, b = self.operands[rank]
        parts: Parts = as_parts(a, b, self.ranks, 0, *self.inverses[rank])
        plan = plan_matmul_reduce_scatter(
            rows=self.rows, columns=self.n, length=self.k, ranks=self.ranks, element_bytes=self.dtype.itemsize,
            arch=ARCH[0], full_mesh=full_mesh, hip=Layout.of(b, out, None, parts.a) if self.code == "hip" else None,
        )  # fmt: skip
        gemm = replace(plan.gemm, programs=8, block_m=64, block_n=128, num_warps=4)
        hip = None if plan.hip is None else replace(plan.hip, programs=2, xcds=2)
        plan = replace(plan, gemm=gemm, hip=hip, polls=polls)
        ScatterLaunch(self.workspaces[rank], parts, b, out, plan, average=average)(parts, b, out)
        return out

    def exact_and_size(self, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        part = slice(rank * self.rows, (rank + 1) * self.rows)
        found = [
            exact_and_size(a[part], b, None if inv is None else inv[part], col)
            for (a, b), (inv, col) in zip(self.operands, self.inverses, strict=True)
        ]
        return sum(exact for exact, _ in found), sum(size for _, size in found)


ARCH = [""]


@pytest.fixture(autouse=True)
def arch(virtual_arch: str) -> None:
    ARCH[0] = virtual_arch


CODES = pytest.mark.parametrize("code", ["triton", pytest.param("hip", marks=pytest.mark.compile)])


@CODES
@pytest.mark.parametrize(
    ("rows", "n", "k", "ranks", "full_mesh"),
    [(70, 200, 80, 2, False), (33, 136, 72, 4, False), (258, 260, 16, 3, False), (258, 260, 16, 3, True)],
)
def test_the_last_rank_adds_what_the_others_wrote(
    rows: int, n: int, k: int, ranks: int, full_mesh: bool, code: Code
) -> None:
    """Windows begin as NaN; the ranks before it gave up, having written every part but their own.

    Of several tiles in both directions too, part after part or of all other ranks in turns.
    """
    problem = Problem(rows, n, k, ranks, torch.bfloat16, code)
    for rank in range(ranks - 1):
        early = problem.run(rank, polls=2, full_mesh=full_mesh)
        assert early.isnan().all()
        with pytest.raises(SignalTimeoutError, match=f"rank {rank} gave up waiting"):
            problem.workspaces[rank].check()
    out = problem.run(ranks - 1, polls=2, full_mesh=full_mesh)
    problem.workspaces[-1].check()
    assert torch.equal(out.double(), problem.exact_and_size(ranks - 1)[0])


@CODES
def test_fp8_and_averages_within_the_bound(code: Code) -> None:
    """K products and the ranks' sums, each rounded in fp32."""
    problem = Problem(40, 72, 96, 2, native_format(ARCH[0]).dtype, code, exact=False)
    problem.run(0, polls=2)
    out = problem.run(1, polls=2, average=True)
    exact, size = problem.exact_and_size(1)
    bound = (96 + 2 + 4) * UNIT * size / 2 + OUT_ROUNDING[torch.float32]
    assert ((out.double() - exact / 2).abs() <= bound).all()


@CODES
def test_a_later_call_needs_new_parts(code: Code) -> None:
    problem = Problem(64, 128, 64, 2, torch.bfloat16, code)
    problem.run(0, polls=2)
    assert not problem.run(1, polls=2).isnan().any()
    assert problem.run(1, polls=2).isnan().all()
    with pytest.raises(SignalTimeoutError, match="signal was to be 2 and is 1"):
        problem.workspaces[1].check()

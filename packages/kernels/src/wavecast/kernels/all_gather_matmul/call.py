"""Calls of all-gather+matmul of one kind over symmetric memory: allocation and launch, planned once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wavecast.kernels.all_gather_matmul.launch import Factor, Gathered, GatherLaunch
from wavecast.kernels.all_gather_matmul.operands import RowScales
from wavecast.kernels.all_gather_matmul.plan import AllGatherMatmulPlan, plan_all_gather_matmul
from wavecast.kernels.async_tp.plan_hip import Layout
from wavecast.kernels.async_tp.selection import Code
from wavecast.kernels.async_tp.transport import Engine
from wavecast.kernels.async_tp.workspace import Workspace
from wavecast.kernels.device import active_arch_and_units
from wavecast.kernels.tma import is_aligned

Form = tuple[tuple[int, int], tuple[int, int]]
"""Size and strides of a matrix."""

_Forms = tuple[Form, Form, list[tuple[Form, torch.dtype]]]


class GatherCall:
    """Calls on tensors that are alike in sizes, strides, dtypes and forms, and in what Triton compiles for.

    Args:
        workspace: of this rank.
        out_dtypes: of the products.
        engine: what is to move chunks; None leaves it to the plan.
        code: whose kernel.
        own_rows: whether the gathered matrix is to have this rank's rows too.
    """

    def __init__(
        self,
        workspace: Workspace,
        out_dtypes: Sequence[torch.dtype],
        *,
        engine: Engine | None = None,
        code: Code = "triton",
        own_rows: bool = True,
    ) -> None:
        self.workspace = workspace
        self._out_dtypes, self._engine, self._code, self._own_rows = tuple(out_dtypes), engine, code, own_rows
        self._plans: list[AllGatherMatmulPlan] = []
        self._forms: _Forms | None = None
        self._launch: GatherLaunch | None = None

    def __call__(
        self,
        shard: torch.Tensor,
        bs: Sequence[torch.Tensor],
        scales: RowScales,
        b_inverses: Sequence[torch.Tensor | None],
        biases: Sequence[torch.Tensor | None],
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The gathered matrix and the products, as matrices.

        Args:
            shard: (rows, K) of this rank, contiguous.
            bs: (K, N) each, K contiguous.
            scales: of the rows.
            b_inverses: fp32, () or (1, N) each; None for 16-bit operands.
            biases: (N,) each, contiguous, or None.

        Raises:
            ValueError: the kernel in HIP is asked for and cannot do it.
        """
        launch, device = self._launch, shard.device
        gathered_form, inverse_form, out_forms = self._forms or self._shape(shard, bs)
        gathered = torch.empty_strided(*gathered_form, dtype=shard.dtype, device=device)
        a_inverse, own = scales.every, scales.own
        if own is not None:
            a_inverse = torch.empty_strided(*inverse_form, dtype=torch.float32, device=device)
        outs = [torch.empty_strided(*form, dtype=dtype, device=device) for form, dtype in out_forms]
        if launch is None:
            given = zip(bs, b_inverses, biases, outs, strict=True)
            self._plans = [self._plan(shard, gathered, *one, call_columns=sum(b.shape[1] for b in bs)) for one in given]
        factors = list(map(Factor, bs, b_inverses, biases, outs, self._plans))
        where = Gathered(gathered, a_inverse, own is not None, self._own_rows)
        if launch is None:
            launch = self._launch = GatherLaunch(self.workspace, shard, where, factors)
        launch(shard, own, where, factors)
        return gathered, outs

    def _shape(self, shard: torch.Tensor, bs: Sequence[torch.Tensor]) -> _Forms:
        """Sizes and strides of what a call makes, and the dtypes of products."""
        (count, k), ranks = shard.shape, self.workspace.memory.ranks
        rows = ranks * count
        outs = [((rows, b.shape[1]), (b.shape[1], 1)) for b in bs]
        self._forms = ((rows, k), (k, 1)), ((rows, 1), (1, 1)), [*zip(outs, self._out_dtypes, strict=True)]
        return self._forms

    def _plan(
        self,
        shard: torch.Tensor,
        gathered: torch.Tensor,
        b: torch.Tensor,
        b_inverse: torch.Tensor | None,
        bias: torch.Tensor | None,
        out: torch.Tensor,
        *,
        call_columns: int,
    ) -> AllGatherMatmulPlan:
        layout = Layout.of(b, out, bias, shard, gathered, b_inverse) if self._code == "hip" else None
        aligned = bias is None and is_aligned(shard, gathered, b, out)
        memory, (arch, units) = self.workspace.memory, active_arch_and_units()
        return plan_all_gather_matmul(
            shard_rows=shard.shape[0],
            columns=b.shape[1],
            length=shard.shape[1],
            ranks=memory.ranks,
            element_bytes=shard.element_size(),
            arch=arch,
            full_mesh=memory.full_mesh,
            call_columns=call_columns,
            engine=self._engine,
            tma_bytes=(out.element_size(), b.stride(1) * b.element_size()) if aligned else None,
            hip=layout,
            units=units,
        )

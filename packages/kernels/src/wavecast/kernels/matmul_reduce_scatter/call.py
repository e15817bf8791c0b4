"""Calls of matmul+reduce-scatter of one kind over symmetric memory: allocation and launch, planned once for all."""

from __future__ import annotations

import torch

from wavecast.kernels.async_tp.plan_hip import Layout
from wavecast.kernels.async_tp.products import column_major
from wavecast.kernels.async_tp.selection import Code
from wavecast.kernels.async_tp.workspace import Workspace
from wavecast.kernels.device import active_arch_and_units
from wavecast.kernels.matmul_reduce_scatter.launch import ScatterLaunch
from wavecast.kernels.matmul_reduce_scatter.operands import Parts
from wavecast.kernels.matmul_reduce_scatter.plan import MatmulReduceScatterPlan, plan_matmul_reduce_scatter
from wavecast.kernels.tma import is_aligned


class ScatterCall:
    """Calls on tensors that are alike in sizes, strides, dtypes and forms, and in what Triton compiles for.

    Args:
        workspace: of this rank.
        out_dtype: of the result.
        average: whether the sum is divided by the number of ranks.
        code: whose kernel.
    """

    def __init__(
        self, workspace: Workspace, out_dtype: torch.dtype, *, average: bool, code: Code = "triton"
    ) -> None:  # fmt: skip
        self._workspace, self._out_dtype, self._average, self._code = workspace, out_dtype, average, code
        self._launch: ScatterLaunch | None = None

    def __call__(self, parts: Parts, b: torch.Tensor) -> torch.Tensor:
        """This rank's part, as a matrix (rows, N); arguments as `matmul_reduce_scatter` has checked them.

        Raises:
            ValueError: the kernel in HIP is asked for and cannot do it.
        """
        b, n = column_major(b), b.shape[1]
        out = torch.empty_strided((parts.rows, n), (n, 1), dtype=self._out_dtype, device=b.device)
        if self._launch is None:
            plan = self._plan(parts, b, out)
            self._launch = ScatterLaunch(self._workspace, parts, b, out, plan, average=self._average)
        self._launch(parts, b, out)
        return out

    def _plan(self, parts: Parts, b: torch.Tensor, out: torch.Tensor) -> MatmulReduceScatterPlan:
        arch, units = active_arch_and_units()
        layout = None
        if self._code == "hip":
            layout = Layout.of(b, out, None, parts.a, parts.a_inverse, parts.b_inverse)
        aligned = is_aligned(parts.a, b)
        return plan_matmul_reduce_scatter(
            rows=parts.rows,
            columns=b.shape[1],
            length=b.shape[0],
            ranks=parts.ranks,
            element_bytes=b.element_size(),
            arch=arch,
            full_mesh=self._workspace.memory.full_mesh,
            tma_stride_bytes=b.stride(1) * b.element_size() if aligned else None,
            hip=layout,
            units=units,
        )

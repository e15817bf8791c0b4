"""Launches of the kernel for sm_90, on checked tensors: descriptors for the tensor memory accelerator, and scalars."""

from __future__ import annotations

import logging

import torch

from wavecast.kernels.grouped_gemm.kernel_tma import gemm_tma_kernel
from wavecast.kernels.grouped_gemm.plan_tma import TmaPlan, plan_tma_grouped, tma_obstacle
from wavecast.kernels.tma import ALIGNMENT, descriptor

_log = logging.getLogger(__name__)


def plan_tma_2d3d(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, arch: str | None) -> TmaPlan | None:
    """Plan of the rows form, a (M, K), b (G, K, N), out (M, N); None where `tma_obstacle` sees one."""
    (m, k), (groups, _, n) = a.shape, b.shape
    strides = (a.stride(0), b.stride(2), b.stride(0))
    return _plan(a, b, out, arch, m, n, k, groups, strides, sum_form=False)


def plan_tma_2d2d(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, arch: str | None) -> TmaPlan | None:
    """Plan of the sum form, a (P, T), b (T, Q), out (G, P, Q); None where `tma_obstacle` sees one."""
    (p, t), q, groups = a.shape, b.shape[1], out.shape[0]
    return _plan(a, b, out, arch, p, q, t, groups, (a.stride(0), b.stride(1), 0), sum_form=True)


def plan_tma_scaled(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, arch: str | None) -> TmaPlan | None:
    """Plan of a dense GEMM, a (M, K), b (K, N), out (M, N); None where `tma_obstacle` sees one."""
    (m, k), n = a.shape, b.shape[1]
    return _plan(a, b, out, arch, m, n, k, 1, (a.stride(0), b.stride(1), 0), sum_form=False)


def _plan(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
    arch: str | None,
    rows: int,
    columns: int,
    summed: int,
    groups: int,
    strides: tuple[int, int, int],
    *,
    sum_form: bool,
) -> TmaPlan | None:
    sizes = {"element_bytes": a.element_size(), "out_bytes": out.element_size()}
    obstacle = tma_obstacle(
        arch=arch, rows=rows, columns=columns, summed=summed, groups=groups, sum_form=sum_form, strides=strides,
        out_stride=columns, aligned=all(t.data_ptr() % ALIGNMENT == 0 for t in (a, b, out)), **sizes,
    )  # fmt: skip
    if obstacle is not None:
        _log.info("no tensor memory accelerator: %s", obstacle)
        return None
    return plan_tma_grouped(**sizes)


def launch_tma_grouped_2d3d(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out: torch.Tensor,
    plan: TmaPlan,
) -> None:
    """Launch the rows form; ``a_inverse`` (M,), ``b_inverse`` (G, N), ``out`` (M, N), all contiguous."""
    (m, k), (groups, _, n) = a.shape, b.shape
    b_rows = b.as_strided((groups * n, k), (b.stride(2), 1))
    _launch(a, b_rows, offs, a_inverse, b_inverse, out, groups, m, n, k, plan, sum_form=False)


def launch_tma_grouped_2d2d(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out: torch.Tensor,
    plan: TmaPlan,
) -> None:
    """Launch the sum form; ``a_inverse`` (G, P), ``b_inverse`` (G, Q), ``out`` (G, P, Q), all contiguous."""
    groups, p, q = out.shape
    rows = out.view(groups * p, q)
    _launch(a, b.t(), offs, a_inverse, b_inverse, rows, groups, p, q, a.shape[1], plan, sum_form=True)


def launch_tma_scaled(
    a: torch.Tensor,
    b: torch.Tensor,
    a_inverse: torch.Tensor,
    b_inverse: torch.Tensor,
    out: torch.Tensor,
    plan: TmaPlan,
) -> None:
    """Launch a dense GEMM; inverses of one value or of one a row and column, ``out`` (M, N) contiguous."""
    (m, k), n = a.shape, b.shape[1]
    _launch(a, b.t(), None, a_inverse, b_inverse, out, 1, m, n, k, plan, sum_form=False)


def _launch(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out: torch.Tensor,
    groups: int,
    m: int,
    n: int,
    k: int,
    plan: TmaPlan,
    *,
    sum_form: bool,
) -> None:
    """Launch on matrices whose rows are contiguous: a, b (of rows that become columns) and out."""
    form = (sum_form, offs is not None, a_inverse is not None, per_line(a_inverse), per_line(b_inverse), False)
    tile = (plan.block_m, plan.block_n, plan.block_k, plan.stages, plan.band, plan.k_alignment)
    gemm_tma_kernel[(plan.programs,)](
        descriptor(a, k, plan.block_m, plan.block_k),
        descriptor(b, k, plan.block_n, plan.block_k),
        descriptor(out, n, plan.block_m // 2, plan.block_n // 4),
        out, a_inverse, b_inverse, offs, groups, m, n, k, out.stride(0),
        FORM=form, TILE=tile, OUT_STAGES=plan.out_stages, num_warps=4,
    )  # fmt: skip


def per_line(inverse: torch.Tensor | None) -> int:
    """Distance of the scales of neighbouring rows or columns: 0 if there is one for all."""
    return int(inverse is not None and inverse.ndim > 0)

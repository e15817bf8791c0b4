"""Launch of the kernel for sm_90, on checked tensors: descriptors for the tensor memory accelerator, and scalars."""

from __future__ import annotations

import logging

import torch

from wavecast.kernels.colwise_per_group.kernel_tma import colwise_tma_kernel
from wavecast.kernels.colwise_per_group.plan_tma import TmaPlan, plan_tma, tma_obstacle
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.quantizer import Conversion
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.tma import ALIGNMENT, descriptor

_log = logging.getLogger(__name__)

LARGER_KEY = """{{
.reg .b32 key, unit;
mov.b32 unit, {unit};
and.b32 key, $2, 0x7fff7fff;
add.s16x2 key, key, unit;
max.s16x2 $0, $1, key;
}}"""
"""The larger of keys $1 and those of the values $2, two in a word: their ``magnitude_key``."""

ZERO_KEYS = {torch.bfloat16: 0x0080, torch.float16: 0x0400}
"""One unit of the exponent, which is the key of zero."""


def choose_tma(x: torch.Tensor, out: torch.Tensor, groups: int, conversion: Conversion) -> TmaPlan | None:
    """The plan for tensors as `launch_tma` takes them, or None where `tma_obstacle` sees one."""
    obstacle = tma_obstacle(
        arch=conversion.arch,
        rows=out.shape[-1],
        columns=x.shape[1],
        groups=groups,
        row_stride=x.stride(0),
        element_bytes=x.element_size(),
        stacked=out.ndim == 3,
        saturates=conversion.fmt == E4M3FN and conversion.maximum == E4M3FN.max,
        aligned=all(t.data_ptr() % ALIGNMENT == 0 for t in (x, out)),
    )
    if obstacle is not None:
        _log.info("no tensor memory accelerator: %s", obstacle)
        return None
    return plan_tma()


def launch_tma(
    x: torch.Tensor,
    offs: torch.Tensor,
    out: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    conversion: Conversion,
    plan: TmaPlan,
) -> None:
    """Launch into outputs that the caller has allocated; for what has no `tma_obstacle`.

    Args:
        x: (tokens, columns) bf16 or fp16, rows contiguous.
        offs: (groups,) int32 end offsets.
        out: (columns, tokens) FP8, contiguous; or (groups, columns, rows): groups are matrices of equal size.
        scale, inverse: (groups, columns) fp32, contiguous.
        conversion: how.
        plan: the tile.
    """
    tokens, columns = x.shape
    groups = offs.numel()
    stacked = out.ndim == 3
    lines = out.view(-1, out.shape[-1])
    blocks = -(-columns // plan.columns)
    shared = torch.zeros(groups * (columns + blocks), dtype=torch.int32, device=x.device)
    zero_key = ZERO_KEYS[x.dtype]
    larger = LARGER_KEY.format(unit=zero_key * 0x10001)
    numerics = (zero_key, larger, conversion.maximum, EPS, conversion.power_of_two, stacked)
    colwise_tma_kernel[(plan.programs,)](
        descriptor(x, columns, plan.rows, plan.columns),
        descriptor(lines, lines.shape[1], plan.columns, plan.rows),
        lines, lines.shape[1] // ALIGNMENT, scale, inverse, shared, shared[groups * columns :], offs, groups, tokens,
        columns,
        TILE=plan.tile, NUMERICS=numerics, REGISTERS=plan.registers, num_warps=plan.writers,
        launch_cooperative_grid=True,
    )  # fmt: skip

"""The overlapped kernels as they are launched on large shapes, compiled and not executed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from gemm_code import Compiled, compiled
from symmetric import ImmediateMemory

from wavecast.kernels.all_gather_matmul.call import GatherCall
from wavecast.kernels.all_gather_matmul.operands import RowScales
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.device import native_format
from wavecast.kernels.matmul_reduce_scatter.call import ScatterCall
from wavecast.kernels.matmul_reduce_scatter.operands import as_parts

RANKS, ROWS, N, K = 8, 1024, 8192, 8192
KERNELS = ("all-gather", "all-gather-fetching", "reduce-scatter")


class MetaMemory(ImmediateMemory):
    """Memory without contents: windows of any size cost nothing, and copies do nothing."""

    def __init__(self) -> None:
        super().__init__(1, RANKS, 4, full_mesh=True)

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype)

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: str) -> None:
        pass


@cache
def overlapped(kernel: str, arch: str, *, fp8: bool) -> Compiled:
    """One of `KERNELS`, with scales of rows and columns if FP8."""
    dtype = native_format(arch).dtype if fp8 else torch.bfloat16
    memory = MetaMemory()
    workspace = make_workspace(memory)
    b = torch.empty(N, K, dtype=dtype).t()
    columns = torch.empty(1, N) if fp8 else None
    call: Callable[[], object]
    if kernel == "reduce-scatter":
        rows = torch.empty(RANKS * ROWS, 1) if fp8 else None
        parts = as_parts(torch.empty(RANKS * ROWS, K, dtype=dtype), b, RANKS, 0, rows, columns)
        call = partial(ScatterCall(workspace, torch.bfloat16, average=True), parts, b)
    else:
        scales = RowScales(torch.empty(ROWS, 1) if fp8 else None, None)
        shard = torch.empty(ROWS, K, dtype=dtype)
        engine = "fetcher" if kernel == "all-gather-fetching" else "copy-engine"
        call = partial(GatherCall(workspace, [torch.bfloat16], engine=engine), shard, [b], scales, [columns], [None])
    return compiled(arch, call)


def instructions(text: str) -> list[str]:
    """Instructions of an assembly text, with operands, in order."""
    lines = (line for line in text.splitlines() if re.match(r"^\s+[a-z]+_[a-z0-9_]+", line))
    return [" ".join(line.split(";")[0].split()) for line in lines]

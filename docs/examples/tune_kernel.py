"""Which tile of a transposing copy is fastest on an MI300X, and which cannot run there: asked without a GPU."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from wavecast.simulator.tune import Pruning, rank
from wavecast.simulator.virtual import virtual_device

CONFIGS = [
    triton.Config({"BLOCK": block}, num_warps=warps)
    for block, warps in ((64, 4), (32, 4), (128, 8), (256, 8), (64, 32))
]
pruning = Pruning(lambda: transpose)


@triton.autotune(configs=CONFIGS, key=["rows", "columns"], prune_configs_by=pruning.hooks(top_k=1))
@triton.jit
def transpose(source, target, rows, columns, BLOCK: tl.constexpr):
    """Copy a (rows, columns) matrix to a (columns, rows) one, both row-major."""
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (c[None, :] < columns)
    tile = tl.load(source + r[:, None] * columns + c[None, :], mask=mask)
    tl.store(target + c[None, :] * rows + r[:, None], tile, mask=mask)


def grid(meta: dict[str, Any]) -> tuple[int, int]:
    """One program for each tile."""
    return triton.cdiv(1024, meta["BLOCK"]), triton.cdiv(512, meta["BLOCK"])


source, target = torch.randn(1024, 512), torch.empty(512, 1024)

# The whole list, for a device that need not be active.
print(rank(transpose, grid=grid, args=(source, target, 1024, 512), device="mi300x"))

# The same from inside Triton's autotuner: it benchmarks what is left, here one configuration.
with virtual_device("mi300x"):
    transpose[grid](source, target, 1024, 512)
assert torch.equal(target, source.T)
print(f"autotuning took {transpose.best_config}, ruled out {len(pruning.ranking.ruled_out)}")

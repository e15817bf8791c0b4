"""One of two processes that share a GPU: ``rank store``. Both operators over torch.distributed's symmetric memory."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))
from gemms import SM_90_FP8_NORM, exact_and_size
from overlapped_calls import FP8, normal

from wavecast.kernels.all_gather_matmul.call import GatherCall
from wavecast.kernels.all_gather_matmul.operands import RowScales
from wavecast.kernels.async_tp.torch_memory import TorchSymmetricMemory
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.matmul_reduce_scatter.call import ScatterCall
from wavecast.kernels.matmul_reduce_scatter.operands import as_parts


def main(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    memory = TorchSymmetricMemory(dist.group.WORLD, 1 << 22)
    workspace = make_workspace(memory, memory.failure)
    for dtype in (torch.bfloat16, FP8):
        m, n, k = 520, 272, 336
        inverse = torch.full((), 0.5, device="cuda") if dtype == FP8 else None
        for call in range(3):
            a, b = normal(m, k, dtype, seed=call), normal(n, k, dtype, seed=9).t()
            shard = a.chunk(2)[rank].clone()
            gathered, (out,) = GatherCall(workspace, [torch.bfloat16])(
                shard, [b], RowScales(None, inverse), [inverse], [None]
            )
            parts = as_parts(a, b, 2, 0, inverse, inverse)
            part = ScatterCall(workspace, torch.bfloat16, average=False)(parts, b)
            torch.cuda.synchronize()
            workspace.check()
            exact, _ = exact_and_size(a, b, inverse, inverse)
            assert torch.equal(gathered.view(torch.uint8), a.view(torch.uint8))
            for found, wanted in ((out, exact), (part, 2 * exact.chunk(2)[rank])):
                error = ((found.double() - wanted).norm() / wanted.norm()).item()
                assert error < (SM_90_FP8_NORM if dtype == FP8 else 2.0**-9), (rank, call, error)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

"""What each process of the group tests runs: ``rank ranks store``. Every check is one on this rank's results."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._inductor import config as inductor_config
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, str(Path(__file__).parents[1]))
from gemms import assert_within_bound, exact_and_size, scales, values

from wavecast.cli.measuring.group_options import OPTIONS
from wavecast.cli.measuring.ranks import Rank
from wavecast.kernels import group_ops
from wavecast.kernels.all_gather_matmul.api import all_gather_matmul
from wavecast.kernels.all_gather_matmul.reference import all_gather_matmul_reference
from wavecast.kernels.inductor import async_tp
from wavecast.kernels.training import tensor_parallel

FP8 = torch.float8_e4m3fn
# The first does not take a list of None, as the scales of several factors are.
CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_static")


def check_options(rank: int, ranks: int) -> None:
    """What `measure --gpus N` runs on GPUs as well."""
    me = Rank(rank, ranks, torch.device("cpu"))
    for name, run in OPTIONS.items():
        assert run(me) > 0, name


def check_row_scales(rank: int, ranks: int) -> None:
    """Scales of this rank's rows, and of all rows: the same result."""
    for shape, dim in (((6, 32), 0), ((2, 3, 32), 0), ((2, 3, 32), 1)):
        shards = [values(*shape, dtype=FP8, exact=False, seed=r) for r in range(ranks)]
        inverses = [scales(*shape[:-1], 1, exact=False, seed=9 + r) for r in range(ranks)]
        b = values(16, 32, dtype=FP8, exact=False, seed=5).t()
        b_inverse = scales(1, 16, exact=False, seed=6)
        every = torch.cat(inverses, dim)
        found = [
            all_gather_matmul(
                shards[rank],
                [b],
                dist.group.WORLD.group_name,
                gather_dim=dim,
                a_inverse=a_inverse,
                b_inverses=[b_inverse],
            )[1][0]
            for a_inverse in (inverses[rank], every)
        ]
        assert torch.equal(*found)
        gathered, _ = all_gather_matmul_reference(shards, b, gather_dim=dim, out_dtype=torch.float32)
        exact, size = exact_and_size(gathered.reshape(-1, 32), b, every.reshape(-1, 1), b_inverse)
        assert_within_bound(found[0].reshape(-1, 16), exact, size, 32)


def check_operators(rank: int, ranks: int) -> None:
    """The fake says what the operator does, also of layouts, and both are traced as one call."""
    name = dist.group.WORLD.group_name
    with_gradient = torch.ones(6, 16).bfloat16().requires_grad_()
    gathered, (out,) = all_gather_matmul(with_gradient, [torch.ones(16, 8).bfloat16()], name)
    assert not gathered.requires_grad and not out.requires_grad
    for shape, dim in (((6, 16), 0), ((3, 4, 16), 1), ((3, 4, 16), 2)):
        a = values(*shape, dtype=torch.bfloat16, exact=True, seed=rank)
        k = 16 * (ranks if dim == len(shape) - 1 else 1)
        bs = [values(k, n, dtype=torch.bfloat16, exact=True, seed=n) for n in (5, 8)]
        for gathered in (True, False):
            arguments = (a, bs, name, dim, None, [None, None], [None, None], [torch.bfloat16, torch.float32], gathered)
            torch.library.opcheck(group_ops.all_gather_matmul, arguments, test_utils=CHECKS[1:])
    for shape, dim in (((6, 16), 0), ((3, 4, 16), 1)):
        a = values(*shape, dtype=torch.bfloat16, exact=True, seed=rank)
        arguments = (a, bs[0][:16], name, "sum", dim, None, None, torch.bfloat16)
        torch.library.opcheck(group_ops.matmul_reduce_scatter, arguments, test_utils=CHECKS)


def check_gradients(rank: int, ranks: int) -> None:
    """Of both functions, against one process that has every rank's operands."""
    for dim in (0, 1):
        every = [values(2, 3, 16, dtype=torch.bfloat16, exact=True, seed=r).requires_grad_() for r in range(ranks)]
        weights = [
            [values(16, n, dtype=torch.bfloat16, exact=True, seed=10 * r + n).requires_grad_() for n in (4, 6)]
            for r in range(ranks)
        ]
        whole = torch.cat(every, dim)
        wanted = [[whole @ b for b in bs] for bs in weights]
        ups = [
            [values(*out.shape, dtype=torch.bfloat16, exact=True, seed=7 + r) for out in wanted[r]]
            for r in range(ranks)
        ]
        torch.autograd.backward([out for outs in wanted for out in outs], [up for of_rank in ups for up in of_rank])
        own, bs = every[rank].detach().requires_grad_(), [b.detach().requires_grad_() for b in weights[rank]]
        outs = tensor_parallel.all_gather_matmul(own, bs, dist.group.WORLD, gather_dim=dim)
        torch.autograd.backward(outs, ups[rank])
        close(own.grad, every[rank].grad)
        for b, w in zip(bs, weights[rank], strict=True):
            close(b.grad, w.grad)

        lefts = [values(4, 6, 8, dtype=torch.bfloat16, exact=True, seed=20 + r).requires_grad_() for r in range(ranks)]
        rights = [values(8, 5, dtype=torch.bfloat16, exact=True, seed=30 + r).requires_grad_() for r in range(ranks)]
        total = sum(a @ b for a, b in zip(lefts, rights, strict=True))
        up = values(*total.shape, dtype=torch.bfloat16, exact=True, seed=40)
        total.backward(up)
        a, b = lefts[rank].detach().requires_grad_(), rights[rank].detach().requires_grad_()
        part = tensor_parallel.matmul_reduce_scatter(a, b, dist.group.WORLD, scatter_dim=dim)
        close(part, total.chunk(ranks, dim)[rank])
        part.backward(up.chunk(ranks, dim)[rank])
        close(a.grad, lefts[rank].grad)
        close(b.grad, rights[rank].grad)


def close(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    """Equal but for roundings to bf16: small integers' sums are exact below 2^8, rounded once or twice above."""
    assert torch.allclose(actual.float(), wanted.float(), rtol=2.0**-7, atol=0), (actual - wanted).abs().max()


def check_inductor(rank: int, ranks: int) -> None:
    """A graph with what Inductor's pass puts into it, rewritten and run."""
    name = dist.group.WORLD.group_name
    shards = [values(4, 16, dtype=torch.bfloat16, exact=True, seed=r) for r in range(ranks)]
    b = values(16, 16, dtype=torch.bfloat16, exact=True, seed=9).t()
    one = torch.ones(())

    def call(a: torch.Tensor, b: torch.Tensor, a8: torch.Tensor, b8: torch.Tensor, one: torch.Tensor) -> Any:
        gathered, (out,) = torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, name)
        scaled = torch.ops.symm_mem.fused_all_gather_scaled_matmul(
            a8, [b8], one, [one], 0, name, [None], [None], [torch.bfloat16], [True]
        )[1][0]
        scattered = torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter(
            a8, b8, one, one, "sum", 0, 0, name, [4, 16], None, None, torch.bfloat16, True
        )
        return gathered, out, scaled, torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, name), scattered

    given = (shards[rank], b, shards[rank].to(FP8), b.t().contiguous().to(FP8).t(), one)
    traced = make_fx(call, tracing_mode="fake")(*given)
    with async_tp():
        assert inductor_config._micro_pipeline_tp
        inductor_config.post_grad_custom_post_pass(traced.graph)
    assert inductor_config.post_grad_custom_post_pass is None
    traced.recompile()
    assert not [node for node in traced.graph.nodes if "symm_mem" in str(node.target)]
    gathered, out, scaled, part, scaled_part = traced(*given)
    whole = torch.cat(shards)
    assert torch.equal(gathered, whole)
    assert torch.equal(out.float(), whole.float() @ b.float())
    assert torch.equal(scaled, out)
    assert torch.equal(scaled_part, part)
    assert torch.equal(part.float(), sum(s.float() @ b.float() for s in shards).chunk(ranks)[rank])


def main() -> None:
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60)
    )
    for name in sys.argv[4:]:
        globals()[f"check_{name}"](rank, ranks)
        print("passed", name, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Every option of the operators over a group, run on its ranks and compared with plain torch on the host.

Values are small integers and scales powers of two, so that every sum is exact and results are equal bit for bit,
whichever path is taken. Where the GPUs reach each other's memory, every call is made on both paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.distributed as dist

from wavecast.cli.measuring.group_calls import fp8_dtype
from wavecast.cli.measuring.ranks import Rank
from wavecast.kernels import symm_mem
from wavecast.kernels.all_gather_matmul import all_gather_matmul
from wavecast.kernels.all_gather_matmul.reference import all_gather_matmul_reference
from wavecast.kernels.matmul_reduce_scatter import matmul_reduce_scatter
from wavecast.kernels.matmul_reduce_scatter.reference import matmul_reduce_scatter_reference

SHAPES = {"small": (5, 24), "three dimensions": (3, 4, 24), "tiles cut by shards": (136, 80)}
"""Shards that are gathered: the second is a matrix of each rank's, the last straddles the tiles of any kernel."""

COLUMNS = (7, 16)


def check_gather(me: Rank, *, shape: tuple[int, ...], dtype: torch.dtype | None) -> int:
    """Every dimension, several right operands, a bias, scales of each kind, with and without the gathered matrix."""
    dtype, calls = dtype or fp8_dtype(me), 0
    fp8 = dtype.itemsize == 1
    shards = [integers(*shape, dtype=dtype, seed=rank) for rank in range(me.ranks)]
    for dim in range(len(shape)):
        along_sum = dim == len(shape) - 1
        bs = [integers(n, shape[-1] * (me.ranks if along_sum else 1), dtype=dtype, seed=n).t() for n in COLUMNS]
        biases = [None, integers(COLUMNS[1], dtype=torch.bfloat16, seed=4)]
        b_inverses = [powers(1, n, seed=2) for n in COLUMNS] if fp8 else None
        for a_inverse, rows in _scales_of_rows(me, shape, dim, along_sum) if fp8 else [(None, None)]:
            wanted = [
                all_gather_matmul_reference(
                    shards, b, gather_dim=dim, a_inverse=rows, b_inverse=b_inverses[index] if b_inverses else None,
                    bias=biases[index], out_dtype=torch.float32,
                )
                for index, b in enumerate(bs)
            ]  # fmt: skip
            for setting in settings(me, overlapping=not along_sum):
                for return_gathered in (True, False):
                    gathered, outs = all_gather_matmul(
                        shards[me.rank].to(me.device), [b.to(me.device) for b in bs], _group(), gather_dim=dim,
                        a_inverse=_moved(a_inverse, me), biases=[_moved(bias, me) for bias in biases],
                        b_inverses=None if b_inverses is None else [_moved(one, me) for one in b_inverses],
                        out_dtypes=[torch.float32, torch.float32], return_gathered=return_gathered, setting=setting,
                    )  # fmt: skip
                    what = f"gather dimension {dim} of {shape}, {dtype}, setting {setting}"
                    for out, (whole, right) in zip(outs, wanted, strict=True):
                        _same(out, right, what)
                        if return_gathered:
                            _same(gathered, whole, what)
                    assert return_gathered or gathered is None, what
                    calls += 1
    return calls


def _scales_of_rows(
    me: Rank, shape: tuple[int, ...], dim: int, along_sum: bool
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """One for all; those of all rows; each rank's own, unless a row is on all ranks. With them what the rows get."""
    one = powers(seed=1)
    yield one, one
    every = [powers(*shape[:-1], 1, seed=9 + rank) for rank in range(1 if along_sum else me.ranks)]
    whole = every[0] if along_sum else torch.cat(every, dim)
    yield whole, whole.reshape(-1, 1)
    if not along_sum:
        yield every[me.rank], whole.reshape(-1, 1)


def check_scatter(me: Rank, *, shape: tuple[int, ...], dtype: torch.dtype | None) -> int:
    """Every dimension but the last, sums and averages, scales of rows and columns or one for all."""
    dtype, calls, n = dtype or fp8_dtype(me), 0, 9
    fp8 = dtype.itemsize == 1
    for dim in range(len(shape) - 1):
        sizes = tuple(size * (me.ranks if d == dim else 1) for d, size in enumerate(shape))
        operands = [
            (integers(*sizes, dtype=dtype, seed=rank), integers(n, sizes[-1], dtype=dtype, seed=10 + rank).t())
            for rank in range(me.ranks)
        ]
        for per_row in (True, False) if fp8 else (False,):
            inverses: list[tuple[torch.Tensor | None, torch.Tensor | None]] = [
                (powers(*((*sizes[:-1], 1) if per_row else ()), seed=r), powers(*((1, n) if per_row else ()), seed=r))
                if fp8
                else (None, None)
                for r in range(me.ranks)
            ]
            of_rows = [(a if a is None or not a.ndim else a.reshape(-1, 1), b) for a, b in inverses]
            for reduce_op in ("sum", "avg"):
                wanted = matmul_reduce_scatter_reference(
                    operands, scatter_dim=dim, average=reduce_op == "avg", inverses=of_rows, out_dtype=torch.float32
                )
                for setting in settings(me):
                    a, b = (operand.to(me.device) for operand in operands[me.rank])
                    a_inverse, b_inverse = (_moved(inverse, me) for inverse in inverses[me.rank])
                    out = matmul_reduce_scatter(
                        a, b, _group(), scatter_dim=dim, reduce_op=reduce_op, a_inverse=a_inverse,
                        b_inverse=b_inverse, out_dtype=torch.float32, setting=setting,
                    )  # fmt: skip
                    what = f"scatter dimension {dim} of {sizes}, {reduce_op}, {dtype}, setting {setting}"
                    _same(out, wanted[me.rank], what)
                    calls += 1
    return calls


def check_aliases(me: Rank) -> int:
    """PyTorch's names and signatures, whose own decomposed operators run on GPUs only."""
    if "0" not in settings(me):  # which is what PyTorch's names take, unless it is told otherwise
        return 0
    name = _group().group_name
    shards = [integers(4 * me.ranks, 32, dtype=torch.bfloat16, seed=rank) for rank in range(me.ranks)]
    b = integers(32, 16, dtype=torch.bfloat16, seed=9)
    mine, right, whole = shards[me.rank].to(me.device), b.to(me.device), torch.cat(shards)
    product = whole.float() @ b.float()
    for return_gathered in (True, False):
        gathered, (out,) = symm_mem.fused_all_gather_matmul(mine, [right], 0, name, return_A=return_gathered)
        _same(out, product, "fused_all_gather_matmul")
        if return_gathered:
            _same(gathered, whole, "fused_all_gather_matmul")
        assert return_gathered or gathered is None
    part = symm_mem.fused_matmul_reduce_scatter(mine, right, "avg", 0, name)
    total = torch.stack([shard.float() @ b.float() for shard in shards]).sum(0)
    _same(part, (total / me.ranks).chunk(me.ranks)[me.rank].bfloat16(), "fused_matmul_reduce_scatter")
    one = torch.ones((), device=me.device)
    mine8, right8 = mine.to(fp8_dtype(me)), right.t().contiguous().to(fp8_dtype(me)).t()
    _, (out,) = symm_mem.fused_all_gather_scaled_matmul(
        mine8, [right8], one, [one], 0, name, [None], [None], [torch.float32], [True]
    )
    _same(out, product, "fused_all_gather_scaled_matmul")
    halves = powers(len(whole) // me.ranks, 1, seed=3)
    for inverse, shape, dim in (
        (one, (4 * me.ranks, 16), 0),
        (halves.to(me.device), (4 * me.ranks, 16), 0),
        (halves.to(me.device), (2, 2 * me.ranks, 16), 1),
    ):
        part = symm_mem.fused_scaled_matmul_reduce_scatter(
            mine8, right8, inverse, one, "sum", dim, 0, name, shape, out_dtype=torch.float32
        )
        wanted = (total * inverse.cpu()).view(shape).chunk(me.ranks, dim)[me.rank]
        _same(part, wanted, "fused_scaled_matmul_reduce_scatter")
    return 7


OPTIONS: dict[str, Callable[[Rank], int]] = {
    **{
        f"{verb}, {name}, {kind}": partial(function, shape=shape, dtype=dtype)
        for verb, function in (("gather", check_gather), ("scatter", check_scatter))
        for name, shape in SHAPES.items()
        for kind, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp8", None))
    },
    "aliases": check_aliases,
}
"""Name to what runs it on a rank; the answer is how many calls were right."""


def settings(me: Rank, *, overlapping: bool = True) -> Sequence[str]:
    """The paths that there are: on GPUs both, and the overlapped one alone where ranks share a GPU, over gloo."""
    if me.device.type == "cpu":
        return ("0",)
    return (("1",) if overlapping else ()) + (() if dist.get_backend() == "gloo" else ("0",))


def integers(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """From -4 to 4."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).float().to(dtype)


def powers(*shape: int, seed: int) -> torch.Tensor:
    """Of two, 1/8 to 8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.exp2(torch.randint(-3, 4, shape, generator=generator).float())


def _group() -> dist.ProcessGroup:
    group = dist.group.WORLD
    assert group is not None
    return group


def _moved(tensor: torch.Tensor | None, me: Rank) -> torch.Tensor | None:
    return None if tensor is None else tensor.to(me.device)


def _same(found: torch.Tensor | None, wanted: torch.Tensor, what: str) -> None:
    assert found is not None
    right = found.shape == wanted.shape and torch.equal(found.cpu().float(), wanted.float())
    assert right, f"{what}: the result is not the exact one"

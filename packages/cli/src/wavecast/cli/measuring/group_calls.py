"""What the ranks of a group call for each experiment over several GPUs, with operands that all of them can make.

Rank r's operands come from a seed of its own, so every rank knows what the result must be without a message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import torch
import torch.distributed as dist

from wavecast.cli.experiments.experiment import COLLECTIVE_ALONE, PRODUCT_ALONE, Shape
from wavecast.cli.measuring.ranks import Rank
from wavecast.kernels.all_gather_matmul import all_gather_matmul
from wavecast.kernels.device import active_arch, native_format
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.matmul_reduce_scatter import matmul_reduce_scatter

INPUTS = 2
"""Sets of operands, which calls that follow each other are given in turn."""

Parts = list["torch.Tensor | None"]


class GroupCase(Protocol):
    """An experiment on a shape, on one rank.

    Attributes:
        calls: Variant to a call on the operands that are set; tensors of its result, None for what it does not make.
    """

    calls: dict[str, Callable[[], Parts]]

    def set(self, number: int) -> None:
        """Bring set ``number`` of the operands to where calls read them, when the current stream comes to it."""

    def wanted(self, number: int) -> Parts:
        """What calls must give for them, in fp32."""


class _Products:
    """Operands of products over a group: (M, K) times (K, N), of which rows are gathered or scattered.

    Raises:
        ValueError: The ranks do not divide the rows.
    """

    def __init__(self, me: Rank, shape: Shape, dtype: str) -> None:
        if shape["m"] % me.ranks:
            raise ValueError(f"{shape['m']} rows do not divide by {me.ranks} GPUs; give a multiple: --shape m=…")
        self.me, self.group = me, dist.group.WORLD
        self.name: str = self.group.group_name  # type: ignore[union-attr]
        self.m, self.n, self.k = shape["m"], shape["n"], shape["k"]
        self.rows = self.m // me.ranks
        self.fp8 = dtype == "fp8"
        self.setting = "0" if me.device.type == "cpu" else "1"  # a CPU has the decomposed form only

    def normal(self, rows: int, columns: int, *, seed: int) -> torch.Tensor:
        """bf16, or FP8 codes of such values."""
        generator = torch.Generator(self.me.device).manual_seed(seed)
        values = torch.randn(rows, columns, generator=generator, device=self.me.device, dtype=torch.bfloat16)
        return values.to(fp8_dtype(self.me)) if self.fp8 else values

    def inverse(self, *shape: int, seed: int) -> torch.Tensor | None:
        """Inverse scales of FP8 operands."""
        if not self.fp8:
            return None
        generator = torch.Generator(self.me.device).manual_seed(seed)
        return torch.rand(shape, generator=generator, device=self.me.device) + 0.5

    def check_gpu(self) -> None:
        """Refuse PyTorch's operators on a CPU.

        Raises:
            ValueError: this is one.
        """
        if self.me.device.type == "cpu":
            raise ValueError("PyTorch's operators over symmetric memory run on GPUs only")

    def product(
        self, a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor | None, b_inverse: torch.Tensor | None
    ) -> torch.Tensor:
        """By the vendor's library."""
        if a_inverse is None or b_inverse is None:
            return torch.mm(a, b)
        return torch._scaled_mm(a, b, a_inverse, b_inverse, out_dtype=torch.bfloat16, use_fast_accum=True)


def _exact(
    a: torch.Tensor, b: torch.Tensor, a_inverse: torch.Tensor | None, b_inverse: torch.Tensor | None
) -> torch.Tensor:
    product = a.float() @ b.float()
    return product if a_inverse is None or b_inverse is None else product * a_inverse * b_inverse


class GatherCase(_Products):
    """All-gather of rows, and their product with a matrix that every rank has its own of."""

    def __init__(self, me: Rank, shape: Shape, dtype: str) -> None:
        super().__init__(me, shape, dtype)
        self.b = self.normal(self.n, self.k, seed=1000 + me.rank).t()
        self.b_inverse = self.inverse(1, self.n, seed=2000 + me.rank)
        self.own = [self._shard(me.rank, number) for number in range(INPUTS)]
        self.number, own = 0, self.own[0]
        self.a, self.a_inverse = own[0].clone(), None if own[1] is None else own[1].clone()
        self.calls: dict[str, Callable[[], Parts]] = {
            "sequence": self._sequence,
            "decomposed": self._decomposed,
            "native-upstream": self._native,
            "wavecast": self._wavecast,
            PRODUCT_ALONE: self._product,
            COLLECTIVE_ALONE: lambda: [_bytes(self._gathered()[0]), None],
        }

    def _shard(self, rank: int, number: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        seed = 10 * rank + number
        return self.normal(self.rows, self.k, seed=seed), self.inverse(self.rows, 1, seed=3000 + seed)

    def set(self, number: int) -> None:
        self.number = number
        _copy((self.a, self.a_inverse), self.own[number])

    def _whole(self, number: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        shards = [self._shard(rank, number) for rank in range(self.me.ranks)]
        rows = torch.cat([_bytes(shard) for shard, _ in shards]).view(self.a.dtype)
        return rows, torch.cat([inverse for _, inverse in shards]) if self.fp8 else None  # type: ignore[misc]

    def wanted(self, number: int) -> Parts:
        rows, inverse = self._whole(number)
        return [_bytes(rows), _exact(rows, self.b, inverse, self.b_inverse)]

    @cached_property
    def _gathered_before(self) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
        return [self._whole(number) for number in range(INPUTS)]

    def _product(self) -> Parts:
        rows, inverse = self._gathered_before[self.number]
        return [None, self.product(rows, self.b, inverse, self.b_inverse)]

    def _gathered(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        return _gather(self.a, self.me), None if self.a_inverse is None else _gather(self.a_inverse, self.me)

    def _sequence(self) -> Parts:
        rows, inverse = self._gathered()
        return [_bytes(rows), self.product(rows, self.b, inverse, self.b_inverse)]

    def _decomposed(self) -> Parts:
        self.check_gpu()
        if self.fp8:
            rows, outs = torch.ops.symm_mem.fused_all_gather_scaled_matmul(
                self.a, [self.b], self.a_inverse, [self.b_inverse], 0, self.name, [None], [None], [torch.bfloat16],
                [True],
            )  # fmt: skip
        else:
            rows, outs = torch.ops.symm_mem.fused_all_gather_matmul(self.a, [self.b], 0, self.name)
        return [_bytes(rows), outs[0]]

    def _native(self) -> Parts:
        from torch.distributed import _symmetric_memory

        self.check_gpu()
        native = getattr(_symmetric_memory, "_fused_all_gather_matmul_native", None)
        if native is None or self.fp8:
            raise ValueError("this PyTorch has no native path for such operands")
        try:
            rows, out = native(self.a, self.b, self.name)
        except NotImplementedError as error:
            raise ValueError(f"this PyTorch has no native path for this GPU: {error}") from error
        return [rows, out]

    def _wavecast(self) -> Parts:
        rows, outs = all_gather_matmul(
            self.a, [self.b], self.group, a_inverse=self.a_inverse,  # type: ignore[arg-type]
            b_inverses=[self.b_inverse], setting=self.setting,
        )  # fmt: skip
        assert rows is not None
        return [_bytes(rows), outs[0]]


class ScatterCase(_Products):
    """A product of which every rank has a part of the sum, and a reduce-scatter of its rows."""

    def __init__(self, me: Rank, shape: Shape, dtype: str) -> None:
        super().__init__(me, shape, dtype)
        self.b, self.b_inverse = self._right(me.rank)
        self.own = [self._left(me.rank, number) for number in range(INPUTS)]
        self.number, own = 0, self.own[0]
        self.a, self.a_inverse = own[0].clone(), None if own[1] is None else own[1].clone()
        self.calls: dict[str, Callable[[], Parts]] = {
            "sequence": lambda: [_scatter(self._local(), me)],
            "decomposed": self._decomposed,
            "wavecast": self._wavecast,
            PRODUCT_ALONE: lambda: [None for _ in (self._local(),)],
            COLLECTIVE_ALONE: lambda: [None for _ in (_scatter(self._summand, me),)],
        }

    def _left(self, rank: int, number: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        seed = 10 * rank + number
        return self.normal(self.m, self.k, seed=seed), self.inverse(self.m, 1, seed=3000 + seed)

    def _right(self, rank: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.normal(self.n, self.k, seed=1000 + rank).t(), self.inverse(1, self.n, seed=2000 + rank)

    def set(self, number: int) -> None:
        self.number = number
        _copy((self.a, self.a_inverse), self.own[number])

    def wanted(self, number: int) -> Parts:
        mine = slice(self.me.rank * self.rows, (self.me.rank + 1) * self.rows)
        total = None
        for rank in range(self.me.ranks):
            (a, a_inverse), (b, b_inverse) = self._left(rank, number), self._right(rank)
            part = _exact(a[mine], b, None if a_inverse is None else a_inverse[mine], b_inverse)
            total = part if total is None else total + part
        return [total]

    def _local(self) -> torch.Tensor:
        return self.product(self.a, self.b, self.a_inverse, self.b_inverse)

    @cached_property
    def _summand(self) -> torch.Tensor:
        return self._local()

    def _decomposed(self) -> Parts:
        self.check_gpu()
        if not self.fp8:
            return [torch.ops.symm_mem.fused_matmul_reduce_scatter(self.a, self.b, "sum", 0, self.name)]
        return [
            torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter(
                self.a, self.b, self.a_inverse, self.b_inverse, "sum", 0, 0, self.name, [self.m, self.n],
                out_dtype=torch.bfloat16, use_fast_accum=True,
            )
        ]  # fmt: skip

    def _wavecast(self) -> Parts:
        return [
            matmul_reduce_scatter(
                self.a, self.b, self.group, a_inverse=self.a_inverse,  # type: ignore[arg-type]
                b_inverse=self.b_inverse, setting=self.setting,
            )
        ]  # fmt: skip


class CollectiveCase:
    """An all-gather or a reduce-scatter of bf16 values by itself.

    Args:
        name: ``all-gather`` or ``reduce-scatter``.
        me: This rank.
        shape: With the bytes of the larger buffer.
    """

    def __init__(self, name: str, me: Rank, shape: Shape) -> None:
        self._me, self._gathers = me, name == "all-gather"
        self._count = shape["bytes"] // 2 // me.ranks * (1 if self._gathers else me.ranks)
        self._own = [self._values(me.rank, number) for number in range(INPUTS)]
        self._mine = self._own[0].clone()
        self.calls: dict[str, Callable[[], Parts]] = {
            "library": lambda: [(_gather if self._gathers else _scatter)(self._mine, me)]
        }

    def _values(self, rank: int, number: int) -> torch.Tensor:
        generator = torch.Generator(self._me.device).manual_seed(10 * rank + number)
        return torch.randint(-4, 5, (self._count,), generator=generator, device=self._me.device).to(torch.bfloat16)

    def set(self, number: int) -> None:
        self._mine.copy_(self._own[number])

    def wanted(self, number: int) -> Parts:
        every = [self._values(rank, number) for rank in range(self._me.ranks)]
        if self._gathers:
            return [torch.cat(every)]
        return [torch.stack([one.chunk(self._me.ranks)[self._me.rank].float() for one in every]).sum(0)]


def make_case(me: Rank, experiment: str, shape: Shape, dtype: str) -> GroupCase:
    """The experiment of a name, on one rank."""
    if experiment in ("all-gather", "reduce-scatter"):
        return CollectiveCase(experiment, me, shape)
    return (GatherCase if experiment.startswith("async-tp") else ScatterCase)(me, shape, dtype)


def fp8_dtype(me: Rank) -> torch.dtype:
    """What the device multiplies; E4M3FN on a CPU."""
    arch = active_arch() if me.device.type == "cuda" else None
    return E4M3FN.dtype if arch is None else native_format(arch).dtype


def _gather(part: torch.Tensor, me: Rank) -> torch.Tensor:
    every = torch.empty((part.shape[0] * me.ranks, *part.shape[1:]), dtype=part.dtype, device=part.device)
    dist.all_gather_into_tensor(_bytes(every), _bytes(part))
    return every


def _scatter(every: torch.Tensor, me: Rank) -> torch.Tensor:
    part = torch.empty((every.shape[0] // me.ranks, *every.shape[1:]), dtype=every.dtype, device=every.device)
    dist.reduce_scatter_tensor(part, every)
    return part


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """FP8 as bytes, which every library moves and compares."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def _copy(targets: tuple[torch.Tensor | None, ...], sources: tuple[torch.Tensor | None, ...]) -> None:
    for target, source in zip(targets, sources, strict=True):
        if target is not None and source is not None:
            target.copy_(source)

"""What is measured: every operator on shapes of DeepSeek-V3 and Llama 4, its contestants, and what it must reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import gpu_practice as practice
import gpu_references as references
import torch
from gpu_references import TRAINING_TOLERANCE

from wavecast.cli.measuring.checking import GEMM_TOLERANCE, Tensors, Verdict, check_bytes, check_close, flatten
from wavecast.kernels import E4M3FN, Fp8Format, active_arch, native_format

GROUPS = ("quantizers", "weights", "gemm", "training")
OURS, COMPILE, EAGER, TORCHAO = "wavecast", "torch.compile", "eager", "torchao"
COPY = "copy"

Call = Callable[[], Any]


@dataclass(frozen=True)
class Place:
    """Where the cases run.

    Attributes:
        device: ``cuda``, or ``cpu`` to try the script out.
        small: sizes of a few rows, to try the script out.
        torchao: torchao's kernels, if a checkout was given.
        compile: whether ``torch.compile`` takes part.
    """

    device: str
    small: bool = False
    torchao: practice.Torchao | None = None
    compile: bool = True

    @property
    def fmt(self) -> Fp8Format:
        """What the GPU multiplies in hardware."""
        arch = active_arch() if self.device == "cuda" else None
        return E4M3FN if arch is None else native_format(arch)

    @property
    def format_words(self) -> dict[str, Any]:
        """Without a driver somebody must name the format; on a GPU the operators find it."""
        return {} if self.device == "cuda" else {"format": self.fmt}

    def normal(self, *shape: int, seed: int = 0) -> torch.Tensor:
        """bf16 values of normal distribution, the same in every run, with rows of different magnitude."""
        generator = torch.Generator(self.device).manual_seed(seed)
        x = torch.randn(*shape, generator=generator, device=self.device, dtype=torch.float32)
        rows = torch.rand(*shape[:-1], 1, generator=generator, device=self.device)
        return (x * (0.25 + rows)).to(torch.bfloat16)

    def offsets(self, ends: tuple[int, ...]) -> torch.Tensor:
        return torch.tensor(ends, dtype=torch.int32, device=self.device)


def even_ends(tokens: int, groups: int) -> tuple[int, ...]:
    return tuple(tokens * (group + 1) // groups for group in range(groups))


def uneven_ends(tokens: int, groups: int) -> tuple[int, ...]:
    """Groups of seeded random sizes, multiples of 16, an eighth of them (at least one) empty: a router's answer."""
    generator = torch.Generator().manual_seed(tokens + groups)
    units = tokens // 16
    weights = torch.rand(groups, generator=generator).square_() + 0.02
    weights[torch.randperm(groups, generator=generator)[: max(1, groups // 8)]] = 0
    ends = torch.cumsum(weights / weights.sum() * units, 0).round().to(torch.int64) * 16
    ends[-1] = units * 16
    return tuple(int(end) for end in ends)


@dataclass
class Ready:
    """A case whose tensors exist.

    Attributes:
        contestants: name to call; the first is ours. A call is made once before it counts as able to run.
        wanted: what they must come out with.
        check: compares a result with ``wanted``.
        poison: whether results may be overwritten between two calls, to see that all of them is written.
        other_checks: contestants that are compared in another way.
    """

    contestants: dict[str, Call]
    wanted: Tensors
    check: Callable[[Any, Tensors], Verdict]
    poison: bool = True
    other_checks: dict[str, Callable[[Any, Tensors], Verdict]] = field(default_factory=dict)

    def judge(self, name: str, result: Any) -> Verdict:
        return self.other_checks.get(name, self.check)(result, self.wanted)


@dataclass(frozen=True)
class Case:
    """One operator on one shape.

    Attributes:
        group: one of ``GROUPS``.
        operator: name of the operator.
        shape: sizes by name.
        groups: ``even``, ``uneven``, or empty.
        prepare: makes the tensors.
        minimum_bytes: what any implementation must move; 0 where arithmetic is what counts.
        flop: operations; 0 where bytes are what counts.
        copied: elements of the bf16 copy that stands for the reachable bandwidth.
        share: least share of the copy's bandwidth at the minimum bytes that is aimed at; 0 for none.
        targets: contestant to the least ratio of its time to ours that is aimed at.
    """

    group: str
    operator: str
    shape: dict[str, int]
    groups: str
    prepare: Callable[[Place], Ready]
    minimum_bytes: int = 0
    flop: int = 0
    copied: int = 0
    share: float = 0.0
    targets: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        sizes = " ".join(f"{key}={value}" for key, value in self.shape.items())
        return f"{self.group}/{self.operator} {sizes}{' ' + self.groups if self.groups else ''}"


def ours(module: str, name: str) -> Callable[..., Any]:
    """An operator of this project; found when it is called, so that one that is missing is a contestant's failure."""
    return lambda *arguments, **words: getattr(import_module(f"wavecast.kernels.{module}"), name)(*arguments, **words)


def against(
    place: Place,
    call: Call,
    natural: Call | Callable[..., Any],
    arguments: tuple[Any, ...],
    wanted: Tensors,
    *,
    torchao: Callable[[practice.Torchao], Call] | None = None,
    check: Callable[[Any, Tensors], Verdict] = check_bytes,
) -> Ready:
    """Ours, torchao's, and the natural code compiled and eager."""
    contestants: dict[str, Call] = {OURS: call}
    if place.compile:
        contestants[COMPILE] = partial(practice.compiled(natural), *arguments)
    contestants[EAGER] = partial(natural, *arguments)
    if torchao is not None and place.torchao is not None:
        contestants[TORCHAO] = torchao(place.torchao)
    return Ready(contestants, wanted, check)


TOKENS_BY_WIDTH = ((32768, 2048, 32, "even"), (32768, 7168, 32, "even"), (16640, 5120, 32, "even"))
JAGGED = ((16640, 5120, 16, "uneven"), (16640, 5120, 64, "uneven"), (32768, 7168, 32, "uneven"))


def ends_of(tokens: int, groups: int, kind: str) -> tuple[int, ...]:
    return even_ends(tokens, groups) if kind == "even" else uneven_ends(tokens, groups)


def rowwise(tokens: int, n: int) -> Case:
    def prepare(place: Place) -> Ready:
        x = place.normal(tokens, n)
        call = partial(ours("rowwise", "quantize_rowwise"), x, **place.format_words)
        wanted = references.rowwise(x, place.fmt)
        return against(place, call, practice.rowwise, (x,), wanted, torchao=lambda ao: partial(ao.rowwise, x))

    return Case(
        "quantizers", "rowwise", {"tokens": tokens, "n": n}, "", prepare,
        minimum_bytes=3 * tokens * n + 8 * tokens, copied=tokens * n, share=0.9, targets={COMPILE: 1.5, TORCHAO: 1.0},
    )  # fmt: skip


def colwise(tokens: int, n: int, groups: int, kind: str) -> Case:
    ends = ends_of(tokens, groups, kind)

    def prepare(place: Place) -> Ready:
        x, offs = place.normal(tokens, n), place.offsets(ends)
        call = partial(ours("colwise_per_group", "colwise_per_group"), x, offs, **place.format_words)
        natural, words = (
            (practice.colwise_even, (x, groups)) if kind == "even" else (practice.colwise_uneven, (x, offs))
        )
        wanted = references.colwise(x, ends, place.fmt)
        return against(place, call, natural, words, wanted, torchao=lambda ao: partial(ao.colwise, x, offs))

    return Case(
        "quantizers", "colwise", {"tokens": tokens, "n": n, "groups": groups}, kind, prepare,
        minimum_bytes=3 * tokens * n + groups * (8 * n + 4), copied=tokens * n, share=0.9,
        targets={COMPILE: 1.7, TORCHAO: 1.0},
    )  # fmt: skip


def dual(tokens: int, n: int, groups: int, kind: str) -> Case:
    ends = ends_of(tokens, groups, kind)

    def prepare(place: Place) -> Ready:
        x, offs = place.normal(tokens, n), place.offsets(ends)
        call = partial(ours("dual_layout", "quantize_dual_layout"), x, offs, **place.format_words)
        natural, words = (practice.both_even, (x, groups)) if kind == "even" else (practice.both_uneven, (x, offs))
        wanted = references.rowwise(x, place.fmt) + references.colwise(x, ends, place.fmt)
        ready = against(place, call, natural, words, wanted, torchao=lambda ao: partial(ao.both, x, offs))
        single = ours("rowwise", "quantize_rowwise"), ours("colwise_per_group", "colwise_per_group")
        ready.contestants["two launches"] = lambda: (
            single[0](x, **place.format_words), single[1](x, offs, **place.format_words)
        )  # fmt: skip
        return ready

    return Case(
        "quantizers", "dual-layout", {"tokens": tokens, "n": n, "groups": groups}, kind, prepare,
        minimum_bytes=4 * tokens * n + 8 * tokens + groups * (8 * n + 4), copied=tokens * n, share=0.7,
        targets={COMPILE: 2.0, TORCHAO: 1.0, "two launches": 1.0},
    )  # fmt: skip


def wgrad_operands(tokens: int, n: int, k: int, groups: int, kind: str) -> Case:
    ends = ends_of(tokens, groups, kind)

    def prepare(place: Place) -> Ready:
        grad, a, offs = place.normal(tokens, n), place.normal(tokens, k, seed=1), place.offsets(ends)
        call = partial(ours("wgrad_copies", "wgrad_operands"), grad, a, offs, **place.format_words)
        wanted = references.colwise(grad, ends, place.fmt) + references.colwise(a, ends, place.fmt)
        one = practice.colwise_even if kind == "even" else practice.colwise_uneven
        words = (groups if kind == "even" else offs,)

        def both(first: torch.Tensor, second: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
            return one(first, *rest), one(second, *rest)

        return against(
            place, call, both, (grad, a, *words), wanted, torchao=lambda ao: partial(ao.two_colwise, grad, a, offs)
        )

    columns = n + k
    return Case(
        "quantizers", "wgrad-operands", {"tokens": tokens, "n": n, "k": k, "groups": groups}, kind, prepare,
        minimum_bytes=3 * tokens * columns + groups * (8 * columns + 4), copied=tokens * columns, share=0.9,
        targets={COMPILE: 1.7, TORCHAO: 1.0},
    )  # fmt: skip


def rows_per_group(rows: int, tokens: int, groups: int, kind: str) -> Case:
    ends = ends_of(tokens, groups, kind)

    def prepare(place: Place) -> Ready:
        x, offs = place.normal(rows, tokens), place.offsets(ends)
        call = partial(ours("rowwise_per_group", "quantize_rowwise_per_group"), x, offs, **place.format_words)
        wanted = references.rowwise_per_group(x, ends, place.fmt)
        if kind != "even":
            return Ready({OURS: call}, wanted, check_bytes)
        return against(place, call, practice.rows_per_group_even, (x, groups), wanted)

    return Case(
        "quantizers", "rowwise-per-group", {"rows": rows, "tokens": tokens, "groups": groups}, kind, prepare,
        minimum_bytes=3 * rows * tokens + groups * (8 * rows + 4), copied=rows * tokens, share=0.9,
        targets={COMPILE: 1.5},
    )  # fmt: skip


def tensorwise(tokens: int, n: int) -> Case:
    def prepare(place: Place) -> Ready:
        x = place.normal(tokens, n)
        call = partial(ours("tensorwise", "quantize_tensorwise"), x, **place.format_words)
        return against(place, call, practice.tensorwise, (x,), references.tensorwise(x, place.fmt))

    # The scale of all values must be known before the first is converted: the input is read twice, 5 bytes for 3.
    return Case(
        "quantizers", "tensorwise", {"tokens": tokens, "n": n}, "", prepare,
        minimum_bytes=3 * tokens * n + 8, copied=tokens * n, share=0.9 * 3 / 5, targets={COMPILE: 1.0},
    )  # fmt: skip


def blockwise(tokens: int, n: int, block: int = 128) -> Case:
    def prepare(place: Place) -> Ready:
        x = place.normal(tokens, n)
        call = partial(ours("blockwise", "quantize_blockwise"), x, block=block, **place.format_words)
        return against(place, call, practice.blockwise, (x, block), references.blockwise(x, block, place.fmt))

    return Case(
        "quantizers", "blockwise", {"tokens": tokens, "n": n, "block": block}, "", prepare,
        minimum_bytes=3 * tokens * n + 8 * (tokens // block) * (n // block), copied=tokens * n, share=0.9,
        targets={COMPILE: 1.5},
    )  # fmt: skip


def odd_ends(tokens: int, groups: int) -> tuple[int, ...]:
    """As ``uneven_ends``, of sizes that are no multiples: ends move by a few rows, none before the one in front."""
    ends = uneven_ends(tokens, groups)
    return tuple(accumulate((min(end + 3 * (index % 5), ends[-1]) for index, end in enumerate(ends)), max))


def padding(tokens: int, n: int, groups: int, multiple: int) -> Case:
    ends = odd_ends(tokens, groups)
    most_rows = -(-(tokens + groups * (multiple - 1)) // multiple) * multiple

    def prepare(place: Place) -> Ready:
        x, offs = place.normal(tokens, n), place.offsets(ends)
        wanted = references.padded_groups(x, ends, multiple)
        rows = wanted[0].shape[0] if wanted[0] is not None else 0
        pad = ours("token_padding", "pad_token_groups")
        natural = partial(practice.pad_groups, x, ends, multiple)

        # Ours has room for the worst split, since the host does not know the sizes: what is there beyond is zero.
        def check(result: Any, wanted: Tensors) -> Verdict:
            padded = flatten(result)[0]
            assert padded is not None
            tail_is_zero = bool((padded[rows:] == 0).all().item())
            same = wanted[0] is not None and torch.equal(padded[:rows], wanted[0])
            return Verdict(same and tail_is_zero, "exact" if same and tail_is_zero else "rows are wrong")

        contestants: dict[str, Call] = {OURS: partial(pad, x, offs, multiple), "eager, host knows": natural}
        return Ready(contestants, wanted, check)

    return Case(
        "quantizers", "token-padding", {"tokens": tokens, "n": n, "groups": groups, "multiple": multiple}, "uneven",
        prepare, minimum_bytes=2 * n * (tokens + most_rows) + 8 * groups, copied=tokens * n, share=0.9,
        targets={"eager, host knows": 1.0},
    )  # fmt: skip


# Experts, K, N: gate and up, and down, of DeepSeek-V3 with 32 of 256 experts a GPU; Llama 4 with 16.
WEIGHTS = ((32, 7168, 4096), (32, 2048, 7168), (16, 5120, 8192), (16, 8192, 5120))


def weights(operator: str, experts: int, k: int, n: int) -> Case:
    module, name, natural = {
        "weight-columns": ("expert_weights", "quantize_expert_weights", practice.weight_columns),
        "weight-transpose": ("weight_transpose", "quantize_weight_transpose", practice.weight_transposed),
        "weight-layouts": ("weight_layouts", "quantize_weight_layouts", practice.weight_layouts),
    }[operator]
    both = operator == "weight-layouts"
    rows = {"weight-columns": n, "weight-transpose": k, "weight-layouts": n + k}[operator]

    def prepare(place: Place) -> Ready:
        w = place.normal(experts, n, k).transpose(1, 2)
        call = partial(ours(module, name), w, **place.format_words)
        wanted: Tensors = []
        if operator != "weight-transpose":
            wanted += references.weight_columns(w, place.fmt)
        if operator != "weight-columns":
            wanted += references.weight_transposed(w, place.fmt)
        torchao_name = {"weight-columns": "weight_columns", "weight-transpose": "weight_transposed"}.get(operator)
        return against(
            place, call, natural, (w,), wanted,
            torchao=lambda ao: partial(getattr(ao, torchao_name or "weight_layouts"), w),
        )  # fmt: skip

    return Case(
        "weights", operator, {"experts": experts, "k": k, "n": n}, "", prepare,
        minimum_bytes=(4 if both else 3) * experts * k * n + 8 * experts * rows, copied=experts * k * n,
        share=0.7 if both else 0.9,
        targets={COMPILE: 2.0 if both else 1.7 if operator == "weight-transpose" else 1.5, TORCHAO: 1.0},
    )  # fmt: skip


# Experts, tokens an expert, K, N.
PRODUCTS = (
    (32, 1024, 7168, 4096),
    (32, 1024, 2048, 7168),
    (8, 4096, 7168, 4096),
    (8, 4096, 2048, 7168),
    (8, 1024, 7168, 4096),
)
DENSE = ((8192, 8192, 8192), (4096, 14336, 8192), (32768, 2048, 7168), (32768, 7168, 2048))
SCALED, SCALED_EXACT, BF16 = "_scaled_grouped_mm", "_scaled_grouped_mm, exact sums", "_grouped_mm bf16"


def grouped(experts: int, mean: int, k: int, n: int, kind: str) -> Case:
    tokens = experts * mean
    ends = ends_of(tokens, experts, kind)

    def prepare(place: Place) -> Ready:
        x, w, offs = place.normal(tokens, k), place.normal(experts, n, k, seed=1), place.offsets(ends)
        a = references.rowwise(x, place.fmt)
        b = [None if part is None else part.transpose(1, 2) for part in references.rowwise(w, place.fmt)]
        wt = w.transpose(1, 2)
        wanted: Tensors = [references.grouped_product(a, b, ends)]
        mm = ours("grouped_gemm", "grouped_gemm")
        values_a, values_b, inverse_a, inverse_b = a[0], b[0], a[2].reshape(-1), b[2].reshape(experts, n)  # type: ignore[union-attr]
        scaled = partial(
            torch._scaled_grouped_mm, values_a, values_b, inverse_a, inverse_b, offs=offs, out_dtype=torch.bfloat16
        )
        contestants: dict[str, Call] = {
            OURS: lambda: mm(values_a, values_b, offs, inverse_a, inverse_b),
            SCALED: partial(scaled, use_fast_accum=True),
            SCALED_EXACT: partial(scaled, use_fast_accum=False),
            BF16: lambda: torch._grouped_mm(x, wt, offs=offs),
            "wavecast bf16": lambda: mm(x, wt, offs),
        }
        return Ready(contestants, wanted, FP8_CHECK, other_checks={BF16: BF16_CHECK, "wavecast bf16": BF16_CHECK})

    return Case(
        "gemm", "grouped", {"experts": experts, "tokens": tokens, "k": k, "n": n}, kind, prepare,
        flop=2 * tokens * k * n, targets={SCALED: 0.9 if kind == "even" else 1.05},
    )  # fmt: skip


FP8_CHECK = partial(check_close, tolerance=GEMM_TOLERANCE)
"""FP8 products are near fp32 on the FP8 values."""

BF16_CHECK = partial(check_close, tolerance=TRAINING_TOLERANCE)
"""Those in bf16, of the values before they were quantized, are only as near as FP8 allows."""


def weight_gradient(experts: int, mean: int, p: int, q: int, kind: str) -> Case:
    tokens = experts * mean
    ends = ends_of(tokens, experts, kind)

    def prepare(place: Place) -> Ready:
        grad, x, offs = place.normal(tokens, p), place.normal(tokens, q, seed=1), place.offsets(ends)
        a, b = references.colwise(grad, ends, place.fmt), references.colwise(x, ends, place.fmt)
        wanted: Tensors = [references.weight_gradient(a, b, ends)]
        mm = ours("grouped_gemm", "grouped_gemm")
        av, ai, bv, bi = a[0].t(), a[2], b[0], b[2]  # type: ignore[union-attr]
        gt = grad.t().contiguous()
        xc = x.t().contiguous().t()
        scaled = partial(
            torch._scaled_grouped_mm, av, bv, ai.reshape(-1), bi.reshape(-1), offs=offs, out_dtype=torch.bfloat16  # type: ignore[union-attr]
        )  # fmt: skip
        contestants: dict[str, Call] = {
            OURS: lambda: mm(av, bv, offs, ai, bi),
            SCALED: partial(scaled, use_fast_accum=True),
            SCALED_EXACT: partial(scaled, use_fast_accum=False),
            BF16: lambda: torch._grouped_mm(grad.t(), x, offs=offs),
            "wavecast bf16": lambda: mm(gt, xc, offs),
        }
        return Ready(contestants, wanted, FP8_CHECK, other_checks={BF16: BF16_CHECK, "wavecast bf16": BF16_CHECK})

    return Case(
        "gemm", "weight-gradient", {"experts": experts, "tokens": tokens, "p": p, "q": q}, kind, prepare,
        flop=2 * tokens * p * q, targets={SCALED: 1.0},
    )  # fmt: skip


def dense(m: int, n: int, k: int) -> Case:
    def prepare(place: Place) -> Ready:
        x, w = place.normal(m, k), place.normal(n, k, seed=1)
        a, b = references.rowwise(x, place.fmt), references.rowwise(w, place.fmt)
        av, ai, bv, bi = a[0], a[2], b[0].t(), b[2].t()  # type: ignore[union-attr]
        wanted: Tensors = [(av.float() @ bv.float()) * ai * bi]  # type: ignore[union-attr]
        mm = ours("scaled_gemm", "scaled_gemm")
        scaled = partial(torch._scaled_mm, av, bv, ai, bi, out_dtype=torch.bfloat16)
        contestants: dict[str, Call] = {
            OURS: lambda: mm(av, bv, ai, bi),
            "_scaled_mm": partial(scaled, use_fast_accum=True),
            "_scaled_mm, exact sums": partial(scaled, use_fast_accum=False),
            "mm bf16": lambda: torch.mm(x, w.t()),
        }
        return Ready(contestants, wanted, FP8_CHECK, other_checks={"mm bf16": BF16_CHECK})

    return Case(
        "gemm", "scaled", {"m": m, "n": n, "k": k}, "", prepare, flop=2 * m * n * k, targets={"_scaled_mm": 0.9}
    )


LINEARS = ((32768, 7168, 2048), (32768, 2048, 7168), (8192, 8192, 8192))
COMPOSITION = "torch FP8 composition"


def both_ways(function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], grad: torch.Tensor) -> Call:
    """Forward and backward of ``function(*inputs)``: the result and a gradient for each input."""

    def call() -> tuple[torch.Tensor, ...]:
        out = function(*inputs)
        return (out.detach(), *torch.autograd.grad(out, inputs, grad))

    return call


def recipe(name: str) -> Any:
    return getattr(import_module("wavecast.kernels.training").Recipe, name)


def grouped_training(experts: int, mean: int, k: int, n: int, kind: str) -> Case:
    tokens = experts * mean
    ends = ends_of(tokens, experts, kind)

    def prepare(place: Place) -> Ready:
        a, w = place.normal(tokens, k).requires_grad_(), place.normal(experts, n, k, seed=1).requires_grad_()
        grad, offs = place.normal(tokens, n, seed=2), place.offsets(ends)
        mm = ours("training", "scaled_grouped_mm")

        def layer(function: Callable[..., torch.Tensor]) -> Call:
            return both_ways(lambda x, weight: function(x, weight.transpose(1, 2)), (a, w), grad)

        bf16 = layer(lambda x, b_t: torch._grouped_mm(x, b_t, offs=offs))
        contestants = {
            OURS: layer(lambda x, b_t: mm(x, b_t, offs)),
            "wavecast, bf16 weight gradient": layer(lambda x, b_t: mm(x, b_t, offs, recipe=recipe("ROWWISE_HP_WGRAD"))),
            COMPOSITION: layer(
                lambda x, b_t: practice.TorchGroupedMM.apply(x, b_t, offs, experts if kind == "even" else 0)
            ),
            BF16: bf16,
        }
        wanted = [part.clone() for part in bf16()]
        return Ready(contestants, wanted, BF16_CHECK, poison=False)

    return Case(
        "training", "grouped-mm", {"experts": experts, "tokens": tokens, "k": k, "n": n}, kind, prepare,
        flop=6 * tokens * k * n, targets={COMPOSITION: 1.0, BF16: 1.0},
    )  # fmt: skip


def linear_training(tokens: int, k: int, n: int) -> Case:
    def prepare(place: Place) -> Ready:
        x, w = place.normal(tokens, k).requires_grad_(), place.normal(n, k, seed=1).requires_grad_()
        grad = place.normal(tokens, n, seed=2)
        linear = ours("training", "fp8_linear")
        bf16 = both_ways(torch.nn.functional.linear, (x, w), grad)
        contestants = {
            OURS: both_ways(lambda a, b: linear(a, b, recipe=recipe("ROWWISE")), (x, w), grad),
            "wavecast, bf16 weight gradient": both_ways(
                lambda a, b: linear(a, b, recipe=recipe("ROWWISE_HP_WGRAD")), (x, w), grad
            ),
            "wavecast, tensorwise": both_ways(lambda a, b: linear(a, b, recipe=recipe("TENSORWISE")), (x, w), grad),
            COMPOSITION: both_ways(practice.TorchLinear.apply, (x, w), grad),
            "linear bf16": bf16,
        }
        wanted = [part.clone() for part in bf16()]
        return Ready(contestants, wanted, BF16_CHECK, poison=False)

    return Case(
        "training", "linear", {"tokens": tokens, "k": k, "n": n}, "", prepare,
        flop=6 * tokens * k * n, targets={COMPOSITION: 1.0, "linear bf16": 1.0},
    )  # fmt: skip


def all_cases(*, small: bool = False) -> Iterator[Case]:
    """Every case, the more important ones of a group first.

    Args:
        small: sizes that a processor can do.
    """
    if small:
        yield from (rowwise(96, 256), colwise(96, 256, 3, "even"), colwise(96, 256, 3, "uneven"))
        yield from (dual(96, 256, 3, "even"), wgrad_operands(96, 64, 128, 3, "uneven"))
        yield from (rows_per_group(64, 96, 3, "even"), tensorwise(128, 256), blockwise(128, 256))
        yield padding(96, 64, 12, 16)
        yield from (weights(name, 2, 64, 96) for name in ("weight-columns", "weight-transpose", "weight-layouts"))
        yield from (grouped(2, 32, 64, 96, "even"), weight_gradient(2, 32, 64, 96, "uneven"), dense(32, 64, 96))
        yield from (grouped_training(2, 32, 64, 96, "uneven"), linear_training(32, 64, 96))
        return
    yield from (rowwise(tokens, n) for tokens, n, _, _ in TOKENS_BY_WIDTH)
    yield from (colwise(*sizes) for sizes in (*TOKENS_BY_WIDTH, *JAGGED))
    yield from (dual(*sizes) for sizes in (*TOKENS_BY_WIDTH, *JAGGED[1:]))
    yield from (wgrad_operands(24576, 1408, 2048, 8, "even"), wgrad_operands(32768, 2048, 7168, 32, "uneven"))
    yield from (rows_per_group(7168, 32768, 32, "even"), rows_per_group(2048, 32768, 32, "uneven"))
    yield from (tensorwise(32768, 7168), tensorwise(32768, 2048), blockwise(32768, 7168), blockwise(32768, 2048))
    yield padding(32768, 7168, 32, 16)
    for operator in ("weight-columns", "weight-transpose", "weight-layouts"):
        yield from (weights(operator, *sizes) for sizes in WEIGHTS)
    for experts, mean, k, n in PRODUCTS:
        for kind in ("even", "uneven"):
            yield grouped(experts, mean, k, n, kind)
            yield weight_gradient(experts, mean, n, k, kind)
    yield from (dense(*sizes) for sizes in DENSE)
    yield from (grouped_training(*sizes, "even") for sizes in PRODUCTS[:2])
    yield from (grouped_training(*sizes, "uneven") for sizes in PRODUCTS[:2])
    yield from (linear_training(*sizes) for sizes in LINEARS)


def place_of(device: str, *, small: bool, torchao: Path | None, compile_natural: bool) -> Place:
    place = Place(device, small, None if torchao is None else practice.Torchao(torchao), compile_natural)
    practice.use_format(place.fmt.dtype)
    return place

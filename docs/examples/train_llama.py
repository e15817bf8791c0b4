"""Train a small Llama in bf16 and in FP8, from the same weights on the same text, and compare loss and speed.

The text is Python's own documentation and library, read as bytes. On a GPU, AMD's or NVIDIA's, the default is 300 steps
of a model whose GEMMs matter; on a machine with none, 5 steps of a tiny one through the references.

    python docs/examples/train_llama.py --moe --json losses.json
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from wavecast.kernels import formats
from wavecast.kernels.training import Recipe, convert_to_fp8_training, scaled_grouped_mm

BYTES = 256
"""Size of the vocabulary: a token is a byte."""

EXPERTS, TOP_K = 8, 2
WARMUP_STEPS = 40
TIMED_FROM = 20
"""First step that counts for tokens/s: kernels are compiled and the allocator is warm."""

STEPS_TO_JUDGE, LAST = 200, 50
LEAST_FALL = 2.0
"""Nats that the loss has to fall, from the first 5 steps to the last 50; it starts at ln 256 = 5.5."""


@dataclass(frozen=True)
class Size:
    """Sizes of the model and of a batch."""

    dim: int
    layers: int
    sequence: int
    batch: int
    moe: bool

    @property
    def heads(self) -> int:
        return max(4, self.dim // 128)

    @property
    def hidden(self) -> int:
        """Of the feed-forward layer, or of the ``TOP_K`` experts of a token together."""
        return -(-self.dim * 8 // 3 // 64) * 64


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary position embedding of (batch, heads, sequence, head) by angles (sequence, head / 2)."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), dim=-1).type_as(x)


class Attention(nn.Module):
    """Causal attention with four query heads for a key head."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads, self.kv_heads = size.heads, size.heads // 4
        self.head = size.dim // size.heads
        self.query = nn.Linear(size.dim, size.dim, bias=False)
        self.key_value = nn.Linear(size.dim, 2 * self.kv_heads * self.head, bias=False)
        self.out = nn.Linear(size.dim, size.dim, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        batch, sequence, dim = x.shape
        query = self.query(x).view(batch, sequence, self.heads, self.head).transpose(1, 2)
        key, value = (
            half.view(batch, sequence, self.kv_heads, self.head).transpose(1, 2)
            for half in self.key_value(x).chunk(2, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(
            rotate(query, angles), rotate(key, angles), value, is_causal=True, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, sequence, dim))


def swiglu(x: Tensor) -> Tensor:
    """``silu(gate) * up`` of the two halves of the last dimension."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate_up = nn.Linear(size.dim, 2 * size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(swiglu(self.gate_up(x)))


GroupedMM = Callable[[Tensor, Tensor, Tensor], Tensor]


def bf16_grouped_mm(a: Tensor, b_t: Tensor, offs: Tensor) -> Tensor:
    """torch's own grouped GEMM."""
    return torch._grouped_mm(a, b_t, offs=offs)


class Experts(nn.Module):
    """SwiGLU experts; a router sends each token to ``TOP_K`` of them, and none is dropped."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        hidden = size.hidden // TOP_K
        self.router = nn.Linear(size.dim, EXPERTS, bias=False)
        self.gate_up = nn.Parameter(torch.empty(EXPERTS, 2 * hidden, size.dim))
        self.down = nn.Parameter(torch.empty(EXPERTS, size.dim, hidden))
        self.grouped_mm: GroupedMM = bf16_grouped_mm

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        probability, expert = self.router(tokens).float().softmax(dim=-1).topk(TOP_K, dim=-1)
        probability = probability / probability.sum(dim=-1, keepdim=True)
        order = expert.flatten().argsort(stable=True)
        sizes = (expert.flatten() == torch.arange(EXPERTS, device=x.device)[:, None]).sum(dim=1)
        offs = sizes.cumsum(dim=0).to(torch.int32)
        token = order // TOP_K
        h = swiglu(self.grouped_mm(tokens[token], self.gate_up.transpose(1, 2), offs))
        h = self.grouped_mm(h, self.down.transpose(1, 2), offs) * probability.flatten()[order, None].type_as(h)
        return torch.zeros_like(tokens).index_add(0, token, h).view_as(x)


class Layer(nn.Module):
    """Attention, then a feed-forward layer or experts, each added to its input."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(size.dim), Attention(size)
        self.feed_norm, self.feed = nn.RMSNorm(size.dim), Experts(size) if size.moe else FeedForward(size)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.feed(self.feed_norm(x))


class Llama(nn.Module):
    """Logits (batch, sequence, 256) of bytes (batch, sequence)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(BYTES, size.dim)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.dim)
        self.head = nn.Linear(size.dim, BYTES, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                into_residual = name.endswith(("out.weight", "down.weight", "down"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * size.layers) if into_residual else 0.02)
        self.half_head = size.dim // size.heads // 2

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        frequency = 10_000.0 ** (-torch.arange(self.half_head, device=x.device) / self.half_head)
        angles = torch.arange(tokens.shape[1], device=x.device)[:, None] * frequency
        for layer in self.layers:
            x = layer(x, angles)
        return self.head(self.norm(x)).float()


class MasterAdamW:
    """AdamW on fp32 copies of bf16 parameters, so that no update is lost below bf16's spacing."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.masters = [p.detach().float().clone() for p in self.parameters]
        self.adam = torch.optim.AdamW(self.masters, betas=(0.9, 0.95), weight_decay=0.1)

    def step(self, learning_rate: float) -> None:
        for master, parameter in zip(self.masters, self.parameters, strict=True):
            master.grad, parameter.grad = parameter.grad.float(), None
        nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.adam.param_groups[0]["lr"] = learning_rate
        self.adam.step()
        with torch.no_grad():
            for master, parameter in zip(self.masters, self.parameters, strict=True):
                parameter.copy_(master)


def learning_rate(peak: float, step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a tenth."""
    warm = min(1.0, (step + 1) / WARMUP_STEPS)
    return peak * warm * (0.55 + 0.45 * math.cos(math.pi * step / steps))


def python_text(least: int) -> bytes:
    """Python's documentation topics and the sources of its library, at least ``least`` bytes."""
    parts = []
    try:
        from pydoc_data import topics
    except ImportError:
        pass  # some distributions package it apart
    else:
        parts += [text.encode() for _, text in sorted(topics.topics.items())]
    library = Path(sysconfig.get_path("stdlib"))
    skipped = {"site-packages", "dist-packages", "test", "tests", "pydoc_data"}
    for source in sorted(library.rglob("*.py")):
        if not skipped & set(source.relative_to(library).parts):
            parts.append(source.read_bytes())
    text = b"\n".join(parts)
    if len(text) < least:
        raise SystemExit(f"{library} holds {len(text)} bytes of text; {least} are wanted; pass a file with --text")
    return text


def batches(text: bytes, size: Size, steps: int, seed: int) -> Iterable[Tensor]:
    """(batch, sequence + 1) tokens a step, from random places of the text: the same for every run."""
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(seed)
    within = torch.arange(size.sequence + 1)
    for _ in range(steps):
        start = torch.randint(len(data) - size.sequence, (size.batch, 1), generator=generator)
        yield data[start + within].long()


def show_progress(name: str, step: int, steps: int, loss: float) -> None:
    """Redraw the bar on stderr."""
    done = 30 * step // steps
    end = "\n" if step == steps else ""
    bar = "#" * done + "." * (30 - done)
    print(f"\r{name:<5} [{bar}] {step}/{steps} loss {loss:.3f}", end=end, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Run:
    """What one training gave: the loss of each step in nats per byte, and the speed."""

    precision: str
    loss: list[float]
    tokens_per_second: float

    @property
    def first(self) -> float:
        return sum(self.loss[:5]) / len(self.loss[:5])

    @property
    def last(self) -> float:
        return sum(self.loss[-LAST:]) / len(self.loss[-LAST:])


def train(name: str, model: nn.Module, data: Iterable[Tensor], *, steps: int, peak: float, device: torch.device) -> Run:
    """Train ``model`` in place, with a learning rate that reaches ``peak``."""
    optimizer = MasterAdamW(model.parameters())
    losses = torch.zeros(steps, device=device)
    began, timed_from = 0.0, min(TIMED_FROM, steps // 2)
    tokens = 0
    for step, batch in enumerate(data):
        if step == timed_from:
            losses.sum().item()  # waits for the device
            began, tokens = time.perf_counter(), 0
        batch = batch.to(device, non_blocking=True)
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step(learning_rate(peak, step, steps))
        losses[step] = loss.detach()
        tokens += batch[:, 1:].numel()
        if (step + 1) % 20 == 0 or step + 1 == steps:  # rarely: reading the loss waits for the device
            show_progress(name, step + 1, steps, losses[step].item())
    return Run(name, losses.tolist(), tokens / (time.perf_counter() - began))


def to_fp8(model: nn.Module, recipe: Recipe) -> None:
    """Convert the linear layers but the head and the routers, and the experts."""
    convert_to_fp8_training(model, recipe=recipe, module_filter=lambda _, name: not name.endswith(("head", "router")))
    for module in model.modules():
        if isinstance(module, Experts):
            module.grouped_mm = partial(scaled_grouped_mm, recipe=recipe)


def plant_scale_fault() -> None:
    """Let the kernels map the amax to a maximum that the bytes do not reach: 448 for e4m3fnuz, 896 for e4m3fn."""
    wrong = {"e4m3fnuz": 448.0, "e4m3fn": 896.0}
    formats.FORMATS = tuple(replace(fmt, max=wrong.get(fmt.name, fmt.max)) for fmt in formats.FORMATS)


def print_table(bf16: Run, fp8: Run) -> None:
    """Speed and loss of both."""
    print(f"{'':8}{'tokens/s':>10}{'first 5':>10}{f'last {LAST}':>10}  loss in nats a byte")
    for run in (bf16, fp8):
        print(f"{run.precision:8}{run.tokens_per_second:10.0f}{run.first:10.3f}{run.last:10.3f}")
    print(f"speed {fp8.tokens_per_second / bf16.tokens_per_second:.2f}x")


def judge(bf16: Run, fp8: Run, band: float) -> list[str]:
    """What is wrong: empty if the loss fell and FP8's is within ``band``, a part of bf16's."""
    wrong = []
    if not bf16.first - bf16.last >= LEAST_FALL:
        wrong.append(f"bf16's loss fell by {bf16.first - bf16.last:.2f} nats, less than {LEAST_FALL}")
    difference = (fp8.last - bf16.last) / bf16.last
    if not abs(difference) <= band:  # so that NaN is outside
        wrong.append(f"FP8's loss is {difference:+.2%} from bf16's, outside of {band:.0%}")
    return wrong


def plot(bf16: Run, fp8: Run, band: float, title: str, path: Path) -> None:
    """Draw both losses, and below them their difference."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    figure, (above, below) = plt.subplots(2, sharex=True, height_ratios=(3, 1), figsize=(8, 6), layout="constrained")
    steps = range(1, len(bf16.loss) + 1)
    for run, style in ((bf16, "-"), (fp8, "--")):
        above.plot(
            steps, run.loss, style, linewidth=1.2, label=f"{run.precision}, {run.tokens_per_second:,.0f} tokens/s"
        )
    below.plot(steps, [b - a for a, b in zip(bf16.loss, fp8.loss, strict=True)], linewidth=1.0, color="black")
    below.axhspan(-band * bf16.last, band * bf16.last, alpha=0.2, label=f"{band:.0%} of the last loss")
    above.set(title=title, ylabel="loss (nats a byte)")
    below.set(xlabel="step", ylabel="FP8 \u2212 bf16 (nats)")
    above.legend()
    below.legend()
    figure.savefig(path, dpi=120)


def options(arguments: list[str] | None) -> argparse.Namespace:
    """What the command line says; the defaults depend on whether there is a GPU."""
    on_gpu = torch.cuda.is_available()  # also of a ROCm build
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="rowwise", choices=[recipe.value for recipe in Recipe])
    parser.add_argument("--moe", action="store_true", help=f"{EXPERTS} experts a layer, {TOP_K} a token")
    parser.add_argument("--compile", action="store_true", help="torch.compile both models, with CUDA graphs on a GPU")
    parser.add_argument("--steps", type=int, default=300 if on_gpu else 5)
    parser.add_argument("--dim", type=int, default=2048 if on_gpu else 64)
    parser.add_argument("--layers", type=int, default=8 if on_gpu else 2)
    parser.add_argument("--sequence", type=int, default=2048 if on_gpu else 64)
    parser.add_argument("--batch", type=int, default=8 if on_gpu else 2)
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="at its peak")
    parser.add_argument(
        "--band",
        type=float,
        default=0.06 if on_gpu else 0.02,
        help="largest difference between the mean losses of the last 50 steps, as a part of bf16's; the larger model's "
        "first steps are less stable (docs/guides/training.md)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--text", type=Path, help="train on this file")
    parser.add_argument("--json", type=Path, help="write settings, losses and speeds to this file")
    parser.add_argument("--plot", type=Path, default=Path("train_llama.png"), help="where the picture goes")
    parser.add_argument("--plant-scale-fault", action="store_true", help="break FP8's scales, to see the band broken")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Train twice and compare; 1 if the loss did not fall or FP8 left its band."""
    chosen = options(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = Size(chosen.dim, chosen.layers, chosen.sequence, chosen.batch, chosen.moe)
    text = chosen.text.read_bytes() if chosen.text else python_text(least=2 * size.sequence)
    recipe = Recipe(chosen.recipe)
    runs = []
    for name in ("bf16", "fp8"):
        torch.manual_seed(chosen.seed)
        model = Llama(size).to(device, torch.bfloat16)
        if name == "fp8":
            to_fp8(model, recipe)
            if chosen.plant_scale_fault:
                plant_scale_fault()
        if chosen.compile:
            model.compile(mode="reduce-overhead", fullgraph=True)
        data = batches(text, size, chosen.steps, chosen.seed)
        runs.append(train(name, model, data, steps=chosen.steps, peak=chosen.learning_rate, device=device))
        del model
    bf16, fp8 = runs
    print_table(bf16, fp8)
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    plot(bf16, fp8, chosen.band, f"Llama, {'8 experts' if size.moe else 'dense'}, {recipe.value}, {where}", chosen.plot)
    if chosen.json:
        settings = asdict(size) | {"recipe": recipe.value, "compile": chosen.compile, "steps": chosen.steps}
        settings |= {"seed": chosen.seed, "device": where}
        report = {"settings": settings, "runs": [asdict(run) for run in runs]}
        chosen.json.write_text(json.dumps(report, indent=1))
    if chosen.steps < STEPS_TO_JUDGE:
        print(f"{chosen.steps} steps are too few to judge the losses; {STEPS_TO_JUDGE} are enough")
        return 0
    wrong = judge(bf16, fp8, chosen.band)
    print("\n".join(wrong) or f"the loss fell and FP8's is within {chosen.band:.0%} of bf16's")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

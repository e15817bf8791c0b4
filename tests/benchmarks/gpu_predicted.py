"""Predicts, on a machine without a GPU, what `gpu_operators.py` measured: our operators, the same shapes and groups.

    python tests/benchmarks/gpu_predicted.py docs/evidence/2026-12-01-h200-operators.json --device h200

Prints every case with both times and the error, and writes them with `--output`. Products on tensor cores come from the
analytical model and are not part of it. Values do not matter to the time: rows are normal numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from gpu_cases import OURS, ends_of, odd_ends

from wavecast.cli.simulate import stream_times
from wavecast.kernels.blockwise import quantize_blockwise
from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.dual_layout import quantize_dual_layout
from wavecast.kernels.expert_weights import quantize_expert_weights
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.tensorwise import quantize_tensorwise
from wavecast.kernels.token_padding import pad_token_groups
from wavecast.kernels.weight_layouts import quantize_weight_layouts
from wavecast.kernels.weight_transpose import quantize_weight_transpose
from wavecast.kernels.wgrad_copies import wgrad_operands
from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.virtual import VirtualDevice, virtual_device

SCHEMA = "wavecast.gpu-predicted/1"


@dataclass(frozen=True)
class Compared:
    """One case.

    Attributes:
        operator: Its name.
        shape: Sizes.
        groups: How tokens are split, or empty.
        kernels: What was launched, in order.
        bound: Of the longest launch.
        predicted_us: Sum over the launches: the first alone between two events, the others right behind it.
        measured_us: Median with a cold cache.
    """

    operator: str
    shape: dict[str, int]
    groups: str
    kernels: tuple[str, ...]
    bound: str
    predicted_us: float
    measured_us: float

    @property
    def error_percent(self) -> float:
        return 100 * (self.predicted_us / self.measured_us - 1)


def normal(*shape: int) -> torch.Tensor:
    """bf16 values, made a million at a time and repeated: their number costs memory only."""
    count = 1
    for size in shape:
        count *= size
    block = torch.randn(min(count, 1 << 20), generator=torch.Generator().manual_seed(0)).bfloat16()
    return block.repeat(-(-count // block.numel()))[:count].reshape(shape)


def offsets(ends: Sequence[int]) -> torch.Tensor:
    return torch.tensor(ends, dtype=torch.int32)


def weight(shape: dict[str, int]) -> torch.Tensor:
    """(experts, K, N), K contiguous, as the weights of `gpu_cases`."""
    return normal(shape["experts"], shape["n"], shape["k"]).transpose(1, 2)


def call_of(operator: str, shape: dict[str, int], kind: str) -> Callable[[], Any] | None:
    """Our operator on tensors of a case, or None if it is no quantizer."""
    tokens, n, groups = (shape.get(name, 0) for name in ("tokens", "n", "groups"))
    ends = ends_of(tokens, groups, kind) if groups and operator != "token-padding" else ()
    calls: dict[str, Callable[[], Any]] = {
        "rowwise": lambda: quantize_rowwise(normal(tokens, n)),
        "colwise": lambda: colwise_per_group(normal(tokens, n), offsets(ends)),
        "dual-layout": lambda: quantize_dual_layout(normal(tokens, n), offsets(ends)),
        "wgrad-operands": lambda: wgrad_operands(normal(tokens, n), normal(tokens, shape["k"]), offsets(ends)),
        "rowwise-per-group": lambda: quantize_rowwise_per_group(normal(shape["rows"], tokens), offsets(ends)),
        "tensorwise": lambda: quantize_tensorwise(normal(tokens, n)),
        "blockwise": lambda: quantize_blockwise(normal(tokens, n), block=shape["block"]),
        "token-padding": lambda: pad_token_groups(
            normal(tokens, n), offsets(odd_ends(tokens, groups)), shape["multiple"]
        ),
        "weight-columns": lambda: quantize_expert_weights(weight(shape)),
        "weight-transpose": lambda: quantize_weight_transpose(weight(shape)),
        "weight-layouts": lambda: quantize_weight_layouts(weight(shape)),
    }
    return calls.get(operator)


def predicted(device: VirtualDevice, call: Callable[[], Any]) -> tuple[float, tuple[str, ...], str]:
    """Time in µs, kernels, and what bounds the longest of them."""
    device.launches.clear()
    call()
    times = stream_times(device.launches, device.spec)
    longest = max(times, key=lambda item: item.predicted_us)
    names = tuple(launch.kernel for launch in device.launches)
    return sum(item.predicted_us for item in times), names, str(longest.bound)


def compare(cases: Sequence[dict[str, Any]], device_name: str, *, only: str | None) -> list[Compared]:
    found = []
    with virtual_device(device_name, workgroups="sample") as device:
        for case in cases:
            ours = next((entry for entry in case["entries"] if entry["name"] == OURS), None)
            call = call_of(case["operator"], case["shape"], case["groups"])
            if call is None or ours is None or ours["us"] is None or (only and case["operator"] != only):
                continue
            start = time.perf_counter()
            try:
                us, kernels, bound = predicted(device, call)
            except UnsupportedInstructionError as error:
                print(f"{case['operator']:18} {case['shape']}: refused, {str(error).partition(' (')[0]}", flush=True)
                continue
            found.append(Compared(case["operator"], case["shape"], case["groups"], kernels, bound, us, ours["us"]))
            one = found[-1]
            words = f"{one.operator:18} {'x'.join(map(str, one.shape.values())):24} {one.groups:6} "
            words += f"{one.predicted_us:8.1f} {one.measured_us:8.1f} {one.error_percent:+7.1f} %  {one.bound}"
            print(words, f"({time.perf_counter() - start:.0f} s)", flush=True)
    return found


def summary(found: Sequence[Compared]) -> dict[str, float]:
    """Median, 90th percentile and largest of the errors' sizes, and the median error with its sign, in percent."""
    sizes = sorted(abs(one.error_percent) for one in found)
    return {
        "cases": len(found),
        "median_percent": statistics.median(sizes),
        "p90_percent": sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        "worst_percent": sizes[-1],
        "signed_median_percent": statistics.median(one.error_percent for one in found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--only", help="one operator")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    evidence = json.loads(given.evidence.read_text(encoding="utf-8"))
    found = compare(evidence["cases"], given.device, only=given.only)
    if not found:
        sys.exit("no case of this evidence is a quantizer of ours that was measured")
    print(summary(found))
    if given.output is not None:
        import triton

        from wavecast.simulator.devices import load_device

        document = {
            "schema": SCHEMA,
            "measured": given.evidence.name,
            "device": given.device,
            "spec": load_device(given.device).digest,
            "triton": triton.__version__,
            "summary": summary(found),
            "cases": [{**asdict(one), "error_percent": one.error_percent} for one in found],
        }
        given.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

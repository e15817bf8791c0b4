"""Whether results are right: compared with a reference, in memory that held rubbish before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

Tensors = list["torch.Tensor | None"]

MOST_NEIGHBOURS = 5e-3
"""Share of bytes that may be the next FP8 value: others divide by multiplying with a reciprocal, or in fp64."""

SCALE_TOLERANCE = 1e-6
GEMM_TOLERANCE = 8e-3
"""Relative error (Frobenius norm) of a product against fp32 on the same FP8 values: rounding to bf16 makes 1.7e-3, the
short accumulation that ``use_fast_accum`` allows 2.6e-3."""


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Attributes:
        right: whether the contestant may be timed.
        text: ``exact``, ``3 bytes next``, ``error 0.0026``, or what is wrong.
    """

    right: bool
    text: str


def flatten(result: Any) -> Tensors:
    """The tensors of a contestant's result in order; None stays."""
    if result is None or isinstance(result, torch.Tensor):
        return [result]
    return [part for item in result for part in flatten(item)]


def check_bytes(result: Any, wanted: Tensors) -> Verdict:
    """FP8 bytes and scales: equal, or as near as another way of dividing makes them."""
    found = flatten(result)
    if len(found) != len(wanted):
        return Verdict(False, f"{len(found)} tensors, {len(wanted)} wanted")
    neighbours = 0
    rounded = False
    for part, (a, w) in enumerate(zip(found, wanted, strict=True)):
        if a is None or w is None:
            continue
        if a.numel() != w.numel():
            return Verdict(False, f"part {part} has shape {tuple(a.shape)}, wanted {tuple(w.shape)}")
        if w.element_size() > 1:
            a, w = a.reshape(w.shape).float(), w.float()
            if not torch.equal(a, w):
                worst = ((a - w).abs() / w.abs().clamp(min=1e-30)).max().item()
                if not worst <= SCALE_TOLERANCE:
                    return Verdict(False, f"part {part} is off by {worst:.1e} of its value")
                rounded = True
            continue
        if a.shape != w.shape or any(
            size > 1 and mine != theirs for size, mine, theirs in zip(a.shape, a.stride(), w.stride(), strict=True)
        ):
            return Verdict(False, f"part {part} is {tuple(a.shape)} by {a.stride()}, wanted {tuple(w.shape)}")
        steps = (a.view(torch.uint8).short() - w.view(torch.uint8).short()).abs()
        if steps.max().item() > 1:
            return Verdict(False, f"part {part}: {int((steps > 1).sum())} of {steps.numel()} bytes are wrong")
        neighbours += int(steps.sum())
        if neighbours > MOST_NEIGHBOURS * steps.numel():
            return Verdict(False, f"part {part}: {neighbours} of {steps.numel()} bytes are the next value")
    if neighbours:
        return Verdict(True, f"{neighbours} bytes next")
    return Verdict(True, "scale rounded" if rounded else "exact")


def check_close(result: Any, wanted: Tensors, *, tolerance: float) -> Verdict:
    """Relative error in the Frobenius norm, of every tensor and of the worst of 64 parts of each."""
    worst = 0.0
    found = flatten(result)
    if len(found) != len(wanted):
        return Verdict(False, f"{len(found)} tensors, {len(wanted)} wanted")
    for part, (a, w) in enumerate(zip(found, wanted, strict=True)):
        if a is None or w is None:
            continue
        if a.shape != w.shape:
            return Verdict(False, f"part {part} has shape {tuple(a.shape)}, wanted {tuple(w.shape)}")
        if not torch.isfinite(a).all().item():
            return Verdict(False, f"part {part} has values that are not finite")
        for mine, theirs in zip(a.reshape(-1).chunk(64), w.reshape(-1).chunk(64), strict=True):
            size = theirs.float().norm().item()
            error = (mine.float() - theirs.float()).norm().item()
            worst = max(worst, error / size if size else error)
    return Verdict(worst <= tolerance, f"error {worst:.2g}")


def poisoned(call: Any) -> Any:
    """The result of a second call, into memory that the first call's results had and that was filled with rubbish."""
    first = flatten(call())
    for tensor in first:
        if tensor is not None and not tensor.requires_grad:
            memory = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
            memory.fill_(0x55)
    del first
    return call()

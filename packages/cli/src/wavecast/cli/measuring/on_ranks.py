"""What each rank of a group does when an experiment over several GPUs is measured: one function a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from wavecast.cli.experiments.experiment import Shape
from wavecast.cli.measuring.checking import GEMM_TOLERANCE, Verdict, check_close, poisoned
from wavecast.cli.measuring.group_calls import INPUTS, GroupCase, Parts, make_case
from wavecast.cli.measuring.group_options import OPTIONS
from wavecast.cli.measuring.ranks import Rank
from wavecast.cli.measuring.timing import FEWEST_ROUNDS, MOST_ROUNDS, Call, Clock, GpuClock, Samples, interleaved

ALIGN_US = 60.0
"""Time that the host takes to enqueue the collective by which ranks begin a sample together."""


class GroupClock(GpuClock):
    """A GPU's clock, whose samples begin when every rank has come to them."""

    def __init__(self) -> None:
        self._word = torch.zeros(1, device="cuda")
        super().__init__()

    def align(self) -> None:
        dist.all_reduce(self._word)

    def enqueue(self, call: Call, *, host_us: float, warm: bool = False, idle: bool = False) -> Callable[[], float]:
        return super().enqueue(call, host_us=host_us + ALIGN_US, warm=warm, idle=idle)


class HostClock:
    """The host's clock, for ranks on CPUs."""

    def synchronize(self) -> None:
        pass

    def enqueue(self, call: Call, *, host_us: float, warm: bool = False, idle: bool = False) -> Callable[[], float]:
        dist.barrier()
        begun = time.perf_counter()
        call()
        taken_us = 1e6 * (time.perf_counter() - begun)
        return lambda: taken_us


class _Kept:
    """What a rank's process keeps from one step to the next."""

    case: GroupCase | None = None
    clock: Clock | None = None


def prepare(me: Rank, experiment: str, shape: Shape, dtype: str) -> None:
    """Make the operands of a case, in place of those of the one before."""
    _Kept.case = None
    _free(me)
    _Kept.case = make_case(me, experiment, shape, dtype)


def check(me: Rank, variant: str) -> Verdict:
    """Compare a variant with what is right, for each set of operands."""
    case, verdict = _case(), Verdict(True, "")
    for number in range(INPUTS):
        case.set(number)
        found = poisoned(case.calls[variant])
        _synchronize(me)
        verdict = compared(found, case.wanted(number))
        del found
        if not verdict.right:
            break
    _free(me)
    return verdict


def compared(found: Parts, wanted: Parts) -> Verdict:
    """What has the wanted type must be equal; sums, which are wanted in fp32, as near as they allow."""
    moved = [
        right is not None and part is not None and part.dtype == right.dtype
        for part, right in zip(found, wanted, strict=True)
    ]
    for index, (part, right) in enumerate(zip(found, wanted, strict=True)):
        if moved[index] and not torch.equal(part, right):  # type: ignore[arg-type]
            return Verdict(False, f"part {index} is not what the ranks gave")
    sums = [index for index, same in enumerate(moved) if not same]
    if not sums:
        return Verdict(True, "exact")
    return check_close([found[i] for i in sums], [wanted[i] for i in sums], tolerance=GEMM_TOLERANCE)


def repeat(me: Rank, variant: str, calls: int, replays: int) -> Verdict:
    """Call a variant that came out right many times, and replay it from a graph, with operands that take turns.

    Every result is compared on the device with that of the first call on the same operands, bit for bit; nothing is
    waited for in between.
    """
    case, call = _case(), _case().calls[variant]
    wanted = []
    for number in range(INPUTS):
        case.set(number)
        wanted.append([None if part is None else part.clone() for part in call()])
    differing = torch.zeros((), dtype=torch.int64, device=me.device)

    def compare(found: Sequence[torch.Tensor | None], number: int) -> None:
        for part, right in zip(found, wanted[number], strict=True):
            if part is not None and right is not None:
                differing.add_((part != right).sum())

    for index in range(calls):
        case.set(index % INPUTS)
        compare(call(), index % INPUTS)
    _synchronize(me)
    if wrong := differing.item():
        return Verdict(False, f"{wrong} values of {calls:,} calls in a row differ from the first call's")
    if me.device.type != "cuda":
        return Verdict(True, f"{calls:,} calls")
    replay, found = captured(call)
    for index in range(replays):
        case.set(index % INPUTS)
        replay()
        compare(found, index % INPUTS)
    _synchronize(me)
    if wrong := differing.item():
        return Verdict(False, f"{wrong} values of {replays} replays of a graph differ from the first call's")
    return Verdict(True, f"{calls:,} calls, {replays} replays")


def timed(me: Rank, variants: Sequence[str], seconds: float) -> dict[str, Samples]:
    """Times of calls that take turns, caches cold."""
    _case().set(0)
    return _timed(me, {variant: _case().calls[variant] for variant in variants}, seconds, warm=False)


def timed_again(me: Rank, variants: Sequence[str], seconds: float) -> dict[str, Samples]:
    """Times just after an equal call; on a GPU both are replays of a graph."""
    _case().set(0)
    calls: dict[str, Call] = {variant: _case().calls[variant] for variant in variants}
    if me.device.type == "cuda":
        calls = {variant: captured(call)[0] for variant, call in calls.items()}
    return _timed(me, calls, seconds, warm=True)


def option(me: Rank, name: str) -> int:
    """Run an option of the operators in every form; how many calls came out right.

    Raises:
        AssertionError: one did not.
    """
    return OPTIONS[name](me)


def clock_mhz(me: Rank) -> float | None:
    """Clock of the compute units at this moment."""
    clock = _clock(me)
    return clock.read_clock() if isinstance(clock, GpuClock) else None


def captured(call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """What replays a call from a graph, and its result."""
    call()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        found = call()
    return graph.replay, found


def _timed(me: Rank, calls: dict[str, Call], seconds: float, *, warm: bool) -> dict[str, Samples]:
    """Every rank takes as many samples as the first one has time for."""
    clock = _clock(me)
    interleaved(clock, calls, seconds=0, fewest=1, warm=warm)
    begun = time.perf_counter()
    interleaved(clock, calls, seconds=0, fewest=1, warm=warm)
    fit = round(seconds / max(time.perf_counter() - begun, 1e-6))
    rounds = torch.tensor([min(max(fit, FEWEST_ROUNDS), MOST_ROUNDS)], device=me.device)
    dist.broadcast(rounds, 0)
    return interleaved(clock, calls, seconds=0, fewest=int(rounds.item()), warm=warm)


def _case() -> GroupCase:
    assert _Kept.case is not None
    return _Kept.case


def _clock(me: Rank) -> Clock:
    if _Kept.clock is None:
        _Kept.clock = HostClock() if me.device.type == "cpu" else GroupClock()
    return _Kept.clock


def _synchronize(me: Rank) -> None:
    if me.device.type == "cuda":
        torch.cuda.synchronize(me.device)


def _free(me: Rank) -> None:
    if me.device.type == "cuda":
        torch.cuda.empty_cache()

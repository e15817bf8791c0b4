"""Measures every operator on a real GPU against what people use today, and says which targets are met.

    hatch run bench-gpu [--only quantizers weights/weight-transpose …] [--json FILE] [--torchao DIR] [--seconds N]

Contestants are checked first, in memory filled with rubbish; who is wrong is reported and not timed, who cannot be run
is reported as not available. Times are medians with a cold cache, contestants taking turns.
``--page FILES…`` turns the JSON of such runs into ``docs/reference/h200-operators.md`` and a dated evidence file.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCHEMA = "wavecast.gpu-operators/1"


@dataclass
class Entry:
    """One contestant of a case.

    Attributes:
        name: who.
        check: ``exact``, ``error 0.0026``, ``wrong: …``, ``not available: …``, ``failed: …``.
        us: median time; None if it was not timed.
        spread_percent: half the distance between the first and the last decile, in per cent of the median.
        host_us: time the host takes to enqueue a call.
        share: bandwidth at the minimum bytes over that of the copy.
        tflops: rate, where arithmetic counts.
        slower: its time over ours.
    """

    name: str
    check: str
    us: float | None = None
    spread_percent: float | None = None
    host_us: float | None = None
    share: float | None = None
    tflops: float | None = None
    slower: float | None = None


@dataclass
class Target:
    """Something aimed at: ``value`` is what was reached, None if it could not be measured."""

    what: str
    wanted: float
    value: float | None

    @property
    def text(self) -> str:
        wanted = f"{self.what} >= {self.wanted:.2f}"
        if self.value is None:
            return f"{wanted}: not measured"
        if self.value >= self.wanted:
            return f"{wanted}: met, {self.value:.2f}"
        return f"{wanted}: missed by {100 * (1 - self.value / self.wanted):.0f} %, {self.value:.2f}"


@dataclass
class Measured:
    """One case: its contestants and targets; ``copy_gbs`` is the bandwidth of the copy, read and written bytes."""

    group: str
    operator: str
    shape: dict[str, int]
    groups: str
    minimum_bytes: int
    flop: int
    copy_gbs: float | None = None
    rounds: int = 0
    entries: list[Entry] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    @property
    def name(self) -> str:
        sizes = " ".join(f"{key}={value}" for key, value in self.shape.items())
        return " ".join(filter(None, (f"{self.group}/{self.operator}", sizes, self.groups)))


def compare(measured: Measured, *, share: float, ratios: dict[str, float]) -> None:
    """Fill in what follows from the times: shares, rates, ratios to ours, targets."""
    ours = next((entry for entry in measured.entries if entry.us is not None), None)
    ours = ours if ours is not None and ours is measured.entries[0] else None
    for entry in measured.entries:
        if entry.us is None:
            continue
        if measured.copy_gbs and measured.minimum_bytes:
            entry.share = measured.minimum_bytes / entry.us / 1e3 / measured.copy_gbs
        if measured.flop:
            entry.tflops = measured.flop / entry.us / 1e6
        if ours is not None and ours.us is not None:
            entry.slower = entry.us / ours.us
    if share:
        measured.targets.append(Target("share of copy", share, ours.share if ours else None))
    for name, wanted in ratios.items():
        entry = next((entry for entry in measured.entries if entry.name == name), None)
        if entry is not None:
            measured.targets.append(Target(f"{name} / ours", wanted, entry.slower))


def warm_up(cases: Sequence[Any], place: Any) -> None:
    """Call every contestant once: what it compiles is kept in caches on disk, where whoever measures finds it."""
    import torch
    from gpu_cases import EAGER
    from gpu_practice import forget_compiled

    for case in cases:
        forget_compiled()
        with suppress(Exception):  # whoever fails here will fail again where it is reported
            for name, call in case.prepare(place).contestants.items():
                with suppress(Exception):
                    if name != EAGER:
                        call()
        if place.device == "cuda":
            torch.cuda.empty_cache()


def start_workers(count: int, arguments: Sequence[str], *, seconds: float) -> None:
    """Run ``warm_up`` in several processes at once, and end those that take too long."""
    command = [sys.executable, __file__, *arguments]
    workers = [
        subprocess.Popen(
            [*command, "--worker", f"{number}/{count}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for number in range(count)
    ]
    end = time.perf_counter() + seconds
    for worker in workers:
        try:
            worker.wait(timeout=max(0.1, end - time.perf_counter()))
        except subprocess.TimeoutExpired:
            worker.kill()


def measure(case: Any, place: Any, clock: Any, *, seconds: float, watchdog: float = 40) -> Measured:
    """Check and time one case; a step that takes longer than ``watchdog`` seconds ends the process: a GPU can hang."""
    import torch
    from gpu_cases import COPY
    from gpu_practice import forget_compiled

    from wavecast.cli.measuring.checking import Verdict, poisoned
    from wavecast.cli.measuring.timing import interleaved

    measured = Measured(case.group, case.operator, case.shape, case.groups, case.minimum_bytes, case.flop)
    forget_compiled()
    faulthandler.dump_traceback_later(watchdog, exit=True)
    ready = case.prepare(place)
    able: dict[str, Any] = {}
    for name, call in ready.contestants.items():
        faulthandler.dump_traceback_later(watchdog, exit=True)
        try:
            result = poisoned(call) if ready.poison else call()
            verdict = ready.judge(name, result)
            del result
        except (ImportError, AttributeError) as error:
            measured.entries.append(Entry(name, f"not available: {_first_line(error)}"))
            continue
        except Exception as error:  # a contestant's failure is a result of the comparison
            measured.entries.append(Entry(name, f"failed: {type(error).__name__}: {_first_line(error)}"))
            continue
        assert isinstance(verdict, Verdict)
        measured.entries.append(Entry(name, verdict.text if verdict.right else f"wrong: {verdict.text}"))
        if verdict.right:
            able[name] = call
    ready.wanted.clear()
    faulthandler.dump_traceback_later(watchdog, exit=True)
    if not able:
        faulthandler.cancel_dump_traceback_later()
        compare(measured, share=case.share, ratios=case.targets)
        return measured
    if case.copied:
        source = torch.zeros(case.copied, dtype=torch.bfloat16, device=place.device)
        target = torch.empty_like(source)
        target.copy_(source)
        able[COPY] = lambda: target.copy_(source)
    samples = interleaved(clock, able, seconds=seconds, fewest=3 if place.small else 20)
    faulthandler.cancel_dump_traceback_later()
    if case.copied:
        measured.copy_gbs = 4 * case.copied / samples[COPY].median_us / 1e3
    measured.rounds = min(len(item.device_us) for item in samples.values())
    for entry in measured.entries:
        if entry.name in samples:
            found = samples[entry.name]
            entry.us, entry.spread_percent, entry.host_us = found.median_us, found.spread_percent, found.host_us
    compare(measured, share=case.share, ratios=case.targets)
    return measured


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:140]


def lines_of(measured: Measured) -> list[str]:
    """One case as text."""
    copy = f"  (copy {measured.copy_gbs:,.0f} GB/s)" if measured.copy_gbs else ""
    lines = [f"{measured.name}{copy}  {measured.rounds} rounds"]
    unit = "TFLOP/s" if measured.flop else "share %"
    lines.append(f"  {'contestant':31} {'us':>9} {'+-%':>5} {unit:>8} {'/ ours':>7} {'host us':>8}  check")
    for entry in measured.entries:
        if entry.us is None:
            lines.append(f"  {entry.name:31} {'-':>9} {'':5} {'':8} {'':7} {'':8}  {entry.check}")
            continue
        rate = entry.tflops if measured.flop else None if entry.share is None else 100 * entry.share
        lines.append(
            f"  {entry.name:31} {entry.us:9.1f} {entry.spread_percent:5.1f} {_number(rate, '8.1f')} "
            f"{_number(entry.slower, '7.2f')} {entry.host_us:8.0f}  {entry.check}"
        )
    return [*lines, *(f"  {target.text}" for target in measured.targets)]


def _number(value: float | None, form: str) -> str:
    return f"{'-':>{form.split('.')[0]}}" if value is None else format(value, form)


def machine() -> dict[str, str]:
    """What the figures hold for."""
    import torch
    import triton

    gpu = torch.cuda.is_available()
    return {
        "gpu": torch.cuda.get_device_name() if gpu else "none",
        "arch": torch.cuda.get_device_properties(0).gcnArchName if gpu and torch.version.hip else "",
        "capability": ".".join(map(str, torch.cuda.get_device_capability())) if gpu else "",
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def document(found: Sequence[Measured], where: dict[str, str]) -> dict[str, Any]:
    return {"schema": SCHEMA, "machine": where, "cases": [asdict(measured) for measured in found]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the operators on a GPU against what people use today.")
    parser.add_argument("--only", nargs="+", metavar="GROUP", help="groups or group/operator; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--torchao", type=Path, metavar="DIR", help="a checkout of torchao, whose kernels take part")
    parser.add_argument("--seconds", type=float, default=100, help="stop to begin cases after so long (default 100)")
    parser.add_argument("--first", action="store_true", help="only the first shape of every operator")
    parser.add_argument("--warm-up", type=int, default=0, metavar="N", help="let N processes compile everything first")
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # "2/8": what the third of eight such processes does
    parser.add_argument(
        "--watchdog", type=float, default=40, help="end the script if a step takes so long (default 40)"
    )
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--try-out", action="store_true", help="tiny sizes, without a GPU if there is none")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--page", type=Path, nargs="+", metavar="FILE", help="write the page from the JSON of runs")
    given = parser.parse_args(arguments)
    if given.page:
        from gpu_page import write_page

        write_page(given.page)
        return 0

    import torch
    from gpu_cases import GROUPS, all_cases, place_of
    from host_clock import HostClock

    from wavecast.cli.measuring.timing import GpuClock

    cases = [case for case in all_cases(small=given.try_out) if _asked(case, given.only)]
    if given.first:
        cases = list({(case.group, case.operator): case for case in reversed(cases)}.values())[::-1]
    if not cases:
        print(f"error: nothing is called {given.only}\n\nhint: groups are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    if given.list:
        print("\n".join(case.name for case in cases))
        return 0
    gpu = torch.cuda.is_available()
    if not gpu and not given.try_out:
        print("error: torch sees no GPU\n\nhint: --try-out runs tiny sizes without one", file=sys.stderr)
        return 3
    place = place_of(
        "cuda" if gpu else "cpu", small=given.try_out, torchao=given.torchao, compile_natural=not given.no_compile
    )
    if given.worker:
        number, count = map(int, given.worker.split("/"))
        warm_up(cases[number::count], place)
        return 0
    # Pools of compiling processes cost more to start than they save, the more so one in each worker.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    begun = time.perf_counter()
    if given.warm_up:
        start_workers(given.warm_up, sys.argv[1:] if arguments is None else arguments, seconds=given.seconds / 2)
        print(f"compiled in {time.perf_counter() - begun:.0f} s", flush=True)
    where = machine()
    print(" ".join(f"{key}={value}" for key, value in where.items() if value), flush=True)
    clock = GpuClock() if gpu else HostClock()
    found: list[Measured] = []
    for number, case in enumerate(cases):
        left = given.seconds - (time.perf_counter() - begun)
        if left <= 0:
            print(f"not reached in {given.seconds:g} s: " + "; ".join(case.name for case in cases[number:]))
            break
        print(f"{case.name} …", file=sys.stderr, flush=True)
        try:
            seconds = 0 if place.small else min(0.5, left / 4)
            found.append(measure(case, place, clock, seconds=seconds, watchdog=given.watchdog))
        except Exception as error:  # the other cases are still worth their time
            print(f"{case.name}\n  cannot be prepared: {type(error).__name__}: {_first_line(error)}", flush=True)
            continue
        print("\n".join(lines_of(found[-1])), f"  [{time.perf_counter() - begun:.0f} s]", sep="\n", flush=True)
        if given.json:
            given.json.write_text(json.dumps(document(found, where), indent=1) + "\n", encoding="utf-8")
        if gpu:
            torch.cuda.empty_cache()
    wrong = [entry.name for measured in found for entry in measured.entries[:1] if entry.check.startswith("wrong")]
    return 1 if wrong else 0


def _asked(case: Any, only: Sequence[str] | None) -> bool:
    return only is None or any(name in (case.group, f"{case.group}/{case.operator}") for name in only)


if __name__ == "__main__":
    sys.exit(main())

"""Counters of the catalogue's kernels: a profiler runs the calls once more in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavecast.cli.errors import CliError, ExitCode
from wavecast.cli.measurement import KernelCounters, Machine
from wavecast.cli.measuring.metrics import NCU_METRICS, ROCPROF_PASSES, counters_of
from wavecast.cli.measuring.profiler_output import Dispatch, ProfilerOutputError, parse_ncu, parse_rocprof
from wavecast.cli.prediction import Case

NO_PERMISSION = ("ERR_NVGPUCTRPERM", "does not have permission", "Permission denied", "not authorized")
KEPT = "the times have been measured and are kept"

Key = tuple[int, str]
"""Number of a case, and a variant of it."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler.

    Attributes:
        name: ``ncu`` or ``rocprofv3``.
        only_counted: Whether it records nothing but the calls that are to be counted.
    """

    name: str
    only_counted: bool


NCU = Tool("ncu", only_counted=True)
ROCPROF = Tool("rocprofv3", only_counted=False)


def tool_of(machine: Machine) -> Tool:
    """The profiler of a machine's GPU."""
    return ROCPROF if machine.runtime.startswith("rocm") else NCU


def find_tool(machine: Machine) -> tuple[Tool, str]:
    """The profiler and where it is.

    Raises:
        CliError: 3 if it is not installed.
    """
    tool = tool_of(machine)
    path = shutil.which(tool.name)
    if path is None:
        belongs = "ROCm (package rocprofiler-sdk)" if tool is ROCPROF else "the CUDA toolkit (Nsight Compute)"
        raise CliError(
            f"counters need {tool.name}, and it is not on the path",
            hint=f"it belongs to {belongs}; without --counters, times are measured all the same",
            code=ExitCode.NOT_HERE,
        )
    return tool, path


def count(
    cases: Sequence[Case], variants: Mapping[int, Sequence[str]], machine: Machine, *, seconds: float
) -> dict[Key, tuple[KernelCounters, ...]]:
    """Counters of one call of each variant, kernel by kernel in launch order.

    Args:
        cases: The cases.
        variants: Number of a case to those of its variants that came out right.
        machine: The machine.
        seconds: How long a run under the profiler may take; what it counted until then is kept.

    Raises:
        CliError: 3 if the profiler is missing or may not read counters, 1 if what it wrote cannot be read.
    """
    tool, path = find_tool(machine)
    todo = [
        {
            "experiment": case.experiment.name,
            "shape": dict(case.shape),
            "variants": list(variants.get(number, ())),
        }
        for number, case in enumerate(cases)
    ]
    with tempfile.TemporaryDirectory(prefix="wavecast-counters-") as folder:
        place = Path(folder)
        (place / "cases.json").write_text(json.dumps(todo), encoding="utf-8")
        passes: tuple[tuple[str, ...], ...] = (NCU_METRICS,) if tool is NCU else ROCPROF_PASSES
        raws: list[list[tuple[Key, Dispatch]]] = []
        for number, names in enumerate(passes):
            launches = place / f"launches-{number}.jsonl"
            child = [sys.executable, "-m", "wavecast.cli.measuring.counted", str(place / "cases.json"), str(launches)]
            child += ["--range"] if tool.only_counted else []
            out = place / f"pass-{number}"
            text = _run(tool, [*_words(tool, path, names, out), *child], seconds=seconds)
            try:
                dispatches = parse_ncu(text, wanted=names) if tool is NCU else list(_collected(out))
                raws.append(aligned(list(_lines(launches)), dispatches, only_counted=tool.only_counted))
            except ProfilerOutputError as error:
                raise CliError(f"the counters of {tool.name} cannot be read: {error}", hint=KEPT) from error
            if not raws[-1]:
                raise _nothing(tool, text)
        return _merged(raws, tool)


def _words(tool: Tool, path: str, names: Sequence[str], out: Path) -> list[str]:
    if tool is NCU:
        metrics = ",".join(names)
        return [path, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off",
                "--target-processes", "all", "--metrics", metrics]  # fmt: skip
    return [path, "--pmc", *names, "--output-format", "csv", "-d", str(out), "--"]


def _run(tool: Tool, words: Sequence[str], *, seconds: float) -> str:
    """What the profiler and the calls say, on both of their outputs."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise CliError(
            f"{tool.name} has taken more than {seconds:g} s",
            hint=f"name fewer experiments, or smaller shapes; {KEPT}",
        ) from error
    text = done.stdout + "\n" + done.stderr
    if any(mark in text for mark in NO_PERMISSION):
        raise CliError(
            f"{tool.name} may not read counters here: {_line_with(text, NO_PERMISSION)}",
            hint=f"run as root, or let the administrator allow it to all users; {KEPT}",
            code=ExitCode.NOT_HERE,
        )
    return text


def _nothing(tool: Tool, text: str) -> CliError:
    said = next((line for line in reversed(text.splitlines()) if "rror" in line), "it says nothing about it")
    return CliError(f"{tool.name} counted nothing: {said.strip()}", hint=KEPT)


def _line_with(text: str, marks: Sequence[str]) -> str:
    return next(line.strip() for line in text.splitlines() if any(mark in line for mark in marks))


def _collected(out: Path) -> Iterator[Dispatch]:
    for path in sorted(out.rglob("*counter_collection.csv")):
        yield from parse_rocprof(path.read_text(encoding="utf-8"))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def aligned(
    launches: Sequence[Mapping[str, Any]], dispatches: Sequence[Dispatch], *, only_counted: bool
) -> list[tuple[Key, Dispatch]]:
    """Which variant each profiled launch belongs to.

    Args:
        launches: All launches of the calls in order: ``case``, ``variant``, ``kernel``, ``counted``.
        dispatches: What was profiled, other programs' kernels perhaps between.
        only_counted: Whether only the counted ones were.

    Raises:
        ProfilerOutputError: The kernels are not those that were launched, in their order.
    """
    expected = [launch for launch in launches if launch["counted"] or not only_counted]
    names = {launch["kernel"] for launch in launches}
    profiled = [dispatch for dispatch in dispatches if dispatch.kernel in names]
    found: list[tuple[Key, Dispatch]] = []
    # A profiler that was ended early has fewer.
    for number, (launch, dispatch) in enumerate(zip(expected, profiled, strict=False)):
        if launch["kernel"] != dispatch.kernel:
            raise ProfilerOutputError(
                f"launch {number} was {launch['kernel']}, and the profiler has {dispatch.kernel} in its place"
            )
        if launch["counted"]:
            found.append(((launch["case"], launch["variant"]), dispatch))
    return found


def _merged(raws: Sequence[Sequence[tuple[Key, Dispatch]]], tool: Tool) -> dict[Key, tuple[KernelCounters, ...]]:
    """Counters by variant, the passes of one launch together."""
    if any([key for key, _ in raw] != [key for key, _ in raws[0]] for raw in raws):
        shortest = min(map(len, raws))
        raws = [raw[:shortest] for raw in raws]
    found: dict[Key, list[KernelCounters]] = {}
    for passes in zip(*raws, strict=True):
        raw = {name: value for _, dispatch in passes for name, value in dispatch.raw.items()}
        key, dispatch = passes[0]
        found.setdefault(key, []).append(KernelCounters(dispatch.kernel, counters_of(raw, tool=tool.name)))
    return {key: tuple(kernels) for key, kernels in found.items()}

"""Families of C functions: clang's code for the GPU on the engine against clang's code for this CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "simulator"))

from differential.choices import Choices, shrink
from differential.comparison import Batch, build, compile_for_gpu, differences, on_cpu, on_engine
from differential.families import FAMILIES
from differential.functions import Function, generate
from differential.kinds import KINDS
from differential.statements import Array
from differential.toolchain import why_not  # noqa: F401 - the command asks
from fuzz_tally import Mismatch, Tally

from wavecast.simulator.errors import SimulatorError
from wavecast.simulator.execute.engine import Engine

# Attempts at a smaller program: each compiles twice.
ATTEMPTS = 150


def cases_of(function: Function) -> int:
    """Values that are compared for one work-item at one program point: elements of arrays that items own."""
    items = function.group_size * function.groups
    return sum(array.per_item * items for array in function.arrays if not array.is_input)


def run_batch(
    engine: Engine, programs: Sequence[tuple[str, int]], archs: Iterable[str], level: str, directory: Path
) -> dict[tuple[str, str], Tally]:
    """Run functions on each architecture.

    Args:
        engine: Where to run.
        programs: Family and seed of each function.
        archs: Architectures to compile for.
        level: Optimisation level of clang's code for them.
        directory: For files; nothing of them is needed later.

    Returns:
        Counts by family and architecture.
    """
    functions = [generate(seed, FAMILIES[family], Choices(seed)) for family, seed in programs]
    batch = build(functions, directory / "batch")
    expected = [on_cpu(batch, function) for function in functions]
    tallies = {}
    for arch in archs:
        text = compile_for_gpu(batch, arch, level)
        for (family, _), function, want in zip(programs, functions, expected, strict=True):
            tally = tallies.setdefault((family, arch), Tally())
            try:
                got, executed = on_engine(engine, function, text)
                problem = "; ".join(differences(function, want, got))
                tally.note(executed, cases_of(function))
            except SimulatorError as error:
                problem = f"{type(error).__name__}: {error}"
                tally.programs += 1
            if problem:
                tally.mismatches.append(_reduced(engine, function, family, arch, level, problem, directory))
    return tallies


def difference(engine: Engine, function: Function, arch: str, level: str, directory: Path) -> str:
    """What differs on one function; empty if nothing does."""
    batch = build([function], directory)
    return _difference(engine, batch, arch, level)


def _difference(engine: Engine, batch: Batch, arch: str, level: str) -> str:
    (function,) = batch.functions
    try:
        got, _ = on_engine(engine, function, compile_for_gpu(batch, arch, level))
    except SimulatorError as error:
        return f"{type(error).__name__}: {error}"
    return "; ".join(differences(function, on_cpu(batch, function), got))


def _reduced(
    engine: Engine, function: Function, family: str, arch: str, level: str, problem: str, directory: Path
) -> Mismatch:
    """The mismatch with the smallest function that still has one."""
    attempt = 0

    def fails(choices: list[int]) -> Choices | None:
        nonlocal attempt
        attempt += 1
        taken = Choices(None, choices)
        smaller = generate(function.seed, FAMILIES[family], taken)
        place = directory / f"shrink_{family}{function.seed}_{arch}_{attempt}"
        found = difference(engine, smaller, arch, level, place)
        return taken if found and ("Error:" in found) == ("Error:" in problem) else None

    first = Choices(function.seed)
    generate(function.seed, FAMILIES[family], first)
    best = shrink(first, fails, attempts=ATTEMPTS)
    smallest = generate(function.seed, FAMILIES[family], Choices(None, best))
    place = directory / f"smallest_{family}{function.seed}_{arch}"
    batch = build([smallest], place)
    message = _difference(engine, batch, arch, level)
    suspect = "engine" if _difference(engine, batch, arch, "0") else "clang"
    return Mismatch(family, arch, function.seed, message, level, suspect, entry_of(smallest, arch, level, message))


def entry_of(function: Function, arch: str, level: str, found: str) -> dict[str, Any]:
    """A function as the corpus keeps it: nothing of it depends on the generator."""
    return {
        "kind": "function",
        "found": found,
        "arch": arch,
        "level": level,
        "name": function.name,
        "seed": function.seed,
        "group_size": function.group_size,
        "groups": function.groups,
        "arrays": [
            {"name": a.name, "kind": a.kind.name, "per_item": a.per_item, "length": a.length, "is_input": a.is_input}
            for a in function.arrays
        ],
        "scalars": [[name, kind.name] for name, kind in function.scalars],
        "source": function.source.splitlines(),
    }


def function_of(entry: dict[str, Any]) -> Function:
    """The function of a corpus entry."""
    arrays = tuple(Array(**{**array, "kind": KINDS[array["kind"]]}) for array in entry["arrays"])
    scalars = tuple((name, KINDS[kind]) for name, kind in entry["scalars"])
    source = "\n".join(entry["source"]) + "\n"
    return Function(entry["name"], entry["seed"], arrays, scalars, entry["group_size"], entry["groups"], source)


def replay(engine: Engine, entry: dict[str, Any], directory: Path) -> str:
    """What differs on a corpus entry of a function."""
    return difference(engine, function_of(entry), entry["arch"], entry["level"], directory)

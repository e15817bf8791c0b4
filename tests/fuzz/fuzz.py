"""Checks the execution engine against references that were made apart from it, on generated programs.

``hatch run fuzz`` runs 100,000 cases of each family on each architecture; ``--family``, ``--arch``, ``--cases`` and
``--minutes`` choose fewer or more. A case is the result of one lane at one point of a generated program, compared with
what the reference gives for the same inputs: an element that one work-item of a compiled function stored, or the result
register of one active lane of an instruction. The same ``--seed`` makes the same programs. A program that differs is
made smaller and written to the corpus, whose entries ``hatch run test`` replays; one that the corpus knows for a fault
of the compiler is named, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import fuzz_functions
import fuzz_instructions
from fuzz_corpus import CORPUS, keep, known_fault
from fuzz_tally import Mismatch, Tally
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from wavecast.simulator.execute import registry
from wavecast.simulator.execute.engine import Engine

ARCHITECTURES = ("gfx942", "gfx950")
FUNCTION_FAMILIES = tuple(fuzz_functions.FAMILIES)
INSTRUCTION_FAMILIES = tuple(fuzz_instructions.FAMILIES)
FAMILIES = (*FUNCTION_FAMILIES, *INSTRUCTION_FAMILIES)
# Optimisation levels of clang, a batch each in turn.
LEVELS = ("2", "1", "3", "s")
# Functions that are compiled together; programs of instructions that are run together.
FUNCTIONS_A_BATCH, PROGRAMS_A_BATCH = 8, 16
# Seeds of one run lie within this distance of each other, so that runs with other seeds have other programs.
_SEEDS_A_RUN = 10_000_000


@dataclass(frozen=True, slots=True)
class Task:
    """A batch of programs of one family on some architectures."""

    family: str
    seeds: range
    archs: tuple[str, ...]


_engine: Engine | None = None


def perform(task: Task) -> dict[str, Tally]:
    """Run one batch, in whichever process."""
    global _engine
    if task.family in INSTRUCTION_FAMILIES:
        return fuzz_instructions.run_batch(task.family, task.seeds, task.archs)
    _engine = _engine or Engine()
    programs = [(task.family, seed) for seed in task.seeds]
    level = LEVELS[task.seeds.start // len(task.seeds) % len(LEVELS)]
    with tempfile.TemporaryDirectory(prefix="wavecast-fuzz-") as directory:
        tallies = fuzz_functions.run_batch(_engine, programs, task.archs, level, Path(directory))
    return {arch: tallies[task.family, arch] for arch in task.archs}


@dataclass(slots=True)
class Campaign:
    """What is to run, and what has run.

    Attributes:
        families: Names.
        archs: Architectures.
        cases: Wanted for each family on each architecture.
        seed: Where seeds begin.
        deadline: When to stop (``time.monotonic``).
        tallies: By family and architecture.
        faults: Programs that differ by a known fault of the compiler, each with the corpus entry that says so.
    """

    families: tuple[str, ...]
    archs: tuple[str, ...]
    cases: int
    seed: int
    deadline: float
    tallies: dict[tuple[str, str], Tally]
    faults: list[tuple[Mismatch, Path]] = field(default_factory=list)

    def missing(self, family: str) -> tuple[str, ...]:
        """Architectures on which the family has too few cases."""
        return tuple(arch for arch in self.archs if self.tallies[family, arch].cases < self.cases)

    def tasks(self) -> Iterator[Task | None]:
        """The next batch, family by family in turn; None where all that is missing is on its way."""
        following = dict.fromkeys(self.families, self.seed * _SEEDS_A_RUN)
        while time.monotonic() < self.deadline:
            waiting = [family for family in self.families if self.missing(family)]
            if not waiting:
                return
            for family in waiting:
                archs = self.missing(family)
                if archs and time.monotonic() < self.deadline:
                    size = PROGRAMS_A_BATCH if family in INSTRUCTION_FAMILIES else FUNCTIONS_A_BATCH
                    first = following[family]
                    following[family] += size
                    yield Task(family, range(first, first + size), archs)

    def add(self, family: str, tallies: dict[str, Tally]) -> None:
        for arch, tally in tallies.items():
            known = [(mismatch, known_fault(mismatch)) for mismatch in tally.mismatches]
            self.faults += [(mismatch, path) for mismatch, path in known if path]
            tally.mismatches = [mismatch for mismatch, path in known if not path]
            self.tallies[family, arch].add(tally)


def run(campaign: Campaign, jobs: int, console: Console) -> None:
    """Run tasks in this process or in several, with a progress bar."""
    total = campaign.cases * len(campaign.tallies)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("cases", total=total)

        def done(task: Task, tallies: dict[str, Tally]) -> None:
            campaign.add(task.family, tallies)
            for tally in tallies.values():
                for mismatch in tally.mismatches:
                    path = keep(mismatch)
                    console.print(f"{mismatch}\n  smallest program: {path}", markup=False, soft_wrap=True)
            reached = sum(min(tally.cases, campaign.cases) for tally in campaign.tallies.values())
            progress.update(bar, completed=reached, description=f"cases ({task.family})")

        if jobs == 1:
            for task in campaign.tasks():
                done(task, perform(task))
            return
        running: dict[Future[dict[str, Tally]], Task] = {}
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            for task in campaign.tasks():
                running[pool.submit(perform, task)] = task
                if len(running) >= jobs:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        done(running.pop(future), future.result())
            for future, task in running.items():
                done(task, future.result())


def coverage(campaign: Campaign) -> tuple[Tally, list[str]]:
    """Sums over all families, and the opcodes of the engine that nothing executed."""
    total = Tally()
    for tally in campaign.tallies.values():
        total.add(tally)
    return total, sorted(set(registry.opcodes()) - total.executed.keys())


def show(campaign: Campaign, console: Console, seconds: float) -> None:
    """Print cases by family and architecture, and the coverage of opcodes."""
    table = Table("family", *(f"{arch} {what}" for arch in campaign.archs for what in ("cases", "programs")), "differ")
    for family in campaign.families:
        tallies = [campaign.tallies[family, arch] for arch in campaign.archs]
        numbers = [f"{number:,}" for tally in tallies for number in (tally.cases, tally.programs)]
        table.add_row(family, *numbers, str(sum(len(tally.mismatches) for tally in tallies)))
    console.print(table)
    total, never = coverage(campaign)
    known = registry.opcodes()
    console.print(
        f"{total.cases:,} cases in {total.programs:,} programs, {seconds:.0f} s; "
        f"{len(total.mismatches)} programs differ"
    )
    for mismatch, path in campaign.faults:
        console.print(f"known fault of the compiler: {mismatch.place}; {path} says why")
    console.print(f"opcodes executed: {len(known) - len(never)} of {len(known)}")
    if never:
        console.print(f"never executed: {' '.join(never)}", highlight=False)


def write_report(campaign: Campaign, path: Path) -> None:
    """Counts as JSON: by family and architecture, and each opcode's executions by waves and programs."""
    total, never = coverage(campaign)
    report = {
        "schema": "wavecast.fuzz/1",
        "cases": total.cases,
        "programs": total.programs,
        "families": {
            f"{family} {arch}": {"cases": tally.cases, "programs": tally.programs, "differ": len(tally.mismatches)}
            for (family, arch), tally in campaign.tallies.items()
        },
        "opcodes": {
            opcode: {"waves": total.executed[opcode], "programs": total.programs_with[opcode]}
            for opcode in sorted(total.executed)
        },
        "never": never,
        "mismatches": [str(mismatch) for mismatch in total.mismatches],
        "faults_of_the_compiler": [{"program": m.place, "entry": path.name} for m, path in campaign.faults],
    }
    path.write_text(json.dumps(report, indent=1) + "\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000, help="for each family on each architecture")
    parser.add_argument("--seed", type=int, default=0, help="which programs")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one; may be repeated")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="only this one; may be repeated")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--jobs", type=int, default=1, help="processes; with several, a family may run a batch more")
    parser.add_argument("--report", type=Path, help="JSON file for the counts, opcodes included")
    chosen = parser.parse_args(arguments)
    if chosen.cases < 1 or chosen.jobs < 1 or chosen.minutes <= 0:
        parser.error("--cases, --jobs and --minutes must be positive")
    return chosen


def main(arguments: list[str]) -> int:
    """Exit status: 0 if none differs but by a known fault of the compiler, 1 if one does, 3 without a compiler."""
    chosen = parse(arguments)
    console = Console(stderr=True)
    families = tuple(dict.fromkeys(chosen.family or FAMILIES))
    reason = fuzz_functions.why_not()
    if reason and set(families) & set(FUNCTION_FAMILIES):
        print(f"{reason}; without it: --family {' --family '.join(INSTRUCTION_FAMILIES)}", file=sys.stderr)
        return 3
    archs = tuple(dict.fromkeys(chosen.arch or ARCHITECTURES))
    start = time.monotonic()
    tallies = {(family, arch): Tally() for family in families for arch in archs}
    campaign = Campaign(families, archs, chosen.cases, chosen.seed, start + 60 * chosen.minutes, tallies)
    run(campaign, chosen.jobs, console)
    show(campaign, Console(soft_wrap=True), time.monotonic() - start)
    if chosen.report:
        write_report(campaign, chosen.report)
    found = [mismatch for tally in tallies.values() for mismatch in tally.mismatches]
    if found:
        console.print(f"programs that differ are in {CORPUS}", soft_wrap=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

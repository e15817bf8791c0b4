"""What fuzzing counts: cases, programs, executions of opcodes, and mismatches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A program on which the engine and the reference differ.

    Attributes:
        family: Of the program.
        arch: Architecture.
        seed: Of the program.
        message: What differs.
        level: Optimisation level of clang; empty for instructions.
        suspect: ``engine``, or ``clang`` if its code of ``-O0`` gives the reference's result.
        entry: What the corpus keeps of the smallest program.
    """

    family: str
    arch: str
    seed: int
    message: str
    level: str = ""
    suspect: str = "engine"
    entry: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Which program."""
        level = f", -O{self.level}" if self.level else ""
        return f"{self.family}, {self.arch}{level}, seed {self.seed}"

    def __str__(self) -> str:
        return f"{self.place} ({self.suspect}): {self.message}"


@dataclass(slots=True)
class Tally:
    """Counts of one family on one architecture, or sums of them.

    Attributes:
        cases: Values that were compared: one lane's result at one program point.
        programs: Generated programs.
        executed: Opcode → how often a wave executed it.
        programs_with: Opcode → in how many programs it was executed.
        mismatches: Programs with another result than the reference's.
    """

    cases: int = 0
    programs: int = 0
    executed: Counter[str] = field(default_factory=Counter)
    programs_with: Counter[str] = field(default_factory=Counter)
    mismatches: list[Mismatch] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.programs += other.programs
        self.executed += other.executed
        self.programs_with += other.programs_with
        self.mismatches += other.mismatches

    def note(self, executed: Counter[str], cases: int) -> None:
        """One program ran."""
        self.cases += cases
        self.programs += 1
        self.executed += executed
        self.programs_with.update(executed.keys())

"""Who runs next, for how long, and when a copy lands: drawn from a seed, or one order of many after the other."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Protocol

# Memory accesses after which a workgroup may be preempted at most: the ring that records them holds one more.
MOST_ACCESSES = 2048
_MOST_INSTRUCTIONS = 1 << 14
_LONG_SHARE = 0.2
# Slices that a delay takes at most.
_LONGEST_DELAY = 512
_SLOWEST = 1 / 16
_PIECES = 4


class Policy(Protocol):
    """Decides whatever a real machine leaves open. Time counts in slices of workgroups."""

    def begin(self, ranks: int) -> None:
        """A node of so many ranks starts."""
        ...

    def first_engines(self, xcds: int, engines: int) -> list[int]:
        """Shader engine of each XCD that gets the first workgroup."""
        ...

    def slice(self) -> tuple[int, int]:
        """Memory accesses and instructions after which a workgroup is preempted."""
        ...

    def start_delay(self) -> int:
        """Slices between the moment that a queue's next operation or a rank's program could go on and that it does."""
        ...

    def copy_delays(self, nbytes: int) -> list[int] | None:
        """Slices until each piece of a copy lands; None: whenever ``landing`` says so, in one piece."""
        ...

    def choose(self, ready: Sequence[Sequence[object]]) -> tuple[int, int]:
        """Rank and position of the workgroup that runs, of those that can, given for each rank; one has some."""
        ...

    def landing(self, copies: Sequence[object]) -> int:
        """Which of the copies in flight lands, where nothing else can happen."""
        ...

    def program(self, count: int) -> int:
        """Which of so many ranks whose programs can go on does."""
        ...


class Seeded:
    """Everything drawn from a seed: short slices and long ones, slow ranks, copies that land late and in pieces.

    Args:
        seed: The same seed gives the same interleaving.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._speeds: list[float] = []

    def begin(self, ranks: int) -> None:
        """Draw how fast each rank is."""
        self._speeds = [math.exp(self._random.uniform(math.log(_SLOWEST), 0)) for _ in range(ranks)]

    def first_engines(self, xcds: int, engines: int) -> list[int]:
        """Any."""
        return [self._random.randrange(engines) for _ in range(xcds)]

    def slice(self) -> tuple[int, int]:
        """Each power of two alike, so that a preemption hits both within and between straight pieces of code.

        One slice of a few is a long one, which carries most of the work.
        """
        if self._random.random() < _LONG_SHARE:
            return MOST_ACCESSES, _MOST_INSTRUCTIONS
        return self._up_to(MOST_ACCESSES), max(64, self._up_to(_MOST_INSTRUCTIONS))

    def start_delay(self) -> int:
        """Half of the operations start at once."""
        return 0 if self._random.random() < 0.5 else self._up_to(_LONGEST_DELAY)

    def copy_delays(self, nbytes: int) -> list[int] | None:
        """One to a few pieces, each with a delay of its own."""
        return [self._up_to(_LONGEST_DELAY) for _ in range(min(self._random.randint(1, _PIECES), max(nbytes, 1)))]

    def choose(self, ready: Sequence[Sequence[object]]) -> tuple[int, int]:
        """A rank by its speed, then any of its workgroups."""
        ranks = [rank for rank, tasks in enumerate(ready) if tasks]
        [rank] = self._random.choices(ranks, [self._speeds[rank] for rank in ranks]) if len(ranks) > 1 else ranks
        return rank, self._random.randrange(len(ready[rank]))

    def landing(self, copies: Sequence[object]) -> int:
        """Never asked."""
        return 0

    def program(self, count: int) -> int:
        """Any."""
        return self._random.randrange(count)

    def _up_to(self, limit: int) -> int:
        return int(2 ** self._random.uniform(0, math.log2(limit)))


class Ordered:
    """One order in which copies land; all else is fixed, and a copy lands only when nothing else can happen.

    Args:
        choices: Which of the copies in flight lands, for the first times that there are several; then the first one.

    Attributes:
        taken: What was chosen, and of how many, each time that there were several.
    """

    def __init__(self, choices: Sequence[int] = ()) -> None:
        self._choices = choices
        self._latest = -1
        self.taken: list[tuple[int, int]] = []

    def begin(self, ranks: int) -> None:
        """Nothing to draw."""

    def first_engines(self, xcds: int, engines: int) -> list[int]:
        """The first ones."""
        return [0] * xcds

    def slice(self) -> tuple[int, int]:
        """Long ones."""
        return MOST_ACCESSES, _MOST_INSTRUCTIONS

    def start_delay(self) -> int:
        """None."""
        return 0

    def copy_delays(self, nbytes: int) -> list[int] | None:
        """Left to ``landing``."""
        return None

    def choose(self, ready: Sequence[Sequence[object]]) -> tuple[int, int]:
        """Ranks in turn, and in each the first: a workgroup that ran goes to the end of its rank's line."""
        turns = ((self._latest + step) % len(ready) for step in range(1, len(ready) + 1))
        self._latest = next(rank for rank in turns if ready[rank])
        return self._latest, 0

    def landing(self, copies: Sequence[object]) -> int:
        """The next choice."""
        if len(copies) == 1:
            return 0
        turn = len(self.taken)
        chosen = self._choices[turn] if turn < len(self._choices) else 0
        self.taken.append((chosen, len(copies)))
        return chosen

    def program(self, count: int) -> int:
        """The first."""
        return 0


def every_order() -> Iterator[Ordered]:
    """A policy for each order in which the copies of a program can land; run the program from its start under each.

    The generator looks at what a policy has chosen before it makes the next, so run the program between the two.
    """
    choices: list[int] = []
    while True:
        policy = Ordered(choices)
        yield policy
        taken = policy.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        choices = [*(chosen for chosen, _ in taken[:-1]), taken[-1][0] + 1]

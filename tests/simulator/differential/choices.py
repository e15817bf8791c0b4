"""Random choices that are written down, so that a program can be made again from fewer and smaller ones.

A generator that takes its choices from here makes a valid program from any list of them: what is missing is 0. To
shrink a program is then to shrink the list, and no pass needs to know C. Generators name the choices of a part of the
program, a span, and make the part's shortest form, which takes no further choice, of a first choice of 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_BITS = 32
# One part in so many has its shortest form.
_SHORT = 64


class Choices(random.Random):
    """A source of random numbers that replays a list of 32-bit choices, or draws and keeps them.

    Attributes:
        taken: Every choice so far.
        spans: Where the choices of a part of the program begin and end.
    """

    def __new__(cls, *_: object) -> Choices:
        return super().__new__(cls)

    def __init__(self, seed: int | None, replay: Sequence[int] = ()) -> None:
        """With a ``seed`` choices are drawn; without one they come from ``replay`` and then are 0."""
        super().__init__(0)
        self._source = None if seed is None else random.Random(seed)
        self._replay = list(replay)
        self.taken: list[int] = []
        self.spans: list[tuple[int, int]] = []

    @contextmanager
    def span(self) -> Iterator[bool]:
        """The choices of one part; the value says whether it is to have its shortest form."""
        start = len(self.taken)
        yield not self.randrange(_SHORT)
        self.spans.append((start, len(self.taken)))

    def _next(self) -> int:
        if self._source is not None:
            value = self._source.getrandbits(_BITS)
        else:
            position = len(self.taken)
            value = self._replay[position] if position < len(self._replay) else 0
        self.taken.append(value)
        return value

    def random(self) -> float:
        return self._next() / (1 << _BITS)

    def getrandbits(self, k: int) -> int:
        value = 0
        for _ in range(-(-k // _BITS)):
            value = value << _BITS | self._next()
        return value & ((1 << k) - 1) if k % _BITS == 0 else value >> (-k % _BITS)

    def _randbelow(self, n: int) -> int:
        # One choice for every number of alternatives; 0 is the first of them.
        return self._next() * n >> _BITS if n <= 1 << _BITS else self.getrandbits(n.bit_length()) % n


def shrink(first: Choices, fails: Callable[[list[int]], Choices | None], *, attempts: int = 400) -> list[int]:
    """A shorter list that still fails.

    Args:
        first: Choices of a program that fails.
        fails: The choices that the program of a list took if it fails, else None.
        attempts: How often ``fails`` is asked at most.
    """
    best = first
    asked = 0
    improved = True
    while improved:
        improved = False
        for attempt in _simpler(best):
            if asked >= attempts:
                return best.taken
            asked += 1
            smaller = fails(attempt)
            if smaller is not None and (len(smaller.taken), smaller.taken) < (len(best.taken), best.taken):
                best, improved = smaller, True
                break
    return best.taken


def _simpler(best: Choices) -> Iterator[list[int]]:
    """Without a part or with its shortest form, large parts first; then with zeros; then with halves."""
    choices = best.taken
    for start, end in sorted(set(best.spans), key=lambda span: span[0] - span[1]):
        if end - start > 1:
            yield choices[:start] + choices[end:]
            yield [*choices[:start], 0, *choices[end:]]
    size = min(len(choices), 16)
    while size:
        for start in range(0, len(choices), size):
            if any(choices[start : start + size]):
                yield choices[:start] + [0] * len(choices[start : start + size]) + choices[start + size :]
        size //= 2
    for place, choice in enumerate(choices):
        if choice > 1:
            yield [*choices[:place], choice // 2, *choices[place + 1 :]]

"""Compute units of one GPU and who holds them, by shader engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Units:
    """Free units by shader engine.

    The dispatcher hands workgroups to shader engines in turn, whether they have room or not. Where its turn stands is
    not known to a program, so a workgroup counts on room only where every engine has some.
    """

    free: list[int]

    @classmethod
    def of(cls, units_per_engine: tuple[int, ...]) -> Units:
        return cls(list(units_per_engine))

    def take(self, wanted: int, *, few: bool) -> list[int]:
        """Take up to ``wanted`` units for workgroups that are spread over the engines in turn.

        Args:
            wanted: Workgroups.
            few: Whether the whole launch has fewer workgroups than there are engines: then all may be due where there
                is least room, and wait for it.

        Returns:
            Units taken of each engine; together fewer than wanted where there is no room.
        """
        engines = len(self.free)
        order = sorted(range(engines), key=self.free.__getitem__)
        taken = [0] * engines
        each, more = divmod(wanted, engines)
        for place, index in enumerate(order):
            taken[index] = min(each + (place < more), self.free[index])
        left = 0 if few else wanted - sum(taken)
        for index in order:
            extra = min(left, self.free[index] - taken[index])
            taken[index] += extra
            left -= extra
        for index, count in enumerate(taken):
            self.free[index] -= count
        return taken

    def give(self, taken: list[int]) -> None:
        """Give units back."""
        for index, count in enumerate(taken):
            self.free[index] += count

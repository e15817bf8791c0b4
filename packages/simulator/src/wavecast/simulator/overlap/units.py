"""Compute units of one GPU and who holds them, by shader engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Units:
    """Units of each shader engine, all of them and those that are free.

    The dispatcher hands workgroups to shader engines in turn, whether they have room or not. Where its turn stands is
    not known to a program, so the worst is assumed where it decides whether anything goes on at all: a lone workgroup
    counts on room only where every engine has some, and what a kernel that keeps its units has beyond an even share is
    on the engines that have fewest.
    """

    all: tuple[int, ...]
    free: list[int]

    @classmethod
    def of(cls, units_per_engine: tuple[int, ...]) -> Units:
        return cls(units_per_engine, list(units_per_engine))

    def shares(self, workgroups: int) -> list[int]:
        """Workgroups of each engine, of a kernel that keeps its units: as even as fits."""
        order = sorted(range(len(self.all)), key=self.all.__getitem__)
        each, more = divmod(workgroups, len(order))
        shares = [0] * len(order)
        for place, index in enumerate(order):
            shares[index] = min(each + (place < more), self.all[index])
        left = workgroups - sum(shares)
        for index in order:
            extra = min(left, self.all[index] - shares[index])
            shares[index] += extra
            left -= extra
        return shares

    def take_shares(self, wanted: int, shares: list[int]) -> list[int]:
        """Take up to ``wanted`` units, of each engine at most its part of ``shares``."""
        taken = [0] * len(self.free)
        for index, share in enumerate(shares):
            taken[index] = min(share, self.free[index], wanted)
            wanted -= taken[index]
            self.free[index] -= taken[index]
        return taken

    def last(self, workgroups: int, promised: list[int]) -> list[int]:
        """Engines of a launch of fewer workgroups than there are engines: those with least room, one each.

        Args:
            workgroups: How many.
            promised: Units of each engine that other launches will take.
        """
        order = sorted(range(len(self.free)), key=lambda index: self.free[index] - promised[index])
        shares = [0] * len(order)
        for index in order[:workgroups]:
            shares[index] = 1
        return shares

    def take_any(self, wanted: int) -> list[int]:
        """Take up to ``wanted`` units wherever they are, from where most are free."""
        taken = [0] * len(self.free)
        total = sum(self.free)
        count = min(wanted, total)
        for index, have in enumerate(self.free):
            taken[index] = have * count // total if total else 0
        left = count - sum(taken)
        for index, have in enumerate(self.free):
            more = min(left, have - taken[index])
            taken[index] += more
            left -= more
            self.free[index] -= taken[index]
        return taken

    def give(self, taken: list[int]) -> None:
        """Give units back."""
        for index, count in enumerate(taken):
            self.free[index] += count

"""What the ranks of a test are asked for; a module of its own, since their processes import it."""

from __future__ import annotations

import os

import torch.distributed as dist

from wavecast.cli.measuring.ranks import Rank


def refuse(me: Rank) -> None:
    """All refuse it alike."""
    raise ValueError("not on two ranks")


def gone(me: Rank) -> None:
    """One rank ends while the others wait for it."""
    if me.rank == 1:
        os._exit(3)
    dist.barrier()

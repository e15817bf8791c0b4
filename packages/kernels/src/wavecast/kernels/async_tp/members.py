"""Which GPUs the ranks of a group are on: told by the ranks, since a group may be of any of them, in any order."""

from __future__ import annotations

import torch
import torch.distributed as dist

_devices: dict[int, tuple[dist.ProcessGroup, tuple[int, ...] | None]] = {}
"""By the identity of the group, which is kept."""


def devices_of(group: dist.ProcessGroup) -> tuple[int, ...] | None:
    """Numbers that the GPUs of a group's ranks have in this process, by rank; None where not all are to be seen here.

    Every rank's current GPU counts. The first call for a group is made by all of its ranks, which tell each other.
    Ranks that share a GPU have no numbers: what leads from one to another cannot be asked for.
    """
    found = _devices.get(id(group))
    if found is None:
        told: list[str] = [""] * group.size()
        dist.all_gather_object(told, _identity(torch.cuda.current_device()), group=group)
        found = _devices[id(group)] = group, numbers_of(told, [*map(_identity, range(torch.cuda.device_count()))])
    return found[1]


def numbers_of(told: list[str], here: list[str]) -> tuple[int, ...] | None:
    """Where the GPUs that ranks have told of are among this process's; None for one that is not, or told of twice."""
    if len(set(told)) < len(told) or not set(told) <= set(here):
        return None
    return tuple(map(here.index, told))


def _identity(device: int) -> str:
    """What a GPU is called by every process and on every node."""
    return str(torch.cuda.get_device_properties(device).uuid)

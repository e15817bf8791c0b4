"""Groups of torch.distributed: their workspaces, made when first needed and kept, and whether memory is shared."""

from __future__ import annotations

import os
from functools import cache

import torch
import torch.distributed as dist

from wavecast.kernels.async_tp.members import devices_of
from wavecast.kernels.async_tp.symmetric import COMPUTE
from wavecast.kernels.async_tp.torch_memory import TorchSymmetricMemory
from wavecast.kernels.async_tp.workspace import Workspace, make_workspace, scales_offset

_workspaces: dict[tuple[int, int], tuple[dist.ProcessGroup, Workspace]] = {}
"""By the identity of the group, which is kept, and the device: its name takes longer to ask for."""
_captured: set[Workspace] = set()
"""Those that graphs may have the addresses of: they live on when the group has another one."""

SHARED_VARIABLE = "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"
"""PyTorch's: ranks may have symmetric memory on one GPU, on which they take turns."""

SMALLEST_WINDOW_BYTES = 64 << 20
"""Windows are made at least this large, so that a few calls of growing size do not make one each."""


def group_of(group: dist.ProcessGroup | str) -> dist.ProcessGroup:
    """A process group, given itself or its name."""
    if not isinstance(group, str):
        return group
    found: dist.ProcessGroup = dist.distributed_c10d._resolve_process_group(group)  # type: ignore[attr-defined, arg-type]
    return found


def is_symmetric(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Whether the ranks of a group are GPUs of one node that reach each other's memory, or, in tests, share a GPU.

    All ranks ask, at their first call: they tell each other which GPUs they are on.
    """
    if device.type != "cuda":
        return False
    if group.size() > torch.cuda.device_count():
        return SHARED_VARIABLE in os.environ
    peers = devices_of(group)
    return peers is not None and _reaches(torch.cuda.current_device(), peers)


@cache
def _reaches(here: int, peers: tuple[int, ...]) -> bool:
    return all(torch.cuda.can_device_access_peer(here, other) for other in peers if other != here)


def workspace_of(group: dist.ProcessGroup, window_bytes: int) -> Workspace:
    """The group's workspace on the current GPU, with windows of at least a size; made anew, by all ranks, if larger.

    A group that is made when another one has been destroyed may have its name, and no part in its workspace.

    Raises:
        RuntimeError: it would have to be made while a graph is captured.
        SignalTimeoutError: a kernel of an earlier call has given up.
    """
    key = (id(group), torch.cuda.current_device())
    _, found = _workspaces.get(key, (None, None))
    capturing = torch.cuda.is_current_stream_capturing()
    if found is not None:
        found.check()
        if found.memory.window_bytes >= window_bytes:
            if capturing:
                _captured.add(found)
            return found
    if capturing:
        raise RuntimeError(
            f"the group's windows are to hold {window_bytes} bytes and cannot be made while a graph is captured; make "
            "one call of this size before the capture"
        )
    size = max(SMALLEST_WINDOW_BYTES, 1 << (window_bytes - 1).bit_length())
    with torch.inference_mode(False):  # whose tensors could not be written outside of it
        memory = TorchSymmetricMemory(group, size)
        found = make_workspace(memory, memory.failure)
    for other, (owner, _) in list(_workspaces.items()):
        if other[1] == key[1] and owner.group_name == group.group_name:
            del _workspaces[other]
    _workspaces[key] = group, found
    return found


def shard_window(group: dist.ProcessGroup | str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """This rank's window as a tensor: a shard that is written there is gathered without being copied first.

    It may be written anew, on the same stream, when the call that gathers it has been made. A later call with a larger
    shard leaves it without use.

    Args:
        group: of GPUs that reach each other's memory; every rank calls this.
        shape: of the shard; gathered along the first dimension, so that no other layout is needed.
        dtype: of the shard.
    """
    group = group_of(group)
    size = torch.Size(shape).numel() * dtype.itemsize
    rows = torch.Size(shape[:-1]).numel()
    workspace = workspace_of(group, scales_offset(size) + 4 * rows)
    memory, workspace.lent = workspace.memory, True
    memory.barrier(memory.stream(COMPUTE))  # an earlier call's kernels may still read what is written there next
    return memory.window(memory.rank, tuple(shape), dtype)


def forget_workspace(group: dist.ProcessGroup | str) -> None:
    """Drop the group's workspace, on every rank, after a `SignalTimeoutError`; the next call makes one anew."""
    _workspaces.pop((id(group_of(group)), torch.cuda.current_device()), None)

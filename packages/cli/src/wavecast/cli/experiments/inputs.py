"""Inputs for experiments: tensors of any size that occupy no memory until somebody writes to them."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from wavecast.cli.errors import CliError

if TYPE_CHECKING:
    import torch


def lazy_bf16(*shape: int) -> torch.Tensor:
    """A bf16 tensor of zeros, contiguous, whose pages are mapped only where they are touched.

    A prediction executes a sample of the workgroups, so a tensor of gigabytes costs only the pages which these read;
    ``MAP_NORESERVE`` lets it be larger than the machine's memory.

    Args:
        shape: Sizes, outermost first.

    Raises:
        CliError: The machine has no room for it, not even on paper.
    """
    import torch

    count = 1
    for size in shape:
        count *= size
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        memory = mmap.mmap(-1, max(2 * count, 1), flags=flags)
    except (OSError, OverflowError) as error:
        raise CliError(
            f"no room for a bf16 tensor of {' x '.join(map(str, shape))}: {2 * count:,} bytes",
            hint="give smaller sizes",
        ) from error
    return torch.frombuffer(memory, dtype=torch.bfloat16, count=count).view(*shape)


def lazy_fp8(*shape: int) -> torch.Tensor:
    """FP8 zeros like ``lazy_bf16``, as bytes; ``as_fp8`` makes the device's format of them."""
    import torch

    *outer, last = shape
    return lazy_bf16(*outer, -(-last // 2)).view(torch.uint8)[..., :last]


def as_fp8(values: torch.Tensor) -> torch.Tensor:
    """Bytes as FP8 of the active device's native format; e4m3fnuz where there is no device."""
    from wavecast.kernels import E4M3FNUZ, active_arch, native_format

    arch = active_arch()
    return values.view((native_format(arch) if arch else E4M3FNUZ).dtype)


def ones(*shape: int) -> torch.Tensor:
    """fp32 scales of 1."""
    import torch

    return torch.ones(shape)


def equal_group_ends(tokens: int, groups: int) -> torch.Tensor:
    """End offsets of ``groups`` groups as equal as ``tokens`` allows: int32, shape (groups,)."""
    import torch

    ends = [tokens * (group + 1) // groups for group in range(groups)]
    return torch.tensor(ends, dtype=torch.int32)

"""Kernels with one fault each, and what checks say of them."""

from __future__ import annotations

import warnings
from contextlib import suppress

import torch
import triton
import triton.language as tl

from wavecast.simulator.checks import Check, CheckWarning, mark_never_written
from wavecast.simulator.errors import InstructionBudgetError
from wavecast.simulator.virtual import VirtualDevice, virtual_device


@triton.jit
def overlapping_tiles(x, out, n, BLOCK: tl.constexpr):
    """The step between tiles is smaller than a tile."""
    index = tl.program_id(0) * (BLOCK - 32) + tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index, mask=index < n) + tl.program_id(0), mask=index < n)


@triton.jit
def forgotten_tail(x, out, n, BLOCK: tl.constexpr):
    """The last elements of ``out`` are summed, and nobody wrote them."""
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index), mask=index < n)
    tl.debug_barrier()
    total = tl.sum(tl.load(out + index), axis=0)
    tl.store(x, total)


@triton.jit
def relaxed_flag(data, flag, out, BLOCK: tl.constexpr):
    """Workgroup 0 hands data to workgroup 1 by a flag that it sets without a release."""
    index = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data + index, index)
        tl.debug_barrier()
        tl.atomic_xchg(flag, 1, sem="relaxed", scope="gpu")
    else:
        while tl.atomic_add(flag, 0, sem="acquire", scope="gpu") != 1:
            pass
        tl.store(out + index, tl.load(data + index))


@triton.jit
def waits_for_a_later_one(flag):
    """Workgroup 0 waits for workgroup 1, which may only start when 0 has ended."""
    if tl.program_id(0) == 0:
        while tl.atomic_add(flag, 0, sem="acquire", scope="gpu") != 1:
            pass
    else:
        tl.atomic_xchg(flag, 1, sem="release", scope="gpu")


def show(device: VirtualDevice, *wanted: Check) -> None:
    """Print what was found, which must be what was planted."""
    for finding in device.findings:
        print(finding, end="\n\n")
    assert {finding.check for finding in device.findings} == set(wanted)


def main() -> None:
    """Launch each of them."""
    # They are printed below.
    warnings.simplefilter("ignore", CheckWarning)

    with virtual_device("mi300x", check=True) as device:
        overlapping_tiles[(4,)](torch.randn(1000), torch.zeros(1000), 1000, BLOCK=256)
    show(device, Check.RACE)

    out = torch.empty(128)
    mark_never_written(out)
    with virtual_device("mi300x", check=True) as device:
        forgotten_tail[(1,)](torch.randn(128), out, 100, BLOCK=128)
    show(device, Check.NEVER_WRITTEN)

    data, flag, out = (torch.zeros(size, dtype=torch.int32) for size in (256, 1, 256))
    with virtual_device("mi355x", check=True) as device:
        relaxed_flag[(2,)](data, flag, out, BLOCK=256)
    show(device, Check.MISSING_RELEASE)

    # It would never end, so this finding is also an error.
    with virtual_device("mi355x", check=True) as device, suppress(InstructionBudgetError):
        waits_for_a_later_one[(2,)](torch.zeros(1, dtype=torch.int32))
    show(device, Check.SPIN)


if __name__ == "__main__":
    main()

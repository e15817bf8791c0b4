"""What the last cache before memory still holds of writes when a launch ends, and who pays for them later.

Where L2s write back at the end of a launch that is the memory-side cache behind them: it takes 5.5 TB/s of writes into
a buffer that fits it on MI300X, more than the peak of its HBM, so they stay there. What was written last stays, and
goes when as much has come as there is room for.

Otherwise it is the one L2, which writes nothing back then. As the profiler of an H200 counts it
(``tests/simulator/traffic/test_dirty.py`` has the figures):

* What such an L2 holds dirty at the end is the share that writes have in what came last, as much as it has room for;
  copies of lines in its other half take no room from what is dirty.
* No more than a share of it is ever dirty (``l2.dirty_share``): beyond that it writes while the launch runs.
* What was dirty before goes when as much has come as the L2 finds again, and then as half of what goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.devices import Device


@dataclass(frozen=True, slots=True)
class Residue:
    """What the launches of a stream have left in the last cache before memory.

    Attributes:
        line_bytes: Of lines that they brought.
        dirty_bytes: Of these, written and not yet in memory.
    """

    line_bytes: float = 0.0
    dirty_bytes: float = 0.0


NOTHING = Residue()


class Caches(StrEnum):
    """What a measurement leaves in the caches before the call that it times.

    * ``clean``: nothing of the call, and nothing that still has to be written to memory: a large buffer was read.
    * ``dirty``: nothing of the call, and as much that has to be written first as there is room for: a large buffer was
      written, as ``triton.testing.do_bench`` writes 256 MiB of zeros.
    """

    CLEAN = "clean"
    DIRTY = "dirty"


# 0.47 to 0.50 bytes written for each that is read, with 8 to 24 MiB dirty before.
_DIRTY_OF_WHAT_GOES = 0.5


def writes_back(device: Device) -> bool:
    """Whether L2s write back what is dirty in them when a launch ends, as those do that are not alone."""
    return device.l2.write_back_bytes_per_clk is not None


def held_bytes(read_bytes: float, written_bytes: float, device: Device) -> float:
    """Dirty bytes that the L2 of such a device holds when a launch ends.

    Args:
        read_bytes: Of the launch, from HBM.
        written_bytes: Distinct bytes that it writes.
        device: The constants.
    """
    if not written_bytes:
        return 0.0
    room = _room_bytes(device)
    came_last = room * written_bytes / (read_bytes + written_bytes)
    return min(written_bytes, came_last, device.l2.dirty_share * room)


def written_among(
    read_bytes: float, written_bytes: float, device: Device, *, before: Residue | None
) -> tuple[float, Residue]:
    """Bytes that go to HBM while a launch runs, and what it leaves.

    It does not pay for what it leaves dirty itself, but for what others left, as far as it pushes that out.

    Args:
        read_bytes: Of the launch, from HBM.
        written_bytes: That it writes.
        device: The constants.
        before: What earlier launches of the stream left; None in a chain of equals, each of which pushes out as much
            as it leaves.
    """
    if writes_back(device):
        return (
            (written_bytes, NOTHING)
            if before is None
            else _written_behind_l2s(read_bytes, written_bytes, device, before)
        )
    found_again = device.l2.bytes_per_xcd * device.compute.num_xcd
    held = held_bytes(read_bytes, written_bytes, device)
    brought = read_bytes + written_bytes
    if before is None:
        return written_bytes, Residue(min(found_again, brought), held)
    beyond = max(0.0, before.line_bytes + brought - found_again)
    pushed = min(before.dirty_bytes, _DIRTY_OF_WHAT_GOES * beyond)
    # Together they are no more dirty than one launch alone may leave it.
    pushed += max(0.0, held + before.dirty_bytes - pushed - device.l2.dirty_share * _room_bytes(device))
    left = Residue(min(found_again, before.line_bytes + brought), held + before.dirty_bytes - pushed)
    return written_bytes - held + pushed, left


def left_before(device: Device, caches: Caches) -> Residue:
    """What the first launch of a stream finds."""
    if caches is Caches.CLEAN:
        return NOTHING
    if writes_back(device):
        return Residue(_kept_bytes(device), _kept_bytes(device))
    return Residue(device.l2.bytes_per_xcd * device.compute.num_xcd, device.l2.dirty_share * _room_bytes(device))


def _written_behind_l2s(
    read_bytes: float, written_bytes: float, device: Device, before: Residue
) -> tuple[float, Residue]:
    """``written_among`` for the memory-side cache: what came first goes first, and a launch leaves its share of what
    came last."""
    room, brought = _kept_bytes(device), read_bytes + written_bytes
    own = written_bytes * min(1.0, room / max(1.0, brought))
    pushed = min(before.dirty_bytes, max(0.0, before.dirty_bytes + brought - room))
    left = Residue(min(room, before.line_bytes + brought), own + before.dirty_bytes - pushed)
    return written_bytes - own + pushed, left


def _kept_bytes(device: Device) -> float:
    """What a memory-side cache finds again."""
    return device.mall.bytes * device.mall.reuse_fraction


def _room_bytes(device: Device) -> float:
    """All of the L2: the capacity that the device names is what is left where lines that are read lie there twice."""
    return device.l2.bytes_per_xcd * device.compute.num_xcd * (device.l2.read_copies or 1.0)

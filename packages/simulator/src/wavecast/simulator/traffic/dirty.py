"""What an L2 that writes nothing back at the end of a launch still holds of writes, and who pays for them later.

As the profiler of an H200 counts it (``tests/simulator/traffic/test_dirty.py`` has the figures):

* What such an L2 holds dirty at the end is the share that writes have in what came last, as much as it has room for;
  copies of lines in its other half take no room from what is dirty.
* No more than a share of it is ever dirty (``l2.dirty_share``): beyond that it writes while the launch runs.
* What was dirty before goes when as much has come as the L2 finds again, and then as half of what goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.devices import Device


@dataclass(frozen=True, slots=True)
class Residue:
    """What the launches of a stream have left in the L2.

    Attributes:
        line_bytes: Of lines that they brought.
        dirty_bytes: Of these, written and not yet in memory.
    """

    line_bytes: float = 0.0
    dirty_bytes: float = 0.0


NOTHING = Residue()
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
        return written_bytes, NOTHING
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


def _room_bytes(device: Device) -> float:
    """All of the L2: the capacity that the device names is what is left where lines that are read lie there twice."""
    return device.l2.bytes_per_xcd * device.compute.num_xcd * (device.l2.read_copies or 1.0)

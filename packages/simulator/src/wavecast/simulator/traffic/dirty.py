"""What the last cache before memory still holds of writes when a launch ends, and who pays for them later.

Where L2s write back at the end of a launch that is the memory-side cache behind them: it takes 5.5 TB/s of writes into
a buffer that fits it on MI300X, more than the peak of its HBM, so they stay there. What came first goes first, read or
written, as soon as all that has come since needs its room.

Otherwise it is the one L2, which writes nothing back then. As the profiler of an H200 counts it
(``tests/simulator/traffic/test_dirty.py`` has the figures):

* What such an L2 holds dirty at the end is the share that writes have in what came last, as much as it has room for;
  copies of lines in its other half take no room from what is dirty.
* No more than a share of it is ever dirty (``l2.dirty_share``): beyond that it writes while the launch runs.
* What was dirty before goes when as much has come as the L2 finds again, and then as half of what goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from wavecast.simulator.devices import Device


class Layer(NamedTuple):
    """What one launch has left in the last cache before memory, or several of which it is not told apart.

    Attributes:
        line_bytes: Of lines that it brought.
        dirty_bytes: Of these, written and not yet in memory.
    """

    line_bytes: float
    dirty_bytes: float


@dataclass(frozen=True, slots=True)
class Residue:
    """What the launches of a stream have left in the last cache before memory.

    Attributes:
        layers: Of each launch of which something is left, the first one's first.
    """

    layers: tuple[Layer, ...] = ()

    @classmethod
    def of(cls, line_bytes: float, dirty_bytes: float) -> Residue:
        """Lines of one launch, or of launches that are not told apart."""
        return cls((Layer(line_bytes, dirty_bytes),))

    @property
    def line_bytes(self) -> float:
        """Of lines that are there."""
        return sum(layer.line_bytes for layer in self.layers)

    @property
    def dirty_bytes(self) -> float:
        """Of these, written and not yet in memory."""
        return sum(layer.dirty_bytes for layer in self.layers)


NOTHING = Residue()


class Caches(StrEnum):
    """What a measurement leaves in the caches before the call that it times.

    * ``clean``: nothing of the call, and nothing that still has to be written to memory: a large buffer was read.
    * ``dirty``: nothing of the call, and as much that has to be written first as stays in the cache: a large buffer was
      written, as ``triton.testing.do_bench`` writes 256 MiB of zeros.
    """

    CLEAN = "clean"
    DIRTY = "dirty"


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
    read_bytes: float, written_bytes: float, device: Device, *, before: Residue | None, rewritten_bytes: float = 0.0
) -> tuple[float, Residue]:
    """Bytes that go to HBM while a launch runs, and what it leaves.

    It does not pay for what it leaves dirty itself, but for what others left, as far as it pushes that out.

    Args:
        read_bytes: Of the launch, from HBM.
        written_bytes: That it writes.
        device: The constants.
        before: What earlier launches of the stream left; None in a chain of equals, each of which pushes out as much
            as it leaves.
        rewritten_bytes: Of what it writes, in lines that it has read from HBM: they take no room of their own.
    """
    brought = read_bytes + written_bytes - rewritten_bytes
    if writes_back(device):
        return (written_bytes, NOTHING) if before is None else _behind_l2s(brought, written_bytes, device, before)
    found_again = device.l2.bytes_per_xcd * device.compute.num_xcd
    held = held_bytes(read_bytes - rewritten_bytes, written_bytes, device)
    if before is None:
        return written_bytes, Residue.of(min(found_again, brought), held)
    beyond = max(0.0, before.line_bytes + brought - found_again)
    pushed = min(before.dirty_bytes, (device.l2.dirty_of_evicted or 1.0) * beyond)
    # Together they are no more dirty than one launch alone may leave it.
    pushed += max(0.0, held + before.dirty_bytes - pushed - device.l2.dirty_share * _room_bytes(device))
    left = Residue.of(min(found_again, before.line_bytes + brought), held + before.dirty_bytes - pushed)
    return written_bytes - held + pushed, left


def left_before(device: Device, caches: Caches) -> Residue:
    """What the first launch of a stream finds."""
    if caches is Caches.CLEAN:
        return NOTHING
    if writes_back(device):
        return Residue.of(_kept_bytes(device), _kept_bytes(device))
    return Residue.of(device.l2.bytes_per_xcd * device.compute.num_xcd, device.l2.dirty_share * _room_bytes(device))


def left_by_profiler(device: Device) -> Residue:
    """What the launch finds whose counters a profiler reads."""
    left_bytes = device.l2.profiler_dirty_bytes or 0.0
    return Residue.of(left_bytes, left_bytes)


def _behind_l2s(brought: float, written_bytes: float, device: Device, before: Residue) -> tuple[float, Residue]:
    """``written_among`` for the memory-side cache: what came first goes first, and a launch leaves its share of what
    came last."""
    room = _kept_bytes(device)
    own = Layer(min(room, brought), written_bytes * min(1.0, room / max(1.0, brought)))
    earlier, pushed = _without_first(before.layers, before.line_bytes + own.line_bytes - room)
    return written_bytes - own.dirty_bytes + pushed, Residue((*earlier, own))


def _without_first(layers: Sequence[Layer], line_bytes: float) -> tuple[list[Layer], float]:
    """Layers without the lines that came first, so many bytes of them, and what of these was dirty."""
    left, pushed, beyond = [], 0.0, max(0.0, line_bytes)
    for lines, dirty in layers:
        share = min(1.0, beyond / lines) if lines else 1.0
        beyond -= share * lines
        pushed += share * dirty
        if share < 1:
            left.append(Layer((1 - share) * lines, (1 - share) * dirty))
    return left, pushed


def _kept_bytes(device: Device) -> float:
    """What a memory-side cache finds again."""
    return device.mall.bytes * device.mall.reuse_fraction


def _room_bytes(device: Device) -> float:
    """All of the L2: copies of lines that are read take no room from what is dirty."""
    return device.l2.physical_bytes or device.l2.bytes_per_xcd * device.compute.num_xcd

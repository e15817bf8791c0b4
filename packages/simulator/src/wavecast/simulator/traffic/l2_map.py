"""Which channel and which set of an L2 a line belongs to.

Channels take turns every 256 bytes; the bits above pick the set within the channel. A hash of unknown form lies on top,
so there are two maps, and a prediction's interval holds both:

* *plain*: the address bits as they are. A stride of 256 KiB meets one set only.
* *hashed*: all groups of bits above the channel's are laid on the channel by exclusive or, and those above the set's on
  the set.

Either is a permutation: a contiguous, aligned range of the size of the L2 fills it exactly, as a pointer chase through
4 MiB on MI300X does. Of seven sparse products and k-means on MI300A whose rows are powers of two apart, the plain map
tells three right, hits or misses, and one half; the hashed one five, and two in part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wavecast.simulator.compiled import compiled
from wavecast.simulator.devices import Device


class L2Map(NamedTuple):
    """A map as plain numbers, for the compiled loops.

    Attributes:
        interleave_shift: Binary logarithm of the lines of one channel before the next has its turn.
        channel_bits: Binary logarithm of the channels of an XCD.
        set_bits: Binary logarithm of the sets of an XCD, over those that the other two numbers tell apart.
        hashed: Whether higher bits are laid on top: 0 or 1.
    """

    interleave_shift: int
    channel_bits: int
    set_bits: int
    hashed: int

    @property
    def channels(self) -> int:
        return 1 << self.channel_bits


def hashed_map(device: Device) -> L2Map:
    """The map that agrees best with what was measured."""
    return plain_map(device)._replace(hashed=1)


def plain_map(device: Device) -> L2Map:
    """Interleaving without a hash."""
    l2 = device.l2
    shift, channels = _log2(l2.interleave_bytes // l2.line_bytes), _log2(l2.channels_per_xcd)
    sets = _log2(l2.bytes_per_xcd // l2.line_bytes // l2.ways)
    return L2Map(shift, channels, sets - shift - channels, 0)


def _log2(value: int) -> int:
    return int(value).bit_length() - 1


@compiled
def _folded(bits: Any, width: Any, hashed: Any) -> Any:
    """The lowest ``width`` bits, with all groups of as many above them on top if hashed."""
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    if hashed and width and width & (width - 1) == 0:
        # Halves upon halves: the loop over all groups, in fewer steps. Written out, since every line comes by here.
        if width <= 32:
            bits ^= bits >> np.uint64(32)
        if width <= 16:
            bits ^= bits >> np.uint64(16)
        if width <= 8:
            bits ^= bits >> np.uint64(8)
        if width <= 4:
            bits ^= bits >> np.uint64(4)
        if width <= 2:
            bits ^= bits >> np.uint64(2)
        if width <= 1:
            bits ^= bits >> np.uint64(1)
        return bits & mask
    fold = bits & mask
    while hashed and bits:
        bits >>= np.uint64(width)
        fold ^= bits & mask
    return fold


@compiled
def channel_of(line: Any, interleave_shift: Any, channel_bits: Any, hashed: Any) -> Any:
    """Channel of a line within its XCD.

    Args:
        line: uint64.
        interleave_shift: Of ``L2Map``, as the next two.
        channel_bits: See there.
        hashed: See there.
    """
    return np.int64(_folded(line >> np.uint64(interleave_shift), channel_bits, hashed))


@compiled
def l2_set_of(line: Any, stride_bits: Any, interleave_shift: Any, channel_bits: Any, set_bits: Any, hashed: Any) -> Any:
    """Set of a line in an L2 of which all sets, or one in ``2**stride_bits``, are simulated.

    Args:
        line: uint64.
        stride_bits: Binary logarithm of the neighbouring lines that one line stands for.
        interleave_shift: Of ``L2Map``, as the next three.
        channel_bits: See there.
        set_bits: See there.
        hashed: See there.
    """
    beside = line & ((np.uint64(1) << np.uint64(interleave_shift)) - np.uint64(1))
    channel = _folded(line >> np.uint64(interleave_shift), channel_bits, hashed)
    above = _folded(line >> np.uint64(interleave_shift + channel_bits), set_bits, hashed)
    place = beside | (channel << np.uint64(interleave_shift)) | (above << np.uint64(interleave_shift + channel_bits))
    return np.int64(place >> np.uint64(stride_bits))

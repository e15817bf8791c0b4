"""Which channel and which set of an L2 a line belongs to.

Channels take turns every 256 bytes; what lies above them picks the set. A hash of unknown form lies on top, so there
are two maps, and a prediction's interval holds both:

* *plain*: the address bits as they are. A stride of 256 KiB meets one set only.
* *hashed*: the bits above those of the channel, up to ``l2.hashed_bits``, are folded into the channel by exclusive or.

Either is a permutation: a contiguous, aligned range of the size of the L2 fills it exactly, as a pointer chase through
4 MiB on MI300X does.
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
        hashed_line_bits: Lower bits of a line number that the hash sees; 0 for none.
    """

    interleave_shift: int
    channel_bits: int
    hashed_line_bits: int

    @property
    def channels(self) -> int:
        return 1 << self.channel_bits


def hashed_map(device: Device) -> L2Map:
    """The map that agrees best with what was measured."""
    return plain_map(device)._replace(hashed_line_bits=device.l2.hashed_bits - _log2(device.l2.line_bytes))


def plain_map(device: Device) -> L2Map:
    """Interleaving without a hash."""
    l2 = device.l2
    return L2Map(_log2(l2.interleave_bytes // l2.line_bytes), _log2(l2.channels_per_xcd), 0)


def _log2(value: int) -> int:
    return int(value).bit_length() - 1


@compiled
def channel_of(line: Any, interleave_shift: Any, channel_bits: Any, hashed_line_bits: Any) -> Any:
    """Channel of a line within its XCD.

    Args:
        line: uint64.
        interleave_shift: Of ``L2Map``, as the next two.
        channel_bits: See there.
        hashed_line_bits: See there.
    """
    mask = (np.uint64(1) << np.uint64(channel_bits)) - np.uint64(1)
    channel = (line >> np.uint64(interleave_shift)) & mask
    seen = line & ((np.uint64(1) << np.uint64(hashed_line_bits)) - np.uint64(1))
    rest = seen >> np.uint64(interleave_shift + channel_bits)
    while rest:
        channel ^= rest & mask
        rest >>= np.uint64(channel_bits)
    return np.int64(channel)


@compiled
def l2_set_of(line: Any, sets: Any, stride_bits: Any, interleave_shift: Any, channel_bits: Any, hashed: Any) -> Any:
    """Set of a line in an L2 of which all sets, or one in ``2**stride_bits``, are simulated.

    Args:
        line: uint64.
        sets: Sets simulated, a power of two; they stand for ``sets << stride_bits``.
        stride_bits: Binary logarithm of the neighbouring lines that one line stands for.
        interleave_shift: Of ``L2Map``, as the next two.
        channel_bits: See there.
        hashed: ``L2Map.hashed_line_bits``.
    """
    channel = channel_of(line, interleave_shift, channel_bits, hashed)
    beside = ((np.uint64(1) << np.uint64(channel_bits)) - np.uint64(1)) << np.uint64(interleave_shift)
    place = (line & ~beside) | (np.uint64(channel) << np.uint64(interleave_shift))
    return np.int64((place >> np.uint64(stride_bits)) & np.uint64(sets - 1))

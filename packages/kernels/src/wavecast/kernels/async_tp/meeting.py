"""Launches of the kernel in which ranks meet, with what each of them publishes first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch

from wavecast.kernels.async_tp.kernel_meet import STATE_WORDS, meet_kernel
from wavecast.kernels.async_tp.symmetric import Publication
from wavecast.kernels.async_tp.transport import TIMEOUT_POLLS
from wavecast.kernels.async_tp.workspace import keep
from wavecast.kernels.device import active_arch
from wavecast.kernels.kept_launch import KeptLaunch
from wavecast.kernels.tma import ALIGNMENT

WORDS = {4: torch.int32, 2: torch.int16, 1: torch.int8}
"""Types in which bytes are copied, by size."""

WIDEST = max(WORDS)
"""Bytes of the widest of them."""

_NO_PLACES = (None,) * 3
"""Of a publication that is not: of its source, and two targets."""

BLOCK_BYTES = 8192
"""Bytes that a program copies at a time: four pieces of 16 a lane."""

MOST_PROGRAMS = 1024
"""That copy: as many as a GPU runs at a time, each of which waits for the other ranks first."""


class _Copied(NamedTuple):
    """What is copied of a publication.

    Attributes:
        nbytes: of the source.
        word_bytes: of the widest integers that it can be copied as.
    """

    nbytes: int
    word_bytes: int


class Meetings:
    """The meetings of one rank with the others over their signal pads.

    Args:
        rank, ranks: of the group.
        pads: (ranks,) int64 addresses of the signal pads, on the device.
        failure: int32 (4,) in which a rank that does not come is reported, see ``device_signals.report_failure``.
        polls: of a rank that does not come.
    """

    def __init__(
        self, rank: int, ranks: int, pads: torch.Tensor, failure: torch.Tensor, *, polls: int = TIMEOUT_POLLS
    ) -> None:
        self._rank, self._ranks, self._polls = rank, ranks, polls
        self._state = torch.zeros(STATE_WORDS, dtype=torch.int32, device=pads.device)
        self._state[0] = 1
        self._stay = pads, self._state, failure
        self._launches: dict[Hashable, KeptLaunch] = {}
        self._alone = self._launch((), _NO_PLACES * 2)

    def meet(self) -> None:
        """Wait for all ranks: one launch on the current stream."""
        self._alone((), ())

    def publish(self, publications: Sequence[Publication]) -> None:
        """Wait for all ranks, copy, and wait again, in one launch on the current stream; see `SymmetricMemory`."""
        if not publications:
            self.meet()
            self.meet()
            return
        places: list[int | None] = []
        sizes: list[int] = []
        for source, targets in publications:
            nbytes = source.nbytes
            sizes.append(nbytes)
            places.append(source.data_ptr())
            for target, row in targets:
                at = target.data_ptr()
                places.append(at + row * nbytes // source.shape[0] if row else at)
            places += _NO_PLACES[1 + len(targets) :]
        # Of addresses that end alike the same divides, and Triton compiles the same for them.
        key = (*sizes, *[None if at is None else at % ALIGNMENT for at in places])
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launch(_copied(sizes, places), _NO_PLACES * (2 - len(publications)))
            keep(self._launches, key, launch)
        if launch.has_kernel:
            launch.at(places)
        else:
            launch((), _tensors(publications, _copied(sizes, places)))

    def _launch(self, copied: Sequence[_Copied], never: Sequence[None]) -> KeptLaunch:
        """Launches of what is copied; ``never`` stands for what never is."""
        (row_bytes, row_word), (scale_bytes, scale_word) = (*copied, _Copied(0, WIDEST), _Copied(0, WIDEST))[:2]
        block = BLOCK_BYTES // row_word
        blocks = max(-(-row_bytes // BLOCK_BYTES), -(-(scale_bytes // scale_word) // block), 1)
        arch = active_arch()
        return KeptLaunch(
            meet_kernel,
            min(blocks, MOST_PROGRAMS),
            stay=(*never, *self._stay),
            sizes=(row_bytes // row_word, scale_bytes // scale_word, self._rank, self._ranks, self._polls),
            constants={
                "BLOCK": block,
                "ON_GFX": arch is not None and arch.startswith("gfx"),
                "num_warps": 4 if copied else 1,
            },
        )


def _copied(sizes: Sequence[int], places: Sequence[int | None]) -> list[_Copied]:
    """What is copied, of so many bytes each, between three places each."""
    found = []
    for index, nbytes in enumerate(sizes):
        bits = nbytes
        for at in places[3 * index : 3 * index + 3]:
            bits |= at or 0
        found.append(_Copied(nbytes, min(bits & -bits, WIDEST)))  # the power of two that divides all
    return found


def _tensors(publications: Sequence[Publication], copied: Sequence[_Copied]) -> list[torch.Tensor | None]:
    """Sources and targets as the widest integers that they can be copied as, for whoever asks for their types."""
    found: list[torch.Tensor | None] = []
    for (source, targets), (_, word) in zip(publications, copied, strict=True):
        given = [source, *(target.narrow(0, row, source.shape[0]) for target, row in targets)]
        found += (tensor.view(-1).view(WORDS[word]) for tensor in given)
        found += _NO_PLACES[len(given) :]
    return found

"""Launches of the kernel in which ranks meet, with what each of them publishes first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from wavecast.kernels.async_tp.kernel_meet import STATE_WORDS, meet_kernel
from wavecast.kernels.async_tp.symmetric import Publication
from wavecast.kernels.async_tp.transport import TIMEOUT_POLLS
from wavecast.kernels.device import active_arch
from wavecast.kernels.kept_launch import KeptLaunch
from wavecast.kernels.tma import ALIGNMENT

WORDS = {4: torch.int32, 2: torch.int16, 1: torch.int8}
"""Types in which bytes are copied, by size."""

BLOCK_BYTES = 8192
"""Bytes that a program copies at a time: four pieces of 16 a lane."""

MOST_PROGRAMS = 1024
"""That copy: as many as a GPU runs at a time, each of which waits for the other ranks first."""


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
        self._alone = self._launch((), (None,) * 6)

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
        key = []
        for source, targets in publications:
            nbytes, at = source.nbytes, source.data_ptr()
            places.append(at)
            bits = at | nbytes
            for target, row in targets:
                at = target.data_ptr() + row * nbytes // source.shape[0]
                places.append(at)
                bits |= at
            places += (None,) * (2 - len(targets))
            key.append((nbytes, min(bits & -bits, ALIGNMENT), len(targets)))  # the power of two that divides all
        places += (None,) * (6 - len(places))
        kept = tuple(key)
        launch = self._launches.get(kept)
        if launch is None:
            launch = self._launches[kept] = self._launch(kept)
        if launch.has_kernel:
            launch((), places)
        else:
            launch((), _tensors(publications, kept))

    def _launch(self, key: Sequence[tuple[int, int, int]], never: Sequence[None] = ()) -> KeptLaunch:
        """Launches with publications of these bytes, words and numbers of targets, and of none that are never given."""
        sizes = [(nbytes, min(word, 4)) for nbytes, word, _ in key]
        (row_bytes, row_word), (scale_bytes, scale_word) = (*sizes, (0, 4), (0, 4))[:2]
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
                "num_warps": 4 if key else 1,
            },
        )


def _tensors(
    publications: Sequence[Publication], key: Sequence[tuple[int, int, int]]
) -> list[torch.Tensor | None]:  # fmt: skip
    """Sources and targets as the widest integers that they can be copied as, for whoever asks for their types."""
    found: list[torch.Tensor | None] = []
    for (source, targets), (_, word, _) in zip(publications, key, strict=True):
        given = [source, *(target.narrow(0, row, source.shape[0]) for target, row in targets)]
        found += (tensor.view(-1).view(WORDS[min(word, 4)]) for tensor in given)
        found += (None,) * (3 - len(given))
    return [*found, *(None,) * (6 - len(found))]

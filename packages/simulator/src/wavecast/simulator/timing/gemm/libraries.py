"""Kernels that libraries choose from.

Which kernel a library takes for a shape is not published with the times it reached. What is assumed here: it has a
kernel for every tile of its list, and its heuristic takes the one that this model finds fastest. AMD's libraries give
each XCD neighbouring tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.gemm.problem import GemmError, GemmProblem
from wavecast.simulator.timing.gemm.tile import Configuration, Tile

_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
_FEWEST_STEPS = 4  # of a part of a split tile
_AMD_SIDES = (32, 64, 96, 128, 160, 192, 224, 256)
_HOPPER_SIDES = ((64, 64), (64, 128), (64, 256), (128, 64), (128, 128), (128, 192), (128, 256), (256, 128))


@dataclass(frozen=True, slots=True)
class Library:
    """A list of kernels.

    Attributes:
        title: What it stands for.
        archs: Architectures it is for.
        configurations: Its kernels, each without split.
        splits: Whether it may split the depth.
    """

    title: str
    archs: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    splits: bool

    def candidates(self, problem: GemmProblem, device: Device) -> Iterator[Configuration]:
        """Its kernels that fit the device, with every split that leaves each part a few steps.

        Raises:
            GemmError: if it is for another architecture.
        """
        if device.arch not in self.archs:
            raise GemmError(f"{self.title} is for {', '.join(self.archs)}; {device.name} is {device.arch}")
        deepest = max(problem.groups, key=lambda shape: shape.k)
        for configuration in self.configurations:
            if configuration.tile.per_compute_unit(device) < 1:
                continue
            for split in _SPLITS if self.splits else (1,):
                chosen = replace(configuration, split_k=split)
                if split == 1 or chosen.steps(deepest, problem.bits) >= _FEWEST_STEPS:
                    yield chosen


def _amd(*, stream_k: bool, lds_stages: int) -> tuple[Configuration, ...]:
    # One step lies in LDS while the next one is under way in registers, so that the largest tile fits.
    tiles = [Tile(m, n, lds_stages=lds_stages, ahead=1) for m in _AMD_SIDES for n in _AMD_SIDES]
    return tuple(
        Configuration(tile, stream_k=mode, chunked=True)
        for tile in tiles
        for mode in ((False, True) if stream_k else (False,))
    )


def _hopper(m: int, n: int, *, stages: int, window: int, cluster: tuple[int, int]) -> Configuration:
    # Groups of four warps multiply 64 rows each.
    tile = Tile(m, n, lds_stages=stages, ahead=stages - 1, wave_rows=m // 64, wave_columns=1)
    return Configuration(tile, persistent=True, window=window, cluster=cluster, workgroups_per_cu=1)


LIBRARIES: Mapping[str, Library] = MappingProxyType(
    {
        "hipblaslt-gfx942": Library(
            "hipBLASLt on CDNA 3", ("gfx942",), _amd(stream_k=False, lds_stages=1), splits=True
        ),
        "hipblaslt-gfx950": Library("hipBLASLt on CDNA 4", ("gfx950",), _amd(stream_k=True, lds_stages=2), splits=True),
        "tile-256-gfx950": Library(
            "hand-written kernels with one tile on CDNA 4",
            ("gfx950",),
            (Configuration(Tile(256, 256, lds_stages=2, ahead=1, wave_rows=2, wave_columns=4), chunked=True),),
            splits=False,
        ),
        "cublaslt-sm90": Library(
            "cuBLASLt on Hopper",
            ("sm_90",),
            tuple(_hopper(m, n, stages=4, window=8, cluster=(2, 1)) for m, n in _HOPPER_SIDES),
            splits=True,
        ),
        "cutlass-grouped-sm90": Library(
            "grouped CUTLASS kernels on Hopper",
            ("sm_90",),
            tuple(_hopper(m, n, stages=4, window=8, cluster=(2, 1)) for m, n in _HOPPER_SIDES),
            splits=False,
        ),
        "cutlass-blockwise-sm90": Library(
            "CUTLASS with blockwise scales on Hopper: its one tile, persistent, rows or columns of tiles in turn",
            ("sm_90",),
            (_hopper(128, 128, stages=6, window=0, cluster=(1, 2)),),
            splits=False,
        ),
    }
)


def library(name: str) -> Library:
    """The list of that name.

    Raises:
        GemmError: if there is none; the message lists the names that exist.
    """
    if name not in LIBRARIES:
        raise GemmError(f"no library is called {name!r}; known are {', '.join(LIBRARIES)}")
    return LIBRARIES[name]

"""Benchmarks that were timed on an MI300X and whose kernel and geometry are public, as programs.

The times are sums over the kernels of a run. Where the smallest sizes cost about 6 µs a launch, every launch was timed
on its own; where a launch more costs about 2.3 µs, the chain was timed as a whole. The programs that time many launches
one by one have them in a queue. Sizes are of floats: the parameter
``precision`` of these benchmarks changes nothing. Kernels are written anew after the descriptions.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mi300a import OWN_KERNELS, Steps, device_copy, fir_launch, groups, listed_source, words
from programs import Array, Launch, Launches, Program, Source

from wavecast.simulator.timing import Position

DEVICE = "mi300x"
FILE = "mi300x_kernels.csv"
COMPUTE_UNITS = 304
Parameters = dict[str, str]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How a benchmark's rows become programs.

    Attributes:
        steps: Size, the other parameters and the checkout to steps.
        each: As in ``Program``.
    """

    steps: Callable[[int, Parameters, Path], Steps]
    each: Position | None = None


def read_rows(data: Path) -> list[dict[str, str]]:
    """All rows of the file, as text by column.

    Raises:
        FileNotFoundError: The file is missing.
    """
    with (data / FILE).open(newline="") as lines:
        return list(csv.DictReader(lines))


def read_programs(data: Path, mgpusim: Path) -> list[Program]:
    """Programs of the rows whose kernels are known; the other rows are left out.

    Args:
        data: Folder with the file.
        mgpusim: Checkout of sarchlab/mgpusim, for the one kernel that is taken from there.
    """
    programs = []
    for row in read_rows(data):
        benchmark = BENCHMARKS.get(row["benchmark"])
        if benchmark is None:
            continue
        parameters = dict(part.split("=", 1) for part in row["params"].split(";"))
        told = [f"{key}={value}" for key, value in parameters.items() if key in _TOLD]
        programs.append(
            Program(
                DEVICE,
                row["benchmark"],
                " ".join([row["value"], *told]),
                1e3 * float(row["kernel_ms"]),
                benchmark.steps(int(row["value"]), parameters, mgpusim),
                benchmark.each,
            )
        )
    return programs


# Parameters that change what runs.
_TOLD = ("num_taps", "filter_size", "tmax", "tsteps", "rows", "num_iterations", "precision", "verify")


def _own(file: str, kernel: str) -> Source:
    return Source(OWN_KERNELS / file, kernel)


def _tiles(n: int) -> tuple[int, int, int]:
    side = -(-n // 16)
    return (side, side, 1)


_TILE = (16, 16, 1)


def _copy(megabytes: int, _: Parameters, __: Path) -> Steps:
    return device_copy(megabytes << 20, COMPUTE_UNITS)


def _triad(n: int, _: Parameters, __: Path) -> Steps:
    arrays = (words("a", n), words("b", n), words("c", n))
    return (Launches(Launch(_own("streams.hip", "triad"), groups(n, 256), (256, 1, 1), (*arrays, 1.75, n))),)


def _fir(length: int, parameters: Parameters, mgpusim: Path) -> Steps:
    return (fir_launch(listed_source(mgpusim, "fir", "FIR"), length, int(parameters["num_taps"])),)


def _convolution(n: int, _: Parameters, __: Path) -> Steps:
    arguments = (words("in", n * n), words("out", n * n), n, n)
    return (Launches(Launch(_own("stencils.hip", "convolution"), _tiles(n), _TILE, arguments)),)


def _convolution_3d(n: int, parameters: Parameters, _: Path) -> Steps:
    width, side = int(parameters["filter_size"]), -(-n // 8)
    arguments = (words("in", n**3), words("filter", width**3), words("out", n**3), n, width)
    source = _own("stencils.hip", "convolution_3d")
    return (Launches(Launch(source, (side, side, side), (8, 8, 8), arguments)),)


def _jacobi(n: int, parameters: Parameters, _: Path) -> Steps:
    """Each step swaps the two grids; the steps are alike."""
    arguments = (words("in", n * n), words("out", n * n), n)
    launch = Launch(_own("stencils.hip", "jacobi"), _tiles(n - 2), _TILE, arguments)
    return (Launches(launch, int(parameters["tsteps"]), reads_fresh=True),)


def _fdtd(n: int, parameters: Parameters, _: Path) -> Steps:
    ex, ey, hz = (words(name, n * n) for name in ("ex", "ey", "hz"))
    times = int(parameters["tmax"])

    def launch(kernel: str, *arrays: Array) -> Launches:
        return Launches(Launch(_own("stencils.hip", kernel), _tiles(n), _TILE, (*arrays, n, n)), times, True)

    return launch("fdtd_ex", ex, hz), launch("fdtd_ey", ey, hz), launch("fdtd_hz", ex, ey, hz)


def _srad(n: int, parameters: Parameters, _: Path) -> Steps:
    image, *others = (words(name, n * n) for name in ("image", "north", "south", "west", "east", "coefficient"))
    times = int(parameters["num_iterations"])
    return tuple(
        Launches(Launch(_own("stencils.hip", kernel), _tiles(n), _TILE, (image, *others, n, n, 0.5)), times, True)
        for kernel in ("srad_gradients", "srad_update")
    )


def _two_products(n: int, _: Parameters, __: Path) -> Steps:
    """The second reads what the first wrote."""
    arrays = (words("left", n * n), words("right", n * n), words("out", n * n))
    launch = Launch(_own("products.hip", "tiled_product"), _tiles(n), _TILE, (*arrays, n, 1.5, 1.25))
    return Launches(launch), Launches(launch, reads_fresh=True)


def _three_products(n: int, _: Parameters, __: Path) -> Steps:
    """The third reads what the other two wrote."""
    arrays = (words("left", n * n), words("right", n * n), words("out", n * n))
    launch = Launch(_own("products.hip", "plain_product"), _tiles(n), _TILE, (*arrays, n, n, n))
    return Launches(launch, 2), Launches(launch, reads_fresh=True)


def _path(columns: int, parameters: Parameters, _: Path) -> Steps:
    """Rows follow one another; the one in the middle stands for all."""
    rows = int(parameters["rows"])
    arrays = (words("costs", rows * columns), words("above", columns), words("out", columns))
    launch = Launch(_own("steps.hip", "path_row"), groups(columns, 256), (256, 1, 1), (*arrays, columns, rows // 2))
    return (Launches(launch, rows - 1, reads_fresh=True),)


# Pivots of the elimination that stand for all: the middles of so many equal parts.
_PIVOTS = 8


def _gaussian(n: int, _: Parameters, __: Path) -> Steps:
    matrix, factors, side = words("matrix", n * n), words("factors", n * n), words("side", n)
    parts = min(_PIVOTS, n - 1)
    steps: list[Launches] = []
    for part in range(parts):
        first, last = part * (n - 1) // parts, (part + 1) * (n - 1) // parts
        t = (first + last) // 2
        factors_launch = Launch(
            _own("steps.hip", "elimination_factors"), groups(n, 256), (256, 1, 1), (factors, matrix, n, t)
        )
        rows_launch = Launch(_own("steps.hip", "elimination_rows"), _tiles(n), _TILE, (factors, matrix, side, n, t))
        steps += [Launches(entry, last - first, reads_fresh=True) for entry in (factors_launch, rows_launch)]
    return tuple(steps)


BENCHMARKS = {
    "memory_bandwidth": Benchmark(_copy),
    "shoc_triad": Benchmark(_triad),
    "heteromark_fir": Benchmark(_fir),
    "polybench_2dconv": Benchmark(_convolution),
    "polybench_3dconv": Benchmark(_convolution_3d),
    "polybench_jacobi2d": Benchmark(_jacobi),
    "polybench_fdtd2d": Benchmark(_fdtd, Position.QUEUED),
    "polybench_2mm": Benchmark(_two_products, Position.FIRST),
    "polybench_3mm": Benchmark(_three_products, Position.FIRST),
    "rodinia_srad": Benchmark(_srad, Position.QUEUED),
    "rodinia_pathfinder": Benchmark(_path),
    "rodinia_gaussian": Benchmark(_gaussian, Position.QUEUED),
}

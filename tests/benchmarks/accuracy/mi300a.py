"""The twelve listed benchmarks of sarchlab/mgpusim that were timed on an MI300A, as programs.

``mi300a.csv`` and ``mi300a_120cu.csv`` are two runs on the same part; the measured time is the shorter of their minima.
The second run counts alone from a footprint of 1 GB on: there the first one is slower for reasons of its own (small
pages, it seems). Every timed region ran once before, untimed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

from programs import Array, HostCopy, Launch, Launches, Program, Source

DEVICE = "mi300a"
FILES = ("mi300a_120cu.csv", "mi300a.csv")
OWN_KERNELS = Path(__file__).with_name("kernels")
SCRIPTS = "gpu_perf_scripts"
COMPUTE_UNITS = 228
# From here on the first run is left out.
LARGE_BYTES = 10**9
WORD = 4
Steps = tuple[Launches | HostCopy, ...]
# Source file of each benchmark that may be opened; the other benchmarks of that folder are a test set.
LISTED = {
    "atax": "atax.cpp",
    "bitonicsort": "bitonicsort.cpp",
    "fastwalshtransform": "fastwalshtransform.cpp",
    "fir": "fir.cpp",
    "floydwarshall": "floydwarshall.cpp",
    "kmeans": "kmeans.cpp",
    "matrixtranspose": "matrixtranspose.cpp",
    "memcopy_d2d": None,
    "nbody": "nbody.cpp",
    "relu": "relu.cpp",
    "spmv_csr_scalar": "spmv.cpp",
    "vectoradd": "vectoradd.cpp",
}
# The host code computes 49152² in 32 bits: what was allocated and copied is unknown.
OVERFLOWS = ("matrixtranspose", "49152x49152")


def read_programs(data: Path, mgpusim: Path) -> list[Program]:
    """All programs of the listed benchmarks.

    Args:
        data: Folder with the two files.
        mgpusim: Checkout of sarchlab/mgpusim.

    Raises:
        FileNotFoundError: A file of times or a listed source is missing.
        ValueError: The files name a benchmark that is not listed.
    """
    runs = [_read(data / name) for name in FILES]
    programs = []
    for benchmark, label in runs[0]:
        if (benchmark, label) == OVERFLOWS:
            continue
        steps = _steps(benchmark, label, mgpusim)
        program = Program(DEVICE, benchmark, label, 1.0, steps)
        counted = runs[:1] if program.footprint_bytes >= LARGE_BYTES else runs
        measured = min(run[benchmark, label] for run in counted if (benchmark, label) in run)
        programs.append(Program(DEVICE, benchmark, label, measured, steps))
    return programs


def _read(path: Path) -> dict[tuple[str, str], float]:
    """Minimum in µs by benchmark and problem size."""
    with path.open(newline="") as lines:
        return {(row["kernel_name"], row["problem_size"]): 1e3 * float(row["min_ms"]) for row in csv.DictReader(lines)}


def listed_source(mgpusim: Path, benchmark: str, kernel: str) -> Source:
    """The kernel of a listed benchmark.

    Raises:
        ValueError: The benchmark is not listed.
        FileNotFoundError: The checkout does not have it.
    """
    file = LISTED.get(benchmark)
    if file is None:
        raise ValueError(
            f"benchmark {benchmark!r} is not listed, so its source is not opened; listed: {', '.join(LISTED)}"
        )
    path = mgpusim / SCRIPTS / file
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; --mgpusim wants the folder of a checkout of sarchlab/mgpusim")
    return Source(path, kernel)


def _steps(benchmark: str, label: str, mgpusim: Path) -> Steps:
    if benchmark not in LISTED:
        raise ValueError(f"benchmark {benchmark!r} is not listed; listed: {', '.join(LISTED)}")
    sizes = [int(number) for number in re.findall(r"\d+", label)]
    return BUILDERS[benchmark](mgpusim, *sizes)


def groups(items: int, size: int) -> tuple[int, int, int]:
    """A grid in x that has a work-item for each item."""
    return (-(-items // size), 1, 1)


def words(name: str, count: int, *fill: str | int) -> Array:
    """An array of 4-byte elements."""
    return Array(name, WORD * count, fill)


def device_copy(nbytes: int, compute_units: int) -> Steps:
    """A copy inside device memory, as the runtime does it: one kernel, as many workgroups of 512 as compute units."""
    source = Source(OWN_KERNELS / "runtime.hip", "copy_16_bytes")
    items = nbytes // 16
    grid = (min(compute_units, -(-items // 512)), 1, 1)
    arguments = (Array("destination", nbytes), Array("source", nbytes), items)
    return (Launches(Launch(source, grid, (512, 1, 1), arguments)),)


def device_fill(array: Array, compute_units: int) -> Launches:
    """A memset of device memory, as the runtime does it: one kernel, at most a workgroup of 256 a compute unit."""
    source = Source(OWN_KERNELS / "runtime.hip", "fill_words")
    items = array.nbytes // WORD
    grid = (min(compute_units, -(-items // 256)), 1, 1)
    return Launches(Launch(source, grid, (256, 1, 1), (array, 0, items)))


def _vectoradd(mgpusim: Path, n: int) -> Steps:
    source = listed_source(mgpusim, "vectoradd", "vectoradd_float")
    return (Launches(Launch(source, groups(n, 256), (256, 1, 1), (words("a", n), words("b", n), words("c", n), n, 1))),)


def _relu(mgpusim: Path, n: int) -> Steps:
    source = listed_source(mgpusim, "relu", "ReLUForward")
    return (Launches(Launch(source, groups(n, 256), (256, 1, 1), (n, words("in", n), words("out", n)))),)


def _memcopy(mgpusim: Path, megabytes: int) -> Steps:
    return device_copy(megabytes << 20, COMPUTE_UNITS)


def _transpose(mgpusim: Path, n: int, _: int) -> Steps:
    source = listed_source(mgpusim, "matrixtranspose", "matrixTranspose")
    per_item, side = 4, 16
    width = n // per_item
    tiles = width // side
    matrices = (words("output", n * n), words("input", n * n))
    launch = Launch(
        source, (tiles, tiles, 1), (side, side, 1), (*matrices, 0, width, width, tiles, 0, 0),
        lds_bytes=side * side * per_item * per_item * WORD,
    )  # fmt: skip
    return (Launches(launch),)


def fir_launch(source: Source, length: int, taps: int) -> Launches:
    """FIR filter: coefficients and history are short, input and output as long as the signal."""
    arrays = (words("output", length), words("coeff", taps), words("input", length), words("history", taps))
    return Launches(Launch(source, groups(length, 256), (256, 1, 1), (*arrays, taps)))


def _fir(mgpusim: Path, length: int, taps: int) -> Steps:
    return (fir_launch(listed_source(mgpusim, "fir", "FIR"), length, taps),)


def _kmeans(mgpusim: Path, points: int, features: int, clusters: int) -> Steps:
    source = listed_source(mgpusim, "kmeans", "kmeans_kernel_compute")
    arrays = (words("feature", points * features), words("clusters", clusters * features), words("membership", points))
    arguments = (*arrays, points, clusters, features, 0, points)
    return (Launches(Launch(source, groups(points, 256), (256, 1, 1), arguments)),)


def _spmv(mgpusim: Path, rows: int, _: int, nonzeros: int) -> Steps:
    source = listed_source(mgpusim, "spmv_csr_scalar", "spmv_csr_scalar_kernel")
    per_row = nonzeros // rows
    arguments = (
        words("val", nonzeros),
        words("vec", rows),
        words("cols", nonzeros, "band", rows, per_row),
        words("rowDelimiters", rows + 1, "ramp", per_row),
        rows,
        words("out", rows),
    )
    return (Launches(Launch(source, groups(rows, 256), (256, 1, 1), arguments)),)


def _nbody(mgpusim: Path, bodies: int) -> Steps:
    source = listed_source(mgpusim, "nbody", "nbody_sim")

    def vectors(name: str) -> Array:
        return Array(name, 16 * bodies)

    arguments = (
        vectors("pos"), vectors("vel"), bodies, 0.005, 50.0,
        vectors("localPos"), vectors("newPosition"), vectors("newVelocity"),
    )  # fmt: skip
    return (Launches(Launch(source, groups(bodies, 256), (256, 1, 1), arguments)),)


def _atax(mgpusim: Path, n: int, _: int) -> Steps:
    first, second = (listed_source(mgpusim, "atax", name) for name in ("atax_kernel1", "atax_kernel2"))
    a, x, tmp, y = words("A", n * n), words("x", n), words("tmp", n), words("y", n)
    grid, block = groups(n, 256), (256, 1, 1)
    return (
        device_fill(tmp, COMPUTE_UNITS),
        device_fill(y, COMPUTE_UNITS),
        Launches(Launch(first, grid, block, (a, x, tmp, n, n))),
        Launches(Launch(second, grid, block, (a, y, tmp, n, n))),
    )


# A pass stores where a path became shorter. That is often so in the first passes and hardly ever later; this one
# stands for all.
_TYPICAL_PASS = 48


def _floydwarshall(mgpusim: Path, nodes: int) -> Steps:
    source = listed_source(mgpusim, "floydwarshall", "floydWarshallPass")
    node = min(nodes // 2, _TYPICAL_PASS)
    arrays = (words("pathDistanceBuffer", nodes**2, "distances", nodes, node), words("pathBuffer", nodes**2))
    side = -(-nodes // 8)
    launch = Launch(source, (side, side, 1), (8, 8, 1), (*arrays, nodes, node))
    return HostCopy(WORD * nodes**2), HostCopy(WORD * nodes**2, follows=True), Launches(launch, nodes)


def _fastwalsh(mgpusim: Path, n: int) -> Steps:
    source = listed_source(mgpusim, "fastwalshtransform", "fastWalshTransform")
    array = words("tArray", n)

    def launch(step: int) -> Launches:
        return Launches(Launch(source, groups(n // 2, 256), (256, 1, 1), (array, step)))

    return HostCopy(WORD * n), *(launch(1 << power) for power in range(n.bit_length() - 1))


def _bitonicsort(mgpusim: Path, n: int) -> Steps:
    """Stage s has passes with distances 2^s … 1, so distance 2^d comes once in each stage from d on."""
    source = listed_source(mgpusim, "bitonicsort", "BitonicSort")
    array, stages = words("array", n), n.bit_length() - 1

    def launch(power: int) -> Launches:
        arguments = (array, stages - 1, stages - 1 - power, 1)
        return Launches(Launch(source, groups(n // 2, 64), (64, 1, 1), arguments), stages - power)

    return HostCopy(WORD * n), *(launch(power) for power in range(stages))


BUILDERS: dict[str, Callable[..., Steps]] = {
    "atax": _atax,
    "bitonicsort": _bitonicsort,
    "fastwalshtransform": _fastwalsh,
    "fir": _fir,
    "floydwarshall": _floydwarshall,
    "kmeans": _kmeans,
    "matrixtranspose": _transpose,
    "memcopy_d2d": _memcopy,
    "nbody": _nbody,
    "relu": _relu,
    "spmv_csr_scalar": _spmv,
    "vectoradd": _vectoradd,
}

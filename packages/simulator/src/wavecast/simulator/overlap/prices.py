"""Times of the kernels that programs are made of, where nobody has predicted them from their code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wavecast.simulator.devices import Device
from wavecast.simulator.overlap.collectives import COLLECTIVES, collective_time
from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.program import KernelLike
from wavecast.simulator.overlap.times import KernelKey, KernelTime, kernel_key
from wavecast.simulator.timing.gemm import Configuration, GemmProblem, Scaling, Tile, rank_kernels

LIBRARIES: Mapping[str, str] = {
    "gfx942": "hipblaslt-gfx942",
    "gfx950": "hipblaslt-gfx950",
    "sm_90": "cublaslt-sm90",
}
"""The vendor's GEMM library by architecture."""


class Prices:
    """Prices kernels of a node: products by shape, collectives by size, the rest by the bytes that they move.

    Args:
        node: Where they run.
        known: Times that are better known than by this model, by operator and shape.
    """

    def __init__(self, node: Node, known: Mapping[KernelKey, KernelTime] | None = None) -> None:
        self.node = node
        self._found: dict[KernelKey, KernelTime] = dict(known or {})

    @property
    def products(self) -> Mapping[KernelKey, KernelTime]:
        """Times found so far that do not depend on links: what another node of the same GPUs may know."""
        return {key: time for key, time in self._found.items() if key[0] not in COLLECTIVES}

    def __call__(self, kernel: KernelLike) -> KernelTime:
        """The kernel's time alone on the GPU.

        Raises:
            OverlapError: if the operator is not one that is priced here.
        """
        key = kernel_key(kernel.operator, kernel.shape)
        if key not in self._found:
            self._found[key] = self._price(kernel)
        return self._found[key]

    def _price(self, kernel: KernelLike) -> KernelTime:
        if kernel.operator in COLLECTIVES:
            found = collective_time(kernel.operator, int(kernel.shape["bytes"]), self.node)
            more_us = self.node.link.captured_collective_us if self.node.captured else 0.0
            return KernelTime(found.us + more_us, found.hbm_bytes)
        prices: dict[str, Callable[[KernelLike], KernelTime]] = {
            "matmul": self._library_product,
            "async-matmul": self._persistent_product,
            "fill": self._fill,
            "sum": self._sum,
        }
        if kernel.operator not in prices:
            known = ", ".join((*COLLECTIVES, *prices))
            raise OverlapError(f"no time is known for operator {kernel.operator!r}; known are {known}")
        return prices[kernel.operator](kernel)

    def _fill(self, kernel: KernelLike) -> KernelTime:
        """Writes some bytes."""
        moved = float(kernel.shape["bytes"])
        return KernelTime(self._smallest_us() + moved / self.node.hbm_gb_s * 1e-3, moved)

    def _sum(self, kernel: KernelLike) -> KernelTime:
        """Reads the bytes of some parts and writes one part, as fast as PyTorch's reduction does."""
        moved = float(kernel.shape["bytes"]) * (1 + 1 / float(kernel.shape["parts"]))
        return KernelTime(self._smallest_us() + moved / self.node.link.sum_gb_s * 1e-3, moved)

    def _smallest_us(self) -> float:
        return self.node.device.launch.back_to_back_us + self.node.link.smallest_kernel_us

    def _library_product(self, kernel: KernelLike) -> KernelTime:
        device = self.node.device
        return _product(kernel.shape, device, LIBRARIES[device.arch])

    def _persistent_product(self, kernel: KernelLike) -> KernelTime:
        """As many workgroups as the kernel has, each tile after tile."""
        device, m, n = self.node.device, int(kernel.shape["block_m"]), int(kernel.shape["block_n"])
        if device.arch == "sm_90":
            tile = Tile(m, n, lds_stages=4, ahead=3, wave_rows=max(1, m // 64), wave_columns=1)
            configuration = Configuration(tile, persistent=True, cluster=(2, 1), workgroups_per_cu=1)
        else:
            configuration = Configuration(Tile(m, n), persistent=True, window=1, workgroups_per_cu=1)
        whole = _product(kernel.shape, device, configuration)
        # The model of products fills all compute units; a grid that leaves some free takes more rounds.
        tiles, units = whole.tiles or 1, device.compute.num_cu
        rounds, more = -(-tiles // min(tiles, units)), -(-tiles // min(tiles, units, kernel.workgroups))
        return KernelTime(whole.alone_us * more / rounds, whole.hbm_bytes, whole.tiles)


def problem_of(shape: Mapping[str, int | str]) -> GemmProblem:
    """The product of a kernel's shape; fp8 has a scale a row and column."""
    dtype = str(shape["dtype"])
    scaling = Scaling.ROWWISE if dtype == "fp8" else Scaling.NONE
    return GemmProblem.dense(int(shape["M"]), int(shape["N"]), int(shape["K"]), dtype, scaling)


def _product(shape: Mapping[str, int | str], device: Device, kernel: str | Configuration) -> KernelTime:
    # The search among a library's kernels is most of the time of a sweep, and knows nothing of links, queues and hosts.
    key = device.digest, tuple(sorted(shape.items())), kernel
    if key not in _PRODUCTS:
        _PRODUCTS[key] = _search(shape, device, kernel)
    return _PRODUCTS[key]


_PRODUCTS: dict[tuple[str, tuple[tuple[str, int | str], ...], str | Configuration], KernelTime] = {}


def _search(shape: Mapping[str, int | str], device: Device, kernel: str | Configuration) -> KernelTime:
    problem = problem_of(shape)
    configuration, found = rank_kernels(problem, device, kernel)[0]
    tiles = device.compute.num_cu if configuration.stream_k else configuration.workgroups(problem)
    moved = found.moved.hbm_read + found.moved.written
    return KernelTime(found.total_us, moved, tiles, exclusive=configuration.persistent)

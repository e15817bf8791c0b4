"""Programs of what PyTorch runs for all-gather+matmul and matmul+reduce-scatter, from shapes alone.

Three paths: the collective and the product one after the other; the decomposed one, which alternates copies and small
products on two streams; and the native one, a persistent product that waits for chunks while they are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.program import (
    Barrier,
    Copy,
    Kernel,
    OperationLike,
    Program,
    Record,
    Stream,
    WaitEvent,
    WriteSignal,
)

_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Product:
    """A product whose operand is gathered, or whose result is scattered, along its rows.

    Attributes:
        m: Rows: those of all ranks together.
        n: Columns of the result, on each rank.
        k: Depth, on each rank.
        dtype: Type of the operands: ``bf16`` or ``fp8``, the latter with one fp32 scale a row.
        out_bytes: Bytes of an element of the result.
    """

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    out_bytes: int = 2

    def __post_init__(self) -> None:
        if self.dtype not in ("bf16", "fp8") or min(self.m, self.n, self.k) < 1:
            raise OverlapError(f"{self}: wanted are sizes of at least 1, and bf16 or fp8")

    @property
    def gathered_bytes(self) -> int:
        """The whole operand."""
        return self.m * self.k * (2 if self.dtype == "bf16" else 1)

    @property
    def scale_bytes(self) -> int:
        """The operand's scales; 0 where it has none."""
        return self.m * _WORD_BYTES if self.dtype == "fp8" else 0

    @property
    def gathered(self) -> tuple[int, ...]:
        """Bytes of what is gathered: the operand, and its scales where it has some."""
        return tuple(size for size in (self.gathered_bytes, self.scale_bytes) if size)

    @property
    def result_bytes(self) -> int:
        """The whole result, before it is scattered."""
        return self.m * self.n * self.out_bytes


def matmul(product: Product, rows: int, name: str = "matmul") -> Kernel:
    """The product of some rows, by the vendor's library."""
    shape: dict[str, int | str] = {"M": rows, "N": product.n, "K": product.k, "dtype": product.dtype}
    return Kernel(name, "matmul", shape, 1)


def collective(name: str, size_bytes: int, node: Node) -> Kernel:
    """A collective of the vendor's library: a kernel with a workgroup a channel."""
    return Kernel(name, name, {"bytes": size_bytes, "ranks": node.ranks}, node.link.channels)


def gathers(product: Product, node: Node) -> tuple[Kernel, ...]:
    """The library's calls that gather the operand, one after the other."""
    return tuple(collective("all-gather", size, node) for size in product.gathered)


def scatters(product: Product, node: Node) -> tuple[Kernel, ...]:
    """The library's call that scatters the result."""
    return (collective("reduce-scatter", product.result_bytes, node),)


def peer_copies(source: int, target: int, size_bytes: int, node: Node, *, rows: int = 1) -> list[OperationLike]:
    """A copy as the runtime makes it: by an engine, or by a kernel where it is small.

    Args:
        source: GPU that is read.
        target: GPU that is written.
        size_bytes: Bytes.
        node: Which runtime.
        rows: Rows that a piece may not cut; 0: not cut into pieces.
    """
    limit = node.link.blit_limit_bytes
    if limit is None or (size_bytes > limit and not rows):
        return [Copy(source, target, size_bytes, "copy-engine")]
    return [Copy(source, target, size, "blit") for size in _pieces(size_bytes, max(1, rows), limit)]


def _pieces(size_bytes: int, rows: int, limit: int | None) -> list[int]:
    """Sizes of pieces of whole rows that keep to a limit, as far as one row does."""
    row_bytes = max(1, size_bytes // rows)
    piece = size_bytes if limit is None or size_bytes <= limit else max(1, limit // row_bytes) * row_bytes
    return [min(piece, size_bytes - start) for start in range(0, size_bytes, piece)]


def local_copy(rank: int, size_bytes: int) -> Copy:
    """A copy within a GPU."""
    return Copy(rank, rank, size_bytes, "blit")


def all_gather_matmul(product: Product, node: Node, path: str, *, shared_input: bool = False) -> Program:
    """The program of one call.

    Args:
        product: Shape; its rows must divide by the ranks.
        node: GPUs.
        path: ``sequence``, ``decomposed`` or ``native-upstream``.
        shared_input: Whether shards lie in symmetric memory: the native path then need not copy them there first. The
            other paths take no notice.

    Raises:
        OverlapError: if the path does not exist, or the shape does not fit it.
    """
    paths: dict[str, Path] = {
        "sequence": _gather_sequence,
        "decomposed": _gather_decomposed,
        "native-upstream": partial(_gather_native, shared_input=shared_input),
    }
    return _program(f"all-gather+matmul {path}", product, node, _one_of(paths, path))


def matmul_reduce_scatter(product: Product, node: Node, path: str) -> Program:
    """The program of one call; arguments and errors as of ``all_gather_matmul``, without a native path."""
    paths = {"sequence": _scatter_sequence, "decomposed": _scatter_decomposed}
    return _program(f"matmul+reduce-scatter {path}", product, node, _one_of(paths, path))


Path = Callable[[Product, Node, int], list[Stream]]


def _one_of(paths: Mapping[str, Path], path: str) -> Path:
    if path not in paths:
        raise OverlapError(f"there is no path {path!r}; wanted is one of {', '.join(paths)}")
    return paths[path]


def _program(name: str, product: Product, node: Node, path: Path) -> Program:
    if product.m % node.ranks:
        raise OverlapError(f"{product.m} rows do not divide by {node.ranks} ranks")
    streams = [stream for rank in range(node.ranks) for stream in path(product, node, rank)]
    return Program(name, node.ranks, tuple(streams))


def _gather_sequence(product: Product, node: Node, rank: int) -> list[Stream]:
    return [Stream(rank, "current", 0, (*gathers(product, node), matmul(product, product.m)))]


def _gather_decomposed(product: Product, node: Node, rank: int) -> list[Stream]:
    ranks, rows = node.ranks, product.m // node.ranks
    shards = [size // ranks for size in product.gathered]
    current: list[OperationLike] = [Barrier(0)]
    current += [local_copy(rank, size) for size in shards]
    current += [Barrier(1), Record(f"shard of {rank}"), matmul(product, rows, f"matmul of shard {rank}")]
    backend: list[OperationLike] = [WaitEvent(f"shard of {rank}")]
    for step in range(1, ranks):
        source = (rank + step) % ranks
        stream = current if step % 2 == 0 else backend
        for size in shards:
            stream += peer_copies(source, rank, size, node, rows=0)
        stream.append(matmul(product, rows, f"matmul of shard {source}"))
    (current if ranks % 2 == 0 else backend).extend(local_copy(rank, size) for size in shards)
    return _joined(rank, current, backend, priority=0)


def _joined(rank: int, current: list[OperationLike], backend: list[OperationLike], *, priority: int) -> list[Stream]:
    """Two streams of which the first waits for the second, and then for the other ranks."""
    backend.append(Record(f"end of backend of {rank}"))
    current += [WaitEvent(f"end of backend of {rank}"), Barrier(0)]
    return [Stream(rank, "current", 0, tuple(current)), Stream(rank, "backend", priority, tuple(backend))]


def native_tile(node: Node) -> tuple[int, int]:
    """Rows and columns of a tile of PyTorch's persistent kernel: CUTLASS on NVIDIA, Composable Kernel on AMD."""
    return (128, 256) if node.device.arch == "sm_90" else (256, 256)


def native_grid(node: Node) -> int:
    """Its workgroups: all multiprocessors on NVIDIA; on AMD one compute unit of each shader engine is left free."""
    if node.link.signal_workgroups is None:
        return node.device.compute.num_cu
    return (min(node.units_per_engine) - 1) * node.engines


def async_matmul(product: Product, node: Node, rank: int, *, workgroups: int | None = None) -> Kernel:
    """PyTorch's persistent product, which waits for the chunk that a tile reads, its own rank's first."""
    ranks, (tile_m, tile_n) = node.ranks, native_tile(node)
    rows = product.m // ranks
    if rows % tile_m:
        raise OverlapError(f"{rows} rows of a shard are no multiple of {tile_m}, the rows of a tile of the native path")
    columns = -(-product.n // tile_n)
    if node.device.arch == "sm_90":
        columns, waits = _cutlass_visits(rows // tile_m, columns, rank, ranks)
    else:
        chunks = [(rank + step) % ranks for step in range(ranks)]
        waits = tuple(chunk for chunk in chunks for _ in range(columns * (rows // tile_m)))
    # Tiles beyond the last column are multiplied like others.
    n = product.n if columns * tile_n < product.n + tile_n else columns * tile_n
    shape: dict[str, int | str] = {
        "M": product.m, "N": n, "K": product.k, "dtype": product.dtype, "block_m": tile_m, "block_n": tile_n
    }  # fmt: skip
    grid = min(native_grid(node) if workgroups is None else workgroups, len(waits))
    return Kernel("async matmul", "async-matmul", shape, grid, tile_waits=waits)


_CLUSTER = 2  # tiles of a column that neighbouring workgroups of CUTLASS's kernel work on together


def _cutlass_visits(chunk_tiles: int, columns: int, rank: int, ranks: int) -> tuple[int, tuple[int | None, ...]]:
    """Columns of tiles, and the chunk that each tile waits for, in the order of CUTLASS's persistent scheduler.

    It goes along the columns in bands of some clusters of rows, and fills the product up to whole bands in both
    directions. PyTorch asks for bands of at most the tiles of a chunk, but a band counts clusters: where a chunk has
    few tiles, a band has those of two, and half of the workgroups begin with the one that has yet to come.

    Args:
        chunk_tiles: Tiles of a chunk's rows.
        columns: Tiles of the product's columns.
        rank: Whose chunk comes first.
        ranks: Chunks.
    """
    rows = -(-ranks * chunk_tiles // _CLUSTER) * _CLUSTER
    least = min(rows, columns)
    # As long as both directions have enough tiles for it.
    band = next(size for size, needs in ((8, 6), (4, 3), (2, 2), (1, 0)) if size <= chunk_tiles and least >= needs)
    rows = -(-rows // (band * _CLUSTER)) * band * _CLUSTER
    columns = -(-columns // band) * band
    waits: list[int | None] = []
    for first in range(0, rows, band * _CLUSTER):
        for _ in range(columns):
            for row in range(first, first + band * _CLUSTER):
                chunk = (row + rank * chunk_tiles) % rows // chunk_tiles
                waits.append(chunk if chunk < ranks else None)
    return columns, tuple(waits)


def _gather_native(product: Product, node: Node, rank: int, *, shared_input: bool) -> list[Stream]:
    """One order of calls for CUDA, another for ROCm, where copies are in pieces that no copy engine takes."""
    ranks, rows = node.ranks, product.m // node.ranks
    shard, limit = product.gathered_bytes // ranks, node.link.blit_limit_bytes
    fill = Kernel("zero signals", "fill", {"bytes": ranks * _WORD_BYTES}, 1)
    start, end = f"start of {rank}", f"end of backend of {rank}"
    own: list[OperationLike] = [local_copy(rank, size) for size in _pieces(shard, rows, limit)]
    share = [] if shared_input else own
    current: list[OperationLike]
    if limit is None:
        current = [*([Barrier(0), *share] if share else []), Barrier(0), Record(start), fill]
    else:
        current = [*share, fill, Barrier(0), Record(start)]
    current += [*own, WriteSignal(rank, rank), async_matmul(product, node, rank), WaitEvent(end), Barrier(0)]
    backend: list[OperationLike] = [WaitEvent(start)]
    for step in range(1, ranks):
        source = (rank + step) % ranks
        backend += [*peer_copies(source, rank, shard, node, rows=rows), WriteSignal(rank, source)]
    backend.append(Record(end))
    return [Stream(rank, "current", 0, tuple(current)), Stream(rank, "backend", -1, tuple(backend))]


def _scatter_sequence(product: Product, node: Node, rank: int) -> list[Stream]:
    return [Stream(rank, "current", 0, (matmul(product, product.m), *scatters(product, node)))]


def _scatter_decomposed(product: Product, node: Node, rank: int) -> list[Stream]:
    ranks, rows, part = node.ranks, product.m // node.ranks, product.result_bytes // node.ranks
    nap = Kernel("short sleep", "fill", {"bytes": _WORD_BYTES}, 1)
    start = f"start of {rank}"
    current: list[OperationLike] = [Barrier(0), Record(start)]
    backend: list[OperationLike] = [WaitEvent(start)]
    for step in range(1, ranks):
        stream = current if step % 2 == 0 else backend
        channel = 2 + step % 2
        if step == 2:
            current.append(nap)
        stream.append(matmul(product, rows, f"matmul for {(rank + step) % ranks}"))
        stream.append(Barrier(channel))
        stream += peer_copies((rank - step) % ranks, rank, part, node, rows=0)
        stream.append(Barrier(channel))
    if ranks == 2:
        current.append(nap)
    current.append(matmul(product, rows, f"matmul for {rank}"))
    first, second = _joined(rank, current, backend, priority=0)
    summed = Kernel("sum of partials", "sum", {"bytes": product.result_bytes, "parts": ranks}, part >> 12 or 1)
    return [Stream(rank, first.name, first.priority, (*first.operations, summed)), second]

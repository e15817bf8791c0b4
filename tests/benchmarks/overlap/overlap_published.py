"""Figures that others published, and the programs that stand for what they ran.

Sources: RCCL all-reduce of eight MI300X, rccl-tests of ROCm 6.3 in issues of ROCm/rccl; thresholds for MI355X of
ROCm/cvs; two nodes of MI350X of ROCm/rocm-systems#9406; fused dispatch and combine of
AMD-AGI/Primus-Turbo, docs/README_Mega_MoE.md and flydsl/mega/dispatch_grouped_gemm_bf16_kernel.py (its workgroups that
copy, its flag an expert); MI308X of ByteDance-Seed/Triton-distributed, docs/getting-started/e2e/e2e_dense.md, with
python/triton_dist/kernels/amd for what it runs; native over fallback of pytorch/pytorch#177961, host time of a product
on ROCm of #196920; rings of two and four MI355X of ROCm/rocm-systems#9049; products beside collectives on eight MI355X
of ROCm/mori#200.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from overlap_points import Point

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.overlap.collectives import algorithms, collective_time
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import Product, all_gather_matmul, collective, local_copy, matmul
from wavecast.simulator.overlap.prices import Prices
from wavecast.simulator.overlap.program import (
    Barrier,
    Copy,
    Kernel,
    KernelLike,
    OperationLike,
    Program,
    Record,
    Stream,
    WaitEvent,
    WaitSignal,
    WriteSignal,
)
from wavecast.simulator.overlap.simulate import simulate
from wavecast.simulator.overlap.times import KernelTime
from wavecast.simulator.timing.gemm import Configuration, GemmProblem, Tile, rank_kernels

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
ALL_REDUCE_MI300X = {
    256 * _KIB: 27, _MIB: 67, 4 * _MIB: 142, 16 * _MIB: 197, 64 * _MIB: 274, 128 * _MIB: 295, 256 * _MIB: 306,
    _GIB: 315, 16 * _GIB: 319,
}  # fmt: skip
# Over two nodes, before a change of RCCL's choice and after it: size, algorithm, protocol, bus bandwidth, channels.
_LINES = "low-latency-128"
TWO_NODES_BEFORE = (
    (32 * _MIB, "tree", _LINES, 127.38, 64), (64 * _MIB, "ring", _LINES, 155.58, 64),
    (128 * _MIB, "ring", "simple", 229.74, 64),
)  # fmt: skip
TWO_NODES_AFTER = (
    (32 * _MIB, "ring", _LINES, 156.35, 64), (64 * _MIB, "tree", "simple", 190.33, 64),
    (128 * _MIB, "ring", "simple", 249.4, 48),
)  # fmt: skip
THRESHOLDS_MI355X = {"all-reduce": 390, "all-gather": 380, "reduce-scatter": 400, "all-to-all": 340}
TWO_NODES_MI355X = {"all-reduce": 330, "all-gather": 330, "reduce-scatter": 340, "all-to-all": 45}


def all_reduce_points() -> list[Point]:
    """Bus bandwidth of eight MI300X."""
    node = Node(load_device("mi300x"), 8)
    return [
        Point("RCCL all-reduce, 8×MI300X", _size(size), bus, collective_time("all-reduce", size, node).bus_gb_s)
        for size, bus in ALL_REDUCE_MI300X.items()
    ]


def few_ranks_points() -> list[Point]:
    """Ring all-reduce of 64 MiB on two and four of the eight GPUs of a node, whose other links are idle."""
    device, points = load_device("mi355x"), []
    for ranks, bus in ((2, 55.6), (4, 155.8)):
        predicted = collective_time("all-reduce", 64 * _MIB, Node(device, ranks)).bus_gb_s
        points.append(Point("RCCL all-reduce, 2 and 4×MI355X", f"{ranks} GPUs, 64 MB", bus, predicted))
    return points


def two_nodes_points() -> list[Point]:
    """All-reduce over two nodes of eight MI350X, whose links are those of MI355X, as RCCL chooses after the change."""
    node = Node(load_device("mi355x"), 8)
    return [
        Point(
            "RCCL all-reduce, 2 nodes of 8×MI350X", _size(size), bus,
            collective_time("all-reduce", size, node, nodes=2).bus_gb_s,
        )
        for size, _, _, bus, _ in TWO_NODES_AFTER
    ]  # fmt: skip


def two_nodes_algorithms() -> list[Point]:
    """The same by the algorithm and protocol that RCCL had chosen, before the change and after it."""
    node, points = Node(load_device("mi355x"), 8), []
    for size, algorithm, protocol, bus, channels in (*TWO_NODES_BEFORE, *TWO_NODES_AFTER):
        (found,) = (
            entry
            for entry in algorithms("all-reduce", size, node, nodes=2)
            if (entry.algorithm, entry.protocol) == (algorithm, protocol)
        )
        label = f"{_size(size)}, {algorithm}, {protocol}, {channels} channels"
        fitted = (size, algorithm, protocol) == (64 * _MIB, "ring", _LINES)
        points.append(Point("the same, algorithm as said", label, bus, found.bus_gb_s, fitted))
    return points


def beside_points() -> list[Point]:
    """Gain of running a collective of 128 MB a GPU beside a product of 16384³ over one after the other, MI355X ×8."""
    product, part = Product(16384, 16384, 16384), 128 * _MIB
    node = Node(load_device("mi355x"), 8, hardware_queues=9)  # engines have queues of their own there
    prices, group = Prices(node), "collective beside a product, MI355X ×8"
    kernel = matmul(product, product.m)
    alone_us = prices(kernel).alone_us
    points = []
    for label, name, gain in (
        ("all-gather by copy engines", None, 1.41), ("RCCL all-gather", "all-gather", 1.23),
        ("RCCL reduce-scatter", "reduce-scatter", 1.25),
    ):  # fmt: skip
        streams = []
        for rank in range(node.ranks):
            if name is not None:
                streams.append(Stream(rank, "collective", 0, (collective(name, node.ranks * part, node),)))
                continue
            for peer in (other for other in range(node.ranks) if other != rank):
                streams.append(Stream(rank, f"copy {peer}", 0, (Copy(peer, rank, part),)))
        both = (*streams, *(Stream(rank, "product", 0, (kernel,)) for rank in range(node.ranks)))
        times = [simulate(Program(label, node.ranks, entry), node, prices).total_us for entry in (tuple(streams), both)]
        points.append(Point(group, label, gain, (alone_us + times[0]) / times[1]))
    return points


def threshold_points(nodes: int) -> list[Point]:
    """What acceptance tests of 8 GiB want at least, on one node or two."""
    node = Node(load_device("mi355x"), 8)
    wanted = THRESHOLDS_MI355X if nodes == 1 else TWO_NODES_MI355X
    return [
        Point("thresholds", name, bus, collective_time(name, 8 * _GIB, node, nodes=nodes).bus_gb_s)
        for name, bus in wanted.items()
    ]


def _size(size: int) -> str:
    return f"{size // _GIB} GB" if size >= _GIB else f"{size // _MIB} MB" if size >= _MIB else f"{size // _KIB} KB"


@dataclass(frozen=True, slots=True)
class Fused:
    """A kernel that copies with some workgroups while the others multiply, or multiplies and sends.

    Attributes:
        label: Row of the published table.
        comm_us: Its communication alone.
        gemm_us: Its products alone.
        measured_us: Fused.
        n: Columns of the products, of all experts' rows.
        k: Depth.
        tiles: 256 × 256 tiles of an expert.
        dispatches: Whether the products wait for the copies; else the copies wait for the products.
    """

    label: str
    comm_us: float
    gemm_us: float
    measured_us: float
    n: int
    k: int
    tiles: int
    dispatches: bool


EXPERTS, ROWS, HIDDEN, INTER = 32, 2048, 7168, 2048  # of a rank: DeepSeek-V3 over eight, balanced routing
_SIDE = 256
_TILES = ROWS // _SIDE
FUSED = (
    Fused("dispatch + grouped GEMM, forward", 2230, 3260, 3560, 2 * INTER, HIDDEN, _TILES * 2 * INTER // _SIDE, True),
    Fused(
        "dispatch + grouped GEMM, gradient of the input", 2230, 1630, 2380, INTER, HIDDEN, _TILES * INTER // _SIDE,
        True,
    ),
    Fused(
        "dispatch + grouped GEMM, gradient of the weights", 2230, 3280, 3760, 2 * INTER, HIDDEN,
        HIDDEN * 2 * INTER // _SIDE**2, True,
    ),
    Fused("grouped GEMM + combine, forward", 2320, 1800, 2570, HIDDEN, INTER, _TILES * HIDDEN // _SIDE, False),
    Fused("grouped GEMM + combine, gradient", 2890, 3470, 3900, HIDDEN, 2 * INTER, _TILES * HIDDEN // _SIDE, False),
)  # fmt: skip
COPY_UNITS = (16, 24, 32, 48)  # the settings that its tuner tries


def fused_points() -> list[Point]:
    """The five overlap points of MI355X: both parts alone are published, the fused time is predicted."""
    return [
        Point(
            "fused kernels, MI355X ×8", case.label, case.measured_us, min(fused_us(case, units) for units in COPY_UNITS)
        )
        for case in FUSED
    ]


def fused_us(case: Fused, copy_units: int) -> float:
    """Time of the fused kernel with so many of its workgroups copying."""
    device = load_device("mi355x")
    units, tiles = device.compute.num_cu, EXPERTS * case.tiles
    rest = units - copy_units
    chunks = tuple(expert for expert in range(EXPERTS) for _ in range(copy_units))
    waits = tuple(expert for expert in range(EXPERTS) for _ in range(case.tiles))
    done = tuple(((expert + 1) * case.tiles, expert) for expert in range(EXPERTS))
    sent = tuple(((expert + 1) * copy_units, expert) for expert in range(EXPERTS))
    if case.dispatches:
        copies = Kernel("dispatch", "copies", {}, copy_units, compute_units=copy_units, tile_signals=sent)
        products = Kernel("products", "products", {}, rest, tile_waits=waits, compute_units=rest)
    else:
        products = Kernel("products", "products", {}, rest, compute_units=rest, tile_signals=done)
        copies = Kernel("combine", "copies", {}, copy_units, tile_waits=chunks, compute_units=copy_units)
    problem = GemmProblem.grouped_rows([ROWS] * EXPERTS, case.n, case.k)
    moved = rank_kernels(problem, device, Configuration(Tile(_SIDE, _SIDE, wave_columns=4)))[0][1].moved
    alone = case.gemm_us * -(-tiles // rest) / -(-tiles // units)

    def time(kernel: KernelLike) -> KernelTime:
        if kernel.operator == "copies":
            return KernelTime(case.comm_us, 2 * EXPERTS * ROWS * HIDDEN * 2, EXPERTS * copy_units)
        return KernelTime(alone, moved.hbm_read + moved.written, tiles)

    streams = (Stream(0, "copies", 0, (copies,)), Stream(0, "products", 0, (products,)))
    outcome = simulate(Program(case.label, 1, streams), Node(device, 1), time)
    assert outcome.deadlock is None, outcome.deadlock
    return outcome.total_us


RATIOS = {512: (0.65, 0.97), 1024: (0.95, 1.4), 2048: (1.0, 1.6), 4096: (1.0, 1.6)}
COLUMNS = (1024, 2048, 4096)
# What a call takes the host, µs by depth, least of rounds beside an H200 (gpu_host_of_paths.py): by ranks, and path or
# input of the native one, which refuses to be captured, so that both ran eagerly.
_DECOMPOSED, _COPIED, _SHARED = "decomposed", "native, shard copied", "native, shard in symmetric memory"
HOST_US: Mapping[int, Mapping[str, tuple[float, ...]]] = {
    2: {
        _DECOMPOSED: (309.4, 289.2, 309.9, 309.3),
        _COPIED: (242.5, 316.5, 380.1, 586.8),
        _SHARED: (226.2, 235.3, 300.5, 423.1),
    },
    4: {
        _DECOMPOSED: (410.5, 418.6, 475.1, 623.3),
        _COPIED: (385.0, 339.2, 474.8, 727.8),
        _SHARED: (230.9, 302.6, 386.0, 549.9),
    },
}

# What a product that is over before the next is launched takes the host, µs: ours by ranks, in the same run, and a
# node of MI308X, PyTorch for ROCm (64 x 64 x 64). The ratio stands for how fast the host of the published runs was.
PRODUCT_US, ROCM_PRODUCT_US = {2: 21.8, 4: 18.0}, 11.1
HOSTS = ("rocm", "ours", "ahead")


def ratio_rows() -> list[tuple[str, ...]]:
    """Native over fallback on MI355X, M 4096, by depth; neither the width nor where the shard lay is published."""
    rows = []
    for depth, (low, high) in RATIOS.items():
        cells = [f"{low} – {high}"]
        for host in HOSTS:
            for ranks in (2, 4):
                values = ratios(ranks, depth, host=host)
                cells.append(f"{min(values):.2f} – {max(values):.2f}")
        rows.append((str(depth), *cells))
    return rows


def ratios(ranks: int, depth: int, *, host: str = "rocm") -> list[float]:
    """Predicted time of the native path over the fallback's, for every width and place of the shard.

    Args:
        ranks: GPUs.
        depth: K, one of ``RATIOS``.
        host: One of ``HOSTS``: as fast as a ROCm node's, as the one that was measured, or ahead of the GPU.
    """
    found = []
    for n in COLUMNS:
        fallback = _path_us(ranks, n, depth, _DECOMPOSED, host)
        found += [_path_us(ranks, n, depth, native, host) / fallback for native in (_COPIED, _SHARED)]
    return found


def _path_us(ranks: int, n: int, depth: int, path: str, host: str) -> float:
    """Time of a call, whose operations take the host as long each."""
    node, product = Node(load_device("mi355x"), ranks), Product(4096, n, depth)
    name = _DECOMPOSED if path == _DECOMPOSED else "native-upstream"
    program = all_gather_matmul(product, node, name, shared_input=path == _SHARED)
    if host != "ahead":
        calls = sum(len(stream.operations) for stream in program.streams if stream.rank == 0)
        call_us = HOST_US[ranks][path][list(RATIOS).index(depth)]
        slower = 1.0 if host == "ours" else ROCM_PRODUCT_US / PRODUCT_US[ranks]
        node = replace(node, host_us=slower * call_us / calls)
    outcome = simulate(program, node, Prices(node))
    assert outcome.deadlock is None
    return outcome.total_us


def mi308x() -> Device:
    """MI308X as far as it is public: 80 of MI300X's compute units, the same links and memory.

    The published runs write signals by copies of four bytes on the engines that bring the rows, which take less than
    5 µs by a comment in the code, and let no kernel await them.
    """
    base = load_device("mi300x").with_value("compute.num_cu", 80)
    assert base.link is not None
    link = replace(base.link, signal_workgroups=None, write_signal_us=5.0, engine_signal_us=0.0)
    return replace(base, name="mi308x", title="AMD Instinct MI308X", link=link)


MI308X_ROWS, _BLOCK = 4096, 256  # rows of all ranks; of a tile, and of what is signalled
MI308X = (
    ("all-gather + GEMM, Qwen3-32B, M 4096", "all-gather", 6400, 5120, 1804.7, 1800.2),
    ("GEMM + reduce-scatter, Qwen3-32B, M 4096", "reduce-scatter", 5120, 3200, 1057.0, 837.0),
)


def mi308x_points() -> list[Point]:
    """Speed-up of the fused kernels: the product's time is what the published sequence leaves after the collective."""
    node = Node(mi308x(), 8, hardware_queues=16)
    prices = Prices(node)
    points = []
    for label, name, n, k, sequence, fused in MI308X:
        gathers = name == "all-gather"
        size = MI308X_ROWS * (k if gathers else n) * 2
        gemm_us = sequence - collective_time(name, size, node).us
        made = [(_pushed_rows if gathers else _stored_tiles)(rank, node, n, size) for rank in range(node.ranks)]
        program = Program(f"fused {name}", node.ranks, tuple(stream for streams in made for stream in streams))

        def time(kernel: KernelLike, us: float = gemm_us) -> KernelTime:
            return KernelTime(us) if kernel.operator == "product" else prices(kernel)

        outcome = simulate(program, node, time)
        assert outcome.deadlock is None, outcome.deadlock
        points.append(Point("fused kernels, MI308X ×8", label, sequence / fused, sequence / outcome.total_us))
    return points


def _pushed_rows(rank: int, node: Node, n: int, size: int) -> list[Stream]:
    """Copy engines push blocks of rows to all peers at once; a persistent product takes the first of each first."""
    ranks, columns, blocks = node.ranks, n // _BLOCK, MI308X_ROWS // _BLOCK // node.ranks
    order = [(rank + step) % ranks for step in range(ranks)]
    waits = tuple(
        None if owner == rank else owner * blocks + block
        for block in range(blocks) for owner in order for _ in range(columns)
    )  # fmt: skip
    product = Kernel("product", "product", {}, node.device.compute.num_cu, waits)
    shard, start = size // ranks, f"start of {rank}"
    streams = [Stream(rank, "product", 0, (local_copy(rank, shard), Barrier(), Record(start), product))]
    for peer in order[1:]:
        pushes: list[OperationLike] = [WaitEvent(start)]
        for block in range(blocks):
            pushes += [Copy(rank, peer, shard // blocks, "copy-engine"), WriteSignal(peer, rank * blocks + block)]
        streams.append(Stream(rank, f"push to {peer}", -1, tuple(pushes)))
    return streams


def _stored_tiles(rank: int, node: Node, n: int, size: int) -> list[Stream]:
    """Tiles are stored in the memory of the rank that they are for as they end, then all are there, then added up."""
    ranks, columns, blocks = node.ranks, n // _BLOCK, MI308X_ROWS // _BLOCK // node.ranks
    order = [(rank + 1 + step) % ranks for step in range(ranks)]
    visits = [(block, target) for block in range(blocks) for target in order]
    sent = tuple(((place + 1) * columns, place) for place in range(len(visits)))
    product = Kernel("product", "product", {}, len(visits) * columns, tile_signals=sent)
    summed = Kernel("sum of parts", "fill", {"bytes": size + size // ranks}, size >> 12)
    targets = order[:-1]
    stored = [WaitEvent(f"stores of {rank} to {target}") for target in targets]
    streams = [Stream(rank, "product", 0, (Barrier(), product, *stored, Barrier(), summed))]
    for target in targets:
        stores: list[OperationLike] = []
        for place, (_, owner) in enumerate(visits):
            if owner == target:
                stores += [WaitSignal(place), Copy(rank, target, size // len(visits), "fetcher")]
        stores.append(Record(f"stores of {rank} to {target}"))
        streams.append(Stream(rank, f"stores to {target}", 0, tuple(stores)))
    return streams

"""``async-tp`` and ``matmul-reduce-scatter``: a collective beside a product, over the GPUs of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from wavecast.cli.errors import misuse
from wavecast.cli.experiments.experiment import COLLECTIVE_ALONE, PRODUCT_ALONE, Experiment, Schedule, Shape

if TYPE_CHECKING:
    from wavecast.kernels.all_gather_matmul.plan import AllGatherMatmulPlan
    from wavecast.simulator.overlap.node import Node
    from wavecast.simulator.overlap.practice import Product
    from wavecast.simulator.overlap.program import Engine, Kernel, OperationLike, Program, Stream

ELEMENT_BYTES = {"bf16": 2, "fp8": 1}
OUT_BYTES, SUM_BYTES = 2, 4
# Two projections of Llama 3 70B's feed-forward layer with tensor parallelism of 8, for two sequences of 4,096, on fewer
# GPUs too, and the shape of upstream's own test.
SHAPES: tuple[Shape, ...] = (
    *({"m": 8192, "n": 7168, "k": 8192, "ranks": ranks} for ranks in (8, 4, 2)),
    {"m": 4096, "n": 1024, "k": 512, "ranks": 4},
)
# Rows, columns and depth that are measured on whatever number of GPUs: those of the microbenchmark of two H200s.
MEASURED = (
    (4096, 14336, 8192), (8192, 8192, 8192), (8192, 3584, 8192), (2048, 3584, 8192), (16384, 4096, 4096),
    (4096, 1024, 512),
)  # fmt: skip
PARTS = (PRODUCT_ALONE, COLLECTIVE_ALONE)
SIGNALS = (1, 2, 4, 8)  # of a chunk, to compare
GATHER_VARIANTS = ("sequence", "decomposed", "native-upstream", "wavecast")
SCATTER_VARIANTS = ("sequence", "decomposed", "wavecast")


def minimum_bytes(shape: Shape, dtype: str = "bf16") -> int:
    """Operands and result of a GPU once."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    return ELEMENT_BYTES[dtype] * (m * k + k * n) + OUT_BYTES * m * n


def flop(shape: Shape) -> int:
    """Operations of the product, on each GPU."""
    return 2 * shape["m"] * shape["n"] * shape["k"]


def gathered_bytes(shape: Shape, dtype: str = "bf16") -> int:
    """What a GPU receives of the operand: all but its own rows."""
    return ELEMENT_BYTES[dtype] * shape["m"] * shape["k"] * (shape["ranks"] - 1) // shape["ranks"]


def scattered_bytes(shape: Shape) -> int:
    """What a GPU receives at least of the result: its rows of the other GPUs' partial results."""
    return OUT_BYTES * shape["m"] * shape["n"] * (shape["ranks"] - 1) // shape["ranks"]


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """Nothing: a schedule is not run in one process.

    Raises:
        CliError: always.
    """
    raise misuse(
        f"a schedule of {shape['ranks']} GPUs calls no operator in one process",
        hint=f"predict shows its time, and measure --gpus {shape['ranks']} takes it on so many GPUs",
    )


def measured_shapes(gpus: int) -> tuple[Shape, ...]:
    """Shapes that are measured on so many GPUs."""
    return tuple({"m": m, "n": n, "k": k, "ranks": gpus} for m, n, k in MEASURED)


def gather_schedule(variant: str, shape: Shape, device: str, dtype: str = "bf16") -> Schedule:
    """Streams of an all-gather+matmul, or of a part of it."""
    from wavecast.simulator.overlap.practice import all_gather_matmul, gathers

    node, product = _node(shape, device), _product(shape, dtype)
    if variant in PARTS:
        return _part(variant, product, node, gathers(product, node))
    ours = variant == "wavecast"
    return _gather(
        product, node, wavecast_program(product, node) if ours else all_gather_matmul(product, node, variant)
    )


def gather_alternatives(variant: str, shape: Shape, device: str, dtype: str = "bf16") -> dict[str, Schedule]:
    """Other transports for our own path: by what moves chunks, and with more or fewer signals a chunk than planned."""
    from wavecast.kernels.async_tp.selection import MOST_SIGNALS
    from wavecast.simulator.overlap.program import ENGINES

    if variant != "wavecast":
        return {}
    node, product = _node(shape, device), _product(shape, dtype)
    engines = [engine for engine in ENGINES if engine != "blit" or node.link.blit_workgroups is not None]
    programs: dict[str, Program] = {engine: wavecast_program(product, node, engine=engine) for engine in engines}
    rows, planned = product.m // node.ranks, _plan(product, node).transport
    for signals in SIGNALS:
        finer = _signal_rows(rows, signals)
        if finer != planned.signal_rows and -(-rows // finer) * node.ranks <= MOST_SIGNALS:
            name = f"{planned.engine} with {-(-rows // finer)} signals a chunk"
            programs[name.replace(" 1 signals", " 1 signal")] = wavecast_program(product, node, signals=signals)
    return {name: _gather(product, node, program) for name, program in programs.items()}


def _signal_rows(rows: int, signals: int) -> int:
    """Rows of a signal, where a chunk has so many at most: whole tiles of any size."""
    from wavecast.kernels.async_tp.transport import SIGNAL_ROWS

    each = -(-rows // signals)
    return min(rows, -(-each // SIGNAL_ROWS) * SIGNAL_ROWS)


def _gather(product: Product, node: Node, program: Program) -> Schedule:
    from wavecast.simulator.overlap.practice import gathers, matmul

    return Schedule(program, node, matmul(product, product.m), gathers(product, node))


def scatter_schedule(variant: str, shape: Shape, device: str, dtype: str = "bf16") -> Schedule:
    """Streams of a matmul+reduce-scatter, or of a part of it."""
    from wavecast.simulator.overlap.practice import matmul, matmul_reduce_scatter, scatters

    node, product = _node(shape, device), _product(shape, dtype)
    if variant in PARTS:
        return _part(variant, product, node, scatters(product, node))
    ours = variant == "wavecast"
    program = wavecast_scatter(product, node) if ours else matmul_reduce_scatter(product, node, variant)
    return Schedule(program, node, matmul(product, product.m), scatters(product, node))


def _part(variant: str, product: Product, node: Node, collectives: tuple[Kernel, ...]) -> Schedule:
    """The product, or what is to be hidden beside it, by itself."""
    from wavecast.simulator.overlap.practice import matmul

    kernels = (matmul(product, product.m),) if variant == PRODUCT_ALONE else collectives
    return alone(kernels, node)


def alone(kernels: tuple[Kernel, ...], node: Node) -> Schedule:
    """Kernels that every rank runs, one after the other, and nothing beside them."""
    from wavecast.simulator.overlap.program import Program, Stream

    streams = tuple(Stream(rank, "current", 0, kernels) for rank in range(node.ranks))
    product = next((kernel for kernel in kernels if kernel.operator == "matmul"), None)
    collectives = tuple(kernel for kernel in kernels if kernel is not product)
    return Schedule(Program(kernels[0].name, node.ranks, streams), node, product, collectives)


def _node(shape: Shape, device: str) -> Node:
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.overlap.node import Node

    return Node(load_device(device), shape["ranks"])


def _product(shape: Shape, dtype: str) -> Product:
    from wavecast.simulator.overlap.practice import Product

    return Product(shape["m"], shape["n"], shape["k"], dtype, OUT_BYTES)


def wavecast_program(
    product: Product, node: Node, *, engine: Engine | None = None, signals: int | None = None
) -> Program:
    """What ``wavecast.kernels.all_gather_matmul`` puts on its streams, from the plan that it makes itself.

    Args:
        product: Shape.
        node: GPUs.
        engine: What moves chunks; None leaves it to the plan.
        signals: Signals of a chunk, at most; None leaves them to the plan.
    """
    from wavecast.simulator.overlap.program import Program

    ranks = node.ranks
    if product.m % ranks:
        raise misuse(f"{product.m} rows do not divide by {ranks} GPUs", hint="give a multiple: --shape m=…")
    plan = _plan(product, node, engine)
    if signals is not None:
        told = replace(plan.transport, signal_rows=_signal_rows(product.m // ranks, signals))
        plan = replace(plan, transport=told)
    streams = [stream for rank in range(ranks) for stream in _wavecast_streams(product, node, plan, rank)]
    return Program("all-gather+matmul wavecast", ranks, tuple(streams))


def _plan(product: Product, node: Node, engine: Engine | None = None) -> AllGatherMatmulPlan:
    from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul

    element = ELEMENT_BYTES[product.dtype]
    return plan_all_gather_matmul(
        shard_rows=product.m // node.ranks, columns=product.n, length=product.k, ranks=node.ranks,
        element_bytes=element, arch=node.device.arch, full_mesh=node.link.full_mesh, engine=engine,
        tma_bytes=(OUT_BYTES, element * product.k),
    )  # fmt: skip


def _wavecast_streams(product: Product, node: Node, plan: AllGatherMatmulPlan, rank: int) -> list[Stream]:
    from wavecast.kernels.async_tp.order import fetch_order
    from wavecast.kernels.async_tp.transport import COPIED_AT_ONCE_BYTES
    from wavecast.simulator.overlap.practice import local_copy
    from wavecast.simulator.overlap.program import Barrier, Copy, Record, Stream, WaitEvent, WaitSignal, WriteSignal

    transport, rows = plan.transport, product.m // node.ranks
    row_bytes, scale_bytes = product.k * ELEMENT_BYTES[product.dtype], product.scale_bytes // node.ranks
    piece = max(1, (transport.piece_bytes or rows * row_bytes) // row_bytes)
    told = range(0, rows, transport.signal_rows)
    start, ready = f"start of {rank}", f"shard of {rank}"
    # Workgroups of the kernel fetch once it has begun; who else copies waits for what is enqueued before it.
    begun = node.ranks * len(told) if transport.engine == "fetcher" else None
    first_wait: OperationLike = WaitEvent(start) if begun is None else WaitSignal(begun)
    fetches: list[list[OperationLike]] = [[first_wait] for _ in range(transport.peers)]
    for place, source in enumerate(fetch_order(rank, node.ranks)):
        fetch = fetches[place % transport.peers]
        fetch += [Copy(source, rank, scale_bytes, transport.engine)] * (scale_bytes > 0)
        for number, first in enumerate(told):
            last = min(first + transport.signal_rows, rows)
            for row in range(first, last, piece):
                size = (min(row + piece, last) - row) * row_bytes
                fetch.append(Copy(source, rank, size, transport.engine))
            fetch.append(WriteSignal(rank, source * len(told) + number))
    awaited = rows % plan.block_m > 0
    tell_own = [WriteSignal(rank, rank * len(told))] * awaited
    at_once = rows * row_bytes <= COPIED_AT_ONCE_BYTES
    # One launch copies to the window, and scales, and few rows, to where all is gathered.
    publish = Barrier(copied_bytes=rows * row_bytes * (2 if at_once else 1) + 2 * scale_bytes)
    compute: list[OperationLike] = [publish, *tell_own] if at_once else [Record(ready), publish]
    others: list[tuple[str, list[OperationLike]]] = []
    if not at_once:
        others.append(("local", [WaitEvent(ready), local_copy(rank, rows * row_bytes), *tell_own]))
    others += [(f"fetch {lane + 1}" if lane else "fetch", fetch) for lane, fetch in enumerate(fetches)]
    kernel = _wavecast_kernel(product, node, plan, rank, begun)
    ends = [f"end of {name} of {rank}" for name, _ in others]
    waits: list[OperationLike] = [WaitEvent(end) for end in ends]
    compute += [Record(start), kernel, *waits]
    return [
        Stream(rank, "compute", 0, tuple(compute)),
        *(
            Stream(rank, name, -1, (*operations, Record(end)))
            for (name, operations), end in zip(others, ends, strict=True)
        ),
    ]


def _wavecast_kernel(product: Product, node: Node, plan: AllGatherMatmulPlan, rank: int, begun: int | None) -> Kernel:
    """The product; ``begun`` is the signal that it sets when it begins."""
    from wavecast.kernels.async_tp.order import arrivals, gather_visits
    from wavecast.simulator.overlap.program import Kernel

    tiles, transport = plan.gemm if plan.tma is None else plan.tma, plan.transport
    ranks, rows = node.ranks, product.m // node.ranks
    order = arrivals(rank=rank, ranks=ranks, shard_rows=rows, signal_rows=transport.signal_rows, peers=transport.peers)
    visits = gather_visits(
        rank=rank, ranks=ranks, shard_rows=rows, signal_rows=transport.signal_rows, peers=transport.peers,
        tiles_n=-(-product.n // tiles.block_n), block_m=tiles.block_m, band=tiles.band,
    )  # fmt: skip
    # A tile waits for the last of its signals to come; that of the own chunk comes first.
    place = {signal: number for number, signal in enumerate(order)}
    waits = tuple(max(visit.signals, key=lambda signal: place.get(signal, -1), default=None) for visit in visits)
    shape: dict[str, int | str] = {
        "M": product.m, "N": product.n, "K": product.k, "dtype": product.dtype, "block_m": tiles.block_m,
        "block_n": tiles.block_n,
    }  # fmt: skip
    # Workgroups that fetch take tiles when they have fetched their last rows.
    last = [order[-peer] for peer in range(transport.peers, 0, -1)] if transport.fetchers else []
    late = tuple((signal, transport.fetchers // transport.peers) for signal in last)
    units = min(node.device.compute.num_cu, transport.most_units)
    workgroups = min(units, len(waits) + transport.fetchers)
    started = () if begun is None else ((0, begun),)
    return Kernel("async matmul", "async-matmul", shape, workgroups, waits, tile_signals=started, late_workgroups=late)


_PIECES = 16  # of a part that is written to another GPU while the next piece is computed


def wavecast_scatter(product: Product, node: Node) -> Program:
    """What ``wavecast.kernels.matmul_reduce_scatter`` does, from the plan that it makes itself.

    One kernel computes the parts of the ranks behind it first, one after another or in turns, and writes them in fp32
    where they are added, as its tiles end; a tile of its own part waits for those of the others when it is computed.
    """
    from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter
    from wavecast.simulator.overlap.program import Barrier, Copy, Kernel, Program, Stream, WaitSignal, WriteSignal

    ranks = node.ranks
    if product.m % ranks:
        raise misuse(f"{product.m} rows do not divide by {ranks} GPUs", hint="give a multiple: --shape m=…")
    rows, element = product.m // ranks, ELEMENT_BYTES[product.dtype]
    plan = plan_matmul_reduce_scatter(
        rows=rows, columns=product.n, length=product.k, ranks=ranks, element_bytes=element, arch=node.device.arch,
        full_mesh=node.link.full_mesh, tma_stride_bytes=element * product.k,
    )  # fmt: skip
    gemm = plan.gemm if plan.tma is None else plan.tma
    tiles = -(-rows // gemm.block_m) * -(-product.n // gemm.block_n)
    shape: dict[str, int | str] = {
        "M": product.m, "N": product.n, "K": product.k, "dtype": product.dtype, "block_m": gemm.block_m,
        "block_n": gemm.block_n,
    }  # fmt: skip
    pieces = min(_PIECES, tiles)
    size = rows * product.n * SUM_BYTES // pieces
    streams: list[Stream] = []
    for rank in range(ranks):
        last = (rank - 1) % ranks  # whose part for this rank comes last
        waits = (None,) * (tiles * (ranks - 1)) + (last,) * tiles
        done: list[tuple[int, int]] = []
        pushes: list[list[OperationLike]] = [[] for _ in range(plan.peers)]
        for step in range(ranks - 1):
            target, push = (rank - 1 - step) % ranks, pushes[step % plan.peers]
            before = step * tiles if plan.peers == 1 else 0
            for piece in range(1, pieces + 1):
                signal = ranks + step * pieces + piece
                done.append((before + piece * tiles // pieces * plan.peers, signal))
                push += [WaitSignal(signal), Copy(rank, target, size, "fetcher")]
            push.append(WriteSignal(target, rank))
        workgroups = min(node.device.compute.num_cu, gemm.programs, len(waits))
        kernel = Kernel(
            "async matmul", "async-matmul", shape, workgroups, waits, tile_signals=tuple(done), waits_at_end=True
        )
        streams.append(Stream(rank, "compute", 0, (Barrier(), kernel)))
        streams += [
            Stream(rank, f"stores {lane + 1}" if lane else "stores", 0, tuple(push)) for lane, push in enumerate(pushes)
        ]
    return Program("matmul+reduce-scatter wavecast", ranks, tuple(streams))


def _experiment(operator: str, dtype: str, schedule: Callable[..., Schedule], **options: Any) -> Experiment:
    return Experiment(
        name=operator if dtype == "bf16" else f"{operator}-{dtype}",
        shapes=SHAPES,
        device="mi300x",
        dtype=dtype,
        published=(),
        minimum_bytes=partial(minimum_bytes, dtype=dtype),
        flop=flop,
        make_inputs=make_inputs,
        operator=__name__,
        by_default=False,
        schedule=partial(schedule, dtype=dtype),
        parts=PARTS,
        group_shapes=measured_shapes,
        **options,
    )


_GATHERED = "all-gather of activations beside the product that needs them, over the GPUs of a node"
_SCATTERED = "a product beside the reduce-scatter of its result, over the GPUs of a node"

EXPERIMENT = _experiment(
    "async-tp",
    "bf16",
    gather_schedule,
    summary=_GATHERED,
    variants=GATHER_VARIANTS,
    remark=(
        "upstream takes its native path only for 2048 < M ≤ 4096, on AMD only below K 1024; its pull request says 4 to "
        "33 % on MI355X: 0.65 to 0.97 of the decomposed time at K 512"
    ),
    alternatives=gather_alternatives,
    linked_bytes=gathered_bytes,
)

FP8 = _experiment(
    "async-tp",
    "fp8",
    gather_schedule,
    summary=f"{_GATHERED}, in FP8 with a scale a row and column",
    variants=tuple(name for name in GATHER_VARIANTS if name != "native-upstream"),
    remark="upstream has no native path for FP8",
    alternatives=partial(gather_alternatives, dtype="fp8"),
    linked_bytes=partial(gathered_bytes, dtype="fp8"),
)

SCATTER = _experiment(
    "matmul-reduce-scatter",
    "bf16",
    scatter_schedule,
    summary=_SCATTERED,
    variants=SCATTER_VARIANTS,
    remark="upstream has no native path",
    linked_bytes=scattered_bytes,
)

SCATTER_FP8 = _experiment(
    "matmul-reduce-scatter",
    "fp8",
    scatter_schedule,
    summary=f"{_SCATTERED}, in FP8 with a scale a row and column",
    variants=SCATTER_VARIANTS,
    remark="upstream has no native path",
    linked_bytes=scattered_bytes,
)

"""Two H200: collectives, all-gather+matmul and matmul+reduce-scatter against ``h200-microbench.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from overlap_points import Point

from wavecast.simulator.devices import load_device
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import (
    Product,
    all_gather_matmul,
    async_matmul,
    collective,
    matmul,
    matmul_reduce_scatter,
)
from wavecast.simulator.overlap.prices import LIBRARIES, Prices
from wavecast.simulator.overlap.program import Copy, Kernel, OperationLike, Program, Stream
from wavecast.simulator.overlap.simulate import simulate
from wavecast.simulator.overlap.times import KernelKey, KernelTime, kernel_key
from wavecast.simulator.timing.gemm import GemmProblem, Scaling, rank_kernels

FILE = "h200-microbench.json"
EVENTS_US = 2.976  # two events behind queued work with nothing between: part of every isolated figure
COLLECTIVES = {
    "all_gather_into_tensor": "all-gather",
    "reduce_scatter_tensor": "reduce-scatter",
    "all_reduce": "all-reduce",
}
# Rows that constants of the device file come from; all others are held out.
FITTED = {("all-gather", size) for size in (2**16, 2**22, 2**24, 2**30)}
CAPTURED_BYTES = 2**16  # of collectives in graphs
SHAPES = (
    (4096, 14336, 8192), (8192, 8192, 8192), (8192, 3584, 8192), (2048, 3584, 8192), (16384, 4096, 4096),
    (4096, 1024, 512),
)  # fmt: skip
Rows = list[dict[str, Any]]


def read_rows(folder: Path) -> Rows:
    """Rows of the measurement.

    Raises:
        FileNotFoundError: if the folder does not have the file.
    """
    return list(json.loads((folder / FILE).read_text(encoding="utf-8"))["rows"])


def collective_points(rows: Rows, how: str = "isolated") -> list[Point]:
    """NCCL; the median of the runs.

    Args:
        rows: The measurement.
        how: ``isolated``: each call between two events; ``graph of 10``: calls of one kind in a graph.
    """
    alone = how == "isolated"
    node, points = Node(load_device("h200"), 2, captured=not alone), []
    prices = Prices(node)
    for what, name in COLLECTIVES.items():
        mine = [row for row in rows if row["sec"] == "nccl" and row["what"] == what and row["how"] == how]
        for size in sorted({row["total_bytes"] for row in mine}):
            measured = median(row["us"] for row in mine if row["total_bytes"] == size)
            predicted = prices(collective(name, size, node)).alone_us + (EVENTS_US if alone else 0.0)
            label, group = f"{size // 2**10:,} KiB", f"NCCL {name}, 2×H200" + ("" if alone else f", {how}")
            fitted = (name, size) in FITTED if alone else size == CAPTURED_BYTES
            points.append(Point(group, label, measured, predicted, fitted))
    return points


# Section, operand type, name of the product, names of the paths.
_SECTIONS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "agmm_inter": (
        "bf16", "mm",
        {
            "sequence": "NCCL then mm",
            "decomposed": "fused_all_gather_matmul decomposed",
            "native-upstream": "native pipeline",
        },
    ),
    "agmm_fp8_inter": (
        "fp8", "_scaled_mm",
        {"sequence": "NCCL then _scaled_mm", "decomposed": "fused_all_gather_scaled_matmul decomposed"},
    ),
    "mmrs_inter": (
        "bf16", "mm", {"sequence": "mm then NCCL", "decomposed": "fused_matmul_reduce_scatter"},
    ),
}  # fmt: skip
NAMES = {"agmm_inter": "AG+matmul", "agmm_fp8_inter": "AG+matmul fp8", "mmrs_inter": "matmul+RS"}


def overlap_points(rows: Rows, how: str, *, measured_products: bool = True) -> list[Point]:
    """Every path and shape.

    Args:
        rows: The measurement.
        how: ``isolated``: between two events; ``steady``: in graphs of several calls, on a hot GPU.
        measured_products: Whether times of products alone are the measured ones, which leaves only overlap to predict;
            else they are predicted as well.
    """
    alone = how == "isolated"
    node, events = Node(load_device("h200"), 2, captured=not alone), EVENTS_US if alone else 0.0
    points = []
    for shape in SHAPES:
        for section, (dtype, product_name, paths) in _SECTIONS.items():
            product = Product(*shape, dtype)
            known = _known(rows, node, product, section, product_name, how, events) if measured_products else {}
            prices = Prices(node, known)
            # The gather by copy engines alone, of the same run, leaves no time for a copy into symmetric memory first.
            gather = partial(all_gather_matmul, shared_input=True)
            make = matmul_reduce_scatter if section == "mmrs_inter" else gather
            for path, what in paths.items():
                measured = _measured(rows, section, shape, what, how)
                if measured is None:
                    continue
                outcome = simulate(make(product, node, path), node, prices)
                assert outcome.deadlock is None, outcome.deadlock
                label = f"{'×'.join(map(str, shape))} {path}"
                points.append(Point(f"{NAMES[section]}", label, measured, outcome.total_us + events))
    return points


# Products and transfers that ran beside them for ever, as the measurement calls them.
CONTENTION = {
    "bf16 mm 8192x8192x8192": Product(8192, 8192, 8192),
    "bf16 mm 8192x3584x8192": Product(8192, 3584, 8192),
    "bf16 mm 2048x3584x8192": Product(2048, 3584, 8192),
    "fp8 rowwise 8192^3": Product(8192, 8192, 8192, "fp8"),
}
_BACKGROUND_BYTES = 2**28


def contention_points(rows: Rows) -> list[Point]:
    """How much longer a product takes beside transfers in both directions that follow one another."""
    node, points = Node(load_device("h200"), 2), []
    backgrounds = {
        "copy engine pull 256 MB": [Copy(1, 0, _BACKGROUND_BYTES)],
        "NCCL all-gather 512 MB total": [collective("all-gather", 2 * _BACKGROUND_BYTES, node)],
    }
    for what, product in CONTENTION.items():
        for background, operations in backgrounds.items():
            measured = median(
                row["factor"]
                for row in rows
                if (row["sec"], row["what"], row.get("background")) == ("contend", what, background)
                and row["stream_priority"] == "equal"
            )
            points.append(
                Point(
                    "products beside transfers", f"{what}, {background}", measured, _slowed(node, product, operations)
                )
            )
    return points


def _slowed(node: Node, product: Product, background: list[OperationLike]) -> float:
    """Time of the product beside the transfers, over its time alone."""
    prices, kernel = Prices(node), matmul(product, product.m)
    streams = []
    for rank in range(node.ranks):
        mirrored = [
            Copy(operation.target_rank, operation.source_rank, operation.size_bytes)
            if rank and operation.kind == "copy"
            else operation
            for operation in background
        ]
        # The transfers begin first and outlast the product.
        streams.append(Stream(rank, "transfers", 0, tuple(mirrored) * 12))
        streams.append(Stream(rank, "product", 0, (Kernel("delay", "fill", {"bytes": 4}, 1), kernel)))
    outcome = simulate(Program("beside", node.ranks, tuple(streams)), node, prices)
    (span,) = (span for span in outcome.spans if span.rank == 0 and span.name == kernel.name)
    return (span.end_us - span.ready_us) / prices(kernel).alone_us


def _measured(rows: Rows, section: str, shape: tuple[int, ...], what: str, how: str) -> float | None:
    found = [
        row["us"]
        for row in rows
        if (row["sec"], tuple(row.get("shape", ())), row["what"]) == (section, shape, what)
        and row["how"].startswith(how)
    ]
    return median(found) if found else None


def _known(
    rows: Rows, node: Node, product: Product, section: str, name: str, how: str, events: float
) -> dict[KernelKey, KernelTime]:
    """Times of the products alone, as measured.

    The kernel that the library took for a part of the rows is not in the file: of those that the model holds possible,
    the one whose time, scaled as for all rows, comes nearest is assumed. It decides the number of tiles.
    """
    shape = product.m, product.n, product.k
    prices = Prices(node)
    whole, half = matmul(product, product.m), matmul(product, product.m // 2)
    whole_us = _measured(rows, section, shape, name, how)
    assert whole_us is not None
    whole_us -= events
    estimate, estimated_half = prices(whole), prices(half)
    scale = whole_us / estimate.alone_us
    both = _measured(rows, section, shape, "mm in two halves", how) or _measured(
        rows, "agmm_inter", shape, "mm in two halves", how
    )
    half_us = (both - events) / 2 if both and product.dtype == "bf16" else scale * estimated_half.alone_us
    known = {
        kernel_key("matmul", whole.shape): replace(estimate, alone_us=whole_us),
        kernel_key("matmul", half.shape): _nearest(product, node, half_us, scale),
    }
    if section == "agmm_inter":
        kernel: Kernel = async_matmul(product, node, 0)
        native_us = whole_us * _native_over_library(rows, shape)
        known[kernel_key(kernel.operator, kernel.shape)] = replace(prices(kernel), alone_us=native_us)
    return known


def _native_over_library(rows: Rows, shape: tuple[int, ...]) -> float:
    """Time of PyTorch's persistent kernel, with everything there, over the library's product in the same run.

    Of each the least time counts: where the GPU throttles, it does so for one and not for the other.
    """
    ratios = []
    mine = [
        row for row in rows if (row["sec"], row.get("how")) == ("agmm", "isolated") and tuple(row["shape"]) == shape
    ]
    for run in {row["run"] for row in mine}:
        native, library = (
            next(row["us_min"] for row in mine if row["run"] == run and row["what"].startswith(what)) - EVENTS_US
            for what in ("_async_input_mm", "mm")
        )
        ratios.append(native / library)
    return median(ratios)


def _nearest(product: Product, node: Node, us: float, scale: float) -> KernelTime:
    scaling = Scaling.ROWWISE if product.dtype == "fp8" else Scaling.NONE
    problem = GemmProblem.dense(product.m // 2, product.n, product.k, product.dtype, scaling)
    kernels = rank_kernels(problem, node.device, LIBRARIES[node.device.arch])
    configuration, found = min(kernels, key=lambda entry: abs(scale * entry[1].total_us - us))
    moved = found.moved.hbm_read + found.moved.written
    return KernelTime(us, moved, configuration.workgroups(problem), exclusive=configuration.persistent)

"""Many schedules at once: on the processors of this machine, or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context

from wavecast.simulator.devices import load_device
from wavecast.simulator.errors import MissingToolError
from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import (
    Product,
    all_gather_matmul,
    gathers,
    matmul,
    matmul_reduce_scatter,
    scatters,
)
from wavecast.simulator.overlap.prices import Prices
from wavecast.simulator.overlap.simulate import simulate
from wavecast.simulator.overlap.verdict import Verdict, judge

GATHER, SCATTER = "all-gather+matmul", "matmul+reduce-scatter"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One schedule.

    Attributes:
        operation: ``all-gather+matmul`` or ``matmul+reduce-scatter``.
        product: Shape.
        ranks: GPUs.
        path: A path of ``practice``.
        device: Name of the device.
        hardware_queues: As of ``Node``.
        host_us: As of ``Node``.
    """

    operation: str
    product: Product
    ranks: int
    path: str
    device: str = "mi300x"
    hardware_queues: int | None = None
    host_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a schedule: its verdict, or why there is none."""

    configuration: Configuration
    verdict: Verdict | None
    problem: str = ""


def run(configurations: Sequence[Configuration]) -> list[Answer]:
    """Simulate schedules one after the other; those of one node share the times of their kernels."""
    prices: dict[tuple[str, int, int | None, float], Prices] = {}
    return [_answer(entry, prices) for entry in configurations]


def _answer(entry: Configuration, prices: dict[tuple[str, int, int | None, float], Prices]) -> Answer:
    key = entry.device, entry.ranks, entry.hardware_queues, entry.host_us
    try:
        if key not in prices:
            prices[key] = Prices(Node(load_device(entry.device), entry.ranks, entry.hardware_queues, entry.host_us))
        found, product = prices[key], entry.product
        make = {GATHER: all_gather_matmul, SCATTER: matmul_reduce_scatter}[entry.operation]
        outcome = simulate(make(product, found.node, entry.path), found.node, found)
    except OverlapError as error:
        return Answer(entry, None, str(error))
    if outcome.deadlock is not None:
        return Answer(entry, None, str(outcome.deadlock))
    replaced = {GATHER: gathers, SCATTER: scatters}[entry.operation](product, found.node)
    collective_us = sum(found(kernel).alone_us for kernel in replaced)
    whole_us = found(matmul(product, product.m)).alone_us
    return Answer(entry, judge(outcome, found.node, whole_us=whole_us, collective_us=collective_us))


def sweep(
    configurations: Sequence[Configuration], *, jobs: int | None = None, cluster: str | None = None
) -> list[Answer]:
    """Simulate schedules, in their order.

    Args:
        configurations: What to run.
        jobs: Processes; None: one a processor.
        cluster: Address of a Dask scheduler, ``tcp://host:8786``, whose workers have this package; None: this machine.

    Raises:
        MissingToolError: if a cluster is named and Dask is not installed.
        OverlapError: if no scheduler answers at that address.
    """
    parts = _parts(configurations)
    if cluster is not None:
        answered = _on_cluster(parts, cluster)
    elif (processes := min(jobs or os.cpu_count() or 1, len(parts))) <= 1:
        answered = [run(part) for part in parts]
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            answered = list(pool.map(run, parts))
    found = {answer.configuration: answer for part in answered for answer in part}
    return [found[entry] for entry in configurations]


def _on_cluster(parts: list[list[Configuration]], cluster: str) -> list[list[Answer]]:
    if find_spec("distributed") is None:
        raise MissingToolError(
            f"the cluster at {cluster} is spoken to through the package 'distributed', which is not installed",
            hint="pip install wavecast-simulator[cluster]",
        )
    from distributed import Client  # a package that only sweeps on a cluster need

    try:
        client = Client(cluster)
    except (OSError, ValueError) as error:
        raise OverlapError(
            f"no Dask scheduler answers at {cluster}: {error}", hint="an address is like tcp://host:8786"
        ) from error
    with client:
        answered: list[list[Answer]] = client.gather(client.map(run, parts, pure=False))
    return answered


def _parts(configurations: Sequence[Configuration]) -> list[list[Configuration]]:
    """Configurations whose products have rows, columns and depth in common stand together: their kernels do, too."""
    parts: dict[tuple[str, int, int], list[Configuration]] = {}
    for entry in configurations:
        parts.setdefault((entry.device, entry.product.n, entry.product.k), []).append(entry)
    return list(parts.values())

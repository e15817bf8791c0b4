"""How far predicted overlap lies from measured overlap: ``hatch run bench:overlap [--data DIR] [--page]``.

Published figures of MI300X, MI308X and MI355X need no file; ``DIR`` has ``h200-microbench.json``, measured on two H200.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import overlap_h200 as h200
import overlap_published as published
from overlap_points import Point, rows_of, summary, table

from wavecast.simulator.overlap.practice import Product
from wavecast.simulator.overlap.sweep import GATHER, SCATTER, Configuration, sweep

PAGE = Path(__file__).resolve().parents[3] / "docs" / "overlap-accuracy.md"
_HEAD = ("data", "rows", "median", "mean", "worst", "bias")
_ROW = ("row", "measured", "predicted", "error")
WORST = 10


def _groups(points: Sequence[Point]) -> dict[str, list[Point]]:
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(point)
    return groups


def published_text() -> str:
    """Tables of what others published."""
    reduce, fused, eight = published.all_reduce_points(), published.fused_points(), published.mi308x_points()
    few, beside, far = published.few_ranks_points(), published.beside_points(), published.two_nodes_points()
    named = published.two_nodes_algorithms()
    groups = _groups([*reduce, *few, *far, *named, *fused, *beside, *eight])
    parts = [
        "### Published figures\n",
        table(
            _HEAD,
            [(name, *summary(group)) for name, group in groups.items()],
        ),
        "RCCL all-reduce on eight MI300X, bus bandwidth in GB/s:\n",
        table(_ROW, rows_of(reduce)),
        "The same over two nodes of eight MI350X, an interface of 400 Gb/s a GPU:\n",
        table(_ROW, rows_of(far)),
        "By algorithm, protocol and channels as RCCL had chosen, three before a change of its choice, three after:\n",
        table(_ROW, rows_of(named)),
        "Fused kernels on eight MI355X, µs:\n",
        table(_ROW, rows_of(fused, digits=0)),
        "Rings of 64 MB on two and four MI355X, bus bandwidth in GB/s; gain of a collective beside a product of 16384³ "
        "over one after the other on eight:\n",
        table(_ROW, rows_of([*few, *beside], digits=2)),
        "Speed-up of fused kernels over the sequence on eight MI308X:\n",
        table(_ROW, rows_of(eight, digits=2)),
        "Native over decomposed all-gather+matmul on MI355X, M 4096, N 1024 to 4096 (the one measured is not said):\n",
        table(
            ("K", "published, 2 and 4 GPUs", "2", "4", "2, our host", "4, our host", "2, host ahead", "4, host ahead"),
            published.ratio_rows(),
        ),
        "Thresholds of acceptance tests at 8 GiB on MI355X, lower bounds in GB/s:\n",
        table(
            ("collective", "one node: threshold", "predicted", "two nodes: threshold", "predicted "),
            [
                (
                    one.label,
                    f"{one.measured:.0f}",
                    f"{one.predicted:.0f}",
                    f"{two.measured:.0f}",
                    f"{two.predicted:.0f}",
                )
                for one, two in zip(published.threshold_points(1), published.threshold_points(2), strict=True)
            ],
        ),
    ]
    return "\n".join(parts)


def h200_text(folder: Path) -> str:
    """Tables of the two H200."""
    rows = h200.read_rows(folder)
    collectives = [*h200.collective_points(rows), *h200.collective_points(rows, "graph of 10")]
    isolated, steady = (h200.overlap_points(rows, how) for how in ("isolated", "steady"))
    whole = h200.overlap_points(rows, "steady", measured_products=False)
    lines = [(name, *summary(group)) for name, group in _groups(collectives).items()]
    for title, points in (("isolated", isolated), ("steady", steady), ("steady, products predicted too", whole)):
        lines += [(f"{name}, {title}", *summary(group)) for name, group in _groups(points).items()]
        lines.append((f"**all paths, {title}**", *summary(points)))
    beside = h200.contention_points(rows)
    worst = sorted([*isolated, *steady], key=lambda point: -abs(point.error))[:WORST]
    above, hot = (sum(abs(point.error) > 0.15 for point in points) for points in (isolated, steady))
    parts = [
        "### Two H200\n",
        table(_HEAD, lines),
        f"Above 15 % lie {above} of {len(isolated)} isolated and {hot} of {len(steady)} steady rows. The worst, µs:\n",
        table(("data", *_ROW), [(point.group, *row) for point, row in zip(worst, rows_of(worst), strict=True)]),
        "Time of a product beside transfers in both directions, over its time alone (the number of NCCL's workgroups "
        "comes from the first two products):\n",
        table(_ROW, rows_of(beside, digits=2)),
        "All isolated rows, µs:\n",
        table(("data", *_ROW), [(point.group, *row) for point, row in zip(isolated, rows_of(isolated), strict=True)]),
    ]
    return "\n".join(parts)


def sweep_text() -> str:
    """Time of a thousand schedules of 2, 4 and 8 MI300X."""
    products = [
        Product(m, n, k) for m in (2048, 4096, 8192, 16384) for n in (1024, 3584, 8192) for k in (512, 2048, 8192)
    ]
    paths = [(GATHER, path) for path in ("sequence", "decomposed", "native-upstream")]
    paths += [(SCATTER, path) for path in ("sequence", "decomposed")]
    asked = [
        Configuration(operation, product, ranks, path, host_us=host_us)
        for host_us in (0.0, 10.0)
        for product in products
        for ranks in (2, 4, 8)
        for operation, path in paths
    ][:1000]
    began = time.perf_counter()
    answers = sweep(asked)
    seconds = time.perf_counter() - began
    stuck = sum(answer.verdict is None for answer in answers)
    return (
        f"{len(answers):,} schedules in {seconds:.1f} s on {os.cpu_count()} processors; {stuck} do not fit their path"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Score and print; with ``--page`` also write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help=f"folder with {h200.FILE}")
    parser.add_argument("--sweep", action="store_true", help="time a thousand schedules instead")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/overlap-accuracy.md")
    arguments = parser.parse_args(words)
    if arguments.sweep:
        print(sweep_text())
        return 0
    began = time.perf_counter()
    try:
        parts = [published_text(), *([h200_text(arguments.data)] if arguments.data else [])]
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = "\n".join(parts)
    print(text)
    print(f"{time.perf_counter() - began:.1f} s", file=sys.stderr)
    if arguments.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- tables -->\n")
        _, _, after = rest.partition("<!-- end tables -->")
        PAGE.write_text(f"{before}<!-- tables -->\n\n{text}\n<!-- end tables -->{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Where does overlapping an all-gather with a product pay? Shapes and numbers of GPUs at once, no GPU needed.

Prints for each shape and number of GPUs the fastest path, what it gains over one after the other, and why. With the
address of a Dask scheduler as argument (``tcp://host:8786``) the schedules are simulated on its workers.
"""

from __future__ import annotations

import sys
from itertools import product

from wavecast.simulator.overlap.practice import Product
from wavecast.simulator.overlap.sweep import GATHER, Answer, Configuration, sweep

DEVICE = "mi355x"
PATHS = ("sequence", "decomposed", "native-upstream")


def total_us(answer: Answer) -> float:
    """Predicted time; a path that the shape does not fit never wins."""
    return answer.verdict.total_us if answer.verdict is not None else float("inf")


def main() -> None:
    """Ask for every path of every case, and say which is fastest."""
    cases = [(Product(m, n, 8192), ranks) for m, n, ranks in product((4096, 16384), (1024, 8192), (2, 4, 8))]
    asked = [Configuration(GATHER, shape, ranks, path, DEVICE) for shape, ranks in cases for path in PATHS]
    answers = iter(sweep(asked, cluster=sys.argv[1] if len(sys.argv) > 1 else None))
    print(f"all-gather+matmul on {DEVICE}, bf16, K 8192")
    for shape, ranks in cases:
        found = [next(answers) for _ in PATHS]
        best = min(found, key=total_us)
        gain = total_us(found[0]) / total_us(best)
        reason = best.verdict.reason if best.verdict is not None else best.problem
        print(f"{ranks} GPUs, M {shape.m}, N {shape.n}: {best.configuration.path}, {gain:.2f}×: {reason}")


if __name__ == "__main__":
    main()

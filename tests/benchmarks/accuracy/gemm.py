"""How far predicted GEMM times lie from measured ones: ``hatch run bench:accuracy-gemm [--data DIR]``.

Published throughput of libraries (``gemm_published.csv``, with sources) and, from the folder that ``--data`` names, the
FP8 shapes of ``h200_fp8_gemm.csv``. Nothing is executed: shape, assumed kernel and device decide.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from report import Table, markdown

from wavecast.cli.scores import Point, Score, score, score_by
from wavecast.simulator.devices import load_device
from wavecast.simulator.errors import SimulatorError
from wavecast.simulator.timing.gemm import GemmProblem, Mechanisms, Scaling, predict_gemm

PUBLISHED = Path(__file__).with_name("gemm_published.csv")
SHAPES = "h200_fp8_gemm.csv"
SHAPES_KERNEL = "cutlass-blockwise-sm90"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "accuracy.md"
SUBSETS = ("gemm-published", "gemm-h200-development", "gemm-h200-scored")
ABLATIONS: Mapping[str, Mechanisms] = {
    "whole model": Mechanisms(),
    "no quantization": Mechanisms(quantization=False),
    "no reuse in caches": Mechanisms(reuse=False),
    "no power limit": Mechanisms(clock=False),
}
WORST = 12
_SEED = 0
# Rows of these (n, k), of every m, were looked at before the split was fixed: none of them can be scored.
_SEEN = frozenset(
    {(4096, 1024), (4096, 2048), (4096, 8192), (5120, 1280), (1024, 256), (2048, 256), (1024, 384), (1536, 384)}
    | {(3072, 384), (6144, 2560), (1024, 2048), (1536, 2048), (1536, 4096)}
)
_DEVELOPMENT = 64  # of 256


@dataclass(frozen=True, slots=True)
class Case:
    """A measured product.

    Attributes:
        dataset: Device, type and library.
        label: Shape.
        device: Name of the device.
        kernel: Library whose fastest kernel is assumed.
        problem: What is computed.
        measured_us: The measured time.
        position: How it was timed.
        fitted: Whether a constant of the device file, or the host's time of its data set, comes from it.
        floor_us: Time of the host for one call, which no call goes below.
    """

    dataset: str
    label: str
    device: str
    kernel: str
    problem: GemmProblem
    measured_us: float
    position: str
    fitted: bool = False
    floor_us: float = 0.0


def published_cases() -> list[Case]:
    """Library throughputs that others published.

    The smallest product of a data set, where it is marked as fitted, takes far longer than any launch: what it shows is
    how long the host of that harness needs for a call. Calls of that data set take at least as long.
    """
    cases = []
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            m, n, k, groups = (int(row[name]) for name in ("m", "n", "k", "groups"))
            dtype, scaling = row["dtype"], Scaling(row["scaling"])
            problem = {
                "dense": lambda m=m, n=n, k=k: GemmProblem.dense(m, n, k),
                "rows": lambda m=m, n=n, k=k, g=groups: GemmProblem.grouped_rows([m] * g, n, k),
                "sums": lambda m=m, n=n, k=k, g=groups: GemmProblem.grouped_sums(m, n, [k] * g),
            }[row["form"]]()
            problem = replace(problem, dtype=dtype, scaling=scaling, exact_sums=row["exact_sums"] == "1")
            label = f"{m}x{n}x{k}" if groups == 1 else f"{groups} x {m}x{n}x{k}"
            measured_us = problem.flop / float(row["tflops"]) * 1e-6
            fitted = row["part"] == "fit"
            cases.append(
                Case(row["set"], label, row["device"], row["kernel"], problem, measured_us, "back-to-back", fitted)
            )
    smallest = {case.dataset: case.measured_us for case in cases if case.fitted and case.problem.flop == 2 * 1024**3}
    return [replace(case, floor_us=smallest.get(case.dataset, 0.0)) for case in cases]


def is_development(m: int, n: int, k: int) -> bool:
    """Whether a shape of the H200 file may be looked at: a quarter of them, by a hash of the shape, and what was."""
    return (n, k) in _SEEN or hashlib.sha256(f"{_SEED}:{m},{n},{k}".encode()).digest()[0] < _DEVELOPMENT


def shape_cases(data: Path, *, development: bool) -> list[Case]:
    """Shapes of the H200 file.

    The file does not name the library. Rows are multiples of four, and times are flat up to 128 rows and rise in steps
    of 132 tiles of 128 × 128: the blockwise-scaled kernel of CUTLASS, which has that one tile and that condition.

    Raises:
        FileNotFoundError: if the file is not in the folder.
    """
    path = data / SHAPES
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; --data takes the folder with {SHAPES}")
    cases = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            m, n, k = (int(row[name]) for name in ("m", "n", "k"))
            if is_development(m, n, k) is development:
                problem = GemmProblem.dense(m, n, k, "fp8", Scaling.BLOCKWISE)
                rows = next(name for top, name in _ROWS if m <= top)
                measured_us = float(row["measured_us"])
                cases.append(
                    Case(rows, f"{m}x{n}x{k}", "h200", SHAPES_KERNEL, problem, measured_us, "first", development)
                )
    return sorted(cases, key=lambda case: (case.problem.groups[0].m, case.measured_us))


_ROWS = ((64, "m to 64"), (256, "m to 256"), (1024, "m to 1024"), (4096, "m to 4096"), (1 << 30, "m above 4096"))


def predicted(case: Case, *, mechanisms: Mechanisms = ABLATIONS["whole model"]) -> Point:
    """The prediction of a case beside its measurement."""
    found = predict_gemm(
        case.problem, load_device(case.device), case.kernel, position=case.position, mechanisms=mechanisms
    )
    times = (max(case.floor_us, value) for value in (found.predicted_us, found.low_us, found.high_us))
    return Point(case.dataset, case.dataset, case.label, case.measured_us, *times)


@dataclass(frozen=True, slots=True)
class Part:
    """A subset with its predictions.

    Attributes:
        name: One of ``SUBSETS``.
        points: Predictions of the rows that are scored.
        fitted: Predictions of the rows that constants come from.
        ablations: Score of the scored rows without a mechanism.
    """

    name: str
    points: tuple[Point, ...]
    fitted: tuple[Point, ...]
    ablations: Mapping[str, Score]


def score_gemm(subset: str, data: Path | None = None) -> Part:
    """Predict a subset.

    Args:
        subset: One of ``SUBSETS``.
        data: Folder of the H200 file, for its subsets.

    Raises:
        ValueError: if the subset is not known, or needs a folder.
        FileNotFoundError: if the folder lacks the file.
    """
    if subset not in SUBSETS:
        raise ValueError(f"{subset!r} is no part of the GEMM benchmark; wanted is one of {', '.join(SUBSETS)}")
    if subset == "gemm-published":
        cases = published_cases()
    elif data is None:
        raise ValueError(f"{subset} reads {SHAPES}: give its folder with --data")
    else:
        cases = shape_cases(data, development=subset.endswith("development"))
    is_scored = [case for case in cases if not case.fitted] or cases
    fitted = tuple(predicted(case) for case in cases if case.fitted) if len(is_scored) < len(cases) else ()
    points = tuple(predicted(case) for case in is_scored)
    without = {
        name: score([predicted(case, mechanisms=mechanisms) for case in is_scored])
        for name, mechanisms in ABLATIONS.items()
        if name != "whole model"
    }
    return Part(subset, points, fitted, {"whole model": score(points), **without})


_HEAD = ("rows", "median", "p90", "worst", "bias", "WMAPE", "in interval", "interval")


def _cells(found: Score) -> tuple[str, ...]:
    shares = (found.median, found.p90, found.worst, found.bias, found.wmape)
    return (
        str(found.count),
        *(f"{100 * value:.1f} %" for value in shares),
        f"{100 * found.coverage:.0f} %",
        f"{found.width:.2f}",
    )


def _lines(head: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [markdown(Table("", "", tuple(head), tuple(rows))), ""]


def tables(part: Part) -> str:
    """The part as Markdown."""
    groups = score_by(part.points, lambda point: point.benchmark)
    lines = [f"### {part.name}", ""]
    rows = [(name, *_cells(found)) for name, found in groups.items()]
    rows.append(("**all scored**", *_cells(score(part.points))))
    if part.fitted:
        rows.append(("rows that constants come from", *_cells(score(part.fitted))))
    lines += _lines(("data", *_HEAD), rows)
    lines += _lines(("ablation", *_HEAD), [(name, *_cells(found)) for name, found in part.ablations.items()])
    worst = sorted(part.points, key=lambda point: -abs(point.error))[:WORST]
    lines += _lines(
        ("worst rows", "shape", "measured µs", "predicted µs", "error"),
        [
            (
                point.benchmark,
                point.label,
                f"{point.measured_us:.1f}",
                f"{point.predicted_us:.1f} ({point.low_us:.1f} – {point.high_us:.1f})",
                f"{100 * point.error:+.0f} %",
            )
            for point in worst
        ],
    )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Score the subsets that are asked for and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help=f"folder with {SHAPES}")
    parser.add_argument("--only", action="append", choices=SUBSETS, help="one subset; may be repeated")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/accuracy.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args(words)
    try:
        parts = [score_gemm(name, arguments.data) for name in arguments.only or SUBSETS[: 3 if arguments.data else 1]]
    except (FileNotFoundError, ValueError, SimulatorError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        json.dump(
            {"schema": "wavecast.accuracy-gemm/1", "parts": [asdict(part) for part in parts]}, sys.stdout, indent=1
        )
        print()
        return 0
    text = "\n".join(tables(part) for part in parts)
    print(text)
    if arguments.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- gemm -->\n")
        _, _, after = rest.partition("<!-- end gemm -->")
        PAGE.write_text(f"{before}<!-- gemm -->\n\n{text}\n<!-- end gemm -->{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

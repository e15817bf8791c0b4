"""How far predicted times lie from measured ones: ``hatch run bench:accuracy --data DIR --mgpusim DIR``.

MI300A and MI300X benchmarks of sarchlab/mgpusim are compiled, executed and timed on the model, and so are the variants
of the project's catalogue that somebody else published a time for. Executing takes some minutes, once for a code
object; what was executed is kept, and another run only prices it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import mi300a
import mi300x
import platformdirs
from calibrate import FITTED, Response, leave_one_out, uncalibrated
from micro import Check, checks
from observe import Store, observe
from price import Priced, Pricer, Variant
from programs import Program
from published import Published, predict_published
from report import (
    Scored,
    Table,
    checks_table,
    document,
    folds_table,
    print_table,
    published_table,
    score_table,
    speedups_table,
    update_page,
    worst_table,
)

from wavecast.cli.plots.scatter import write_scatter
from wavecast.simulator.devices import load_device
from wavecast.simulator.errors import SimulatorError

PARTS = ("mi300a", "mi300x", "published")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "accuracy.md"
READERS: dict[str, Callable[[Path, Path], list[Program]]] = {
    "mi300a": mi300a.read_programs,
    "mi300x": mi300x.read_programs,
}
WORST = 15
Progress = Callable[[str, int, int], None]


def main(words: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for and print their tables."""
    arguments = _parser().parse_args(words)
    parts = arguments.only or PARTS
    try:
        scored, found, published = _results(parts, arguments)
    except (FileNotFoundError, ValueError, SimulatorError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    tables = _tables(scored, found, published)
    if arguments.json:
        json.dump(document(scored, found, published), sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        for table in tables:
            print_table(table)
    if published is not None:
        for failure in published.failures:
            print(f"error: {failure}", file=sys.stderr)
    if arguments.plots is not None:
        for entry in scored:
            write_scatter(entry.points, arguments.plots, name=f"accuracy-{entry.name}", title=_title(entry))
        if published is not None and published.points:
            title = "Catalogue: predicted against published"
            write_scatter(published.points, arguments.plots, name="accuracy-published", title=title)
    if arguments.page:
        update_page(PAGE, tables)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with mi300a.csv, mi300a_120cu.csv and mi300x_kernels.csv")
    parser.add_argument("--mgpusim", type=Path, help="folder of a checkout of sarchlab/mgpusim")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--test", type=Path, help="Python file whose read_programs(data, mgpusim) gives a test split")
    cache = Path(platformdirs.user_cache_dir("wavecast", appauthor=False)) / "accuracy"
    parser.add_argument("--cache", type=Path, default=cache, help="where executed launches are kept")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--plots", type=Path, help="folder for a scatter of each part: PNG, SVG, CSV")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/accuracy.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


def _results(parts: Sequence[str], arguments: argparse.Namespace) -> tuple[list[Scored], list[Check], Published | None]:
    timed = [part for part in parts if part in READERS]
    if timed and (arguments.data is None or arguments.mgpusim is None):
        raise ValueError(f"{' and '.join(timed)}: give --data and --mgpusim, or --only published")
    store = Store(arguments.cache)
    scored: list[Scored] = []
    with _progress() as progress:
        for part in timed:
            programs = READERS[part](arguments.data, arguments.mgpusim)
            scored.append(_score(part, programs, store, arguments.jobs, progress))
        if arguments.test is not None:
            programs = _load(arguments.test)(arguments.data, arguments.mgpusim)
            scored.append(_score("test", programs, store, arguments.jobs, progress))
        found = checks(mi300x.read_rows(arguments.data), load_device("mi300x")) if "mi300x" in timed else []
        published = None
        if "published" in parts:
            published = predict_published(jobs=arguments.jobs, progress=partial(_catalogue, progress))
    return scored, found, published


def _catalogue(progress: Progress, name: str) -> None:
    progress(f"catalogue: {name}", 0, 0)


def _load(path: Path) -> Callable[[Path, Path], list[Program]]:
    """``read_programs`` of a file that the user brings."""
    spec = importlib.util.spec_from_file_location("test_split", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"--test {path}: wanted a Python file with read_programs(data, mgpusim)")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    read: Callable[[Path, Path], list[Program]] = module.read_programs
    return read


def _score(name: str, programs: list[Program], store: Store, jobs: int, progress: Progress) -> Scored:
    """Execute what is new, then price with the device's constants, without calibration, and with refitted constants."""
    launches = [(step.launch, program.dataset) for program in programs for step in program.launches]

    def executing(done: int, total: int, kernel: str) -> None:
        progress(f"{name}: executing {kernel}", done, total)

    pricer = Pricer(observe(launches, store, jobs=jobs, progress=executing), store)

    def pricing(done: int, total: int) -> None:
        progress(f"{name}: pricing", done, total)

    priced = tuple(pricer.price(programs, Variant, jobs=jobs, progress=pricing))
    if name not in FITTED:
        return Scored(name, priced)
    plain = tuple(entry.point for entry in pricer.price(programs, uncalibrated, jobs=jobs, progress=pricing))
    left_out, folds = leave_one_out([_response(entry) for entry in priced], load_device(name))
    return Scored(name, priced, plain, tuple(left_out), tuple(folds))


def _response(priced: Priced) -> Response:
    point_us = priced.point.predicted_us
    ends = {key: (math.log(low / point_us), math.log(high / point_us)) for key, (low, high) in priced.ends.items()}
    return Response(priced.point, ends)


def _tables(scored: Sequence[Scored], found: Sequence[Check], published: Published | None) -> list[Table]:
    tables = []
    for entry in scored:
        tables += [score_table(entry), worst_table(entry, count=WORST)]
        if entry.folds:
            tables.append(folds_table(entry))
    if found:
        tables.append(checks_table(found))
    if published is not None and published.points:
        tables += [published_table(published), speedups_table(published)]
    return tables


def _title(scored: Scored) -> str:
    table = score_table(scored)
    everything = next(row for row in table.rows if row[0] == "**all**")
    return f"{scored.name}: {everything[1]} rows, median error {everything[2]} %, p90 {everything[3]} %"


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on stderr where that is a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:40}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)


if __name__ == "__main__":
    sys.exit(main())

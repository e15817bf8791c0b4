"""``run``: a script that uses Triton, on a GPU that is not there, and what its kernels would take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from wavecast.cli import output
from wavecast.cli.errors import CliError, misuse
from wavecast.cli.findings import failure_of, print_findings

if TYPE_CHECKING:
    from wavecast.cli.rank_script import RanksRun
    from wavecast.cli.script import ScriptRun

DEFAULT_DEVICE = "mi300x"


def run(
    script: Annotated[str, typer.Argument(help="A Python file; with -m, the name of a module.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="The script's own arguments, behind --.")] = None,
    device: Annotated[
        str | None, typer.Option(help="mi300x, mi325x, mi355x, mi300a; default: WAVECAST_DEVICE, else mi300x.")
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", help="Run a module, as python -m does: -m pytest -- tests/x.py.")
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="do_bench executes a sample of each grid: sooner, its results incomplete.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Look for faults in every launch: races, stray reads, … (exit 1).")
    ] = False,
    ranks: Annotated[
        int | None,
        typer.Option(min=1, help="Run the script once for each of so many ranks, as torchrun would; no times."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="With --ranks: draws the order of copies and workgroups, and which rank goes on.")
    ] = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print wavecast.run/1 on stdout; what the script prints goes to stderr.")
    ] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="Use more than 80 columns; adds intervals and registers.")
    ] = False,
) -> None:
    """Run a script whose Triton kernels and torch GPU tensors go to a virtual GPU; then say what they take."""
    from wavecast.cli import simulate
    from wavecast.cli.script import run_script, script_to_json

    name = device or os.environ.get("WAVECAST_DEVICE") or DEFAULT_DEVICE
    simulate.check_device(name)
    if ranks is not None:
        if sample or module or wide:
            raise misuse("--ranks with --sample, -m or --wide", hint="a node runs a file, whole and without times")
        _run_ranks(script, arguments or [], name, ranks, seed, check=check, json=json)
        return
    if check and sample:
        raise misuse("--check and --sample", hint="what a sample does not write would count as never written")
    done = run_script(script, arguments or [], device=name, is_module=module, sample=sample, check=check, quiet=json)
    if json:
        output.print_json(script_to_json(done))
    else:
        _print_run(done, wide=wide)
    if check:
        print_findings(done.findings)
    if done.failure is not None:
        raise CliError(done.failure, hint=done.hint)
    if failed := failure_of(done.findings):
        raise CliError(failed, hint="each is listed above, with its line and what to do")


def _run_ranks(
    script: str, arguments: list[str], device: str, ranks: int, seed: int, *, check: bool, json: bool
) -> None:
    from wavecast.cli.rank_script import ranks_run_to_json, run_ranks_script

    done = run_ranks_script(script, arguments, device=device, ranks=ranks, seed=seed, check=check, quiet=json)
    if json:
        output.print_json(ranks_run_to_json(done))
    else:
        _print_ranks(done)
    if check:
        print_findings(done.findings)
    if done.failure is not None:
        raise CliError(done.failure, hint=done.hint)
    if failed := failure_of(done.findings):
        raise CliError(failed, hint="each is listed above, with its line and what to do")


def _print_ranks(done: RanksRun) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("operation", "ranks", "count", "MB"):
        table.add_column(heading, justify="left" if heading == "operation" else "right", overflow="fold")
    for item in done.activities:
        megabytes = output.significant(item.bytes / 1e6) if item.bytes else ""
        table.add_row(item.name, f"{item.ranks}", f"{item.count:,}", megabytes)
    output.print_table(f"{done.ranks} × {done.device} ({done.arch}), seed {done.seed}: {done.script}", wide=False)
    output.print_table(table, wide=False)


def _print_run(done: ScriptRun, *, wide: bool) -> None:
    from rich.table import Table

    if not done.kernels:
        output.print_message(f"{done.script} launched no kernel on {done.device}")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    headings = ["kernel", "grid", "laun-\nches", "pred.\nµs", "share\n%", "bound", "HBM\nMB", "effi-\nciency\n%"]
    more = ["interval\nµs", "VGPR", "LDS\nB", "spill\nB", "waves\na SIMD"]
    for heading in [*headings, *(more if wide else ())]:
        left = heading in ("kernel", "grid", "bound")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    short = output.significant
    total = done.predicted_us
    for kernel in sorted(done.kernels, key=lambda item: -(item.predicted_us or 0.0)):
        efficiency = kernel.coalescing_efficiency
        cells = [
            kernel.name,
            "×".join(str(size) for size in _without_ones(kernel.grid)),
            f"{kernel.launches:,}",
            short(kernel.predicted_us),
            short(100 * (kernel.predicted_us or 0.0) / total if total else None, 2),
            kernel.bound or output.UNKNOWN,
            short(((kernel.hbm_read_bytes or 0) + (kernel.hbm_write_bytes or 0)) / 1e6),
            short(None if efficiency is None else 100 * efficiency),
        ]
        if wide:
            cells.append(f"{short(kernel.predicted_low_us)}–{short(kernel.predicted_high_us)}")
            values = (kernel.vgpr, kernel.lds_bytes, kernel.spill_bytes, kernel.waves_per_simd)
            cells += [output.UNKNOWN if value is None else f"{value:,}" for value in values]
        table.add_row(*cells)
    launches = sum(kernel.launches for kernel in done.kernels)
    output.print_table(f"{done.device} ({done.arch}), Triton {done.triton}: {done.script}", wide=wide)
    output.print_table(table, wide=wide)
    output.print_table(f"{launches:,} launches, {short(total)} µs predicted", wide=wide)


def _without_ones(grid: tuple[int, ...]) -> tuple[int, ...]:
    """The grid without its last dimensions of one workgroup."""
    sizes = list(grid)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return tuple(sizes)

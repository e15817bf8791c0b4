"""Lines, instructions and differences of kernels as tables for a person."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wavecast.cli import output
from wavecast.cli.errors import CliError, misuse
from wavecast.cli.facts import MEMORY_GROUPS, Group, KernelFacts
from wavecast.cli.line_diff import DiffDocument, KernelDiff
from wavecast.cli.line_times import Costs, Inspection, KernelTimes, Line, total

NO_LINE = "(no line)"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is shown of a kernel's lines.

    Attributes:
        line: ``12`` or ``file.py:12``: only this one, with its instructions.
        top: Only so many, those that take longest, the longest first; None for all, in the order of the source.
        instructions: Under each line its instructions.
    """

    line: str | None = None
    top: int | None = None
    instructions: bool = False


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of costs.

    Attributes:
        heading: Its heading.
        cell: What stands in it.
        narrow: Whether it is shown at 80 columns.
        needed: Whether a kernel with these costs altogether has something to show in it.
    """

    heading: str
    cell: Callable[[Costs], str]
    narrow: bool = True
    needed: Callable[[Costs], bool] = lambda costs: True


def _us(of: Callable[[Costs], float]) -> Callable[[Costs], str]:
    return lambda costs: f"{of(costs):.2f}" if of(costs) else ""


def _scaled(of: Callable[[Costs], int], unit: float) -> Callable[[Costs], str]:
    return lambda costs: output.significant(of(costs) / unit) if of(costs) else ""


def _efficiency(costs: Costs) -> str:
    known = costs.coalescing_efficiency
    return "" if known is None else f"{100 * known:.0f}"


def _fences(costs: Costs) -> str:
    return f"{costs.fence_release:,}+{costs.fence_acquire:,}" if costs.fence_release or costs.fence_acquire else ""


_COLUMNS = (
    _Column("µs", _us(lambda costs: costs.time_us), narrow=False),
    _Column("issue\nµs", _us(lambda costs: costs.issue_us), narrow=False),
    _Column("queue\nµs", _us(lambda costs: costs.queue_us), narrow=False),
    _Column("wait\nµs", _us(lambda costs: costs.wait_us), narrow=False),
    _Column("barrier\nµs", _us(lambda costs: costs.barrier_us), False, lambda costs: costs.barrier_us > 0),
    _Column("asked\nMB", _scaled(lambda costs: costs.asked_bytes, 1e6), needed=lambda costs: costs.asked_bytes > 0),
    _Column("moved\nMB", _scaled(lambda costs: costs.moved_bytes, 1e6), needed=lambda costs: costs.moved_bytes > 0),
    _Column("coal.\n%", _efficiency, needed=lambda costs: costs.segment_bytes > 0),
    _Column("LDS\nkclk", _scaled(lambda costs: costs.lds_clk, 1e3), False, lambda costs: costs.lds_clk > 0),
    _Column(
        "LDS con-\nflicts kclk",
        _scaled(lambda costs: costs.lds_conflict_clk, 1e3),
        needed=lambda costs: costs.lds_conflict_clk > 0,
    ),
    _Column("fences\nrel+acq", _fences, needed=lambda costs: bool(costs.fence_release or costs.fence_acquire)),
    _Column("spill\nMB", _scaled(lambda costs: costs.spill_bytes, 1e6), needed=lambda costs: costs.spill_bytes > 0),
)


def print_facts(facts: KernelFacts, *, wide: bool) -> None:
    """Print what a kernel's code alone tells."""
    _print_heading(facts, wide=wide)
    rows = []
    for group in Group:
        members = [item for item in facts.instructions if item.group is group]
        if members:
            rows.append([str(facts.total(group)), "", group.value])
        for item in members if group in MEMORY_GROUPS else ():
            lane_bytes = "" if item.lane_bytes is None else str(item.lane_bytes)
            rows.append([str(item.count), lane_bytes, f"  {item.opcode}"])
    _print_table(["count", "bytes\na lane", "instruction"], rows, wide=wide)


def print_times(kernel: Inspection, selection: Selection, *, wide: bool) -> None:
    """Print a kernel's lines with their share of its time."""
    times = kernel.times
    assert times is not None
    _print_heading(kernel.facts, wide=wide)
    short = output.significant
    launches = "" if times.launches == 1 else f"{times.launches:,} launches of "
    grid = "×".join(map(str, times.grid)).removesuffix("×1").removesuffix("×1")
    output.print_table(
        f"{short(times.predicted_us)} µs ({short(times.predicted_low_us)}–{short(times.predicted_high_us)}) on "
        f"{times.device}, {launches}{grid} workgroups; bound: {times.bound}\n"
        f"HBM: {short(times.hbm_read_bytes / 1e6)} MB read, {short(times.hbm_write_bytes / 1e6)} MB written",
        wide=wide,
    )
    output.print_table(textwrap.fill(times.cause, output.NARROW), wide=wide)
    columns = _columns([times.costs], wide=wide)
    rows = list(_line_rows(times, selection, columns))
    _print_table(["time\n%", *(column.heading for column in columns), "line", "source"], rows, wide=wide)


def lines_named(kernels: Sequence[Inspection], wanted: str) -> list[Inspection]:
    """The kernels that have a line.

    Raises:
        CliError: None of them has it, or none has a line at all.
    """
    if not any(line.line is not None for kernel in kernels for line in _lines(kernel)):
        raise CliError(
            f"{kernels[0].facts.name} has no line table, so no line {wanted}",
            hint="compile it with -gline-tables-only, and keep .loc directives; --instructions needs none",
        )
    found = [kernel for kernel in kernels if any(_is_named(kernel, line, wanted) for line in _lines(kernel))]
    if not found:
        places = dict.fromkeys(f"{line.file}:{line.line}" for kernel in kernels for line in _lines(kernel) if line.line)
        raise misuse(f"no executed instruction is of line {wanted}", hint=f"lines with some: {', '.join(places)}")
    return found


def print_diff(item: KernelDiff, selection: Selection, *, before: str, after: str, wide: bool) -> None:
    """Print a kernel before and after: its lines beside each other, then what differs altogether."""
    names = [kernel.facts.name if kernel else output.UNKNOWN for kernel in (item.before, item.after)]
    output.print_table(f"{before}: {names[0]}\n{after}: {names[1]}", wide=wide)
    if item.lines:
        _print_line_diff(item, selection, wide=wide)
    _print_summary(item, wide=wide)


def print_totals(document: DiffDocument, *, wide: bool) -> None:
    """Print what all kernels of both sides take together, if they were launched."""
    before, after = (
        sum(kernel.times.predicted_us for item in document.kernels if (kernel := side(item)) and kernel.times)
        for side in (lambda item: item.before, lambda item: item.after)
    )
    if before and after:
        short = output.significant
        text = f"all kernels: {document.before} {short(before)} µs, {document.after} {short(after)} µs"
        output.print_table(f"{text}, {output.times(before / after)}", wide=wide)


def _print_heading(facts: KernelFacts, *, wide: bool) -> None:
    words = [facts.name, facts.arch, facts.code_object, facts.toolchain or "", facts.variant or ""]
    resources = (
        f"{facts.workgroup_size} work-items, {facts.vgpr} VGPR, {facts.sgpr} SGPR, "
        f"{facts.lds_bytes:,} B LDS, {facts.spill_bytes} B spilled a lane"
    )
    if facts.waves_per_simd is not None:
        resources += f"\n{facts.waves_per_simd} waves fit a SIMD"
    output.print_table(f"{'  '.join(filter(None, words))}\n{resources}", wide=wide)


def _columns(costs: Sequence[Costs], *, wide: bool) -> list[_Column]:
    return [column for column in _COLUMNS if (wide or column.narrow) and any(map(column.needed, costs))]


def _lines(kernel: Inspection | None) -> Sequence[Line]:
    return kernel.times.lines if kernel and kernel.times else ()


def _is_named(kernel: Inspection, line: Line, wanted: str) -> bool:
    file, _, number = wanted.rpartition(":")
    own = _lines(kernel)[0].file
    return str(line.line) == number and (line.file == own if not file else f"/{line.file}".endswith(f"/{file}"))


def _line_rows(times: KernelTimes, selection: Selection, columns: Sequence[_Column]) -> Iterator[list[str]]:
    lines = list(times.lines)
    if selection.line is not None:
        file, _, number = selection.line.rpartition(":")
        lines = [
            line
            for line in lines
            if str(line.line) == number
            and (line.file == times.lines[0].file if not file else f"/{line.file}".endswith(f"/{file}"))
        ]
    elif selection.top is not None:
        lines = sorted(lines, key=lambda line: -line.costs.time_us)[: selection.top]
    several = len({line.file for line in times.lines if line.file}) > 1
    file = ""
    for line in lines:
        if several and line.file and line.file != file:
            file = line.file
            yield [*[""] * (len(columns) + 1), "", f"— {file}"]
        number = "" if line.line is None else str(line.line)
        text = NO_LINE if line.line is None else line.text or f"{line.file}:{line.line}"
        yield [f"{line.share_percent:.1f}", *(column.cell(line.costs) for column in columns), number, text]
        for item in line.instructions if selection.instructions or selection.line is not None else ():
            cells = [column.cell(item.costs) for column in columns]
            yield [f"{item.share_percent:.1f}", *cells, "", f"    {' '.join(item.text.split())}"]
    shown = {id(line) for line in lines}
    others = [line for line in times.lines if id(line) not in shown]
    if others:
        costs = total(line.costs for line in others)
        cells = [column.cell(costs) for column in columns]
        share = sum(line.share_percent for line in others)
        yield [f"{share:.1f}", *cells, "", f"({len(others)} other line{'s' if len(others) > 1 else ''})"]
    for rest in times.rest:
        cells = ["" if column.heading != "µs" else f"{rest.time_us:.2f}" for column in columns]
        yield [f"{rest.share_percent:.1f}", *cells, "", f"({rest.name})"]
    cells = [column.cell(times.costs) for column in columns]
    if columns and columns[0].heading == "µs":
        cells[0] = f"{times.predicted_us:.2f}"
    yield ["100.0", *cells, "", "altogether"]


def _print_line_diff(item: KernelDiff, selection: Selection, *, wide: bool) -> None:
    one, other = _lines(item.before), _lines(item.after)
    pairs = [
        (None if first is None else one[first], None if second is None else other[second])
        for first, second in item.lines
    ]
    if selection.line is not None:
        wanted = selection.line
        pairs = [
            (first, second)
            for first, second in pairs
            if (first and item.before and _is_named(item.before, first, wanted))
            or (second and item.after and _is_named(item.after, second, wanted))
        ]
    elif selection.top is not None:
        pairs = sorted(pairs, key=lambda pair: -abs(_time_us(pair[1]) - _time_us(pair[0])))[: selection.top]
    kernels = [kernel for kernel in (item.before, item.after) if kernel]
    costs = [kernel.times.costs for kernel in kernels if kernel.times]
    columns = [column for column in _columns(costs, wide=wide) if not column.heading.endswith("µs")]
    if not wide:
        columns = [column for column in columns if column.heading.startswith("moved")]
    sides = "before", "after"
    bytes_of = (f"{column.heading.replace(chr(10), ' ')}\n{side}" for column in columns for side in sides)
    headings = ["before\nµs", "after\nµs", "differ-\nence", *bytes_of]
    rows: list[list[str]] = []
    file: str | None = None
    for first, second in pairs:
        named = second.file if second else first.file if first else None
        if named and named != file:
            if file is not None:
                rows.append([*[""] * (3 + 2 * len(columns) + 2), f"— {named}"])
            file = named
        cells = [
            _microseconds(first),
            _microseconds(second),
            f"{_time_us(second) - _time_us(first):+.2f}",
        ]
        for column in columns:
            cells += [column.cell(line.costs) if line else output.UNKNOWN for line in (first, second)]
        numbers = ["" if line is None or line.line is None else str(line.line) for line in (first, second)]
        rows.append([*cells, *numbers, _changed_text(first, second)])
    for name in dict.fromkeys(rest.name for kernel in kernels if kernel.times for rest in kernel.times.rest):
        us = [
            sum(rest.time_us for rest in (kernel.times.rest if kernel and kernel.times else ()) if rest.name == name)
            for kernel in (item.before, item.after)
        ]
        cells = [*(f"{value:.2f}" for value in us), f"{us[1] - us[0]:+.2f}", *[""] * 2 * len(columns)]
        rows.append([*cells, "", "", f"({name})"])
    _print_table([*headings, "line", "line", "source"], rows, wide=wide)


def _changed_text(first: Line | None, second: Line | None) -> str:
    """The text of a line; behind ``-`` and ``+`` what is in one version only, behind ``~`` the new text of a change."""
    line = second or first
    assert line is not None
    text = NO_LINE if line.line is None else line.text or f"{line.file}:{line.line}"
    if first is None or second is None:
        return f"{'+' if first is None else '-'} {text}"
    return f"{'~' if first.text != second.text else ' '} {text}"


def _print_summary(item: KernelDiff, *, wide: bool) -> None:
    rows = []
    for name, of, unit in _SUMMARY:
        values = [of(kernel) if kernel else None for kernel in (item.before, item.after)]
        rows += _summary_row(name, values, unit)
    for group in Group:
        counts = [float(kernel.facts.total(group)) if kernel else None for kernel in (item.before, item.after)]
        rows += _summary_row(f"{group.value} instructions in the code", counts, 1)
    for group in Group:
        counts = [_executed(kernel, group) for kernel in (item.before, item.after)]
        rows += _summary_row(f"{group.value} instructions executed", counts, 1)
    _print_table(["before", "after", "differ-\nence", ""], rows, wide=wide)


def _executed(kernel: Inspection | None, group: Group) -> float | None:
    return float(kernel.times.executed.get(group.value, 0)) if kernel and kernel.times else None


def _summary_row(name: str, values: Sequence[float | None], unit: float) -> list[list[str]]:
    """One row; none for what neither has."""
    before, after = values
    if not any(values):
        return []
    short = output.significant
    change = ""
    if before is not None and after is not None:
        change = "=" if before == after else f"{'+' if after > before else '-'}{short(abs(after - before) / unit)}"
    cells = [
        f"{value:,.0f}"
        if value is not None and unit == 1 and value == round(value)
        else short(None if value is None else value / unit, 4)
        for value in values
    ]
    return [[*cells, change, name]]


def _timed(of: Callable[[KernelTimes], float | None]) -> Callable[[Inspection], float | None]:
    return lambda kernel: of(kernel.times) if kernel.times else None


_SUMMARY: tuple[tuple[str, Callable[[Inspection], float | None], float], ...] = (
    ("µs predicted", _timed(lambda times: times.predicted_us), 1),
    ("µs, lower end", _timed(lambda times: times.predicted_low_us), 1),
    ("µs, upper end", _timed(lambda times: times.predicted_high_us), 1),
    ("launches", _timed(lambda times: times.launches), 1),
    ("MB asked for by lanes", _timed(lambda times: times.costs.asked_bytes), 1e6),
    ("MB between L1 and L2", _timed(lambda times: times.costs.moved_bytes), 1e6),
    ("MB read from HBM", _timed(lambda times: times.hbm_read_bytes), 1e6),
    ("MB written to HBM", _timed(lambda times: times.hbm_write_bytes), 1e6),
    ("% coalescing efficiency", _timed(lambda times: times.coalescing_efficiency), 0.01),
    ("thousand LDS cycles", _timed(lambda times: times.costs.lds_clk), 1e3),
    ("thousand of them bank conflicts", _timed(lambda times: times.costs.lds_conflict_clk), 1e3),
    ("release fences executed", _timed(lambda times: times.costs.fence_release), 1),
    ("acquire fences executed", _timed(lambda times: times.costs.fence_acquire), 1),
    ("MB spilled and read back", _timed(lambda times: times.costs.spill_bytes), 1e6),
    ("work-items a workgroup", lambda kernel: kernel.facts.workgroup_size, 1),
    ("VGPR", lambda kernel: kernel.facts.vgpr, 1),
    ("SGPR", lambda kernel: kernel.facts.sgpr, 1),
    ("B LDS", lambda kernel: kernel.facts.lds_bytes, 1),
    ("B spilled a lane", lambda kernel: kernel.facts.spill_bytes, 1),
    ("waves fit a SIMD", lambda kernel: kernel.facts.waves_per_simd, 1),
)


def _time_us(line: Line | None) -> float:
    return line.costs.time_us if line else 0.0


def _microseconds(line: Line | None) -> str:
    return f"{line.costs.time_us:.2f}" if line else output.UNKNOWN


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, wide: bool) -> None:
    """A table whose last column is text, cut where 80 columns end; then an empty line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings[:-1]:
        table.add_column(Text(heading), justify="right", no_wrap=True)
    table.add_column(Text(headings[-1]), no_wrap=True)
    widths = [
        max([*map(len, heading.split("\n")), *(len(row[number]) for row in rows)]) + 1
        for number, heading in enumerate(headings[:-1])
    ]
    room = max(16, output.NARROW - sum(widths))
    for row in rows:
        text = row[-1].expandtabs(4)
        table.add_row(*map(Text, row[:-1]), Text(text if wide or len(text) <= room else f"{text[: room - 1]}…"))
    output.print_table(table, wide=wide)
    output.print_table("", wide=wide)

"""``inspect``: the instructions and resources of a compiled kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavecast.cli import output
from wavecast.cli.errors import misuse
from wavecast.cli.facts import MEMORY_GROUPS, Group, KernelFacts, facts_to_json


def inspect(
    target: Annotated[str, typer.Argument(help="An assembly file (.s, .amdgcn).")],
    kernel: Annotated[str | None, typer.Option(help="Symbol, if the file has several kernels.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.inspect/1 on stdout.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns.")] = False,
) -> None:
    """Show what a compiled kernel is made of: registers, LDS, memory instructions and their widths, fences."""
    from wavecast.cli import simulate

    path = Path(target)
    if not path.is_file():
        raise misuse(f"{target!r} is not a file", hint="give an assembly file (.s, .amdgcn)")
    kernels = [simulate.facts_of_file(path, kernel=kernel)]
    if json:
        output.print_json(facts_to_json(kernels))
        return
    for facts in kernels:
        _print_kernel(facts, wide=wide)


def _print_kernel(facts: KernelFacts, *, wide: bool) -> None:
    from rich.table import Table

    title = f"{facts.name}  {facts.arch}  {facts.code_object}"
    resources = (
        f"{facts.workgroup_size} work-items, {facts.vgpr} VGPR, {facts.sgpr} SGPR, "
        f"{facts.lds_bytes:,} B LDS, {facts.spill_bytes} B spilled a lane"
    )
    output.print_table(f"{title}\n{resources}", wide=wide)
    table = Table(box=None, pad_edge=False)
    table.add_column("instruction")
    for heading in ("count", "executed", "bytes a lane"):
        table.add_column(heading, justify="right")
    for group in Group:
        members = [item for item in facts.instructions if item.group is group]
        if not members:
            continue
        runs = None if members[0].executed is None else sum(item.executed or 0.0 for item in members)
        table.add_row(group.value, str(facts.total(group)), "" if runs is None else output.significant(runs), "")
        if group not in MEMORY_GROUPS:
            continue
        for item in members:
            executed = "" if item.executed is None else output.significant(item.executed)
            width = "" if item.lane_bytes is None else str(item.lane_bytes)
            table.add_row(f"  {item.opcode}", str(item.count), executed, width)
    output.print_table(table, wide=wide)

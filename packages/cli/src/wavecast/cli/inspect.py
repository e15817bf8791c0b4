"""``inspect``: the instructions and resources of a compiled kernel."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from wavecast.cli import output
from wavecast.cli.errors import misuse, unknown
from wavecast.cli.facts import MEMORY_GROUPS, Group, KernelFacts, facts_to_json
from wavecast.cli.kernel_file import SUFFIXES, existing_file, is_kernel_file


def inspect(
    target: Annotated[str, typer.Argument(help="An experiment, or a file: .hip, .cpp, .s, .hsaco, …")],
    variant: Annotated[list[str] | None, typer.Option(help="Only this one of the experiment; may be repeated.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Device to compile for; default: the experiment's, mi300x for source.")
    ] = None,
    shape: Annotated[str | None, typer.Option(help="Sizes to change: tokens=4096,n=2048.")] = None,
    kernel: Annotated[str | None, typer.Option(help="Only this kernel, by its name or symbol.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.inspect/1 on stdout.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns.")] = False,
) -> None:
    """Show what compiled kernels are made of: registers, LDS, memory instructions and their widths, fences."""
    if is_kernel_file(target):
        if variant or shape:
            raise misuse(f"{target} is a file", hint="--variant and --shape are for experiments")
        from wavecast.cli import simulate

        if device is not None and device not in simulate.device_names():
            raise unknown("device", device, simulate.device_names())
        kernels = simulate.facts_of_file(existing_file(target), device=device, kernel=kernel)
    else:
        kernels = _facts_of_experiment(target, variants=variant or [], device=device, shape=shape)
        if kernel is not None:
            names = tuple(dict.fromkeys(facts.name for facts in kernels))
            kernels = [facts for facts in kernels if facts.name == kernel]
            if not kernels:
                raise unknown(f"kernel of {target}", kernel, names)
    if json:
        output.print_json(facts_to_json(kernels))
        return
    for facts in kernels:
        _print_kernel(facts, wide=wide)


def _facts_of_experiment(name: str, *, variants: list[str], device: str | None, shape: str | None) -> list[KernelFacts]:
    from wavecast.cli import simulate
    from wavecast.cli.experiments.catalogue import EXPERIMENTS, choose_shapes, choose_variants

    if name not in EXPERIMENTS:
        raise misuse(
            f"{name!r} is neither a file nor an experiment",
            hint=f"give a file ({', '.join(SUFFIXES)}) or one of: {', '.join(EXPERIMENTS)}",
        )
    experiment = EXPERIMENTS[name]
    if device is not None and device not in simulate.device_names():
        raise unknown("device", device, simulate.device_names())
    first_shape = choose_shapes(experiment, shape)[0]
    kernels: list[KernelFacts] = []
    for item in choose_variants(experiment, variants):
        if variants and item not in variants:
            continue
        with simulate.translated_errors():
            run = partial(experiment.run, item, experiment.operands(item).make_inputs(first_shape))
            kernels += simulate.facts_of_run(run, device=device or experiment.device, variant=item)
    return kernels


def _print_kernel(facts: KernelFacts, *, wide: bool) -> None:
    from rich.table import Table

    words = [facts.name, facts.arch, facts.code_object, facts.toolchain or "", facts.variant or ""]
    resources = (
        f"{facts.workgroup_size} work-items, {facts.vgpr} VGPR, {facts.sgpr} SGPR, "
        f"{facts.lds_bytes:,} B LDS, {facts.spill_bytes} B spilled a lane"
    )
    if facts.waves_per_simd is not None:
        resources += f"\n{facts.waves_per_simd} waves fit a SIMD"
    output.print_table(f"{'  '.join(filter(None, words))}\n{resources}", wide=wide)
    table = Table(box=None, pad_edge=False)
    table.add_column("instruction")
    table.add_column("count", justify="right")
    table.add_column("bytes a lane", justify="right")
    for group in Group:
        members = [item for item in facts.instructions if item.group is group]
        if members:
            table.add_row(group.value, str(facts.total(group)), "")
        for item in members if group in MEMORY_GROUPS else ():
            table.add_row(f"  {item.opcode}", str(item.count), "" if item.lane_bytes is None else str(item.lane_bytes))
    output.print_table(table, wide=wide)
    output.print_table("", wide=wide)

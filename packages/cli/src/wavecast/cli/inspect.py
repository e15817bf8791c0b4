"""``inspect``: what a kernel is made of, and where its time goes, line by line; alone or beside another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavecast.cli import launch_options, output
from wavecast.cli.errors import CliError, misuse, unknown
from wavecast.cli.kernel_file import SUFFIXES, Launch, existing_file, is_kernel_file

if TYPE_CHECKING:
    from wavecast.cli.line_tables import Selection
    from wavecast.cli.line_times import Inspection

SCRIPT_SUFFIX = ".py"
DEFAULT_DEVICE = "mi300x"


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be inspected.

    Attributes:
        target: An experiment, a kernel file or a script.
        variants: Of an experiment; all if empty.
        device: Name of the device; None for the target's own.
        shape: Sizes of an experiment to change.
        static: Compile, and execute nothing.
        arguments: Of a script.
        launch: Of a kernel of a file; ``kernel`` and ``whole`` of the others too.
    """

    target: str
    variants: Sequence[str]
    device: str | None
    shape: str | None
    static: bool
    arguments: Sequence[str]
    launch: Launch


def inspect(
    target: Annotated[str, typer.Argument(help="An experiment, a file (.hip, .cpp, .s, .hsaco, …) or a script (.py).")],
    arguments: Annotated[list[str] | None, typer.Argument(help="A script's own arguments, behind --.")] = None,
    variant: Annotated[list[str] | None, typer.Option(help="Only this one of the experiment; may be repeated.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Device to compile for; default: the experiment's, mi300x for others.")
    ] = None,
    shape: Annotated[str | None, typer.Option(help="Sizes to change: tokens=4096,n=2048.")] = None,
    kernel: Annotated[str | None, typer.Option(help="Only this kernel, by its name or symbol.")] = None,
    diff: Annotated[str | None, typer.Option(help="Beside it this variant, or this other file or script.")] = None,
    line: Annotated[
        str | None, typer.Option(help="Only this line, with its instructions: 12, or helper.py:12.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many lines, those that take longest.")] = None,
    instructions: Annotated[bool, typer.Option("--instructions", help="Under each line its instructions.")] = False,
    static: Annotated[
        bool, typer.Option("--static", help="Execute nothing: registers, LDS, widths, fences in the code.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print wavecast.inspect/2 on stdout; wavecast.inspect-diff/1 of --diff.")
    ] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns; adds what lines spend.")] = False,
    grid: launch_options.Grid = None,
    block: launch_options.Block = None,
    arg: launch_options.Arguments = None,
    lds_bytes: launch_options.LdsBytes = 0,
    position: launch_options.Position = "first",
    warm: launch_options.Warm = False,
    whole: Annotated[bool, typer.Option("--whole", help="Execute every workgroup, not a sample of them.")] = False,
    include: launch_options.Include = None,
    define: launch_options.Define = None,
    compile_option: launch_options.CompileOption = None,
) -> None:
    """Show where the time of kernels goes, by source line and instruction, and what they are made of."""
    from wavecast.cli.line_tables import Selection

    launch = Launch(
        kernel,
        grid,
        block,
        arg or (),
        lds_bytes,
        position,
        warm,
        whole,
        include or (),
        define or (),
        compile_option or (),
    )
    selection = Selection(line, top, instructions)
    if static and selection != Selection():
        raise misuse("--static executes nothing, so lines have no time", hint="leave --static out")
    if line is not None and top is not None:
        raise misuse(f"--line {line} and --top {top}", hint="leave one of them out")
    request = Request(target, variant or (), device, shape, static, arguments or (), launch)
    if diff is not None:
        _show_diff(request, diff, selection, json=json, wide=wide)
        return
    # Without a launch, a file is what its code tells: the kernels in it are there to be chosen from.
    bare = replace(launch, kernel=None, include_dirs=(), defines=(), options=()) == Launch()
    is_told = _is_file(target) and bare and selection == Selection() and not static
    kernels, failure = _inspections(replace(request, static=static or is_told))
    _show(target, kernels, selection, json=json, wide=wide)
    if is_told and not json:
        output.print_message("nothing was executed: --grid, --block and --arg launch a kernel and time its lines")
    if failure is not None:
        raise failure


def _show(target: str, kernels: list[Inspection], selection: Selection, *, json: bool, wide: bool) -> None:
    from wavecast.cli import line_tables
    from wavecast.cli.line_times import INSPECT_SCHEMA, InspectDocument, to_json

    if selection.line is not None and kernels:
        kernels = line_tables.lines_named(kernels, selection.line)
    if json:
        output.print_json(to_json(InspectDocument(INSPECT_SCHEMA, target, tuple(kernels))))
        return
    for kernel in kernels:
        if kernel.times is None:
            line_tables.print_facts(kernel.facts, wide=wide)
            continue
        line_tables.print_times(kernel, selection, wide=wide)
        if not selection.instructions and all(line.line is None for line in kernel.times.lines):
            output.print_message(f"{kernel.facts.name} has no line table: --instructions shows where its time goes")


def _show_diff(request: Request, other: str, selection: Selection, *, json: bool, wide: bool) -> None:
    from wavecast.cli import line_tables
    from wavecast.cli.line_diff import DIFF_SCHEMA, DiffDocument, diff
    from wavecast.cli.line_times import to_json

    if selection.instructions:
        raise misuse("--instructions and --diff", hint="inspect each of the two with --instructions")
    before, after, names = _sides(request, other)
    found = [_inspections(side) for side in (before, after)]
    for _, failure in found:
        if failure is not None:
            raise failure
    kernels = [kernel for side, _ in found for kernel in side]
    if selection.line is not None:
        line_tables.lines_named(kernels, selection.line)
    document = DiffDocument(DIFF_SCHEMA, *names, diff(found[0][0], found[1][0]))
    if json:
        output.print_json(to_json(document))
        return
    for item in document.kernels:
        line_tables.print_diff(item, selection, before=names[0], after=names[1], wide=wide)
    if len(document.kernels) > 1:
        line_tables.print_totals(document, wide=wide)


def _sides(request: Request, other: str) -> tuple[Request, Request, tuple[str, str]]:
    """What stands left and right, and what to call them."""
    from wavecast.cli.experiments.catalogue import EXPERIMENTS

    if _is_file(request.target) or _is_script(request.target):
        if not (_is_file(other) or _is_script(other)):
            raise misuse(f"{request.target} is a file, and --diff {other} is none", hint="give another file")
        return request, replace(request, target=other), (request.target, other)
    experiment = EXPERIMENTS.get(request.target)
    if experiment is None:
        raise _no_target(request.target)
    if len(request.variants) > 1:
        raise misuse(
            f"--variant {' and '.join(request.variants)} beside --diff {other}", hint="name one with --variant"
        )
    names = (request.variants[0] if request.variants else experiment.baseline, other)
    left, right = (replace(request, variants=(name,)) for name in names)
    return left, right, names


def _is_script(target: str) -> bool:
    return Path(target).suffix == SCRIPT_SUFFIX


def _is_file(target: str) -> bool:
    return not _is_script(target) and is_kernel_file(target)


def _no_target(name: str) -> CliError:
    from wavecast.cli.experiments.catalogue import EXPERIMENTS

    return misuse(
        f"{name!r} is neither a file nor an experiment",
        hint=f"give a file ({', '.join(SUFFIXES)}, {SCRIPT_SUFFIX}) or one of: {', '.join(EXPERIMENTS)}",
    )


def _inspections(request: Request) -> tuple[list[Inspection], CliError | None]:
    """The kernels, and how a script that launched them failed."""
    from wavecast.cli import simulate

    if request.device is not None:
        simulate.check_device(request.device)
    if request.arguments and not _is_script(request.target):
        raise misuse(f"{request.target} is no script, and takes no arguments", hint="leave out what is behind --")
    if _is_file(request.target):
        return _of_file(request), None
    if replace(request.launch, kernel=None, whole=False) != Launch():
        raise misuse(
            "an option that describes a launch, and no file to launch a kernel of",
            hint="inspect path/to/kernel.hip --kernel NAME --grid … --block … --arg …",
        )
    failure = None
    if _is_script(request.target):
        kernels, failure = _of_script(request)
    else:
        kernels = _of_experiment(request)
    return _only(kernels, request), failure


def _only(kernels: list[Inspection], request: Request) -> list[Inspection]:
    wanted = request.launch.kernel
    if wanted is None:
        return kernels
    found = [kernel for kernel in kernels if kernel.facts.name == wanted]
    if not found:
        names = tuple(dict.fromkeys(kernel.facts.name for kernel in kernels))
        raise unknown(f"kernel of {request.target}", wanted, names)
    return found


def _of_file(request: Request) -> list[Inspection]:
    from wavecast.cli import simulate
    from wavecast.cli.kernel_file import compilation, run_file
    from wavecast.cli.line_times import Inspection
    from wavecast.cli.simulate import inspect_launch

    if request.variants or request.shape:
        raise misuse(f"{request.target} is a file", hint="--variant and --shape are for experiments")
    path = existing_file(request.target)
    if request.static:
        launch = request.launch
        found = simulate.facts_of_file(path, device=request.device, kernel=launch.kernel, **compilation(launch))
        return [Inspection(facts) for facts in found]
    launched = run_file(path, request.launch, device=request.device)
    return [inspect_launch(launched.run, folders=(path.parent,))]


def _of_script(request: Request) -> tuple[list[Inspection], CliError | None]:
    from wavecast.cli.script import execute_script
    from wavecast.cli.simulate import LineTimes

    if request.variants or request.shape or request.static or request.launch.whole:
        raise misuse(
            f"{request.target} is a script",
            hint="it is executed as it is: --variant, --shape, --static and --whole are not for it",
        )
    launched, failure, hint = execute_script(
        request.target,
        request.arguments,
        device=request.device or DEFAULT_DEVICE,
        launches_on=partial(LineTimes, folders=(Path(request.target).parent,)),
        quiet=True,
    )
    kernels = launched.inspections()
    if not kernels and failure is None:
        failure, hint = f"{request.target} launched no kernel", "a script that launches Triton kernels is wanted"
    return kernels, None if failure is None else CliError(failure, hint=hint)


def _of_experiment(request: Request) -> list[Inspection]:
    from wavecast.cli import simulate
    from wavecast.cli.experiments.catalogue import EXPERIMENTS, choose_shapes, choose_variants
    from wavecast.cli.line_times import Inspection
    from wavecast.cli.simulate import inspect_run

    experiment = EXPERIMENTS.get(request.target)
    if experiment is None:
        raise _no_target(request.target)
    shape = choose_shapes(experiment, [request.shape] if request.shape else [])[0]
    device = request.device or experiment.device
    wanted = list(request.variants)
    chosen = [item for item in choose_variants(experiment, wanted) if not wanted or item in wanted]
    kernels: list[Inspection] = []
    for item in chosen:
        with simulate.translated_errors():
            run = partial(experiment.run, item, experiment.operands(item).make_inputs(shape))
            if request.static:
                found = simulate.facts_of_run(run, device=device, variant=item)
                kernels += [Inspection(facts) for facts in found]
            else:
                whole = request.launch.whole or experiment.whole
                kernels += inspect_run(run, device=device, variant=item, whole=whole)
    return kernels

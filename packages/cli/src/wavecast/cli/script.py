"""Running a program of someone else's under a virtual device, and what it launched as plain data."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavecast.cli import simulate
from wavecast.cli.errors import misuse
from wavecast.cli.findings import CheckFinding, findings_to_json
from wavecast.cli.rows import KernelRow, kernel_row_to_json

if TYPE_CHECKING:
    from wavecast.simulator.devices import Device

RUN_SCHEMA = "wavecast.run/1"


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """What came of a script.

    Attributes:
        script: Its path or module name.
        arguments: Its arguments.
        device: Name of the device.
        arch: Architecture of the device.
        triton: Version of Triton; None if none compiled a kernel.
        spec: Identity of the device specification.
        kernels: What it launched, equal launches summed, in the order of the first launch.
        failure: How it failed, or None.
        hint: What helps against the failure.
        findings: What checks found, if they were asked for.
    """

    script: str
    arguments: tuple[str, ...]
    device: str
    arch: str
    triton: str | None
    spec: str
    kernels: tuple[KernelRow, ...]
    failure: str | None
    hint: str
    findings: tuple[CheckFinding, ...] = ()

    @property
    def predicted_us(self) -> float:
        """Time of all launches in one stream."""
        return sum(kernel.predicted_us or 0.0 for kernel in self.kernels)


def script_to_json(run: ScriptRun) -> dict[str, Any]:
    """The run as plain JSON data of schema ``wavecast.run/1``."""
    from wavecast.cli import __version__

    return {
        "schema": RUN_SCHEMA,
        "script": run.script,
        "arguments": list(run.arguments),
        "device": run.device,
        "arch": run.arch,
        "predicted_us": run.predicted_us,
        "kernels": [kernel_row_to_json(kernel) for kernel in run.kernels],
        "findings": findings_to_json(run.findings),
        "failure": run.failure,
        "wavecast": __version__,
        "triton": run.triton,
        "spec": run.spec,
    }


def run_script(
    script: str,
    arguments: Sequence[str],
    *,
    device: str,
    is_module: bool = False,
    sample: bool = False,
    check: bool = False,
    quiet: bool = False,
) -> ScriptRun:
    """Run a script as ``__main__`` on a virtual device; torch, if there, has that device as its GPU.

    A script that fails has its traceback printed on stderr; what it launched before is still returned.

    Args:
        script: A file, or a module's name.
        arguments: What the script finds in ``sys.argv`` behind its name.
        device: Name of the device.
        is_module: ``script`` names a module.
        sample: ``do_bench`` executes a sample of each grid.
        check: Look for faults in every launch.
        quiet: Send what the script prints to stderr.

    Raises:
        CliError: There is no such script.
    """
    launched, failure, hint = execute_script(
        script,
        arguments,
        device=device,
        launches_on=simulate.ScriptLaunches,
        is_module=is_module,
        sample=sample,
        check=check,
        quiet=quiet,
    )
    prediction, findings = launched.prediction(), launched.findings
    return ScriptRun(
        script=script,
        arguments=tuple(arguments),
        device=device,
        arch=prediction.arch,
        triton=prediction.triton,
        spec=prediction.spec,
        kernels=prediction.kernels,
        failure=failure,
        hint=hint,
        findings=findings,
    )


def execute_script(
    script: str,
    arguments: Sequence[str],
    *,
    device: str,
    launches_on: Callable[[Device], simulate.Launches],
    is_module: bool = False,
    sample: bool = False,
    check: bool = False,
    quiet: bool = False,
) -> tuple[simulate.Launches, str | None, str]:
    """Run a script as ``run_script`` does, with something else that is told of its launches.

    Returns:
        What was told of the launches, how the script failed, or None, and what helps against it.

    Raises:
        CliError: There is no such script.
    """
    if is_module:
        if find_spec(script) is None:
            raise misuse(f"no module is called {script!r}", hint="is it installed in this environment?")
    elif not Path(script).is_file():
        raise misuse(f"{script} is no file", hint="give a Python file, or -m and the name of a module")
    torch_has_it = find_spec("torch") is not None
    with (
        simulate.script_device(device, launches_on, torch_has_it=torch_has_it, sample=sample, check=check) as launched,
        as_main(script, arguments, is_module=is_module),
        redirect_stdout(sys.stderr) if quiet else nullcontext(),
    ):
        failure, hint = _outcome(script, is_module=is_module)
    return launched, failure, hint


@contextmanager
def as_main(script: str, arguments: Sequence[str], *, is_module: bool) -> Iterator[None]:
    """What a program finds in ``sys`` when Python starts it."""
    before = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.getcwd() if is_module else str(Path(script).resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before[0], before[1]


def _outcome(script: str, *, is_module: bool) -> tuple[str | None, str]:
    """Run it; how it failed, and what helps."""
    try:
        if is_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code is None or error.code == 0:
            return None, ""
        if isinstance(error.code, int):
            return f"{script} ended with exit code {error.code}", ""
        return f"{script} ended: {error.code}", ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.stderr.write(traceback_of(error))
        text = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
        hint = getattr(error, "hint", "")
        return f"{script} failed: {reason}", hint if isinstance(hint, str) else ""
    return None, ""


def traceback_of(error: BaseException) -> str:
    """The traceback of an error of a script, from the script's first line on."""
    own = {__file__, runpy.__file__, "<frozen runpy>"}
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in own:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))

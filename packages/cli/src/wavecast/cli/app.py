"""The verbs, and the one place where errors become text and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from wavecast.cli.devices import devices
from wavecast.cli.doctor import doctor
from wavecast.cli.errors import CliError, ExitCode
from wavecast.cli.inspect import inspect
from wavecast.cli.measure import measure
from wavecast.cli.operators import operators
from wavecast.cli.output import print_error
from wavecast.cli.predict import predict
from wavecast.cli.report import report
from wavecast.cli.run import run as run_verb

# Plain help text: rich markup would cost a third of the 0.3 s that --help may take.
app = typer.Typer(
    name="wavecast",
    help="Predict GPU kernel times on AMD Instinct by executing the code object, with no GPU; measure them on one.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (predict, measure, report, operators, inspect, devices, doctor):
    app.command()(verb)
app.command("run")(run_verb)


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: Words after the program's name.

    Returns:
        The exit code: 0 done, 1 failed, 2 misuse, 3 not possible on this machine.
    """
    try:
        result = app(args=list(arguments), prog_name="wavecast", standalone_mode=False)
        sys.stdout.flush()
    except CliError as error:
        print_error(str(error), error.hint)
        return int(error.code)
    except typer.Abort:
        return int(ExitCode.FAILED)
    except KeyboardInterrupt:
        print_error("interrupted", "")
        return 130
    except OSError as error:
        # A reader that has seen enough, as in `… | head`, is told nothing.
        if not isinstance(error, BrokenPipeError):
            print_error(str(error), "")
        _drop_unwritten_output()
        return int(ExitCode.FAILED)
    except Exception as error:
        usage = _usage_error(error)
        if usage is None:
            raise
        print_error(*usage)
        return int(ExitCode.MISUSE)
    return result if isinstance(result, int) else int(ExitCode.DONE)


def _drop_unwritten_output() -> None:
    """Send what stdout still holds nowhere: Python would try to write it once more at exit, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_error(error: Exception) -> tuple[str, str] | None:
    """Message and hint if ``error`` is a complaint of the argument parser, else None.

    The parser's exception classes moved between typer releases; their interface did not.
    """
    describe = getattr(error, "format_message", None)
    if describe is None:
        return None
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "wavecast")
    if type(error).__name__ == "NoArgsIsHelpError":
        return f"{path}: no verb was given", f"{path} --help"
    return describe().rstrip("."), f"{path} --help"

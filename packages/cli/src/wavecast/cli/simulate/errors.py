"""What simulator and operators refuse, as errors of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wavecast.cli.errors import CliError, ExitCode, misuse


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn what simulator and operators refuse into errors of the command line, with exit code and hint.

    Raises:
        CliError: 1 for what the simulator refuses and for tensors that memory has no room for, 2 for arguments that an
            operator refuses, 3 for a missing package, compiler or disassembler.
    """
    from wavecast.simulator.errors import MissingToolError, SimulatorError

    try:
        yield
    except MissingToolError as error:
        raise CliError(str(error), hint=error.hint, code=ExitCode.NOT_HERE) from error
    except SimulatorError as error:
        # What checks had found when the execution ended may be the cause.
        found = [str(finding) for finding in getattr(error, "findings", ())]
        raise CliError("\n".join([*found, str(error)]), hint=error.hint) from error
    except ValueError as error:
        raise misuse(str(error)) from error
    except (MemoryError, RuntimeError) as error:
        # torch says with a plain RuntimeError that memory ran out.
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise
        raise CliError("no room for the tensors that the operator makes", hint="give smaller sizes") from error
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("wavecast"):
            raise
        hint = "the default environment has it: hatch run cli …; `doctor` shows what this environment lacks"
        raise CliError(f"the package {error.name!r} is not installed", hint=hint, code=ExitCode.NOT_HERE) from error

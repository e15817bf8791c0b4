"""What the command line says when it cannot do what was asked, and the exit code that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every verb."""

    DONE = 0
    FAILED = 1
    MISUSE = 2
    NOT_HERE = 3


class CliError(Exception):
    """An error for a person: printed as ``error: …``, a blank line and ``hint: …``.

    Args:
        message: What was given and what is wrong with it.
        hint: What to do about it; empty if nothing is known to help.
        code: Exit code of the process.
    """

    def __init__(self, message: str, *, hint: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code

    def __reduce__(self) -> tuple[Callable[..., CliError], tuple[str, str, ExitCode]]:
        # An exception is rebuilt from its positional arguments alone, and this one comes back from other processes.
        return _rebuild, (str(self), self.hint, self.code)


def _rebuild(message: str, hint: str, code: ExitCode) -> CliError:
    return CliError(message, hint=hint, code=code)


def misuse(message: str, *, hint: str = "") -> CliError:
    """Build the error for a wrong argument: exit code 2."""
    return CliError(message, hint=hint, code=ExitCode.MISUSE)


def unknown(kind: str, given: str, possible: list[str] | tuple[str, ...]) -> CliError:
    """Build the error for a name that does not exist, with the nearest one and the whole list.

    Args:
        kind: What the name stands for, ``device``.
        given: The name as it was typed.
        possible: The names that exist.
    """
    from difflib import get_close_matches

    near = [name for name in possible if given and name.startswith(given)] or get_close_matches(given, possible, n=1)
    suggestion = f"did you mean {near[0]!r}? " if near else ""
    return misuse(f"no {kind} is called {given!r}", hint=f"{suggestion}possible: {', '.join(possible)}")

"""Directories that a user names for files to be written to."""

from __future__ import annotations

import os
from pathlib import Path

from wavecast.cli.errors import CliError, misuse


def check_directory(directory: Path) -> None:
    """Find what would keep files from being written there, before minutes are spent on what they hold.

    Raises:
        CliError: 2 if it cannot be a directory, or may not be written to.
    """
    present = next((path for path in (directory, *directory.absolute().parents) if path.exists()), None)
    if present is None:
        return
    if not present.is_dir():
        raise not_writable(directory, f"{present} is a file")
    if not os.access(present, os.W_OK | os.X_OK):
        raise not_writable(directory, f"{present} may not be written to")


def not_writable(directory: Path, reason: str | None) -> CliError:
    """Build the error for a directory that files cannot be written to: exit code 2."""
    return misuse(f"cannot write to {directory}: {reason}", hint="give a directory you may write to")

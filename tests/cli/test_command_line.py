"""Behaviour that every verb shares: help, exit codes, errors, streams."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wavecast.cli.app import app, run

VERBS = sorted(command.callback.__name__ for command in app.registered_commands if command.callback)
HEAVY = ("torch", "triton", "numba", "llvmlite", "matplotlib", "numpy", "rich.table")

IMPORTS = f"""
import sys
from wavecast.cli.app import run
code = run(sys.argv[1:])
print([name for name in {HEAVY!r} if name in sys.modules], code, file=sys.stderr)
"""


@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS)], ids=["top", *VERBS])
def test_help_imports_nothing_heavy(verb: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", IMPORTS, *verb, "--help"], capture_output=True, text=True, check=True
    )
    assert result.stderr.strip() == "[] 0"
    assert result.stdout.lstrip().startswith("Usage: wavecast")
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["doctor", "--frobnicate"], "No such option"),
        (["inspect"], "Missing argument"),
        (["inspect", "no-such-thing"], "'no-such-thing'"),
    ],
)
def test_misuse_exits_with_2_and_a_hint(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, blank, hint = captured.err.splitlines()[:3]
    assert first.startswith("error: ")
    assert message in first
    assert blank == ""
    assert hint.startswith("hint: ")

"""Behaviour that every verb shares: help, exit codes, errors, streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["devices"], ["devices", "--json"], ["--help"]])
def test_output_that_cannot_be_written_is_an_error(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "wavecast.cli", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert result.stderr == "error: [Errno 28] No space left on device\n"


def test_a_reader_that_leaves_is_not_an_error_to_talk_about() -> None:
    read, write = os.pipe()
    os.close(read)
    for words in (["devices"], ["devices", "--json"], ["--help"]):
        result = subprocess.run(
            [sys.executable, "-m", "wavecast.cli", *words], stdout=write, stderr=subprocess.PIPE, check=False
        )
        assert (result.returncode, result.stderr) == (1, b"")
    os.close(write)

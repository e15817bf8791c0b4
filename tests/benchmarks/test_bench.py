from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).with_name("bench.py")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCH), *arguments], capture_output=True, text=True, check=False)


def test_a_section_prints_its_figures() -> None:
    result = run("help")
    assert result.returncode == 0, result.stderr
    heading, *lines = result.stdout.splitlines()
    assert heading.split() == ["what", "figure", "budget", "unit"]
    assert len(lines) == 2
    assert all(line.endswith("<= 0.3  s") for line in lines)


def test_unknown_section() -> None:
    result = run("nothing")
    assert result.returncode == 1
    assert result.stderr.startswith("error: no section 'nothing'")

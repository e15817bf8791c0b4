"""The column-wise kernels in Triton's interpreter, which must be chosen before Triton is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.compile
def test_every_case_equals_the_reference() -> None:
    script = Path(__file__).parent / "interpreted_colwise.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" checks\n")
    assert int(done.stdout.split()[0]) > 10

"""``predict FILE --check``: a kernel of a file with a fault fails, with the fault's line; one without does not."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from .forks import Forks

pytestmark = [pytest.mark.compile, pytest.mark.execute]
needs_compiler = pytest.mark.skipif(
    shutil.which("hipcc") is None and importlib.util.find_spec("ziglang") is None,
    reason="neither hipcc nor ziglang is installed",
)
KERNELS = Path(__file__).parents[1] / "simulator/checks/planted.hip"


def predict(forks: Forks, kernel: str, *words: str) -> subprocess.CompletedProcess[str]:
    return forks.run(["predict", str(KERNELS), "--kernel", kernel, "--check", *words])


@needs_compiler
@pytest.mark.parametrize(("kernel", "status"), [("collision", 1), ("right_atomics", 0)])
def test_a_fault_is_listed_and_fails(kernel: str, status: int, forks: Forks) -> None:
    done = predict(forks, kernel, "--grid", "1", "--block", "64", "--arg", "buf:256")
    assert done.returncode == status, done.stderr
    assert kernel in done.stdout
    assert ("error: collision" in done.stderr) == bool(status)
    assert ("planted.hip:" in done.stderr) == bool(status)
    assert ("checks: clean" in done.stderr) == (not status)


@needs_compiler
def test_what_was_found_before_a_fault_is_said_with_it(forks: Forks) -> None:
    done = predict(forks, "misaligned_load", "--grid", "1", "--block", "64", "--arg", "buf:300", "--arg", "buf:64")
    assert done.returncode == 1
    assert "warning: misaligned" in done.stderr
    assert "past the end" in done.stderr

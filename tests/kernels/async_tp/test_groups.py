"""The operators over a gloo group of two processes: the decomposed form."""

from __future__ import annotations

from pathlib import Path

from processes import run_in_processes

SCRIPT = Path(__file__).with_name("group_script.py")


def test_every_option_over_two_processes(tmp_path: Path) -> None:
    checks = ("options", "row_scales", "operators", "gradients", "inductor")
    for said in run_in_processes(SCRIPT, *checks, store=tmp_path / "store"):
        assert [line.split()[1] for line in said.splitlines() if line.startswith("passed")] == list(checks)

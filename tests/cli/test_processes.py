"""Processes of ``predict``: what becomes of them when something goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from wavecast.cli.errors import CliError
from wavecast.cli.experiments.experiment import Experiment
from wavecast.cli.prediction import Case, predict_cases


def case_that_calls(function: Callable[[Any], Any], argument: Any) -> Case:
    """A case of two variants whose inputs are made by ``function(argument)``; a spawned process can import both."""
    experiment = Experiment(
        name="odd",
        summary="",
        variants=("a", "b"),
        shapes=(),
        device="mi300x",
        dtype="bf16",
        published=(),
        remark="",
        minimum_bytes=len,
        make_inputs=function,
        operator="",
    )
    return Case(experiment, argument, "mi300x", experiment.variants)


def test_an_interrupt_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(future: object) -> None:
        assert active_children()
        raise KeyboardInterrupt

    monkeypatch.setattr("wavecast.cli.prediction._result", interrupt)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(predict_cases([case_that_calls(time.sleep, 60)], jobs=2, done=lambda name: None))
    assert active_children() == []
    assert time.monotonic() - start < 30


KILLED_PARENT = """
import os, sys, time
from multiprocessing import active_children
sys.path.insert(0, sys.argv[1])
from test_processes import case_that_calls
from wavecast.cli import prediction

def kill_oneself(future):
    print(*(process.pid for process in active_children()), flush=True)
    time.sleep(0.5)
    os.kill(os.getpid(), 9)

if __name__ == "__main__":
    prediction._result = kill_oneself
    list(prediction.predict_cases([case_that_calls(time.sleep, 60)], jobs=2, done=lambda name: None))
"""


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED_PARENT)
    # The output ends when the last process that could write to it has ended.
    result = subprocess.run(
        [sys.executable, str(script), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True, timeout=30
    )
    assert result.returncode == -9
    assert len(result.stdout.split()) == 2


def test_a_process_that_dies_is_an_error_with_a_way_out() -> None:
    with pytest.raises(CliError, match="ended before it answered") as error:
        list(predict_cases([case_that_calls(os._exit, 1)], jobs=2, done=lambda name: None))
    assert "--jobs 1" in error.value.hint

"""A function in two processes that form a gloo group over loopback, bounded in time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 120


def run_in_processes(script: Path, *arguments: str, ranks: int = 2, store: Path) -> list[str]:
    """Run a script once a rank, with ``rank ranks store`` and the arguments behind; what each printed.

    Args:
        script: to run; ends with status 0 if all is well.
        arguments: handed on.
        ranks: number of processes.
        store: file by which they find each other; its folder exists, it does not.

    Raises:
        AssertionError: a process failed, or did not end in time; those still running are ended.
    """
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(ranks), str(store), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(ranks)
    ]
    said = []
    try:
        for process in running:
            said.append(process.communicate(timeout=LIMIT_S)[0])
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    for rank, (process, text) in enumerate(zip(running, said, strict=True)):
        assert process.returncode == 0, f"rank {rank} ended with {process.returncode}:\n{text[-3000:]}"
    return said

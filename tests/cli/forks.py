"""The command line in a process of its own, without importing torch, Triton and numba anew each time.

A server imports them once; each command line runs in a fork of it, which no other sees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path


class Forks:
    """A server of forks; ``close`` ends it."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run the command line with these words."""
        assert self._server.stdin is not None and self._server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            request = {"words": [*words], "out": str(out), "err": str(err), "cwd": os.getcwd()}
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            code = int(self._server.stdout.readline())
            return subprocess.CompletedProcess([*words], code, out.read_text(), err.read_text())

    def close(self) -> None:
        self._server.communicate()


def serve() -> None:
    """Answer each line of standard input with the exit code of its command line."""
    for name in ("numba", "torch", "triton", "wavecast.simulator.launch", "wavecast.simulator.virtual"):
        import_module(name)
    from wavecast.cli.app import run

    for line in sys.stdin:
        request = json.loads(line)
        process = os.fork()
        if process:
            print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
            continue
        code = 1
        try:
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.chdir(request["cwd"])
            code = run(request["words"])
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


if __name__ == "__main__":
    serve()

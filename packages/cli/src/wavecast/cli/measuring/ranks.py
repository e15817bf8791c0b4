"""Processes that form a group of torch.distributed, one a rank, which do what they are asked for, all at once."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from wavecast.cli.measuring.gpu import GpuLostError, explained
from wavecast.cli.processes import end_with_parent

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import torch

START_S = 300.0
"""How long a group may take to form: every process imports torch and Triton, perhaps from one slow disk."""

GRACE_S = 10.0
"""How long the other ranks may still take when one has failed: they may wait for it."""

ENDED = "failed: its process ended"
"""What is said of a rank whose process is no more."""


@dataclass(frozen=True)
class Rank:
    """What a function that runs on a rank is told.

    Attributes:
        rank: Which one.
        ranks: How many.
        device: Where its tensors are.
    """

    rank: int
    ranks: int
    device: torch.device


class RankError(Exception):
    """What went wrong on a rank, or on all of them alike, as ``explained`` says it."""

    def __init__(self, text: str, rank: int | None) -> None:
        super().__init__(text if rank is None else f"{text} (rank {rank})")
        self.text, self.rank = text, rank


class RankGroup:
    """A group, whose processes are started when first asked, and anew after one has failed.

    Ranks have NCCL or RCCL, and gloo where they are on the CPU or share a GPU.

    Args:
        places: Device of each rank, ``cuda:0``.
        step_s: How long the ranks may take for what they are asked.
    """

    def __init__(self, places: Sequence[str], *, step_s: float) -> None:
        self._places = tuple(places)
        self._step_s = step_s
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._processes: list[SpawnProcess] = []
        self._pipes: list[Connection] = []

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function of a module on all ranks, with its `Rank` and arguments; the answers by rank.

        Raises:
            RankError: it failed; the processes are ended, unless all have refused it alike.
            GpuLostError: the group cannot be formed.
        """
        if not self._processes:
            self._start()
        try:
            return self._asked((function, arguments), self._step_s)
        except RankError as error:
            if error.rank is not None or not error.text.startswith("refused: "):
                self.close()
            raise

    @property
    def running(self) -> bool:
        """Whether there are processes, with what they keep; else the next call starts some."""
        return bool(self._processes)

    def close(self) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> None:
        context = get_context("spawn")
        self._folder = tempfile.TemporaryDirectory()
        store = str(Path(self._folder.name) / "store")
        for rank in range(len(self._places)):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(rank, self._places, store, there, self._step_s), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            self._pipes.append(here)
        try:
            self._asked(None, START_S)
        except RankError as error:
            self.close()
            raise GpuLostError(f"the ranks do not come together: {error}") from error

    def _asked(self, task: Any, seconds: float) -> list[Any]:
        if task is not None:
            for pipe in self._pipes:
                with suppress(OSError):  # that it has ended is found below
                    pipe.send(task)
        answers: dict[int, Any] = {}
        failed: dict[int, str] = {}
        until = monotonic() + seconds
        while len(answers) + len(failed) < len(self._pipes):
            left = [rank for rank in range(len(self._pipes)) if rank not in answers and rank not in failed]
            ready = wait([self._pipes[rank] for rank in left], max(until - monotonic(), 0))
            if not ready:
                if not failed:
                    failed[left[0]] = f"failed: no answer for {seconds:g} s"
                break
            for rank in left:
                if self._pipes[rank] in ready:
                    right, answer = self._received(rank)
                    (answers if right else failed)[rank] = answer
            if failed:
                until = min(until, monotonic() + GRACE_S)
        if failed:
            # The others fail for it, and may say so before its end is seen.
            rank = min(failed, key=lambda rank: not failed[rank].startswith(ENDED))
            text = failed[rank]
            alike = len(failed) == len(self._pipes) and len(set(failed.values())) == 1
            raise RankError(text, None if alike else rank)
        return [answers[rank] for rank in range(len(self._pipes))]

    def _received(self, rank: int) -> tuple[bool, Any]:
        try:
            found: tuple[bool, Any] = self._pipes[rank].recv()
        except (EOFError, OSError):
            self._processes[rank].join(GRACE_S)
            return False, f"{ENDED} with {self._processes[rank].exitcode}"
        return found


def gpu_places(count: int) -> list[str]:
    """A GPU for each rank."""
    return [f"cuda:{index}" for index in range(count)]


def _serve(rank: int, places: Sequence[str], store: str, pipe: Connection, step_s: float) -> None:
    """What a rank's process does: come to the group, then answer until the pipe is closed."""
    end_with_parent()
    try:
        me = _join(rank, places, store, step_s)
        pipe.send((True, None))
    except Exception as error:
        pipe.send((False, explained(error)))
        return
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = True, function(me, *arguments)
        except Exception as error:  # whatever a kernel does wrong is an answer
            answer = False, explained(error)
        pipe.send(answer)


def _join(rank: int, places: Sequence[str], store: str, step_s: float) -> Rank:
    import torch
    import torch.distributed as dist

    # Names of collectives that torch replaces from 2.13 on, and earlier ones have no others.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    device, shared = torch.device(places[rank]), len(set(places)) < len(places)
    options: dict[str, Any] = {}
    if device.type == "cuda":
        torch.cuda.set_device(device)
        if shared:
            from wavecast.kernels.async_tp.groups import SHARED_VARIABLE

            os.environ[SHARED_VARIABLE] = "1"
        else:
            options["device_id"] = device
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // len(places)))
    dist.init_process_group(
        "gloo" if shared or device.type == "cpu" else "nccl", init_method=f"file://{store}", rank=rank,
        world_size=len(places), timeout=timedelta(seconds=step_s), **options,
    )  # fmt: skip
    return Rank(rank, len(places), device)

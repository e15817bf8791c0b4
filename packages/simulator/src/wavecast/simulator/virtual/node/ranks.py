"""The programs of all ranks in one process: one runs at a time, until it waits for its device or for another rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import triton

from wavecast.simulator.virtual.driver import VirtualDriver

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node.node import VirtualNode

T = TypeVar("T")


class _AbortedError(BaseException):
    """Ends a program whose node has failed; never seen by a user."""


@dataclass(eq=False)
class _Program:
    """The program of one rank.

    Attributes:
        rank: Whose.
        go: Released to let it run.
        is_reached: What it waits for; None if it can run.
        reason: What it waits for, in words.
        is_over: Whether it has returned or failed.
        driver: Triton's active driver, while it does not run.
    """

    rank: int
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_reached: Callable[[], bool] | None = None
    reason: str = ""
    is_over: bool = False
    result: Any = None
    error: BaseException | None = None
    driver: Any = None


class RankPrograms(Generic[T]):
    """Runs a function for every rank, each in a thread of its own, one at a time.

    Args:
        node: Whose ranks.
        switched: Called with a rank and whether its program goes on now, or stops running.
    """

    def __init__(self, node: VirtualNode, switched: Callable[[int, bool], None]) -> None:
        self._node, self._switched = node, switched
        self._programs = [_Program(rank) for rank in range(node.ranks)]
        self._back = threading.Semaphore(0)
        self._running: _Program | None = None
        self._is_aborted = False

    @property
    def current_rank(self) -> int | None:
        """Rank whose program calls this; None if none does."""
        program = self._running
        return program.rank if program is not None and threading.current_thread().name == _name(program.rank) else None

    def run(self, function: Callable[[int], T]) -> list[T]:
        """Call ``function(rank)`` for every rank; what it puts on streams runs while programs wait, and at the end.

        Returns:
            What it returned, by rank.

        Raises:
            DeadlockError: Programs and devices wait for each other.
            Exception: What a program raised first.
        """
        config = triton.runtime.driver
        before = config._active
        for program in self._programs:
            program.driver = VirtualDriver(self._node.rank(program.rank).device)
        threads = [
            threading.Thread(target=self._body, args=(program, function), name=_name(program.rank), daemon=True)
            for program in self._programs
        ]
        for thread in threads:
            thread.start()
        try:
            self._conduct()
            self._node.synchronize()
        finally:
            self._is_aborted = True
            for program in self._programs:
                while not program.is_over:
                    self._resume(program)
            for thread in threads:
                thread.join()
            config.set_active(before)
        return [program.result for program in self._programs]

    def wait(self, is_reached: Callable[[], bool], reason: str) -> None:
        """Let others run until a condition holds; called by a rank's program.

        Args:
            is_reached: The condition.
            reason: What it is, for messages: ``its stream 'compute'``.
        """
        if self._is_aborted:
            raise _AbortedError
        program = self._running
        assert program is not None
        if is_reached():
            return
        config = triton.runtime.driver
        program.is_reached, program.reason, program.driver = is_reached, reason, config._active
        self._back.release()
        program.go.acquire()
        if self._is_aborted:
            raise _AbortedError
        program.is_reached = None
        config.set_active(program.driver)

    def _body(self, program: _Program, function: Callable[[int], T]) -> None:
        program.go.acquire()
        try:
            if not self._is_aborted:
                triton.runtime.driver.set_active(program.driver)
                program.result = function(program.rank)
        except _AbortedError:
            pass
        except BaseException as error:
            error.add_note(f"in the program of rank {program.rank}")
            program.error = error
        program.is_over = True
        self._back.release()

    def _resume(self, program: _Program) -> None:
        self._switched(program.rank, True)
        self._running = program
        program.go.release()
        self._back.acquire()
        self._running = None
        self._switched(program.rank, False)

    def _conduct(self) -> None:
        """Let programs and devices run until all programs are over."""
        patience = 0
        while not all(program.is_over for program in self._programs):
            able = [p for p in self._programs if not p.is_over and (p.is_reached is None or p.is_reached())]
            if able and patience <= 0:
                program = able[self._node.policy.program(len(able))]
                self._resume(program)
                if program.error is not None:
                    raise program.error
                patience = self._node.policy.start_delay()
            elif self._node.step():
                patience -= 1
            elif able:
                patience = 0
            else:
                raise self._node.deadlock(self._waiting())

    def _waiting(self) -> Sequence[str]:
        return [
            f"rank {program.rank}: the program " + ("has ended" if program.is_over else f"waits for {program.reason}")
            for program in self._programs
        ]


def _name(rank: int) -> str:
    return f"program of rank {rank}"

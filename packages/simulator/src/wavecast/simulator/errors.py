"""Errors of the simulator: each says what was given, what is wanted and the way out (``hint``)."""

from __future__ import annotations

from typing import Any


class SimulatorError(Exception):
    """Base of every error the simulator raises on purpose.

    Args:
        message: What was given and what is wrong with it.
        hint: What the caller can do about it; empty if nothing is known to help.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class AssemblyError(SimulatorError):
    """The assembly text is not what the parser expects."""


class UnknownDeviceError(SimulatorError):
    """A device or architecture name that no specification describes."""


class UnsupportedInstructionError(SimulatorError):
    """An instruction whose semantics the execution engine does not have; never guessed."""


class AsynchronousKernelError(UnsupportedInstructionError):
    """A kernel hands work to units that run beside its warps, and is not executed."""


class CompileError(SimulatorError):
    """A kernel did not compile for the wanted architecture."""


class MissingToolError(SimulatorError):
    """A program or package that is needed for what was asked is not installed."""


class LaunchError(SimulatorError):
    """A launch whose grid, arguments or resources do not fit the kernel or the device."""


class ExecutionError(SimulatorError):
    """A kernel did something wrong while it ran.

    Attributes:
        findings: What checks had found before, of type ``wavecast.simulator.checks.Finding``; empty without checks.
    """

    findings: tuple[Any, ...] = ()


class MemoryFaultError(ExecutionError):
    """A lane touched memory outside every registered buffer."""


class InstructionBudgetError(ExecutionError):
    """A wave executed more instructions than it was allowed."""


class DeadlockError(ExecutionError):
    """Work of several devices or streams that waits for what will not come."""

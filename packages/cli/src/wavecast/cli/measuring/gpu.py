"""The GPUs of this machine as torch sees them: CUDA or ROCm, the same calls for both."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from wavecast.cli.errors import CliError, ExitCode, misuse
from wavecast.cli.measurement import Machine
from wavecast.cli.measuring.timing import Clock

DRIVER_VERSIONS = (Path("/sys/module/amdgpu/version"), Path("/sys/module/nvidia/version"))
NO_GPU = (
    "run this where torch sees a GPU: in a ROCm container `hatch run rocm:cli measure`, or, with the system's torch "
    "and Triton and no hatch, as docs/guides/measure.md shows; `doctor` says what this environment has, and "
    "`predict` needs no GPU"
)


class Bench(Protocol):
    """One GPU, or what stands for one in a test.

    Attributes:
        clock: What times calls on it.
    """

    clock: Clock

    def current(self) -> AbstractContextManager[Any]:
        """Context in which it is the GPU that calls run on."""

    def place(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Copies of an experiment's inputs on it, with values instead of zeros."""

    def reference(self) -> AbstractContextManager[Any]:
        """Context in which operators give what is right."""

    def clock_mhz(self) -> float | None:
        """Clock of its compute units at this moment; None if it cannot be read."""

    def alive(self) -> bool:
        """Whether it still answers."""

    def free(self) -> None:
        """Give memory that nobody uses back to it."""


class GpuBench:
    """A GPU of torch.

    Args:
        index: Its number.
    """

    def __init__(self, index: int) -> None:
        import torch

        from wavecast.cli.measuring.timing import GpuClock

        self._index = index
        with torch.cuda.device(index):
            self._gpu_clock = GpuClock()
        self.clock: Clock = self._gpu_clock

    def current(self) -> AbstractContextManager[Any]:
        import torch

        return torch.cuda.device(self._index)

    def place(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        from wavecast.cli.measuring.values import filled

        return filled(inputs, device=f"cuda:{self._index}")

    def reference(self) -> AbstractContextManager[Any]:
        from wavecast.kernels import plain_torch

        return plain_torch()

    def clock_mhz(self) -> float | None:
        return self._gpu_clock.read_clock()

    def alive(self) -> bool:
        import torch

        try:
            torch.cuda.synchronize(self._index)
            torch.zeros(1, device=f"cuda:{self._index}").item()
        except RuntimeError:
            return False
        return True

    def free(self) -> None:
        import torch

        torch.cuda.empty_cache()


def find_machine(*, gpus: int = 1) -> Machine:
    """What this machine has.

    Args:
        gpus: Number of GPUs that are wanted.

    Raises:
        CliError: 3 if torch or Triton is missing, or torch sees no GPU; 2 if it sees fewer than wanted.
    """
    try:
        import torch
        import triton
    except ModuleNotFoundError as error:
        message = f"the package {error.name!r} is not installed, and measuring needs it"
        raise CliError(message, hint=NO_GPU, code=ExitCode.NOT_HERE) from error
    if not torch.cuda.is_available():
        raise CliError("torch sees no GPU", hint=NO_GPU, code=ExitCode.NOT_HERE)
    found = torch.cuda.device_count()
    if gpus > found:
        raise misuse(f"{gpus} GPUs, and torch sees {found}", hint=f"--gpus {found}")
    from wavecast.kernels import active_arch

    arch = active_arch()
    if arch is None:
        raise CliError(
            f"torch sees a GPU, and Triton {triton.__version__} has no driver for it",
            hint="install the Triton that belongs to this torch",
            code=ExitCode.NOT_HERE,
        )
    properties = torch.cuda.get_device_properties(0)
    runtime = f"rocm {torch.version.hip}" if torch.version.hip else f"cuda {torch.version.cuda}"
    return Machine(
        gpu=torch.cuda.get_device_name(0),
        arch=arch,
        gpus=gpus,
        compute_units=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        l2_bytes=getattr(properties, "L2_cache_size", None),
        driver=next((path.read_text().strip() for path in DRIVER_VERSIONS if path.exists()), None),
        runtime=runtime,
        torch=torch.__version__,
        triton=triton.__version__,
        python=platform.python_version(),
    )


def device_of(machine: Machine) -> str:
    """Name of the device specification of a machine's GPU; of one that has none, a name of its own.

    ``AMD Instinct MI300X VF`` is ``mi300x``, ``NVIDIA H200`` is ``h200``.
    """
    from wavecast.cli import simulate

    words = machine.gpu.lower().replace("-", " ").split()
    return next((name for name in simulate.device_names() if name in words), "-".join(words) or machine.arch)


@contextmanager
def reported(bench: Bench) -> Iterator[list[str]]:
    """Turn what goes wrong on a GPU into a text for a person: after the block the list has it, if anything did.

    Raises:
        GpuLostError: It does not answer any more.
    """
    told: list[str] = []
    try:
        yield told
    except Exception as error:  # whatever a kernel does wrong is a result of the measurement
        told.append(explained(error))
    if told:  # here the exception, and what its frames held, is gone
        if not bench.alive():
            raise GpuLostError(f"the GPU does not answer any more: {told[0]}")
        bench.free()


class GpuLostError(Exception):
    """A GPU that does not answer any more; nothing else can be measured on it by this process."""


def explained(error: Exception) -> str:
    """What an exception means, in one line that begins with ``no memory``, ``refused`` or ``failed``."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    kind = type(error).__name__
    if kind == "OutOfMemoryError" or "out of memory" in str(error).lower():
        return f"no memory: {first}"
    if isinstance(error, ValueError | CliError) or kind == "OutOfResources":
        return f"refused: {first}"
    return f"failed: {kind}: {first}"

"""A kernel of a HIP source: what its arguments are, and a launch on the device that is active."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from wavecast.kernels.hip.compiler import compile_hip
from wavecast.kernels.hip.runtime import HipRuntime, hip_runtime

POINTER, INT32, FLOAT = "P", "i", "f"
"""Types of arguments, in the spelling of ``struct``."""


@dataclass(frozen=True)
class HipKernel:
    """A kernel.

    Attributes:
        source: the file.
        name: its name there.
        parameters: name and type of each argument, in order.
        threads: work-items of a workgroup, all in x.
    """

    source: Path
    name: str
    parameters: tuple[tuple[str, str], ...]
    threads: int

    def pack(self, arguments: Mapping[str, Any], runtime: HipRuntime) -> bytes:
        """The arguments as the kernel finds them in memory, each at a multiple of its size.

        Args:
            arguments: a value for each parameter: a tensor or None for a pointer, else a number.
            runtime: gives tensors their addresses.

        Raises:
            ValueError: other names than the kernel's, or a number that its type does not hold.
        """
        names = [name for name, _ in self.parameters]
        if set(arguments) != set(names):
            raise ValueError(f"{self.name} takes {', '.join(names)}; given are {', '.join(arguments)}")
        values = [
            runtime.address_of(arguments[name]) if kind == POINTER else arguments[name]
            for name, kind in self.parameters
        ]
        try:
            return struct.pack("@" + "".join(kind for _, kind in self.parameters), *values)
        except struct.error as error:
            given = ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
            raise ValueError(f"an argument of {self.name} does not fit its type ({error}): {given}") from error

    def launch(self, grid: Sequence[int], arguments: Mapping[str, Any]) -> None:
        """Launch on the device and stream that are current; sizes and strides are the caller's to check.

        Args:
            grid: workgroups in x, y, z.
            arguments: as for `pack`.

        Raises:
            ValueError: no AMD device is active or one that the source is not for, or arguments do not fit.
            RuntimeError: there is no compiler, or the runtime refuses.
        """
        runtime = hip_runtime()
        function = runtime.get_function(runtime.load_module(compile_hip(self.source, runtime.arch)), self.name)
        runtime.launch(
            function,
            grid=grid,
            block=(self.threads, 1, 1),
            packed=self.pack(arguments, runtime),
            stream=runtime.current_stream(),
            tensors=[value for value in arguments.values() if isinstance(value, torch.Tensor)],
        )

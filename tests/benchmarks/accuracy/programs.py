"""What a timed benchmark run does: launches, copies from the host, and how often."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wavecast.simulator.timing import Position

Size = tuple[int, int, int]

# Host side of a copy into device memory, as the timed regions of three MI300A benchmarks have it: a time a call, and a
# rate for what is staged (up to a megabyte) and for what is pinned; a call right behind another takes less. Read off
# those benchmarks; they say nothing about kernels, so they stand here and not in a device file.
COPY_CALL_US = 18.0
NEXT_COPY_CALL_US = 6.0
STAGED_BYTES = 1 << 20
STAGED_BYTES_PER_US = 5.1e3
PINNED_BYTES_PER_US = 38.9e3


@dataclass(frozen=True, slots=True)
class Array:
    """A buffer in device memory.

    Attributes:
        name: Name of the argument.
        nbytes: Its size.
        fill: How ``fills.FILLS`` fills it, with its numbers: ``("ramp", 4)``. Zeros if empty.
    """

    name: str
    nbytes: int
    fill: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel in a source file.

    Attributes:
        path: The file.
        kernel: Name of the function.
        definitions: Preprocessor symbols, ``("TILE=16",)``.
    """

    path: Path
    kernel: str
    definitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    Attributes:
        source: The kernel.
        grid: Workgroups in x, y, z.
        block: Work-items of a workgroup.
        arguments: Arrays and scalars in the order of the parameters; the same array may come twice.
        lds_bytes: Dynamic LDS.
    """

    source: Source
    grid: Size
    block: Size
    arguments: tuple[Array | int | float, ...]
    lds_bytes: int = 0

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Distinct arrays, in the order of the arguments."""
        return tuple(dict.fromkeys(entry for entry in self.arguments if isinstance(entry, Array)))

    @property
    def description(self) -> str:
        """Everything that the executed counts depend on besides the code, as text."""
        arguments = [
            [entry.name, entry.nbytes, *entry.fill] if isinstance(entry, Array) else entry for entry in self.arguments
        ]
        return json.dumps([self.grid, self.block, self.lds_bytes, arguments])


@dataclass(frozen=True, slots=True)
class Launches:
    """A launch that the timed region makes a number of times, or that stands for so many much like it.

    Attributes:
        launch: The launch.
        times: How often.
        reads_fresh: Whether other launches wrote what it reads just before. Then it finds it in the memory-side cache
            and in no L2, where an equal launch would have left it.
    """

    launch: Launch
    times: int = 1
    reads_fresh: bool = False


@dataclass(frozen=True, slots=True)
class HostCopy:
    """A copy from the host's memory that the timed region waits for.

    Attributes:
        nbytes: How much.
        follows: Whether another copy comes just before.
    """

    nbytes: int
    follows: bool = False

    @property
    def time_us(self) -> float:
        rate = STAGED_BYTES_PER_US if self.nbytes <= STAGED_BYTES else PINNED_BYTES_PER_US
        return (NEXT_COPY_CALL_US if self.follows else COPY_CALL_US) + self.nbytes / rate


@dataclass(frozen=True, slots=True)
class Program:
    """A timed region and the time that was measured for it.

    Attributes:
        dataset: ``mi300a`` or ``mi300x``, which is also the device.
        benchmark: Name in the data.
        label: Size and parameters.
        measured_us: The measured time.
        steps: What it does, in order.
        each: Where every launch stands, if each is timed on its own and the times are summed; None for a chain that
            is timed as a whole.
    """

    dataset: str
    benchmark: str
    label: str
    measured_us: float
    steps: tuple[Launches | HostCopy, ...]
    each: Position | None = None

    @property
    def launches(self) -> Iterator[Launches]:
        return (step for step in self.steps if isinstance(step, Launches))

    @property
    def footprint_bytes(self) -> int:
        """Bytes of all distinct arrays."""
        arrays = {array for step in self.launches for array in step.launch.arrays}
        return sum(array.nbytes for array in arrays)

"""A GPU for tests: the host does its work, and its times are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from wavecast.cli.measurement import Machine
from wavecast.cli.measuring.values import filled
from wavecast.cli.rows import Row

MACHINE = Machine(
    gpu="AMD Instinct MI300X",
    arch="gfx942",
    gpus=1,
    compute_units=304,
    memory_bytes=192 * 10**9,
    l2_bytes=4 * 2**20,
    driver="6.16.0",
    runtime="rocm 7.2",
    torch="2.13.0",
    triton="3.7.1",
    python="3.12.3",
)


REFERRING: ContextVar[bool] = ContextVar("referring", default=False)
CURRENT: ContextVar[FakeGpu | None] = ContextVar("current", default=None)


class FakeClock:
    """A device clock that runs the calls, and takes their times from a list by variant instead of measuring."""

    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu

    def synchronize(self) -> None:
        self._gpu.check_present()

    def enqueue(
        self, call: Callable[[], Any], *, host_us: float, warm: bool = False, idle: bool = False
    ) -> Callable[[], float]:
        self._gpu.called.clear()
        call()
        name = self._gpu.called[-1] if self._gpu.called else "nothing"
        number = self._gpu.samples[name, warm] = self._gpu.samples.get((name, warm), -1) + 1
        base_us = self._gpu.times_us.get(name, 1.0) * (0.5 if warm else 1.0)
        # 20 samples from 98 to 102 % of the time, the median in the middle.
        return lambda: base_us * (0.98 + 0.04 * (number % 20) / 19)


@dataclass
class FakeGpu:
    """Stands for a GPU: the host's torch does the work of its kernels.

    Attributes:
        times_us: Cold time of each variant.
        faults: Variant to what goes wrong when it is called: ``wrong``, ``stale`` (half of the result is not
            written), ``memory``, ``refused``, ``lost``.
    """

    times_us: dict[str, float] = field(default_factory=lambda: {"separate-kernels": 400.0, "wavecast": 100.0})
    faults: dict[str, str] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    samples: dict[tuple[str, bool], int] = field(default_factory=dict)
    vanishes: Callable[[], bool] = bool
    lost: bool = False
    memory: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = FakeClock(self)

    def check_present(self) -> None:
        self.lost = self.lost or self.vanishes()
        if self.lost:
            raise RuntimeError("HIP error: device is not present\nand a second line")

    def run(self, variant: str, x: torch.Tensor) -> torch.Tensor:
        """The operator: a copy of its input."""
        if REFERRING.get():
            return x.clone()
        self.called.append(variant)
        fault = self.faults.get(variant)
        self.check_present()
        if fault == "memory":
            raise torch.OutOfMemoryError("HIP out of memory. Tried to allocate 40.00 GiB\nmore")
        if fault == "refused":
            raise ValueError("format e4m3fnuz cannot be produced on sm_90")
        # As an allocator does: what was given back last is given out first.
        out = self.memory.setdefault(tuple(x.shape), torch.empty_like(x))
        out[: len(x) // 2 if fault == "stale" else None] = x[: len(x) // 2 if fault == "stale" else None]
        if fault == "wrong":
            out.view(-1)[7] += 1
        return out

    @contextmanager
    def current(self) -> Iterator[None]:
        before = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(before)

    def place(self, inputs: Any) -> tuple[Any, ...]:
        return filled(inputs, device="cpu")

    @contextmanager
    def reference(self) -> Iterator[None]:
        before = REFERRING.set(True)
        try:
            yield
        finally:
            REFERRING.reset(before)

    def clock_mhz(self) -> float | None:
        self.check_present()
        return 2100.0

    def alive(self) -> bool:
        return not self.lost

    def free(self) -> None:
        pass


class Variants:
    """Stands for an operator's ``VARIANTS``, each of which runs on the current fake."""

    def __getitem__(self, variant: str) -> Callable[..., Any]:
        return partial(self._run, variant)

    def _run(self, variant: str, x: torch.Tensor) -> torch.Tensor:
        gpu = CURRENT.get()
        assert gpu is not None
        return gpu.run(variant, x)


SHAPE = {"tokens": 64, "n": 128}


def predicted(variant: str, us: float, *, triton: str = "3.7.1", shape: dict[str, int] | None = None) -> Row:
    return Row(
        experiment="rowwise",
        variant=variant,
        baseline="separate-kernels",
        device="mi300x",
        arch="gfx942",
        shape=SHAPE if shape is None else shape,
        predicted_us=us,
        predicted_low_us=0.9 * us,
        predicted_high_us=1.1 * us,
        triton=triton,
        spec="mi300x-0",
        code_object="0" * 16,
    )

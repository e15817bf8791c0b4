"""What a run under a virtual device is predicted to take: the answer of every way to ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavecast.cli.findings import CheckFinding
from wavecast.cli.launches import LaunchFacts
from wavecast.cli.rows import Effect, KernelRow, Tuning
from wavecast.cli.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Prediction:
    """One run of a function under a virtual device.

    Attributes:
        arch: Architecture of the device.
        spec: Identity of the device specification.
        triton: Version of Triton that compiled the kernels; None if another compiler did.
        kernels: The kernels in launch order, equal launches summed.
        time_us: Time of all launches in one stream; the first pays the launch cost, the others follow back to back.
        low_us: Lower end of the interval.
        high_us: Upper end of the interval.
        load_widths: Bytes a lane of global loads to their share of the bytes loaded.
        store_widths: The same of stores.
        launches: Every launch, in order.
        sensitivity: What each uncertain constant makes of the time, the one that moves it most first.
        tunings: How the configurations of kernels were chosen, in launch order.
        minimum_bytes: Bytes of the lines that the kernels touch, read and written once each; of a kernel file only.
        findings: What checks found, where they were asked for; of a kernel file only.
        timeline: What several GPUs did when; of a schedule only.
    """

    arch: str
    spec: str
    triton: str | None
    kernels: tuple[KernelRow, ...]
    time_us: float | None
    low_us: float | None
    high_us: float | None
    load_widths: Mapping[int, float] = field(default_factory=dict)
    store_widths: Mapping[int, float] = field(default_factory=dict)
    launches: tuple[LaunchFacts, ...] = ()
    sensitivity: tuple[Effect, ...] = ()
    tunings: tuple[Tuning, ...] = ()
    minimum_bytes: int | None = None
    findings: tuple[CheckFinding, ...] = ()
    timeline: Timeline | None = None

"""Line by line what launches take: what ``inspect`` asks of the simulator, with plain data as the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavecast.cli.errors import CliError
from wavecast.cli.line_times import Costs, Inspection, KernelTimes, LineBuilder, Rest, total
from wavecast.cli.simulate.errors import translated_errors
from wavecast.cli.simulate.instructions import facts_of_kernel
from wavecast.cli.simulate.times import stream_times

if TYPE_CHECKING:
    from wavecast.cli.simulate.either import AnyLaunch
    from wavecast.cli.simulate.files import FileRun
    from wavecast.simulator.devices import Device
    from wavecast.simulator.profile import InstructionProfile
    from wavecast.simulator.program.instruction import SourceLine
    from wavecast.simulator.program.kernel import Kernel
    from wavecast.simulator.timing import TimePrediction
    from wavecast.simulator.virtual import VirtualDevice


@dataclass(slots=True)
class _Sum:
    """Launches of one code object on one grid, summed."""

    launch: AnyLaunch
    bound: str
    cause: str
    launches: int = 0
    predicted_us: float = 0.0
    low_us: float = 0.0
    high_us: float = 0.0
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    costs: dict[int, Costs] = field(default_factory=dict)
    times: Counter[int] = field(default_factory=Counter)
    executed: Counter[str] = field(default_factory=Counter)
    rest: dict[str, float] = field(default_factory=dict)


class LineTimes:
    """The launches of a program, summed while they come, as ``script_device`` takes them.

    Args:
        spec: The device's specification.
        variant: Name to put on the kernels.
        folders: Where source files are looked for that are not where the compiler read them.

    Attributes:
        device: Where they are launched, once it is active.
    """

    def __init__(self, spec: Device, *, variant: str | None = None, folders: Sequence[Path] = ()) -> None:
        self._spec, self._variant, self._folders = spec, variant, tuple(folders)
        self._sums: dict[tuple[str, tuple[int, ...]], _Sum] = {}
        self._texts: dict[str, list[str]] = {}
        self.device: VirtualDevice | None = None

    def add(self, launch: AnyLaunch, time: TimePrediction | None = None) -> None:
        """Take the next launch; the first of all pays for waking an idle queue.

        Args:
            launch: It.
            time: Its time in the stream; None for that which its place among the others gives.
        """
        from wavecast.simulator.profile import executed_by_group, profile_launch

        if time is None:
            woken = None if self._sums else stream_times([launch], self._spec)[0]
            time = launch.result.time if woken is None else cast("TimePrediction", woken)
        key = launch.code_object.digest, launch.grid
        known = self._sums.setdefault(key, _Sum(launch, str(time.bound), time.cause))
        known.launches += 1
        known.predicted_us += time.predicted_us
        known.low_us += time.low_us
        known.high_us += time.high_us
        known.hbm_read_bytes += launch.result.traffic.hbm_read_bytes
        known.hbm_write_bytes += launch.result.traffic.hbm_write_bytes
        profile = profile_launch(launch.result, time, self._spec)
        for item in profile.instructions:
            known.costs[item.index] = known.costs.get(item.index, Costs()) + _costs(item)
            known.times[item.index] += item.executed
        for group, count in executed_by_group(launch.result).items():
            known.executed[str(group)] += count
        for name, us in profile.rest:
            known.rest[name] = known.rest.get(name, 0.0) + us

    def inspections(self) -> list[Inspection]:
        """All of them, in the order of their first launches."""
        return [self._inspection(item) for item in self._sums.values()]

    def _inspection(self, known: _Sum) -> Inspection:
        from wavecast.simulator.profile import line_of

        kernel, code = known.launch.result.kernel, known.launch.code_object
        lines: dict[tuple[str, int] | None, LineBuilder] = {}
        places: dict[tuple[str, int], SourceLine] = {}
        for index, costs in sorted(known.costs.items()):
            instruction = kernel.instructions[index]
            place = line_of(kernel, instruction)
            key = (place.file, place.line) if place else None
            if key is not None and place is not None:
                places.setdefault(key, place)
            entry = index, instruction.text, known.times[index], costs
            lines.setdefault(key, LineBuilder()).instructions.append(entry)
        own = next((i.source.file for i in kernel.instructions if i.source and i.source.line), "")
        order = sorted((key for key in lines if key is not None), key=lambda key: (key[0] != own, key))
        whole = total(known.costs.values())
        us = known.predicted_us
        found = [lines[key].line(*key, self._text(kernel, places[key]), predicted_us=us) for key in order]
        if None in lines:
            found.append(lines[None].line(None, None, None, predicted_us=us))
        return Inspection(
            facts_of_kernel(
                kernel,
                device=self._spec,
                digest=code.digest,
                toolchain=code.toolchain,
                variant=self._variant,
            ),
            KernelTimes(
                device=self._spec.name,
                launches=known.launches,
                grid=known.launch.grid,
                predicted_us=us,
                predicted_low_us=known.low_us,
                predicted_high_us=known.high_us,
                bound=known.bound,
                cause=known.cause,
                hbm_read_bytes=known.hbm_read_bytes,
                hbm_write_bytes=known.hbm_write_bytes,
                coalescing_efficiency=whole.coalescing_efficiency,
                costs=whole,
                executed=dict(known.executed),
                lines=tuple(found),
                rest=tuple(Rest(name, part, 100 * part / us) for name, part in known.rest.items()),
            ),
        )

    def _text(self, kernel: Kernel, place: SourceLine) -> str | None:
        """What stands on a line; None if no such file can be read, or has no such line."""
        from wavecast.simulator.profile import path_of

        path = Path(path_of(kernel, place))
        if path.name not in self._texts:
            candidates = (path, *(folder / path.name for folder in self._folders))
            found = next((item for item in candidates if item.is_file()), None)
            self._texts[path.name] = _lines_of(found)
        lines = self._texts[path.name]
        return lines[place.line - 1].rstrip() if place.line <= len(lines) else None


def inspect_run(function: Callable[[], object], *, device: str, variant: str, whole: bool) -> list[Inspection]:
    """Run a function whose kernel launches go to a virtual device, and take the time of each kernel apart.

    Args:
        function: Launches Triton kernels on CPU tensors.
        device: Name of the device.
        variant: Name to put on the kernels.
        whole: Execute every workgroup instead of a sample.

    Raises:
        CliError: The simulator refused something, or nothing was launched.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.virtual import virtual_device

    with translated_errors():
        times = LineTimes(load_device(device), variant=variant)
        with virtual_device(device, workgroups="all" if whole else "sample", record=times.add):
            function()
    kernels = times.inspections()
    if not kernels:
        raise CliError(f"nothing was launched on {device}", hint="run a function that launches Triton kernels")
    return kernels


def inspect_launch(run: FileRun, *, folders: Sequence[Path]) -> Inspection:
    """Take the time of a launch of a kernel of a file apart.

    Args:
        run: What ``run_file`` gave.
        folders: Where its source is looked for.
    """
    times = LineTimes(run.spec, folders=folders)
    times.add(run.launch, run.time)
    (kernel,) = times.inspections()
    return kernel


def _costs(item: InstructionProfile) -> Costs:
    return Costs(
        time_us=item.time_us,
        issue_us=item.issue_us,
        queue_us=item.queue_us,
        wait_us=item.wait_us,
        barrier_us=item.barrier_us,
        asked_bytes=item.asked_bytes,
        moved_bytes=item.moved_bytes,
        distinct_bytes=item.distinct_bytes,
        segment_bytes=item.segment_bytes,
        lds_clk=item.lds_clk,
        lds_conflict_clk=item.lds_conflict_clk,
        spill_bytes=item.scratch_bytes,
        fence_release=item.release_fences,
        fence_acquire=item.acquire_fences,
    )


def _lines_of(path: Path | None) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines() if path else []
    except OSError:
        return []

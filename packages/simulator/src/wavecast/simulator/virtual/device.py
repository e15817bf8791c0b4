"""A device that exists only in the simulator, and the record of what was launched on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from wavecast.simulator.checks.finding import CheckWarning, Finding
from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.devices import Device
from wavecast.simulator.errors import ExecutionError, LaunchError
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.virtual.arguments import Binder, LaunchArgument

if TYPE_CHECKING:
    from wavecast.simulator.launch import LaunchResult

Grid = tuple[int, int, int]
Workgroups = Literal["all", "sample"]
WORKGROUP_CHOICES: tuple[Workgroups, ...] = ("all", "sample")
# ``simulate_launch(code_object, *, grid, arguments, memory, device, workgroups)``, see wavecast.simulator.launch; one
# that only collects code objects may return None.
Simulate = Callable[..., Any]
# The limits of the dispatch packet's 32-bit grid size fields, in workgroups.
MAXIMUM_GRID = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch on a virtual device.

    Attributes:
        kernel: Name of the kernel.
        code_object: What was launched.
        grid: Workgroups in x, y, z.
        num_warps: Waves a workgroup.
        argument_names: Names of the explicit arguments, in order, without those that were compiled in.
        result: What the simulator says about it.
    """

    kernel: str
    code_object: CodeObject
    grid: Grid
    num_warps: int
    argument_names: tuple[str, ...]
    result: LaunchResult


class VirtualDevice:
    """A device whose launches are executed and timed by the simulator.

    Triton's driver launches through ``launch``, loaders of HIP modules through ``launch_packed``.

    Args:
        spec: Specification, from ``wavecast.simulator.devices.load_device``.
        workgroups: ``all`` executes every workgroup, so that results are right, and every launch finds in the
            memory-side cache what those before it left there; ``sample`` executes enough of them for time and traffic,
            leaves the results incomplete, and begins every launch with cold caches.
        simulate: Replaces ``wavecast.simulator.launch.simulate_launch``.
        record: Receives each launch, which ``launches`` then does not keep: for programs with very many of them.
        check: Look for what ``wavecast.simulator.checks`` lists in every launch, and warn of it.

    Attributes:
        memory: Address space into which the launches' tensors are mapped.
        launches: What was launched, oldest first, without what ``benchmark`` ran.
        benchmarked_workgroups: What ``triton.testing.do_bench`` executes of each grid; ``sample`` is sooner, and
            leaves the results of what it times incomplete. None for what the device does otherwise.
        has_warned: Whether it was said that a benchmark without a launch has no time.
        tensor_device: Where the program sees the tensors: ``cpu``, or the name that a program's tensor library gives
            to memory of the host that stands for the device's.
    """

    def __init__(
        self,
        spec: Device,
        *,
        workgroups: Workgroups = "all",
        simulate: Simulate | None = None,
        record: Callable[[Launch], None] | None = None,
        check: bool = False,
    ) -> None:
        if workgroups not in WORKGROUP_CHOICES:
            raise LaunchError(f"workgroups is {workgroups!r}", hint=f"choose one of {', '.join(WORKGROUP_CHOICES)}")
        self.spec = spec
        self.workgroups = workgroups
        self.memory = AddressSpace()
        self.launches: list[Launch] = []
        self._clock_us = 0.0
        self._unclocked: list[Any] = []
        self.benchmarked_workgroups: Workgroups | None = None
        self.has_warned = False
        self.tensor_device = "cpu"
        self._binder = Binder(self.memory)
        self._record = record or self._append
        self._findings: dict[Any, Finding] = {}
        self._check = check
        self._given_simulate = simulate
        self._simulate = simulate

    @property
    def name(self) -> str:
        """Name of the device, ``mi300x``."""
        return self.spec.name

    @property
    def arch(self) -> str:
        """Architecture, ``gfx942``."""
        return self.spec.arch

    @property
    def clock_us(self) -> float:
        """Predicted time of all launches in one stream so far, benchmarks included."""
        # The time of a launch is found out when someone asks for it.
        self._clock_us += sum(float(getattr(result, "predicted_us", 0.0)) for result in self._unclocked)
        self._unclocked.clear()
        return self._clock_us

    def launch(self, code: CodeObject, *, grid: Sequence[int], arguments: Sequence[LaunchArgument]) -> Launch | None:
        """Run a kernel.

        Args:
            code: Its code object.
            grid: Workgroups in one to three dimensions.
            arguments: All explicit arguments that the kernel's metadata lists, in order.

        Returns:
            The record, which ``launches`` then holds as well; None for a grid with no workgroup, which is no launch.

        Raises:
            LaunchError: The code object is for another architecture, or grid or arguments do not fit.
        """
        shape = self._shape(code, grid)
        if 0 in shape:
            return None
        names = tuple(argument.name for argument in arguments)
        return self._run(code, shape, self._binder.bind(arguments), names)

    def launch_packed(
        self, code: CodeObject, *, grid: Sequence[int], block: Sequence[int], packed: bytes, tensors: Sequence[Any] = ()
    ) -> Launch | None:
        """Run a kernel with its arguments as they lie in memory, as HIP's module API gets them.

        Args:
            code: Its code object.
            grid: Workgroups in one to three dimensions.
            block: Work-items of a workgroup in one to three dimensions.
            packed: All explicit arguments, each at the offset that the kernel's metadata says; addresses of tensors are
                those that ``address_of`` gives.
            tensors: Those that the launch uses.

        Returns:
            As ``launch``.

        Raises:
            LaunchError: The code object is for another architecture, or grid, block or arguments do not fit.
        """
        shape, work_items = self._shape(code, grid), canonical_grid(code.name, block)
        if 0 in shape:
            return None
        from wavecast.simulator.launch import parsed_kernel

        explicit = [argument for argument in parsed_kernel(code).arguments if not argument.is_hidden]
        wanted = max((argument.offset + argument.size for argument in explicit), default=0)
        if len(packed) != wanted:
            raise LaunchError(
                f"{code.name}: {len(packed)} bytes of arguments, and its metadata says {wanted}",
                hint="pack every argument at a multiple of its own size, in the order of the source",
            )
        values = [packed[argument.offset : argument.offset + argument.size] for argument in explicit]
        return self._run(code, shape, values, tuple(argument.name for argument in explicit), block=work_items)

    def _shape(self, code: CodeObject, grid: Sequence[int]) -> Grid:
        if code.arch != self.arch:
            raise LaunchError(
                f"{code.name} was compiled for {code.arch}, and the active virtual device {self.name} is {self.arch}",
                hint=f"compile it for {self.arch}, or activate a device of architecture {code.arch}",
            )
        return canonical_grid(code.name, grid)

    def _run(
        self, code: CodeObject, shape: Grid, values: Sequence[Any], names: tuple[str, ...], **options: Any
    ) -> Launch:
        try:
            result = self._simulator()(
                code,
                grid=shape,
                arguments=values,
                memory=self.memory,
                device=self.spec,
                workgroups=self.workgroups,
                **options,
            )
        except ExecutionError as error:
            self._report(error.findings)
            raise
        self._report(getattr(result, "findings", ()))
        record = Launch(code.name, code, shape, code.num_warps, names, result)
        self._record(record)
        self._unclocked.append(result)
        if self._record != self._append:
            # Nobody keeps the launch, so its time is taken now.
            _ = self.clock_us
        return record

    def address_of(self, tensor: Any) -> int:
        """Device address of a host tensor's first element: what a program has to store where a kernel reads pointers.

        Raises:
            LaunchError: It is no tensor of the host.
        """
        return self._binder.address_of(tensor, "tensor")

    def _append(self, launch: Launch) -> None:
        self.launches.append(launch)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What checks found in all launches, each once for a kernel and place; ``count`` has all its occurrences."""
        return tuple(self._findings.values())

    def _report(self, findings: Sequence[Finding]) -> None:
        """Add the findings of a launch, and warn of those that no launch had before."""
        for finding in findings:
            other = finding.other
            place = (finding.site.source, finding.site.instruction, other and (other.source, other.instruction))
            key = finding.kernel, finding.check, place
            known = self._findings.get(key)
            if known is None:
                self._findings[key] = finding
                warnings.warn(CheckWarning(str(finding)), stacklevel=2)
            else:
                self._findings[key] = replace(known, count=known.count + finding.count)

    def clear_caches(self) -> None:
        """Forget what earlier launches left in the memory-side cache."""
        self._simulate = self._given_simulate

    @contextmanager
    def benchmark(self, workgroups: Workgroups | None = None) -> Iterator[list[Launch]]:
        """Collect the launches of a block in a list of their own; they start from cold caches, and leave cold ones.

        Args:
            workgroups: What to execute of each grid; None for what the device does otherwise.
        """
        before = self.launches, self.workgroups, self._record
        self.launches, self.workgroups, self._record = [], workgroups or self.workgroups, self._append
        self.clear_caches()
        try:
            yield self.launches
        finally:
            self.launches, self.workgroups, self._record = before
            self.clear_caches()

    def _simulator(self) -> Simulate:
        if self._simulate is None:
            # The engine brings a just-in-time compiler along, which a device that never launches does not need.
            from wavecast.simulator.launch import simulate_launch
            from wavecast.simulator.traffic import KeptLines

            self._simulate = partial(simulate_launch, kept=KeptLines(), check=self._check)
        return self._simulate


def canonical_grid(kernel: str, grid: Sequence[int]) -> Grid:
    """A grid of one to three dimensions as three numbers.

    Raises:
        LaunchError: Another number of dimensions, or a size that is no integer from 0 to 2^31 − 1.
    """
    sizes = [*grid, 1, 1][:3]
    if not 1 <= len(grid) <= 3 or not all(_is_size(size) for size in sizes):
        raise LaunchError(
            f"{kernel} cannot be launched on grid {tuple(grid)}",
            hint=f"give one to three integers from 0 to {MAXIMUM_GRID}",
        )
    return int(sizes[0]), int(sizes[1]), int(sizes[2])


def _is_size(size: Any) -> bool:
    return hasattr(size, "__index__") and 0 <= size <= MAXIMUM_GRID

"""What asks the simulator, with ``simulate_lines``: all that other modules get is plain data of the command line."""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from wavecast.cli.device_spec import SpecFacts
from wavecast.cli.devices import Constant, DeviceFacts
from wavecast.cli.errors import CliError, ExitCode, misuse, unknown
from wavecast.cli.facts import Group, InstructionCount, KernelFacts
from wavecast.cli.findings import CheckFinding, Place
from wavecast.cli.launch_arguments import Parameter
from wavecast.cli.launches import LaunchFacts, LevelBytes
from wavecast.cli.measuring.metrics import LINE_BYTES, SECTOR_BYTES
from wavecast.cli.rows import CLEAN, Effect, KernelRow, Tuning
from wavecast.cli.timeline import Timeline

if TYPE_CHECKING:
    import numpy as np

    from wavecast.simulator.checks import Finding, Site
    from wavecast.simulator.compile.code_object import CodeObject
    from wavecast.simulator.devices import Device
    from wavecast.simulator.launch import LaunchResult
    from wavecast.simulator.program.kernel import Kernel
    from wavecast.simulator.timing import Bound, TimePrediction
    from wavecast.simulator.timing.modelled import ModelledTime, Work
    from wavecast.simulator.virtual import Launch, VirtualDevice
    from wavecast.simulator.virtual.node import VirtualNode

    AnyLaunch: TypeAlias = "Launch | FileLaunch"
    AnyTime: TypeAlias = "TimePrediction | ModelledTime"


# HIP source is compiled for this one's architecture where no device is named.
_SOURCE_DEVICE = "mi300x"


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


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel of a file, ready to be launched.

    Attributes:
        name: Its name in the source; its symbol where that is not mangled.
        path: What the file is: ``hip``, ``assembly`` or ``code-object``.
        parameters: What it takes.
        code: Its code object.
    """

    name: str
    path: str
    parameters: tuple[Parameter, ...]
    code: CodeObject


@dataclass(frozen=True, slots=True)
class FileLaunch:
    """One launch of a kernel of a file, as ``Launch`` is of a kernel of a program."""

    kernel: str
    code_object: CodeObject
    grid: tuple[int, int, int]
    result: LaunchResult


@dataclass(frozen=True, slots=True)
class FileRun:
    """An executed launch of a kernel of a file.

    Attributes:
        launch: The launch.
        time: Its time in its stream.
        spec: The device.
    """

    launch: FileLaunch
    time: TimePrediction
    spec: Device


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn what simulator and operators refuse into errors of the command line, with exit code and hint.

    Raises:
        CliError: 1 for what the simulator refuses and for tensors that memory has no room for, 2 for arguments that an
            operator refuses, 3 for a missing package, compiler or disassembler.
    """
    from wavecast.simulator.errors import MissingToolError, SimulatorError

    try:
        yield
    except MissingToolError as error:
        raise CliError(str(error), hint=error.hint, code=ExitCode.NOT_HERE) from error
    except SimulatorError as error:
        # What checks had found when the execution ended may be the cause.
        found = [str(finding) for finding in getattr(error, "findings", ())]
        raise CliError("\n".join([*found, str(error)]), hint=error.hint) from error
    except ValueError as error:
        raise misuse(str(error)) from error
    except (MemoryError, RuntimeError) as error:
        # torch says with a plain RuntimeError that memory ran out.
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise
        raise CliError("no room for the tensors that the operator makes", hint="give smaller sizes") from error
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("wavecast"):
            raise
        hint = "the default environment has it: hatch run cli …; `doctor` shows what this environment lacks"
        raise CliError(f"the package {error.name!r} is not installed", hint=hint, code=ExitCode.NOT_HERE) from error


def facts_of_file(
    path: Path, *, device: str | None = None, kernel: str | None = None, **compilation: Any
) -> list[KernelFacts]:
    """Instruction facts of the kernels of a file: HIP source, assembly text or machine code.

    Args:
        path: The file.
        device: Device whose architecture HIP source is compiled for, and that is taken from a file with several; None
            takes MI300X's for source, and what the file has otherwise.
        kernel: Only this one, by its name in the source or its symbol.
        compilation: ``include_dirs``, ``defines`` and ``options``, as in ``load_kernel``.
    """
    with translated_errors():
        codes = _code_objects(path, device=device, **compilation)
        chosen = codes if kernel is None else (_named(codes, kernel),)
        return [
            facts_of_kernel(_parsed(code), device=None, digest=code.digest, toolchain=code.toolchain, variant=None)
            for code in chosen
        ]


def _code_objects(path: Path, *, device: str | None, **compilation: Any) -> tuple[CodeObject, ...]:
    """Every kernel of a file; that of the one architecture it has if no device is given."""
    from wavecast.simulator.compile.load import HIP_SUFFIXES, load_code_objects
    from wavecast.simulator.devices.loader import load_device

    is_source = path.suffix in HIP_SUFFIXES
    arch = load_device(device or _SOURCE_DEVICE).arch if device is not None or is_source else None
    return load_code_objects(path, arch=arch, **compilation)


def _named(codes: Sequence[CodeObject], kernel: str | None) -> CodeObject:
    from wavecast.simulator.compile.load import kernel_named
    from wavecast.simulator.errors import LaunchError

    try:
        return kernel_named(codes, kernel)
    except LaunchError as error:
        raise misuse(str(error), hint=error.hint.replace("name one of them", "name one with --kernel")) from error


def _parsed(code: CodeObject) -> Kernel:
    from wavecast.simulator.program.assembly import parse_assembly

    return parse_assembly(code.assembly, name=code.name, lds_bytes=code.lds_bytes)


def disassembler() -> str | None:
    """The program that machine code is read with, and its version; None if there is none."""
    from wavecast.simulator.compile.disassembler import find_disassemblers

    return next(map(str, find_disassemblers()), None)


def load_kernel(
    path: Path,
    *,
    kernel: str | None,
    device: str,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
    options: Sequence[str] = (),
) -> LoadedKernel:
    """A kernel of a file, with what it takes.

    Args:
        path: HIP source, assembly text or machine code.
        kernel: Its name in the source, or its symbol; None for the only one.
        device: Name of the device.
        include_dirs: Folders with headers of HIP source.
        defines: Its macros.
        options: More words for its compiler.
    """
    from wavecast.simulator.compile.load import ASSEMBLY_SUFFIXES, HIP_SUFFIXES
    from wavecast.simulator.compile.symbol import argument_types, source_name

    with translated_errors():
        codes = _code_objects(path, device=device, include_dirs=include_dirs, defines=defines, options=options)
        code = _named(codes, kernel)
        explicit = [argument for argument in _parsed(code).arguments if not argument.is_hidden]
    types: Sequence[str | None] = argument_types(code.name) or ()
    if len(types) != len(explicit):
        types = [None] * len(explicit)
    parameters = tuple(
        Parameter(argument.name or str(position), argument.kind == "global_buffer", argument.size, kind)
        for position, (argument, kind) in enumerate(zip(explicit, types, strict=True))
    )
    kinds = {**dict.fromkeys(HIP_SUFFIXES, "hip"), **dict.fromkeys(ASSEMBLY_SUFFIXES, "assembly")}
    return LoadedKernel(source_name(code.name), kinds.get(path.suffix, "code-object"), parameters, code)


def run_file(
    loaded: LoadedKernel,
    *,
    device: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    values: Sequence[np.ndarray | int | bytes],
    lds_bytes: int,
    position: str,
    warm: bool,
    whole: bool,
    check: bool = False,
) -> FileRun:
    """Execute one launch of a kernel of a file and predict its time.

    Args:
        loaded: The kernel.
        device: Name of the device.
        grid: Workgroups in x, y, z.
        block: Work-items of a workgroup.
        values: One for each parameter: an array, 0 for a null pointer, bytes for what is passed by value.
        lds_bytes: Dynamic LDS bytes.
        position: ``first`` or ``back-to-back``.
        warm: Whether the memory-side cache holds the launch's data.
        whole: Execute every workgroup instead of a sample.
        check: Look for faults in those that are executed.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.execute.memory import AddressSpace
    from wavecast.simulator.launch import simulate_launch
    from wavecast.simulator.timing import predict_time

    memory = AddressSpace()
    spec = load_device(device)
    with translated_errors():
        arguments = [
            value if isinstance(value, int | bytes) else memory.map_array(value, parameter.name)
            for value, parameter in zip(values, loaded.parameters, strict=True)
        ]
        result = simulate_launch(
            loaded.code,
            grid=grid,
            block=block,
            lds_bytes=lds_bytes,
            arguments=arguments,
            memory=memory,
            device=spec,
            workgroups="all" if whole else "sample",
            check=check,
        )
        launch = FileLaunch(loaded.code.name, loaded.code, grid, result)
        if is_from_clean_caches(position, warm=warm):
            (time,) = stream_times([launch], spec)
        else:
            time = predict_time(result.kernel, result.execution, result.traffic, spec, position=position, warm=warm)
    return FileRun(launch, cast("TimePrediction", time), spec)


def is_from_clean_caches(position: str, *, warm: bool) -> bool:
    """Whether a launch of a kernel of a file begins with clean caches: one of a chain, or repeated, does not."""
    return position == "first" and not warm


def prediction_of_file(run: FileRun) -> Prediction:
    """What a launch of a kernel of a file is predicted to take."""
    launch, time, spec = run.launch, run.time, run.spec
    toolchain = launch.code_object.toolchain
    version = toolchain.removeprefix("triton ")
    return Prediction(
        arch=spec.arch,
        spec=spec.digest,
        triton=version if version != toolchain else None,
        kernels=_kernel_rows([launch], [time]),
        time_us=time.predicted_us,
        low_us=time.low_us,
        high_us=time.high_us,
        load_widths=_width_shares([launch], ("load", "lds_direct")),
        store_widths=_width_shares([launch], ("store",)),
        launches=(_launch_facts(launch, time),),
        sensitivity=_effects([time], spec),
        minimum_bytes=round(launch.result.traffic.minimum_bytes),
        findings=tuple(map(_check_finding, launch.result.findings)),
    )


def facts_of_run(function: Callable[[], object], *, device: str, variant: str) -> list[KernelFacts]:
    """Instruction facts of every kernel that a function launches, each code object once; nothing is executed.

    Args:
        function: Launches Triton kernels on CPU tensors.
        device: Name of the device that they are compiled for.
        variant: Name to put on the facts.
    """
    from wavecast.simulator.virtual import virtual_device

    with translated_errors():
        with virtual_device(device, simulate=_compile_only) as virtual:
            function()
        codes = {launch.code_object.digest: launch.code_object for launch in virtual.launches}
        return [
            facts_of_kernel(
                _parsed(code),
                device=virtual.spec,
                digest=code.digest,
                toolchain=code.toolchain,
                variant=variant,
            )
            for code in codes.values()
        ]


def _compile_only(*_: object, **__: object) -> Any:
    """Stands for the simulator where only the code objects of the launches are wanted."""
    return None


def facts_of_kernel(
    parsed: Kernel, *, device: Device | None, digest: str, toolchain: str | None, variant: str | None
) -> KernelFacts:
    """Instruction facts of a parsed kernel.

    Args:
        parsed: The kernel.
        device: What its occupancy is asked of; None leaves that open.
        digest: Of its code object.
        toolchain: What compiled it.
        variant: Name to put on the facts.
    """
    from wavecast.simulator.timing import kernel_facts

    found = kernel_facts(parsed, device)
    return KernelFacts(
        name=parsed.name,
        arch=parsed.arch,
        code_object=digest,
        toolchain=toolchain,
        variant=variant,
        workgroup_size=parsed.workgroup_size,
        vgpr=parsed.resources.vgpr,
        sgpr=parsed.resources.sgpr,
        lds_bytes=parsed.resources.lds_bytes,
        spill_bytes=parsed.resources.scratch_bytes,
        waves_per_simd=found.residency.waves_per_simd if found.residency else None,
        instructions=tuple(
            InstructionCount(Group(str(item.group)), item.opcode, item.count, item.lane_bytes)
            for item in found.instructions
        ),
    )


# What ``ncu`` has left dirty in the L2 when a launch begins: an H200's counters see launches that only read 64 MiB and
# more write so much.
_LEFT_BY_PROFILER_BYTES = 2.4e6
# What ``choose_predicted`` found since ``predict_run`` looked.
_TUNINGS: list[Tuning] = []


def has_virtual_device() -> bool:
    """Whether launches go to the simulator, which need not be installed where they do not."""
    if "wavecast.simulator.virtual" not in sys.modules:
        return False
    from wavecast.simulator.virtual import active_virtual_device

    return active_virtual_device() is not None


def choose_predicted(
    kernel: Any, configs: Sequence[Any], grid: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The configuration with which a launch on the active virtual device is predicted to be fastest.

    Args:
        kernel: The Triton kernel.
        configs: Its configurations, the default first.
        grid: Grid of the launch.
        args: Its positional arguments; what the tensors on the CPU hold is not kept.
        kwargs: Its other arguments.

    Raises:
        CliError: All are ruled out.
    """
    from wavecast.simulator.tune import rank

    ranking = rank(kernel, configs, grid=grid, args=args, kwargs=kwargs, keep_tensors=False)
    ruled_out = {item.name: str(item.ruled_out) for item in ranking.ruled_out}
    if ranking.best is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in ruled_out.items())
        raise CliError(f"every configuration of {ranking.kernel} is ruled out: {reasons}", hint="give smaller blocks")
    default = next(item for item in ranking.candidates if item.config == configs[0])
    slower = ranking.slower(default) if default.time is not None else None
    compiled = [item for item in ranking.candidates if item.code_object is not None]
    noted = [item.compile_s for item in compiled if item.compile_s is not None]
    _TUNINGS.append(
        Tuning(
            kernel=ranking.kernel,
            configurations=len(ranking.candidates),
            programs=ranking.programs,
            ruled_out=ruled_out,
            best=ranking.best.name,
            default=default.name,
            alike=tuple(item.name for item in ranking.alike),
            default_ratio=slower.ratio if slower else None,
            default_ratio_low=slower.low if slower else None,
            default_ratio_high=slower.high if slower else None,
            compile_s=sum(noted),
            compiled=len(compiled),
            compile_noted=len(noted),
        )
    )
    return ranking.best.config


def device_names() -> tuple[str, ...]:
    """Names of the devices that can be predicted."""
    from wavecast.simulator.devices import loader

    return loader.device_names()


def check_device(name: str) -> str:
    """A name of a device, or the path of a device file, that can be loaded.

    Raises:
        CliError: 2 if there is no such device, 1 if its file is not complete.
    """
    from wavecast.simulator.devices.loader import is_device_file

    if is_device_file(name):
        _loaded(name)
    elif name not in device_names():
        raise unknown("device", name, device_names())
    return name


def device_name(device: str) -> str:
    """What a device calls itself: its name, also where a path stands for it."""
    from wavecast.simulator.devices.loader import is_device_file

    return _loaded(device).name if is_device_file(device) else device


def spec_facts(name: str) -> SpecFacts:
    """A device's specification as plain data."""
    facts, device = device_facts(name), _loaded(name)
    return SpecFacts(
        name=device.name,
        title=device.title,
        arch=device.arch,
        values={constant.key: constant.value for constant in facts.constants},
        atomic_channels=device.mall.channels,
        constants=facts.constants,
    )


def _loaded(name: str) -> Device:
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.errors import UnknownDeviceError

    try:
        with translated_errors():
            return load_device(name)
    except CliError as error:
        if isinstance(error.__cause__, UnknownDeviceError):
            raise misuse(str(error), hint=error.hint) from error
        raise


def device_facts(name: str) -> DeviceFacts:
    """A device with all its constants."""
    device = _loaded(name)
    constants = tuple(
        Constant(key, item.value, item.low, item.high, item.unit, str(item.kind), item.sources, item.note)
        for key, item in device.quantities.items()
    )
    return DeviceFacts(device.name, device.title, device.arch, device.digest, constants)


@dataclass(frozen=True, slots=True)
class ModelledResult:
    """What stands for the result of a launch that is not executed.

    Attributes:
        kernel: The kernel.
        work: What it does.
        device: Where.
    """

    kernel: Kernel
    work: Work
    device: Device

    @property
    def predicted_us(self) -> float:
        """Its time in a chain of launches."""
        from wavecast.simulator.timing.modelled import predict_modelled

        return predict_modelled(self.work, self.device).predicted_us


def _or_modelled(works: Mapping[str, Sequence[Work]]) -> Callable[..., Any]:
    """``simulate_launch``, with ``works`` in the order of their launches for the kernels that it refuses to execute."""
    from wavecast.simulator.errors import AsynchronousKernelError
    from wavecast.simulator.launch import parsed_kernel, simulate_launch

    left = {name: iter(some) for name, some in works.items()}

    def simulate(code: CodeObject, **how: Any) -> Any:
        try:
            return simulate_launch(code, **how)
        except AsynchronousKernelError:
            work = next(left.get(code.name, iter(())), None)
            if work is None:
                raise
            return ModelledResult(parsed_kernel(code), work, how["device"])

    return simulate


def predict_run(
    function: Callable[[], object],
    *,
    device: str,
    whole: bool = False,
    works: Mapping[str, Sequence[Work]] | None = None,
    caches: str = CLEAN,
) -> Prediction:
    """Run a function whose kernel launches go to a virtual device, and predict the time of all of them in one stream.

    Args:
        function: Launches Triton kernels on CPU tensors.
        device: Name of the device.
        whole: Execute every workgroup instead of a sample.
        works: What kernels do that hand work to units beside their warps, launch by launch: those are not executed.
        caches: What the caches hold before the first launch: ``clean`` or ``dirty``.

    Raises:
        CliError: The simulator refused something, or nothing was launched.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.virtual import virtual_device

    with translated_errors():
        spec = load_device(device)
        _TUNINGS.clear()
        simulated = _or_modelled(works) if works else None
        with virtual_device(device, workgroups="all" if whole else "sample", simulate=simulated) as virtual:
            function()
        launches = list(virtual.launches)
    if not launches:
        raise CliError(f"nothing was launched on {device}", hint="run a function that launches Triton kernels")
    times = stream_times(launches, spec, caches=caches)
    return Prediction(
        arch=spec.arch,
        spec=spec.digest,
        triton=launches[0].code_object.toolchain.removeprefix("triton "),
        kernels=_kernel_rows(launches, times),
        time_us=sum(time.predicted_us for time in times),
        low_us=sum(time.low_us for time in times),
        high_us=sum(time.high_us for time in times),
        load_widths=_width_shares(launches, ("load", "lds_direct")),
        store_widths=_width_shares(launches, ("store",)),
        launches=tuple(_launch_facts(launch, time) for launch, time in zip(launches, times, strict=True)),
        sensitivity=_effects(times, spec),
        tunings=tuple(_TUNINGS),
    )


class ScriptLaunches:
    """The launches of a program, summed while they come: it may have very many.

    Args:
        spec: The device's specification.

    Attributes:
        device: Where they are launched, once it is active.
    """

    def __init__(self, spec: Device) -> None:
        self._spec = spec
        self._rows: dict[tuple[str, tuple[int, ...]], KernelRow] = {}
        self._codes: dict[int, tuple[object, str]] = {}
        self.device: VirtualDevice | None = None

    def add(self, launch: Launch) -> None:
        """Take the next launch; the first of all pays for waking an idle queue.

        The interval is that of the first launch of its kind, in proportion: it takes a hundred times as long as a time.
        """
        # By identity, as hashing the text of a code object takes longer than its launch; it is kept for that.
        code = launch.code_object
        if id(code) not in self._codes:
            self._codes[id(code)] = code, code.digest
        key = (self._codes[id(code)][1], launch.grid)
        known = self._rows.get(key)
        if known is not None:
            self._rows[key] = _with_launch(known, launch)
            return
        time = launch.result.time if self._rows else stream_times([launch], self._spec)[0]
        self._rows[key] = _kernel_row([(launch, time)])

    @property
    def findings(self) -> tuple[CheckFinding, ...]:
        """What checks found in them."""
        return () if self.device is None else tuple(map(_check_finding, self.device.findings))

    def prediction(self) -> Prediction:
        """All of them, in one stream."""
        from wavecast.simulator.compile.toolchain import toolchain_name

        rows = tuple(self._rows.values())
        return Prediction(
            arch=self._spec.arch,
            spec=self._spec.digest,
            triton=toolchain_name().removeprefix("triton "),
            kernels=rows,
            time_us=sum(row.predicted_us or 0.0 for row in rows),
            low_us=sum(row.predicted_low_us or 0.0 for row in rows),
            high_us=sum(row.predicted_high_us or 0.0 for row in rows),
        )


def _check_finding(finding: Finding) -> CheckFinding:
    def place(site: Site) -> Place:
        file, line = (site.source.file, site.source.line) if site.source else (None, None)
        return Place(file, line, site.instruction, site.workgroup, site.wave)

    return CheckFinding(
        check=str(finding.check),
        severity=str(finding.severity),
        kernel=finding.kernel,
        site=place(finding.site),
        other=None if finding.other is None else place(finding.other),
        message=finding.message.rstrip(","),
        hint=finding.hint,
        lanes=finding.lanes,
        address=finding.address,
        buffer=finding.buffer,
        offset=finding.offset,
        count=finding.count,
        text=str(finding),
    )


def _with_launch(row: KernelRow, launch: Launch) -> KernelRow:
    traffic = launch.result.traffic
    before = row.predicted_us or 0.0
    time_us = before + launch.result.predicted_us
    grown = time_us / before if before else 1.0
    return replace(
        row,
        launches=row.launches + 1,
        predicted_us=time_us,
        predicted_low_us=(row.predicted_low_us or 0.0) * grown,
        predicted_high_us=(row.predicted_high_us or 0.0) * grown,
        hbm_read_bytes=(row.hbm_read_bytes or 0.0) + traffic.hbm_read_bytes,
        hbm_write_bytes=(row.hbm_write_bytes or 0.0) + traffic.hbm_write_bytes,
        fence_release=(row.fence_release or 0.0) + traffic.release_fences,
        fence_acquire=(row.fence_acquire or 0.0) + traffic.acquire_fences,
    )


class TakesLaunches(Protocol):
    """What is told of every launch of a program.

    Attributes:
        device: Where they are launched, once it is active.
    """

    device: VirtualDevice | None

    def add(self, launch: Launch) -> None:
        """Take the next launch."""


Launches = TypeVar("Launches", bound=TakesLaunches)


@contextmanager
def script_device(
    device: str,
    launches_on: Callable[[Device], Launches],
    *,
    torch_has_it: bool,
    sample: bool = False,
    check: bool = False,
) -> Iterator[Launches]:
    """A virtual device for a program that knows nothing of it.

    Args:
        device: Name of the device.
        launches_on: Makes of the device's specification what is told of the launches.
        torch_has_it: torch is there, and gets the device as its GPU.
        sample: ``do_bench`` executes a sample of each grid.
        check: Look for faults in every launch; what is told of the launches finds them on its ``device``.
    """
    from wavecast.simulator.checks import CheckWarning
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.virtual import virtual_device

    launches = launches_on(load_device(device))
    with virtual_device(device, record=launches.add, check=check) as virtual, ExitStack() as stack:
        launches.device = virtual
        virtual.benchmarked_workgroups = "sample" if sample else None
        if torch_has_it:
            from wavecast.cli.torch_device import torch_on

            stack.enter_context(torch_on(virtual))
        if check:
            # They come in a list of their own.
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", CheckWarning)
        if check and torch_has_it:
            from wavecast.cli.torch_memory import marked_allocations

            stack.enter_context(marked_allocations())
        yield launches


class ScriptNode:
    """A virtual node for a program of several ranks that knows nothing of it.

    Args:
        node: The node.

    Attributes:
        arch: Architecture of its devices.
    """

    def __init__(self, node: VirtualNode) -> None:
        self._node = node
        self.arch = node.spec.arch

    def run(self, program: Callable[[int], None]) -> None:
        """Call ``program(rank)`` for every rank, under a torch whose GPUs are the node's.

        Raises:
            SimulatorError: Programs and devices wait for each other, or a kernel did something wrong.
            Exception: What a program raised first.
        """
        from wavecast.cli.torch_ranks import RankTorch, run_program

        run_program(RankTorch(self._node), self._node, program)

    @property
    def findings(self) -> tuple[CheckFinding, ...]:
        """What the check found."""
        return tuple(map(_check_finding, self._node.findings))

    def activities(self) -> list[tuple[str, str, int, int, int]]:
        """Kind, name, ranks, count and bytes of what streams executed, in the order of their first end."""
        found: dict[tuple[str, str], list[Any]] = {}
        for step in self._node.history:
            if step.is_end:
                name = step.operation if step.kind == "kernel" else step.kind
                entry = found.setdefault((step.kind, name), [set(), 0, 0])
                entry[0].add(step.rank)
                entry[1] += 1
                entry[2] += step.nbytes
        return [(kind, name, len(ranks), count, size) for (kind, name), (ranks, count, size) in found.items()]


@contextmanager
def script_node(device: str, ranks: int, seed: int, *, check: bool = False) -> Iterator[ScriptNode]:
    """A virtual node for a program of several ranks.

    Args:
        device: Name of every device.
        ranks: How many there are.
        seed: Draws the interleaving.
        check: Look for reads without an acquire.

    Raises:
        CliError: Of the device it is not known how several are joined.
    """
    from wavecast.simulator.devices import load_device
    from wavecast.simulator.virtual.node import NodeOptions, virtual_node

    if load_device(device).link is None:
        known = ", ".join(name for name in device_names() if load_device(name).link is not None)
        raise misuse(f"nothing is known of how several {device} are joined", hint=f"take one of {known}")
    with virtual_node(device, ranks, seed, options=NodeOptions(check=check)) as node:
        yield ScriptNode(node)


def floor_us(device: str, *, minimum_bytes: int, flop: int, dtype: str) -> float:
    """Time that no implementation goes below by much: a launch, and the longer of moving and multiplying.

    The bytes move at the device's rate for copies, the operations run at its matrix rate and the clock
    that it sustains under such a load.

    Args:
        device: Name of the device.
        minimum_bytes: Inputs once, outputs once.
        flop: Operations of a product; 0 where only bytes count.
        dtype: Operands of the product, ``bf16`` or ``fp8``.
    """
    from wavecast.simulator.devices.loader import load_device

    spec = load_device(device)
    moving = minimum_bytes / (spec.hbm.mixed_tb_s * 1e6)
    if dtype == "fp8":
        rate, clock_ghz = max(spec.matrix.f8, spec.matrix.f8f6f4_8bit or 0.0), spec.compute.matrix_clock_8bit_ghz
    else:
        rate, clock_ghz = spec.matrix.f16, spec.compute.matrix_clock_ghz
    per_us = rate * spec.compute.num_cu * clock_ghz * 1e3
    return spec.launch.first_us + max(moving, flop / per_us)


def combined_us(device: str) -> Callable[[Mapping[str, float]], float]:
    """The function from the terms of a launch to its time in µs that a prediction itself uses.

    Args:
        device: Name of the device. The function wants all the keys of ``LaunchFacts.terms``.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.timing import combine_us

    spec = load_device(device)
    # A ``Bound`` is its name: it finds itself among strings.
    return lambda terms: combine_us(cast("Mapping[Bound, float]", terms), spec)


def _width_shares(launches: Sequence[AnyLaunch], kinds: Sequence[str]) -> dict[int, float]:
    """Bytes a lane of executed instructions of these kinds to their share of all bytes that they ask for."""
    asked: Counter[int] = Counter()
    for launch in launches:
        if isinstance(launch.result, ModelledResult):
            continue
        for row in launch.result.traffic.instructions:
            if row.kind in kinds and row.lanes:
                asked[round(row.bytes_asked / row.lanes)] += row.bytes_asked
    total = asked.total()
    return {width: asked[width] / total for width in sorted(asked)} if total else {}


def stream_times(launches: Sequence[AnyLaunch], device: Device, *, caches: str = CLEAN) -> list[AnyTime]:
    """Times in one stream: the first launch finds an idle queue and pays for waking it, the others follow at once.

    Args:
        launches: The launches, in their order.
        device: Where.
        caches: What the caches hold before the first one: ``clean`` or ``dirty``, as ``Row.caches`` says.
    """
    from wavecast.simulator.timing import Position, after_writes, predict_time
    from wavecast.simulator.timing.modelled import predict_modelled
    from wavecast.simulator.traffic.dirty import Caches, left_before

    times: list[AnyTime] = []
    left = left_before(device, Caches(caches))
    for launch in launches:
        found: Any = launch.result
        position = Position.BACK_TO_BACK if times else Position.FIRST
        if isinstance(found, ModelledResult):
            modelled = predict_modelled(found.work, device, position=position, rested=True, before=left)
            times.append(modelled)
            left = modelled.left
            continue
        traffic, left = after_writes(found.traffic, device, before=left)
        times.append(predict_time(found.kernel, found.execution, traffic, device, position=position))
    return times


def _launch_facts(launch: AnyLaunch, time: AnyTime) -> LaunchFacts:
    from wavecast.simulator.timing import executed_operations

    if isinstance(launch.result, ModelledResult):
        return _modelled_facts(launch, cast("ModelledTime", time))
    traffic = launch.result.traffic
    operations = executed_operations(launch.result.execution)
    asked = Counter[str]()
    for row in traffic.instructions:
        asked[str(row.kind)] += row.bytes_asked
    return LaunchFacts(
        kernel=launch.kernel,
        predicted_us=time.predicted_us,
        terms={str(name): us for name, us in time.terms.items()},
        bytes=LevelBytes(
            asked_read=asked["load"] + asked["lds_direct"],
            asked_write=asked["store"],
            asked_atomic=asked["atomic"],
            l2_read=traffic.l2_read_bytes,
            l2_write=traffic.l2_write_bytes,
            mall_read=traffic.fabric_read_bytes,
            mall_write=traffic.fabric_write_bytes,
            hbm_read=traffic.hbm_read_bytes,
            hbm_write=traffic.hbm_write_bytes,
        ),
        workgroups=traffic.workgroups,
        matrix_flop=operations.matrix_flop,
        vector_ops=operations.vector_ops,
        instructions=operations.instructions,
        l2_requests=traffic.l2_read_requests + traffic.l2_write_requests,
        lds_clk=traffic.lds_clk,
        atomic_requests=traffic.atomic_requests,
        release_fences=traffic.release_fences,
        last_write_back_bytes=traffic.last_write_back_bytes,
        counters=_predicted_counters(launch),
    )


def _modelled_facts(launch: AnyLaunch, time: ModelledTime) -> LaunchFacts:
    """Facts of a launch that was not executed: none of its instructions."""
    read, written = time.hbm_read_bytes, time.written_bytes
    return LaunchFacts(
        kernel=launch.kernel,
        predicted_us=time.predicted_us,
        terms={str(name): us for name, us in time.terms.items()},
        bytes=LevelBytes(read, written, 0, time.l2_read_bytes, written, read, written, read, written),
        workgroups=math.prod(launch.grid),
        matrix_flop=0,
        vector_ops=0,
        instructions=0,
        l2_requests=0,
        lds_clk=0,
        atomic_requests=0,
        release_fences=0,
        last_write_back_bytes=time.kept_bytes,
        counters={
            **_counted_memory(read, written, launch.result.device),
            "memory.l2_read_sectors": time.l2_read_bytes / SECTOR_BYTES,
            "memory.l2_write_sectors": written / SECTOR_BYTES,
            "memory.bytes_transferred_l2": time.l2_read_bytes + written,
        },
    )


def _predicted_counters(launch: AnyLaunch) -> dict[str, float]:
    """What hardware counters would show of a launch: those of the memory side count between the L2 and the fabric."""
    traffic, arch = launch.result.traffic, launch.code_object.arch
    executed = Counter[str]()
    for row in traffic.instructions:
        executed[str(row.kind)] += row.executed
    lds = _shared_instructions(launch.result) or sum(
        count for kind, count in executed.items() if kind in ("lds_read", "lds_write", "lds_atomic")
    )
    found = {
        "memory.hbm_read_bytes": traffic.fabric_read_bytes,
        "memory.hbm_write_bytes": traffic.fabric_write_bytes,
        "memory.bytes_transferred_hbm": traffic.fabric_read_bytes + traffic.fabric_write_bytes,
        "memory.l2_read_requests": traffic.l2_read_requests,
        "memory.l2_write_requests": traffic.l2_write_requests,
        "memory.load_requests": executed["load"] + executed["lds_direct"],
        "memory.store_requests": executed["store"],
        "memory.l2_hit_rate": 100.0 * traffic.l2_hit_rate,
        "memory.lds_conflict_clk": traffic.lds_conflict_clk,
        "memory.lds_instructions": lds,
    }
    if lds:
        found["memory.lds_bank_conflicts"] = traffic.lds_conflict_clk / lds
    if arch.startswith("sm_"):
        found["memory.l2_read_sectors"] = traffic.l2_read_bytes / SECTOR_BYTES
        found["memory.l2_write_sectors"] = traffic.l2_write_bytes / SECTOR_BYTES
        found["memory.bytes_transferred_l2"] = traffic.l2_read_bytes + traffic.l2_write_bytes
        found |= _counted_memory(traffic.fabric_read_bytes, traffic.fabric_write_bytes, launch.result.device)
        found["memory.load_sectors"] = sum(row.sectors for row in traffic.instructions if row.kind == "load")
        found["memory.store_sectors"] = sum(row.sectors for row in traffic.instructions if row.kind == "store")
        # Writes are counted in sectors here, and hits of lines read: neither is what the profiler counts.
        del found["memory.l2_write_requests"], found["memory.l2_hit_rate"]
    else:
        requests = traffic.l2_read_requests + traffic.l2_write_requests
        found["memory.bytes_transferred_l2"] = requests * LINE_BYTES
    return {name: float(value) for name, value in found.items()}


def _counted_memory(read_bytes: float, written_bytes: float, device: Device) -> dict[str, float]:
    """Counters of HBM on a device whose L2 keeps at the end what is dirty in it; the profiler empties it before."""
    from wavecast.simulator.traffic.dirty import Residue, written_among

    before = Residue(_LEFT_BY_PROFILER_BYTES, _LEFT_BY_PROFILER_BYTES)
    written, _ = written_among(read_bytes, written_bytes, device, before=before)
    return {
        "memory.hbm_read_bytes": read_bytes,
        "memory.hbm_write_bytes": written,
        "memory.bytes_transferred_hbm": read_bytes + written,
    }


def _shared_instructions(result: LaunchResult) -> float:
    """Loads and stores of shared memory in machine code, also by warps no lane of which takes part; 0 if unknown."""
    execution = result.execution
    counts = (
        float(execution.executed[index]) * sum(head in ("LDS", "STS") for head in work.heads) / work.copies
        for index, work in result.kernel.machine.items()
    )
    return sum(counts) * execution.scale


def _effects(times: Sequence[AnyTime], device: Device) -> tuple[Effect, ...]:
    """What each uncertain constant makes of the sum of some times: it moves all launches together."""
    moved = [{entry.constant: (entry.low_us, entry.high_us) for entry in time.sensitivity} for time in times]
    effects = []
    for constant in dict.fromkeys(name for entries in moved for name in entries):
        ends = [
            entries.get(constant, (time.predicted_us, time.predicted_us))
            for entries, time in zip(moved, times, strict=True)
        ]
        quantity = device.quantities.get(constant)
        effects.append(
            Effect(
                constant=constant,
                value=quantity.value if quantity else None,
                low=quantity.low if quantity else None,
                high=quantity.high if quantity else None,
                unit=quantity.unit if quantity else None,
                low_us=sum(low for low, _ in ends),
                high_us=sum(high for _, high in ends),
                kind=str(quantity.kind) if quantity else constant,
                source="; ".join(quantity.sources)
                if quantity
                else "standard error of the workgroups that were executed",
            )
        )
    return tuple(sorted(effects, key=lambda effect: -abs(effect.high_us - effect.low_us)))


def _kernel_rows(launches: Sequence[AnyLaunch], times: Sequence[AnyTime]) -> tuple[KernelRow, ...]:
    """One row for each code object and grid, in the order of the first launch, times and bytes summed."""
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[AnyLaunch, AnyTime]]] = {}
    for launch, time in zip(launches, times, strict=True):
        groups.setdefault((launch.code_object.digest, launch.grid), []).append((launch, time))
    return tuple(_kernel_row(members) for members in groups.values())


def _kernel_row(members: Sequence[tuple[AnyLaunch, AnyTime]]) -> KernelRow:
    launch, time = members[0]
    resources = launch.result.kernel.resources
    if isinstance(launch.result, ModelledResult):
        return _modelled_row(launch, [cast("ModelledTime", item) for _, item in members])
    traffics = [member.result.traffic for member, _ in members]
    return KernelRow(
        name=launch.kernel,
        code_object=launch.code_object.digest,
        launches=len(members),
        grid=launch.grid,
        predicted_us=sum(item.predicted_us for _, item in members),
        predicted_low_us=sum(item.low_us for _, item in members),
        predicted_high_us=sum(item.high_us for _, item in members),
        bound=str(time.bound),
        cause=time.cause,
        hbm_read_bytes=sum(traffic.hbm_read_bytes for traffic in traffics),
        hbm_write_bytes=sum(traffic.hbm_write_bytes for traffic in traffics),
        coalescing_efficiency=traffics[0].coalescing_efficiency,
        fence_release=sum(traffic.release_fences for traffic in traffics),
        fence_acquire=sum(traffic.acquire_fences for traffic in traffics),
        vgpr=resources.vgpr,
        sgpr=resources.sgpr,
        lds_bytes=resources.lds_bytes,
        spill_bytes=resources.scratch_bytes,
        waves_per_simd=cast("TimePrediction", time).waves_per_simd,
    )


def _modelled_row(launch: AnyLaunch, times: Sequence[ModelledTime]) -> KernelRow:
    """Row of launches that were not executed: what the binary says of resources, what the model says of bytes."""
    resources = launch.result.kernel.resources
    return KernelRow(
        name=launch.kernel,
        code_object=launch.code_object.digest,
        launches=len(times),
        grid=launch.grid,
        predicted_us=sum(time.predicted_us for time in times),
        predicted_low_us=sum(time.low_us for time in times),
        predicted_high_us=sum(time.high_us for time in times),
        bound=str(times[0].bound),
        cause=times[0].cause,
        hbm_read_bytes=sum(time.hbm_read_bytes for time in times),
        hbm_write_bytes=sum(time.written_bytes for time in times),
        fence_release=0,
        fence_acquire=0,
        vgpr=resources.vgpr,
        sgpr=resources.sgpr,
        lds_bytes=resources.lds_bytes,
        spill_bytes=resources.scratch_bytes,
    )

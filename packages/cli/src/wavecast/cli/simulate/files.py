"""Kernels of files: HIP source, assembly text or machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from wavecast.cli.errors import misuse
from wavecast.cli.facts import KernelFacts
from wavecast.cli.launch_arguments import Parameter
from wavecast.cli.simulate.errors import translated_errors
from wavecast.cli.simulate.findings import check_finding
from wavecast.cli.simulate.instructions import facts_of_kernel, parse_code
from wavecast.cli.simulate.kernel_rows import kernel_rows
from wavecast.cli.simulate.launches import launch_facts, width_shares
from wavecast.cli.simulate.prediction import Prediction
from wavecast.cli.simulate.times import effects, stream_times

if TYPE_CHECKING:
    import numpy as np

    from wavecast.simulator.compile.code_object import CodeObject
    from wavecast.simulator.devices import Device
    from wavecast.simulator.launch import LaunchResult
    from wavecast.simulator.timing import TimePrediction


# HIP source is compiled for this one's architecture where no device is named.
_SOURCE_DEVICE = "mi300x"


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
            facts_of_kernel(parse_code(code), device=None, digest=code.digest, toolchain=code.toolchain, variant=None)
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
        explicit = [argument for argument in parse_code(code).arguments if not argument.is_hidden]
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
        kernels=kernel_rows([launch], [time]),
        time_us=time.predicted_us,
        low_us=time.low_us,
        high_us=time.high_us,
        load_widths=width_shares([launch], ("load", "lds_direct")),
        store_widths=width_shares([launch], ("store",)),
        launches=(launch_facts(launch, time),),
        sensitivity=effects([time], spec),
        minimum_bytes=round(launch.result.traffic.minimum_bytes),
        findings=tuple(map(check_finding, launch.result.findings)),
    )

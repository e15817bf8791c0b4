"""``predict`` of a file: a kernel of HIP source, assembly text or machine code, with a launch description."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavecast.cli import __version__, simulate
from wavecast.cli.errors import misuse, unknown
from wavecast.cli.launch_arguments import bind
from wavecast.cli.rows import CLEAN, Row

SUFFIXES = (".hip", ".cpp", ".cc", ".cxx", ".cu", ".s", ".amdgcn", ".hsaco", ".co")
DEFAULT_DEVICE = "mi300x"
POSITIONS = ("first", "back-to-back")
_SIZES = re.compile(r"\d+(,\d+){0,2}$")
Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch as the command line describes it.

    Attributes:
        kernel: Name in the source, or symbol; None for the only one of the file.
        grid: Workgroups, ``128`` or ``128,4,1``.
        block: Work-items of a workgroup, likewise.
        arguments: Words of ``--arg``, see ``launch_arguments``.
        lds_bytes: Dynamic LDS bytes.
        position: ``first`` or ``back-to-back``: where the launch stands in its stream.
        warm: Whether an equal launch just before left its data in the memory-side cache.
        whole: Execute every workgroup instead of a sample.
        include_dirs: Folders with headers of HIP source.
        defines: Its macros, ``NAME`` or ``NAME=VALUE``.
        options: More words for its compiler.
        check: Look for faults while executing.
    """

    kernel: str | None = None
    grid: str | None = None
    block: str | None = None
    arguments: Sequence[str] = ()
    lds_bytes: int = 0
    position: str = POSITIONS[0]
    warm: bool = False
    whole: bool = False
    include_dirs: Sequence[Path] = ()
    defines: Sequence[str] = ()
    options: Sequence[str] = ()
    check: bool = False


def is_kernel_file(target: str) -> bool:
    """Whether a target of the command line is a file and no name of the catalogue: by suffix, or because it exists."""
    return Path(target).suffix in SUFFIXES or Path(target).is_file()


def existing_file(target: str) -> Path:
    """The path of a target that is a file.

    Raises:
        CliError: There is none.
    """
    path = Path(target)
    if not path.is_file():
        raise misuse(f"there is no file {target}", hint="give HIP source, assembly text or a code object")
    return path


@dataclass(frozen=True, slots=True)
class FileLaunched:
    """An executed launch of a kernel of a file.

    Attributes:
        kernel: The kernel.
        device: Name of the device.
        grid: Workgroups.
        block: Work-items of a workgroup.
        run: What came of it.
    """

    kernel: simulate.LoadedKernel
    device: str
    grid: Sizes
    block: Sizes
    run: simulate.FileRun


def run_file(path: Path, launch: Launch, *, device: str | None) -> FileLaunched:
    """Execute a launch of a kernel of a file.

    Raises:
        CliError: 2 for a launch that the kernel does not fit, 3 without compiler or disassembler, 1 for a file that
            does not compile or a kernel that does something wrong.
    """
    chosen = device or DEFAULT_DEVICE
    simulate.check_device(chosen)
    if launch.position not in POSITIONS:
        raise unknown("position", launch.position, POSITIONS)
    grid = _sizes("--grid", "workgroups", launch.grid)
    block = _sizes("--block", "work-items of a workgroup", launch.block)
    loaded = simulate.load_kernel(
        path,
        kernel=launch.kernel,
        device=chosen,
        **compilation(launch),
    )
    values = bind(loaded.name, loaded.parameters, launch.arguments)
    # What the kernel prints is no part of the answer.
    with redirect_stdout(sys.stderr):
        run = simulate.run_file(
            loaded,
            device=chosen,
            grid=grid,
            block=block,
            values=values,
            lds_bytes=launch.lds_bytes,
            position=launch.position,
            warm=launch.warm,
            whole=launch.whole,
            check=launch.check,
        )
    return FileLaunched(loaded, chosen, grid, block, run)


def predict_file(path: Path, launch: Launch, *, device: str | None) -> tuple[Row, simulate.Prediction]:
    """Execute a launch of a kernel of a file, and predict its time: its row, and what that is made from.

    Raises:
        CliError: As ``run_file`` does.
    """
    launched = run_file(path, launch, device=device)
    loaded, grid, block = launched.kernel, launched.grid, launched.block
    prediction = simulate.prediction_of_file(launched.run)
    (kernel,) = prediction.kernels
    row = Row(
        experiment=path.name,
        variant=loaded.name,
        baseline=loaded.name,
        device=simulate.device_name(launched.device),
        arch=prediction.arch,
        shape={"workgroups": grid[0] * grid[1] * grid[2], "work_items": block[0] * block[1] * block[2]},
        path=loaded.path,
        launches=1,
        kernels=prediction.kernels,
        caches=CLEAN if simulate.is_from_clean_caches(launch.position, warm=launch.warm) else None,
        predicted_us=prediction.time_us,
        predicted_low_us=prediction.low_us,
        predicted_high_us=prediction.high_us,
        bound=kernel.bound,
        cause=kernel.cause,
        hbm_read_bytes=kernel.hbm_read_bytes,
        hbm_write_bytes=kernel.hbm_write_bytes,
        minimum_bytes=prediction.minimum_bytes,
        coalescing_efficiency=kernel.coalescing_efficiency,
        fence_release=kernel.fence_release,
        fence_acquire=kernel.fence_acquire,
        vgpr=kernel.vgpr,
        sgpr=kernel.sgpr,
        lds_bytes=kernel.lds_bytes,
        spill_bytes=kernel.spill_bytes,
        waves_per_simd=kernel.waves_per_simd,
        wavecast=__version__,
        triton=prediction.triton,
        spec=prediction.spec,
        code_object=kernel.code_object,
    )
    return row, prediction


def compilation(launch: Launch) -> dict[str, Any]:
    """What ``simulate.load_kernel`` is told of how HIP source is compiled."""
    return {
        "include_dirs": launch.include_dirs,
        "defines": _macros(launch.defines),
        "options": launch.options,
    }


def _sizes(option: str, what: str, text: str | None) -> Sizes:
    if text is None:
        raise misuse(f"how many {what}? {option} is missing", hint=f"{option} X, {option} X,Y or {option} X,Y,Z")
    if not _SIZES.match(text) or 0 in map(int, text.split(",")):
        raise misuse(
            f"{option} {text}: wanted one to three sizes of at least 1", hint=f"{option} 128 or {option} 128,4,1"
        )
    sizes = [*map(int, text.split(",")), 1, 1]
    return sizes[0], sizes[1], sizes[2]


def _macros(words: Sequence[str]) -> Mapping[str, str | None]:
    pairs = [word.partition("=") for word in words]
    return {name: value if equals else None for name, equals, value in pairs}

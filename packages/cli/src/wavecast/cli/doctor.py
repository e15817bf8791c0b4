"""``doctor``: what this machine and environment can do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from wavecast.cli import output
from wavecast.cli.errors import CliError, ExitCode

DOCTOR_SCHEMA = "wavecast.doctor/1"
PACKAGES = ("torch", "triton", "numba", "llvmlite", "numpy", "ml_dtypes", "ziglang")
AMD_DEVICE_NODE = Path("/dev/kfd")
ROCM_HINT = "run the same in the ROCm environment: hatch run rocm:cli doctor"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the answer.

    Attributes:
        name: What was looked at.
        found: What is there; None if nothing.
        needed_for: What does not work without it.
    """

    name: str
    found: str | None
    needed_for: str


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print wavecast.doctor/1 on stdout.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Use more than 80 columns.")] = False,
) -> None:
    """Show versions, compilers and GPUs that were found, and what works without the missing ones.

    Exits with 3 if the machine has an AMD GPU which this environment's torch cannot use.
    """
    checks = examine()
    if json:
        output.print_json({"schema": DOCTOR_SCHEMA, "checks": [asdict(check) for check in checks]})
    else:
        _print_checks(checks, wide=wide)
    found = {check.name: check.found for check in checks}
    if found["AMD GPU"] and not found["ROCm torch"]:
        raise CliError(
            "this machine has an AMD GPU, but the environment's torch has no ROCm",
            hint=ROCM_HINT,
            code=ExitCode.NOT_HERE,
        )


def examine() -> list[Check]:
    """Look at packages, compilers and hardware; imports none of the packages but asks their metadata."""
    import platform
    import shutil

    from wavecast.cli import __version__, simulate

    needed = {"torch": "predicting the catalogue's experiments", "triton": "compiling kernels"}
    needed |= {"numba": "executing kernels", "llvmlite": "executing kernels", "numpy": "everything"}
    needed |= {"ml_dtypes": "tests", "ziglang": "compiling HIP sources without ROCm"}
    return [
        Check("wavecast", __version__, "everything"),
        Check("python", platform.python_version(), "everything"),
        *(Check(name, package_version(name), needed[name]) for name in PACKAGES),
        Check("hipcc", shutil.which("hipcc"), "compiling HIP sources with ROCm"),
        Check("llvm-objdump", simulate.disassembler(), "predicting machine code"),
        Check("AMD GPU", str(AMD_DEVICE_NODE) if AMD_DEVICE_NODE.exists() else None, "measuring, gpu tests"),
        Check("ROCm torch", _rocm_torch(), "measuring, gpu tests"),
    ]


def package_version(name: str) -> str | None:
    """Version of an installed distribution, or None."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _rocm_torch() -> str | None:
    """ROCm version of torch, read from its version file: importing torch takes seconds."""
    from importlib.util import find_spec

    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    import re

    text = (Path(spec.origin).parent / "version.py").read_text()
    match = re.search(r"^hip\b[^=]*=\s*'([^']+)'", text, re.MULTILINE)
    return match[1] if match else None


def _print_checks(checks: list[Check], *, wide: bool) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("what", "found", "needed for"):
        table.add_column(heading)
    for check in checks:
        table.add_row(check.name, check.found or output.UNKNOWN, check.needed_for)
    output.print_table(table, wide=wide)

"""What checks found in kernels, as plain data of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wavecast.cli import output


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction and who executed it.

    Attributes:
        file: Source file, or None.
        line: Its line, or None.
        instruction: Text of the instruction.
        workgroup: x, y, z, or None.
        wave: Counted in the workgroup, or None.
    """

    file: str | None
    line: int | None
    instruction: str
    workgroup: tuple[int, int, int] | None
    wave: int | None


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding; the fields are those of the simulator's.

    Attributes:
        check: ``race``, ``never-written``, …
        severity: ``error``, ``warning`` or ``note``.
        kernel: Name.
        site: Where.
        other: The other side of a conflict, or None.
        message: What happened.
        hint: What to do.
        lanes: Lanes at the first occurrence.
        address: Device address or LDS offset, or None.
        buffer: Name, ``LDS``, or None.
        offset: Bytes into the buffer, or None.
        count: Lanes to which it happened.
        text: All of this to read.
    """

    check: str
    severity: str
    kernel: str
    site: Place
    other: Place | None
    message: str
    hint: str
    lanes: tuple[int, ...]
    address: int | None
    buffer: str | None
    offset: int | None
    count: int
    text: str


def findings_to_json(findings: Sequence[CheckFinding]) -> list[dict[str, Any]]:
    """Plain JSON data: one object a finding."""
    return [asdict(finding) for finding in findings]


def print_findings(findings: Sequence[CheckFinding]) -> None:
    """List findings on stderr, and say how many there are."""
    for finding in findings:
        output.print_message(finding.text)
    errors = sum(finding.severity == "error" for finding in findings)
    output.print_message(f"checks: {len(findings)} findings, {errors} of them errors" if findings else "checks: clean")


def failure_of(findings: Sequence[CheckFinding]) -> str | None:
    """What makes a checked command fail: its errors; None without any."""
    errors = [finding for finding in findings if finding.severity == "error"]
    return f"checks found {len(errors)} errors" if errors else None

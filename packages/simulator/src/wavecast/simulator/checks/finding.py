"""What a check found: typed data, and the text that a reader gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.program.instruction import SourceLine


class Check(StrEnum):
    """What is looked for."""

    OTHER_BUFFER = "other-buffer"
    LDS_BOUNDS = "lds-bounds"
    MISALIGNED = "misaligned"
    NEVER_WRITTEN = "never-written"
    RACE = "race"
    COLLISION = "collision"
    MISSING_ACQUIRE = "missing-acquire"
    MISSING_RELEASE = "missing-release"
    SCOPE = "scope"
    BARRIER = "barrier"
    SPIN = "spin"
    EARLY_COPY = "early-copy"
    UNCHECKED = "unchecked"


class Severity(StrEnum):
    """What a finding means for the kernel."""

    ERROR = "error"  # results or termination depend on chance, or are wrong
    WARNING = "warning"  # legal here, but slow or seldom meant
    NOTE = "note"  # something was not looked at


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction of the kernel, and who executed it.

    Attributes:
        source: Line of the source, or None where the compiler gave none.
        instruction: Its text.
        workgroup: x, y, z; None where several did it.
        wave: Counted in the workgroup; None likewise.
    """

    source: SourceLine | None
    instruction: str
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None

    def __str__(self) -> str:
        who = ""
        if self.workgroup is not None:
            x, y, z = self.workgroup
            who = f", workgroup ({x}, {y}, {z})" + ("" if self.wave is None else f", wave {self.wave}")
        return f"{self.source or 'no source line'}, {self.instruction!r}{who}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong at one line, as it happened first.

    Attributes:
        check: What was looked for.
        severity: What it means.
        kernel: Name.
        site: Where it showed.
        message: What happened there.
        hint: What to do about it.
        lanes: Lanes of the wave, at the first occurrence.
        address: First byte concerned: device address, or offset in LDS; None where there is none.
        buffer: Name of the buffer, ``LDS``, or None.
        offset: Bytes from the start of the buffer; None where there is none.
        other: The other side of a conflict, or None.
        count: Lanes to which it happened, in all workgroups that ran.
    """

    check: Check
    severity: Severity
    kernel: str
    site: Site
    message: str
    hint: str
    lanes: tuple[int, ...] = ()
    address: int | None = None
    buffer: str | None = None
    offset: int | None = None
    other: Site | None = None
    count: int = 1

    def __str__(self) -> str:
        place = ""
        if self.buffer == "LDS":
            place = f" at LDS byte {self.offset}"
        elif self.buffer is not None:
            place = f" at {self.address:#x}, {self.offset} bytes into {self.buffer!r}"
        elif self.address is not None:
            place = f" at {self.address:#x}"
        lanes = f", lanes {ranges(self.lanes)}" if self.lanes else ""
        other = f"\n  against {self.other}" if self.other is not None else ""
        times = f" ({self.count} lanes in all)" if self.count > 1 else ""
        return (
            f"{self.severity}: {self.check}: {self.message}{place}{times}\n"
            f"  in kernel {self.kernel}, {self.site}{lanes}{other}\n  hint: {self.hint}"
        )


def ranges(numbers: tuple[int, ...]) -> str:
    """Ascending numbers as ``0-3, 7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


class CheckWarning(UserWarning):
    """A launch on a checked device has a finding that was not there before."""

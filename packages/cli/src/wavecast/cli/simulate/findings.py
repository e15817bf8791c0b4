"""What checks found, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavecast.cli.findings import CheckFinding, Place

if TYPE_CHECKING:
    from wavecast.simulator.checks import Finding, Site


def check_finding(finding: Finding) -> CheckFinding:
    """A finding of the simulator with where it is."""

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

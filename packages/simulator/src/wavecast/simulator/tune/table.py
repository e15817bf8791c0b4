"""A ranking as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavecast.simulator.tune.candidate import Candidate
    from wavecast.simulator.tune.ranking import Ranking

_HEADINGS = (
    "configuration",
    "µs",
    "interval",
    "to best",
    "interval",
    "VGPR",
    "LDS B",
    "spill B",
    "waves",
    "limited by",
)
_LEFT = ("configuration", "limited by")


def table(ranking: Ranking) -> str:
    """Candidates with time, interval, ratio to the best and what they occupy; then why the others are ruled out."""
    timed = ranking.timed
    rows = [_HEADINGS, *(_cells(ranking, candidate) for candidate in timed)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [f"{ranking.kernel} on {ranking.device.name}: {_summary(ranking)}"]
    if timed:
        lines += [_line(row, widths) for row in rows]
        lines.append(_verdict(ranking))
    lines += [f"ruled out: {candidate.name}: {candidate.ruled_out}" for candidate in ranking.ruled_out]
    return "\n".join(lines)


def _summary(ranking: Ranking) -> str:
    count, programs = len(ranking.candidates), ranking.programs
    seconds = f", compiled in {ranking.compile_s:.1f} s" if ranking.compile_s is not None else ""
    return f"{_number(count, 'configuration')}, {_number(programs, 'program')}{seconds}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _verdict(ranking: Ranking) -> str:
    alike = len(ranking.alike)
    if alike == 1:
        return f"{ranking.timed[0].name} is measurably faster than the others"
    percent = 100 * ranking.resolution
    return (
        f"the {alike} marked = do not differ measurably: by less than {percent:g} %, or by less than is known of both"
    )


def _cells(ranking: Ranking, candidate: Candidate) -> tuple[str, ...]:
    time, usage = candidate.time, candidate.usage
    # Only what fits has a time.
    assert time is not None
    assert usage is not None
    assert usage.residency is not None
    slower = ranking.slower(candidate)
    mark = " " if slower.is_measurable else "="
    return (
        f"{mark} {candidate.name}",
        f"{time.predicted_us:.4g}",
        f"{time.low_us:.4g}–{time.high_us:.4g}",
        f"{slower.ratio:.3f}",
        f"{slower.low:.3f}–{slower.high:.3f}",
        f"{usage.vgpr}",
        f"{usage.lds_bytes:,}",
        f"{usage.spill_bytes:,}",
        f"{usage.residency.waves_per_simd}",
        f"{usage.residency.limiter}",
    )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.ljust(width) if heading in _LEFT else cell.rjust(width)
        for cell, width, heading in zip(row, widths, _HEADINGS, strict=True)
    ]
    return "  ".join(cells).rstrip()

"""Measuring experiments over several GPUs: on all ranks at once, right first, then timed; the slowest rank counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from wavecast.cli import __version__, simulate
from wavecast.cli.measurement import Machine, MeasuredRow
from wavecast.cli.measuring import on_ranks
from wavecast.cli.measuring.checking import Verdict
from wavecast.cli.measuring.group_options import OPTIONS
from wavecast.cli.measuring.ranks import RankError, RankGroup
from wavecast.cli.measuring.session import CaseResult
from wavecast.cli.measuring.timing import Samples, percentile
from wavecast.cli.prediction import Case
from wavecast.cli.rows import Row, error_percent

CALLS, REPLAYS = 1_000, 100
"""How often the operators are called in a row, and replayed from a graph, before they are timed."""

OURS = "wavecast"


class GroupSession:
    """The cases of one call that need all GPUs at once.

    Args:
        places: Device of each rank, ``cuda:0``.
        machine: What the GPUs are.
        seconds: About how long the timing of a case may take, half of it with cold caches.
        step_s: How long the ranks may take for one step.
        done: Called with a name whenever a variant is through.
    """

    def __init__(
        self, places: Sequence[str], machine: Machine, *, seconds: float, step_s: float, done: Callable[[str], None]
    ) -> None:
        self._group = RankGroup(places, step_s=step_s)
        self._ranks, self._machine, self._seconds, self._done = len(places), machine, seconds, done
        self._options: Verdict | None = None

    def close(self) -> None:
        """End the ranks' processes."""
        self._group.close()

    def measure(self, case: Case) -> CaseResult:
        """Check and time the variants of a case.

        Raises:
            GpuLostError: The ranks do not come together.
        """
        name, shape, dtype = case.experiment.name, dict(case.shape), case.experiment.dtype
        verdicts: dict[str, Verdict] = {}
        prepared = False
        for variant in case.variants:
            try:
                if not (prepared and self._group.running):
                    prepared = False
                    self._group.run(on_ranks.prepare, name, shape, dtype)
                prepared = True
                verdicts[variant] = self._checked(variant)
            except RankError as error:
                verdicts[variant] = Verdict(False, str(error))
            self._done(f"{name} {variant}")
        right = [variant for variant, verdict in verdicts.items() if verdict.right]
        cold: list[dict[str, Samples]] = []
        warm: list[dict[str, Samples]] = []
        clock_mhz = None
        if right:
            try:
                if not (prepared and self._group.running):
                    self._group.run(on_ranks.prepare, name, shape, dtype)
                cold = self._group.run(on_ranks.timed, right, self._seconds / 2)
                clock_mhz = min((mhz for mhz in self._group.run(on_ranks.clock_mhz) if mhz is not None), default=None)
                warm = self._group.run(on_ranks.timed_again, right, self._seconds / 2)
            except RankError as error:
                for variant in right:
                    text = f"{verdicts[variant].text}; no warm times: {error}"
                    verdicts[variant] = Verdict(True, text) if cold else Verdict(False, str(error))
        seen = tuple(self._seen(case, variant, verdicts[variant], cold, warm, clock_mhz) for variant in case.variants)
        return CaseResult(tuple(self._row(case, one) for one in seen if one.cold_us is not None), seen)

    def _checked(self, variant: str) -> Verdict:
        verdict = _worst(self._group.run(on_ranks.check, variant))
        if variant != OURS or not verdict.right:
            return verdict
        options = self._every_option()
        if not options.right:
            return options
        repeated = _worst(self._group.run(on_ranks.repeat, variant, CALLS, REPLAYS))
        return Verdict(True, f"{verdict.text}; {options.text}, {repeated.text}") if repeated.right else repeated

    def _every_option(self) -> Verdict:
        """Run once; a process that has failed in one is not the one that is timed."""
        if self._options is None:
            calls = 0
            for name in OPTIONS:
                try:
                    calls += self._group.run(on_ranks.option, name)[0]
                except RankError as error:
                    self._group.close()
                    self._options = Verdict(False, f"{name}: {error}")
                    break
            else:
                self._options = Verdict(True, f"{calls} calls of every option")
        return self._options

    def _seen(
        self,
        case: Case,
        variant: str,
        verdict: Verdict,
        cold: Sequence[Mapping[str, Samples]],
        warm: Sequence[Mapping[str, Samples]],
        clock_mhz: float | None,
    ) -> MeasuredRow:
        head: dict[str, Any] = {
            "experiment": case.experiment.name,
            "variant": variant,
            "device": simulate.device_name(case.device),
            "shape": dict(case.shape),
        }
        if not verdict.right:
            known = ("wrong: ", "failed: ", "refused: ", "no memory: ")
            text = verdict.text if verdict.text.startswith(known) else f"wrong: {verdict.text}"
            return MeasuredRow(**head, check=text)
        slowest = _slowest([one[variant] for one in cold])
        low, median, high = _quantiles(slowest)
        again = _quantiles(_slowest([one[variant] for one in warm])) if warm else (None, None, None)
        return MeasuredRow(
            **head,
            check=verdict.text,
            cold_us=median,
            cold_low_us=low,
            cold_high_us=high,
            warm_us=again[1],
            warm_low_us=again[0],
            warm_high_us=again[2],
            host_us=max(one[variant].host_us for one in cold),
            rounds=len(slowest),
            clock_mhz=clock_mhz,
            gpus_us=tuple(one[variant].median_us for one in cold),
        )

    def _row(self, case: Case, seen: MeasuredRow) -> Row:
        """The measured row, without a prediction."""
        experiment, shape = case.experiment, case.shape
        published = experiment.published_for(seen.variant, shape=shape, device=seen.device)
        published_us = published.time_us if published else None
        return Row(
            experiment=experiment.name,
            variant=seen.variant,
            baseline=experiment.baseline,
            device=seen.device,
            arch=self._machine.arch,
            ranks=self._ranks,
            shape=dict(shape),
            dtype=experiment.dtype,
            path="schedule",
            measured_us=seen.cold_us,
            measured_on=f"{self._ranks} × {self._machine.gpu}, {date.today().isoformat()}",
            published_us=published_us,
            published_source=published.source if published else None,
            error_percent=error_percent(None, measured_us=seen.cold_us, published_us=published_us),
            minimum_bytes=experiment.operands(seen.variant).minimum_bytes(shape),
            wavecast=__version__,
            triton=self._machine.triton,
        )


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """One that is wrong, else that of the largest error."""
    wrong = [(rank, one) for rank, one in enumerate(verdicts) if not one.right]
    if wrong:
        rank, one = wrong[0]
        return Verdict(False, f"{one.text} (rank {rank})")
    return max(verdicts, key=lambda one: one.text)


def _slowest(ranks: Sequence[Samples]) -> list[float]:
    """Of every sample, the time of the rank that took longest."""
    return [max(times) for times in zip(*(samples.device_us for samples in ranks), strict=True)]


def _quantiles(times: Sequence[float]) -> tuple[float, float, float]:
    """The 5th, 50th and 95th percentile."""
    return percentile(times, 0.05), percentile(times, 0.5), percentile(times, 0.95)

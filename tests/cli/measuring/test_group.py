"""``measure --gpus N`` of experiments over several GPUs: ranks are processes, here on CPUs over gloo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import MACHINE, FakeGpu
from rank_steps import gone, refuse

from wavecast.cli.app import run
from wavecast.cli.errors import CliError
from wavecast.cli.experiments import async_tp, collectives
from wavecast.cli.experiments.async_tp import EXPERIMENT
from wavecast.cli.measure import Session
from wavecast.cli.measuring import group_session, on_ranks, ranks
from wavecast.cli.measuring.checking import Verdict
from wavecast.cli.measuring.gpu import find_machine
from wavecast.cli.measuring.group_calls import make_case
from wavecast.cli.measuring.group_session import GroupSession
from wavecast.cli.measuring.ranks import Rank, RankError, RankGroup
from wavecast.cli.measuring.timing import Samples
from wavecast.cli.prediction import Case, predict_cases
from wavecast.cli.records import read_records

SHAPE = {"m": 64, "n": 32, "k": 48, "ranks": 2}
MI300X = replace(MACHINE, gpus=2)


def test_predicted_first_then_checked_timed_written_down_and_reported(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def start(self: RankGroup) -> None:
        started.append(sorted(path.name for path in tmp_path.glob("*.json")))
        begin(self)

    begin = RankGroup._start
    monkeypatch.setattr(RankGroup, "_start", start)
    monkeypatch.setattr(ranks, "gpu_places", lambda count: ["cpu"] * count)
    monkeypatch.setattr("wavecast.cli.measuring.gpu.find_machine", lambda gpus: replace(MACHINE, gpus=gpus))
    monkeypatch.setattr("wavecast.cli.prediction.predict_cases", in_this_process)
    monkeypatch.setattr(async_tp, "MEASURED", ((64, 32, 48),))
    monkeypatch.setattr(collectives, "SIZES", (4096,))
    monkeypatch.setattr(group_session, "CALLS", 20)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    names = ["async-tp", "matmul-reduce-scatter", "async-tp-fp8", "matmul-reduce-scatter-fp8", "all-gather"]
    assert run(["measure", *names, "--gpus", "2", "--seconds", "0", "--records", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert len(started) == 1 and len(started[0]) == len(names), "every prediction is written down before a rank starts"
    records = read_records(tmp_path).values()
    assert not any(record.is_changed for record in records)
    rows = {(row.experiment, row.variant): row for record in records for row in record.rows}
    on_gpus_only = {(name, "decomposed") for name in names[:4]}
    assert {key for key, row in rows.items() if row.measured_us is None} == on_gpus_only
    assert all(row.predicted_us is not None and row.ranks == 2 for row in rows.values())
    seen = {(one.experiment, one.variant): one for record in records for one in record.measurement.rows}
    for name in names[:4]:
        ours = seen[name, "wavecast"]
        assert ours.check.startswith("error 0.00") and "calls of every option, 20 calls" in ours.check
        assert len(ours.gpus_us) == 2 and ours.rounds == 20 and ours.cold_us is not None
        assert ours.cold_us >= 0.8 * min(ours.gpus_us)
        assert "refused: PyTorch's operators over symmetric memory" in seen[name, "decomposed"].check
    assert seen["all-gather", "library"].check == "exact"
    assert out.count("× the longer of product-alone and collective-alone") == 4
    assert run(["report", str(tmp_path), "--ledger"]) == 0
    assert "product-alone" in capsys.readouterr().out


def in_this_process(cases: Any, *, apart: bool, **options: Any) -> Iterator[Any]:
    assert apart
    return predict_cases(cases, jobs=1, done=options["done"])


def test_what_all_refuse_keeps_the_ranks_and_one_that_ends_takes_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setattr(ranks, "GRACE_S", 0.5)
    group = RankGroup(["cpu", "cpu"], step_s=60)
    try:
        with pytest.raises(RankError, match="^refused: not on two ranks$"):
            group.run(refuse)
        kept = list(group._processes)
        with pytest.raises(RankError, match=r"failed: its process ended with 3 \(rank 1\)"):
            group.run(gone)
        assert len(kept) == 2 and not any(process.is_alive() for process in kept)
    finally:
        group.close()


class StandIn:
    """Stands for the group: answers are made up, and what was asked is kept."""

    def __init__(self, answers: dict[Callable[..., Any], Callable[..., Any]]) -> None:
        self.answers = answers
        self.asked: list[tuple[Any, ...]] = []
        self.running = False

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        self.asked.append((function.__name__, *arguments))
        assert self.running or function in (on_ranks.prepare, on_ranks.option), "there are no operands"
        self.running = True
        if function in self.answers:
            try:
                return [self.answers[function](rank, *arguments) for rank in range(2)]
            except RankError as error:
                if error.rank is not None or not error.text.startswith("refused: "):
                    self.close()
                raise
        return {
            "check": [Verdict(True, "error 0.001")] * 2,
            "repeat": [Verdict(True, "1,000 calls")] * 2,
            "option": [3, 3],
        }.get(function.__name__, [None, None])

    def close(self) -> None:
        self.asked.append(("close",))
        self.running = False


def timed(rank: int, variants: list[str], seconds: float) -> dict[str, Samples]:
    """The first rank is the slower one in every other sample."""
    times = [100.0 + 10 * ((number + rank) % 2) for number in range(20)]
    return {variant: Samples(times, 50.0 + rank) for variant in variants}


def measured(**answers: Callable[..., Any]) -> tuple[dict[str, Any], StandIn]:
    """Variant to what was seen of it."""
    group = StandIn(
        {getattr(on_ranks, name): answer for name, answer in {"timed": timed, "timed_again": timed, **answers}.items()}
    )
    session = GroupSession(["cpu"] * 2, MI300X, seconds=0, step_s=1, done=lambda name: None)
    session._group = group  # type: ignore[assignment]
    case = Case(EXPERIMENT, SHAPE, "mi300x", (*EXPERIMENT.variants, *EXPERIMENT.parts))
    return {one.variant: one for one in session.measure(case).seen}, group


def test_of_every_sample_the_slowest_rank_counts() -> None:
    seen, _ = measured()
    ours = seen["wavecast"]
    assert (ours.cold_us, ours.cold_low_us, ours.warm_us, ours.host_us) == (110.0, 110.0, 110.0, 51.0)
    assert ours.gpus_us == (105.0, 105.0)


def test_where_a_graph_fails_it_is_said_and_the_cold_times_are_kept() -> None:
    def again(rank: int, variants: list[str], seconds: float) -> dict[str, Samples]:
        raise RankError("failed: RuntimeError: operation not permitted when stream is capturing", 1)

    seen, _ = measured(timed_again=again)
    ours = seen["wavecast"]
    assert (ours.cold_us, ours.warm_us) == (110.0, None)
    assert ours.check.endswith(
        "; no warm times: failed: RuntimeError: operation not permitted when stream is capturing (rank 1)"
    )


def test_rows_that_the_ranks_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="64 rows do not divide by 3 GPUs"):
        make_case(Rank(0, 3, torch.device("cpu")), "async-tp", SHAPE, "bf16")


def test_what_runs_on_several_gpus_is_not_counted_and_that_is_said(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavecast.cli.measuring.gpu.find_machine", lambda gpus: replace(MACHINE, gpus=gpus))
    monkeypatch.setattr(Session, "run_together", lambda *given, **options: None)
    arguments = ["--gpus", "2", "--no-predict", "--counters", "--records", str(tmp_path)]
    assert run(["measure", "async-tp", *arguments]) == 0
    assert "not counted, as they run on several GPUs at once: async-tp" in "".join(capsys.readouterr())


def test_a_wrong_option_keeps_ours_from_being_timed_and_not_the_others() -> None:
    def option(rank: int, name: str) -> int:
        if name.startswith("scatter, small"):
            raise RankError("failed: AssertionError: the result is not the exact one", None)
        return 3

    seen, _ = measured(option=option)
    assert seen["wavecast"].check.startswith("wrong: scatter, small, bf16: failed: AssertionError: the result")
    assert seen["wavecast"].cold_us is None and seen["sequence"].cold_us == 110.0


@pytest.mark.parametrize(("failed", "where"), [(0, " (rank 0)"), (None, "")])
def test_after_one_rank_or_all_have_failed_the_operands_are_made_anew(failed: int | None, where: str) -> None:
    def check(rank: int, variant: str) -> Verdict:
        if variant == "decomposed":
            raise RankError("failed: its process ended with -6", failed)
        return Verdict(True, "error 0.001")

    seen, group = measured(check=check)
    assert seen["decomposed"].check == f"failed: its process ended with -6{where}"
    assert seen["wavecast"].cold_us == 110.0
    after = group.asked.index(("check", "decomposed")) + 1
    assert [asked[0] for asked in group.asked[after : after + 3]] == ["close", "prepare", "check"]


def test_one_rank_with_a_wrong_result_is_enough() -> None:
    def check(rank: int, variant: str) -> Verdict:
        return Verdict(rank == 0 or variant != "wavecast", "error 0.5" if rank else "error 0.001")

    seen, group = measured(check=check)
    assert seen["wavecast"].check == "wrong: error 0.5 (rank 1)"
    assert "repeat" not in {asked[0] for asked in group.asked}


def test_misuse(fake_gpu: FakeGpu, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["measure", "async-tp"]) == 2
    assert "async-tp runs on several GPUs at once" in capsys.readouterr().err
    assert run(["measure", "async-tp", "--gpus", "4", "--shape", "m=4096,ranks=8"]) == 2
    assert "a shape of 8 ranks on 4 GPUs" in capsys.readouterr().err


def test_more_gpus_than_there_are_is_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(CliError, match="4 GPUs, and torch sees 2"):
        find_machine(gpus=4)

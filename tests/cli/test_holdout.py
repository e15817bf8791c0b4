from __future__ import annotations

import pytest

from wavecast.cli.app import run
from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.holdout import LARGEST_BYTES, LEFT_OUT, draw


def test_a_seed_draws_the_same_cases_everywhere_and_another_seed_others() -> None:
    cases = draw(1, count=16, device="h200")
    assert cases == draw(1, count=16, device="h200")
    assert cases != draw(2, count=16, device="h200")
    # Written down, so that no change of the rule goes unnoticed: what was frozen must be drawn again.
    first = cases[0]
    assert (first.experiment.name, first.variants, dict(first.shape)) == FIRST


FIRST = ("colwise-per-group", ("vector-two-pass",), {"tokens": 6144, "n": 4096, "groups": 4})


def test_every_family_is_drawn_and_no_shape_is_one_that_somebody_chose() -> None:
    cases = draw(3, count=20, device="h200")
    several = {name for name, item in EXPERIMENTS.items() if "ranks" in item.shapes[0]}
    assert {case.experiment.name for case in cases} == set(EXPERIMENTS) - set(LEFT_OUT) - several
    for case in cases:
        (variant,) = case.variants
        assert dict(case.shape) not in [dict(shape) for shape in case.experiment.shapes]
        assert case.experiment.operands(variant).minimum_bytes(case.shape) <= LARGEST_BYTES
    assert len({str((case.experiment.name, case.variants, dict(case.shape))) for case in cases}) == 20


def test_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--holdout", "1"]) == 2
    assert "none is named" in capsys.readouterr().err
    assert run(["predict", "rowwise", "--holdout", "1", "--device", "mi300x"]) == 2
    assert run(["predict", "--holdout", "1", "--device", "mi300"]) == 2
    assert "did you mean 'mi300a'" in capsys.readouterr().err

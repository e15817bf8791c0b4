"""``autotune-space``: what a search over configurations is worth, on a shape that is quick to execute."""

from __future__ import annotations

import pytest

from wavecast.cli import simulate, tables
from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.prediction import Case, Outcome, predict_variant
from wavecast.kernels.weight_transpose import tuned
from wavecast.kernels.weight_transpose.tuned import SPACES
from wavecast.simulator.virtual import virtual_device

EXPERIMENT = EXPERIMENTS["autotune-space"]
SHAPE = {"experts": 2, "k": 256, "n": 256}
pytestmark = [pytest.mark.compile, pytest.mark.execute]


def predicted(variant: str) -> Outcome:
    row, prediction = predict_variant(Case(EXPERIMENT, SHAPE, "mi300x", EXPERIMENT.variants), variant)
    return Outcome((row,), (), (prediction,))


def test_it_runs_only_when_it_is_asked_for() -> None:
    assert not EXPERIMENT.by_default


def test_the_row_is_that_of_the_best_configuration_and_says_what_the_search_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, sixteen = predicted("one"), predicted("sixteen")
    scale, cast = sixteen.predictions[0].tunings
    assert (scale.kernel, cast.kernel) == ("tile_scale_kernel", "tile_cast_kernel")
    for tuning in (scale, cast):
        assert tuning.configurations == len(SPACES["sixteen"]) == tuning.compiled
        # No kernel has a loop, so that stages change nothing.
        assert tuning.programs == 8
        assert tuning.best in tuning.alike
        assert tuning.default_ratio is not None and tuning.default_ratio >= 1
    # The default is in the space, so what is chosen is not predicted to be slower.
    assert sixteen.rows[0].predicted_us <= one.rows[0].predicted_us
    assert one.rows[0].launches == sixteen.rows[0].launches == 3
    ratios = [
        first.predicted_us / best.predicted_us
        for first, best in zip(one.rows[0].kernels[1:], sixteen.rows[0].kernels[1:], strict=True)
    ]
    # In the row launches follow one another after a flush by writes; in the search each stands alone, in clean caches.
    assert ratios == pytest.approx([scale.default_ratio, cast.default_ratio], rel=5e-3)
    tables.print_outcome(sixteen)
    text = " ".join(capsys.readouterr().out.split())
    assert "sixteen, tile_cast_kernel: 16 configurations, 8 programs, 0 ruled out; best" in text
    assert "not differ measurably from the best" in text


def test_one_configuration_is_no_search_but_has_its_compile_time() -> None:
    for tuning in predicted("one").predictions[0].tunings:
        assert tuning.configurations == 1
        assert (tuning.best, tuning.default_ratio) == (tuning.default, 1.0)
        assert tuning.compile_noted == 0 or tuning.compile_s > 0


def test_only_a_virtual_device_s_launches_are_chosen_by_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    monkeypatch.setattr(tuned, "quantize_weight_transpose_tuned", lambda *_, choose, **__: chosen.append(choose))
    EXPERIMENT.run("sixteen", (None,))
    with virtual_device("mi300x"):
        EXPERIMENT.run("sixteen", (None,))
    assert chosen == [None, simulate.choose_predicted]

"""All experiments by name."""

from __future__ import annotations

from collections.abc import Sequence

from wavecast.cli.errors import misuse, unknown
from wavecast.cli.experiments import (
    async_tp,
    autotune_space,
    blockwise,
    collectives,
    colwise_per_group,
    dual_layout,
    expert_weights,
    fnuz,
    grouped_gemm,
    rowwise,
    rowwise_per_group,
    scaled_gemm,
    tensorwise,
    token_padding,
    transposed_copy,
    weight_layouts,
    weight_transpose,
    wgrad_copies,
)
from wavecast.cli.experiments.experiment import Experiment, Shape

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        fnuz.EXPERIMENT,
        colwise_per_group.EXPERIMENT,
        wgrad_copies.EXPERIMENT,
        weight_transpose.EXPERIMENT,
        rowwise.EXPERIMENT,
        expert_weights.EXPERIMENT,
        dual_layout.EXPERIMENT,
        weight_layouts.EXPERIMENT,
        rowwise_per_group.EXPERIMENT,
        tensorwise.EXPERIMENT,
        blockwise.EXPERIMENT,
        token_padding.EXPERIMENT,
        transposed_copy.EXPERIMENT,
        grouped_gemm.EXPERIMENT,
        grouped_gemm.WEIGHT_GRADIENT,
        autotune_space.EXPERIMENT,
        scaled_gemm.EXPERIMENT,
        async_tp.EXPERIMENT,
        async_tp.SCATTER,
        async_tp.FP8,
        async_tp.SCATTER_FP8,
        collectives.GATHER,
        collectives.SCATTER,
    )
}


def find_experiments(names: list[str], *, everything: bool = False) -> list[Experiment]:
    """The named experiments in the order of the names, each once.

    Args:
        names: Names of the catalogue.
        everything: Without names, all of them instead of those that run by default.
    """
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown("experiment", name, tuple(EXPERIMENTS))
    if names:
        return [EXPERIMENTS[name] for name in dict.fromkeys(names)]
    return [experiment for experiment in EXPERIMENTS.values() if everything or experiment.by_default]


def choose_variants(experiment: Experiment, names: list[str]) -> tuple[str, ...]:
    """The named variants, all if no name is given; the baseline is always among them, since the others refer to it."""
    for name in names:
        if name not in experiment.variants:
            raise unknown(f"variant of {experiment.name}", name, experiment.variants)
    return tuple(name for name in experiment.variants if not names or name in (*names, experiment.baseline))


def choose_shapes(experiment: Experiment, texts: Sequence[str]) -> tuple[Shape, ...]:
    """The experiment's shapes, or those that are asked for, each once.

    Args:
        experiment: The experiment.
        texts: ``tokens=4096,n=2048`` each; sizes that one does not name are those of the experiment's first shape.
    """
    shapes: list[Shape] = []
    for text in texts:
        if (shape := _shape(experiment, text)) not in shapes:
            shapes.append(shape)
    return tuple(shapes) or experiment.shapes


def _shape(experiment: Experiment, text: str) -> Shape:
    shape = dict(experiment.shapes[0])
    changed: dict[str, int] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in shape:
            raise unknown(f"size of {experiment.name}", key, tuple(shape))
        if not value.isdecimal() or int(value) == 0:
            raise misuse(f"{key}={value!r} is no size", hint=f"give a positive whole number: {key}={shape[key]}")
        if key in changed:
            raise misuse(f"{key} is given twice, {changed[key]} and {value}", hint="name every size once")
        changed[key] = int(value)
    return {**shape, **changed}

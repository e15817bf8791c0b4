from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module

import pytest
import torch

from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.experiments.experiment import Experiment
from wavecast.cli.simulate import device_names
from wavecast.kernels import E4M3FNUZ

CATALOGUE = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)


def test_names() -> None:
    assert list(EXPERIMENTS) == [
        "fnuz",
        "colwise-per-group",
        "wgrad-copies",
        "weight-transpose",
        "rowwise",
        "expert-weights",
    ]


@CATALOGUE
def test_catalogue_entry_is_consistent(experiment: Experiment) -> None:
    assert experiment.device in device_names()
    assert len(set(experiment.variants)) == len(experiment.variants) >= 2
    keys = set(experiment.shapes[0])
    assert all(set(shape) == keys for shape in experiment.shapes)
    for item in experiment.published:
        assert item.variant in experiment.variants
        assert item.shape in experiment.shapes
        assert item.time_us > 0
        assert item.source


@CATALOGUE
def test_variants_are_those_of_the_operator(experiment: Experiment) -> None:
    assert tuple(import_module(experiment.operator).VARIANTS) == experiment.variants


@CATALOGUE
def test_inputs_of_the_largest_shape_occupy_no_memory(experiment: Experiment) -> None:
    largest = max(experiment.shapes, key=experiment.minimum_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    inputs = experiment.make_inputs(largest)
    assert sum(item.numel() * item.element_size() for item in inputs) > 5e7
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000  # KiB


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """All tensors of an operator's result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif is_dataclass(value):
        for item in fields(value):
            yield from tensors_in(getattr(value, item.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from tensors_in(item)


@CATALOGUE
def test_minimum_bytes_are_inputs_once_and_outputs_once(experiment: Experiment, monkeypatch) -> None:
    """On a small shape, against the tensors of the reference path."""
    # Without a device somebody must name the format; the experiments leave it to the device.
    monkeypatch.setattr("wavecast.kernels.device._required", lambda asked: E4M3FNUZ)
    small = {"tokens": 96, "groups": 3, "experts": 2, "n": 64, "k": 32}
    shape = {key: small[key] for key in experiment.shapes[0]}
    inputs = experiment.make_inputs(shape)
    outputs = experiment.run(experiment.variants[-1], inputs)
    total = sum(item.numel() * item.element_size() for item in (*inputs, *tensors_in(outputs)))
    assert experiment.minimum_bytes(shape) == total

from __future__ import annotations

import pickle
import resource
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module

import pytest
import torch

from wavecast.cli.experiments.catalogue import EXPERIMENTS, find_experiments
from wavecast.cli.experiments.experiment import Experiment
from wavecast.cli.experiments.inputs import as_fp8, lazy_fp8
from wavecast.cli.simulate import device_names
from wavecast.kernels import E4M3FNUZ
from wavecast.simulator.virtual import virtual_device

CATALOGUE = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
# Experiments that call an operator; schedules of several GPUs do not.
RUN = [item for item in EXPERIMENTS.values() if item.schedule is None]


def test_names() -> None:
    assert list(EXPERIMENTS) == [
        "fnuz",
        "colwise-per-group",
        "wgrad-copies",
        "weight-transpose",
        "rowwise",
        "expert-weights",
        "dual-layout",
        "weight-layouts",
        "rowwise-per-group",
        "tensorwise",
        "blockwise",
        "token-padding",
        "transposed-copy",
        "grouped-gemm",
        "grouped-weight-gradient",
        "autotune-space",
        "scaled-gemm",
        "async-tp",
        "matmul-reduce-scatter",
        "async-tp-fp8",
        "matmul-reduce-scatter-fp8",
        "all-gather",
        "reduce-scatter",
    ]


def test_caches_are_what_published_times_had_on_that_device() -> None:
    """Those of the catalogue were taken with do_bench; what nobody published is predicted for clean caches."""
    for experiment in EXPERIMENTS.values():
        assert experiment.caches_on("h200") == "clean"
        assert experiment.caches_on("mi300x") == ("dirty" if experiment.published else "clean")


def test_what_runs_by_default_compares_variants() -> None:
    default = [item.name for item in find_experiments([])]
    assert default == [item.name for item in EXPERIMENTS.values() if item.by_default]
    assert all(len(EXPERIMENTS[name].variants) > 1 for name in default)
    assert find_experiments([], everything=True) == list(EXPERIMENTS.values())
    assert find_experiments(["blockwise", "fnuz", "blockwise"]) == [EXPERIMENTS["blockwise"], EXPERIMENTS["fnuz"]]


@CATALOGUE
def test_catalogue_entry_is_consistent(experiment: Experiment) -> None:
    assert experiment.device in device_names()
    assert len(set(experiment.variants)) == len(experiment.variants) >= 1
    assert set(experiment.other_operands) < set(experiment.variants)
    keys = set(experiment.shapes[0])
    assert all(set(shape) == keys for shape in experiment.shapes)
    assert {item.variant for item in experiment.published} <= set(experiment.variants)
    for item in (*experiment.published, *experiment.elsewhere):
        assert item.shape in experiment.shapes
        assert item.time_us > 0
        assert item.source


@pytest.mark.parametrize("experiment", RUN, ids=lambda item: item.name)
def test_variants_are_those_of_the_operator(experiment: Experiment) -> None:
    module, _, function = experiment.operator.partition(":")
    if function:
        assert callable(getattr(import_module(module), function))
        assert experiment.variants == ("wavecast",)
    else:
        assert tuple(import_module(module).VARIANTS) == experiment.variants


@CATALOGUE
def test_goes_to_other_processes(experiment: Experiment) -> None:
    assert pickle.loads(pickle.dumps(experiment)).name == experiment.name


@pytest.mark.parametrize("experiment", RUN, ids=lambda item: item.name)
def test_inputs_of_the_largest_shape_occupy_no_memory(experiment: Experiment) -> None:
    operands = experiment.operands(experiment.variants[-1])
    largest = max(experiment.shapes, key=operands.minimum_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    inputs = operands.make_inputs(largest)
    assert sum(item.numel() * item.element_size() for item in tensors_in(inputs)) > 4e7
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


@pytest.mark.parametrize(
    ("experiment", "variant"),
    [(item, variant) for item in RUN for variant in {item.variants[-1], *item.other_operands}],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_minimum_bytes_are_inputs_once_and_outputs_once(experiment: Experiment, variant: str, monkeypatch) -> None:
    """On a small shape, against the tensors of the reference path."""
    # Without a device somebody must name the format; the experiments leave it to the device.
    monkeypatch.setattr("wavecast.kernels.device._required", lambda asked: E4M3FNUZ)
    small = {"tokens": 96, "groups": 3, "experts": 2, "n": 64, "k": 32, "m": 48, "rows": 64, "multiple": 16}
    shape = {key: small[key] for key in experiment.shapes[0]}
    operands = experiment.operands(variant)
    inputs = operands.make_inputs(shape)
    outputs = experiment.run(variant, inputs)
    total = sum(item.numel() * item.element_size() for item in (*tensors_in(inputs), *tensors_in(outputs)))
    assert operands.minimum_bytes(shape) == total


def test_fp8_bytes_are_the_active_device_s_format() -> None:
    values = lazy_fp8(3, 5)
    assert (values.shape, values.dtype) == ((3, 5), torch.uint8)
    assert as_fp8(values).dtype is torch.float8_e4m3fnuz
    with virtual_device("mi355x"):
        assert as_fp8(values).dtype is torch.float8_e4m3fn

"""What is seen of launches, and what is right, on a virtual device."""

from __future__ import annotations

import pytest
import torch

from wavecast.cli import simulate
from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.measuring.checking import flatten, poisoned
from wavecast.cli.measuring.launched import recorded_launches
from wavecast.cli.measuring.session import compared
from wavecast.cli.measuring.values import filled
from wavecast.kernels import last_path, plain_torch
from wavecast.simulator.virtual import virtual_device

SMALL = {"tokens": 96, "groups": 3, "experts": 2, "n": 64, "k": 32, "m": 48, "rows": 64, "multiple": 16}


@pytest.mark.execute
@pytest.mark.parametrize("name", ["colwise-per-group", "grouped-gemm", "token-padding"])
def test_every_variant_is_right_against_its_reference(name: str) -> None:
    experiment = EXPERIMENTS[name]
    shape = {key: SMALL[key] for key in experiment.shapes[0]}
    with virtual_device("mi300x", workgroups="all"):
        for variant in experiment.variants:
            inputs = filled(experiment.operands(variant).make_inputs(shape), device="cpu")
            result = poisoned(lambda variant=variant, inputs=inputs: experiment.run(variant, inputs))
            assert last_path() == "triton"
            with plain_torch():
                wanted = flatten(experiment.run(variant, inputs))
                assert last_path() == "reference"
            verdict = compared(result, wanted, product=experiment.flop is not None)
            assert verdict.right, f"{variant}: {verdict.text}"
            # And it would not be, had one value been another.
            first = next(part for part in wanted if part is not None)
            values = first.float().flatten()
            values[5] = values[5] * 2 + 1
            if experiment.flop is None:
                other = values.view(first.shape).to(first.dtype)
                assert not compared([other, *wanted[1:]], wanted, product=False).right


@pytest.mark.execute
def test_kernels_have_the_hashes_that_a_prediction_has() -> None:
    experiment = EXPERIMENTS["expert-weights"]
    inputs = experiment.make_inputs({"experts": 2, "k": 64, "n": 96})

    def call() -> None:
        experiment.run("five-kernels", inputs)

    row = simulate.predict_run(call, device="mi300x")
    with virtual_device("mi300x"), recorded_launches() as launches:
        call()
    assert [(item.name, item.code_object, item.grid) for item in launches] == [
        (kernel.name, kernel.code_object, kernel.grid) for kernel in row.kernels
    ]
    assert len(launches) == 5 or len(row.kernels) == len(launches)


def test_inputs_keep_their_layout_and_get_values() -> None:
    experiment = EXPERIMENTS["grouped-gemm"]
    shape = {key: SMALL[key] for key in experiment.shapes[0]}
    with virtual_device("mi300x"):
        zeros = experiment.operands("fp8").make_inputs(shape)
        placed = filled(zeros, device="cpu")
        again = filled(zeros, device="cpu")
    assert [(item.shape, item.stride(), item.dtype) for item in placed] == [
        (item.shape, item.stride(), item.dtype) for item in zeros
    ]
    assert all(torch.equal(one, other) for one, other in zip(placed, again, strict=True))
    a, _, offs, scale, _ = placed
    assert a.view(torch.float8_e4m3fnuz).float().std() > 0.3
    assert torch.equal(offs, zeros[2])
    assert scale.min() >= 1.0 and scale.max() <= 2.0 and scale.std() > 0.1

"""What cannot be launched from packed arguments is told, and launched by Triton's launcher."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from idle_device import IdleCuda, idle_group

from wavecast.kernels.cuda.packed_launch import PackedLaunch, UnpackableError
from wavecast.kernels.matmul_reduce_scatter.api import matmul_reduce_scatter
from wavecast.kernels.tma import descriptor

PLAIN = {
    "num_ctas": 1, "launch_cooperative_grid": False, "launch_pdl": False, "global_scratch_size": 0,
    "profile_scratch_size": 0,
}  # fmt: skip
MAP = {"elem_type": 10, "elem_size": 2, "block_size": [64, 64], "swizzle": 3, "fp4_padded": False}


def packed(arguments: list[Any], signature: list[Any], sizes: list[int], **metadata: Any) -> PackedLaunch:
    """A launch of a kernel whose code has parameters of these sizes."""
    cuda = IdleCuda()
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    cuda.parameter_places = lambda function: [(end - size, size) for end, size in zip(ends, sizes, strict=True)]
    compiled = SimpleNamespace(
        metadata=SimpleNamespace(**metadata), function=0,
        src=SimpleNamespace(signature=dict(enumerate(signature))),
    )  # fmt: skip
    return PackedLaunch(cuda, compiled, 1, arguments, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_ctas": 2}, "its num_ctas is 2"),
        ({"global_scratch_size": 64}, "its global_scratch_size is 64"),
        ({"launch_pdl": None}, "its launch_pdl is None"),
    ],
)
def test_what_needs_more_than_a_grid_and_arguments(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnpackableError, match=message):
        packed([], [], [8, 8], **{**PLAIN, **changes})


def test_a_kernel_of_which_triton_does_not_tell_what_it_needs() -> None:
    told = {name: value for name, value in PLAIN.items() if name != "profile_scratch_size"}
    with pytest.raises(UnpackableError, match="its profile_scratch_size is None"):
        packed([], [], [8, 8], **told)


def test_parameters_that_are_not_those_of_the_signature() -> None:
    with pytest.raises(UnpackableError, match=r"its parameters have sizes \[8, 4\], its signature \[4, 8, 8\]"):
        packed([5], ["i32"], [8, 4], **PLAIN)
    with pytest.raises(UnpackableError, match="it has a parameter of type fp16"):
        packed([0.5], ["fp16"], [2, 8, 8], **PLAIN)


@pytest.mark.parametrize("changes", [{"padding": "nan"}, {"round_f32_to_tf32": True}, {"fp4_padded": True}])
def test_descriptors_of_other_kinds(changes: dict[str, Any]) -> None:
    given = descriptor(torch.zeros(64, 64).bfloat16(), 64, 64, 64)
    meta = {name: changes.get(name, value) for name, value in MAP.items()}
    for name in changes.keys() - meta.keys():
        setattr(given, name, changes[name])
    with pytest.raises(UnpackableError, match="a descriptor of another kind"):
        packed([given], ["tensordesc<bf16[64, 64]>"], [128, 4, 4, 8, 8, 8, 8], **PLAIN, tensordesc_meta=[meta])


@pytest.mark.compile
def test_triton_launches_them_and_a_warning_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    a, b = torch.zeros(128, 128).bfloat16(), torch.zeros(128, 128).bfloat16().t()
    launched: list[Any] = []
    with idle_group() as (group, driver), caplog.at_level(logging.WARNING):
        driver.cuda.parameter_places = lambda function: None
        driver.seen = lambda *given: launched.append(given)
        for _ in range(3):
            matmul_reduce_scatter(a, b, group, setting="1")
    assert len(launched) == 3
    (said,) = [record.getMessage() for record in caplog.records if "takes longer" in record.getMessage()]
    assert said.endswith("the driver does not tell where parameters are")

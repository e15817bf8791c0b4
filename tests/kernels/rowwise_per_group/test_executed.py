"""The code objects that the GPU would run, executed: equal to the reference byte for byte."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quantizers import (
    CANARY,
    REPEATABLE,
    SEEDS,
    any_bits,
    assert_same_results,
    far_apart_rows,
    guarded_outputs,
    put_specials,
    skewed_values,
)

from wavecast.kernels.device import native_format
from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.rowwise_per_group.api import launch_groups
from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference

pytestmark = pytest.mark.execute


@dataclass(frozen=True)
class Case:
    """One input: its shape, the end offsets of the groups along k, the dtype and the columns between the rows."""

    name: str
    m: int
    k: int
    ends: tuple[int, ...]
    dtype: torch.dtype = torch.bfloat16
    row_padding: int = 0

    def x(self) -> torch.Tensor:
        x = skewed_values(self.k + self.row_padding, self.m, dtype=self.dtype).t().contiguous()
        return put_specials(x)[:, : self.k]

    def offs(self) -> torch.Tensor:
        return torch.tensor(self.ends, dtype=torch.int32)


CASES = (
    Case("aligned equal groups", 20, 256, (64, 128, 192, 256)),
    Case("tails in every dimension", 37, 301, (37, 150, 293)),
    Case("a multiple of 4 only", 5, 92, (41, 92)),
    Case("empty groups first, middle, last", 3, 160, (0, 61, 61, 61, 160, 160)),
    Case("groups within one vector", 4, 16, (1, 3, 3, 6, 8, 13)),
    Case("bounds at every residue of a vector", 3, 104, (9, 19, 30, 42, 55, 69, 84, 99)),
    Case("no column belongs to a group", 3, 40, (0, 0)),
    Case("columns behind the last group, within its vector", 3, 16, (9,)),
    Case("columns behind the last group, many", 2, 400, (3,)),
    Case("offsets beyond the columns", 3, 48, (20, 60, 80)),
    Case("one value", 1, 1, (1,)),
    Case("padded rows", 5, 64, (30, 64), row_padding=24),
    Case("padded rows, odd stride", 5, 64, (30, 64), row_padding=3),
    Case("fp16", 5, 96, (31, 90), dtype=torch.float16),
    Case("fp32", 5, 96, (31, 90), dtype=torch.float32),
)


def run_between_canaries(arch: str, x: torch.Tensor, offs: torch.Tensor, *, power_of_two: bool = False) -> Quantized:
    """The kernel's result, equal to the reference's."""
    fmt = native_format(arch)
    wanted = quantize_rowwise_per_group_reference(x, offs, fmt, power_of_two=power_of_two)
    with guarded_outputs() as guard:
        out = Quantized(*(guard.like(tensor) for tensor in wanted))
        launch_groups(x, offs, out, Conversion(fmt, fmt.max, power_of_two, arch))
    assert_same_results(f"{tuple(x.shape)} {offs.tolist()}", out, wanted)
    return out


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equal_to_the_reference_between_canaries(virtual_arch: str, case: Case) -> None:
    run_between_canaries(virtual_arch, case.x(), case.offs())


def test_b9_no_element_is_left_out(virtual_arch: str) -> None:
    """The outputs are canaries first, which no code of the result equals. `test_every_operator.py` counts the bytes."""
    x = torch.full((64, 128), 3.0, dtype=torch.bfloat16)
    out = run_between_canaries(virtual_arch, x, torch.tensor([40, 51, 115], dtype=torch.int32))
    assert not (out.values.view(torch.uint8) == CANARY).any()


def test_b11_skewed_groups_are_exact(virtual_arch: str) -> None:
    """Groups far longer than the mean, which the plan is for: nothing is left out of a scale, nothing unwritten."""
    x = skewed_values(1024, 16).t().contiguous()
    x[3, 300] = 1000.0
    run_between_canaries(virtual_arch, x, torch.tensor([448, 576, 832, 1024], dtype=torch.int32))
    run_between_canaries(virtual_arch, x, torch.tensor([1, 2, 2, 3, 1020, 1021, 1021, 1022], dtype=torch.int32))


def test_d7_rows_beyond_32_bit_offsets(virtual_arch: str) -> None:
    x = far_apart_rows(skewed_values(3, 48))
    run_between_canaries(virtual_arch, x, torch.tensor([20, 45], dtype=torch.int32))


@REPEATABLE
@given(m=st.integers(1, 9), k=st.integers(1, 32).map(lambda n: 8 * n), seed=SEEDS, data=st.data())
def test_any_groups(virtual_arch: str, m: int, k: int, seed: int, data: st.DataObject) -> None:
    """Sizes that share one compilation; ends at and within vectors, equal ones, and beyond k."""
    ends = sorted(data.draw(st.lists(st.integers(0, k + 9), min_size=3, max_size=6)))
    run_between_canaries(virtual_arch, any_bits(m, k, seed=seed), torch.tensor(ends, dtype=torch.int32))


@pytest.mark.parametrize("shape", [(0, 16), (3, 0)], ids=str)
def test_nothing_to_do(virtual_arch: str, shape: tuple[int, int]) -> None:
    x, offs = torch.empty(*shape, dtype=torch.bfloat16), torch.tensor([0, 16], dtype=torch.int32)
    wanted = quantize_rowwise_per_group_reference(x, offs, native_format(virtual_arch), power_of_two=False)
    assert_same_results("empty", quantize_rowwise_per_group(x, offs), wanted)


def test_a_new_number_of_columns_is_one_launch_of_the_same_code(virtual_arch: str) -> None:
    from wavecast.simulator.virtual import active_virtual_device

    virtual = active_virtual_device()
    assert virtual is not None
    for k, ends in ((64, [30, 64]), (200, [30, 61, 199])):
        quantize_rowwise_per_group(skewed_values(4, k), torch.tensor(ends, dtype=torch.int32))
    first, second = virtual.launches
    assert first.code_object == second.code_object

"""What device code prints, and assertions that fail in it, reach the user."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from wavecast.simulator.errors import ExecutionError
from wavecast.simulator.virtual import virtual_device

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]


@triton.jit
def print_kernel(values, numbers, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_print("value", tl.load(values + index))
    tl.device_print("number", tl.load(numbers + index), count)
    tl.device_print("hex", tl.load(numbers + index), hex=True)


@triton.jit
def assert_kernel(values, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + index, mask=index < count)
    tl.device_assert(value < 3, "value is too large")
    tl.store(values + index, value + 1, mask=index < count)


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_prints_come_out_once_for_each_element_of_each_program(device: str, capfd: pytest.CaptureFixture[str]) -> None:
    values = torch.linspace(-2, 2, 256, dtype=torch.float32)
    numbers = torch.arange(256, dtype=torch.int32) - 128
    with virtual_device(device):
        print_kernel[(2,)](values, numbers, 7, BLOCK=128, num_warps=2)
    lines = capfd.readouterr().out.splitlines()
    expected = [
        f"pid ({program}, 0, 0) idx ({item:3d}) value: {values[program * 128 + item]:f}"
        for program in range(2)
        for item in range(128)
    ]
    assert sorted(line for line in lines if " value: " in line) == sorted(expected)
    first = [int(line.rpartition(" ")[2]) for line in lines if "number: (operand 0) " in line]
    assert sorted(first) == list(range(-128, 128))
    second = [line.rpartition(" ")[2] for line in lines if "number: (operand 1) " in line]
    assert second == ["7"] * 256
    hexadecimal = [int(line.rpartition(" 0x")[2], 16) for line in lines if " hex: " in line]
    assert sorted(hexadecimal) == sorted(value % (1 << 32) for value in range(-128, 128))


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_an_assertion_that_fails_names_kernel_line_and_workgroup(device: str) -> None:
    values = torch.zeros(300)
    with virtual_device(device):
        assert_kernel[(3,)](values, 300, BLOCK=128, num_warps=2, debug=True)
        assert bool((values == 1).all())
        values[200] = 5
        with pytest.raises(ExecutionError, match=r"kernel assert_kernel, .*test_device_output\.py:\d+") as error:
            assert_kernel[(3,)](values, 300, BLOCK=128, num_warps=2, debug=True)
    text = str(error.value)
    assert "workgroup (1, 0, 0), wave 1" in text
    assert text.count("value is too large") == 1

"""The clock under matrix work: by operand width, and by how much of the power limit the work uses."""

from __future__ import annotations

import pytest

from wavecast.simulator.devices import Device, device_names, load_device
from wavecast.simulator.timing import predict_time
from wavecast.simulator.timing.clock import matrix_clock_ghz
from wavecast.simulator.timing.compute_unit import Demand, kernel_form, price
from wavecast.simulator.timing.compute_unit.layout import TICKS_PER_CLK, Cost

from .conftest import make_execution, make_kernel, make_traffic

BF16, FP8 = "v_mfma_f32_32x32x8_bf16", "v_mfma_f32_32x32x16_fp8_fp8"


def test_full_load_runs_at_the_sustained_clock_of_its_operand_width() -> None:
    device = load_device("mi325x")
    assert matrix_clock_ghz(device, bits=16) == device.compute.matrix_clock_ghz == 1.447
    assert matrix_clock_ghz(device, bits=8) == device.compute.matrix_clock_8bit_ghz == 1.357


@pytest.mark.parametrize("name", device_names())
def test_the_clock_holds_the_power_of_full_load_up_to_the_peak(name: str) -> None:
    device = load_device(name)
    for load in (0.5, 0.8, 1.0, 1.1):
        clock = matrix_clock_ghz(device, bits=16, load=load)
        # Operations a second times the energy of one, which goes as the square of the clock.
        power = load * (clock / device.compute.matrix_clock_ghz) ** (device.compute.power_exponent - 1)
        assert power == pytest.approx(1.0) or (clock == device.compute.clock_ghz and power < 1)
    assert matrix_clock_ghz(device, bits=16, load=0) == device.compute.clock_ghz
    with pytest.raises(ValueError, match=r"-0\.5.*0 or more"):
        matrix_clock_ghz(device, bits=16, load=-0.5)


def test_matrix_instructions_are_priced_at_the_clock_of_their_operands() -> None:
    device = load_device("mi300x")
    kernel = make_kernel([BF16, FP8])
    costs = price(kernel_form(kernel, make_traffic(kernel, device, 1), device), device, Demand(), warm=0.0)
    busy = costs[:, Cost.BUSY] / TICKS_PER_CLK
    assert busy.tolist() == pytest.approx([32 * 2.1 / 1.207, 32 * 2.1 / 1.14], abs=0.02)


def time_us(device: Device, opcode: str, *, matrix: int, workgroups: int) -> float:
    kernel = make_kernel([opcode] * matrix + ["s_endpgm"])
    traffic = make_traffic(kernel, device, workgroups)
    return predict_time(kernel, make_execution(kernel, workgroups), traffic, device).predicted_us


def test_a_launch_that_leaves_most_units_idle_runs_at_the_peak_clock() -> None:
    device = load_device("mi300x")
    units = device.compute.num_cu

    def matrix_us(workgroups: int) -> float:
        shortest, longest = (time_us(device, FP8, matrix=count, workgroups=workgroups) for count in (2000, 4000))
        return longest - shortest

    # One workgroup in eight units: 2,000 instructions of 32 cycles on each SIMD.
    assert matrix_us(units // 8) == pytest.approx(2000 * 32 / 2.1e3, rel=0.01)
    # All units: near the sustained clock; issue without a gap is more than the GEMM behind that clock reached.
    assert 2000 * 32 / 1.14e3 < matrix_us(units * 4) / 4 < 1.2 * 2000 * 32 / 1.14e3

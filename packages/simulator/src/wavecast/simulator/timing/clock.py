"""The clock that the power limit leaves to matrix work."""

from __future__ import annotations

from wavecast.simulator.devices import Device


def matrix_clock_ghz(device: Device, *, bits: int, load: float = 1.0) -> float:
    """Clock under matrix work.

    At full load it is the clock that the device sustains in its best GEMM of that operand width. Power goes as the rate
    of the work times the clock to the power ``compute.power_exponent`` less one, the energy of one operation: with
    less work a second the same power allows a higher clock, up to the peak, and with more a lower one.

    Args:
        device: Constants.
        bits: Width of the operands; 8 and less have a clock of their own.
        load: Matrix operations a second over those of the GEMM in which the sustained clock was measured.

    Raises:
        ValueError: if the load is negative.
    """
    if load < 0:
        raise ValueError(f"a load of {load} was given; wanted is a share of the full matrix rate, 0 or more")
    sustained = device.compute.matrix_clock_8bit_ghz if bits <= 8 else device.compute.matrix_clock_ghz
    if load == 0:
        return device.compute.clock_ghz
    return min(device.compute.clock_ghz, sustained * load ** (-1 / (device.compute.power_exponent - 1)))


def issue_efficiency(device: Device, *, bits: int) -> float:
    """Share of the matrix rate that the main loop behind the sustained clock reached."""
    return device.matrix.issue_efficiency_8bit if bits <= 8 else device.matrix.issue_efficiency_16bit

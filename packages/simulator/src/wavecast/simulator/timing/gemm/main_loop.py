"""Cycles of a workgroup: a step of the main loop, what precedes it and what follows."""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.clock import issue_efficiency
from wavecast.simulator.timing.gemm.problem import GemmProblem
from wavecast.simulator.timing.gemm.tile import Configuration


@dataclass(frozen=True, slots=True)
class Step:
    """Cycles that a step of the main loop occupies the units of a compute unit, each by itself.

    Attributes:
        matrix: Matrix unit, and after it the vector unit where sums are scaled on the way.
        lds: LDS: each operand written once and read by every wave that multiplies it.
        fill: Path from L2.
    """

    matrix: float
    lds: float
    fill: float

    @property
    def busy(self) -> float:
        """The units work at the same time: the slowest counts."""
        return max(self.matrix, self.lds, self.fill)


def step_clk(problem: GemmProblem, configuration: Configuration, device: Device) -> Step:
    """Price a step; units reach the share of their rate that the main loop behind the sustained clock reached."""
    tile, bits = configuration.tile, problem.bits
    k = tile.k(bits)
    efficiency = issue_efficiency(device, bits=bits)
    lanes_per_clk = device.compute.simd_per_cu * device.compute.wave_lanes / device.issue.valu_clk
    matrix = 2 * tile.m * tile.n * k / problem.flop_per_clk(device) / efficiency
    promotion = tile.m * tile.n * k * problem.promotions_per_element / lanes_per_clk
    read = (tile.m * tile.wave_columns + tile.n * tile.wave_rows) * tile.k_bytes
    lds = (read + tile.step_bytes) / device.lds.bytes_per_clk / efficiency
    return Step(matrix + promotion, lds, tile.step_bytes / device.l1.fill_bytes_per_clk)


def prologue_clk(problem: GemmProblem, configuration: Configuration, device: Device) -> float:
    """From the start of a workgroup to its first multiplication: operands of a step from HBM."""
    return device.hbm.latency_clk + configuration.tile.step_bytes / device.l1.fill_bytes_per_clk


def epilogue_clk(problem: GemmProblem, configuration: Configuration, device: Device) -> float:
    """From the last multiplication of a tile to its last store."""
    tile = configuration.tile
    stored = tile.m * tile.n * (problem.out_bytes if configuration.split_k == 1 else 4)
    return stored / device.l1.store_bytes_per_clk + device.l2.store_ack_clk

"""A compute unit, wave by wave: issue, dependencies, barriers and memory of the executed instruction streams."""

from __future__ import annotations

from wavecast.simulator.timing.compute_unit.costs import Demand, KernelForm, address_clk, kernel_form, price
from wavecast.simulator.timing.compute_unit.known_costs import Costs, KnownCosts
from wavecast.simulator.timing.compute_unit.layout import Part, Spent
from wavecast.simulator.timing.compute_unit.streams import Streams, prepare_streams
from wavecast.simulator.timing.compute_unit.unit import Filling, UnitTime, run_unit

__all__ = [
    "Costs",
    "Demand",
    "Filling",
    "KernelForm",
    "KnownCosts",
    "Part",
    "Spent",
    "Streams",
    "UnitTime",
    "address_clk",
    "kernel_form",
    "prepare_streams",
    "price",
    "run_unit",
]

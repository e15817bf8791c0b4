"""A compute unit as a closed queueing network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demands:
    """What one wave asks of its compute unit over its whole life, in cycles.

    Attributes:
        think_clk: Time in which it occupies no shared unit: memory latency it waits for, scalar issue.
        simd_clk: Its SIMD, which shares it with the waves of that SIMD alone.
        address_clk: Address unit of the compute unit.
        fill_clk: Path from L2 into L1.
        lds_clk: LDS.
    """

    think_clk: float
    simd_clk: float
    address_clk: float
    fill_clk: float
    lds_clk: float


@dataclass(frozen=True, slots=True)
class Residence:
    """Where a wave spends its life when a number of waves are resident, in cycles.

    Attributes:
        think_clk: As demanded.
        simd_clk: At its SIMD, queueing included.
        address_clk: At the address unit.
        fill_clk: At the fill path.
        lds_clk: At the LDS.
    """

    think_clk: float
    simd_clk: float
    address_clk: float
    fill_clk: float
    lds_clk: float

    @property
    def life_clk(self) -> float:
        return self.think_clk + self.simd_clk + self.address_clk + self.fill_clk + self.lds_clk


def residence(demands: Demands, waves: int, *, simds: int) -> Residence:
    """Mean value analysis: how long a wave is at each unit, queueing included.

    A wave that arrives at a unit finds the mean queue of the network with one wave less. Waves stay on their SIMD and
    spread evenly over the SIMDs, so at its SIMD a wave meets the others of that SIMD alone.

    Args:
        demands: Of one wave.
        waves: Resident waves, at least 1.
        simds: SIMDs of the compute unit.
    """
    shared = (demands.address_clk, demands.fill_clk, demands.lds_clk)
    times, queues = list(shared), [0.0, 0.0, 0.0]
    simd_time, simd_queue, queue_of_fewer = demands.simd_clk, 0.0, 0.0
    for population in range(1, max(1, waves) + 1):
        on_simd = -(-population // simds)
        if (population - 1) % simds == 0:
            queue_of_fewer = simd_queue
        # Where a wave more makes a SIMD fuller the others' queues shrink at once, as all SIMDs count as equally full;
        # a wave that joins never shortens the time at a unit.
        found = [demand * (1 + queue) for demand, queue in zip(shared, queues, strict=True)]
        times = [max(before, now) for before, now in zip(times, found, strict=True)]
        simd_time = demands.simd_clk * (1 + queue_of_fewer)
        cycle = demands.think_clk + simd_time + sum(times)
        if not cycle:
            break
        queues = [population * time / cycle for time in times]
        simd_queue = on_simd * simd_time / cycle
    return Residence(demands.think_clk, simd_time, *times)

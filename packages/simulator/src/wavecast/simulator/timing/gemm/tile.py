"""How a kernel cuts a product into tiles and orders them."""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.gemm.problem import GemmProblem, Shape

_ACCUMULATOR_BYTES = 4
# Registers also hold fragments, addresses and data under way: accumulators have at most half of them.
_ACCUMULATOR_SHARE = 0.5
_REGISTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """What one workgroup computes.

    Attributes:
        m: Rows.
        n: Columns.
        k_bytes: Bytes of a row of operands that one step of the main loop takes.
        lds_stages: Steps whose operands LDS holds.
        ahead: Steps whose operands are under way while one is multiplied, in LDS or in registers.
        wave_rows: Waves, or groups of waves that issue one matrix instruction together, along m.
        wave_columns: The same along n.
    """

    m: int
    n: int
    k_bytes: int = 128
    lds_stages: int = 1
    ahead: int = 1
    wave_rows: int = 2
    wave_columns: int = 2

    @property
    def lds_bytes(self) -> int:
        return (self.m + self.n) * self.k_bytes * self.lds_stages

    @property
    def step_bytes(self) -> int:
        """Operands of one step."""
        return (self.m + self.n) * self.k_bytes

    def k(self, bits: int) -> int:
        """Elements of depth that one step takes."""
        return self.k_bytes * 8 // bits

    def per_compute_unit(self, device: Device) -> int:
        """Workgroups that a compute unit holds at once, by LDS and accumulators; 0 if not one fits."""
        compute = device.compute
        registers = compute.vgpr_per_simd * compute.simd_per_cu * compute.wave_lanes * _REGISTER_BYTES
        accumulators = int(registers * _ACCUMULATOR_SHARE) // (self.m * self.n * _ACCUMULATOR_BYTES)
        return min(device.lds.bytes_per_cu // self.lds_bytes, accumulators, compute.waves_per_simd)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A kernel for a launch.

    Attributes:
        tile: Its tile.
        split_k: Workgroups that share one tile, each with a part of the depth; a second launch adds their sums.
        stream_k: Whether compute units share the steps of all tiles evenly, so that none is idle in the last round.
        persistent: Whether a workgroup takes tile after tile and loads the next one while it finishes one.
        window: Rows of tiles that are walked together, column by column; 0: the whole height if there are more columns
            than rows of tiles, else one row.
        chunked: Whether each XCD takes neighbouring tiles, by a mapping in the kernel; else they go to XCDs in turn.
        cluster: Rows and columns of tiles whose workgroups start together and read each panel they share once.
        workgroups_per_cu: At most so many at once on a compute unit.
        bulk: Whether a copy unit fetches whole blocks of operands, tens of KB at a time, that no cluster shares.
    """

    tile: Tile
    split_k: int = 1
    stream_k: bool = False
    persistent: bool = False
    window: int = 8
    chunked: bool = False
    cluster: tuple[int, int] = (1, 1)
    workgroups_per_cu: int = 4
    bulk: bool = False

    def __str__(self) -> str:
        parts = [f"{self.tile.m}x{self.tile.n}x{self.tile.k_bytes}B"]
        parts += [f"split-k {self.split_k}"] if self.split_k > 1 else []
        parts += ["stream-k"] if self.stream_k else []
        return " ".join(parts)

    def grid(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns of tiles of one product, in whole clusters."""
        if not shape.flop:
            return 0, 0
        rows, columns = self.cluster
        return rows * -(-shape.m // (self.tile.m * rows)), columns * -(-shape.n // (self.tile.n * columns))

    def steps(self, shape: Shape, bits: int) -> int:
        """Steps of the main loop of one workgroup."""
        return -(-shape.k // (self.tile.k(bits) * self.split_k))

    def workgroups(self, problem: GemmProblem) -> int:
        """Tiles of the launch, times the parts of each."""
        grids = [self.grid(shape) for shape in problem.groups]
        return sum(rows * columns for rows, columns in grids) * self.split_k

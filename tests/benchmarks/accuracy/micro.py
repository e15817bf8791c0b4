"""What the microbenchmarks on MI300X say about single constants, beside what the device file has.

Nothing is simulated here: each figure follows from differences of measured times by the arithmetic that its row states,
so that what is not known of a benchmark (its start, its floor) drops out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wavecast.simulator.devices import Device

Rows = Sequence[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Check:
    """One constant as a microbenchmark has it.

    Attributes:
        constant: ``section.field`` of the device file.
        how: The arithmetic, in words.
        measured: The figure, in the constant's unit.
        value: The device file's value.
        low: Lower end of its range; the value itself if it has none.
        high: Upper end.
    """

    constant: str
    how: str
    measured: float
    value: float
    low: float
    high: float

    @property
    def is_inside(self) -> bool:
        return self.low <= self.measured <= self.high


class _Times:
    """Measured µs by benchmark, size and parameters."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __call__(self, benchmark: str, value: int, *told: str) -> float:
        """The row of that size whose parameters contain all that is told."""
        for row in self._rows:
            is_meant = (row["benchmark"], row["value"]) == (benchmark, str(value))
            if is_meant and set(told) <= set(row["params"].split(";")):
                return 1e3 * float(row["kernel_ms"])
        raise ValueError(f"the data have no row {benchmark} {value} {' '.join(told)}")

    def slope(self, benchmark: str, low: int, high: int, *told: str) -> float:
        """µs that one more of the size costs."""
        return (self(benchmark, high, *told) - self(benchmark, low, *told)) / (high - low)


_HOP_NODE_BYTES, _LAPS, _FEWEST_HOPS, _MOST_HOPS = 64, 4, 131072, 16_000_000


def _hop_us(times: _Times, nbytes: int) -> float:
    """Time of a hop of the pointer chase through so many bytes."""
    hops = min(max(_LAPS * nbytes // _HOP_NODE_BYTES, _FEWEST_HOPS), _MOST_HOPS)
    return times("cache_latency", nbytes) / hops


def checks(rows: Rows, device: Device) -> list[Check]:
    """All checks.

    Args:
        rows: Of ``mi300x_kernels.csv``.
        device: ``mi300x``.

    Raises:
        ValueError: A row that is needed is missing.
    """
    times, clk = _Times(rows), device.clk_per_us
    per_workgroup = times.slope("empty_kernel", 1_000_000, 2_097_152, "block_size=256")
    per_large = times.slope("empty_kernel", 262_144, 2_097_152, "block_size=1024")
    waves_per_xcd = 1024 / device.compute.wave_lanes / device.compute.num_xcd
    copied = 2 * (2048 << 20)
    threads = 2048 * 256
    products = "int32_throughput", 1024, "num_blocks=1", "threads_per_block=256"
    found: list[tuple[str, str, Callable[[], float]]] = [
        ("launch.workgroup_clk", "empty kernel, one to two million workgroups of 256", lambda: per_workgroup * clk),
        (
            "launch.wave_clk_per_xcd",
            "empty kernel, 0.26 to two million workgroups of 1,024, a wave on each XCD",
            lambda: per_large * clk / waves_per_xcd,
        ),
        ("l1.scalar_latency_clk", "pointer chase on the scalar path, 4 KiB", lambda: _hop_us(times, 1 << 12) * clk),
        ("l2.latency_clk", "the same, 256 KiB; the scalar path is shorter", lambda: _hop_us(times, 1 << 18) * clk),
        ("mall.latency_clk", "the same, 16 MiB", lambda: _hop_us(times, 1 << 24) * clk),
        ("hbm.latency_clk", "the same, 1 GiB", lambda: _hop_us(times, 1 << 30) * clk),
        (
            "hbm.read_tb_s",
            "shoc_devicememory read, 1 to 4 GiB",
            lambda: (1 << 20) / times.slope("shoc_devicememory", 1024, 4096, "transfer_mode=read") / 1e6,
        ),
        (
            "hbm.write_tb_s",
            "shoc_devicememory write, 0.25 to 4 GiB",
            lambda: (1 << 20) / times.slope("shoc_devicememory", 256, 4096, "transfer_mode=write") / 1e6,
        ),
        (
            "hbm.mixed_tb_s",
            "copy inside device memory, 2 to 4 GiB",
            lambda: copied / (times("memory_bandwidth", 4096) - times("memory_bandwidth", 2048)) / 1e6,
        ),
        (
            "mall.mixed_tb_s",
            "copy inside device memory, 64 to 128 MiB",
            lambda: (2 << 20) / times.slope("memory_bandwidth", 64, 128) / 1e6,
        ),
        (
            "launch.back_to_back_us",
            "shoc_stencil2d 64, 5 to 50 iterations; contains the kernel itself, about 0.6 µs",
            lambda: (times("shoc_stencil2d", 64, "iterations=50") - times("shoc_stencil2d", 64, "iterations=5")) / 45,
        ),
        (
            "launch.first_us",
            "int32_throughput, 1,024 and 4,096 dependent products, less what they take; contains the ends of a wave",
            lambda: times(*products) - products[1] * times.slope("int32_throughput", 1024, 4096, *products[2:]),
        ),
        (
            "launch.alone_us",
            "int32_throughput, 256 dependent products",
            lambda: times("int32_throughput", 256, *products[2:]),
        ),
        (
            "launch.queued_us",
            "rodinia_gaussian 64, a launch; contains the kernel itself, about 1 µs",
            lambda: times("rodinia_gaussian", 64, "verify=false") / 126,
        ),
        (
            "atomics.same_line_clk",
            "atomicAdd, 256 to 2,048 a work-item of 524,288; a wave instruction, if all counters share a line",
            lambda: (
                times.slope("atomic_operations", 256, 2048, "atomic_op=atomicAdd")
                / threads
                * device.compute.wave_lanes
                * clk
            ),
        ),
    ]
    return [_check(device, constant, how, measure()) for constant, how, measure in found]


def _check(device: Device, constant: str, how: str, measured: float) -> Check:
    quantity = device.quantities[constant]
    low = quantity.low if quantity.low is not None else quantity.value
    high = quantity.high if quantity.high is not None else quantity.value
    return Check(constant, how, measured, quantity.value, low, high)

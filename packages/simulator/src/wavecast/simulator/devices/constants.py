"""The constants of a device, one frozen class a hardware unit; every field names its unit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


def _in(unit: str) -> Any:
    """A field whose value the device file must give in ``unit``."""
    return field(metadata={"unit": unit})


def _optional(unit: str) -> Any:
    """Like ``_in``, for a unit that some architectures do not have."""
    return field(default=None, metadata={"unit": unit})


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute units, registers and clocks."""

    num_cu: int = _in("count")
    num_xcd: int = _in("count")
    simd_per_cu: int = _in("count")
    wave_lanes: int = _in("lanes")
    waves_per_simd: int = _in("count")
    barriers_per_cu: int = _in("count")
    vgpr_per_simd: int = _in("registers")
    vgpr_granule: int = _in("registers")
    clock_ghz: float = _in("GHz")
    matrix_clock_ghz: float = _in("GHz")
    matrix_clock_8bit_ghz: float = _in("GHz")
    power_exponent: float = _in("exponent")
    rested_matrix_clock_ghz: float | None = _optional("GHz")
    rested_matrix_clock_8bit_ghz: float | None = _optional("GHz")
    sgpr_per_simd: int | None = _optional("registers")
    sgpr_granule: int | None = _optional("registers")


@dataclass(frozen=True, slots=True)
class Issue:
    """Cycles that a wave instruction occupies its issue port."""

    valu_clk: float = _in("clk")
    quarter_rate_clk: float = _in("clk")
    salu_clk: float = _in("clk")
    branch_clk: float = _in("clk")
    wave_overhead_clk: float = _in("clk")
    argument_load_clk: float = _in("clk")
    half_rate_clk: float | None = _optional("clk")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Matrix rates by input type, None where the architecture has no such instruction, and what a main loop reaches."""

    f16: float = _in("FLOP/clk/CU")
    f8: float = _in("FLOP/clk/CU")
    i8: float = _in("FLOP/clk/CU")
    f64: float = _in("FLOP/clk/CU")
    issue_efficiency_16bit: float = _in("fraction")
    issue_efficiency_8bit: float = _in("fraction")
    f32: float | None = _optional("FLOP/clk/CU")
    xf32: float | None = _optional("FLOP/clk/CU")
    f8f6f4_8bit: float | None = _optional("FLOP/clk/CU")
    f8f6f4_small: float | None = _optional("FLOP/clk/CU")


@dataclass(frozen=True, slots=True)
class Lds:
    """Local data share of a compute unit."""

    bytes_per_cu: int = _in("B")
    granule_bytes: int = _in("B")
    banks: int = _in("count")
    bytes_per_clk: float = _in("B/clk")
    latency_clk: float = _in("clk")
    reserved_bytes: int | None = _optional("B")
    port_bytes_per_clk: float | None = _optional("B/clk")


@dataclass(frozen=True, slots=True)
class L1:
    """Vector L1 of a compute unit with its address unit, and the scalar cache's latency."""

    bytes_per_cu: int = _in("B")
    line_bytes: int = _in("B")
    ways: int = _in("count")
    latency_clk: float = _in("clk")
    scalar_latency_clk: float = _in("clk")
    merged_quads_per_clk: float = _in("quads/clk")
    store_quad_clk: float = _in("clk")
    fill_bytes_per_clk: float = _in("B/clk")
    lines_in_flight: float = _in("lines")
    latency_spread: float = _in("fraction")
    store_bytes_per_clk: float = _in("B/clk")
    in_order: int | None = _optional("flag")
    hashed_sets: int | None = _optional("flag")


@dataclass(frozen=True, slots=True)
class L2:
    """The L2 of each XCD."""

    bytes_per_xcd: int = _in("B")
    line_bytes: int = _in("B")
    ways: int = _in("count")
    channels_per_xcd: int = _in("count")
    interleave_bytes: int = _in("B")
    kept_reach: float = _in("factor")
    latency_clk: float = _in("clk")
    store_ack_clk: float = _in("clk")
    read_tb_s: float = _in("TB/s")
    write_tb_s: float = _in("TB/s")
    write_request_clk: float = _in("clk")
    in_step: float = _in("exponent")
    dirty_share: float = _in("fraction")
    write_back_bytes_per_clk: float | None = _optional("B/clk")
    sector_bytes: int | None = _optional("B")
    mixed_tb_s: float | None = _optional("TB/s")
    bulk_read_tb_s: float | None = _optional("TB/s")
    physical_bytes: int | None = _optional("B")
    dirty_of_evicted: float | None = _optional("fraction")
    profiler_dirty_bytes: int | None = _optional("B")


@dataclass(frozen=True, slots=True)
class Mall:
    """The memory-side cache (Infinity Cache)."""

    bytes: int = _in("B")
    channels: int = _in("count")
    latency_clk: float = _in("clk")
    read_tb_s: float = _in("TB/s")
    write_tb_s: float = _in("TB/s")
    mixed_tb_s: float = _in("TB/s")
    reuse_fraction: float = _in("fraction")
    fill_share: float = _in("fraction")

    @classmethod
    def absent(cls, l2: L2, hbm: Hbm, *, xcds: int) -> Mall:
        """What stands for it on a device without one: it holds nothing and delays nothing, and atomics execute at L2.

        Args:
            l2: The L2, whose channels atomics spread over.
            hbm: Device memory, which answers in its place.
            xcds: L2s of the device.
        """
        return cls(
            bytes=0,
            channels=l2.channels_per_xcd * xcds,
            latency_clk=hbm.latency_clk,
            read_tb_s=math.inf,
            write_tb_s=math.inf,
            mixed_tb_s=math.inf,
            reuse_fraction=1.0,
            fill_share=0.0,
        )


@dataclass(frozen=True, slots=True)
class Hbm:
    """Device memory."""

    bytes: int = _in("B")
    latency_clk: float = _in("clk")
    peak_tb_s: float = _in("TB/s")
    read_tb_s: float = _in("TB/s")
    write_tb_s: float = _in("TB/s")
    crowding: float = _in("fraction")
    mixed_tb_s: float = _in("TB/s")


@dataclass(frozen=True, slots=True)
class Launch:
    """Cost of a launch and rate at which workgroups start."""

    first_us: float = _in("us")
    back_to_back_us: float = _in("us")
    workgroup_clk: float = _in("clk")
    wave_clk_per_xcd: float = _in("clk")
    submit_us: float | None = _optional("us")
    alone_us: float | None = _optional("us")
    queued_us: float | None = _optional("us")


@dataclass(frozen=True, slots=True)
class Atomics:
    """Atomics, which execute at the memory-side cache."""

    latency_clk: float = _in("clk")
    request_clk: float = _in("clk")
    same_line_clk: float = _in("clk")


@dataclass(frozen=True, slots=True)
class Fences:
    """Agent-scope ordering: ``buffer_wbl2`` and ``buffer_inv``."""

    writeback_clk: float = _in("clk")
    invalidate_clk: float = _in("clk")
    writeback_serial: float = _in("fraction")


@dataclass(frozen=True, slots=True)
class Combine:
    """How busy resources add up where waves are not simulated, and what the structure leaves unexplained."""

    pipeline_norm: float = _in("exponent")
    residual: float = _in("factor")


@dataclass(frozen=True, slots=True)
class Link:
    """How GPUs of a node and nodes are joined, and what streams, copies and collectives make of it.

    Rates are a link's, in one direction.
    """

    shader_engines_per_xcd: int = _in("count")
    hardware_queues: int = _in("count")
    queue_concurrency: int = _in("count")
    num_links: int = _in("count")
    links_per_peer: int = _in("count")
    peak_gb_s: float = _in("GB/s")
    kernel_gb_s: float = _in("GB/s")
    kernel_both_gb_s: float = _in("GB/s")
    engine_gb_s: float = _in("GB/s")
    engine_both_gb_s: float = _in("GB/s")
    engine_start_us: float = _in("us")
    engine_signal_us: float = _in("us")
    engine_kernel_us: float = _in("us")
    smallest_kernel_us: float = _in("us")
    num_engines: int = _in("count")
    unit_gb_s: float = _in("GB/s")
    unit_copy_gb_s: float = _in("GB/s")
    sum_gb_s: float = _in("GB/s")
    write_signal_us: float = _in("us")
    signal_us: float = _in("us")
    event_us: float = _in("us")
    ring_gb_s: float = _in("GB/s")
    ring_base_us: float = _in("us")
    ring_hop_us: float = _in("us")
    ring_plateau: float = _in("factor")
    ll_gb_s: float = _in("GB/s")
    ll_base_us: float = _in("us")
    ll_hop_us: float = _in("us")
    captured_collective_us: float = _in("us")
    channels: int = _in("count")
    nic_gb_s: float = _in("GB/s")
    nic_efficiency: float = _in("fraction")
    nic_hop_us: float = _in("us")
    nic_ll_hop_us: float = _in("us")
    nic_ll128_share: float = _in("fraction")
    nic_channels: int = _in("count")
    nic_post_us: float = _in("us")
    blit_limit_bytes: int | None = _optional("B")
    blit_workgroups: int | None = _optional("count")
    signal_workgroups: int | None = _optional("count")

    @property
    def full_mesh(self) -> bool:
        """Whether each other GPU of a node has links of its own; else all of them lead to switches."""
        return self.links_per_peer < self.num_links

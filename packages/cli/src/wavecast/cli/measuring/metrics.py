"""Counters by one set of names: what each is made of under `ncu` and under `rocprofv3`.

Names are those of IntelliKit's Metrix where it has one (``memory.bytes_transferred_hbm``, ``memory.l2_hit_rate``,
``memory.lds_bank_conflicts``, …), and formed alike where it has not. On MI300 the counters of the memory side lie
between the L2 and the fabric: what the Infinity Cache answers is in them, here as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

SECTOR_BYTES = 32
LINE_BYTES = 128

Raw = Mapping[str, float]
Formula = Callable[[Raw], float | None]


@dataclass(frozen=True, slots=True)
class Source:
    """How a counter comes from what a profiler counts.

    Attributes:
        raw: What the profiler is asked for.
        formula: From these to the counter; None if it is undefined, as a rate of nothing is.
    """

    raw: tuple[str, ...]
    formula: Formula


@dataclass(frozen=True, slots=True)
class Metric:
    """A counter.

    Attributes:
        name: Its name.
        meaning: What it counts.
        ncu: From NVIDIA's profiler; None if that has no such thing.
        rocprof: From AMD's.
        adds_up: Whether the values of several launches are added; rates are not, and are left out of sums.
    """

    name: str
    meaning: str
    ncu: Source | None
    rocprof: Source | None
    adds_up: bool = True


def _one(name: str) -> Source:
    return Source((name,), lambda raw: raw[name])


def _sum(*names: str, factor: float = 1.0) -> Source:
    return Source(names, lambda raw: factor * sum(raw[name] for name in names))


def _ratio(over: tuple[str, ...], under: tuple[str, ...], factor: float = 1.0) -> Source:
    def formula(raw: Raw) -> float | None:
        whole = sum(raw[name] for name in under)
        return factor * sum(raw[name] for name in over) / whole if whole else None

    return Source((*over, *(name for name in under if name not in over)), formula)


def _fabric_reads(raw: Raw) -> float:
    wide, narrow = raw["TCC_BUBBLE_sum"], raw["TCC_EA0_RDREQ_32B_sum"]
    return 128 * wide + 32 * narrow + 64 * (raw["TCC_EA0_RDREQ_sum"] - wide - narrow)


def _fabric_writes(raw: Raw) -> float:
    return 64 * raw["TCC_EA0_WRREQ_64B_sum"] + 32 * (raw["TCC_EA0_WRREQ_sum"] - raw["TCC_EA0_WRREQ_64B_sum"])


_READS = ("TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_BUBBLE_sum")
_WRITES = ("TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum")
_CONFLICTS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
_SHARED = ("smsp__inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_shared_st.sum")
_HITS, _MISSES = (f"lts__t_sectors_srcunit_tex_lookup_{what}.sum" for what in ("hit", "miss"))
_L2 = "lts__t_{}_srcunit_tex_op_{}.sum"
# As they come to the L1s. Behind the coalescer of requests, at the L2 itself, what several multiprocessors ask for at
# once counts once: half of what products read.
_READ_SECTORS = "l1tex__m_xbar2l1tex_read_sectors.sum"

METRICS: tuple[Metric, ...] = (
    Metric(
        "duration_us",
        "Time in the profiler, whose clock is its own",
        Source(("gpu__time_duration.sum",), lambda raw: raw["gpu__time_duration.sum"] / 1e3),
        Source(("duration_ns",), lambda raw: raw["duration_ns"] / 1e3),
    ),
    Metric(
        "memory.hbm_read_bytes",
        "Bytes read from device memory",
        _one("dram__bytes_read.sum"),
        Source(_READS, _fabric_reads),
    ),
    Metric(
        "memory.hbm_write_bytes",
        "Bytes written to device memory",
        _one("dram__bytes_write.sum"),
        Source(_WRITES, _fabric_writes),
    ),
    Metric(
        "memory.bytes_transferred_hbm",
        "Both",
        _sum("dram__bytes_read.sum", "dram__bytes_write.sum"),
        Source((*_READS, *_WRITES), lambda raw: _fabric_reads(raw) + _fabric_writes(raw)),
    ),
    Metric(
        "memory.l2_read_requests",
        "Requests of loads that reach the L2",
        _one(_L2.format("requests", "read")),
        _one("TCP_TCC_READ_REQ_sum"),
    ),
    Metric(
        "memory.l2_write_requests",
        "Requests of stores that reach the L2",
        _one(_L2.format("requests", "write")),
        _one("TCP_TCC_WRITE_REQ_sum"),
    ),
    Metric("memory.l2_read_sectors", "Sectors of 32 bytes that the L2 sends to L1s", _one(_READ_SECTORS), None),
    Metric(
        "memory.l2_write_sectors",
        "Sectors of 32 bytes that these stores want",
        _one(_L2.format("sectors", "write")),
        None,
    ),
    Metric(
        "memory.bytes_transferred_l2",
        "Bytes between L1 and L2: sectors, on AMD whole lines as in Metrix",
        _sum(_READ_SECTORS, _L2.format("sectors", "write"), factor=SECTOR_BYTES),
        _sum("TCC_REQ_sum", factor=LINE_BYTES),
    ),
    Metric(
        "memory.load_requests",
        "Load instructions of waves to global memory",
        _one("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"),
        _one("SQ_INSTS_VMEM_RD"),
    ),
    Metric(
        "memory.store_requests",
        "Store instructions of waves to global memory",
        _one("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"),
        _one("SQ_INSTS_VMEM_WR"),
    ),
    Metric(
        "memory.load_sectors",
        "Sectors of 32 bytes that loads touch",
        _one("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
        None,
    ),
    Metric(
        "memory.store_sectors",
        "Sectors of 32 bytes that stores touch",
        _one("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
        None,
    ),
    Metric(
        "memory.l2_hit_rate",
        "Per cent of what reaches the L2",
        _ratio((_HITS,), (_HITS, _MISSES), 100.0),
        _ratio(("TCC_HIT_sum",), ("TCC_HIT_sum", "TCC_MISS_sum"), 100.0),
        adds_up=False,
    ),
    Metric(
        "memory.lds_conflict_clk",
        "Cycles that bank conflicts of LDS or shared memory cost",
        _sum(*_CONFLICTS),
        _one("SQ_LDS_BANK_CONFLICT"),
    ),
    Metric(
        "memory.lds_instructions", "Instructions of waves to LDS or shared memory", _sum(*_SHARED), _one("SQ_INSTS_LDS")
    ),
    Metric(
        "memory.lds_bank_conflicts",
        "Conflict cycles an instruction",
        _ratio(_CONFLICTS, _SHARED),
        _ratio(("SQ_LDS_BANK_CONFLICT",), ("SQ_INSTS_LDS",)),
        adds_up=False,
    ),
)
"""All counters, in the order in which they are shown."""

ROCPROF_PASSES: tuple[tuple[str, ...], ...] = (
    (
        "TCC_EA0_RDREQ_sum",
        "TCC_EA0_RDREQ_32B_sum",
        "TCC_BUBBLE_sum",
        "TCC_EA0_WRREQ_sum",
        "TCP_TCC_READ_REQ_sum",
        "TCP_TCC_WRITE_REQ_sum",
        "SQ_LDS_BANK_CONFLICT",
        "SQ_INSTS_LDS",
    ),
    (
        "TCC_EA0_WRREQ_64B_sum",
        "TCC_REQ_sum",
        "TCC_HIT_sum",
        "TCC_MISS_sum",
        "SQ_INSTS_VMEM_RD",
        "SQ_INSTS_VMEM_WR",
    ),
)
"""What one run under ``rocprofv3`` can count at once: four counters an L2 channel and an L1, eight a compute unit."""

NCU_METRICS = tuple(dict.fromkeys(name for metric in METRICS if metric.ncu for name in metric.ncu.raw))
"""What ``ncu`` is asked for."""


def counters_of(raw: Raw, *, tool: str) -> dict[str, float]:
    """The counters that can be made of what a profiler counted in one launch.

    Args:
        raw: Its own names to values; ``duration_ns`` besides from ``rocprofv3``.
        tool: ``ncu`` or ``rocprofv3``.
    """
    found: dict[str, float] = {}
    for metric in METRICS:
        source = metric.ncu if tool == "ncu" else metric.rocprof
        if source is not None and all(name in raw for name in source.raw):
            value = source.formula(raw)
            if value is not None:
                found[metric.name] = value
    return found


def summed(counters: list[Mapping[str, float]]) -> dict[str, float]:
    """Counters of several launches together: those that add up, where every launch has them."""
    names = [metric.name for metric in METRICS if metric.adds_up]
    return {
        name: sum(one[name] for one in counters) for name in names if counters and all(name in one for one in counters)
    }

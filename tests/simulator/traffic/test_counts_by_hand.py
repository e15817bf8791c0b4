"""Transactions, address cycles and LDS cycles of every access width, against cases worked out by hand.

Everything goes the way of a launch: opcode, lanes' addresses, and out come the rows of the traffic table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic import InstructionTraffic, TrafficObserver

LANES = np.arange(64, dtype=np.uint64)
ALL = (1 << 64) - 1
DEVICES = {"gfx942": "mi300x", "gfx950": "mi355x"}
# Placed at the start of a line.
BASE = 1 << 30
NAME = {1: "byte", 2: "short", 4: "dword", 8: "dwordx2", 12: "dwordx3", 16: "dwordx4"}

Row = Callable[..., InstructionTraffic]


@pytest.fixture
def row(
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
) -> Row:
    """The traffic row of one wave instruction."""

    def build(arch: str, opcode: str, address: np.ndarray, *, exec_mask: int = ALL, **modifiers: int):
        kernel = kernel_of([(opcode, dict(modifiers)), "s_endpgm"], arch=arch, lds_bytes=65536)
        watcher = TrafficObserver(kernel, load_device(DEVICES[arch]), total_workgroups=1)
        watcher.consume(record_of(0, address, exec_mask=exec_mask))
        return watcher.result(execution_of(kernel, [0], 1, [1, 1])).instructions[0]

    return build


@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize(
    ("width", "stride", "lines", "segments", "quad_clk", "run_clk", "requests", "partial"),
    [
        # Contiguous: 64 lanes fill 64 x width bytes. Quads of 4, 8, 16 and 32 bytes share a segment and, up to four at
        # a time, a cycle; a quad of 64 bytes is a segment.
        (1, 1, 1, 1, 16, 4, 1, 0),
        (2, 2, 1, 2, 16, 4, 2, 0),
        (4, 4, 2, 4, 16, 4, 4, 0),
        (8, 8, 4, 8, 16, 8, 8, 0),
        # Quads of 48 bytes: of each four, which fill 192 bytes, the second and the third lie across a segment's end.
        (12, 12, 6, 12, 24, 24, 24, 24),
        (16, 16, 8, 16, 16, 16, 16, 0),
        # Twice the width apart: no quad is contiguous, so each stands alone, and each of its requests is partial. Bytes
        # and shorts ask for two and four different dwords in different columns; dwords 0, 2, 4, 6 share two columns.
        (1, 2, 1, 2, 16, 16, 16, 16),
        (2, 4, 2, 4, 16, 16, 16, 16),
        (4, 8, 4, 8, 32, 32, 16, 16),
        (8, 16, 8, 16, 16, 16, 16, 16),
        (12, 24, 12, 24, 32, 32, 32, 32),  # 96 bytes a quad: two segments
        (16, 32, 16, 32, 32, 32, 32, 32),
        # 48 bytes apart, 192 bytes a quad: dwords 0, 12, 24, 36 share one column; three segments, and a fourth for the
        # last lane only where it is wide enough to reach it.
        (4, 48, 24, 48, 64, 64, 48, 48),
        (16, 48, 24, 48, 48, 48, 48, 48),
        # A line each.
        *[(width, 128, 64, 64, 64, 64, 64, 64) for width in NAME],
        # A page each: the same.
        *[(width, 4096, 64, 64, 64, 64, 64, 64) for width in NAME],
        # One place for all lanes.
        *[(width, 0, 1, 1, 16, 4, 1, 1) for width in NAME],
    ],
)
def test_global_accesses(
    row: Row,
    arch: str,
    width: int,
    stride: int,
    lines: int,
    segments: int,
    quad_clk: int,
    run_clk: int,
    requests: int,
    partial: int,
) -> None:
    address = BASE + LANES * stride
    store = row(arch, f"global_store_{NAME[width]}", address)
    assert (store.lines, store.segments, store.quad_clk, store.run_clk) == (lines, segments, quad_clk, run_clk)
    assert (store.requests, store.partial_requests) == (requests, partial)
    assert store.bytes_asked == 64 * width
    # A load asks for the lines, in the same address cycles.
    name = {1: "ubyte", 2: "ushort"}.get(width, NAME[width])
    for family in ("global", "flat", "buffer"):
        load = row(arch, f"{family}_load_{name}", address)
        assert (load.lines, load.quad_clk, load.run_clk) == (lines, quad_clk, run_clk)
        assert (load.requests, load.l2_requests, load.partial_requests) == (lines, lines, 0)


@pytest.mark.parametrize(
    ("width", "first", "lines", "segments", "quad_clk", "run_clk", "requests", "partial"),
    [
        # 64 bytes from byte 62: 2 in the first segment, 62 in the next, in the next line. Only the first quad is split,
        # and so are the first 16 lanes.
        (1, 126, 2, 2, 17, 5, 3, 3),
        # Byte 60 on: of 5 segments the first has one dword, the last 15; every fourth quad is split, and so are each 16
        # lanes.
        (4, 60, 3, 5, 20, 8, 12, 12),
        # Byte 8 on: every quad of 64 bytes is split.
        (16, 8, 9, 17, 32, 32, 32, 32),
    ],
)
def test_unaligned_stores(
    row: Row,
    width: int,
    first: int,
    lines: int,
    segments: int,
    quad_clk: int,
    run_clk: int,
    requests: int,
    partial: int,
) -> None:
    found = row("gfx942", f"global_store_{NAME[width]}", BASE + first + LANES * width)
    assert (found.lines, found.segments, found.quad_clk, found.run_clk) == (lines, segments, quad_clk, run_clk)
    assert (found.requests, found.partial_requests) == (requests, partial)


@pytest.mark.parametrize(
    ("exec_mask", "lines", "quad_clk", "run_clk", "requests", "partial"),
    [
        ((1 << 32) - 1, 1, 8, 2, 2, 0),  # the first 32 lanes: 128 bytes
        (0xF, 1, 1, 1, 1, 1),  # one quad
        (
            0x1111111111111111,
            2,
            16,
            16,
            16,
            16,
        ),  # a lane of every quad: 12 bytes lie between, so none continues another
        (1 << 63, 1, 1, 1, 1, 1),
    ],
)
def test_dword_stores_of_some_lanes(
    row: Row, exec_mask: int, lines: int, quad_clk: int, run_clk: int, requests: int, partial: int
) -> None:
    found = row("gfx942", "global_store_dword", BASE + LANES * 4, exec_mask=exec_mask)
    assert (found.lines, found.quad_clk, found.requests) == (lines, quad_clk, requests)
    assert (found.run_clk, found.partial_requests) == (run_clk, partial)


@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize(
    ("opcode", "stride", "requests"),
    [
        ("global_atomic_add", 4, 4),
        ("global_atomic_add", 128, 64),
        ("global_atomic_add", 0, 1),
        ("global_atomic_add_x2", 8, 8),
        ("global_atomic_add_f64", 256, 64),
    ],
)
def test_atomics_make_requests_to_the_memory_side_cache(
    row: Row, arch: str, opcode: str, stride: int, requests: int
) -> None:
    found = row(arch, opcode, BASE + LANES * stride)
    assert found.requests == found.l2_requests == requests
    assert found.l2_hits == 0


# Cycles, and of these conflicts, on gfx942 and on gfx950. gfx942 has 32 banks: lanes go in 2 phases of 32 up to a
# dword, 4 of 16 for 8 bytes, 8 of 8 for 12 and 16. Reads on gfx950 have 64 banks, in 2 phases up to 8 bytes, 4 for 16.
LDS_CASES = [
    # Contiguous: no conflict. Of 12 bytes the lanes 0-3 and 20-23 share a phase: dwords 0-11 and 60-71, banks 28-7.
    ("ds_read_u8", 1, (2, 0), (2, 0)),
    ("ds_read_u16", 2, (2, 0), (2, 0)),
    ("ds_read_b32", 4, (2, 0), (2, 0)),
    ("ds_read_b64", 8, (4, 0), (2, 0)),
    ("ds_read_b96", 12, (16, 8), (16, 8)),
    ("ds_read_b128", 16, (8, 0), (4, 0)),
    ("ds_write_b8", 1, (2, 0), (2, 0)),
    ("ds_write_b16", 2, (2, 0), (2, 0)),
    ("ds_write_b32", 4, (2, 0), (2, 0)),
    ("ds_write_b64", 8, (4, 0), (4, 0)),
    ("ds_write_b96", 12, (8, 0), (8, 0)),
    ("ds_write_b128", 16, (8, 0), (8, 0)),
    # Twice the width: half of the banks stand idle. Bytes and shorts still fall on different dwords; 32 lanes 8 bytes
    # apart meet 32 even banks of 64, or 16 of 32 twice.
    ("ds_read_u8", 2, (2, 0), (2, 0)),
    ("ds_read_u16", 4, (2, 0), (2, 0)),
    ("ds_read_b32", 8, (4, 2), (2, 0)),
    ("ds_read_b64", 16, (8, 4), (4, 2)),
    ("ds_read_b128", 32, (16, 8), (8, 4)),
    ("ds_write_b32", 8, (4, 2), (4, 2)),
    ("ds_write_b64", 16, (8, 4), (8, 4)),
    ("ds_write_b128", 32, (16, 8), (16, 8)),
    # 128 bytes: one bank (or two, three, four) of 32 for all lanes; of 64 banks, two.
    ("ds_read_u8", 128, (64, 62), (32, 30)),
    ("ds_read_u16", 128, (64, 62), (32, 30)),
    ("ds_read_b32", 128, (64, 62), (32, 30)),
    ("ds_read_b64", 128, (64, 60), (32, 30)),
    ("ds_read_b96", 128, (64, 56), (64, 56)),
    ("ds_read_b128", 128, (64, 56), (32, 28)),
    *[(f"ds_write_b{bits}", 128, (64, 62), (64, 62)) for bits in (8, 16, 32)],
    ("ds_write_b64", 128, (64, 60), (64, 60)),
    ("ds_write_b96", 128, (64, 56), (64, 56)),
    ("ds_write_b128", 128, (64, 56), (64, 56)),
    # 256 bytes: one bank of 64 too.
    ("ds_read_b32", 256, (64, 62), (64, 62)),
    ("ds_read_b64", 256, (64, 60), (64, 62)),
    ("ds_read_b128", 256, (64, 56), (64, 60)),
    # A pad of a dword a row takes the conflicts away.
    ("ds_read_b32", 132, (2, 0), (2, 0)),
    ("ds_write_b32", 132, (2, 0), (2, 0)),
    # One place for all: a broadcast, except for atomics, which queue.
    ("ds_read_b32", 0, (2, 0), (2, 0)),
    ("ds_read_b128", 0, (8, 0), (4, 0)),
    ("ds_write_b32", 0, (2, 0), (2, 0)),
    ("ds_add_u32", 0, (64, 62), (64, 62)),
    ("ds_add_u32", 4, (2, 0), (2, 0)),
    ("ds_add_rtn_u32", 128, (64, 62), (64, 62)),
    ("ds_add_u64", 8, (4, 0), (4, 0)),
    ("ds_add_u64", 0, (64, 60), (64, 60)),
]


@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize(("opcode", "stride", "gfx942", "gfx950"), LDS_CASES)
def test_lds_accesses(
    row: Row, arch: str, opcode: str, stride: int, gfx942: tuple[int, int], gfx950: tuple[int, int]
) -> None:
    found = row(arch, opcode, LANES * stride)
    assert (found.lds_clk, found.lds_conflict_clk) == (gfx942 if arch == "gfx942" else gfx950)


@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize(
    ("opcode", "stride", "offsets", "gfx942", "gfx950"),
    [
        # Two pieces, one after the other, each like an access of its own.
        ("ds_read2_b32", 4, (0, 64), (4, 0), (4, 0)),
        ("ds_write2_b32", 4, (0, 64), (4, 0), (4, 0)),
        ("ds_read2_b64", 8, (0, 64), (8, 0), (4, 0)),
        ("ds_write2_b64", 8, (0, 64), (8, 0), (8, 0)),
        ("ds_read2st64_b32", 4, (0, 1), (4, 0), (4, 0)),
        ("ds_write2st64_b64", 8, (1, 2), (8, 0), (8, 0)),
        # Neighbouring dwords of lanes 8 bytes apart: even banks, then odd ones.
        ("ds_read2_b32", 8, (0, 1), (8, 4), (4, 0)),
        ("ds_write2_b32", 8, (0, 1), (8, 4), (8, 4)),
        ("ds_read2_b32", 128, (0, 1), (128, 124), (64, 60)),
        ("ds_read2_b64", 16, (0, 1), (16, 8), (8, 4)),
    ],
)
def test_two_address_lds_accesses(
    row: Row,
    arch: str,
    opcode: str,
    stride: int,
    offsets: tuple[int, int],
    gfx942: tuple[int, int],
    gfx950: tuple[int, int],
) -> None:
    found = row(arch, opcode, LANES * stride, offset0=offsets[0], offset1=offsets[1])
    assert (found.lds_clk, found.lds_conflict_clk) == (gfx942 if arch == "gfx942" else gfx950)


def test_only_active_lanes_conflict(row: Row) -> None:
    """Eight lanes of one phase on one bank, and 16 of two phases."""
    for mask, clk in ((0xFF, 8), (0xFF | 0xFF << 32, 16), (1, 1)):
        assert row("gfx942", "ds_read_b32", LANES * 128, exec_mask=mask).lds_clk == clk

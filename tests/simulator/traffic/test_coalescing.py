"""Address cycles, lines, write requests, LDS conflicts: known patterns, and the compiled loops against plain Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plain_loops as reference
import pytest

from wavecast.simulator.traffic.coalescing import MAX_LINES, lds_cycles, touch_lines, walk_quads
from wavecast.simulator.traffic.lds_banks import lds_phases
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess

LANES = np.arange(64, dtype=np.uint64)
ALL = (1 << 64) - 1


def walk(address: np.ndarray, width: int, exec_mask: int = ALL) -> tuple[int, int, int, int, dict[int, int]]:
    lines, masks = np.zeros(MAX_LINES, np.uint64), np.zeros((MAX_LINES, 2), np.uint64)
    weights = np.zeros(MAX_LINES, np.int64)
    table, segments = np.zeros((2, 256), np.int64), np.zeros(16, np.uint64)
    count = touch_lines(address.astype(np.uint64), np.uint64(exec_mask), width, lines, masks, table)
    result = walk_quads(address.astype(np.uint64), np.uint64(exec_mask), width, lines, count, table, weights, segments)
    return (*result, {int(lines[i]): int(weights[i]) for i in range(count) if weights[i]})


@pytest.mark.parametrize(
    ("stride", "width", "quad_clk", "run_clk", "requests", "partial"),
    [
        (4, 4, 16, 4, 4, 0),  # a coalesced dword wave: 16 accesses, 4 cycles, 4 whole segments
        (8, 8, 16, 8, 8, 0),
        (16, 16, 16, 16, 16, 0),
        (1, 1, 16, 4, 1, 0),  # 64 contiguous bytes are one segment
        (2, 2, 16, 4, 2, 0),
        (8, 4, 32, 32, 16, 16),  # stride of two dwords: half rate
        (16, 4, 64, 64, 16, 16),  # stride of four dwords: one lane a cycle
        (128, 1, 64, 64, 64, 64),  # every lane its own line
        (32768, 1, 64, 64, 64, 64),
        (0, 4, 16, 4, 1, 1),  # one address for all lanes
    ],
)
def test_known_patterns(stride: int, width: int, quad_clk: int, run_clk: int, requests: int, partial: int) -> None:
    assert walk(LANES * stride + 4096, width)[:4] == (quad_clk, run_clk, requests, partial)


def test_scattered_lanes_merge_in_a_quad_only() -> None:
    """Lanes 0 and 32 share a line but not a quad: two rows of 32 columns make 64 requests, not 32."""
    address = (LANES % 32) * 32768 + LANES // 32
    assert walk(address, 1)[2] == 64
    assert len(walk(address, 1)[4]) == 32


def patterns() -> list[tuple[str, np.ndarray]]:
    random = np.random.default_rng(7)
    return [
        ("contiguous", LANES * 4 + 64),
        ("unaligned", LANES * 4 + 50),
        ("rows", (LANES % 16) * 4 + (LANES // 16) * 1024 + 256),
        ("pairs", (LANES // 2) * 512 + (LANES % 2) * 8),
        ("random", random.integers(0, 4096, 64).astype(np.uint64)),
        ("far", random.integers(0, 2**46, 64).astype(np.uint64)),
        ("uniform", np.full(64, 130, dtype=np.uint64)),
        ("reversed", (63 - LANES) * 4),
    ]


@pytest.mark.parametrize("width", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("exec_mask", [ALL, 0x0123456789ABCDEF, 1 << 63, 0xF0F0, (1 << 33) - 1])
def test_compiled_loops_equal_the_plain_ones(width: int, exec_mask: int) -> None:
    table = np.zeros((2, 256), np.int64)  # shared by all patterns: what one leaves must not disturb the next
    for name, address in patterns():
        plain = [int(value) for value in address]
        lines, masks = np.zeros(MAX_LINES, np.uint64), np.zeros((MAX_LINES, 2), np.uint64)
        count = touch_lines(address.astype(np.uint64), np.uint64(exec_mask), width, lines, masks, table)
        touched = reference.touched_bytes(plain, exec_mask, width)
        assert [int(line) for line in lines[:count]] == list(touched), name
        for position, wanted in enumerate(touched.values()):
            bits = int(masks[position, 0]) | int(masks[position, 1]) << 64
            assert bits == sum(1 << byte for byte in wanted), name
        assert walk(address, width, exec_mask) == reference.quad_walk(plain, exec_mask, width), name


def lds(address: np.ndarray, arch: str, access: MemoryAccess, exec_mask: int = ALL) -> tuple[int, int]:
    phases = lds_phases(arch, access)
    serial = access.kind is AccessKind.LDS_ATOMIC
    return lds_cycles(
        address.astype(np.uint64),
        np.uint64(exec_mask),
        access.piece_bytes,
        access.offsets[0],
        phases.phase_of_lane,
        phases.banks,
        serial,
        np.zeros((64, 8, 64), np.uint64),
        np.zeros((8, 64), np.int64),
    )


@pytest.mark.parametrize(
    ("arch", "kind", "width", "stride", "cycles"),
    [
        ("gfx942", "lds_read", 4, 4, 2),  # 256 bytes at 128 bytes a clk
        ("gfx942", "lds_read", 8, 8, 4),
        ("gfx942", "lds_read", 16, 16, 8),
        ("gfx942", "lds_write", 16, 16, 8),
        ("gfx950", "lds_read", 16, 16, 4),  # 1,024 bytes at 256 bytes a clk
        ("gfx950", "lds_read", 8, 8, 2),
        ("gfx950", "lds_write", 8, 8, 4),
        ("gfx942", "lds_read", 4, 128, 64),  # every lane on bank 0
        ("gfx942", "lds_read", 4, 0, 2),  # one dword for all lanes is a broadcast
        ("gfx942", "lds_atomic", 4, 0, 64),  # but not for atomics
        ("gfx942", "lds_write", 2, 2, 2),
        ("gfx942", "lds_read", 4, 8, 4),
    ],
)
def test_lds_cycles_of_known_patterns(arch: str, kind: str, width: int, stride: int, cycles: int) -> None:
    assert lds(LANES * stride, arch, MemoryAccess(AccessKind(kind), width))[0] == cycles


def test_documented_groups_decide_which_padding_is_free() -> None:
    """Rows of 64 bytes: lanes 0-3 with 20-23 share a phase on gfx942, so their banks differ where 0-7 would not."""
    access = MemoryAccess(AccessKind.LDS_READ, 16)
    address = (LANES % 4) * 16 + (LANES // 4) * 64
    assert lds(address, "gfx942", access) == (8, 8)
    address = (LANES // 8) * 16 + (LANES % 8) * 128
    cycles, free = lds(address, "gfx942", access)
    assert cycles > free == 8


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["lds_read", "lds_write", "lds_atomic"])
def test_compiled_lds_loop_equals_the_plain_one(arch: str, kind: str) -> None:
    for width in (1, 2, 4, 8, 12, 16):
        access = MemoryAccess(AccessKind(kind), width)
        phases = lds_phases(arch, access)
        for name, address in patterns():
            aligned = address % 65536 // width * width
            for exec_mask in (ALL, 0x0F0F00FF12345678):
                wanted = reference.lds_conflicts(
                    [int(value) for value in aligned],
                    exec_mask,
                    width,
                    phases.phase_of_lane.tolist(),
                    phases.banks,
                    serial=kind == "lds_atomic",
                )
                assert lds(aligned, arch, access, exec_mask) == wanted, (name, width)


def test_phases_partition_the_lanes() -> None:
    for arch in ("gfx942", "gfx950"):
        for kind in (AccessKind.LDS_READ, AccessKind.LDS_WRITE):
            for width in (4, 8, 12, 16):
                phase = lds_phases(arch, MemoryAccess(kind, width)).phase_of_lane
                sizes = np.bincount(phase)
                assert sizes.sum() == 64
                assert (sizes == sizes[0]).all()


@pytest.mark.parametrize("pattern", [lambda lanes: lanes * 4, lambda lanes: lanes * 128])
def test_fewer_lanes_never_ask_for_more(pattern: Callable[[np.ndarray], np.ndarray]) -> None:
    address = pattern(LANES)
    before = walk(address, 4)
    after = walk(address, 4, (1 << 40) - 1)
    assert all(few <= many for few, many in zip(after[:3], before[:3], strict=True))

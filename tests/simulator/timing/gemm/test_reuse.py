"""Bytes between the levels against an LRU cache that sees every block of operands, and against counts by hand."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from wavecast.simulator.timing.gemm import Configuration, GemmProblem, Tile
from wavecast.simulator.timing.gemm.reuse import Caches, movement, no_reuse, tile_order

MIB = 2**20


class Lru:
    """Blocks of operands, least recently used leave first."""

    def __init__(self, capacity: float) -> None:
        self.capacity, self.held, self.filled = capacity, OrderedDict[tuple[str, int, int], float](), 0.0

    def touch(self, key: tuple[str, int, int], size: float) -> bool:
        hit = key in self.held
        if hit:
            self.held.move_to_end(key)
        else:
            self.held[key] = size
            self.filled += size
            while self.filled > self.capacity and self.held:
                self.filled -= self.held.popitem(last=False)[1]
        return hit


def block_by_block(
    problem: GemmProblem, configuration: Configuration, caches: Caches, *, blocks: int
) -> tuple[float, float]:
    """(fabric, HBM) bytes of one dense product when all workgroups of a round walk along K in step."""
    (shape,) = problem.groups
    row, column = tile_order(*configuration.grid(shape), window=configuration.window)
    height = np.clip(shape.m - configuration.tile.m * row, 0, configuration.tile.m)
    width = np.clip(shape.n - configuration.tile.n * column, 0, configuration.tile.n)
    block_bytes = shape.k * problem.bits / 8 / blocks
    l2, mall = [Lru(caches.l2_bytes) for _ in range(caches.l2s)], Lru(caches.mall_bytes)
    fabric = hbm = 0.0
    for start in range(0, len(row), caches.slots):
        members = range(start, min(start + caches.slots, len(row)))
        share = -(-len(members) // caches.l2s)
        for block in range(blocks):
            for index in members:
                number = (index - start) // share if configuration.chunked else index % caches.l2s
                for key, lines in (
                    (("a", int(row[index]), block), height[index]),
                    (("b", int(column[index]), block), width[index]),
                ):
                    size = float(lines) * block_bytes
                    if not l2[number].touch(key, size):
                        fabric += size
                        if not mall.touch(key, size):
                            hbm += size
        for index in members:
            number = (index - start) // share if configuration.chunked else index % caches.l2s
            for cache in (l2[number], mall):
                cache.touch(("c", index, 0), float(height[index] * width[index] * problem.out_bytes))
    return fabric, hbm


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("window", [0, 1, 4, 8])
@pytest.mark.parametrize(("m", "n", "k"), [(2048, 1024, 4096), (1000, 3000, 512), (4096, 256, 256)])
@pytest.mark.parametrize(("l2_mib", "mall_mib"), [(0.06, 4), (0.06, 32), (16, 32), (16, 64), (64, 256)])
def test_bytes_equal_those_of_a_cache_that_sees_every_block(
    m: int, n: int, k: int, l2_mib: float, mall_mib: int, window: int, chunked: bool
) -> None:
    problem = GemmProblem.dense(m, n, k, "fp8")
    configuration = Configuration(Tile(128, 128), window=window, chunked=chunked)
    caches = Caches(slots=24, l2s=4, l2_bytes=int(l2_mib * MIB), mall_bytes=mall_mib * MIB, warm=False)
    moved = movement(problem, configuration, caches)
    fabric, hbm = block_by_block(problem, configuration, caches, blocks=128)
    # One step of a round fits. In the model panels stay or go as a whole: no capacity here cuts through a round.
    assert moved.fabric_read == pytest.approx(fabric, rel=0.05)
    assert moved.hbm_read == pytest.approx(hbm, rel=0.05)
    assert problem.minimum_bytes - 2 * m * n <= moved.hbm_read * (1 + 1e-9)
    assert moved.hbm_read <= moved.fabric_read <= moved.l2_read
    assert moved.written == 2 * m * n


def test_one_round_by_hand() -> None:
    # 4 x 4 tiles of 256 x 256 on one L2: each of the four panels of A and of B once; each tile reads one of either.
    problem = GemmProblem.dense(1024, 1024, 4096, "bf16")
    configuration = Configuration(Tile(256, 256))
    moved = movement(problem, configuration, Caches(slots=16, l2s=1, l2_bytes=MIB, mall_bytes=0, warm=False))
    panel = 256 * 4096 * 2
    assert (moved.l2_read, moved.fabric_read, moved.hbm_read) == (32 * panel, 8 * panel, 8 * panel)
    # Two L2s in turn: window of four rows, so that each has two rows of every column: 2 panels of A, 4 of B.
    moved = movement(problem, configuration, Caches(slots=16, l2s=2, l2_bytes=MIB, mall_bytes=64 * MIB, warm=False))
    assert (moved.fabric_read, moved.hbm_read) == (12 * panel, 8 * panel)
    # In one piece each: two columns of four rows, 4 panels of A and 2 of B.
    chunked = Configuration(Tile(256, 256), chunked=True)
    moved = movement(problem, chunked, Caches(slots=16, l2s=2, l2_bytes=MIB, mall_bytes=64 * MIB, warm=False))
    assert moved.fabric_read == 12 * panel
    # A cluster of one row and two columns reads a panel of A once for both.
    cluster = Configuration(Tile(256, 256), cluster=(1, 2))
    moved = movement(problem, cluster, Caches(slots=16, l2s=1, l2_bytes=MIB, mall_bytes=0, warm=False))
    assert moved.l2_read == 8 * panel + 16 * panel
    assert no_reuse(problem, configuration).hbm_read == 32 * panel


def test_a_launch_that_finds_its_operands_reads_nothing_if_they_fit() -> None:
    problem = GemmProblem.dense(1024, 1024, 1024, "fp8")
    caches = Caches(slots=16, l2s=1, l2_bytes=8 * MIB, mall_bytes=0, warm=True)
    assert movement(problem, Configuration(Tile(256, 256)), caches).hbm_read == 0
    small = Caches(slots=16, l2s=1, l2_bytes=MIB, mall_bytes=0, warm=True)
    assert movement(problem, Configuration(Tile(256, 256)), small).hbm_read == 2 * MIB


def test_groups_share_no_panel_and_parts_of_a_split_tile_none_either() -> None:
    caches = Caches(slots=64, l2s=1, l2_bytes=64 * MIB, mall_bytes=0, warm=False)
    tile = Configuration(Tile(128, 128))
    group = movement(GemmProblem.grouped_rows([256, 0, 128], 128, 512, "fp8"), tile, caches)
    assert group.hbm_read == (256 + 128 + 2 * 128) * 512
    assert group.written == 2 * (256 + 128) * 128
    split = Configuration(Tile(128, 128), split_k=4)
    moved = movement(GemmProblem.dense(128, 128, 4096, "fp8"), split, caches)
    assert moved.hbm_read == 256 * 4096
    assert moved.written == 4 * 4 * 128 * 128


@pytest.mark.parametrize(("rows", "columns", "window"), [(5, 7, 3), (1, 9, 8), (16, 3, 0), (3, 16, 0), (8, 8, 8)])
def test_every_tile_comes_once_and_windows_one_after_the_other(rows: int, columns: int, window: int) -> None:
    row, column = tile_order(rows, columns, window=window)
    assert sorted(zip(row.tolist(), column.tolist(), strict=True)) == [
        (r, c) for r in range(rows) for c in range(columns)
    ]
    if window:
        assert (np.diff(row // window) >= 0).all()
    elif columns > rows:
        assert column.tolist() == sorted(column.tolist())
    else:
        assert row.tolist() == sorted(row.tolist())


def test_a_narrow_window_moves_fewer_bytes_than_rows_one_by_one() -> None:
    problem = GemmProblem.dense(8192, 8192, 8192, "bf16")
    caches = Caches(slots=256, l2s=8, l2_bytes=4 * MIB, mall_bytes=223 * MIB, warm=False)
    fabric = {
        window: movement(problem, Configuration(Tile(256, 256), window=window, chunked=True), caches).fabric_read
        for window in (1, 8, 32)
    }
    assert fabric[8] < fabric[1] and fabric[8] < fabric[32]

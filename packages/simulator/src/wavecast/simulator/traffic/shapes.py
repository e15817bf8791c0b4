"""The shape of a wave instruction's accesses, remembered: most of them repeat one that was seen before.

A wave that walks through memory repeats the same distances between its lanes. Address cycles, requests and touched
bytes depend on the distances and on the place of the first lane within its line only, LDS cycles on the distances and
on its place within a dword (a shift by dwords turns the banks round). So a shape is worked out once and compared
afterwards; what does not match is worked out anew, and the result is the same either way.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from wavecast.simulator.compiled import compiled, compiled_borrowing, compiled_inline
from wavecast.simulator.traffic.coalescing import LINE_SHIFT, MAX_LINES, Count, lds_cycles, touch_lines, walk_quads
from wavecast.simulator.traffic.tables import LDS, Column

_LANES = 64
_SECTOR = np.uint64(0xFFFFFFFF)
# Shapes kept: stores of single bytes need one for each place in a line.
_SHAPES = 2048


class Fact(IntEnum):
    """Columns of a shape's facts."""

    INSTRUCTION = 0  # plus one; 0 marks a free entry
    PHASE = 1  # place of the first active lane in its line, or in its dword for LDS
    LINES = 2
    LANES = 3
    UNIQUE_BYTES = 4
    SEGMENTS = 5
    QUAD_CLK = 6
    RUN_CLK = 7
    REQUESTS = 8
    PARTIAL = 9
    LDS_CLK = 10
    LDS_FREE_CLK = 11
    SECTORS = 12
    PARTIAL_SECTORS = 13


class Shapes(NamedTuple):
    """Remembered shapes, a row each, and scratch of the loops that work them out.

    Attributes:
        facts: int64 (shapes, facts).
        exec: uint64, active lanes.
        distance: uint64 (shapes, 64), bytes from the first active lane; anything in the others.
        active: uint64 (shapes, 64), all ones in active lanes.
        lines: uint64 (shapes, MAX_LINES), line numbers less that of the first active lane, modulo 2**64.
        masks: uint64 (shapes, MAX_LINES, 2), bytes touched in each.
        weights: int16 (shapes, MAX_LINES), write requests to each.
        table: Scratch of ``touch_lines``.
        segments: Scratch of ``walk_quads``.
        dwords: Scratch of ``lds_cycles``.
        load: Scratch of ``lds_cycles``.
    """

    facts: np.ndarray
    exec: np.ndarray
    distance: np.ndarray
    active: np.ndarray
    lines: np.ndarray
    masks: np.ndarray
    weights: np.ndarray
    table: np.ndarray
    segments: np.ndarray
    dwords: np.ndarray
    load: np.ndarray


# Those of the launch before, forgotten: to map the memory anew costs as much as to simulate a small launch.
_spare: list[Shapes] = []


def empty_shapes(count: int = _SHAPES) -> Shapes:
    """Room for shapes.

    Args:
        count: How many, a power of two.
    """
    try:
        shapes = _spare.pop()
    except IndexError:
        return _new_shapes(count)
    if len(shapes.facts) != count:
        return _new_shapes(count)
    shapes.facts[:, Fact.INSTRUCTION] = 0
    return shapes


def release_shapes(shapes: Shapes) -> None:
    """Let another launch have the room; these must not be used any more."""
    _spare[:] = [shapes]


def _new_shapes(count: int) -> Shapes:
    return Shapes(
        facts=np.zeros((count, len(Fact)), dtype=np.int64),
        exec=np.zeros(count, dtype=np.uint64),
        distance=np.zeros((count, _LANES), dtype=np.uint64),
        active=np.zeros((count, _LANES), dtype=np.uint64),
        lines=np.zeros((count, MAX_LINES), dtype=np.uint64),
        masks=np.zeros((count, MAX_LINES, 2), dtype=np.uint64),
        weights=np.zeros((count, MAX_LINES), dtype=np.int16),
        table=np.zeros((2, 256), dtype=np.int64),
        segments=np.zeros(16, dtype=np.uint64),
        dwords=np.zeros((64, 8, 64), dtype=np.uint64),
        load=np.zeros((8, 64), dtype=np.int64),
    )


@compiled_borrowing
def first_active(exec_mask: Any) -> Any:
    """First active lane; 0 if none is."""
    for lane in range(_LANES):
        if (exec_mask >> np.uint64(lane)) & np.uint64(1):
            return lane
    return 0


@compiled_borrowing
def row_of(instruction: Any, exec_mask: Any, phase: Any, rows: Any) -> Any:
    """Where the shape of a record belongs.

    Args:
        instruction: Static instruction.
        exec_mask: uint64.
        phase: See ``Fact.PHASE``.
        rows: Number of shapes, a power of two.
    """
    key = np.uint64(instruction * 128 + phase) ^ (exec_mask * np.uint64(0x9E3779B97F4A7C15))
    return np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & (rows - 1)


@compiled_inline
def is_known(
    facts: np.ndarray,
    execs: np.ndarray,
    distance: np.ndarray,
    active: np.ndarray,
    row: Any,
    instruction: Any,
    exec_mask: Any,
    phase: Any,
    address: np.ndarray,
    base: Any,
) -> Any:
    """Whether a row describes a record. Takes the arrays one by one: handing over the tuple costs more than the rest.

    Args:
        facts: Of ``Shapes``, as the next three.
        execs: uint64.
        distance: uint64 (shapes, 64).
        active: uint64 (shapes, 64).
        row: From ``row_of``.
        instruction: Static instruction.
        exec_mask: uint64.
        phase: See ``Fact.PHASE``.
        address: uint64[64].
        base: Address of the first active lane.
    """
    if facts[row, Fact.INSTRUCTION] != instruction + 1 or facts[row, Fact.PHASE] != phase or execs[row] != exec_mask:
        return False
    different = np.uint64(0)
    if facts[row, Fact.LANES] == _LANES:
        for lane in range(_LANES):
            different |= (address[lane] - base) ^ distance[row, lane]
    else:
        for lane in range(_LANES):
            different |= ((address[lane] - base) ^ distance[row, lane]) & active[row, lane]
    return different == np.uint64(0)


@compiled_borrowing
def describe(
    shapes: Shapes,
    row: Any,
    instruction: Any,
    exec_mask: Any,
    phase: Any,
    address: np.ndarray,
    base: Any,
    columns: np.ndarray,
    phases: np.ndarray,
) -> Any:
    """Work out the shape of a record.

    Args:
        shapes: The row is filled.
        row: From ``row_of``.
        instruction: Static instruction.
        exec_mask: uint64.
        phase: See ``Fact.PHASE``.
        address: uint64[64].
        base: Address of the first active lane.
        columns: int64, the instruction's row of ``InstructionTables.columns``.
        phases: int64[64], its LDS phases.
    """
    facts, distance, active = shapes.facts[row], shapes.distance[row], shapes.active[row]
    facts[:] = 0
    facts[Fact.INSTRUCTION], facts[Fact.PHASE] = instruction + 1, phase
    shapes.exec[row] = exec_mask
    for lane in range(_LANES):
        distance[lane] = address[lane] - base
        bit = (exec_mask >> np.uint64(lane)) & np.uint64(1)
        active[lane] = np.uint64(0) - bit
        facts[Fact.LANES] += np.int64(bit)
    if columns[Column.SPACE] == LDS:
        _describe_lds(shapes, facts, exec_mask, address, columns, phases)
    else:
        _describe_lines(shapes, row, exec_mask, address, base, columns[Column.WIDTH])


@compiled_borrowing
def _describe_lds(
    shapes: Shapes, facts: np.ndarray, exec_mask: Any, address: np.ndarray, columns: np.ndarray, phases: np.ndarray
) -> Any:
    for piece in range(columns[Column.PIECES]):
        cycles, free = lds_cycles(
            address,
            exec_mask,
            columns[Column.WIDTH],
            columns[Column.OFFSET_0 + piece],
            phases,
            columns[Column.BANKS],
            columns[Column.SERIAL] != 0,
            shapes.dwords,
            shapes.load,
        )
        facts[Fact.LDS_CLK] += cycles
        facts[Fact.LDS_FREE_CLK] += free


@compiled_borrowing
def _describe_lines(shapes: Shapes, row: Any, exec_mask: Any, address: np.ndarray, base: Any, width: Any) -> Any:
    facts, lines, masks, weights = shapes.facts[row], shapes.lines[row], shapes.masks[row], shapes.weights[row]
    count = touch_lines(address, exec_mask, width, lines, masks, shapes.table)
    quad_clk, run_clk, requests, partial = walk_quads(
        address, exec_mask, width, lines, count, shapes.table, weights, shapes.segments
    )
    facts[Fact.LINES], facts[Fact.REQUESTS], facts[Fact.PARTIAL] = count, requests, partial
    facts[Fact.QUAD_CLK], facts[Fact.RUN_CLK] = quad_clk, run_clk
    for position in range(count):
        lines[position] -= base >> np.uint64(LINE_SHIFT)
        for mask in masks[position]:
            facts[Fact.UNIQUE_BYTES] += bits_of(mask)
            facts[Fact.SEGMENTS] += 1 if mask else 0
            for sector in (mask & _SECTOR, mask >> np.uint64(32)):
                facts[Fact.SECTORS] += 1 if sector else 0
                facts[Fact.PARTIAL_SECTORS] += 1 if sector and sector != _SECTOR else 0


@compiled
def bits_of(word: Any) -> Any:
    """Number of set bits."""
    count = 0
    while word:
        word &= word - np.uint64(1)
        count += 1
    return count


@compiled_borrowing
def add_counts(
    counts: np.ndarray, facts: np.ndarray, columns: np.ndarray, instruction: Any, row: Any, is_read: Any
) -> Any:
    """Add one execution of a shape to the counters of its instruction.

    Args:
        counts: int64 (instructions, COUNTS).
        facts: Of ``Shapes``.
        columns: Of ``InstructionTables``.
        instruction: Static instruction.
        row: Shape.
        is_read: Whether it is a load from global memory, which makes a request a line and no partial ones.
    """
    lanes, lines = facts[row, Fact.LANES], facts[row, Fact.LINES]
    counts[instruction, Count.LANES] += lanes
    counts[instruction, Count.BYTES] += lanes * columns[instruction, Column.WIDTH] * columns[instruction, Column.PIECES]
    counts[instruction, Count.UNIQUE_BYTES] += facts[row, Fact.UNIQUE_BYTES]
    counts[instruction, Count.SEGMENTS] += facts[row, Fact.SEGMENTS]
    counts[instruction, Count.LINES] += lines
    counts[instruction, Count.QUAD_CLK] += facts[row, Fact.QUAD_CLK]
    counts[instruction, Count.RUN_CLK] += facts[row, Fact.RUN_CLK]
    counts[instruction, Count.REQUESTS] += lines if is_read else facts[row, Fact.REQUESTS]
    counts[instruction, Count.PARTIAL] += 0 if is_read else facts[row, Fact.PARTIAL]
    counts[instruction, Count.SECTORS] += facts[row, Fact.SECTORS]
    counts[instruction, Count.PARTIAL_SECTORS] += facts[row, Fact.PARTIAL_SECTORS]
    counts[instruction, Count.LDS_CLK] += facts[row, Fact.LDS_CLK]
    counts[instruction, Count.LDS_CONFLICT_CLK] += facts[row, Fact.LDS_CLK] - facts[row, Fact.LDS_FREE_CLK]

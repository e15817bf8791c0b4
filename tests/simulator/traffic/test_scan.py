"""The loop over the trace, which remembers shapes, against plain Python, which works every record out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import plain_loops as reference
import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.caches import EVENT, LEVELS, READ, READ_FROM_L1, ROUNDS
from wavecast.simulator.traffic.channels import STEPS
from wavecast.simulator.traffic.coalescing import COUNTS, Count
from wavecast.simulator.traffic.l1 import empty_l1
from wavecast.simulator.traffic.l2_map import hashed_map, plain_map
from wavecast.simulator.traffic.scan import Cursor, scan, start_of_trace, words_of
from wavecast.simulator.traffic.shapes import empty_shapes
from wavecast.simulator.traffic.tables import InstructionTables, instruction_tables

LANES = np.arange(64, dtype=np.uint64)
ALL = (1 << 64) - 1
XCDS, CHANNELS = 8, 16
MAPS = np.array([hashed_map(load_device("mi300x")), plain_map(load_device("mi300x"))])
OPCODES = (
    "global_load_dwordx4",
    "global_store_byte",
    "global_atomic_add_f32",
    "ds_read_b128",
    ("ds_write2_b32", {"offset0": 0, "offset1": 33}),
    "ds_add_u32",
    "scratch_load_dword",
)


def trace(record_of: Callable[..., np.ndarray], count: int) -> np.ndarray:
    """Records of every instruction whose shapes recur at other places, in other lanes, and once only."""
    random = np.random.default_rng(5)
    distances = [LANES * 16, LANES * 4, LANES % 16 * 256 + LANES // 16, (63 - LANES) * 8, LANES * 0]
    places = [0, 128, 4096, 4097, 4100, 65536 + 64]
    masks = [ALL, ALL, (1 << 40) - 1, 0xF0F0F0F0F0F0F0F0, 1 << 63, 0]
    records = []
    for number in range(count):
        index = int(random.integers(len(OPCODES)))
        distance = distances[random.integers(len(distances))]
        if random.integers(8) == 0:
            distance = random.integers(0, 4096, 64).astype(np.uint64)
        address = (1 << 20) + int(random.choice(places)) + distance
        if index in (3, 4, 5):
            address = address % 32768 // 4 * 4
        mask = masks[random.integers(len(masks))]
        # What lies in lanes that take no part must not matter.
        idle = np.array([not mask >> lane & 1 for lane in range(64)])
        address = np.where(idle, random.integers(0, 1 << 40, 64).astype(np.uint64), address)
        records.append(record_of(index, address, workgroup=number // 50, wave=number % 2, exec_mask=mask))
    return np.concatenate(records)


def scanned(records: np.ndarray, tables: InstructionTables, shapes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counters, events and channel loads."""
    counts = np.zeros((len(OPCODES), COUNTS), dtype=np.int64)
    events, cursor = np.zeros(200_000, dtype=EVENT), start_of_trace()
    channels = np.zeros((XCDS, STEPS, len(MAPS), CHANNELS), dtype=np.int32)
    taken = scan(
        *(records[name] for name in ("instruction", "wave", "workgroup", "exec")),
        words_of(records),
        tables.columns,
        tables.phase_of_lane,
        empty_shapes(shapes),
        counts,
        np.zeros(2, dtype=np.int64),
        np.zeros((2, len(OPCODES)), dtype=np.int64),
        empty_l1(load_device("mi300x"), 1),
        np.zeros((len(OPCODES), LEVELS), dtype=np.int64),
        np.arange(len(OPCODES)),
        np.zeros((len(OPCODES), 2, ROUNDS, 2), dtype=np.int32),
        events,
        np.zeros(1000, dtype=np.int64),
        channels,
        MAPS,
        cursor,
        1000,
        1,
    )
    assert taken == len(records)
    return counts, events[: cursor[Cursor.EVENTS]], channels


def plainly(records: np.ndarray, tables: InstructionTables) -> tuple[np.ndarray, list[tuple[int, ...]], np.ndarray]:
    """Counters, (line, bytes, order, instruction, workgroup) of every event, and channel loads."""
    counts = np.zeros((len(OPCODES), COUNTS), dtype=np.int64)
    events: list[tuple[int, ...]] = []
    load = np.zeros((XCDS, STEPS, len(MAPS), CHANNELS), dtype=np.int32)
    order: Counter[tuple[int, int]] = Counter()
    for record in records:
        index, mask, address = int(record["instruction"]), int(record["exec"]), record["address"].tolist()
        access, count = tables.accesses[index], counts[index]
        assert access is not None
        count[Count.EXECUTED] += 1
        count[Count.LANES] += mask.bit_count()
        count[Count.BYTES] += mask.bit_count() * access.bytes_per_lane
        if access.kind.is_lds:
            for offset in access.offsets:
                cycles, free = reference.lds_conflicts(
                    [place + offset for place in address],
                    mask,
                    access.piece_bytes,
                    tables.phase_of_lane[index].tolist(),
                    32,
                    serial=access.kind == "lds_atomic",
                )
                count[Count.LDS_CLK] += cycles
                count[Count.LDS_CONFLICT_CLK] += cycles - free
        if not access.kind.is_global:
            continue
        touched = reference.touched_bytes(address, mask, access.piece_bytes)
        quad_clk, run_clk, requests, partial, by_line = reference.quad_walk(address, mask, access.piece_bytes)
        is_read = access.kind == "load"
        count[Count.UNIQUE_BYTES] += sum(len(places) for places in touched.values())
        count[Count.SEGMENTS] += sum(len({byte >> 6 for byte in places}) for places in touched.values())
        sectors = Counter((line, byte >> 5) for line, places in touched.items() for byte in places)
        count[Count.SECTORS] += len(sectors)
        count[Count.PARTIAL_SECTORS] += sum(size < 32 for size in sectors.values())
        count[Count.LINES] += len(touched)
        count[Count.QUAD_CLK] += quad_clk
        count[Count.RUN_CLK] += run_clk
        count[Count.REQUESTS] += len(touched) if is_read else requests
        count[Count.PARTIAL] += 0 if is_read else partial
        stream = int(record["workgroup"]), int(record["wave"])
        for line, places in touched.items():
            events.append((line, sum(1 << byte for byte in places), order[stream], index, stream[0]))
            for number, hashed in enumerate((True, False)):
                channel = reference.l2_channel(line, hashed=hashed)
                load[stream[0] % XCDS, order[stream], number, channel] += 1 if is_read else by_line[line]
        order[stream] += 1
    return counts, events, load


@pytest.mark.parametrize("shapes", [1, 16, 2048])
def test_remembered_shapes_equal_those_worked_out(
    shapes: int, kernel_of: Callable[..., Kernel], record_of: Callable[..., np.ndarray]
) -> None:
    tables = instruction_tables(kernel_of(OPCODES, lds_bytes=65536))
    records = trace(record_of, 600)
    counts, events, channels = scanned(records, tables, shapes)
    wanted_counts, wanted_events, wanted_load = plainly(records, tables)
    assert (counts == wanted_counts).all()
    found = [
        (
            int(event["line"]),
            int(event["low"]) | int(event["high"]) << 64,
            int(event["order"]),
            int(event["instruction"]),
            int(event["slot"]),
        )
        for event in events
    ]
    assert found == wanted_events
    assert (events["xcd"] == events["slot"] % XCDS).all()
    assert (channels == wanted_load).all()
    assert set(events["kind"][events["instruction"] == 0]) == {READ, READ_FROM_L1}


def test_a_trace_in_pieces_is_taken_as_a_whole(
    kernel_of: Callable[..., Kernel], record_of: Callable[..., np.ndarray]
) -> None:
    """The loop stops in front of a window's end and of a full batch, and goes on there."""
    tables = instruction_tables(kernel_of(OPCODES, lds_bytes=65536))
    records = np.concatenate([record_of(0, (1 << 20) + LANES * 16, workgroup=number) for number in range(40)])
    counts, events, cursor = np.zeros((len(OPCODES), COUNTS), np.int64), np.zeros(160, EVENT), start_of_trace()
    slots, shapes, done, stops = np.zeros(100, np.int64), empty_shapes(), 0, []
    l1, levels = empty_l1(load_device("mi300x"), 1), np.zeros((len(OPCODES), LEVELS), np.int64)
    misses = np.zeros((len(OPCODES), 1, ROUNDS, 2), np.int32)
    while done < len(records):
        part = records[done:]
        done += scan(
            *(part[name] for name in ("instruction", "wave", "workgroup", "exec")),
            words_of(part),
            *(
                tables.columns,
                tables.phase_of_lane,
                shapes,
                counts,
                np.zeros(1, np.int64),
                np.zeros((1, len(OPCODES)), np.int64),
                l1,
                levels,
                np.arange(len(OPCODES)),
                misses,
                events,
                slots,
            ),
            *(np.zeros((XCDS, STEPS, len(MAPS), CHANNELS), np.int32), MAPS, cursor, 27 if done < 27 else 100, 1),
        )
        stops.append((done, int(cursor[Cursor.EVENTS]), int(cursor[Cursor.SLOT])))
        cursor[Cursor.EVENTS], cursor[Cursor.SETTLED], cursor[Cursor.SLOT] = 0, 0, -1
    # 160 events hold five records of eight lines before the 128 that one more might need do not fit.
    ends = [5, 10, 15, 20, 25, 27, 32, 37, 40]
    taken = np.diff([0, *ends])
    assert stops == [(end, 8 * count, count - 1) for end, count in zip(ends, taken, strict=True)]
    assert counts[0, Count.LINES] == 320

"""Sectors of an H200, counted by hand: what lanes ask for, what L1 and L2 bring in, what is read before it leaves."""

from __future__ import annotations

import numpy as np
import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.program.ptx import parse_ptx
from wavecast.simulator.traffic import BufferRange, Traffic, TrafficObserver

H200 = load_device("h200")
MEGABYTE = 1 << 20
KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry probe(.param .u64 probe_param_0, .param .u64 probe_param_1) .reqntid 32
{{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<60>; .reg .b64 %d<9>;
ld.param.u64 %d1, [probe_param_0];
ld.param.u64 %d2, [probe_param_1];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.s32 %r3, %r2, 32, %r1;
{body}
ret;
}}
"""


def traffic(body: str, *, blocks: int = 64, size: int = 64 * MEGABYTE // 16) -> Traffic:
    """Traffic of blocks of one warp; %r3 is the thread in the grid, %d1 and %d2 are buffers of ``size`` bytes."""
    kernel = parse_ptx(KERNEL.format(body=body), registers=32)
    memory = AddressSpace()
    arrays = [np.zeros(size, dtype=np.uint8) for _ in range(2)]
    pointers = [memory.map_array(array, f"buffer {number}") for number, array in enumerate(arrays)]
    buffers = [BufferRange(buffer.device, buffer.size, buffer.name) for buffer in memory.buffers]
    observer = TrafficObserver(kernel, H200, total_workgroups=blocks, buffers=buffers)
    done = Engine().execute(kernel, grid=(blocks, 1, 1), arguments=pointers, memory=memory, observer=observer, record=4)
    return observer.result(done)


@pytest.mark.parametrize(
    ("stride", "sectors", "hbm_bytes"),
    [(4, 4, 128), (8, 8, 256), (32, 32, 1024), (64, 32, 2048), (128, 32, 2048)],
)
def test_a_load_at_a_stride_moves_its_sectors_and_hbm_two_at_a_time(stride: int, sectors: int, hbm_bytes: int) -> None:
    """The profiler shows 1, 2, 8, 16 and 16 bytes of HBM for a useful byte at strides of 4, 8, 32, 64 and 128 bytes."""
    found = traffic(f"mad.wide.u32 %d3, %r3, {stride}, %d1; ld.global.b32 %r4, [%d3];")
    (row,) = [row for row in found.instructions if row.opcode.startswith("ld.global")]
    assert (row.executed, row.sectors) == (64, 64 * sectors)
    assert found.l2_read_bytes == 64 * 32 * sectors
    assert found.hbm_read_bytes == 64 * hbm_bytes
    assert found.coalescing_efficiency == pytest.approx(128 / (32 * sectors))


def test_another_sector_of_a_line_in_l1_is_fetched_and_the_same_one_is_not() -> None:
    load = "ld.global.b32 %r4, [%d3{}];"
    setup = "mad.wide.u32 %d3, %r3, 128, %d1; "
    again = traffic(setup + load.format("") + load.format("+4"))
    other = traffic(setup + load.format("") + load.format("+32"))
    assert (again.l2_read_bytes, other.l2_read_bytes) == (64 * 32 * 32, 2 * 64 * 32 * 32)
    # The neighbour came from HBM with the first.
    assert again.hbm_read_bytes == other.hbm_read_bytes == 64 * 32 * 64
    assert traffic(setup + load.format("") + load.format("+64")).hbm_read_bytes == 64 * 32 * 128


@pytest.mark.parametrize(("width", "whole"), [(1, False), (4, False), (16, False), (32, True)])
def test_a_sector_that_is_written_in_part_is_read_before_it_leaves(width: int, whole: bool) -> None:
    store = {
        1: "cvt.u16.u32 %h1, %r1; st.global.b8 [%d3], %h1;",
        4: "st.global.b32 [%d3], %r1;",
        16: "st.global.v4.b32 [%d3], {%r1, %r1, %r1, %r1};",
        32: "st.global.v4.b32 [%d3], {%r1, %r1, %r1, %r1}; st.global.v4.b32 [%d3+16], {%r1, %r1, %r1, %r1};",
    }[width]
    found = traffic(f"mad.wide.u32 %d3, %r3, 64, %d1; {store}")
    sectors = 64 * 32
    # Two halves of a sector go to the L2 together.
    assert found.l2_write_bytes == 32 * sectors
    assert found.l2_partial_write_requests == (0 if whole else sectors)
    assert found.hbm_write_bytes == 32 * sectors
    assert found.hbm_read_bytes == (0 if whole else 32 * sectors)


def test_whole_sectors_need_no_fill() -> None:
    found = traffic("mad.wide.u32 %d3, %r3, 4, %d1; st.global.b32 [%d3], %r1;")
    assert (found.l2_write_bytes, found.l2_partial_write_requests) == (64 * 128, 0)
    assert (found.hbm_read_bytes, found.hbm_write_bytes) == (0, 64 * 128)

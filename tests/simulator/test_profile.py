from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from wavecast.simulator.compile.load import load_code_objects
from wavecast.simulator.devices import Device
from wavecast.simulator.devices.loader import load_device
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.launch import LaunchResult, simulate_launch
from wavecast.simulator.profile import (
    LAUNCH,
    SHARED,
    WAVE_START,
    WRITE_BACK,
    LaunchProfile,
    executed_by_group,
    line_of,
    path_of,
    profile_launch,
)
from wavecast.simulator.timing import predict_time
from wavecast.simulator.virtual import virtual_device

pytestmark = [pytest.mark.compile, pytest.mark.execute]


@triton.jit
def scattered(x_ptr, offsets, STRIDE: tl.constexpr, TIMES: tl.constexpr):
    total = tl.load(x_ptr + offsets * TIMES * STRIDE)
    for time in tl.static_range(1, TIMES):
        total += tl.load(x_ptr + (offsets * TIMES + time) * STRIDE)
    return total


@triton.jit
def planted(x_ptr, y_ptr, out_ptr, low_ptr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    near = tl.load(x_ptr + columns)
    far = scattered(y_ptr, columns, STRIDE, 32)
    total = tl.sum(near + far, axis=0)
    tl.store(out_ptr + columns, near * total)
    tl.atomic_min(low_ptr + columns % 64, near, sem="acq_rel")


BLOCK, STRIDE, GROUPS = 256, 32, 64


def line_number(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.fixture(scope="module")
def spec() -> Device:
    return load_device("mi300x")


@pytest.fixture(scope="module")
def result() -> LaunchResult:
    x, out = torch.rand(GROUPS * BLOCK), torch.empty(GROUPS * BLOCK)
    y, low = torch.zeros(GROUPS * BLOCK * STRIDE * 32), torch.full((64,), 9.0)
    with virtual_device("mi300x") as device:
        planted[(GROUPS,)](x, y, out, low, STRIDE=STRIDE, BLOCK=BLOCK)
    return device.launches[0].result


@pytest.fixture(scope="module")
def profile(result: LaunchResult, spec: Device) -> LaunchProfile:
    return profile_launch(result, result.time, spec)


def times_by_line(result: LaunchResult, profile: LaunchProfile) -> Counter[str]:
    times: Counter[str] = Counter()
    for item in profile.instructions:
        times[str(line_of(result.kernel, result.kernel.instructions[item.index]))] += item.time_us  # type: ignore[assignment]
    return times


@pytest.mark.parametrize("position", ["first", "back-to-back"])
def test_times_add_up_to_the_prediction(position: str, result: LaunchResult, spec: Device) -> None:
    time = predict_time(result.kernel, result.execution, result.traffic, spec, position=position)
    profile = profile_launch(result, time, spec)
    rest = dict(profile.rest)
    in_instructions = sum(item.time_us for item in profile.instructions)
    assert math.isclose(in_instructions + sum(rest.values()), time.predicted_us, rel_tol=1e-9)
    assert rest[LAUNCH] == (spec.launch.first_us if position == "first" else spec.launch.back_to_back_us)
    assert all(name in (LAUNCH, WAVE_START, WRITE_BACK) or name.startswith(SHARED) for name in rest)


def test_counts_add_up_to_the_traffic(result: LaunchResult, profile: LaunchProfile) -> None:
    traffic, items = result.traffic, profile.instructions
    assert sum(item.asked_bytes for item in items) == traffic.bytes_asked
    assert sum(item.moved_bytes for item in items) == traffic.l2_read_bytes + traffic.l2_write_bytes
    distinct, segments = sum(item.distinct_bytes for item in items), sum(item.segment_bytes for item in items)
    assert math.isclose(distinct / segments, traffic.coalescing_efficiency)
    assert sum(item.lds_clk for item in items) == traffic.lds_clk
    assert sum(item.lds_conflict_clk for item in items) == traffic.lds_conflict_clk
    assert sum(item.release_fences for item in items) == traffic.release_fences > 0
    assert sum(item.acquire_fences for item in items) == traffic.acquire_fences > 0
    assert sum(item.executed for item in items) == result.execution.executed.sum()
    assert sum(executed_by_group(result).values()) == result.execution.executed.sum()


def test_waiting_is_charged_to_what_is_waited_for(result: LaunchResult, profile: LaunchProfile) -> None:
    instructions = result.kernel.instructions
    waits = [item for item in profile.instructions if instructions[item.index].opcode == "s_waitcnt"]
    loads = [
        item
        for item in profile.instructions
        if instructions[item.index].opcode.startswith(("global_load", "buffer_load"))
    ]
    assert waits
    assert all(item.wait_us == item.barrier_us == 0 for item in waits)
    assert sum(item.wait_us for item in loads) > sum(item.time_us for item in waits)


def test_a_planted_slow_line_is_the_slowest_load(result: LaunchResult, profile: LaunchProfile) -> None:
    times = times_by_line(result, profile)
    slow = f"test_profile.py:{line_number(scattered, 'total += tl.load')}"
    fast = f"test_profile.py:{line_number(planted, 'near = tl.load')}"
    assert times[slow] > 2 * times[fast] > 0


def test_inlined_code_counts_for_the_helper_but_a_library_for_its_caller(
    result: LaunchResult, profile: LaunchProfile
) -> None:
    files = {name.partition(":")[0] for name in times_by_line(result, profile)}
    assert files <= {"test_profile.py", "None"}
    assert any(frame.file == "standard.py" for item in result.kernel.instructions for frame in item.frames)
    sums = f"test_profile.py:{line_number(planted, 'tl.sum')}"
    assert times_by_line(result, profile)[sums] > 0
    places = filter(None, (line_of(result.kernel, item) for item in result.kernel.instructions))
    paths = {Path(path_of(result.kernel, place)) for place in places}
    # The compiler's cache may hold what another checkout compiled: the folder does not count.
    assert all(path.is_absolute() for path in paths) and {path.name for path in paths} == {Path(__file__).name}


SPILLS = """
#include <hip/hip_runtime.h>
__global__ void pick(const int *index, float *out) {
  float values[512];
  for (int i = 0; i < 32; i++) values[i] = out[i] + i;
  for (int i = 0; i < 8; i++) values[(index[i] + threadIdx.x) & 511] = 1.0f;
  out[threadIdx.x] = values[index[threadIdx.x] & 511];
}
"""


def test_private_memory_is_on_the_lines_that_touch_it(tmp_path: Path, spec: Device) -> None:
    path = tmp_path / "pick.hip"
    path.write_text(SPILLS)
    (code,) = load_code_objects(path, arch="gfx942", options=("-O1",))
    memory = AddressSpace()
    arguments = [memory.map_array(np.zeros(64, kind), name) for kind, name in ((np.int32, "index"), (np.float32, "o"))]
    launch: Callable[..., LaunchResult] = partial(simulate_launch, code, memory=memory, device=spec)
    result = launch(grid=(1, 1, 1), block=(64, 1, 1), arguments=arguments)
    profile = profile_launch(result, result.time, spec)
    assert sum(item.scratch_bytes for item in profile.instructions) == result.traffic.scratch_bytes > 0
    lines = {
        place.line
        for item in profile.instructions
        if item.scratch_bytes and (place := line_of(result.kernel, result.kernel.instructions[item.index]))
    }
    assert lines == {5, 6, 7}

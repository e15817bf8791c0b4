"""A virtual device without Triton: what reaches the simulator, what is recorded."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.devices import load_device
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.virtual.arguments import LaunchArgument
from wavecast.simulator.virtual.device import MAXIMUM_GRID, VirtualDevice, canonical_grid
from wavecast.simulator.virtual.tensor import HostTensor


class Recorder:
    """Stands for the simulator: remembers each call and numbers the results."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, code: CodeObject, **keywords: Any) -> int:
        self.calls.append({"code": code, **keywords})
        return len(self.calls)


def code(arch: str = "gfx942") -> CodeObject:
    return CodeObject("scale", arch, "", "test", num_warps=2, lds_bytes=0)


def test_launch_reaches_the_simulator_and_is_recorded() -> None:
    recorder, array = Recorder(), np.zeros(8, np.float32)
    device = VirtualDevice(load_device("mi300x"), workgroups="sample", simulate=recorder)
    arguments = [LaunchArgument("x", "*fp32", HostTensor(array)), LaunchArgument("n", "i32", 8)]
    record = device.launch(code(), grid=(3,), arguments=arguments)
    [call] = recorder.calls
    assert call == {
        "code": code(),
        "grid": (3, 1, 1),
        "arguments": [device.memory.device_pointer(array.ctypes.data), 8],
        "memory": device.memory,
        "device": load_device("mi300x"),
        "workgroups": "sample",
    }
    assert device.launches == [record]
    assert record is not None
    assert (record.kernel, record.grid, record.num_warps, record.argument_names, record.result) == (
        "scale",
        (3, 1, 1),
        2,
        ("x", "n"),
        1,
    )
    with pytest.raises(FrozenInstanceError):
        record.result = 2  # type: ignore[misc]


def test_failed_launch_is_not_recorded() -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise LaunchError("no")

    device = VirtualDevice(load_device("mi300x"), simulate=fail)
    with pytest.raises(LaunchError, match="no"):
        device.launch(code(), grid=(1,), arguments=[])
    assert device.launches == []


def test_empty_grid_is_no_launch() -> None:
    recorder = Recorder()
    device = VirtualDevice(load_device("mi300x"), simulate=recorder)
    assert device.launch(code(), grid=(4, 0), arguments=[]) is None
    assert (recorder.calls, device.launches) == ([], [])


def test_code_object_of_another_architecture_is_refused() -> None:
    device = VirtualDevice(load_device("mi355x"), simulate=Recorder())
    with pytest.raises(LaunchError, match=r"scale was compiled for gfx942, .* mi355x is gfx950"):
        device.launch(code("gfx942"), grid=(1,), arguments=[])


def test_unknown_choice_of_workgroups_is_refused() -> None:
    with pytest.raises(LaunchError, match="'some'") as error:
        VirtualDevice(load_device("mi300x"), workgroups="some")  # type: ignore[arg-type]
    assert "sample" in error.value.hint


@pytest.mark.parametrize(
    ("grid", "shape"), [((5,), (5, 1, 1)), ((5, 6), (5, 6, 1)), ((np.int64(5), 6, 7), (5, 6, 7)), ([0], (0, 1, 1))]
)
def test_grid_is_completed(grid: Any, shape: tuple[int, int, int]) -> None:
    assert canonical_grid("k", grid) == shape


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), (-1,), (1.5,), (MAXIMUM_GRID + 1,), ("2",)])
def test_bad_grid_names_the_kernel(grid: Any) -> None:
    with pytest.raises(LaunchError, match="scale cannot be launched on grid"):
        canonical_grid("scale", grid)

"""Triton under a virtual device: target, launches, restored state."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from wavecast.simulator.devices import load_device
from wavecast.simulator.errors import LaunchError, UnknownDeviceError
from wavecast.simulator.virtual import HostTensor, active_virtual_device, virtual_device
from wavecast.simulator.virtual.driver import VirtualUtils

try:
    import torch
except ImportError:  # The simulator works without it.
    torch = None

pytestmark = pytest.mark.compile


@triton.jit
def scale_kernel(source, target, count, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index, mask=index < count)
    tl.store(target + index, value * factor, mask=index < count)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["count"])
@triton.jit
def tuned_kernel(source, target, count, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index, mask=index < count)
    tl.store(target + index, value * factor, mask=index < count)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=1)], key=["count"])
@triton.jit
def single_choice_kernel(source, target, count, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index, mask=index < count)
    tl.store(target + index, value * factor, mask=index < count)


class Recorder:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, code: Any, **keywords: Any) -> int:
        self.calls.append({"code": code, **keywords})
        return len(self.calls)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def tensors() -> tuple[Any, Any]:
    """Two 16-byte aligned vectors of 1000 fp32."""
    if torch is not None:
        return torch.zeros(1000), torch.zeros(1000)
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 9):
        pytest.skip("Triton before 3.9 imports torch when it looks at a tensor")
    return HostTensor(np.zeros(1000, np.float32)), HostTensor(np.zeros(1000, np.float32))


@pytest.fixture(autouse=True)
def untouched_state() -> Iterator[None]:
    """Every test must leave Triton and the environment as they were."""
    driver, variables = triton.runtime.driver._active, dict(os.environ)
    yield
    assert triton.runtime.driver._active is driver
    assert {k: v for k, v in os.environ.items() if k.startswith("TRITON")} == {
        k: v for k, v in variables.items() if k.startswith("TRITON")
    }


@pytest.mark.parametrize(
    ("name", "arch", "units", "lds_bytes"),
    [("mi300x", "gfx942", 304, 65536), ("mi355x", "gfx950", 256, 163840), ("mi300a", "gfx942", 228, 65536)],
)
def test_triton_sees_the_device(name: str, arch: str, units: int, lds_bytes: int) -> None:
    with virtual_device(name) as device:
        driver = triton.runtime.driver.active
        target = driver.get_current_target()
        assert driver.is_virtual
        assert (target.backend, target.arch, target.warp_size) == ("hip", arch, 64)
        properties = driver.utils.get_device_properties(driver.get_current_device())
        assert properties["multiprocessor_count"] == units
        assert properties["max_shared_mem"] == lds_bytes
        assert (properties["arch"], properties["warpSize"]) == (arch, 64)
        assert active_virtual_device() is device
        assert str(driver.get_active_torch_device()) == "cpu"
        assert driver.get_device_capability() == (9, 4 if arch == "gfx942" else 5)
        driver.set_current_device(driver.get_current_device())
        with pytest.raises(LaunchError, match="device 0 is not active"):
            driver.set_current_device(0)
        assert driver.get_current_stream(driver.get_current_device()) == 0
        driver.get_device_interface().synchronize()


def test_launch_carries_addresses_scalars_and_scratch(recorder: Recorder, tensors: tuple[Any, Any]) -> None:
    source, target = tensors
    with virtual_device("mi300x", simulate=recorder) as device:
        scale_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](
            source, target, 1000, 2.5, BLOCK=256, num_warps=2
        )
    [call] = recorder.calls
    first, second = (device.memory.device_pointer(tensor.data_ptr()) for tensor in tensors)
    assert call["arguments"] == [first, second, 1000, np.float32(2.5).tobytes(), 0, 0]
    assert call["grid"] == (4, 1, 1)
    assert call["device"] == load_device("mi300x")
    code = call["code"]
    assert (code.name, code.arch, code.num_warps) == ("scale_kernel", "gfx942", 2)
    assert '-gfx942"' in code.assembly.splitlines()[0]
    [launch] = device.launches
    assert launch.argument_names[:4] == ("source", "target", "count", "factor")
    assert (launch.num_warps, launch.result) == (2, 1)
    explicit = code.assembly.count(".value_kind:     global_buffer") + code.assembly.count(".value_kind:     by_value")
    assert len(call["arguments"]) == explicit


def test_specialisation_is_tritons_own(recorder: Recorder, tensors: tuple[Any, Any]) -> None:
    source, target = tensors
    with virtual_device("mi300x", simulate=recorder) as device:
        scale_kernel[(1,)](source, target, 1, 2.5, BLOCK=256)  # count 1 is compiled in
        scale_kernel[(1,)](source, target, 992, 2.5, BLOCK=1024)
    assert device.launches[0].argument_names[:3] == ("source", "target", "factor")
    assert "buffer_load_dwordx4" in device.launches[1].code_object.assembly


def test_devices_of_two_architectures_do_not_share_binaries(recorder: Recorder, tensors: tuple[Any, Any]) -> None:
    for name in ("mi300x", "mi355x", "mi325x", "mi355x"):
        with virtual_device(name, simulate=recorder):
            scale_kernel[(1,)](*tensors, 1000, 2.5, BLOCK=256)
    assert [call["code"].arch for call in recorder.calls] == ["gfx942", "gfx950", "gfx942", "gfx950"]
    assert [call["device"].name for call in recorder.calls] == ["mi300x", "mi355x", "mi325x", "mi355x"]
    assert recorder.calls[0]["code"] == recorder.calls[2]["code"]


def test_contexts_nest(recorder: Recorder, tensors: tuple[Any, Any]) -> None:
    with virtual_device("mi300x", simulate=recorder) as outer:
        with virtual_device("mi355x", simulate=recorder) as inner:
            scale_kernel[(1,)](*tensors, 1000, 2.5, BLOCK=256)
        assert active_virtual_device() is outer
        scale_kernel[(2,)](*tensors, 1000, 2.5, BLOCK=256)
    assert active_virtual_device() is None
    assert ([launch.grid[0] for launch in inner.launches], [launch.grid[0] for launch in outer.launches]) == ([1], [2])


def test_lazy_default_is_restored_after_an_exception(tensors: tuple[Any, Any]) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("stop")

    before = triton.runtime.driver._active
    with pytest.raises(RuntimeError, match="stop"), virtual_device("mi300x", simulate=fail):
        scale_kernel[(1,)](*tensors, 1000, 2.5, BLOCK=256)
    assert triton.runtime.driver._active is before


def test_driver_that_was_active_is_active_again() -> None:
    marker, before = object(), triton.runtime.driver._active
    triton.runtime.driver.set_active(marker)
    try:
        with virtual_device("mi300x"):
            assert triton.runtime.driver.active is not marker
        assert triton.runtime.driver.active is marker
    finally:
        triton.runtime.driver.set_active(before)


def test_warmup_compiles_without_a_launch(recorder: Recorder, tensors: tuple[Any, Any]) -> None:
    with virtual_device("mi355x", simulate=recorder) as device:
        compiled = scale_kernel.warmup(*tensors, 1000, 2.5, BLOCK=512, grid=(1,), num_warps=8)
        assert "amdgcn" in compiled.asm
        assert device.launches == []
        compiled[(7, 1, 1)](*tensors, 1000, 2.5, 512)
    assert [(launch.grid, launch.num_warps) for launch in device.launches] == [((7, 1, 1), 8)]
    assert compiled.n_regs > 0
    assert compiled.n_spills == 0


def test_hooks_are_called_round_the_launch(
    recorder: Recorder, tensors: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[Any] = []
    monkeypatch.setattr(triton.knobs.runtime, "launch_enter_hook", lambda data: order.append(data.get()["name"]))
    monkeypatch.setattr(triton.knobs.runtime, "launch_exit_hook", lambda data: order.append("exit"))
    with virtual_device("mi300x", simulate=lambda *_, **__: order.append("run")):
        scale_kernel[(1,)](*tensors, 1000, 2.5, BLOCK=256)
    assert order == ["scale_kernel", "run", "exit"]


def test_kernel_loaded_for_a_virtual_device_does_not_run_on_another_driver(
    recorder: Recorder, tensors: tuple[Any, Any]
) -> None:
    with virtual_device("mi300x", simulate=recorder):
        compiled = scale_kernel[(1,)](*tensors, 1000, 2.5, BLOCK=256)
    with virtual_device("mi355x", simulate=recorder), pytest.raises(LaunchError, match="compiled for gfx942"):
        compiled[(1, 1, 1)](*tensors, 1000, 2.5, 256)
    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(object())
    try:
        with pytest.raises(LaunchError, match="object is active"):
            compiled.run(1, 1, 1, 0, compiled.function, (), None, None, None, *tensors, 1000, 2.5, 256)
    finally:
        triton.runtime.driver.set_active(before)


def test_autotuning_a_device_that_does_not_simulate_is_refused(recorder: Recorder, tensors: tuple[Any, Any]) -> None:
    with virtual_device("mi300x", simulate=recorder) as device:
        with pytest.raises(LaunchError, match="does not simulate its launches") as error:
            tuned_kernel[(1,)](*tensors, 1000, 2.5)
        assert "one configuration" in error.value.hint
        single_choice_kernel[(1,)](*tensors, 1000, 2.5)
    assert [(launch.kernel, launch.num_warps) for launch in device.launches] == [("single_choice_kernel", 1)]


def test_too_much_lds_is_tritons_own_error(recorder: Recorder) -> None:
    with virtual_device("mi300x"):
        driver = triton.runtime.driver.active
        limit = triton.compiler.compiler.max_shared_mem(driver.get_current_device())
    with virtual_device("mi355x"):
        driver = triton.runtime.driver.active
        assert triton.compiler.compiler.max_shared_mem(driver.get_current_device()) > limit == 65536


def test_unknown_device_leaves_no_trace() -> None:
    with pytest.raises(UnknownDeviceError, match="mi400"), virtual_device("mi400"):
        pass


def test_numpy_arrays_can_be_launched_on(recorder: Recorder, tensors: tuple[Any, Any]) -> None:
    array = np.zeros(1000, np.float32)
    with virtual_device("mi300x", simulate=recorder) as device:
        scale_kernel[(1,)](HostTensor(array), HostTensor(array[16:]), 1000, 2.5, BLOCK=256)
        base = device.memory.device_pointer(array.ctypes.data)
    assert recorder.calls[0]["arguments"][:2] == [base, base + 64]


def test_torch_is_not_imported() -> None:
    program = (
        "import sys, wavecast.simulator.compile.triton\n"
        "from wavecast.simulator.virtual import virtual_device\n"
        "with virtual_device('mi300x'): pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_kernel_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton loads a kernel whose module is None again for every launch, which costs more than all else of a launch."""
    loads: list[str] = []
    load = VirtualUtils.load_binary

    def counted(self: VirtualUtils, name: str, *rest: Any) -> Any:
        loads.append(name)
        return load(self, name, *rest)

    monkeypatch.setattr(VirtualUtils, "load_binary", counted)
    source, target = HostTensor(np.arange(8, dtype=np.float32)), HostTensor(np.zeros(8, dtype=np.float32))
    with virtual_device("mi300x"):
        for factor in (2.0, 3.0, 4.0):
            scale_kernel[(1,)](source, target, 8, factor, BLOCK=8)
    assert len(loads) <= 1

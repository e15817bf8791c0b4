"""The part of a virtual device that Triton talks to: target, properties, loader and launcher."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.triton import (
    AMD_TEXT,
    ARCHITECTURES,
    NVIDIA_ARCHITECTURES,
    NVIDIA_TEXT,
    code_object_of,
    target_of_arch,
)
from wavecast.simulator.errors import CompileError, LaunchError
from wavecast.simulator.virtual.arguments import LaunchArgument, flatten_arguments
from wavecast.simulator.virtual.clock import VirtualEvent, predicted_time_ms, summarized
from wavecast.simulator.virtual.device import VirtualDevice
from wavecast.simulator.virtual.hip import VirtualHip

# Triton keeps compiled kernels by device index. One index an architecture keeps code objects of two architectures
# apart, lets devices of one architecture share them, and lies beyond every index that a real driver hands out.
FIRST_INDEX = 1 << 16
MAXIMUM_WORKGROUP_THREADS = 1024
# Of the shared memory of a multiprocessor, what the system keeps of each block (CUDA programming guide, 9.0).
RESERVED_SHARED_BYTES = 1024
# Triton's compiler appends two pointers, to global and to profiling scratch memory, to every kernel's arguments.
SCRATCH_ARGUMENTS = (LaunchArgument("global_scratch", "*i8", None), LaunchArgument("profile_scratch", "*i8", None))


def device_index(arch: str) -> int:
    """Triton's index of the virtual devices of an architecture."""
    return FIRST_INDEX + ARCHITECTURES.index(arch)


class VirtualDriver(DriverBase):
    """Triton driver of one virtual device.

    Attributes:
        is_virtual: True; real drivers have no such attribute.
        device: The device that launches go to.
        utils: What Triton's runtime asks about the device, and its loader.
        hip: What programs ask that load HIP modules themselves.
    """

    is_virtual = True

    def __init__(self, device: VirtualDevice) -> None:
        self.device = device
        self.utils = VirtualUtils(device)
        self.hip = VirtualHip(device)
        self.index = device_index(device.arch)

    @classmethod
    def is_active(cls) -> bool:
        """Never chosen by itself, only by ``virtual_device``."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Not needed: a virtual launch compiles no C++ code."""
        raise LaunchError(f"type {ty!r} has no C++ type on a virtual device")

    def launcher_cls(self, src: Any, metadata: Any) -> VirtualLauncher:
        """The launcher of a compiled kernel; Triton calls this as it would call a class."""
        code = _cached_code_object(src, metadata)
        self.utils.expect(code)
        return VirtualLauncher(src, metadata)

    def get_current_target(self) -> GPUTarget:
        """What Triton compiles for."""
        target: GPUTarget = target_of_arch(self.device.arch)
        return target

    def get_current_device(self) -> int:
        """Index of the device."""
        return self.index

    def set_current_device(self, index: int) -> None:
        """Accepts the index of the active device only."""
        if index != self.index:
            raise LaunchError(
                f"device {index} is not active; {self.device.name} has index {self.index}",
                hint="enter another virtual_device(...) to change the device",
            )

    def get_current_stream(self, index: int | None = None) -> int:
        """The one stream of the device."""
        return 0

    def get_device_capability(self, index: int | None = None) -> tuple[int, int]:
        """Major and minor architecture number: (9, 4) or (9, 5) as ROCm gives them, (9, 0) of ``sm_90``."""
        arch = self.device.arch
        return 9, int(arch[-1] if arch in NVIDIA_ARCHITECTURES else arch[-2])

    def get_active_torch_device(self) -> Any:
        """Where tensors of a launch must lie (a ``torch.device`` if the program uses torch)."""
        torch, place = sys.modules.get("torch"), self.device.tensor_device
        return torch.device(place) if torch is not None else place

    def get_device_interface(self) -> VirtualInterface:
        """What stands where ``torch.cuda`` would."""
        return VirtualInterface(self)

    def get_benchmarker(self) -> Callable[..., Any]:
        """What autotuning compares configurations with: predicted time, of a sample of the workgroups.

        Triton's is ``do_bench``, which writes a large buffer before each run. The kernel runs once more with the
        configuration that was chosen, on the whole grid.
        """
        return _benchmark_sample

    def benchmark(
        self,
        run: Callable[[], Any],
        gradients: Any,
        quantiles: Sequence[float] | None,
        return_mode: str,
        *,
        is_flushed: bool = False,
    ) -> Any:
        """What ``triton.testing.do_bench`` returns here: the predicted time of one run, in milliseconds.

        Args:
            run: What to time; its results are complete, unless the device samples what it benchmarks.
            gradients: Tensors whose gradient is dropped before, or None.
            quantiles: How many values to return, or None.
            return_mode: ``all`` for a list.
            is_flushed: Whether each run follows a large buffer of zeros, as those of ``do_bench`` do.
        """
        for tensor in gradients or ():
            tensor.grad = None
        time_ms = predicted_time_ms(
            self.device, run, workgroups=self.device.benchmarked_workgroups, is_flushed=is_flushed
        )
        return summarized(time_ms, quantiles, return_mode)

    def get_empty_cache_for_benchmark(self) -> None:
        """Nothing: ``clear_cache`` needs no buffer here."""

    def clear_cache(self, cache: Any) -> None:
        """Let the next launch begin with cold caches."""
        self.device.clear_caches()


def _benchmark_sample(kernel_call: Callable[[], Any], *, quantiles: Sequence[float], **others: Any) -> Any:
    """The benchmarker of the driver that is active now: an autotuner keeps the one that it was given first."""
    active = triton.runtime.driver.active
    if not isinstance(active, VirtualDriver):
        return active.get_benchmarker()(kernel_call, quantiles=quantiles, **others)
    time_ms = predicted_time_ms(active.device, kernel_call, workgroups="sample", is_flushed=True)
    return summarized(time_ms, quantiles, "mean")


class VirtualUtils:
    """Properties of the device and the loader of its code objects."""

    def __init__(self, device: VirtualDevice) -> None:
        self._device = device
        self._expected: dict[str, CodeObject] = {}

    def get_device_properties(self, index: int) -> dict[str, int | str]:
        """What Triton's driver reports, as far as the specification has it; sizes in bytes, clocks in kHz."""
        spec = self._device.spec
        lanes = int(spec.compute.wave_lanes)
        # On NVIDIA GPUs a block is never given all of it.
        reserved = RESERVED_SHARED_BYTES if self._device.arch in NVIDIA_ARCHITECTURES else 0
        return {
            "max_shared_mem": int(spec.lds.bytes_per_cu) - reserved,
            "max_num_regs": int(spec.compute.vgpr_per_simd) * int(spec.compute.simd_per_cu) * lanes,
            "multiprocessor_count": int(spec.compute.num_cu),
            "sm_clock_rate": int(spec.compute.clock_ghz * 1e6),
            "max_threads_per_sm": int(spec.compute.waves_per_simd) * int(spec.compute.simd_per_cu) * lanes,
            "arch": self._device.arch,
            "warpSize": lanes,
            "cooperativeLaunch": 1,
        }

    def expect(self, code: CodeObject) -> None:
        """Announce the code object that Triton loads next; its loader is given the binary only."""
        self._expected[code.name] = code

    def load_binary(
        self, name: str, binary: bytes, shared_bytes: int, index: int
    ) -> tuple[CodeObject, CodeObject, int, int, int]:
        """Module, function, registers, spills, largest workgroup.

        Both are the code object: Triton loads a kernel without a module anew for every launch.
        """
        code = self._expected.pop(name)
        registers, spills = code.registers or _count(code, "vgpr_count"), _count(code, "vgpr_spill_count")
        return code, code, registers, spills, MAXIMUM_WORKGROUP_THREADS

    def unload_module(self, module: Any) -> None:
        """Nothing to do."""


class VirtualLauncher:
    """Launches one compiled kernel on whatever virtual device is active at the time."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self._signature: dict[str, Any] = dict(src.signature)
        for kind in ("global", "profile"):
            if getattr(metadata, f"{kind}_scratch_size", 0):
                raise LaunchError(
                    f"{metadata.name} needs {kind} scratch memory, which a virtual device does not have",
                    hint="compile the kernel without instrumentation",
                )

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: CodeObject,
        kernel_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable[[Any], None] | None,
        exit_hook: Callable[[Any], None] | None,
        *values: Any,
    ) -> None:
        """Called by Triton's runtime with the arguments of the kernel last."""
        driver = triton.runtime.driver.active
        if not getattr(driver, "is_virtual", False):
            raise LaunchError(
                f"{function.name} was loaded for a virtual device, and {type(driver).__name__} is active",
                hint="launch it inside the virtual_device(...) context, or compile it again",
            )
        arguments: Sequence[LaunchArgument] = [*flatten_arguments(self._signature, values), *SCRATCH_ARGUMENTS]
        if enter_hook is not None:
            enter_hook(launch_metadata)
        driver.device.launch(function, grid=(grid_x, grid_y, grid_z), arguments=arguments)
        if exit_hook is not None:
            exit_hook(launch_metadata)


class VirtualInterface:
    """The few calls of ``torch.cuda`` that programs make round their launches."""

    def __init__(self, driver: VirtualDriver) -> None:
        self._driver = driver

    def is_available(self) -> bool:
        """True."""
        return True

    def current_device(self) -> int:
        """Index of the active device."""
        return self._driver.get_current_device()

    def set_device(self, index: int) -> None:
        """Accepts the index of the active device only."""
        self._driver.set_current_device(index)

    def synchronize(self, device: Any = None) -> None:
        """Nothing to wait for: a virtual launch has ended when it returns."""

    def Event(self, *_: Any, **__: Any) -> VirtualEvent:  # noqa: N802
        """An event in predicted time."""
        return VirtualEvent(self._driver.device)


def _count(code: CodeObject, name: str) -> int:
    found = re.search(rf"^\s*\.{name}:\s*(\d+)", code.assembly, re.MULTILINE)
    return int(found.group(1)) if found else 0


def _cached_code_object(src: Any, metadata: Any) -> CodeObject:
    """The assembly of a compiled kernel; a launcher is given the metadata only, whose hash finds the cache entry."""
    from triton.runtime.cache import get_cache_manager

    group = get_cache_manager(metadata.hash).get_group(f"{src.name[:150]}.json") or {}
    paths = {suffix: path for file, path in group.items() for suffix in (Path(file).suffix.removeprefix("."),)}
    text = paths.get(AMD_TEXT) or paths.get(NVIDIA_TEXT)
    if text is None:
        raise CompileError(
            f"the assembly of {metadata.name} is not in Triton's cache",
            hint="the cache was cleared while the program ran, or TRITON_CACHE_DIR or TRITON_STORE_BINARY_ONLY changed",
        )
    binary = Path(paths["cubin"]).read_bytes() if NVIDIA_TEXT in paths else None
    return code_object_of(metadata, Path(text).read_text(encoding="utf-8"), binary)

"""Compiling a configuration, and trying it on the simulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import triton
from triton.compiler.errors import TritonError

from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.compile_time import compile_seconds
from wavecast.simulator.compile.triton import code_object
from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.launch import LaunchResult, parsed_kernel, simulate_launch
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic import Residency, residency
from wavecast.simulator.tune.candidate import Candidate, Usage
from wavecast.simulator.tune.constraint import Constraint, Limits, RuledOut, check_resources, check_workgroup
from wavecast.simulator.virtual import active_virtual_device, virtual_device

# What Triton's compiler says no with: its own errors, those of its passes, and assertions on options.
_REFUSALS = (TritonError, RuntimeError, AssertionError, ValueError)


class Trial:
    """Tries configurations of one kernel on one device.

    Args:
        fn: What is launched with a configuration's settings: a ``@triton.jit`` function, with or without heuristics.
        device: Specification of the device.
        limits: What a configuration may do that the hardware would allow.
    """

    def __init__(self, fn: Any, device: Device, limits: Limits) -> None:
        self.fn = fn
        self.device = device
        self._limits = limits
        self._results: dict[Any, LaunchResult] = {}

    def compiled(self, config: triton.Config, arguments: Mapping[str, Any], *, grid: Any) -> Candidate:
        """A configuration compiled for the device's architecture and held against its limits; nothing is executed.

        Args:
            config: The configuration.
            arguments: The kernel's other arguments by name.
            grid: Its grid, a tuple or a function of the arguments.
        """
        refused = check_workgroup(config.num_warps, self.device)
        if refused is not None:
            return Candidate(config, refused)
        with virtual_device(self.device.name):
            try:
                kernel = self._run(config, arguments, grid=grid, warmup=True)
            except _REFUSALS as error:
                reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
                return Candidate(config, RuledOut(Constraint.COMPILER, reason))
            seconds = compile_seconds(kernel.hash)
        code = code_object(kernel)
        parsed = parsed_kernel(code)
        resources, occupancy = parsed.resources, _residency(parsed, self.device)
        usage = Usage(resources.vgpr, resources.sgpr, resources.lds_bytes, resources.scratch_bytes, occupancy)
        refused = check_resources(resources, occupancy, self.device, self._limits)
        return Candidate(config, refused, usage, code.digest, seconds)

    def timed(self, candidate: Candidate, arguments: Mapping[str, Any], *, grid: Any) -> Candidate:
        """A candidate with the predicted time of its launch, from a sample of the workgroups and cold caches.

        Args:
            candidate: From ``compiled``, not ruled out.
            arguments: As there; tensors lie in the host's memory.
            grid: As there.

        Raises:
            LaunchError: Nothing is launched, because the grid has no workgroup.
        """
        with virtual_device(self.device.name, workgroups="sample", simulate=self._simulate) as virtual:
            self._run(candidate.config, arguments, grid=grid, warmup=False)
            launches = list(virtual.launches)
        if not launches:
            raise LaunchError(f"{candidate.name} launches no workgroup", hint="tune on sizes that give it work")
        return dataclasses.replace(candidate, time=launches[-1].result.time)

    def forget(self) -> None:
        """Execute programs anew that were tried before: the tensors may be others."""
        self._results.clear()

    def _run(self, config: triton.Config, arguments: Mapping[str, Any], *, grid: Any, warmup: bool) -> Any:
        settings = config.all_kwargs()
        twice = arguments.keys() & settings.keys()
        if twice:
            raise LaunchError(
                f"{', '.join(sorted(twice))} given by the launch and by the configuration",
                hint="let the latter give it",
            )
        everything = {**arguments, **settings}
        if config.pre_hook is not None:
            config.pre_hook(everything)
        return self.fn.run(grid=grid, warmup=warmup, **everything)

    def _simulate(self, code: CodeObject, **launch: Any) -> LaunchResult:
        """``simulate_launch``, once for configurations that are the same program on the same grid."""
        key = code.digest, code.lds_bytes, launch["grid"], tuple(launch["arguments"])
        if key not in self._results:
            self._results[key] = simulate_launch(code, **launch)
        return self._results[key]


def _residency(kernel: Kernel, device: Device) -> Residency | None:
    try:
        return residency(kernel, device)
    except LaunchError:
        return None


def device_named(name: str | None) -> Device:
    """The specification of a device, or of the active virtual one if no name is given.

    Raises:
        LaunchError: No name is given, and no virtual device is active.
    """
    if name is not None:
        return load_device(name)
    active = active_virtual_device()
    if active is None:
        raise LaunchError("no device to tune for: none is named, and none is active", hint='give device="mi300x"')
    return active.spec

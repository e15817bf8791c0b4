"""Ranking the configurations of a launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import triton
from triton.runtime.autotuner import Autotuner

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.tune.constraint import Limits
from wavecast.simulator.tune.difference import RESOLUTION
from wavecast.simulator.tune.ranking import Ranking, ranked
from wavecast.simulator.tune.tensors import preserved
from wavecast.simulator.tune.trial import Trial, device_named


def rank(
    kernel: Any,
    configs: Sequence[triton.Config] | None = None,
    *,
    grid: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    device: str | None = None,
    limits: Limits | None = None,
    resolution: float = RESOLUTION,
    keep_tensors: bool = True,
) -> Ranking:
    """Predict what ``kernel[grid](*args, **kwargs)`` would take with each configuration.

    Each is compiled for the device's architecture, held against its limits, and, if it keeps to them, executed on the
    simulator: a sample of its workgroups, from cold caches. What driver Triton has does not matter, and a GPU that is
    there is not used.

    Args:
        kernel: A ``@triton.jit`` function, with heuristics or without; or an autotuned one.
        configs: The configurations; None for those of the autotuned kernel.
        grid: Workgroups, or the function that gives them.
        args: Positional arguments of the launch; tensors on the CPU or a GPU.
        kwargs: Its arguments by name.
        device: Name of the device; None for the active virtual one.
        limits: What a configuration may do that the hardware would allow; None for no spills.
        resolution: Relative difference that a benchmark tells from none.
        keep_tensors: Let tensors hold afterwards what they held before; takes a copy of each. Without it, tensors on
            the CPU are left with what the sampled workgroups wrote.

    Raises:
        LaunchError: The launch has no configurations or no device.
        ExecutionError: A configuration does something wrong when it runs.
    """
    fn, given = unwrapped(kernel), configs
    if given is None and isinstance(kernel, Autotuner):
        given = kernel.configs
    if not given:
        raise LaunchError(f"no configurations of {kernel_name(fn)} to rank", hint="give a list of triton.Config")
    arguments = named_arguments(fn, args, kwargs or {})
    trial = Trial(fn, device_named(device), limits or Limits())
    with preserved(arguments, keep=keep_tensors) as here:
        candidates = [trial.compiled(config, here, grid=grid) for config in given]
        timed = [
            candidate if candidate.ruled_out else trial.timed(candidate, here, grid=grid) for candidate in candidates
        ]
    return Ranking(kernel_name(fn), trial.device, ranked(timed), resolution)


def unwrapped(kernel: Any) -> Any:
    """What an autotuned kernel launches once it has chosen; any other kernel is returned as it is."""
    return kernel.fn if isinstance(kernel, Autotuner) else kernel


def named_arguments(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a launch by name.

    Raises:
        LaunchError: More positional arguments than the kernel has.
    """
    if len(args) > len(fn.arg_names):
        raise LaunchError(f"{len(args)} arguments for {kernel_name(fn)}", hint=f"it has {', '.join(fn.arg_names)}")
    return {**dict(zip(fn.arg_names, args, strict=False)), **kwargs}


def kernel_name(fn: Any) -> str:
    """Name of the function under the decorators."""
    while not hasattr(fn, "__name__") and hasattr(fn, "fn"):
        fn = fn.fn
    return str(getattr(fn, "__name__", fn))

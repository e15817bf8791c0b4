"""The hooks of ``triton.autotune``, so that a GPU benchmarks only what a prediction leaves over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import triton

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.tune.candidate import Candidate
from wavecast.simulator.tune.constraint import Limits
from wavecast.simulator.tune.difference import RESOLUTION
from wavecast.simulator.tune.rank import kernel_name, unwrapped
from wavecast.simulator.tune.ranking import Ranking, ranked
from wavecast.simulator.tune.tensors import preserved
from wavecast.simulator.tune.trial import Trial, device_named
from wavecast.simulator.virtual import active_virtual_device


class Pruning:
    """Prunes and ranks the configurations of an autotuned kernel, whatever driver Triton has.

    ``triton.autotune(configs, key=[…], prune_configs_by=Pruning(lambda: kernel).hooks(top_k=3))`` above ``kernel``.

    Args:
        kernel: The kernel, autotuned or not; or a function that returns it, for a decorator that stands above it.
        device: Name of the device; None for the virtual one that is active when the kernel is tuned.
        limits: What a configuration may do that the hardware would allow; None for no spills.
        resolution: Relative difference that a benchmark tells from none.

    Attributes:
        ranking: What the latest tuning found; None before the first. Candidates have a time where Triton asked for it,
            which it does if more of them are left than it is to benchmark.
    """

    def __init__(
        self,
        kernel: Any | Callable[[], Any],
        *,
        device: str | None = None,
        limits: Limits | None = None,
        resolution: float = RESOLUTION,
    ) -> None:
        self.ranking: Ranking | None = None
        self._kernel = kernel
        self._device = device
        self._limits = limits or Limits()
        self._resolution = resolution
        self._trial: Trial | None = None
        self._candidates: list[Candidate] = []

    def hooks(self, *, top_k: int | float = 1) -> dict[str, Any]:
        """What ``triton.autotune`` takes as ``prune_configs_by``.

        Args:
            top_k: Configurations that are benchmarked, or their share of all as a float.
        """
        return {"early_config_prune": self.early_config_prune, "perf_model": self.perf_model, "top_k": top_k}

    def early_config_prune(
        self, configs: Sequence[triton.Config], named_args: Mapping[str, Any], **kwargs: Any
    ) -> list[triton.Config]:
        """The configurations that nothing rules out; each is compiled for the device, and nothing is launched.

        Args:
            configs: All of them.
            named_args: Positional arguments of the launch by name.
            kwargs: Its other arguments, among them ``grid``.

        Raises:
            LaunchError: Everything is ruled out; the message says by what.
        """
        fn = unwrapped(self._kernel if hasattr(self._kernel, "run") else self._kernel())
        self._trial = Trial(fn, device_named(self._device), self._limits)
        arguments, grid = _launch_arguments({**named_args, **kwargs})
        keep = any(config.pre_hook is not None for config in configs) and not _is_sampled()
        with preserved(arguments, keep=keep) as here:
            self._candidates = [self._trial.compiled(config, here, grid=grid) for config in configs]
        self._rank()
        left = [candidate.config for candidate in self._candidates if candidate.ruled_out is None]
        if not left:
            reasons = "; ".join(f"{candidate.name}: {candidate.ruled_out}" for candidate in self._candidates)
            raise LaunchError(
                f"every configuration of {kernel_name(fn)} is ruled out on {self._trial.device.name}: {reasons}",
                hint="give smaller blocks, or allow more with limits=Limits(spill_bytes=…, waves_per_simd=…)",
            )
        return left

    def perf_model(self, **arguments: Any) -> float:
        """Predicted time of a launch with one configuration, in milliseconds; infinite for one that is ruled out.

        Args:
            arguments: Arguments of the launch, with those of the configuration, among them ``grid``.

        Raises:
            LaunchError: The configuration is none of those that ``early_config_prune`` was given.
        """
        position, candidate = self._find(arguments)
        if candidate.ruled_out is not None or self._trial is None:
            return math.inf
        settings = candidate.config.all_kwargs()
        others, grid = _launch_arguments({name: item for name, item in arguments.items() if name not in settings})
        with preserved(others, keep=not _is_sampled()) as here:
            timed = self._trial.timed(candidate, here, grid=grid)
        self._candidates[position] = timed
        self._rank()
        return timed.time.predicted_us / 1e3 if timed.time is not None else math.inf

    def _find(self, arguments: Mapping[str, Any]) -> tuple[int, Candidate]:
        for position, candidate in enumerate(self._candidates):
            settings = candidate.config.all_kwargs()
            if all(name in arguments and arguments[name] == value for name, value in settings.items()):
                return position, candidate
        raise LaunchError(
            "perf_model was called for a configuration that early_config_prune did not get",
            hint="give triton.autotune both, as hooks() has them",
        )

    def _rank(self) -> None:
        if self._trial is not None:
            name = kernel_name(self._trial.fn)
            self.ranking = Ranking(name, self._trial.device, ranked(self._candidates), self._resolution)


def _launch_arguments(everything: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The kernel's arguments, without what Triton adds to them, and the grid."""
    arguments = {name: value for name, value in everything.items() if name not in ("grid", "warmup")}
    return arguments, everything.get("grid")


def _is_sampled() -> bool:
    """Whether launches leave results incomplete anyway, so that nobody misses what tensors held."""
    active = active_virtual_device()
    return active is not None and active.workgroups == "sample"

"""Configurations that are chosen by predicted times."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wavecast.cli.errors import CliError
from wavecast.cli.rows import Tuning

# What ``choose_predicted`` found since ``predict_run`` looked.
TUNINGS: list[Tuning] = []


def has_virtual_device() -> bool:
    """Whether launches go to the simulator, which need not be installed where they do not."""
    if "wavecast.simulator.virtual" not in sys.modules:
        return False
    from wavecast.simulator.virtual import active_virtual_device

    return active_virtual_device() is not None


def choose_predicted(
    kernel: Any, configs: Sequence[Any], grid: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The configuration with which a launch on the active virtual device is predicted to be fastest.

    Args:
        kernel: The Triton kernel.
        configs: Its configurations, the default first.
        grid: Grid of the launch.
        args: Its positional arguments; what the tensors on the CPU hold is not kept.
        kwargs: Its other arguments.

    Raises:
        CliError: All are ruled out.
    """
    from wavecast.simulator.tune import rank

    ranking = rank(kernel, configs, grid=grid, args=args, kwargs=kwargs, keep_tensors=False)
    ruled_out = {item.name: str(item.ruled_out) for item in ranking.ruled_out}
    if ranking.best is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in ruled_out.items())
        raise CliError(f"every configuration of {ranking.kernel} is ruled out: {reasons}", hint="give smaller blocks")
    default = next(item for item in ranking.candidates if item.config == configs[0])
    slower = ranking.slower(default) if default.time is not None else None
    compiled = [item for item in ranking.candidates if item.code_object is not None]
    noted = [item.compile_s for item in compiled if item.compile_s is not None]
    TUNINGS.append(
        Tuning(
            kernel=ranking.kernel,
            configurations=len(ranking.candidates),
            programs=ranking.programs,
            ruled_out=ruled_out,
            best=ranking.best.name,
            default=default.name,
            alike=tuple(item.name for item in ranking.alike),
            default_ratio=slower.ratio if slower else None,
            default_ratio_low=slower.low if slower else None,
            default_ratio_high=slower.high if slower else None,
            compile_s=sum(noted),
            compiled=len(compiled),
            compile_noted=len(noted),
        )
    )
    return ranking.best.config

"""Launches and times of either kind: of Triton's programs or of kernel files, executed or modelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from wavecast.cli.simulate.files import FileLaunch
    from wavecast.simulator.timing import TimePrediction
    from wavecast.simulator.timing.prediction import ModelledTime
    from wavecast.simulator.virtual import Launch

    AnyLaunch: TypeAlias = "Launch | FileLaunch"
    AnyTime: TypeAlias = "TimePrediction | ModelledTime"

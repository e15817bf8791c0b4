"""The driver of the backend."""

from __future__ import annotations

import os
from typing import Any

from triton.backends import driver as base


class EnvironmentDriver(base.DriverBase):
    """Stands for the virtual device that ``WAVECAST_DEVICE`` names; making one gives that device's driver."""

    def __new__(cls) -> Any:
        """The driver, a ``VirtualDriver``."""
        from wavecast.simulator.virtual.context import driver_from_environment

        return driver_from_environment()

    @classmethod
    def is_active(cls) -> bool:
        """Whether the variable is set."""
        return bool(os.environ.get("WAVECAST_DEVICE"))

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Never called: no object of this class exists."""
        raise NotImplementedError

    get_current_target = get_active_torch_device = get_benchmarker = map_python_to_cpp_type

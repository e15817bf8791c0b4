"""A clock where there is no GPU, to try the script out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class HostClock:
    """Takes the host's time for the device's: its figures mean nothing."""

    def synchronize(self) -> None:
        pass

    def enqueue(
        self, call: Callable[[], Any], *, host_us: float, warm: bool = False, idle: bool = False
    ) -> Callable[[], float]:
        before = time.perf_counter()
        call()
        us = 1e6 * (time.perf_counter() - before)
        return lambda: us

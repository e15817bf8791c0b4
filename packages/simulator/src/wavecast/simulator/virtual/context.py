"""Making a virtual device the one that Triton compiles for and launches on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import triton

from wavecast.simulator.compile.toolchain import pinned_toolchain
from wavecast.simulator.compile.triton import ARCHITECTURES
from wavecast.simulator.errors import UnknownDeviceError
from wavecast.simulator.virtual.clock import predicted_benchmarks
from wavecast.simulator.virtual.device import Launch, Simulate, VirtualDevice, Workgroups
from wavecast.simulator.virtual.driver import VirtualDriver

if TYPE_CHECKING:
    from wavecast.simulator.devices import Device

DEVICE_VARIABLE = "WAVECAST_DEVICE"
# Holds what ``driver_from_environment`` entered: a context that nobody holds would end at once.
_REST_OF_THE_PROCESS = ExitStack()


@contextmanager
def virtual_device(
    name: str,
    *,
    workgroups: Workgroups = "all",
    simulate: Simulate | None = None,
    record: Callable[[Launch], None] | None = None,
    check: bool = False,
) -> Iterator[VirtualDevice]:
    """Activate a device that needs no GPU: inside the context ``kernel[grid](…)`` on CPU tensors is simulated.

    Autotuning and ``triton.testing.do_bench`` get predicted times. Contexts may be nested. The driver that was active
    before, if any, is active again afterwards, whatever happens.

    Args:
        name: Device name, ``mi300x``.
        workgroups: ``all`` for results, ``sample`` for time and traffic only.
        simulate: Replaces ``wavecast.simulator.launch.simulate_launch``.
        record: Receives each launch, which the device's ``launches`` then does not keep.
        check: Look for races, accesses out of bounds and the like (``wavecast.simulator.checks``) in every launch. What
            is found is in ``VirtualDevice.findings``, and warned of as a ``CheckWarning`` when it is new.

    Raises:
        UnknownDeviceError: No specification has this name, or it is not of an architecture that can be executed.
    """
    device = VirtualDevice(_executable(name), workgroups=workgroups, simulate=simulate, record=record, check=check)
    config = triton.runtime.driver
    # Not ``config.active``: asking for it would make Triton look for a GPU, and fail where there is none.
    before = config._active
    with pinned_toolchain(), predicted_benchmarks():
        config.set_active(VirtualDriver(device))
        try:
            yield device
        finally:
            config.set_active(before)


def _executable(name: str) -> Device:
    from wavecast.simulator.devices import load_device

    spec = load_device(name)
    if spec.arch not in ARCHITECTURES:
        raise UnknownDeviceError(
            f"{name} is {spec.arch}, which cannot be executed", hint=f"executable are {', '.join(ARCHITECTURES)}"
        )
    return spec


def driver_from_environment() -> VirtualDriver:
    """The driver of the device that ``WAVECAST_DEVICE`` names, for the rest of the process.

    Triton asks for it through ``wavecast.simulator.triton_backend``.

    Raises:
        UnknownDeviceError: As for ``virtual_device``.
    """
    device = VirtualDevice(_executable(os.environ[DEVICE_VARIABLE]))
    _REST_OF_THE_PROCESS.enter_context(pinned_toolchain())
    _REST_OF_THE_PROCESS.enter_context(predicted_benchmarks())
    return VirtualDriver(device)


def active_virtual_device() -> VirtualDevice | None:
    """The virtual device whose context is innermost, else the one that ``WAVECAST_DEVICE`` names, else None."""
    config = triton.runtime.driver
    driver = config.active if config._active is None and os.environ.get(DEVICE_VARIABLE) else config._active
    return driver.device if isinstance(driver, VirtualDriver) else None

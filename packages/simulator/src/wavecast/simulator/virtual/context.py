"""Making a virtual device the one that Triton compiles for and launches on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import triton

from wavecast.simulator.compile.toolchain import pinned_toolchain
from wavecast.simulator.compile.triton import AMD_ARCHITECTURES
from wavecast.simulator.errors import UnknownDeviceError
from wavecast.simulator.virtual.device import Simulate, VirtualDevice, Workgroups
from wavecast.simulator.virtual.driver import VirtualDriver


@contextmanager
def virtual_device(
    name: str, *, workgroups: Workgroups = "all", simulate: Simulate | None = None
) -> Iterator[VirtualDevice]:
    """Activate a device that needs no GPU: inside the context ``kernel[grid](…)`` on CPU tensors is simulated.

    Contexts may be nested. The driver that was active before, if any, is active again afterwards, whatever happens.

    Args:
        name: Device name, ``mi300x``.
        workgroups: ``all`` for results, ``sample`` for time and traffic only.
        simulate: Replaces ``wavecast.simulator.launch.simulate_launch``.

    Raises:
        UnknownDeviceError: No specification has this name, or it is not of an architecture that can be executed.
    """
    from wavecast.simulator.devices import load_device

    spec = load_device(name)
    if spec.arch not in AMD_ARCHITECTURES:
        raise UnknownDeviceError(
            f"{name} is {spec.arch}, which cannot be executed", hint=f"executable are {', '.join(AMD_ARCHITECTURES)}"
        )
    device = VirtualDevice(spec, workgroups=workgroups, simulate=simulate)
    config = triton.runtime.driver
    # Not ``config.active``: asking for it would make Triton look for a GPU, and fail where there is none.
    before = config._active
    with pinned_toolchain():
        config.set_active(VirtualDriver(device))
        try:
            yield device
        finally:
            config.set_active(before)


def active_virtual_device() -> VirtualDevice | None:
    """The virtual device whose context is innermost, or None outside of any."""
    driver = triton.runtime.driver._active
    return driver.device if isinstance(driver, VirtualDriver) else None

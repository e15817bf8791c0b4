"""Devices that can be predicted, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavecast.cli.device_spec import SpecFacts
from wavecast.cli.devices import Constant, DeviceFacts
from wavecast.cli.errors import CliError, misuse, unknown
from wavecast.cli.simulate.errors import translated_errors

if TYPE_CHECKING:
    from wavecast.simulator.devices import Device


def device_names() -> tuple[str, ...]:
    """Names of the devices that can be predicted."""
    from wavecast.simulator.devices import loader

    return loader.device_names()


def check_device(name: str) -> str:
    """A name of a device, or the path of a device file, that can be loaded.

    Raises:
        CliError: 2 if there is no such device, 1 if its file is not complete.
    """
    from wavecast.simulator.devices.loader import is_device_file

    if is_device_file(name):
        loaded(name)
    elif name not in device_names():
        raise unknown("device", name, device_names())
    return name


def device_name(device: str) -> str:
    """What a device calls itself: its name, also where a path stands for it."""
    from wavecast.simulator.devices.loader import is_device_file

    return loaded(device).name if is_device_file(device) else device


def spec_facts(name: str) -> SpecFacts:
    """A device's specification as plain data."""
    facts, device = device_facts(name), loaded(name)
    return SpecFacts(
        name=device.name,
        title=device.title,
        arch=device.arch,
        values={constant.key: constant.value for constant in facts.constants},
        atomic_channels=device.mall.channels,
        constants=facts.constants,
    )


def loaded(name: str) -> Device:
    """The specification of a device by its name or the path of its file.

    Raises:
        CliError: 2 if there is no such device, 1 if its file is not complete.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.errors import UnknownDeviceError

    try:
        with translated_errors():
            return load_device(name)
    except CliError as error:
        if isinstance(error.__cause__, UnknownDeviceError):
            raise misuse(str(error), hint=error.hint) from error
        raise


def device_facts(name: str) -> DeviceFacts:
    """A device with all its constants."""
    device = loaded(name)
    constants = tuple(
        Constant(key, item.value, item.low, item.high, item.unit, str(item.kind), item.sources, item.note)
        for key, item in device.quantities.items()
    )
    return DeviceFacts(device.name, device.title, device.arch, device.digest, constants)

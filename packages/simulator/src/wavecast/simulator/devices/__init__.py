"""Device specifications: every constant with value, unit, source and kind."""

from __future__ import annotations

from wavecast.simulator.devices.device import Device, Kind, Quantity
from wavecast.simulator.devices.loader import DeviceFileError, architecture_of, device_names, load_device, parse_device

__all__ = [
    "Device",
    "DeviceFileError",
    "Kind",
    "Quantity",
    "architecture_of",
    "device_names",
    "load_device",
    "parse_device",
]

"""Virtual: the Triton driver whose launches go to the simulator; the front door for kernels written in Python."""

from __future__ import annotations

from wavecast.simulator.virtual.context import active_virtual_device, virtual_device
from wavecast.simulator.virtual.device import Launch, VirtualDevice
from wavecast.simulator.virtual.tensor import HostTensor

__all__ = ["HostTensor", "Launch", "VirtualDevice", "active_virtual_device", "virtual_device"]

"""The wrong-maximum experiment: e4m3fnuz quantization with the maximum of e4m3fn, and with its own."""

from __future__ import annotations

from wavecast.kernels.fnuz.api import Damage, damage, quantize_fnuz
from wavecast.kernels.fnuz.baseline import VARIANTS

__all__ = ["VARIANTS", "Damage", "damage", "quantize_fnuz"]

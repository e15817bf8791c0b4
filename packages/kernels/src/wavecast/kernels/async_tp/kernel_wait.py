# mypy: ignore-errors
"""Device code of a wait that holds a stream."""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.async_tp.device_signals import wait_for_signal


@triton.jit(do_not_specialize=["polls"])
def wait_kernel(signal_ptr, expected_ptr, polls, ON_GFX: tl.constexpr):
    """Ends when a signal has reached what ``expected_ptr`` holds."""
    wait_for_signal(signal_ptr, tl.load(expected_ptr), polls, ON_GFX)

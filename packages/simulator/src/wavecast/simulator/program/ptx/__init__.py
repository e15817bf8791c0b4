"""PTX: from the text that Triton emits for NVIDIA GPUs to a ``Kernel``."""

from __future__ import annotations

from wavecast.simulator.program.ptx.parse import is_ptx, parse_ptx, ptx_kernel_names, ptx_target

__all__ = ["is_ptx", "parse_ptx", "ptx_kernel_names", "ptx_target"]

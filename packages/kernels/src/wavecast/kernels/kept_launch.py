"""Launches of a kernel at little cost for the host: what does not change from call to call is looked at once.

To launch, Triton asks every argument for its type and alignment, looks the compiled kernel up by the answers, and
checks options and globals, which takes the host longer than the launch itself. Where the answers are known to be the
same, the compiled kernel is launched directly, as Triton's ``kernel[grid]`` of a compiled kernel allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from wavecast.kernels.device import has_gpu_driver


class KeptLaunch:
    """A launch with a grid, sizes and constants that stay, and tensors that change.

    Tensors of different calls must be alike in what Triton compiles for: dtype, None or not, and whether their
    addresses are multiples of 16; so must be the driver's current device. Descriptors are made of the first call's
    matrices, and brought to those of later calls, which must have their shapes and strides.

    Args:
        kernel: whose parameters are descriptors, then other tensors, sizes, constants, in this order.
        programs: of the grid.
        describe: makes descriptors of the first call's matrices.
        sizes: that are no constants.
        constants: by name, in the order of the parameters.
        options: of the launch.
    """

    def __init__(
        self,
        kernel: Any,
        programs: int,
        *,
        describe: Callable[..., Sequence[TensorDescriptor]],
        sizes: Sequence[float],
        constants: dict[str, Any],
        options: dict[str, Any],
    ) -> None:
        self._kernel, self._grid, self._describe = kernel, (programs, 1, 1), describe
        self._sizes, self._constants, self._options = tuple(sizes), constants, options
        self._tail = (*self._sizes, *constants.values())
        self._descriptors: Sequence[TensorDescriptor] = ()
        self._run: Callable[..., None] | None = None

    def __call__(self, matrices: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor | None]) -> None:
        """Launch on the current stream.

        Args:
            matrices: of the descriptors.
            tensors: the other ones.
        """
        if self._run is None:
            self._descriptors = self._describe(*matrices)
            compiled = self._kernel[self._grid](
                *self._descriptors, *tensors, *self._sizes, **self._constants, **self._options
            )
            # A virtual device is to be asked every time: it looks at launches.
            if has_gpu_driver():
                self._run = compiled[self._grid]
        else:
            for descriptor, matrix in zip(self._descriptors, matrices, strict=True):
                descriptor.base = matrix
            self._run(*self._descriptors, *tensors, *self._tail)
        for descriptor in self._descriptors:
            descriptor.base = None  # which would keep a call's tensors until the next one

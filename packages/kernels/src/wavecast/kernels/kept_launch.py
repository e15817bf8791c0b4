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

from wavecast.kernels.checks import INT32_MAX
from wavecast.kernels.device import has_gpu_driver
from wavecast.kernels.tma import ALIGNMENT


class KeptLaunch:
    """A launch with a grid, sizes and constants that stay, and tensors that change.

    Tensors of different calls must be alike in what Triton compiles for: dtype and `specialized`; so must be the
    driver's current device. Descriptors are made of the first call's matrices, and brought to those of later calls,
    which must have their shapes and strides.

    Args:
        kernel: whose parameters are descriptors, then other tensors, sizes, constants, in this order.
        programs: of the grid.
        sizes: that are no constants.
        constants: by name, and options of the launch.
        describe: makes descriptors of the first call's matrices; there may be none.
    """

    def __init__(
        self,
        kernel: Any,
        programs: int,
        *,
        sizes: Sequence[float],
        constants: dict[str, Any],
        describe: Callable[..., Sequence[TensorDescriptor]] = lambda: (),
    ) -> None:
        self._kernel, self._grid, self._describe = kernel, (programs, 1, 1), describe
        self._sizes, self._constants = tuple(sizes), constants
        self._tail = (*self._sizes, *(constants[name] for name in kernel.arg_names if name in constants))
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
            compiled = self._kernel[self._grid](*self._descriptors, *tensors, *self._sizes, **self._constants)
            # A virtual device is to be asked every time: it looks at launches.
            if has_gpu_driver():
                self._run = compiled[self._grid]
        else:
            for descriptor, matrix in zip(self._descriptors, matrices, strict=True):
                descriptor.base = matrix
            self._run(*self._descriptors, *tensors, *self._tail)
        for descriptor in self._descriptors:
            descriptor.base = None  # which would keep a call's tensors until the next one


def specialized(*tensors: torch.Tensor | None) -> tuple[Any, ...]:
    """What Triton compiles for besides dtypes: which tensors there are, where they begin, on AMD how large they are."""
    amd = torch.version.hip is not None
    return tuple(
        [
            None
            if tensor is None
            else (tensor.data_ptr() % ALIGNMENT == 0, amd and tensor.untyped_storage().nbytes() > INT32_MAX)
            for tensor in tensors
        ]
    )

"""Launches of a kernel at little cost for the host: what does not change from call to call is looked at once.

To launch, Triton asks every argument for its type and alignment, looks the compiled kernel up by the answers, and
checks options and globals, which takes the host longer than the launch itself. Where the answers are known to be the
same, the compiled kernel is launched directly, as Triton's ``kernel[grid]`` of a compiled kernel allows. Tensors are
then passed as addresses: of a tensor, Triton would ask the driver once more where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton import knobs
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.runtime import driver

from wavecast.kernels.device import has_gpu_driver


class KeptLaunch:
    """A launch with a grid, sizes and constants that stay, and tensors that change.

    Tensors of different calls must be alike in what Triton compiles for, which ``async_tp.checked.described`` says; so
    must be the driver's current device. Descriptors are made of the first call's matrices, and brought to those of
    later calls, which must have their shapes and strides.

    Args:
        kernel: whose parameters are descriptors, then tensors that change, tensors that stay, sizes, constants.
        programs: of the grid.
        stay: tensors of all calls, which are kept.
        sizes: that are no constants.
        constants: by name, and options of the launch.
        describe: makes descriptors of the first call's matrices; there may be none.
    """

    def __init__(
        self,
        kernel: Any,
        programs: int,
        *,
        stay: Sequence[torch.Tensor | None],
        sizes: Sequence[float],
        constants: dict[str, Any],
        describe: Callable[..., Sequence[TensorDescriptor]] = lambda: (),
    ) -> None:
        self._kernel, self._grid, self._describe = kernel, (programs, 1, 1), describe
        self._stay, self._sizes, self._constants = tuple(stay), tuple(sizes), constants
        values = (constants[name] for name in kernel.arg_names if name in constants)
        self._tail = (*map(_address, stay), *sizes, *values)
        self._descriptors: Sequence[TensorDescriptor] = ()
        self._run: Callable[..., None] | None = None

    def __call__(self, matrices: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor | int | None]) -> None:
        """Launch on the current stream.

        Args:
            matrices: of the descriptors.
            tensors: those that change; also their addresses, where the launch `has_kernel`.
        """
        if self._run is not None and not self._descriptors:
            self._run(*map(_address, tensors), *self._tail)
            return
        if self._run is None:
            self._descriptors = self._describe(*matrices)
            compiled = self._kernel[self._grid](
                *self._descriptors, *tensors, *self._stay, *self._sizes, **self._constants
            )
            # A virtual device is to be asked every time: it looks at launches.
            if has_gpu_driver():
                self._run = _direct(compiled, self._grid)
        else:
            for descriptor, matrix in zip(self._descriptors, matrices, strict=True):
                descriptor.base = matrix
            self._run(*self._descriptors, *map(_address, tensors), *self._tail)
        for descriptor in self._descriptors:
            descriptor.base = None  # which would keep a call's tensors until the next one

    @property
    def has_kernel(self) -> bool:
        """Whether the next call launches what the first one had compiled: only where tensors are counts then."""
        return self._run is not None


def _address(tensor: torch.Tensor | int | None) -> int | None:
    return tensor if tensor is None or isinstance(tensor, int) else tensor.data_ptr()


def _direct(compiled: Any, grid: tuple[int, int, int]) -> Callable[..., None]:
    """Launches of a compiled kernel on the current device's current stream.

    Triton's own describe every launch to hooks that may look at it. Here that is done only where there are some.
    """
    active = driver.active
    device, stream_of = active.get_current_device(), active.get_current_stream
    described = compiled[grid]
    run, function, metadata = compiled.run, compiled.function, compiled.packed_metadata

    def launch(*arguments: Any) -> None:
        if _hooked(knobs.runtime.launch_enter_hook) or _hooked(knobs.runtime.launch_exit_hook):
            described(*arguments)
        else:
            run(*grid, stream_of(device), function, metadata, None, None, None, *arguments)

    return launch


def _hooked(hook: Any) -> bool:
    """Whether somebody looks at launches: a chain of hooks may be empty."""
    return hook is not None and bool(getattr(hook, "calls", True))

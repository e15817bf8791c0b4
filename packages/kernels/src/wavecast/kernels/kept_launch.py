"""Launches of a kernel at little cost for the host: what does not change from call to call is looked at once.

To launch, Triton asks every argument for its type and alignment, looks the compiled kernel up by the answers, and
checks options and globals, which takes the host longer than the launch itself. Where the answers are known to be the
same, the compiled kernel is launched directly: on CUDA from a buffer of packed arguments, elsewhere by Triton's
launcher, as its ``kernel[grid]`` of a compiled kernel does. Tensors are then passed as addresses: of a tensor, Triton
would ask the driver once more where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton import knobs
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.runtime import driver

from wavecast.kernels.cuda import PackedLaunch, UnpackableError, cuda_driver
from wavecast.kernels.device import has_gpu_driver

_log = logging.getLogger(__name__)


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
        self._packed: PackedLaunch | None = None
        self._compiled: Any = None
        self._device, self._stream_of = 0, _no_stream

    def __call__(self, matrices: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor | None]) -> None:
        """Launch on the current stream.

        Args:
            matrices: of the descriptors.
            tensors: those that change.
        """
        if self._packed is not None and not _looked_at():
            self._packed(
                self._stream_of(self._device),
                [matrix.data_ptr() for matrix in matrices],
                [tensor.data_ptr() for tensor in tensors if tensor is not None],
            )
        elif self._compiled is not None:
            self._by_triton(matrices, [None if tensor is None else tensor.data_ptr() for tensor in tensors])
        else:
            self._first(matrices, tensors)

    def at(self, addresses: Sequence[int | None]) -> None:
        """The same of a kernel without descriptors, by the addresses of tensors, where the launch `has_kernel`."""
        if self._packed is not None and not _looked_at():
            self._packed(self._stream_of(self._device), (), [at for at in addresses if at is not None])
        else:
            self._by_triton((), addresses)

    @property
    def has_kernel(self) -> bool:
        """Whether the next call launches what the first one had compiled: only where tensors are counts then."""
        return self._compiled is not None

    def _first(self, matrices: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor | None]) -> None:
        """Launch as Triton does, which compiles; keep how the same is launched directly."""
        self._descriptors = self._describe(*matrices)
        compiled = self._kernel[self._grid](*self._descriptors, *tensors, *self._stay, *self._sizes, **self._constants)
        # A virtual device is to be asked every time: it looks at launches.
        if has_gpu_driver():
            active = driver.active
            self._compiled, self._device = compiled, active.get_current_device()
            self._stream_of = active.get_current_stream
            cuda = cuda_driver()
            if cuda is not None:
                arguments = (*self._descriptors, *map(_address, tensors), *self._tail)
                try:
                    self._packed = PackedLaunch(cuda, compiled, self._grid[0], arguments, len(tensors))
                except UnpackableError as error:
                    name = compiled.metadata.name
                    _log.warning("%s is launched by Triton's launcher, which takes longer: %s", name, error)
        self._forget()

    def _by_triton(self, matrices: Sequence[torch.Tensor], addresses: Sequence[int | None]) -> None:
        """Launch with all arguments as Triton takes them; describe it to hooks that look at launches, if there are."""
        for descriptor, matrix in zip(self._descriptors, matrices, strict=True):
            descriptor.base = matrix
        compiled, arguments = self._compiled, (*self._descriptors, *addresses, *self._tail)
        if _looked_at():
            compiled[self._grid](*arguments)
        else:
            kernel = compiled.function, compiled.packed_metadata
            compiled.run(*self._grid, self._stream_of(self._device), *kernel, None, None, None, *arguments)
        self._forget()

    def _forget(self) -> None:
        """Descriptors would keep a call's tensors until the next one."""
        for descriptor in self._descriptors:
            descriptor.base = None


def _address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _no_stream(device: int) -> int:
    """Of a launch that has not been compiled yet."""
    raise NotImplementedError


def _looked_at() -> bool:
    """Whether hooks look at launches, which Triton then describes to them: a chain of hooks may be empty."""
    runtime = knobs.runtime
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    return (enter is not None and bool(getattr(enter, "calls", True))) or (
        leave is not None and bool(getattr(leave, "calls", True))
    )

"""Launches of a kernel at little cost for the host: what does not change from call to call is looked at once.

To launch, Triton asks every argument for its type and alignment, looks the compiled kernel up by the answers, and
checks options and globals, which takes the host longer than the launch itself. Where the answers are known to be the
same, the compiled kernel is launched directly, as Triton's ``kernel[grid]`` of a compiled kernel allows. Tensors are
then passed as addresses: of a tensor, Triton would ask the driver once more where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
        self._kept: _Kept | None = None

    def __call__(self, matrices: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor | int | None]) -> None:
        """Launch on the current stream.

        Args:
            matrices: of the descriptors.
            tensors: those that change; also their addresses, where the launch `has_kernel`.
        """
        kept = self._kept
        if kept is None:
            self._descriptors = self._describe(*matrices)
            compiled = self._kernel[self._grid](
                *self._descriptors, *tensors, *self._stay, *self._sizes, **self._constants
            )
            # A virtual device is to be asked every time: it looks at launches.
            if has_gpu_driver():
                self._kept = _kept(compiled, self._grid)
        else:
            if self._descriptors:
                for descriptor, matrix in zip(self._descriptors, matrices, strict=True):
                    descriptor.base = matrix
            given = (*self._descriptors, *[_address(tensor) for tensor in tensors], *self._tail)
            # Triton describes every launch to hooks that may look at it. That is done here only where there are some.
            if _hooked(knobs.runtime.launch_enter_hook) or _hooked(knobs.runtime.launch_exit_hook):
                kept.described(*given)
            else:
                kept.run(*self._grid, kept.stream_of(kept.device), *kept.kernel, None, None, None, *given)
        for descriptor in self._descriptors:
            descriptor.base = None  # which would keep a call's tensors until the next one

    @property
    def has_kernel(self) -> bool:
        """Whether the next call launches what the first one had compiled: only where tensors are counts then."""
        return self._kept is not None


class _Kept(NamedTuple):
    """A compiled kernel, as it is launched.

    Attributes:
        run: Triton's launcher.
        kernel: the function and its metadata, for it.
        described: the same launches, described to hooks.
        device, stream_of: the current device, and what tells its current stream.
    """

    run: Callable[..., None]
    kernel: tuple[Any, Any]
    described: Callable[..., None]
    device: int
    stream_of: Callable[[int], int]


def _kept(compiled: Any, grid: tuple[int, int, int]) -> _Kept:
    active = driver.active
    kernel = compiled.function, compiled.packed_metadata
    return _Kept(compiled.run, kernel, compiled[grid], active.get_current_device(), active.get_current_stream)


def _address(tensor: torch.Tensor | int | None) -> int | None:
    return tensor if tensor is None or isinstance(tensor, int) else tensor.data_ptr()


def _hooked(hook: Any) -> bool:
    """Whether somebody looks at launches: a chain of hooks may be empty."""
    return hook is not None and bool(getattr(hook, "calls", True))

"""Calls whose arguments have been checked: a call like an earlier one, values apart, is not checked again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch

from wavecast.kernels.async_tp.selection import Selection
from wavecast.kernels.async_tp.workspace import Workspace, keep
from wavecast.kernels.checks import INT32_MAX
from wavecast.kernels.device import Route, has_gpu_driver, record
from wavecast.kernels.tma import ALIGNMENT

_log = logging.getLogger(__name__)

MOST = 1024
"""Calls that are remembered of an operator."""


@dataclass(eq=False, slots=True)
class CheckedWay:
    """Which way a call goes whose arguments are right. Known by its identity: calls alike have one way.

    Attributes:
        chosen: the path over the group.
        route: where kernels are launched; None where none is.
        make: makes the overlapped call of a workspace that all such calls are; None where another path is taken.
        window_bytes: that the overlapped call needs of every rank.
        plain: whether tensors are matrices that are launched as they are given, and results are returned as they are.
        own_scales: whether scales of the left operand are of this rank's rows alone.
        kept: whether later calls alike find it.
    """

    chosen: Selection
    route: Route | None
    make: Callable[[Workspace], Any] | None = None
    window_bytes: int = 0
    plain: bool = False
    own_scales: bool = False
    kept: bool = False

    def tell(self, name: str) -> None:
        """Say at INFO which path a call of an operator takes, and note where it goes."""
        _log.info("%s: %s (%s)", name, self.chosen.way, self.chosen.reason)
        if self.route is not None:
            record(self.route)

    def call_over(self, workspace: Workspace) -> Any:
        """The overlapped call of a workspace; once made, kept with the workspace where the way is."""
        call = workspace.calls.get(self)
        if call is None:
            assert self.make is not None
            call = self.make(workspace)
            if self.kept:
                keep(workspace.calls, self, call)
        return call


class CheckedCalls:
    """The ways of an operator's calls, by all that its checks and compilers have looked at."""

    def __init__(self) -> None:
        self._ways: dict[Hashable, CheckedWay] = {}

    def get(self, signature: Hashable) -> CheckedWay | None:
        """The way of a call with this signature that has been checked."""
        return self._ways.get(signature)

    def keep(self, signature: Hashable, way: CheckedWay) -> CheckedWay:
        """Remember a call, if what else decides stays as it is: the device, as it does with a GPU's driver."""
        if has_gpu_driver():
            if len(self._ways) >= MOST:
                self._ways.clear()
            self._ways[signature] = way
            way.kept = True
        return way


_ON_AMD = torch.version.hip is not None


def described(tensor: torch.Tensor | None) -> tuple[Any, ...] | None:
    """All that checks look at of a tensor, and what Triton compiles for: where it begins, on AMD how large it is."""
    if tensor is None:
        return None
    aligned = tensor.data_ptr() % ALIGNMENT == 0
    large = _ON_AMD and tensor.untyped_storage().nbytes() > INT32_MAX
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, aligned, large

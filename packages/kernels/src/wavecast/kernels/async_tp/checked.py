"""Calls whose arguments have been checked: a call like an earlier one, values apart, is not checked again."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from wavecast.kernels.async_tp.selection import Selection
from wavecast.kernels.device import Route, has_gpu_driver, record

_log = logging.getLogger(__name__)

MOST = 1024
"""Calls that are remembered of an operator."""


@dataclass(frozen=True)
class CheckedWay:
    """Which way a call goes whose arguments are right.

    Attributes:
        chosen: the path over the group.
        route: where kernels are launched; None where none is.
    """

    chosen: Selection
    route: Route | None

    def tell(self, name: str) -> None:
        """Say at INFO which path a call of an operator takes, and note where it goes."""
        _log.info("%s: %s (%s)", name, self.chosen.way, self.chosen.reason)
        if self.route is not None:
            record(self.route)


class CheckedCalls:
    """The ways of an operator's calls, by all that its checks have looked at."""

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
        return way


def described(tensor: torch.Tensor | None) -> tuple[Any, ...] | None:
    """All that checks look at of a tensor."""
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)

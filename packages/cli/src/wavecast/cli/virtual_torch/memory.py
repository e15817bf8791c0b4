"""Memory that torch allocates without writing it, made recognisable for checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import torch

from wavecast.simulator.checks import mark_never_written

# What gives uninitialised memory to Python code; other functions write what they return.
_FUNCTIONS = ("empty", "empty_like", "empty_strided")
_METHODS = ("new_empty", "new_empty_strided")


def _marking(allocate: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(allocate)
    def allocate_marked(*args: Any, **kwargs: Any) -> Any:
        tensor = allocate(*args, **kwargs)
        # Tensors without memory of their own, as a compiler's or of the meta device, have nothing to mark.
        if type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_meta:
            mark_never_written(tensor)
        return tensor

    return allocate_marked


@contextmanager
def marked_allocations() -> Iterator[None]:
    """Inside the block, what ``torch.empty`` and its kin return counts as never written until somebody writes it."""
    with ExitStack() as stack:
        for owner, names in ((torch, _FUNCTIONS), (torch.Tensor, _METHODS)):
            for name in names:
                stack.enter_context(mock.patch.object(owner, name, _marking(getattr(owner, name))))
        yield

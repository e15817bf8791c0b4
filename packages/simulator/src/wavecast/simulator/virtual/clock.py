"""What programs measure time with, in predicted time: events, streams and benchmarks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wavecast.simulator.errors import LaunchError

if TYPE_CHECKING:
    from wavecast.simulator.launch import LaunchResult
    from wavecast.simulator.virtual.device import VirtualDevice, Workgroups

RETURN_MODES = ("mean", "median", "min", "max", "all")


class VirtualEvent:
    """A mark in a device's predicted time, with the interface of ``torch.cuda.Event``.

    Args:
        device: Whose clock is read.
    """

    def __init__(self, device: VirtualDevice) -> None:
        self._device = device
        self._at_us: float | None = None

    def record(self, stream: Any = None) -> None:
        """Note the time at which all launches so far have ended."""
        self._at_us = self._device.clock_us

    def elapsed_time(self, end: VirtualEvent) -> float:
        """Predicted milliseconds from this event to ``end``.

        Raises:
            LaunchError: One of the two was not recorded.
        """
        if self._at_us is None or end._at_us is None:
            raise LaunchError("an event that was not recorded has no time", hint="call record() before elapsed_time()")
        return (end._at_us - self._at_us) / 1e3

    def synchronize(self) -> None:
        """Nothing to wait for: a virtual launch has ended when it returns."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True: what came before has ended."""
        return True


def predicted_time_ms(
    device: VirtualDevice, run: Callable[[], Any], *, workgroups: Workgroups | None = None, is_flushed: bool = False
) -> float:
    """Predicted time of what a function launches, from cold caches, launches following one another at once.

    Args:
        device: The active device.
        run: Called once.
        workgroups: ``sample`` if nobody needs the results; None for what the device does.
        is_flushed: Whether a buffer was written before, whose lines still wait in the caches.

    Returns:
        Milliseconds; NaN, with a warning, if nothing was launched.

    Raises:
        LaunchError: The device does not predict times.
    """
    with device.benchmark(workgroups) as launches:
        run()
    if not launches:
        if not device.has_warned:
            device.has_warned = True
            warnings.warn(
                "a benchmarked function launched no kernel, and what else it did has no predicted time: it is nan",
                stacklevel=3,
            )
        return math.nan
    results = [launch.result for launch in launches]
    # Asked of the type: the time itself is computed when it is read, and what fails there is no matter of the device.
    if not all(hasattr(type(result), "predicted_us") for result in results):
        raise LaunchError(
            f"{device.name} does not simulate its launches, so they have no predicted time",
            hint="give an autotuned kernel one configuration",
        )
    return (_flushed_us(results, device) if is_flushed else sum(result.predicted_us for result in results)) / 1e3


def _flushed_us(results: Sequence[LaunchResult], device: VirtualDevice) -> float:
    """Predicted time of launches that follow a large buffer of zeros, which waits in the caches, in µs."""
    from wavecast.simulator.traffic.dirty import Caches, left_before

    total_us, left = 0.0, left_before(device.spec, Caches.DIRTY)
    for found in results:
        us, left = found.us_after(left)
        total_us += us
    return total_us


def summarized(time_ms: float, quantiles: Sequence[float] | None, return_mode: str) -> Any:
    """A time in the form in which ``triton.testing.do_bench`` returns many: a prediction has no spread."""
    if return_mode not in RETURN_MODES:
        raise LaunchError(f"return_mode is {return_mode!r}", hint=f"choose one of {', '.join(RETURN_MODES)}")
    if quantiles is not None:
        return [time_ms] * len(quantiles) if len(quantiles) != 1 else time_ms
    return [time_ms] if return_mode == "all" else time_ms


@contextmanager
def predicted_benchmarks() -> Iterator[None]:
    """Let Triton's benchmark functions ask the active driver, also where a program imported them by name before."""
    import triton.testing

    with (
        _body_of(triton.testing.do_bench, _do_bench),
        _body_of(triton.testing.do_bench_cudagraph, _do_bench_cudagraph),
    ):
        yield


@contextmanager
def _body_of(function: Any, replacement: Any) -> Iterator[None]:
    before = function.__code__, function.__defaults__
    function.__code__, function.__defaults__ = replacement.__code__, replacement.__defaults__
    try:
        yield
    finally:
        function.__code__, function.__defaults__ = before


# These two run with the names of ``triton.testing``.
def _do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean", **other):  # type: ignore[no-untyped-def]
    return runtime.driver.active.benchmark(fn, grad_to_none, quantiles, return_mode, is_flushed=True)  # type: ignore[name-defined]  # noqa: F821


def _do_bench_cudagraph(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean", **other):  # type: ignore[no-untyped-def]
    return runtime.driver.active.benchmark(fn, grad_to_none, quantiles, return_mode)  # type: ignore[name-defined]  # noqa: F821

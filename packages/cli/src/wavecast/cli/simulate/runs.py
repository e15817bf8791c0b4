"""A function whose launches go to a virtual device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from wavecast.cli.errors import CliError
from wavecast.cli.rows import CLEAN
from wavecast.cli.simulate.errors import translated_errors
from wavecast.cli.simulate.kernel_rows import kernel_rows
from wavecast.cli.simulate.launches import launch_facts, width_shares
from wavecast.cli.simulate.modelled import or_modelled
from wavecast.cli.simulate.prediction import Prediction
from wavecast.cli.simulate.times import effects, stream_times
from wavecast.cli.simulate.tuning import TUNINGS

if TYPE_CHECKING:
    from wavecast.simulator.timing.modelled import Work


def predict_run(
    function: Callable[[], object],
    *,
    device: str,
    whole: bool = False,
    works: Mapping[str, Sequence[Work]] | None = None,
    caches: str = CLEAN,
) -> Prediction:
    """Run a function whose kernel launches go to a virtual device, and predict the time of all of them in one stream.

    Args:
        function: Launches Triton kernels on CPU tensors.
        device: Name of the device.
        whole: Execute every workgroup instead of a sample.
        works: What kernels do that hand work to units beside their warps, launch by launch: those are not executed.
        caches: What the caches hold before the first launch: ``clean`` or ``dirty``.

    Raises:
        CliError: The simulator refused something, or nothing was launched.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.virtual import virtual_device

    with translated_errors():
        spec = load_device(device)
        TUNINGS.clear()
        simulated = or_modelled(works) if works else None
        with virtual_device(device, workgroups="all" if whole else "sample", simulate=simulated) as virtual:
            function()
        launches = list(virtual.launches)
    if not launches:
        raise CliError(f"nothing was launched on {device}", hint="run a function that launches Triton kernels")
    times = stream_times(launches, spec, caches=caches)
    return Prediction(
        arch=spec.arch,
        spec=spec.digest,
        triton=launches[0].code_object.toolchain.removeprefix("triton "),
        kernels=kernel_rows(launches, times),
        time_us=sum(time.predicted_us for time in times),
        low_us=sum(time.low_us for time in times),
        high_us=sum(time.high_us for time in times),
        load_widths=width_shares(launches, ("load", "lds_direct")),
        store_widths=width_shares(launches, ("store",)),
        launches=tuple(launch_facts(launch, time) for launch, time in zip(launches, times, strict=True)),
        sensitivity=effects(times, spec),
        tunings=tuple(TUNINGS),
    )

"""Launches that are not executed: kernels that hand work to units beside their warps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavecast.simulator.compile.code_object import CodeObject
    from wavecast.simulator.devices import Device
    from wavecast.simulator.program.kernel import Kernel
    from wavecast.simulator.timing.modelled import Work
    from wavecast.simulator.traffic.dirty import Residue


@dataclass(frozen=True, slots=True)
class ModelledResult:
    """What stands for the result of a launch that is not executed.

    Attributes:
        kernel: The kernel.
        work: What it does.
        device: Where.
    """

    kernel: Kernel
    work: Work
    device: Device

    @property
    def predicted_us(self) -> float:
        """Its time in a chain of launches."""
        from wavecast.simulator.timing.modelled import predict_modelled

        return predict_modelled(self.work, self.device).predicted_us

    def us_after(self, before: Residue) -> tuple[float, Residue]:
        """As ``LaunchResult.us_after``."""
        from wavecast.simulator.timing.modelled import predict_modelled

        time = predict_modelled(self.work, self.device, before=before)
        return time.predicted_us, time.left


def or_modelled(works: Mapping[str, Sequence[Work]]) -> Callable[..., Any]:
    """``simulate_launch``, with ``works`` in the order of their launches for the kernels that it refuses to execute."""
    from wavecast.simulator.errors import AsynchronousKernelError
    from wavecast.simulator.launch import parsed_kernel, simulate_launch

    left = {name: iter(some) for name, some in works.items()}

    def simulate(code: CodeObject, **how: Any) -> Any:
        try:
            return simulate_launch(code, **how)
        except AsynchronousKernelError:
            work = next(left.get(code.name, iter(())), None)
            if work is None:
                raise
            return ModelledResult(parsed_kernel(code), work, how["device"])

    return simulate

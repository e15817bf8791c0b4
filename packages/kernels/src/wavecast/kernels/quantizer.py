"""What the quantizers share: their result, and the way from a call through checks and allocation to a launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from wavecast.kernels.device import launch_device, route
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.reference_ops import EPS


class Quantized(NamedTuple):
    """A quantized tensor. The operator says which shapes the three have.

    Attributes:
        values: FP8.
        scale: fp32, the factor that was multiplied in.
        inverse: fp32, 1 / scale, what a GEMM multiplies its result by.
    """

    values: torch.Tensor
    scale: torch.Tensor
    inverse: torch.Tensor


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a launch turns values into bytes.

    Attributes:
        fmt: the FP8 format.
        maximum: what the scale maps the amax to, and the clamp; ``fmt.max``, unless an experiment shows another.
        power_of_two: round scales down to powers of two.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None in Triton's interpreter.
    """

    fmt: Fp8Format
    maximum: float
    power_of_two: bool
    arch: str | None

    @property
    def scale_constants(self) -> dict[str, Any]:
        """The constexprs of a kernel that computes scales."""
        return {"FP8_MAX": self.maximum, "EPS": EPS, "POWER_OF_TWO": self.power_of_two}


Launch = Callable[..., None]
"""``launch(*inputs, out, conversion)``: fills the allocated outputs ``out`` from checked inputs."""

Result = TypeVar("Result", bound=tuple)


@dataclass(frozen=True, slots=True)
class Quantizer(Generic[Result]):
    """What all variants of one operator share; a variant is a `Launch`.

    Attributes:
        check: ``check(*inputs)`` raises ValueError for what no variant takes.
        allocate: ``allocate(*inputs, dtype)``, the outputs, uninitialised, on the inputs' device.
        reference: ``reference(*inputs, fmt=…, power_of_two=…)``, the result in plain torch.
    """

    check: Callable[..., None]
    allocate: Callable[..., Result]
    reference: Callable[..., Result]

    def run(
        self,
        launch: Launch,
        *inputs: torch.Tensor,
        format: Fp8Format | None = None,  # noqa: A002 - what users call it
        power_of_two: bool = False,
    ) -> Result:
        """Carry out one call: on the device by ``launch``, or by the reference where Triton has no driver or the GPU
        has no FP8 hardware.

        Args:
            launch: the variant.
            inputs: the operator's tensors.
            format: FP8 format; None takes the native one of the active device.
            power_of_two: round scales down to powers of two.

        Raises:
            ValueError: the inputs are refused, are on the wrong device, or no format is known.
        """
        self.check(*inputs)
        way = route(*inputs, format=format)
        with torch.no_grad():  # the reference is as opaque to autograd as a kernel is
            if way.path.is_plain_torch:
                return self.reference(*inputs, fmt=way.format, power_of_two=power_of_two)
            out = self.allocate(*inputs, way.format.dtype)
            if _any_elements(out):
                with launch_device(inputs[0]):
                    launch(*inputs, out, Conversion(way.format, way.format.max, power_of_two, way.arch))
        return out


def _any_elements(out: Any) -> bool:
    """Whether a result, which is a tensor, None, or a tuple of results, has any elements."""
    if isinstance(out, tuple):
        return any(map(_any_elements, out))
    return out is not None and out.numel() > 0

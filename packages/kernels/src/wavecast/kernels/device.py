"""Which device the operators run on: asked of Triton's active driver, never of a build list or of torch.

Four situations, and the caller can always see which one holds (`Route.path`, `last_path`, an INFO log line):

* a GPU's driver is active: tensors must be on that GPU, and CPU tensors are an error;
* the same, but the GPU has no FP8 hardware: the plain torch reference runs on it, with one warning per architecture;
* a virtual driver is active (its object carries ``is_virtual = True``): CPU tensors are launched on it, or GPU tensors
  where a program that asks for GPUs is run on it (it says where its tensors are);
* no driver is active: CPU tensors take the plain torch reference.

Within `plain_torch` the reference runs in all of them, on the tensors that kernels would get: what their results are
compared with. With ``TRITON_INTERPRET=1`` Triton itself executes kernels on CPU tensors without a driver; this is a
path of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any

import torch
from triton.backends.driver import GPUDriver

from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, FORMATS, Fp8Format

_log = logging.getLogger(__name__)
_HERE = nullcontext()
_last_path: ContextVar[Path | None] = ContextVar("wavecast_last_path", default=None)
_plain_torch: ContextVar[bool] = ContextVar("wavecast_plain_torch", default=False)

COMPUTE_UNITS = {"gfx942": 304, "gfx950": 256, "sm_90": 132}
"""Compute units (SMs) that plans spread programs over: MI300X and MI325X, MI355X, H100 and H200. A device with another
number is as right and less balanced."""

OTHER_COMPUTE_UNITS = 128
"""For architectures not listed."""


class Path(StrEnum):
    """How an operator was carried out."""

    TRITON = "triton"
    """Kernels launched through Triton's active driver, real or virtual."""
    REFERENCE = "reference"
    """Plain torch: on CPU tensors, since Triton has no active driver; on any within `plain_torch`."""
    EMULATED = "emulated"
    """Plain torch on a GPU without FP8 hardware: right and slow, and it may wait for the device."""
    INTERPRETER = "interpreter"
    """Triton's own interpreter (``TRITON_INTERPRET=1``); its FP8 casts do not round to nearest even."""

    @property
    def is_plain_torch(self) -> bool:
        """Whether the operator's reference carries out the call, and no kernel is launched."""
        return self in (Path.REFERENCE, Path.EMULATED)


@dataclass(frozen=True)
class Route:
    """Where one call goes: the path, the architecture (None without a driver) and the FP8 format to produce."""

    path: Path
    arch: str | None
    format: Fp8Format


def _active_driver() -> tuple[Any, Any] | None:
    """Triton's active driver object and its target, or None when the machine has no GPU and none was set."""
    from triton.runtime import driver

    try:
        active = driver.active  # may be lazy: asking for the target resolves it
        if isinstance(active, GPUDriver):
            return active, _target_of(active, active.get_current_device())
        return active, active.get_current_target()
    except RuntimeError as error:
        if "0 active drivers" in str(error):
            return None
        raise


def has_gpu_driver() -> bool:
    """Whether Triton's active driver is one of a GPU, whose devices stay what they are."""
    active = _active_driver()
    return active is not None and isinstance(active[0], GPUDriver)


@lru_cache(maxsize=64)
def _target_of(active: Any, device: int) -> Any:
    """Asked once: on AMD each question reads all properties of the device anew."""
    return active.get_current_target()


def _interpreting() -> bool:
    import triton

    return bool(triton.knobs.runtime.interpret)


def arch_of(target: Any) -> str:
    """Name of a Triton ``GPUTarget``: ``gfx942``, ``gfx950`` or ``sm_NN``.

    Raises:
        ValueError: the backend is neither ``hip`` nor ``cuda``.
    """
    if target.backend == "hip":
        return str(target.arch).split(":")[0]
    if target.backend == "cuda":
        return f"sm_{target.arch}"
    raise ValueError(f"Triton backend {target.backend!r} is not supported; the kernels run on 'hip' and 'cuda'")


def active_arch() -> str | None:
    """Architecture of Triton's active driver, or None if there is no driver (CPU tensors then take the reference).

    Raises:
        ValueError: the driver's backend is neither ``hip`` nor ``cuda``.
    """
    active = _active_driver()
    return None if active is None else arch_of(active[1])


def compute_units(arch: str | None) -> int:
    """`COMPUTE_UNITS` of ``arch``; None, for the interpreter, counts as gfx942."""
    return COMPUTE_UNITS.get(arch or "gfx942", OTHER_COMPUTE_UNITS)


def active_arch_and_units() -> tuple[str | None, int | None]:
    """`active_arch`, and compute units (SMs) of the device that the driver has current; None without a driver."""
    active = _active_driver()
    if active is None:
        return None, None
    return arch_of(active[1]), _units_of(active[0], active[0].get_current_device())


@lru_cache(maxsize=16)
def _units_of(driver: Any, device: int) -> int:
    """Asked once: on AMD, that reads all properties of the device."""
    return int(driver.utils.get_device_properties(device)["multiprocessor_count"])


@cache
def native_format(arch: str) -> Fp8Format:
    """The E4M3 format that ``arch`` converts and multiplies in hardware.

    Raises:
        ValueError: ``arch`` has no FP8 hardware that is known here.
    """
    for fmt in (E4M3FNUZ, E4M3FN):
        if fmt.is_native_on(arch):
            return fmt
    raise ValueError(
        f"architecture {arch!r} has no FP8 format here; possible are gfx942 ({E4M3FNUZ.name}), gfx950 and NVIDIA from "
        f"sm_{E4M3FN.native_from_sm} on ({E4M3FN.name})"
    )


@cache
def has_fp8(arch: str) -> bool:
    """Whether ``arch`` converts and multiplies some FP8 format in hardware."""
    return any(fmt.is_native_on(arch) for fmt in FORMATS)


def default_format_name() -> str:
    """Name of the format that training takes when it is given none: the native one of the active device, else E4M3FN.

    torch.compile asks once and keeps the answer in the compiled code, as a process has GPUs of one kind (see
    ``wavecast.kernels.ops``); after a virtual device comes or goes, call ``torch.compiler.reset()``.
    """
    arch = active_arch()
    return (E4M3FN if arch is None or not has_fp8(arch) else native_format(arch)).name


def route(*tensors: torch.Tensor, format: Fp8Format | None = None) -> Route:  # noqa: A002 - what users call it
    """Decide where a call on ``tensors`` goes, record it for `last_path` and log it at INFO.

    Args:
        tensors: every tensor argument of the operator; all must be on one device.
        format: the FP8 format that the caller asks for; None takes the native one of the active architecture, E4M3FN
            where it has none.

    Raises:
        ValueError: tensors on several devices; CPU tensors while a GPU is active; GPU tensors while a virtual device
            is active; no driver and no ``format``; a ``format`` that is none, or that Triton cannot convert to on this
            architecture.
    """
    if format is not None and not isinstance(format, Fp8Format):
        raise ValueError(
            f"format is {format!r}; wanted is an Fp8Format of wavecast.kernels, such as E4M3FNUZ; format_of(dtype) and "
            "format_named(name) find one"
        )
    devices = {t.device for t in tensors}
    if len(devices) != 1:
        raise ValueError(f"tensors are on {sorted(map(str, devices))}; move them all to one device")
    where = devices.pop()
    on_cpu = where.type == "cpu"
    if _interpreting():
        return record(Route(Path.INTERPRETER, None, _required(format)))
    active = _active_driver()
    if active is None:
        if not on_cpu:
            raise ValueError("GPU tensors, but Triton has no active driver; install a Triton that supports this GPU")
        return record(Route(Path.REFERENCE, None, _required(format)))
    driver, target = active
    arch = arch_of(target)
    virtual = bool(getattr(driver, "is_virtual", False))
    if on_cpu and not virtual:
        raise ValueError(f"CPU tensors while a real {arch} is active; move them to the GPU with .cuda()")
    if virtual and where.type != _place_of(driver).type:
        kind, way = ("CPU", "to the GPU with .cuda()") if on_cpu else ("GPU", "to the CPU with .cpu()")
        raise ValueError(f"{kind} tensors while a virtual {arch} is active; move them {way}")
    if _plain_torch.get():
        native = native_format(arch) if has_fp8(arch) else E4M3FN
        return record(Route(Path.REFERENCE, arch, native if format is None else format))
    if not has_fp8(arch):
        _warn_emulated(arch)
        return record(Route(Path.EMULATED, arch, E4M3FN if format is None else format))
    return record(Route(Path.TRITON, arch, native_format(arch) if format is None else _convertible(format, arch)))


@contextmanager
def plain_torch() -> Iterator[None]:
    """Let every operator be carried out by its reference, on whatever device its tensors are: what is right there."""
    before = _plain_torch.set(True)
    try:
        yield
    finally:
        _plain_torch.reset(before)


def _place_of(virtual_driver: Any) -> torch.device:
    """Where the tensors of a virtual device are: on the CPU, unless a program that asks for GPUs is run on it."""
    ask = getattr(virtual_driver, "get_active_torch_device", None)
    return torch.device("cpu" if ask is None else ask())


def _convertible(asked: Fp8Format, arch: str) -> Fp8Format:
    """``asked``, if Triton has a conversion to it: on AMD GPUs to all formats, on NVIDIA's only in hardware."""
    if arch.startswith("sm_") and not asked.is_native_on(arch):
        possible = ", ".join(fmt.name for fmt in FORMATS if fmt.is_native_on(arch))
        raise ValueError(f"format {asked.name} cannot be produced on {arch}; possible there: {possible}")
    return asked


@cache
def _warn_emulated(arch: str) -> None:
    """Say once per architecture that its results come slowly."""
    _log.warning(
        "%s has no FP8 hardware: FP8 operators run as plain torch on it, right but slow (path %s)", arch, Path.EMULATED
    )


def _required(asked: Fp8Format | None) -> Fp8Format:
    if asked is None:
        raise ValueError(
            "no format given and no active device to ask for its native one; "
            "pass format=E4M3FNUZ (gfx942) or format=E4M3FN (gfx950, NVIDIA)"
        )
    return asked


def record(chosen: Route) -> Route:
    """Note and log that a call goes this way; `route` does."""
    _last_path.set(chosen.path)
    _log.info("path %s, arch %s, format %s", chosen.path, chosen.arch, chosen.format.name)
    return chosen


def last_path() -> Path | None:
    """The path that the latest operator call in this context took, or None before the first call."""
    return _last_path.get()


def launch_device(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Context in which Triton launches on ``tensor``'s GPU, also if it is not the current one; nothing on the CPU."""
    device = tensor.device
    if device.type == "cpu" or device.index == torch.cuda.current_device():
        return _HERE
    return torch.cuda.device(device)

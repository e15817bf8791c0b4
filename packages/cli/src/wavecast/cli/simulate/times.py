"""Times of launches in one stream, and what moves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from wavecast.cli.rows import CLEAN, Effect
from wavecast.cli.simulate.modelled import ModelledResult

if TYPE_CHECKING:
    from wavecast.cli.simulate.either import AnyLaunch, AnyTime
    from wavecast.simulator.devices import Device
    from wavecast.simulator.timing import Bound


def stream_times(launches: Sequence[AnyLaunch], device: Device, *, caches: str = CLEAN) -> list[AnyTime]:
    """Times in one stream: the first launch finds an idle queue and pays for waking it, the others follow at once.

    Args:
        launches: The launches, in their order.
        device: Where.
        caches: What the caches hold before the first one: ``clean`` or ``dirty``, as ``Row.caches`` says.
    """
    from wavecast.simulator.timing import Position, after_writes, predict_time
    from wavecast.simulator.timing.modelled import predict_modelled
    from wavecast.simulator.traffic.dirty import Caches, left_before

    times: list[AnyTime] = []
    left = left_before(device, Caches(caches))
    for launch in launches:
        found: Any = launch.result
        position = Position.BACK_TO_BACK if times else Position.FIRST
        if isinstance(found, ModelledResult):
            modelled = predict_modelled(found.work, device, position=position, rested=True, before=left)
            times.append(modelled)
            left = modelled.left
            continue
        traffic, left = after_writes(found.traffic, device, before=left)
        times.append(predict_time(found.kernel, found.execution, traffic, device, position=position))
    return times


def effects(times: Sequence[AnyTime], device: Device) -> tuple[Effect, ...]:
    """What each uncertain constant makes of the sum of some times: it moves all launches together."""
    moved = [{entry.constant: (entry.low_us, entry.high_us) for entry in time.sensitivity} for time in times]
    effects = []
    for constant in dict.fromkeys(name for entries in moved for name in entries):
        ends = [
            entries.get(constant, (time.predicted_us, time.predicted_us))
            for entries, time in zip(moved, times, strict=True)
        ]
        quantity = device.quantities.get(constant)
        effects.append(
            Effect(
                constant=constant,
                value=quantity.value if quantity else None,
                low=quantity.low if quantity else None,
                high=quantity.high if quantity else None,
                unit=quantity.unit if quantity else None,
                low_us=sum(low for low, _ in ends),
                high_us=sum(high for _, high in ends),
                kind=str(quantity.kind) if quantity else constant,
                source="; ".join(quantity.sources)
                if quantity
                else "standard error of the workgroups that were executed",
            )
        )
    return tuple(sorted(effects, key=lambda effect: -abs(effect.high_us - effect.low_us)))


def floor_us(device: str, *, minimum_bytes: int, flop: int, dtype: str, linked_bytes: int = 0, ranks: int = 1) -> float:
    """Time that no implementation goes below by much: a launch, and the longest of moving, multiplying and sending.

    The bytes move at the device's rate for copies, the operations run at its matrix rate and the clock
    that it sustains under such a load. What comes from other GPUs comes over all links that lead to them, at the
    higher of the rates of copy engines and kernels with both directions busy.

    Args:
        device: Name of the device.
        minimum_bytes: Inputs once, outputs once.
        flop: Operations of a product; 0 where only bytes count.
        dtype: Operands of the product, ``bf16`` or ``fp8``.
        linked_bytes: Bytes that a GPU receives from the others of its node.
        ranks: GPUs of the node.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.overlap.node import Node
    from wavecast.simulator.timing import Position
    from wavecast.simulator.timing.model import launch_us

    spec = load_device(device)
    moving = minimum_bytes / (spec.hbm.mixed_tb_s * 1e6)
    if dtype == "fp8":
        rate, clock_ghz = max(spec.matrix.f8, spec.matrix.f8f6f4_8bit or 0.0), spec.compute.matrix_clock_8bit_ghz
    else:
        rate, clock_ghz = spec.matrix.f16, spec.compute.matrix_clock_ghz
    multiplying = flop / (rate * spec.compute.num_cu * clock_ghz * 1e3)
    sending = 0.0
    if linked_bytes:
        node = Node(spec, ranks)
        sending = linked_bytes / (node.links * max(node.link.engine_both_gb_s, node.link.kernel_both_gb_s)) * 1e-3
    working_us = max(moving, multiplying, sending)
    return working_us + launch_us(spec, Position.FIRST, working_us=working_us)


def combined_us(device: str) -> Callable[[Mapping[str, float]], float]:
    """The function from the terms of a launch to its time in µs that a prediction itself uses.

    Args:
        device: Name of the device. The function wants all the keys of ``LaunchFacts.terms``.
    """
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.timing import combine_us

    spec = load_device(device)
    # A ``Bound`` is its name: it finds itself among strings.
    return lambda terms: combine_us(cast("Mapping[Bound, float]", terms), spec)

"""The prediction of a GEMM: kernel, point, interval, bound and cause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.gemm.libraries import library
from wavecast.simulator.timing.gemm.model import ALL, GemmEvaluation, Mechanisms, evaluate_gemm
from wavecast.simulator.timing.gemm.problem import GemmError, GemmProblem
from wavecast.simulator.timing.gemm.tile import Configuration
from wavecast.simulator.timing.prediction import Bound, ModelledTime, Position, Sensitivity
from wavecast.simulator.timing.uncertainty import interval, sensitivities
from wavecast.simulator.traffic.dirty import Residue

# A library's heuristic may take a kernel that is slower by so much than its best one.
_CHOICE_TOLERANCE = 0.25
_FULLY_EVALUATED = 12


@dataclass(frozen=True, slots=True)
class GemmPrediction(ModelledTime):
    """Time of one product; see ``ModelledTime`` for the rest.

    Attributes:
        configuration: The kernel assumed.
        alternatives: Other kernels of the library that come close: a heuristic might take one of them.
        clock_ghz: Clock of the compute units.
        fabric_read_bytes: Into the L2s.
        flop: Operations that the result needs.
    """

    configuration: Configuration
    alternatives: tuple[Configuration, ...]
    clock_ghz: float
    fabric_read_bytes: float
    flop: int

    @property
    def tflops(self) -> float:
        """Useful TFLOP/s."""
        return self.flop / self.predicted_us * 1e-6


def predict_gemm(
    problem: GemmProblem,
    device: Device,
    kernel: str | Configuration,
    *,
    position: Position | str = Position.BACK_TO_BACK,
    warm: bool = False,
    mechanisms: Mechanisms = ALL,
    rested: bool = False,
    before: Residue | None = None,
) -> GemmPrediction:
    """Predict how long a matrix multiplication takes.

    Args:
        problem: What is computed.
        device: Where.
        kernel: The kernel, or the name of a library whose fastest kernel is taken.
        position: ``first``: alone between two events. ``back-to-back``: one of a chain of launches.
        warm: Whether an equal launch just before left its operands in the caches.
        mechanisms: What is taken into account; for ablations.
        rested: Whether nothing hot came before it, as where single launches are measured.
        before: What earlier launches left in the L2, see ``written_among``.

    Raises:
        GemmError: if the device cannot run the kernel, or has no matrix instruction for the operands.
        ValueError: if the position is unknown.
    """
    position = Position(position)
    how: dict[str, Any] = {"position": position, "warm": warm, "mechanisms": mechanisms, "rested": rested}
    how["before"] = before
    ranked = rank_kernels(problem, device, kernel, **how)
    configuration, point = ranked[0]
    near = [entry for entry in ranked[1:] if entry[1].total_us <= (1 + _CHOICE_TOLERANCE) * point.total_us]

    def time_us(changed: Device) -> float:
        return evaluate_gemm(problem, configuration, changed, **how).total_us

    others = [Sensitivity("kernel", point.total_us, near[-1][1].total_us)] if near else []
    moved = sensitivities(time_us, device, point_us=point.total_us, others=others)
    low, high = interval(time_us, device, moved, point_us=point.total_us)
    return GemmPrediction(
        predicted_us=point.total_us,
        low_us=low,
        high_us=high,
        bound=point.bound,
        cause=_cause(problem, configuration, device, point),
        terms=MappingProxyType(point.terms),
        configuration=configuration,
        alternatives=tuple(entry[0] for entry in near),
        clock_ghz=point.clock_ghz,
        l2_read_bytes=point.moved.l2_read,
        fabric_read_bytes=point.moved.fabric_read,
        hbm_read_bytes=point.moved.hbm_read,
        written_bytes=point.moved.written,
        left=point.left,
        flop=problem.flop,
        sensitivity=moved,
        device=device.digest,
    )


def rank_kernels(
    problem: GemmProblem,
    device: Device,
    kernel: str | Configuration,
    *,
    position: Position = Position.BACK_TO_BACK,
    warm: bool = False,
    mechanisms: Mechanisms = ALL,
    rested: bool = False,
    before: Residue | None = None,
) -> list[tuple[Configuration, GemmEvaluation]]:
    """Kernels with their times, the fastest first; of a library only those worth a look at its memory traffic.

    Arguments and errors as of ``predict_gemm``, which adds the interval and the cause.
    """
    if isinstance(kernel, Configuration):
        if kernel.tile.per_compute_unit(device) < 1:
            raise GemmError(
                f"a compute unit of {device.name} does not hold tile {kernel}: {kernel.tile.lds_bytes} B of LDS, "
                f"{kernel.tile.m * kernel.tile.n} accumulators; choose a smaller tile"
            )
        candidates = [kernel]
    else:
        candidates = list(library(kernel).candidates(problem, device))
    # Without traffic a time is cheap, and too short by what memory adds: good enough to choose whom to look at.
    if len(candidates) > _FULLY_EVALUATED:
        candidates.sort(key=lambda entry: _quick_us(problem, entry, device, position, mechanisms))
    how: dict[str, Any] = {"position": position, "warm": warm, "mechanisms": mechanisms, "rested": rested}
    timed = [
        (entry, evaluate_gemm(problem, entry, device, before=before, **how)) for entry in candidates[:_FULLY_EVALUATED]
    ]
    return sorted(timed, key=lambda entry: entry[1].total_us)


def _quick_us(
    problem: GemmProblem, configuration: Configuration, device: Device, position: Position, mechanisms: Mechanisms
) -> float:
    return evaluate_gemm(
        problem, configuration, device, position=position, mechanisms=replace(mechanisms, traffic=False, clock=False)
    ).total_us


def _cause(problem: GemmProblem, configuration: Configuration, device: Device, point: GemmEvaluation) -> str:
    tiles, units = configuration.workgroups(problem), device.compute.num_cu
    if point.bound is Bound.LAUNCH:
        return "the launch costs more than the work"
    if point.bound is Bound.WRITE_BACK:
        return f"what the last round has left dirty in the L2s, of {point.moved.written / 1e6:,.1f} MB, is written back"
    if point.bound in (Bound.HBM, Bound.MALL, Bound.L2):
        level, read = {
            Bound.HBM: ("HBM", point.moved.hbm_read),
            Bound.MALL: ("the memory-side cache", point.moved.fabric_read),
            Bound.L2: ("L2", point.moved.l2_read),
        }[point.bound]
        excess = (read + point.moved.written) / problem.minimum_bytes
        return f"{level} moves {(read + point.moved.written) / 1e6:,.1f} MB, {excess:.2f} times operands and result"
    useful = problem.flop / (2 * configuration.tile.m * configuration.tile.n * configuration.tile.k(problem.bits))
    filled = useful / (point.rounds.steps * units)
    tail = f"{tiles:,} tiles of {configuration} on {units} compute units, which are busy for {100 * filled:.0f} %"
    if point.bound is Bound.LATENCY:
        return f"waits for memory at the start and end of tiles and between steps; {tail}"
    part = {Bound.ISSUE: "matrix unit", Bound.LDS: "LDS", Bound.L1: "path from L2"}[point.bound]
    return f"the {part} takes {point.step.busy:,.0f} cycles a step at {point.clock_ghz:.2f} GHz; {tail}"

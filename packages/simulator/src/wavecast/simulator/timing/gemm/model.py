"""Time of a GEMM with a given kernel, for one set of constants."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavecast.simulator.devices import Device
from wavecast.simulator.devices.constants import Hbm, Mall
from wavecast.simulator.timing.clock import issue_efficiency, matrix_clock_ghz
from wavecast.simulator.timing.combine import COMPUTE_UNIT, combine_us
from wavecast.simulator.timing.gemm.main_loop import Step, epilogue_clk, prologue_clk, step_clk
from wavecast.simulator.timing.gemm.problem import GemmProblem
from wavecast.simulator.timing.gemm.reuse import Caches, Movement, movement, no_reuse
from wavecast.simulator.timing.gemm.rounds import Rounds, count_rounds
from wavecast.simulator.timing.gemm.tile import Configuration
from wavecast.simulator.timing.memory_time import fills_us, mixed_us, write_back_us
from wavecast.simulator.timing.model import launch_us
from wavecast.simulator.timing.prediction import Bound, Position
from wavecast.simulator.traffic.dirty import NOTHING, Residue, written_among

_BYTES_PER_US = 1e6  # of one TB/s
_PARTIAL_BYTES = 4
_CLOCK_STEPS = 20
_CLOCK_TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """What the model takes into account; an ablation switches one off.

    Attributes:
        quantization: Whole tiles and whole rounds.
        reuse: Panels that workgroups share are fetched once.
        clock: The power limit lowers the clock; else everything runs at the peak.
        traffic: Caches and memory take time.
    """

    quantization: bool = True
    reuse: bool = True
    clock: bool = True
    traffic: bool = True


ALL = Mechanisms()


@dataclass(frozen=True, slots=True)
class GemmEvaluation:
    """Result for one set of constants.

    Attributes:
        total_us: Time of the launch.
        terms: µs by resource, as in ``TimePrediction``.
        clock_ghz: Clock of the compute units.
        step: Cycles of a step.
        rounds: Work of the compute unit that finishes last.
        moved: Bytes.
        left: What it leaves in an L2 that writes nothing back at its end.
    """

    total_us: float
    terms: dict[Bound, float]
    clock_ghz: float
    step: Step
    rounds: Rounds
    moved: Movement
    left: Residue = NOTHING

    @property
    def compute_unit_us(self) -> float:
        return sum(self.terms[name] for name in COMPUTE_UNIT)

    @property
    def bound(self) -> Bound:
        """The largest term; the compute units count as a whole, and their largest part gives the name."""
        others = {name: us for name, us in self.terms.items() if name not in COMPUTE_UNIT}
        largest = max(others, key=lambda name: others[name])
        if self.compute_unit_us > others[largest]:
            return max(COMPUTE_UNIT, key=lambda name: self.terms[name])
        return largest


def evaluate_gemm(
    problem: GemmProblem,
    configuration: Configuration,
    device: Device,
    *,
    position: Position = Position.BACK_TO_BACK,
    warm: bool = False,
    mechanisms: Mechanisms = ALL,
    rested: bool = False,
    before: Residue | None = None,
) -> GemmEvaluation:
    """Time a launch at the clock that its own work leaves it.

    Args:
        problem: What is computed.
        configuration: With which kernel.
        device: The constants.
        position: Where the launch stands in its stream.
        warm: Whether an equal launch just before left its operands in the caches.
        mechanisms: What is taken into account.
        rested: Whether nothing hot came before: power is averaged over longer than a launch, so one alone runs faster.
        before: What earlier launches left in the L2, see ``written_among``.
    """
    device = _rested(device) if rested else device
    rounds = count_rounds(problem, configuration, device, quantized=mechanisms.quantization)
    moved = _moved(problem, configuration, device, rounds, warm=warm, mechanisms=mechanisms)
    step = step_clk(problem, configuration, device)
    hbm_written, left = written_among(moved.hbm_read, moved.written, device, before=before)
    norm = device.combine.pipeline_norm

    def at(clock_ghz: float) -> GemmEvaluation:
        terms = _terms(problem, configuration, device, step, rounds, moved, clock_ghz)
        terms[Bound.HBM] = mixed_us(moved.hbm_read, hbm_written, device.hbm)
        working_us = combine_us(terms, device, norm=norm)
        terms[Bound.LAUNCH] += launch_us(device, position, working_us=working_us)
        return GemmEvaluation(combine_us(terms, device, norm=norm), terms, clock_ghz, step, rounds, moved, left)

    if not mechanisms.clock:
        return at(device.compute.clock_ghz)
    bits = problem.bits
    rate = problem.flop_per_clk(device) * device.compute.num_cu * issue_efficiency(device, bits=bits)
    full = rate * matrix_clock_ghz(device, bits=bits) * 1e3
    found = at(device.compute.clock_ghz)
    follows = 1 / (device.compute.power_exponent - 1)
    for _ in range(_CLOCK_STEPS):
        # The faster the clock, the higher the load, and the lower the clock that the power limit allows: the clock
        # that meets its own condition is found at once where time goes as one over the clock, and soon elsewhere.
        load = problem.flop / max(1e-9, found.total_us - found.terms[Bound.LAUNCH]) / full
        allowed = matrix_clock_ghz(device, bits=bits, load=load)
        clock_ghz = (allowed * found.clock_ghz**follows) ** (1 / (1 + follows))
        if abs(clock_ghz / found.clock_ghz - 1) < _CLOCK_TOLERANCE:
            break
        found = at(clock_ghz)
    return found


def _rested(device: Device) -> Device:
    """With the clocks of single launches, where they are known."""
    compute = device.compute
    return replace(
        device,
        compute=replace(
            compute,
            matrix_clock_ghz=compute.rested_matrix_clock_ghz or compute.matrix_clock_ghz,
            matrix_clock_8bit_ghz=compute.rested_matrix_clock_8bit_ghz or compute.matrix_clock_8bit_ghz,
        ),
    )


def _moved(
    problem: GemmProblem,
    configuration: Configuration,
    device: Device,
    rounds: Rounds,
    *,
    warm: bool,
    mechanisms: Mechanisms,
) -> Movement:
    if not mechanisms.traffic:
        return Movement(1.0, 0.0, 0.0, 0.0)
    if not mechanisms.reuse:
        return no_reuse(problem, configuration)
    mall = int(device.mall.bytes * device.mall.reuse_fraction)
    slots = device.compute.num_cu * rounds.resident
    return movement(
        problem, configuration, Caches(slots, device.compute.num_xcd, int(device.l2.bytes_per_xcd), mall, warm)
    )


def _terms(
    problem: GemmProblem,
    configuration: Configuration,
    device: Device,
    step: Step,
    rounds: Rounds,
    moved: Movement,
    clock_ghz: float,
) -> dict[Bound, float]:
    clk_per_us = clock_ghz * 1e3
    workgroups = configuration.workgroups(problem)
    sequences = rounds.tiles / rounds.resident
    # Steps whose operands arrive later than the multiplication of those before them lasts.
    missed_l2 = moved.fabric_read / moved.l2_read
    missed_mall = moved.hbm_read / moved.fabric_read if moved.fabric_read else 0.0
    beyond = (1 - missed_mall) * device.mall.latency_clk + missed_mall * device.hbm.latency_clk
    latency_us = ((1 - missed_l2) * device.l2.latency_clk + missed_l2 * beyond) / device.clk_per_us
    arrival_us = latency_us / configuration.tile.ahead / rounds.resident
    busy_us = step.busy / clk_per_us
    waiting_us = max(0.0, arrival_us - busy_us) * rounds.steps
    pro_us = prologue_clk(problem, configuration, device) / device.clk_per_us
    epi_us = epilogue_clk(problem, configuration, device) / clk_per_us
    ends_us = pro_us + epi_us * sequences if configuration.persistent else (pro_us + epi_us) * sequences
    partial_us = _split_us(moved, configuration, device)
    if configuration.stream_k and workgroups % device.compute.num_cu:
        # Each compute unit writes the part of a tile that it began, and reads the part that another one began.
        tile = configuration.tile
        ends_us += 2 * tile.m * tile.n * _PARTIAL_BYTES / device.l1.store_bytes_per_clk / clk_per_us
    slots = device.compute.num_cu * rounds.resident
    started = min(workgroups, slots) if configuration.persistent or configuration.stream_k else workgroups
    main_us = busy_us * rounds.steps
    names = {Bound.ISSUE: step.matrix, Bound.LDS: step.lds, Bound.L1: step.fill}
    slowest = max(names, key=lambda name: names[name])
    terms = dict.fromkeys(Bound, 0.0)
    terms[Bound.LAUNCH] = partial_us
    terms[slowest] = main_us
    terms[Bound.LATENCY] = waiting_us + ends_us
    terms[Bound.WORKGROUP_LAUNCH] = started * device.launch.workgroup_clk / device.clk_per_us
    read_tb_s = (device.l2.bulk_read_tb_s if configuration.bulk else None) or device.l2.read_tb_s
    terms[Bound.L2] = (moved.l2_read / read_tb_s + moved.written / device.l2.write_tb_s) / _BYTES_PER_US
    fills = fills_us(moved.hbm_read, moved.written, device)
    terms[Bound.MALL] = mixed_us(moved.fabric_read, moved.written, device.mall) + fills
    last_bytes = moved.written * min(1.0, slots / workgroups)
    terms[Bound.WRITE_BACK] = write_back_us(min(last_bytes, device.l2.bytes_per_xcd * device.compute.num_xcd), device)
    return terms


def _split_us(moved: Movement, configuration: Configuration, device: Device) -> float:
    """A second launch that adds the parts of split tiles, read from where the first one wrote them."""
    if configuration.split_k == 1:
        return 0.0
    level: Mall | Hbm = device.mall if moved.written <= device.mall.bytes else device.hbm
    result = moved.written / configuration.split_k / 2
    return device.launch.back_to_back_us + mixed_us(moved.written, result, level)

"""What each static instruction costs on a compute unit, for one set of constants."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.instruction import PTX, WARP_END, WARP_WAIT, Instruction
from wavecast.simulator.program.kept import OfKernels
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.compute_unit.layout import (
    COSTS,
    NO_LIMIT,
    TICKS_PER_CLK,
    WHOLE,
    Action,
    Cost,
    Pipe,
)
from wavecast.simulator.timing.machine_opcodes import MachinePipe, machine_rate
from wavecast.simulator.timing.opcodes import is_8bit_matrix, is_half_rate, is_quarter_rate, matrix_clk, unit_of
from wavecast.simulator.timing.ptx_opcodes import is_fence, orders_memory
from wavecast.simulator.timing.units import Rate, Unit
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, Traffic
from wavecast.simulator.traffic.coalescing import LANES_PER_QUAD, QUADS_PER_CYCLE

_FIELD = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")
_NUMBER = re.compile(r"^\S+\s+(0x[0-9a-f]+|\d+)$")
_LANE_EXCHANGE = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")
_DWORD = 4
_ADDRESS_BYTES_PER_CLK = 64
_LINE_BYTES = 128
_NOP_CLK = 4
_SLEEP_CLK = 64
_UNIT_ACTION = {
    Unit.VECTOR_MEMORY: Action.VECTOR_MEMORY,
    Unit.LDS: Action.LDS,
    Unit.SCALAR_MEMORY: Action.SCALAR_MEMORY,
}
_UNIT_PIPE = {Unit.VALU: Pipe.VECTOR, Unit.MATRIX: Pipe.MATRIX, Unit.SCALAR: Pipe.SCALAR, Unit.BRANCH: Pipe.BRANCH}


@dataclass(frozen=True, slots=True)
class Facts:
    """Traffic of the memory instructions as columns, one entry a row of ``Traffic.instructions``; float64.

    Attributes:
        index: int64, static instruction.
        executed: Wave instructions of the grid.
        lanes: Active lanes.
        asked: Bytes asked by them.
        quad_clk: Address cycles without merging.
        run_clk: Address cycles with merging.
        lines: Lines touched.
        requests: Requests to L2 before L1 filters them.
        partial: Write requests for less than a segment.
        sectors: Sectors of 32 bytes touched.
        l2_requests: Requests that reach the L2.
        l2_bytes: Bytes that loads bring from it.
        l1_hits: Lines found in L1.
        beyond_l1: Share of the executions of a load of which some line gets past L1; NaN if nobody counted them.
        l2_hits: Requests served by L2.
        mall_hits: Requests served by the memory-side cache.
        l2_joined: Requests served by L2 that wait for a line on its way there.
        mall_joined: Requests served by L2 or the memory-side cache that wait for a line on its way from HBM.
        lds_clk: LDS cycles.
        lds_reads: bool, whether it reads from the LDS.
        lds_writes: bool, whether it writes there, or updates.
        loads: bool, whether it loads from memory, as the next four.
        stores: Stores there.
        atomics: Updates there.
        spills: Loads or stores spilled registers.
        on_lds: Goes to the LDS, or is a scalar load: nothing to the address unit.
    """

    index: np.ndarray
    executed: np.ndarray
    lanes: np.ndarray
    asked: np.ndarray
    quad_clk: np.ndarray
    run_clk: np.ndarray
    lines: np.ndarray
    requests: np.ndarray
    partial: np.ndarray
    sectors: np.ndarray
    l2_requests: np.ndarray
    l2_bytes: np.ndarray
    l1_hits: np.ndarray
    beyond_l1: np.ndarray
    l2_hits: np.ndarray
    mall_hits: np.ndarray
    l2_joined: np.ndarray
    mall_joined: np.ndarray
    lds_clk: np.ndarray
    lds_reads: np.ndarray
    lds_writes: np.ndarray
    loads: np.ndarray
    stores: np.ndarray
    atomics: np.ndarray
    spills: np.ndarray
    on_lds: np.ndarray


@dataclass(frozen=True, slots=True)
class KernelForm:
    """What no constant with a range changes.

    Attributes:
        kernel: The kernel.
        traffic: Its traffic.
        actions: int64 (instructions, COSTS), all but the prices.
        vector: Instructions on the vector pipe, int64.
        quarter: Those of them at a quarter of the rate.
        half: Those of them at half of the rate.
        free: What PTX says and the machine has no instruction for.
        machine: Instructions of PTX of which the machine code is known, those without any in it included.
        issued: float64 for each of them, instructions of the machine that one execution issues.
        stalled: Likewise, cycles that they hold their warp.
        rates: float64 (of them, MachinePipe, Rate), instructions on each pipe behind the vector pipe.
        orders: Fences of PTX, and its atomics that order memory too.
        matrix: Instructions on the matrix pipe.
        matrix_clk: float64, cycles of each of these.
        is_8bit: bool, whether its operands have 8 bits or less.
        scalar: Instructions on the scalar pipe, waits and ends.
        branch: Branches.
        holds: float64 (instructions,), cycles that an instruction asks to be held for (``s_nop``, ``s_sleep``).
        memory: Vector-memory instructions.
        lds: LDS instructions; ``exchanges`` those of them that only exchange lanes.
        exchanges: See ``lds``.
        scalar_memory: Scalar loads.
        write_backs: ``buffer_wbl2``.
        invalidations: ``buffer_inv``.
        facts: Traffic by instruction.
    """

    kernel: Kernel
    traffic: Traffic
    actions: np.ndarray
    vector: np.ndarray
    quarter: np.ndarray
    half: np.ndarray
    free: np.ndarray
    machine: np.ndarray
    issued: np.ndarray
    stalled: np.ndarray
    rates: np.ndarray
    orders: np.ndarray
    matrix: np.ndarray
    matrix_clk: np.ndarray
    is_8bit: np.ndarray
    scalar: np.ndarray
    branch: np.ndarray
    holds: np.ndarray
    memory: np.ndarray
    lds: np.ndarray
    exchanges: np.ndarray
    scalar_memory: np.ndarray
    write_backs: np.ndarray
    invalidations: np.ndarray
    facts: Facts


@dataclass(frozen=True, slots=True)
class Demand:
    """Cycles in which one compute unit's share of a shared resource serves an average workgroup.

    Attributes:
        l2: L2 channels.
        memory: Memory-side cache and HBM.
        atomics: Atomics at the memory-side cache.
        fences: Write-backs of the L2.
    """

    l2: float = 0.0
    memory: float = 0.0
    atomics: float = 0.0
    fences: float = 0.0


def kernel_form(kernel: Kernel, traffic: Traffic, device: Device) -> KernelForm:
    """Prepare a kernel for pricing.

    Args:
        kernel: The kernel.
        traffic: Its traffic.
        device: For the rates of matrix instructions.

    Raises:
        UnsupportedInstructionError: if the device has no rate for a matrix instruction.
    """
    code = _code_columns(kernel)
    matrix_clks = np.array([matrix_clk(kernel.instructions[index], device) for index in code["matrix"]])
    return KernelForm(kernel=kernel, traffic=traffic, matrix_clk=matrix_clks, facts=_facts(traffic), **code)


def _columns_of_code(kernel: Kernel) -> dict[str, np.ndarray]:
    """What of a form the code alone says, by the name of its attribute."""
    units = [unit_of(instruction) for instruction in kernel.instructions]
    actions = np.zeros((len(units), COSTS), dtype=np.int64)
    actions[:, Cost.PIPE] = Pipe.NONE
    for row, instruction, unit in zip(actions, kernel.instructions, units, strict=True):
        _classify(row, instruction, unit)

    def where(*wanted: Unit) -> np.ndarray:
        return np.array([index for index, unit in enumerate(units) if unit in wanted], dtype=np.int64)

    def named(*opcodes: str) -> np.ndarray:
        return np.array([entry.index for entry in kernel.instructions if entry.opcode in opcodes], dtype=np.int64)

    instructions, matrix = kernel.instructions, where(Unit.MATRIX)
    machine, issued, stalled, rates = _machine_work(kernel, units)
    return {
        "actions": actions,
        "vector": where(Unit.VALU),
        "quarter": np.array([i.index for i in instructions if is_quarter_rate(i)], dtype=np.int64),
        "half": np.array([i.index for i in instructions if is_half_rate(i)], dtype=np.int64),
        "free": where(Unit.NONE),
        "machine": machine,
        "issued": issued,
        "stalled": stalled,
        "rates": rates,
        "orders": np.array([i.index for i in instructions if _orders_memory(i)], dtype=np.int64),
        "matrix": matrix,
        "is_8bit": np.array([is_8bit_matrix(instructions[index]) for index in matrix], dtype=np.bool_),
        "scalar": where(Unit.SCALAR),
        "branch": where(Unit.BRANCH),
        "holds": np.array([_held_clk(instruction) for instruction in instructions], dtype=np.float64),
        "memory": where(Unit.VECTOR_MEMORY),
        "lds": where(Unit.LDS),
        "exchanges": np.array([i.index for i in instructions if _exchanges_lanes(i)], dtype=np.int64),
        "scalar_memory": where(Unit.SCALAR_MEMORY),
        "write_backs": named("buffer_wbl2"),
        "invalidations": named("buffer_inv"),
    }


# Nobody may change the arrays.
_code_columns = OfKernels(_columns_of_code)


_RATES = tuple(Rate)


def _machine_work(kernel: Kernel, units: Sequence[Unit]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns ``machine``, ``issued``, ``stalled`` and ``rates`` of a form."""
    # Matrix instructions have rates of their own, and what stands at a barrier or a fence stands for that.
    mine = [index for index in sorted(kernel.machine) if units[index] not in (Unit.MATRIX, Unit.SCALAR)]
    issued, stalled, rates = (
        np.zeros(len(mine)),
        np.zeros(len(mine)),
        np.zeros((len(mine), len(MachinePipe), len(Rate))),
    )
    for row, index in enumerate(mine):
        work = kernel.machine[index]
        issued[row], stalled[row] = len(work.heads) / work.copies, work.stall_clk / work.copies
        for head in work.heads:
            found = machine_rate(head)
            if found is not None:
                rates[row, found[0], _RATES.index(found[1])] += 1 / work.copies
    return np.array(mine, dtype=np.int64), issued, stalled, rates


def _exchanges_lanes(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    return opcode in _LANE_EXCHANGE or (instruction.encoding == PTX and opcode.startswith(("shfl", "match")))


def _orders_memory(instruction: Instruction) -> bool:
    return instruction.encoding == PTX and (is_fence(instruction.opcode) or orders_memory(instruction.opcode))


def _facts(traffic: Traffic) -> Facts:
    rows = traffic.instructions

    def column(name: str) -> np.ndarray:
        return np.array([getattr(row, name) for row in rows], dtype=np.float64)

    def is_kind(*kinds: AccessKind) -> np.ndarray:
        return np.array([row.kind in kinds for row in rows], dtype=np.bool_)

    return Facts(
        index=np.array([row.index for row in rows], dtype=np.int64),
        executed=np.maximum(column("executed"), 1),
        lanes=column("lanes"),
        asked=column("bytes_asked"),
        quad_clk=column("quad_clk"),
        run_clk=column("run_clk"),
        lines=column("lines"),
        requests=column("requests"),
        partial=column("partial_requests"),
        sectors=column("sectors"),
        l2_requests=column("l2_requests"),
        l2_bytes=column("l2_bytes"),
        l1_hits=column("l1_hits"),
        beyond_l1=np.array([_missed(row) for row in rows], dtype=np.float64),
        l2_hits=column("l2_hits"),
        mall_hits=column("mall_hits"),
        l2_joined=column("l2_joined"),
        mall_joined=column("mall_joined"),
        lds_clk=column("lds_clk"),
        lds_reads=is_kind(AccessKind.LDS_READ),
        lds_writes=is_kind(AccessKind.LDS_WRITE, AccessKind.LDS_ATOMIC),
        loads=is_kind(AccessKind.LOAD, AccessKind.LDS_DIRECT),
        stores=is_kind(AccessKind.STORE),
        atomics=is_kind(AccessKind.ATOMIC),
        spills=is_kind(AccessKind.SCRATCH_LOAD, AccessKind.SCRATCH_STORE),
        on_lds=is_kind(AccessKind.LDS_READ, AccessKind.LDS_WRITE, AccessKind.LDS_ATOMIC, AccessKind.SCALAR_LOAD),
    )


def _missed(row: InstructionTraffic) -> float:
    executions, missed = (0, 0) if row.l1_misses is None else row.l1_misses.sum(axis=(0, 1)).tolist()
    return missed / executions if executions else math.nan


def _classify(row: np.ndarray, instruction: Instruction, unit: Unit) -> None:
    opcode = instruction.opcode
    row[Cost.ACTION] = _UNIT_ACTION.get(unit, Action.PLAIN)
    row[Cost.PIPE] = _UNIT_PIPE.get(unit, Pipe.NONE)
    row[Cost.VECTOR_LEFT] = row[Cost.LGKM_LEFT] = NO_LIMIT
    if instruction.encoding == PTX:
        _classify_ptx(row, instruction, unit)
    elif opcode == "s_waitcnt":
        row[Cost.ACTION], row[Cost.PIPE] = Action.WAIT, Pipe.NONE
        row[Cost.VECTOR_LEFT], row[Cost.LGKM_LEFT] = _limits(instruction)
    elif opcode == "s_barrier":
        row[Cost.ACTION], row[Cost.PIPE] = Action.BARRIER, Pipe.NONE
    elif opcode == "s_endpgm":
        row[Cost.ACTION], row[Cost.PIPE] = Action.END, Pipe.NONE
    elif opcode in ("s_nop", "s_sleep"):
        row[Cost.PIPE] = Pipe.NONE
    elif opcode == "buffer_inv":
        # It holds the wave by itself; no counter tells of it.
        row[Cost.ACTION] = Action.PLAIN
    else:
        row[Cost.COUNTS_VECTOR] = unit is Unit.VECTOR_MEMORY
        row[Cost.COUNTS_LGKM] = unit in (Unit.LDS, Unit.SCALAR_MEMORY) or opcode.startswith("flat_")


def _classify_ptx(row: np.ndarray, instruction: Instruction, unit: Unit) -> None:
    if instruction.opcode == WARP_WAIT:
        left = instruction.modifiers
        row[Cost.ACTION] = Action.WAIT
        row[Cost.VECTOR_LEFT], row[Cost.LGKM_LEFT] = left.get("vmcnt", NO_LIMIT), left.get("lgkmcnt", NO_LIMIT)
    elif instruction.opcode == WARP_END:
        row[Cost.ACTION] = Action.END
    elif instruction.opcode.startswith(("bar.sync", "barrier")):
        row[Cost.ACTION], row[Cost.PIPE] = Action.BARRIER, Pipe.NONE
    else:
        row[Cost.COUNTS_VECTOR] = unit is Unit.VECTOR_MEMORY
        row[Cost.COUNTS_LGKM] = unit in (Unit.LDS, Unit.SCALAR_MEMORY)


def _limits(instruction: Instruction) -> tuple[int, int]:
    """Outstanding (vector, LDS and scalar) instructions that a ``s_waitcnt`` lets remain.

    Raises:
        AssemblyError: if the text names no counter and is no number.
    """
    named = {name: int(left) for name, left in _FIELD.findall(instruction.text)}
    if named:
        return named.get("vmcnt", NO_LIMIT), named.get("lgkmcnt", NO_LIMIT)
    number = _NUMBER.match(instruction.text.strip())
    if number is None:
        if "expcnt" in instruction.text:
            return NO_LIMIT, NO_LIMIT
        raise AssemblyError(f"{instruction.text!r} waits for no counter that is known: vmcnt, lgkmcnt or a number")
    bits = int(number[1], 0)
    vector, lgkm = (bits & 15) | (bits >> 14 & 3) << 4, bits >> 8 & 15
    return NO_LIMIT if vector == 63 else vector, NO_LIMIT if lgkm == 15 else lgkm


def _held_clk(instruction: Instruction) -> float:
    """Cycles beyond one issue that ``s_nop n`` (n more issues) or ``s_sleep n`` (64 cycles each) holds its wave."""
    if instruction.opcode not in ("s_nop", "s_sleep"):
        return 0.0
    number = _NUMBER.match(instruction.text.strip())
    count = int(number[1], 0) if number else 0
    return float(count * (_NOP_CLK if instruction.opcode == "s_nop" else _SLEEP_CLK))


def price(form: KernelForm, device: Device, demand: Demand, *, warm: float) -> np.ndarray:
    """Costs of every instruction, int64 (instructions, COSTS), in ticks.

    Reads no constant that does not matter to the kernel, as far as that is easily told: see ``KnownCosts``.

    Args:
        form: The kernel with its traffic.
        device: Constants.
        demand: Of an average workgroup; it is spread over the instructions that make the requests.
        warm: Part of the memory-side cache's misses that a repeated launch finds there.
    """
    clk = form.actions.astype(np.float64)  # the actions stay what they are
    issue = device.issue
    clk[:, Cost.ISSUE] = issue.valu_clk + form.holds
    clk[form.vector, Cost.BUSY] = issue.valu_clk
    clk[form.quarter, Cost.ISSUE] = clk[form.quarter, Cost.BUSY] = issue.quarter_rate_clk
    if issue.half_rate_clk is not None:
        clk[form.half, Cost.ISSUE] = clk[form.half, Cost.BUSY] = issue.half_rate_clk
    # Matrix cycles pass at the clock that the device holds under matrix load, counted in cycles of the peak clock.
    if len(form.matrix):
        clock = np.where(form.is_8bit, device.compute.matrix_clock_8bit_ghz, device.compute.matrix_clock_ghz)
        clk[form.matrix, Cost.BUSY] = form.matrix_clk * device.compute.clock_ghz / clock
    clk[form.scalar, Cost.ISSUE] = issue.salu_clk + form.holds[form.scalar]
    clk[form.scalar, Cost.BUSY] = issue.valu_clk
    clk[form.branch, Cost.ISSUE] = issue.salu_clk
    clk[form.branch, Cost.JUMP] = max(0.0, issue.branch_clk - issue.salu_clk)
    clk[form.branch, Cost.BUSY] = issue.valu_clk
    if len(form.lds):
        clk[form.lds, Cost.LATENCY_L1] = device.lds.latency_clk
    if len(form.exchanges):
        clk[form.exchanges, Cost.LDS] = _DWORD * device.compute.wave_lanes / device.lds.bytes_per_clk
        if device.lds.port_bytes_per_clk is not None:
            moved = 2 * _DWORD * device.compute.wave_lanes
            clk[form.exchanges, Cost.LDS_PORT] = moved / device.lds.port_bytes_per_clk
    clk[form.scalar_memory, Cost.LATENCY_L1] = issue.argument_load_clk
    clk[form.scalar_memory, Cost.LATER_LATENCY] = min(device.l1.scalar_latency_clk, issue.argument_load_clk)
    # Where the traffic knows nothing, as of an access without active lanes.
    for column, latency in (
        (Cost.LATENCY_L1, device.l1.latency_clk),
        (Cost.LATENCY_L2, device.l2.latency_clk),
        (Cost.LATENCY_MALL, device.mall.latency_clk),
        (Cost.LATENCY_HBM, device.hbm.latency_clk),
    ):
        clk[form.memory, column] = latency
    clk[form.free, Cost.ISSUE] = 0.0
    _price_machine(clk, form, device)
    _price_memory(clk, form, device, demand, warm)
    # Nothing is written back on a device whose one L2 all see: the warp stands until its stores have come there.
    if len(form.orders):
        clk[form.orders, Cost.ISSUE] += device.fences.writeback_clk
    if len(form.write_backs):
        clk[form.write_backs, Cost.LATENCY_L1] = device.fences.writeback_clk + device.mall.latency_clk
    if len(form.invalidations):
        clk[form.invalidations, Cost.ISSUE] = issue.valu_clk + device.fences.invalidate_clk
    return _in_ticks(clk)


def _price_machine(clk: np.ndarray, form: KernelForm, device: Device) -> None:
    """What instructions take of which the machine code is known: turns to issue, and cycles on each pipe."""
    index = form.machine
    if not len(index):
        return
    issue = device.issue
    rate_clk = {Rate.FULL: issue.valu_clk, Rate.HALF: issue.half_rate_clk or 0.0, Rate.QUARTER: issue.quarter_rate_clk}
    behind = form.rates @ np.array([rate_clk[rate] for rate in _RATES])
    clk[index, Cost.ISSUE] = np.maximum(form.stalled, form.issued * issue.valu_clk)
    clk[index, Cost.PIPE] = np.where(form.issued > 0, float(Pipe.VECTOR), float(Pipe.NONE))
    clk[index, Cost.BUSY] = form.issued * issue.valu_clk
    for pipe in MachinePipe:
        clk[index, Cost.ALU + pipe] = behind[:, pipe]
    clk[index, Cost.BEHIND] = behind.any(axis=1)


_IN_CLK = (
    *(
        Cost.ISSUE,
        Cost.BUSY,
        Cost.ADDRESS,
        Cost.LDS,
        Cost.LDS_PORT,
        Cost.FILL,
        Cost.L2,
        Cost.MEMORY,
        Cost.ATOMICS,
        Cost.FENCES,
    ),
    *(Cost.LATENCY_L1, Cost.LATENCY_L2, Cost.LATENCY_MALL, Cost.LATENCY_HBM, Cost.LATER_LATENCY, Cost.JUMP),
    *(Cost.ALU, Cost.FMA, Cost.SPECIAL),
)
_SHARES = (Cost.BEYOND_L1, Cost.BEYOND_L2, Cost.BEYOND_MALL)


def _units() -> np.ndarray:
    units = np.ones(COSTS)
    units[list(_IN_CLK)], units[list(_SHARES)] = TICKS_PER_CLK, WHOLE
    return units


_UNITS = _units()


def _in_ticks(clk: np.ndarray) -> np.ndarray:
    return np.rint(clk * _UNITS).astype(np.int64)


def address_clk(facts: Facts, device: Device) -> np.ndarray:
    """Cycles of the address unit, all executions of an instruction together.

    Loads and whole-dword stores: between a cycle a quad and four continuing quads a cycle, as ``merged_quads_per_clk``
    says; a store no less than a cycle a request. Stores of less than a dword: a price a quad. Spilled registers move
    whole lines. Where the device has sectors, a load takes a cycle for each line, and what it stores leaves at
    ``store_bytes_per_clk``.
    """
    if device.l2.sector_bytes is not None:
        return _address_clk_of_lines(facts, device)
    unmerged = (QUADS_PER_CYCLE / device.l1.merged_quads_per_clk - 1) / (QUADS_PER_CYCLE - 1)
    clk = facts.run_clk + (facts.quad_clk - facts.run_clk) * unmerged
    narrow = facts.stores & (facts.asked < _DWORD * facts.lanes)
    clk = np.where(facts.stores, np.maximum(clk, facts.requests), clk)
    if narrow.any():
        by_quad = np.maximum(facts.quad_clk, facts.lanes / LANES_PER_QUAD * device.l1.store_quad_clk)
        clk = np.where(narrow, by_quad, clk)
    clk = np.where(facts.spills, facts.asked / _ADDRESS_BYTES_PER_CLK, clk)
    return np.where(facts.on_lds, 0.0, clk)


def _address_clk_of_lines(facts: Facts, device: Device) -> np.ndarray:
    stored = facts.sectors * (device.l2.sector_bytes or 0) / device.l1.store_bytes_per_clk
    narrow = facts.stores & (facts.asked < _DWORD * facts.lanes)
    if narrow.any():
        by_quad = np.maximum(stored, facts.lanes / LANES_PER_QUAD * device.l1.store_quad_clk)
        stored = np.where(narrow, by_quad, stored)
    clk = np.where(facts.stores | facts.atomics, stored, facts.lines)
    clk = np.where(facts.spills, facts.asked / _LINE_BYTES, clk)
    return np.where(facts.on_lds, 0.0, clk)


def _port_clk(facts: Facts, bytes_per_clk: float, lanes: int) -> np.ndarray:
    """Cycles of the port to the LDS that an execution takes.

    An address of each lane goes in, and behind it the data of a store; the data of a load come back on lines of their
    own, beside the addresses of the next.
    """
    addresses, data = _DWORD * lanes, facts.asked / facts.executed
    read, written = np.maximum(addresses, data), addresses + data
    return np.where(facts.lds_reads, read, np.where(facts.lds_writes, written, 0.0)) / bytes_per_clk


def _price_memory(clk: np.ndarray, form: KernelForm, device: Device, demand: Demand, warm: float) -> None:
    facts = form.facts
    index, executed = facts.index, facts.executed
    loads, stores, atomics, spills = facts.loads, facts.stores, facts.atomics, facts.spills
    clk[index, Cost.ADDRESS] = address_clk(facts, device) / executed
    clk[index, Cost.LDS] += facts.lds_clk / executed
    if len(form.lds) and device.lds.port_bytes_per_clk is not None:
        clk[index, Cost.LDS_PORT] += _port_clk(facts, device.lds.port_bytes_per_clk, device.compute.wave_lanes)
    beyond_l1, beyond_l2, beyond_mall = _levels(facts, warm)
    # A store goes to L2, an atomic to the memory-side cache; spilled registers lie in L2.
    clk[index, Cost.BEYOND_L1] = np.where(loads, beyond_l1, (stores | spills).astype(np.float64))
    clk[index, Cost.BEYOND_L2] = np.where(loads, beyond_l2 / np.maximum(beyond_l1, 1e-9), 0.0)
    clk[index, Cost.BEYOND_MALL] = np.where(loads, beyond_mall / np.maximum(beyond_l1, 1e-9), 0.0)
    clk[index, Cost.ORDERED] = loads & bool(device.l1.in_order)
    if stores.any():
        clk[index[stores], Cost.LATENCY_L2] = device.l2.store_ack_clk
    if atomics.any():
        clk[index[atomics], Cost.LATENCY_L1] = device.atomics.latency_clk
    clk[index, Cost.POSTED] = stores
    moved = np.where(loads, facts.l2_bytes, 0.0)
    past = np.maximum(clk[index, Cost.BEYOND_L1], 1e-9)
    clk[index, Cost.FILL] = moved / device.l1.fill_bytes_per_clk / executed / past
    clk[index, Cost.LINES] = np.where(loads, np.ceil(facts.l2_requests / executed / past), 0.0)
    workgroups = form.traffic.workgroups

    def spread(amount: float, weights: np.ndarray, share: np.ndarray | float) -> np.ndarray:
        total = float(weights.sum())
        return amount * weights / total * workgroups / executed / share if total else np.zeros(len(index))

    whole = np.maximum(facts.requests - facts.partial, 0) * device.write_segment_bytes / device.l2.write_tb_s
    if facts.partial.any():
        whole += facts.partial * device.l2.write_request_clk / device.l2_channels / device.clk_per_us * 1e6
    l2_weights = moved / device.l2.read_tb_s + np.where(stores, whole, 0.0)
    clk[index, Cost.L2] = spread(demand.l2, l2_weights, past)
    missed = np.maximum(facts.l2_requests - facts.l2_hits, 0)
    missed = missed * np.where(loads, moved / np.maximum(facts.l2_requests, 1), device.l2.line_bytes)
    stored = np.where(stores, facts.asked, 0.0)
    written = form.traffic.fabric_write_bytes * stored / max(1.0, float(stored.sum()))
    memory_weights = np.where(loads | atomics, missed, 0.0) + written
    later = np.where(loads, np.maximum(beyond_l2, 1e-9), 1.0)
    clk[index, Cost.MEMORY] = spread(demand.memory, memory_weights, later)
    clk[index, Cost.ATOMICS] = spread(demand.atomics, np.where(atomics, facts.requests, 0.0), 1.0)
    if form.traffic.release_fences:
        clk[form.write_backs, Cost.FENCES] = demand.fences * workgroups / form.traffic.release_fences


def _levels(facts: Facts, warm: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of the executions of each load that wait for what is beyond L1, L2 and the memory-side cache.

    A line that another asked for and that is on its way takes as long as one that is not there. An instruction
    completes with its last line. Lines that lie side by side share their fate. Of lines that the lanes scatter the
    traffic counts how often one gets past L1; where it did not, each finds its level independently. Behind L1 nobody
    counts whether they do, as in a table with random places, or all miss at once, as where each lane walks
    through a line of its own and all come to its end together: the geometric mean of both shares.
    """
    l1 = facts.l1_hits / np.maximum(facts.lines, 1)
    requests = np.maximum(facts.l2_requests, 1)
    miss_l2 = np.clip((facts.l2_requests - facts.l2_hits + facts.l2_joined) / requests, 0, 1)
    from_hbm = facts.l2_requests - facts.l2_hits - facts.mall_hits + facts.mall_joined
    miss_mall = np.clip(from_hbm / requests * (1 - warm), 0, miss_l2)
    packed = np.maximum(1.0, facts.asked / facts.executed / _LINE_BYTES)
    scattered = np.maximum(1.0, facts.lines / facts.executed / packed)
    independent = 1 - np.clip(l1, 0, 1) ** scattered
    past_l1 = np.where(np.isnan(facts.beyond_l1), independent, facts.beyond_l1)
    asked = np.maximum(1.0, facts.l2_requests / np.maximum(facts.executed * past_l1, 1e-9) / packed)

    def some(miss: np.ndarray) -> np.ndarray:
        return np.sqrt(miss * (1 - (1 - miss) ** asked))

    return past_l1, past_l1 * some(miss_l2), past_l1 * some(miss_mall)

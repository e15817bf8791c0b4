"""One sentence on what decides a prediction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.compute_unit import KernelForm, Part, Spent, address_clk
from wavecast.simulator.timing.facts import Group, group_of
from wavecast.simulator.timing.model import Case, Evaluation
from wavecast.simulator.timing.opcodes import unit_of
from wavecast.simulator.timing.prediction import Bound
from wavecast.simulator.timing.units import Unit
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, Traffic

_PIPE_OF = {
    Unit.VALU: "vector",
    Unit.MATRIX: "matrix",
    Unit.SCALAR: "scalar",
    Unit.BRANCH: "branch",
}


def explain(case: Case, device: Device, evaluation: Evaluation) -> str:
    """Name the count that decides, and the instruction and source line it comes from where one stands out."""
    traffic, bound = case.traffic, evaluation.bound
    if bound is Bound.LAUNCH:
        return f"the launch itself takes {evaluation.terms[bound]:.1f} µs, more than the work of the kernel"
    if bound is Bound.WORKGROUP_LAUNCH:
        waves = traffic.residency.waves_per_workgroup
        return f"{traffic.workgroups:,} workgroups of {waves} waves are started one after another"
    if bound is Bound.L2:
        return _l2(traffic)
    if bound in (Bound.MALL, Bound.HBM):
        return _memory(traffic, bound)
    if bound is Bound.ATOMICS:
        top = _largest(traffic, lambda row: row.requests if row.kind is AccessKind.ATOMIC else 0)
        return f"{traffic.atomic_requests:,} atomic requests, {_from(top)}"
    if bound is Bound.FENCES:
        return f"{traffic.release_fences:,} waves write back their L2 with buffer_wbl2"
    if bound is Bound.WRITE_BACK:
        return (
            f"at its end the launch writes back {traffic.last_write_back_bytes / 1e6:,.1f} MB that lie dirty in the L2s"
        )
    if bound is Bound.LDS:
        top = _largest(traffic, lambda row: row.lds_clk)
        share = 100 * traffic.lds_conflict_clk / max(1, traffic.lds_clk)
        return f"{traffic.lds_clk:,} LDS cycles, {share:.0f} % of them bank conflicts, {_from(top)}"
    if bound is Bound.L1:
        return _l1(case.form, device)
    if bound is Bound.ISSUE:
        return _issue(case, evaluation)
    return _waiting(case, evaluation)


def _l1(form: KernelForm, device: Device) -> str:
    clk = dict(zip(form.facts.index.tolist(), address_clk(form.facts, device).tolist(), strict=True))
    top = _largest(form.traffic, lambda row: clk[row.index])
    return f"{round(sum(clk.values())):,} cycles of the L1 address units, {_from(top)}"


def _issue(case: Case, evaluation: Evaluation) -> str:
    kernel, spent = case.form.kernel, evaluation.life.spent_clk
    busy = (spent[:, Spent.ISSUE] + spent[:, Spent.STALL]) / case.streams.waves
    by_pipe: dict[str, float] = {}
    for instruction, clk in zip(kernel.instructions, busy, strict=True):
        name = _PIPE_OF.get(unit_of(instruction), "memory")
        by_pipe[name] = by_pipe.get(name, 0.0) + float(clk)
    pipe = max(by_pipe, key=lambda name: by_pipe[name])
    where = _hottest_line(kernel, busy)
    return f"every wave spends {by_pipe[pipe]:,.0f} cycles on the {pipe} pipe and in the queue for it{where}"


def _hottest_line(kernel: Kernel, clk: np.ndarray) -> str:
    lines: dict[str, float] = {}
    for instruction, cycles in zip(kernel.instructions, clk, strict=True):
        if instruction.source and instruction.source.line:
            lines[str(instruction.source)] = lines.get(str(instruction.source), 0.0) + float(cycles)
    if not lines:
        return ""
    line = max(lines, key=lambda name: lines[name])
    return f", {100 * lines[line] / max(1.0, float(clk.sum())):.0f} % of all issue at {line}"


def _l2(traffic: Traffic) -> str:
    if not traffic.l2_write_requests:
        top = _largest(traffic, lambda row: row.l2_requests)
        return f"{traffic.l2_read_requests:,} line reads reach the L2, {_from(top)}"
    top = _largest(traffic, lambda row: row.requests if row.kind is AccessKind.STORE else 0)
    share = 100 * traffic.l2_partial_write_requests / traffic.l2_write_requests
    skew = f"; up to {traffic.channel_imbalance:.1f} times the mean at one channel"
    return (
        f"{traffic.l2_write_requests:,} write requests reach the L2, {share:.0f} % of them for less than 64 bytes, "
        f"{_from(top)}{skew if traffic.channel_imbalance > 1.5 else ''}"
    )


def _memory(traffic: Traffic, bound: Bound) -> str:
    read, write, level = (traffic.hbm_read_bytes, traffic.hbm_write_bytes, "HBM")
    if bound is Bound.MALL:
        read, write, level = (traffic.fabric_read_bytes, traffic.fabric_write_bytes, "the memory-side cache")
    # What goes out beyond what the launch writes waited in the cache before HBM.
    others = max(0, write - traffic.fabric_write_bytes)
    if others:
        return (
            f"{level} moves {read / 1e6:,.1f} MB in and {write / 1e6:,.1f} MB out, "
            f"of which others had left {others / 1e6:,.1f} MB or more in the cache before it"
        )
    excess = (read + write) / max(1, traffic.minimum_bytes)
    return (
        f"{level} moves {read / 1e6:,.1f} MB in and {write / 1e6:,.1f} MB out, "
        f"{excess:.2f} times the least the kernel could do with"
    )


def _waiting(case: Case, evaluation: Evaluation) -> str:
    """Of latency, and of phases that do not overlap: what the waves stand still for."""
    kernel, spent, residency = case.form.kernel, evaluation.life.spent_clk, case.traffic.residency
    occupancy = f"{residency.waves_per_simd} waves a SIMD ({residency.limiter})"
    if evaluation.bound is Bound.OVERLAP:
        held = residency.workgroups_per_cu
        others = "no other workgroup" if held == 1 else f"{held - 1} other workgroup{'s' if held > 2 else ''}"
        occupancy = f"a compute unit holds {others} to work meanwhile ({residency.limiter})"
    caused = spent[:, Spent.CAUSED] / case.streams.waves
    index, barrier = int(np.argmax(caused)), evaluation.life.parts_clk[Part.BARRIER] / case.streams.waves
    if barrier > caused[index]:
        waits = np.array(
            [spent[i.index, Spent.WAIT] if group_of(i) is Group.BARRIER else 0.0 for i in kernel.instructions]
        )
        where = _place(kernel.instructions[int(np.argmax(waits))])
        return f"every wave stands {barrier:,.0f} cycles at barriers, most at {where}, with {occupancy}"
    if not caused[index]:
        return f"start, scalar work and branches of the waves, with {occupancy}"
    return f"every wave waits {caused[index]:,.0f} cycles for {_place(kernel.instructions[index])}, with {occupancy}"


def _place(instruction: Instruction) -> str:
    return f"{instruction.opcode} at {instruction.source}" if instruction.source else instruction.opcode


def _largest(traffic: Traffic, measure: Callable[[InstructionTraffic], float]) -> InstructionTraffic | None:
    return max(traffic.instructions, key=measure, default=None)


def _from(row: InstructionTraffic | None) -> str:
    return f"most from {row.where}" if row else "from no single instruction"

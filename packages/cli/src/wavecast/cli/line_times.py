"""What ``inspect`` knows of a launched kernel: its source lines and instructions, with their time and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from wavecast.cli.facts import Group, InstructionCount, KernelFacts
from wavecast.cli.schema import RowError, check_types, known_keys

INSPECT_SCHEMA = "wavecast.inspect/2"
# Shares are parts of a sum of many times.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Costs:
    """What a line or an instruction costs, over the whole grid and all launches.

    Attributes:
        time_us: Its part of the predicted time: the sum of the four below.
        issue_us: While waves issue it.
        queue_us: While waves wait until a pipe, the LDS or the address unit is free for it.
        wait_us: While waves stand still, here or elsewhere, until its data is there.
        barrier_us: While waves stand at it, a barrier.
        asked_bytes: Bytes that lanes ask for in global memory.
        moved_bytes: Bytes between L1 and L2; of atomics 0.
        distinct_bytes: Distinct bytes of each wave instruction, of global memory.
        segment_bytes: Bytes of the 64-byte segments that hold them.
        lds_clk: LDS cycles.
        lds_conflict_clk: Those of them that bank conflicts cost.
        spill_bytes: Bytes of spilled registers written and read.
        fence_release: ``buffer_wbl2`` executed by waves.
        fence_acquire: ``buffer_inv`` executed by waves.
    """

    time_us: float = 0.0
    issue_us: float = 0.0
    queue_us: float = 0.0
    wait_us: float = 0.0
    barrier_us: float = 0.0
    asked_bytes: int = 0
    moved_bytes: int = 0
    distinct_bytes: int = 0
    segment_bytes: int = 0
    lds_clk: int = 0
    lds_conflict_clk: int = 0
    spill_bytes: int = 0
    fence_release: int = 0
    fence_acquire: int = 0

    def __post_init__(self) -> None:
        check_types(self)

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    @property
    def coalescing_efficiency(self) -> float | None:
        """Distinct bytes over the segments that hold them, in (0, 1]; None where nothing is touched."""
        return min(1.0, self.distinct_bytes / self.segment_bytes) if self.segment_bytes else None


def total(costs: Iterable[Costs]) -> Costs:
    """The sum of some costs."""
    return sum(costs, Costs())


@dataclass(frozen=True, slots=True)
class InstructionTime:
    """One static instruction that was executed.

    Attributes:
        index: Position in the kernel.
        text: As the compiler wrote it.
        executed: Wave instructions, over the whole grid and all launches.
        share_percent: Of the predicted time.
        coalescing_efficiency: As in ``Costs``.
        costs: Its costs.
    """

    index: int
    text: str
    executed: int
    share_percent: float
    coalescing_efficiency: float | None
    costs: Costs

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of source.

    Attributes:
        file: Its file, as the compiler names it; None for instructions that the compiler gives no line.
        line: Its number.
        text: What stands there; None if the file cannot be read.
        share_percent: Of the predicted time.
        coalescing_efficiency: As in ``Costs``.
        costs: Sum over its instructions.
        instructions: In the order of the kernel.
    """

    file: str | None
    line: int | None
    text: str | None
    share_percent: float
    coalescing_efficiency: float | None
    costs: Costs
    instructions: tuple[InstructionTime, ...]

    def __post_init__(self) -> None:
        check_types(self)
        if not _same(self.costs, total(item.costs for item in self.instructions)):
            raise RowError(f"{self.file}:{self.line}: the costs are not those of its instructions")


@dataclass(frozen=True, slots=True)
class Rest:
    """Time that no instruction causes.

    Attributes:
        name: What it goes to.
        time_us: The time.
        share_percent: Of the predicted time.
    """

    name: str
    time_us: float
    share_percent: float

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The launches of a kernel on one grid, taken apart; times and counts are of all of them.

    Attributes:
        device: Where they would run.
        launches: How many.
        grid: Workgroups in x, y, z.
        predicted_us: Time of all launches.
        predicted_low_us: Lower end of its interval.
        predicted_high_us: Upper end.
        bound: What limits the first of them.
        cause: One sentence that says why.
        hbm_read_bytes: Bytes read from HBM.
        hbm_write_bytes: Bytes written to HBM.
        coalescing_efficiency: Of all lines together.
        costs: Sum over the lines; its ``time_us`` and the ``rest`` add up to the predicted time.
        executed: Wave instructions by kind.
        lines: Lines with instructions that were executed: the kernel's file first, then by number; last what has none.
        rest: Time that no instruction causes.
    """

    device: str
    launches: int
    grid: tuple[int, ...]
    predicted_us: float
    predicted_low_us: float
    predicted_high_us: float
    bound: str
    cause: str
    hbm_read_bytes: int
    hbm_write_bytes: int
    coalescing_efficiency: float | None
    costs: Costs
    executed: Mapping[str, int]
    lines: tuple[Line, ...]
    rest: tuple[Rest, ...]

    def __post_init__(self) -> None:
        check_types(self)
        if not _same(self.costs, total(line.costs for line in self.lines)):
            raise RowError("the costs are not those of the lines")
        known_us = self.costs.time_us + sum(item.time_us for item in self.rest)
        if not math.isclose(known_us, self.predicted_us, rel_tol=_ROUNDING):
            raise RowError(f"lines and rest take {known_us} µs, and {self.predicted_us} µs are predicted")
        shares = sum(line.share_percent for line in self.lines) + sum(item.share_percent for item in self.rest)
        if not math.isclose(shares, 100.0, rel_tol=_ROUNDING):
            raise RowError(f"the shares add up to {shares} %")


@dataclass(frozen=True, slots=True)
class Inspection:
    """One kernel.

    Attributes:
        facts: What its code tells.
        times: What its launches tell; None if nothing was executed.
    """

    facts: KernelFacts
    times: KernelTimes | None = None


@dataclass(frozen=True, slots=True)
class InspectDocument:
    """What ``inspect --json`` prints.

    Attributes:
        schema: ``wavecast.inspect/2``.
        target: What was inspected: an experiment, a file or a script.
        kernels: Its kernels, in launch order, or in that of the file.
    """

    schema: str
    target: str
    kernels: tuple[Inspection, ...]

    def __post_init__(self) -> None:
        check_types(self)
        if self.schema != INSPECT_SCHEMA:
            raise RowError(f"schema {self.schema!r} is not known; this version reads {INSPECT_SCHEMA!r}")


@dataclass(slots=True)
class LineBuilder:
    """Collects the instructions of one line.

    Attributes:
        instructions: Index, text, executions and costs.
    """

    instructions: list[tuple[int, str, int, Costs]] = field(default_factory=list)

    def line(self, file: str | None, number: int | None, text: str | None, *, predicted_us: float) -> Line:
        """The line, with its shares of a predicted time."""
        costs = total(item[-1] for item in self.instructions)
        return Line(
            file=file,
            line=number,
            text=text,
            share_percent=100 * costs.time_us / predicted_us,
            coalescing_efficiency=costs.coalescing_efficiency,
            costs=costs,
            instructions=tuple(
                InstructionTime(
                    index, words, executed, 100 * each.time_us / predicted_us, each.coalescing_efficiency, each
                )
                for index, words, executed, each in self.instructions
            ),
        )


def to_json(value: Any) -> Any:
    """Documents of ``inspect`` as plain JSON data, keys in the order of the fields."""
    if hasattr(value, "__dataclass_fields__"):
        return {item.name: to_json(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    return str(value) if isinstance(value, Group) else value


def document_from_json(data: Any) -> InspectDocument:
    """Read back what ``inspect --json`` printed.

    Raises:
        RowError: If the schema is not known, a key is missing or unknown, a value has the wrong type, or sums do not
            come out.
    """
    values = known_keys(InspectDocument, data)
    return InspectDocument(**{**values, "kernels": tuple(map(inspection_from_json, values["kernels"]))})


def inspection_from_json(data: Any) -> Inspection:
    """Read one kernel back."""
    values = known_keys(Inspection, data)
    facts = known_keys(KernelFacts, values["facts"])
    counts = (known_keys(InstructionCount, item) for item in facts["instructions"])
    instructions = tuple(InstructionCount(**{**item, "group": Group(item["group"])}) for item in counts)
    known = KernelFacts(**{**facts, "instructions": instructions})
    return Inspection(known, None if values["times"] is None else _times_from_json(values["times"]))


def _times_from_json(data: Any) -> KernelTimes:
    values = known_keys(KernelTimes, data)
    return KernelTimes(
        **{
            **values,
            "grid": tuple(values["grid"]),
            "costs": _costs_from_json(values["costs"]),
            "lines": tuple(map(_line_from_json, values["lines"])),
            "rest": tuple(Rest(**known_keys(Rest, item)) for item in values["rest"]),
        }
    )


def _line_from_json(data: Any) -> Line:
    values = known_keys(Line, data)
    instructions = (known_keys(InstructionTime, item) for item in values["instructions"])
    return Line(
        **{
            **values,
            "costs": _costs_from_json(values["costs"]),
            "instructions": tuple(
                InstructionTime(**{**item, "costs": _costs_from_json(item["costs"])}) for item in instructions
            ),
        }
    )


def _costs_from_json(data: Any) -> Costs:
    return Costs(**known_keys(Costs, data))


def _same(one: Costs, other: Costs) -> bool:
    return all(
        math.isclose(getattr(one, item.name), getattr(other, item.name), rel_tol=_ROUNDING, abs_tol=1e-12)
        for item in fields(one)
    )

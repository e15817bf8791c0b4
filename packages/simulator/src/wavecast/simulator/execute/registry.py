"""The table of opcodes: each is one small entry beside its family in ``ops/``.

Three kinds of entry::

    @vector("v_add_f32", "f32", "f32 f32")      # results, sources: values are 64-lane vectors, written under EXEC
    def _(e, a, b):
        return e.b.fadd(a, b)

    @scalar("s_add_u32", "u32", "u32 u32")      # the same on scalars
    @raw("ds_read_b32", "b32 b32")              # operand types only; the entry reads and writes by itself
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from wavecast.simulator.execute.emitter import Emitter, element_of, width_of
from wavecast.simulator.execute.layout import RowKind

Semantics = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One base opcode.

    Attributes:
        opcode: Base mnemonic.
        types: Type of each operand in text order, destinations first.
        emit: Emits the whole body of the helper.
        kind: What the driver does with the row.
        by_architecture: Whether the meaning depends on the architecture, which then is a modifier ``arch`` of the form.
    """

    opcode: str
    types: tuple[str, ...]
    emit: Callable[[Emitter], None]
    kind: RowKind = RowKind.CALL
    by_architecture: bool = False


_OPERATIONS: dict[str, Operation] = {}


def _add(
    names: str | Sequence[str],
    types: tuple[str, ...],
    emit: Callable[[Emitter], None],
    kind: RowKind,
    by_architecture: bool = False,
) -> None:
    for name in [names] if isinstance(names, str) else names:
        if name in _OPERATIONS:
            raise ValueError(f"opcode {name} has two entries")
        _OPERATIONS[name] = Operation(name, types, emit, kind, by_architecture)


def vector(
    names: str | Sequence[str],
    results: str,
    sources: str,
    *,
    accumulate: bool = False,
    keep_high_half: bool = False,
    by_architecture: bool = False,
) -> Callable[[Semantics], Semantics]:
    """Register the semantics of vector opcodes.

    Args:
        names: One opcode or several with the same semantics.
        results: Types of the destinations.
        sources: Types of the sources, which the function receives as 64-lane vectors after the emitter.
        accumulate: The function also receives the old value of the first destination, last.
        keep_high_half: A 16-bit result leaves the high half of its register as it is instead of clearing it.
        by_architecture: The meaning depends on the architecture: ``e.form.modifier("arch")``.
    """
    result_types, source_types = tuple(results.split()), tuple(sources.split())

    def register(semantics: Semantics) -> Semantics:
        def emit(e: Emitter) -> None:
            e.results, e.keep_high_half = len(result_types), keep_high_half
            values = [e.read(len(result_types) + i, name) for i, name in enumerate(source_types)]
            if accumulate:
                old = e.load_rows(e.row(0), max(32, width_of(result_types[0])))
                values.append(e.source_by_mode(e.bitcast(old, element_of(result_types[0]))))
            outcome = semantics(e, *values)
            outcomes = outcome if isinstance(outcome, tuple) else (outcome,)
            for position, (name, value) in enumerate(zip(result_types, outcomes, strict=True)):
                e.write(position, name, value)

        _add(names, result_types + source_types, emit, RowKind.CALL, by_architecture)
        return semantics

    return register


def scalar(names: str | Sequence[str], results: str, sources: str) -> Callable[[Semantics], Semantics]:
    """Register the semantics of scalar opcodes; a function that only sets SCC has no results and returns None."""
    result_types, source_types = tuple(results.split()), tuple(sources.split())

    def register(semantics: Semantics) -> Semantics:
        def emit(e: Emitter) -> None:
            values = [e.read_scalar(len(result_types) + i, name) for i, name in enumerate(source_types)]
            outcome = semantics(e, *values)
            outcomes = () if outcome is None else outcome if isinstance(outcome, tuple) else (outcome,)
            for position, (_, value) in enumerate(zip(result_types, outcomes, strict=True)):
                e.write_scalar(position, value)

        _add(names, result_types + source_types, emit, RowKind.CALL)
        return semantics

    return register


def raw(
    names: str | Sequence[str], types: str, *, kind: RowKind = RowKind.CALL, by_architecture: bool = False
) -> Callable[[Semantics], Semantics]:
    """Register an opcode whose function reads and writes its operands by itself; it receives only the emitter."""

    def register(semantics: Semantics) -> Semantics:
        _add(names, tuple(types.split()), semantics, kind, by_architecture)
        return semantics

    return register


def operation(opcode: str) -> Operation | None:
    """The entry of a base opcode, or None if the engine does not have it."""
    load()
    return _OPERATIONS.get(opcode)


def opcodes() -> list[str]:
    """Every base opcode that has an entry."""
    load()
    return sorted(_OPERATIONS)


def load() -> None:
    """Import the families, which register themselves."""
    import_modules("wavecast.simulator.execute.ops")


@cache
def import_modules(package: str) -> None:
    """Import every module of a package, once."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")

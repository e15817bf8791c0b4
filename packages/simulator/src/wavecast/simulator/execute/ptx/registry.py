"""The table of PTX opcodes by their first part; each entry is a small function beside its family in ``ptx/ops``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wavecast.simulator.execute.layout import RowKind
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.registry import import_modules

Semantics = Callable[[WarpEmitter], None]


@dataclass(frozen=True, slots=True)
class WarpOperation:
    """Opcodes with one first part.

    Attributes:
        head: ``cvt``.
        emit: Emits the body of the helper; raises NotImplementedError for a form that it does not know.
        kind: What the driver does with the row.
        literals: Operands whose constants decide the code.
    """

    head: str
    emit: Semantics
    kind: RowKind = RowKind.CALL
    literals: tuple[int, ...] = ()


_OPERATIONS: dict[str, WarpOperation] = {}


def ptx(
    names: str | Sequence[str], *, kind: RowKind = RowKind.CALL, literals: Sequence[int] = ()
) -> Callable[[Semantics], Semantics]:
    """Register the semantics of all opcodes that begin with one of these parts."""

    def register(semantics: Semantics) -> Semantics:
        for name in [names] if isinstance(names, str) else names:
            if name in _OPERATIONS:
                raise ValueError(f"opcode {name} has two entries")
            _OPERATIONS[name] = WarpOperation(name, semantics, kind, tuple(literals))
        return semantics

    return register


def warp_operation(opcode: str) -> WarpOperation | None:
    """The entry of an opcode, or None if the engine does not have it."""
    load()
    return _OPERATIONS.get(opcode.partition(".")[0])


def warp_opcodes() -> list[str]:
    """First parts of all opcodes that have an entry."""
    load()
    return sorted(_OPERATIONS)


def load() -> None:
    """Import the families, which register themselves."""
    import_modules("wavecast.simulator.execute.ptx.ops")

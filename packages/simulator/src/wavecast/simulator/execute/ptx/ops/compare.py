"""``setp`` and ``set``: comparisons, ordered and unordered, combined with another predicate."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I32
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.ptx.types import is_float, type_width

_SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_UNORDERED = {f"{name}u": symbol for name, symbol in _SYMBOLS.items()}
_COMBINE = {"and": "and_", "or": "or_", "xor": "xor"}
_KNOWN = (*_SYMBOLS, *_UNSIGNED, *_UNORDERED, "num", "nan", *_COMBINE, "ftz")


def compared(e: WarpEmitter, kind: str, first: int) -> ir.Value:
    """One bit a lane (a packed type: an element) for the comparison that the opcode names.

    Args:
        e: The helper.
        kind: Type of the sources.
        first: Position of the first of the two sources.
    """
    name = next((part for part in e.parts if part in _KNOWN and part not in _COMBINE and part != "ftz"), None)
    a, b = e.sources(kind, 2, first)
    if is_float(kind):
        a, b = (e.single(value, kind) for value in (a, b))
        if e.has("ftz") and kind == "f32":
            a, b = e.flushed(a), e.flushed(b)
        if name in ("num", "nan"):
            symbol = "ord" if name == "num" else "uno"
            return (e.b.fcmp_ordered if name == "num" else e.b.fcmp_unordered)(symbol, a, b)
        if name in _UNORDERED:
            return e.b.fcmp_unordered(_UNORDERED[name], a, b)
        if name in _SYMBOLS:
            return e.b.fcmp_ordered(_SYMBOLS[name], a, b)
    elif name in _UNSIGNED:
        return e.b.icmp_unsigned(_UNSIGNED[name], a, b)
    elif name in _SYMBOLS:
        return (e.b.icmp_signed if kind[0] == "s" else e.b.icmp_unsigned)(_SYMBOLS[name], a, b)
    raise NotImplementedError(f"comparison .{name} of .{kind}")


@ptx("setp")
def _(e: WarpEmitter) -> None:
    e.expect_parts(*_KNOWN)
    kind = e.types[-1]
    groups = e.form.modifier("groups", (1,))
    assert isinstance(groups, tuple)
    results = groups[0]
    flags = compared(e, kind, results)
    if kind.endswith("x2"):
        low, high = (e.mask(e.shuffle(flags, [2 * lane + part for lane in range(e.lanes)])) for part in (0, 1))
        if results == 1:
            e.write_mask(0, e.b.and_(low, high))
        else:
            e.write_mask(0, low)
            e.write_mask(1, high)
        return
    true = e.mask(flags)
    false = e.b.not_(true)
    combine = next((part for part in e.parts if part in _COMBINE), None)
    if combine is not None:
        other = e.predicate(results + 2)
        true, false = (getattr(e.b, _COMBINE[combine])(mask, other) for mask in (true, false))
    e.write_mask(0, true)
    if results == 2:
        e.write_mask(1, false)


@ptx("set")
def _(e: WarpEmitter) -> None:
    e.expect_parts(*_KNOWN)
    result, kind = e.types[-2:]
    flags = compared(e, kind, 1)
    if type_width(result) != 32 or kind.endswith("x2"):
        raise NotImplementedError(f"set to .{result} of .{kind}")
    yes = 0x3F800000 if result == "f32" else 0xFFFFFFFF
    ones = e.truth(flags, I32)
    e.write_bits(0, e.select(flags, e.like(ones, yes), e.like(ones, 0)))

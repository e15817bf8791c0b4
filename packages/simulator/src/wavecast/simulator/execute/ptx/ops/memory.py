"""Loads and stores of global, shared, local and parameter memory; asynchronous copies, which are complete at once."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.address import global_places, record, stop_stray
from wavecast.simulator.execute.builder import I32, I64, POINTER, lanes_of
from wavecast.simulator.execute.layout import Context, Fault, RowKind
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.layout import PARAMETERS
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.ptx.types import type_width
from wavecast.simulator.execute.transfer import Places, consecutive, fetch, fetch_words, spread, spread_words

_SPACES = ("global", "shared", "shared::cta", "local", "param")
_VECTORS = ("v2", "v4", "v8")
_WORD = 32


def skip_if_idle(e: WarpEmitter) -> None:
    """Leave the helper if no lane takes part."""
    with e.b.if_then(e.b.icmp_unsigned("==", e.active, I64(0))):
        e.b.ret_void()


def space_of(e: WarpEmitter) -> str:
    """The state space; an opcode without one has generic addresses, which are global here."""
    found = [part for part in e.parts if part in _SPACES]
    return found[0].partition("::")[0] if found else "global"


def groups_of(e: WarpEmitter) -> tuple[int, ...]:
    """Registers of each operand."""
    groups = e.form.modifier("groups", ())
    assert isinstance(groups, tuple)
    return groups or (1,) * len(e.form.operands)


def addresses(e: WarpEmitter, position: int, width: int, *, offset: str = "offset") -> ir.Value:
    """Addresses of an operand with its offset, as integers of 32 or 64 bits."""
    base = e.bits(position, width)
    return e.b.add(base, e.splat(e.convert(e.runtime(offset), ir.IntType(width))))


def global_access(
    e: WarpEmitter, position: int, size: int, mask: ir.Value | None = None, *, offset: str = "offset"
) -> Places:
    """Places of a global access, which becomes part of the trace; leaves the helper with a fault."""
    lanes = e.active if mask is None else mask
    where = addresses(e, position, 64, offset=offset)
    record(e, where, lanes)
    return global_places(e, where, lanes, size)


def shared_access(e: WarpEmitter, position: int, size: int, mask: ir.Value | None = None) -> Places:
    """Places of a shared access, which becomes part of the trace; leaves the helper with a fault."""
    lanes = e.active if mask is None else mask
    where = addresses(e, position, 32)
    record(e, e.convert(where, I64), lanes)
    return _window(e, where, lanes, size, Context.LDS, Context.LDS_BYTES, Fault.STRAY_SHARED)


def local_access(e: WarpEmitter, position: int, size: int) -> Places:
    """Places of a local access, of which there is no record: each lane has its own stack."""
    where = addresses(e, position, 32)
    places = _window(e, where, e.active, size, Context.SCRATCH, Context.SCRATCH_BYTES, Fault.STRAY_SCRATCH)
    return Places(places.mask, places.pointer, places.dense, is_recorded=False)


def _window(
    e: WarpEmitter, where: ir.Value, mask: ir.Value, size: int, base: Context, limit: Context, fault: Fault
) -> Places:
    wide = e.convert(where, I64)
    bytes_ = e.context_load(limit)
    outside = e.mask(e.b.icmp_unsigned(">", e.b.add(wide, e.like(wide, size)), e.splat(bytes_)))
    stop_stray(e, wide, e.b.and_(mask, outside), size, fault=fault)
    start = e.splat(e.context_load(base))
    if base is Context.SCRATCH:
        own = e.b.mul(e.convert(e.lane_numbers(), I64), e.splat(bytes_))
        start = e.b.add(start, own)
    hosts = e.allocate(I64, e.lanes)
    host = e.b.add(start, wide)
    e.b.store(host, hosts, align=64)

    def pointer(lane: ir.Value) -> ir.Value:
        return e.b.inttoptr(e.b.load(e.at(hosts, e.b.mul(lane, I64(8))), typ=I64), POINTER)

    return Places(mask, pointer, lambda step: consecutive(e, host, mask, step))


def _access(e: WarpEmitter, position: int, size: int) -> Places:
    space = space_of(e)
    kinds: dict[str, Callable[..., Places]] = {
        "global": global_access,
        "shared": shared_access,
        "local": local_access,
    }
    return kinds[space](e, position, size)


@ptx("ld", kind=RowKind.MEMORY)
def _(e: WarpEmitter) -> None:
    e.expect_parts(*_SPACES, *_VECTORS)
    kind, results = e.types[-1], groups_of(e)[0]
    width = type_width(kind)
    if space_of(e) == "param":
        _load_parameter(e, kind)
        return
    skip_if_idle(e)
    values = load(e, _access(e, results, results * width // 8), results, width)
    for position, value in enumerate(values):
        e.write_bits(position, value, signed=kind[0] == "s")


def _load_parameter(e: WarpEmitter, kind: str) -> None:
    """Parameters are the same for all lanes, and lie in memory that no trace follows."""
    base = e.b.inttoptr(e.scalar_load(PARAMETERS, I64), POINTER)
    results = groups_of(e)[0]
    if e.form.operands[results].kind != "k":
        raise NotImplementedError("a parameter whose place is computed")
    start, width = e.argument(results), type_width(kind)
    for position in range(results):
        place = e.at(base, e.b.add(start, I64(position * width // 8)))
        value = e.b.load(place, typ=ir.IntType(width), align=1)
        e.write_bits(position, e.splat(value), signed=kind[0] == "s")


@ptx("st", kind=RowKind.MEMORY)
def _(e: WarpEmitter) -> None:
    e.expect_parts(*_SPACES, *_VECTORS)
    skip_if_idle(e)
    count, width = groups_of(e)[1], type_width(e.types[-1])
    places = _access(e, 0, count * width // 8)
    store(e, places, [e.bits(1 + position, width) for position in range(count)], width)


def load(e: WarpEmitter, places: Places, count: int, width: int) -> list[ir.Value]:
    """``count`` consecutive integers of ``width`` bits for each lane."""
    size = count * width // 8
    element = ir.IntType(width)
    if size < _WORD // 8:
        whole = e.b.load(fetch(e, places, size), typ=lanes_of(ir.IntType(8 * size), e.lanes), align=1)
        return [e.convert(e.b.lshr(whole, e.like(whole, width * item)), element) for item in range(count)]
    words = fetch_words(e, places, size // 4)
    if width == 2 * _WORD:
        pairs = [(e.convert(words[2 * item], I64), e.convert(words[2 * item + 1], I64)) for item in range(count)]
        return [e.b.or_(low, e.b.shl(high, e.like(high, _WORD))) for low, high in pairs]
    per_word = _WORD // width
    return [
        e.convert(e.b.lshr(words[item // per_word], e.like(words[0], width * (item % per_word))), element)
        for item in range(count)
    ]


def store(e: WarpEmitter, places: Places, values: list[ir.Value], width: int) -> None:
    """The reverse of ``load``."""
    size = len(values) * width // 8
    if size < _WORD // 8:
        spread(e, places, size, _joined(e, values, width, ir.IntType(8 * size)))
        return
    rows: list[ir.Value] = []
    if width == 2 * _WORD:
        for value in values:
            rows += [e.convert(value, I32), e.convert(e.b.lshr(value, e.like(value, _WORD)), I32)]
    else:
        per_word = _WORD // width
        for first in range(0, len(values), per_word):
            rows.append(_joined(e, values[first : first + per_word], width, I32))
    spread_words(e, places, rows)


def _joined(e: WarpEmitter, values: list[ir.Value], width: int, element: ir.IntType) -> ir.Value:
    result: ir.Value | None = None
    for item, value in enumerate(values):
        wide = e.convert(value, element)
        wide = e.b.shl(wide, e.like(wide, width * item)) if item else wide
        result = wide if result is None else e.b.or_(result, wide)
    return result


@ptx("cvta")
def _(e: WarpEmitter) -> None:
    e.expect_parts("to", "global")
    if not e.has("global"):
        raise NotImplementedError("generic addresses of anything but global memory")
    e.write_bits(0, e.bits(1, 64))


@ptx("cp", kind=RowKind.MEMORY, literals=(2,))
def _(e: WarpEmitter) -> None:
    """``cp.async``: bytes from global to shared memory, zeros beyond those that the source has."""
    e.expect_parts("async", "shared", "shared::cta", "shared::cluster", "global")
    if not e.has("async") or e.has("bulk") or e.form.operands[2].kind == "k":
        raise NotImplementedError("this kind of asynchronous copy")
    skip_if_idle(e)
    size = int(e.form.operands[2].kind)
    words = size // 4
    mask, given = e.active, None
    if len(e.form.operands) > 3:
        given = e.bits(3, 32)
        mask = e.b.and_(mask, e.mask(e.b.icmp_unsigned("!=", given, e.like(given, 0))))
    source = global_access(e, 1, size, mask, offset="offset1")
    rows = fetch_words(e, source, words, clear=True)
    if given is not None:
        rows = [
            e.select(e.b.icmp_unsigned(">", given, e.like(given, 4 * word)), row, e.like(row, 0))
            for word, row in enumerate(rows)
        ]
    where = addresses(e, 0, 32)
    target = _window(e, where, e.active, size, Context.LDS, Context.LDS_BYTES, Fault.STRAY_SHARED)
    spread_words(e, Places(target.mask, target.pointer, target.dense, is_recorded=False), rows)

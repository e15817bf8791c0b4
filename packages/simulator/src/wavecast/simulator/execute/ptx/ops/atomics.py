"""``atom`` and ``red``: read, modify, write in lane order, as AMD's atomics do it."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I64, lanes_of
from wavecast.simulator.execute.layout import RowKind
from wavecast.simulator.execute.ops.atomics import (
    BOTH_WIDTHS,
    Update,
    add_bfloat,
    add_half,
    add_pairs,
    float_update,
)
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.ops.memory import global_access, groups_of, shared_access, skip_if_idle, space_of
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.ptx.types import type_width
from wavecast.simulator.execute.transfer import Places, is_checked, note_lanes

_BY_NAME = {
    "add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "swap", "cas": "cmpswap", "inc": "inc", "dec": "dec",
}  # fmt: skip
_FLOAT_SUMS: dict[str, Update] = {
    "f32": float_update("fadd"),
    "f64": float_update("fadd"),
    "f16x2": add_pairs(add_half),
    "bf16x2": add_pairs(add_bfloat),
}
_NAMES = (*_BY_NAME, "min", "max")


def _update_of(e: WarpEmitter, kind: str) -> tuple[Update, int]:
    """New value from the old one and the data, and how many data operands there are."""
    name = next((part for part in e.parts if part in _NAMES), "")
    if name == "add" and kind in _FLOAT_SUMS:
        return _FLOAT_SUMS[kind], 1
    if name in ("min", "max") and kind[0] in "su":
        return BOTH_WIDTHS[f"{kind[0]}{name}"], 1
    if name in _BY_NAME and kind[0] in "sub" and kind[:2] != "bf":
        return BOTH_WIDTHS[_BY_NAME[name]], 2 if name == "cas" else 1
    raise NotImplementedError(f"atomic .{name or '?'} of .{kind}")


def _atomic(e: WarpEmitter, *, returns: bool) -> None:
    e.expect_parts("global", "shared", "shared::cta", "noftz", "v2", "v4", *_NAMES)
    kind = e.types[-1]
    update, operands = _update_of(e, kind)
    skip_if_idle(e)
    groups = groups_of(e)
    address = groups[0] if returns else 0
    count, width = groups[int(returns) + 1], type_width(kind)
    if (operands == 2 and count > 1) or width < 32:
        raise NotImplementedError(f"an atomic on {count} x .{kind}")
    size = count * width // 8
    places = (shared_access if space_of(e) == "shared" else global_access)(e, address, size)
    first = address + 1
    datas = [[first + item + count * number for number in range(operands)] for item in range(count)]
    if operands == 2:
        # Compare and swap names the expected value first, the updates the new one.
        datas = [list(reversed(positions)) for positions in datas]
    olds = [_run(e, places, update, positions, item * width // 8, width) for item, positions in enumerate(datas)]
    if returns:
        for position, old in enumerate(olds):
            e.write_bits(position, old)


def _run(e: WarpEmitter, places: Places, update: Update, positions: list[int], offset: int, width: int) -> ir.Value:
    element = ir.IntType(width)
    size = width // 8
    old_values = e.allocate(element, e.lanes)
    changed = e.allocate(I64, 1)
    e.b.store(I64(0), changed)
    rows = []
    for position in positions:
        row = e.allocate(element, e.lanes)
        e.b.store(e.bits(position, width), row, align=64)
        rows.append(row)
    with e.for_each_lane(places.mask) as lane:
        place = e.at(places.pointer(lane), offset)
        old = e.b.load(place, typ=element, align=1)
        data = [e.b.load(e.at(row, e.b.mul(lane, I64(size))), typ=element, align=size) for row in rows]
        new = update(e, old, *data)
        e.b.store(new, place, align=1)
        bit = e.b.select(e.b.icmp_unsigned("!=", new, old), e.b.shl(I64(1), lane), I64(0))
        e.b.store(e.b.or_(e.b.load(changed, typ=I64), bit), changed)
        e.b.store(old, e.at(old_values, e.b.mul(lane, I64(size))), align=size)
    with e.b.if_then(is_checked(e), likely=False):
        note_lanes(e, e.b.load(changed, typ=I64), "changed")
    return e.b.load(old_values, typ=lanes_of(element, e.lanes), align=64)


@ptx("atom", kind=RowKind.MEMORY)
def _(e: WarpEmitter) -> None:
    _atomic(e, returns=True)


@ptx("red", kind=RowKind.MEMORY)
def _(e: WarpEmitter) -> None:
    _atomic(e, returns=False)

"""Scalar loads: constants and kernel arguments."""

from __future__ import annotations

from wavecast.simulator.execute.address import record, scalar_place
from wavecast.simulator.execute.builder import I32, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import Context, RowKind
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.trace import RecordKind

_WORDS = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}


def _loader(suffix: str, words: int) -> None:
    @raw(f"s_load_{suffix}", "b32 b64 b64", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        base = e.b.add(e.read_scalar(1, "b64"), e.runtime_modifier("offset"))
        operand = e.form.operands[2]
        # A scalar register holds an unsigned 32-bit offset; an immediate is already sign-extended.
        third = e.convert(e.read_scalar(2, "b32"), I64) if operand.kind == "s" else e.read_scalar(2, "b64")
        address = e.b.add(base, third)
        aligned = e.b.and_(address, I64(-4))
        record(e, address, I64(1), kind=RecordKind.SCALAR)
        data = e.b.load(scalar_place(e, aligned, 4 * words), typ=lanes_of(I32, words), align=4)
        e.b.store(data, e.slot(0), align=4)


for _suffix, _count in _WORDS.items():
    _loader(_suffix, _count)


@raw(["s_memtime", "s_memrealtime"], "b64", kind=RowKind.MEMORY)
def _(e: Emitter) -> None:
    e.write_scalar(0, e.context_load(Context.CLOCK))

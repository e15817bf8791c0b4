"""Emits access to the state of a running wave: what helpers of every instruction set share."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I32, I64, POINTER, Builder, lanes_of
from wavecast.simulator.execute.layout import Context
from wavecast.simulator.program.instruction import EXEC


class StateEmitter(Builder):
    """Builds the body of one helper; ``execute/layout.py`` says what its four arguments are.

    Args:
        module: Where the helper is built.
        symbol: Its name.
    """

    def __init__(self, module: ir.Module, symbol: str) -> None:
        signature = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
        super().__init__(module, ir.Function(module, signature, name=symbol))
        for argument in self.function.args:
            argument.add_attribute("noalias")
        self.scalars, self.vectors, self.context, self.arguments = self.function.args
        self._exec = self.scalar_load(EXEC, I64)

    def argument(self, position: int) -> ir.Value:
        """Argument of the table row as i64."""
        return self.b.load(self.at(self.arguments, position * 8), typ=I64)

    def context_load(self, slot: Context) -> ir.Value:
        return self.b.load(self.at(self.context, slot * 8), typ=I64)

    def context_store(self, slot: Context, value: ir.Value) -> None:
        self.b.store(value, self.at(self.context, slot * 8))

    def scalar_load(self, slot: int, type_: ir.Type = I32) -> ir.Value:
        """A named scalar slot (EXEC, VCC, M0, SCC, MODE)."""
        return self.b.load(self.at(self.scalars, slot * 4), typ=type_, align=4)

    def scalar_store(self, slot: int, value: ir.Value) -> None:
        self.b.store(value, self.at(self.scalars, slot * 4), align=4)

    def exec_mask(self) -> ir.Value:
        """EXEC as i64, as it was when the helper was entered."""
        return self._exec

    def exec_lanes(self) -> ir.Value:
        """EXEC as one bit a lane."""
        return self.flags(self.exec_mask())

    # ---- rows of vector registers -------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> int:
        """Size of one vector register."""
        return 4 * self.lanes

    def row(self, position: int, offset: int = 0) -> ir.Value:
        """Pointer to the first row of a vector-register operand, ``offset`` rows further on."""
        return self.at(self.vectors, self.b.add(self.argument(position), I64(offset * self.row_bytes)))

    def load_rows(self, pointer: ir.Value, width: int = 32) -> ir.Value:
        """One row as <lanes x i32>, or two as <lanes x i64>."""
        word = lanes_of(I32, self.lanes)
        low = self.b.load(pointer, typ=word, align=64)
        if width == 32:
            return low
        high = self.b.load(self.at(pointer, self.row_bytes), typ=word, align=64)
        wide = self.convert(high, I64)
        return self.b.or_(self.convert(low, I64), self.b.shl(wide, self.like(wide, 32)))

    def store_rows(self, pointer: ir.Value, raw: ir.Value, enabled: ir.Value | None = None) -> None:
        """Store <lanes x i32>, or <lanes x i64> into two rows, in the active lanes (and where ``enabled``)."""
        if raw.type.element.width == 64:
            low = self.convert(raw, I32)
            high = self.convert(self.b.lshr(raw, self.like(raw, 32)), I32)
            self._store_row(pointer, low, enabled)
            self._store_row(self.at(pointer, self.row_bytes), high, enabled)
        else:
            self._store_row(pointer, raw, enabled)

    def _store_row(self, pointer: ir.Value, raw: ir.Value, enabled: ir.Value | None) -> None:
        mask = self.exec_mask()
        if enabled is not None:
            mask = self.b.and_(mask, self.mask(enabled))
        # Nearly every instruction runs with all lanes on, and a plain store forwards to the next load faster.
        everyone = self.b.icmp_unsigned("==", mask, self.everyone)
        with self.b.if_else(everyone, likely=True) as (then, otherwise):
            with then:
                self.b.store(raw, pointer, align=64)
            with otherwise:
                old = self.b.load(pointer, typ=raw.type, align=64)
                self.b.store(self.b.select(self.flags(mask), raw, old), pointer, align=64)

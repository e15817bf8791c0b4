"""Emits the LLVM IR of one PTX helper: operands of a warp by type, results under the active lanes and the guard."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, I1, I16, I32, I64, lanes_of
from wavecast.simulator.execute.form import Form
from wavecast.simulator.execute.ptx.layout import WARP_LANES
from wavecast.simulator.execute.ptx.types import element_of, is_float, parts_of, type_width
from wavecast.simulator.execute.state import StateEmitter

# Values that each instruction of a form has for itself, in this order, behind the operands.
RUNTIME_VALUES = ("guard", "offset", "offset1", "target", "reconverge")
# Operands of which the row of an instruction has room for one number each; more are packed, four to a number.
PACKED_FROM = 9
PACKED_BITS = 16
_QUIET_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}


class WarpEmitter(StateEmitter):
    """Builds the body of one helper.

    Attributes:
        form: What is being emitted.
        head: First part of the opcode, ``cvt``.
        parts: Its other parts, without those that concern no value.
        types: Types among them.
        active: i64, lanes that take part: those that the warp executes and the guard leaves in.
    """

    lanes = WARP_LANES

    def __init__(self, module: ir.Module, form: Form) -> None:
        super().__init__(module, form.symbol)
        self.form = form
        self.head, self.parts, self.types = parts_of(form.opcode)
        self.active = self._active()

    def _active(self) -> ir.Value:
        guard = self.form.modifier("guard", "")
        if not guard:
            return self.exec_mask()
        row = self.at(self.vectors, self.runtime("guard"))
        lanes = self.b.load(row, typ=I32, align=4)
        if str(guard).startswith("!"):
            lanes = self.b.not_(lanes)
        return self.b.and_(self.exec_mask(), self.b.zext(lanes, I64))

    def has(self, *names: str) -> bool:
        """Whether the opcode has one of these parts."""
        return any(name in self.parts for name in names)

    def expect_parts(self, *known: str) -> None:
        """Refuse parts that the semantics does not look at.

        Raises:
            NotImplementedError: Names them.
        """
        unknown = [part for part in self.parts if part not in known and part not in self.types]
        if unknown:
            raise NotImplementedError(f".{', .'.join(unknown)} has no semantics here")

    def runtime(self, name: str) -> ir.Value:
        """A value of ``RUNTIME_VALUES`` as i64; 0 if the instruction does not have it."""
        present = [key for key in RUNTIME_VALUES if any(key == have for have, _ in self.form.modifiers)]
        if name not in present:
            return I64(0)
        operands = len(self.form.operands)
        slots = -(-operands // (64 // PACKED_BITS)) if operands > PACKED_FROM else operands
        return self.argument(slots + present.index(name))

    # ---- operands -----------------------------------------------------------------------------------------------

    def place(self, position: int) -> ir.Value:
        """Byte offset of a register operand in the vector registers."""
        if len(self.form.operands) <= PACKED_FROM:
            return self.argument(position)
        numbers = 64 // PACKED_BITS
        word = self.argument(position // numbers)
        row = self.b.and_(self.b.lshr(word, I64(PACKED_BITS * (position % numbers))), I64((1 << PACKED_BITS) - 1))
        return self.b.mul(row, I64(self.row_bytes))

    def row(self, position: int, offset: int = 0) -> ir.Value:
        """Pointer to a row of a register operand."""
        if self.form.operands[position].kind not in ("v", "h", "p"):
            raise NotImplementedError(f"operand {position} is {self.form.operands[position].kind!r}, not a register")
        return self.at(self.vectors, self.b.add(self.place(position), I64(offset * self.row_bytes)))

    def bits(self, position: int, width: int) -> ir.Value:
        """A source as integers of 8, 16, 32 or 64 bits; a narrower register is extended with zeros."""
        operand = self.form.operands[position]
        element = ir.IntType(width)
        if operand.kind == "k":
            return self.splat(self.convert(self.argument(position), element))
        if operand.kind not in ("v", "h"):
            raise NotImplementedError(f"operand {position} is {operand.kind!r}, not a value")
        raw = self.load_rows(self.row(position), 32 * operand.count)
        return self.convert(raw, element)

    def read(self, position: int, name: str) -> ir.Value:
        """A source of a type; both halves of a packed one side by side, so twice as many elements."""
        if name == "pred":
            return self.flags(self.predicate(position))
        width = type_width(name)
        raw = self.bits(position, width)
        element = element_of(name)
        if name.endswith("x2"):
            return self.b.bitcast(raw, lanes_of(element, 2 * self.lanes))
        return self.bitcast(raw, element)

    def sources(self, name: str, count: int, first: int = 1) -> list[ir.Value]:
        """Consecutive sources of one type."""
        return [self.read(first + index, name) for index in range(count)]

    def predicate(self, position: int) -> ir.Value:
        """A predicate source as an i64 mask."""
        operand = self.form.operands[position]
        if operand.kind == "k":
            truth = self.b.icmp_unsigned("!=", self.argument(position), I64(0))
            return self.b.select(truth, self.everyone, I64(0))
        if operand.kind != "p":
            raise NotImplementedError(f"operand {position} is {operand.kind!r}, not a predicate")
        lanes = self.b.load(self.row(position), typ=I32, align=4)
        return self.b.zext(self.b.not_(lanes) if operand.negate else lanes, I64)

    def write(self, position: int, name: str, value: ir.Value) -> None:
        """Write a result in the active lanes."""
        operand = self.form.operands[position]
        if operand.kind == "_":
            return
        if name == "pred":
            self.write_mask(position, self.mask(value))
            return
        width = type_width(name)
        if name.endswith("x2"):
            raw = self.b.bitcast(value, lanes_of(ir.IntType(width), self.lanes))
        else:
            raw = self.bitcast(value, ir.IntType(width))
        self.write_bits(position, raw, signed=name.startswith("s"))

    def write_bits(self, position: int, raw: ir.Value, *, signed: bool = False) -> None:
        """Write integers, extended to the width of the register."""
        operand = self.form.operands[position]
        if operand.kind == "_":
            return
        if operand.kind not in ("v", "h"):
            raise NotImplementedError(f"operand {position} is {operand.kind!r}, not a register")
        if operand.kind == "h":
            # Upper halves of rows are zero.
            raw = self.convert(self.convert(raw, I16, signed=signed), I32)
        else:
            raw = self.convert(raw, ir.IntType(32 * operand.count), signed=signed)
        self.store_rows(self.row(position), raw)

    def write_mask(self, position: int, mask: ir.Value) -> None:
        """Write a predicate, given as an i64 mask, in the active lanes."""
        if self.form.operands[position].kind == "_":
            return
        row = self.row(position)
        old = self.b.zext(self.b.load(row, typ=I32, align=4), I64)
        kept = self.b.and_(old, self.b.not_(self.active))
        self.b.store(self.b.trunc(self.b.or_(kept, self.b.and_(mask, self.active)), I32), row, align=4)

    def _store_row(self, pointer: ir.Value, raw: ir.Value, enabled: ir.Value | None) -> None:
        mask = self.active
        if enabled is not None:
            mask = self.b.and_(mask, self.mask(enabled))
        with self.b.if_else(self.b.icmp_unsigned("==", mask, self.everyone), likely=True) as (then, otherwise):
            with then:
                self.b.store(raw, pointer, align=64)
            with otherwise:
                old = self.b.load(pointer, typ=raw.type, align=64)
                self.b.store(self.b.select(self.flags(mask), raw, old), pointer, align=64)

    # ---- values -------------------------------------------------------------------------------------------------

    def flushed(self, value: ir.Value) -> ir.Value:
        """Denormals of f32 as zero of the same sign."""
        bits = self.bitcast(value, I32)
        small = self.b.icmp_unsigned("==", self.b.and_(bits, self.like(bits, 0x7F800000)), self.like(bits, 0))
        zero = self.b.and_(bits, self.like(bits, 0x80000000))
        return self.bitcast(self.select(small, zero, bits), F32)

    def canonical(self, value: ir.Value, name: str) -> ir.Value:
        """A NaN as PTX instructions give it."""
        base = name.removesuffix("x2")
        if base == "bf16":
            magnitude = self.b.and_(value, self.like(value, 0x7FFF))
            nan = self.b.icmp_unsigned(">", magnitude, self.like(value, 0x7F80))
            return self.select(nan, self.like(value, _QUIET_NAN[base]), value)
        bits = self.bitcast(value, ir.IntType(type_width(base)))
        nan = self.b.fcmp_unordered("uno", value, value)
        return self.bitcast(self.select(nan, self.like(bits, _QUIET_NAN[base]), bits), value.type.element)

    def from_bfloat(self, value: ir.Value) -> ir.Value:
        """bf16, carried as i16, to f32."""
        wide = self.convert(value, I32)
        return self.bitcast(self.b.shl(wide, self.like(wide, 16)), F32)

    def to_bfloat(self, value: ir.Value) -> ir.Value:
        """f32 to bf16, carried as i16, rounded to nearest even; NaN becomes the canonical one."""
        bits = self.bitcast(value, I32)
        odd = self.b.and_(self.b.lshr(bits, self.like(bits, 16)), self.like(bits, 1))
        rounded = self.b.add(bits, self.b.add(odd, self.like(bits, 0x7FFF)))
        nan = self.b.fcmp_unordered("uno", value, value)
        chosen = self.select(nan, self.like(bits, 0x7FFF0000), rounded)
        return self.convert(self.b.lshr(chosen, self.like(chosen, 16)), I16)

    def single(self, value: ir.Value, name: str) -> ir.Value:
        """f16 or bf16 as f32; others as they are."""
        base = name.removesuffix("x2")
        if base == "bf16":
            return self.from_bfloat(value)
        if base == "f16":
            return self.b.fpext(value, lanes_of(F32, value.type.count))
        return value

    def rounded(self, value: ir.Value, name: str) -> ir.Value:
        """f32 back to f16 or bf16, NaN canonical; others only made canonical."""
        base = name.removesuffix("x2")
        if base == "bf16":
            return self.to_bfloat(value)
        if base == "f16":
            value = self.b.fptrunc(value, lanes_of(F16, value.type.count))
        return self.canonical(value, name) if is_float(name) else value

    def lane_numbers(self) -> ir.Constant:
        """0, 1, 2, … as <lanes x i32>."""
        return ir.Constant(lanes_of(I32, self.lanes), list(range(self.lanes)))

    def truth(self, flags: ir.Value, element: ir.Type = I32) -> ir.Value:
        """One bit a lane as 0 or 1."""
        return self.b.zext(flags, lanes_of(element, flags.type.count)) if element is not I1 else flags

    def finish(self) -> None:
        """End the helper."""
        if not self.b.block.is_terminated:
            self.b.ret_void()

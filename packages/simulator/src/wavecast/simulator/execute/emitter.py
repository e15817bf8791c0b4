"""Emits the LLVM IR of one helper: operand access under EXEC, with every source and destination modifier.

The semantics in ``ops/`` are small functions on 64-lane vectors; what surrounds them is here.

Value types, by name: ``b32 u32 i32 f32``, ``b64 u64 i64 f64``, ``b16 u16 i16 f16 bf16`` and ``mask`` (one bit a lane,
held in a scalar register pair).
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute import dpp, sdwa
from wavecast.simulator.execute.builder import F16, F32, F64, I1, I16, I32, I64, lanes_of
from wavecast.simulator.execute.float_mode import KEEPS_RESULT_DENORMALS, KEEPS_SOURCE_DENORMALS
from wavecast.simulator.execute.form import RUNTIME_MODIFIERS, Form, OperandForm, WatchedForm
from wavecast.simulator.execute.numeric import flushed
from wavecast.simulator.execute.state import StateEmitter
from wavecast.simulator.program.instruction import MODE, SCC

_ELEMENTS: dict[str, ir.Type] = {"f16": F16, "f32": F32, "f64": F64}


def element_of(type_name: str) -> ir.Type:
    """LLVM element type of a value type (``bf16`` is carried as i16)."""
    if type_name == "mask":
        return I1
    return _ELEMENTS.get(type_name) or ir.IntType(width_of(type_name))


def width_of(type_name: str) -> int:
    """Bits of a value type."""
    return int(type_name.lstrip("bfiu"))


class Emitter(StateEmitter):
    """Builds the body of one helper.

    Attributes:
        form: What is being emitted. It notes which modifiers were asked for; ``finish`` refuses the others.
        results: Destination operands in front of the sources: what tells which operand is src0.
        keep_high_half: 16-bit results leave the high half of their register as it is (else they clear it).
    """

    def __init__(self, module: ir.Module, form: Form) -> None:
        super().__init__(module, form.symbol)
        self.form = WatchedForm(*form)
        self.results = 1
        self.keep_high_half = False

    # ---- memory of the machine state ----------------------------------------------------------------------------

    def runtime_modifier(self, name: str) -> ir.Value:
        """Value of ``offset``, ``offset0`` or ``offset1`` as i64; 0 if the instruction does not have it."""
        self.form.asked.add(name)
        present = [key for key in RUNTIME_MODIFIERS if any(key == have for have, _ in self.form.modifiers)]
        if name not in present:
            return I64(0)
        return self.argument(len(self.form.operands) + present.index(name))

    def set_scc(self, flag: ir.Value) -> None:
        self.scalar_store(SCC, self.b.zext(flag, I32))

    def _expect(self, position: int, kind: str, what: str) -> None:
        if self.form.operands[position].kind != kind:
            raise NotImplementedError(f"operand {position} is {self.form.operands[position].kind!r}, not a {what}")

    def slot(self, position: int) -> ir.Value:
        """Pointer to the first register of a scalar-register operand."""
        self._expect(position, "s", "scalar register")
        return self.at(self.scalars, self.argument(position))

    # ---- vector operands ----------------------------------------------------------------------------------------

    def row(self, position: int, offset: int = 0) -> ir.Value:
        """Pointer to the first row of a vector-register operand, ``offset`` rows further on."""
        self._expect(position, "v", "vector register")
        return super().row(position, offset)

    def read(self, position: int, type_name: str, *, modifiers: bool = True) -> ir.Value:
        """A source operand in every lane, source modifiers, DPP and SDWA applied."""
        operand = self.form.operands[position]
        if type_name == "mask":
            return self._read_mask(position, operand)
        width = width_of(type_name)
        raw = self._read_raw(position, operand, max(width, 32))
        raw = dpp.source(self, position, raw)
        raw = sdwa.source(self, position, raw, operand)
        if width == 16:
            raw = self._half(position, raw)
        value = self.bitcast(raw, element_of(type_name))
        if not modifiers:
            return value
        value = self.source_by_mode(value)
        if type_name[0] in "iu" and (operand.absolute or operand.negate):
            raise NotImplementedError("an integer source with a float modifier")
        return self.source_modifiers(value, operand)

    def _half(self, position: int, raw: ir.Value) -> ir.Value:
        """16-bit operands of VOP3 take the high half where ``op_sel`` says so (bit 0 is the first source)."""
        select = self.form.bits("op_sel", 4)
        source = position - self.results
        if self.form.encoding != "sdwa" and 0 <= source < len(select) and select[source] and raw.type.element == I32:
            raw = self.b.lshr(raw, self.like(raw, 16))
        return self.convert(raw, I16)

    def source_modifiers(self, value: ir.Value, operand: OperandForm) -> ir.Value:
        """Apply ``|…|`` and ``-``, which are float modifiers."""
        element = value.type.element
        if not (operand.absolute or operand.negate):
            return value
        bits = {F16: I16, F32: I32, F64: I64}.get(element, element)
        raw = self.bitcast(value, bits)
        sign = 1 << (bits.width - 1)
        if operand.absolute:
            raw = self.b.and_(raw, self.like(raw, sign - 1))
        if operand.negate:
            raw = self.b.xor(raw, self.like(raw, sign))
        return self.bitcast(raw, element)

    def source_by_mode(self, value: ir.Value) -> ir.Value:
        """A source, denormals of single precision taken for zero if MODE says so."""
        return self._by_mode(value, KEEPS_SOURCE_DENORMALS)

    def result_by_mode(self, value: ir.Value) -> ir.Value:
        """A result, likewise."""
        return self._by_mode(value, KEEPS_RESULT_DENORMALS)

    def _by_mode(self, value: ir.Value, bit: int) -> ir.Value:
        """``value``, its denormals flushed unless the bit of MODE is set, where the kernel may ever clear it."""
        if value.type.element != F32 or not self.form.modifier("flushes_by_mode"):
            return value
        kept = self.splat(self.b.trunc(self.b.lshr(self.scalar_load(MODE), I32(bit)), I1), value.type.count)
        return self.select(kept, value, flushed(self, value))

    def _read_raw(self, position: int, operand: OperandForm, width: int) -> ir.Value:
        element = ir.IntType(width)
        if operand.kind == "v":
            return self.load_rows(self.row(position), width)
        if operand.kind == "s":
            return self.splat(self.b.load(self.slot(position), typ=element, align=4))
        if operand.kind == "k":
            return self.splat(self.convert(self.argument(position), element))
        raise NotImplementedError(f"operand {position} is {operand.kind!r}, not a vector source")

    def _read_mask(self, position: int, operand: OperandForm) -> ir.Value:
        if operand.kind == "s":
            bits = self.b.load(self.slot(position), typ=I64, align=4)
        elif operand.kind == "k":
            bits = self.argument(position)
        else:
            raise NotImplementedError(f"operand {position} is {operand.kind!r}, not a lane mask")
        return self.b.bitcast(bits, lanes_of(I1))

    def write(self, position: int, type_name: str, value: ir.Value) -> None:
        """Write a destination operand in the active lanes, output modifiers applied."""
        if type_name == "mask":
            if dpp.write_enable(self) is not None:
                raise NotImplementedError("a lane mask as the result of DPP that switches lanes off")
            bits = self.b.and_(self.b.bitcast(value, I64), self.exec_mask())
            self.b.store(bits, self.slot(position), align=4)
            return
        value = self.result_by_mode(self._output_modifiers(value))
        width = width_of(type_name)
        raw = self.bitcast(value, ir.IntType(width))
        pointer = self.row(position)
        if width == 16:
            raw = self._place_half(raw, pointer)
        raw = sdwa.destination(self, raw, pointer)
        enabled = dpp.write_enable(self)
        self.store_rows(pointer, raw, enabled)

    def _place_half(self, raw: ir.Value, pointer: ir.Value) -> ir.Value:
        """A 16-bit result fills the low half and clears or keeps the high one.

        The last entry of ``op_sel``, behind those of the sources, makes it the high half.
        """
        wide = self.convert(raw, I32)
        if self.form.encoding == "sdwa":
            return wide
        sources = len(self.form.operands) - self.results
        high = self.form.bits("op_sel", sources + 1)[sources]
        if not high and not self.keep_high_half:
            return wide
        old = self.load_rows(pointer)
        if not high:
            return self.b.or_(self.b.and_(old, self.like(old, 0xFFFF0000)), wide)
        low = self.b.and_(old, self.like(old, 0xFFFF))
        return self.b.or_(low, self.b.shl(wide, self.like(wide, 16)))

    def _output_modifiers(self, value: ir.Value) -> ir.Value:
        element = value.type.element
        if element not in (F16, F32, F64):
            return value
        for name, factors in (("mul", {2: 2.0, 4: 4.0}), ("div", {2: 0.5})):
            factor = self.form.modifier(name)
            if factor:
                value = self.b.fmul(value, self.like(value, factors[int(factor)]))  # type: ignore[arg-type]
        if self.form.modifier("clamp"):
            value = self.clamp_unit(value)
        return value

    def clamp_unit(self, value: ir.Value) -> ir.Value:
        """Clamp to 0…1; NaN becomes 0 (DX10_CLAMP)."""
        zero, one = self.like(value, 0.0), self.like(value, 1.0)
        positive = self.b.fcmp_ordered(">", value, zero)
        return self.select(positive, self.select(self.b.fcmp_ordered("<", value, one), value, one), zero)

    # ---- scalar operands ----------------------------------------------------------------------------------------

    def read_scalar(self, position: int, type_name: str) -> ir.Value:
        """A scalar source: register or constant."""
        operand = self.form.operands[position]
        if operand.negate or operand.absolute or operand.sign_extend:
            raise NotImplementedError("a scalar source with a modifier")
        element = element_of(type_name)
        width = ir.IntType(width_of(type_name))
        if operand.kind == "s":
            raw = self.b.load(self.slot(position), typ=width, align=4)
        elif operand.kind == "k":
            raw = self.convert(self.argument(position), width)
        else:
            raise NotImplementedError(f"operand {position} is {operand.kind!r}, not a scalar source")
        return self.b.bitcast(raw, element) if element is not width else raw

    def write_scalar(self, position: int, value: ir.Value) -> None:
        """A scalar destination of 32 or 64 bits."""
        self.b.store(value, self.slot(position), align=4)

    def finish(self) -> None:
        """End the helper.

        Raises:
            NotImplementedError: The instruction has a modifier that nothing looked at.
        """
        self.form.check_modifiers()
        if not self.b.block.is_terminated:
            self.b.ret_void()

"""LLVM IR on vectors of lanes: what every function of a module needs, whatever it is for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from llvmlite import ir

from wavecast.simulator.execute.layout import LANES

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
POINTER = ir.PointerType()


def lanes_of(element: ir.Type, count: int = LANES) -> ir.VectorType:
    """The vector type with one element a lane."""
    return ir.VectorType(element, count)


class Builder:
    """Builds the body of one function.

    Attributes:
        module: Where the function and those it calls are.
        function: What is being built.
        b: The LLVM IR builder, for everything that has no shorter form here.
        lanes: Lanes of a wave.
    """

    lanes = LANES

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        self.module = module
        self.function = function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    # ---- plain values -------------------------------------------------------------------------------------------

    def constant(self, type_: ir.Type, value: object) -> ir.Constant:
        """A constant; a number given for a vector type fills every lane."""
        if isinstance(type_, ir.VectorType) and not isinstance(value, (list, tuple)):
            return ir.Constant(type_, [value] * type_.count)
        return ir.Constant(type_, value)

    def like(self, value: ir.Value, number: object) -> ir.Constant:
        """A constant of the type of ``value``."""
        return self.constant(value.type, number)

    def splat(self, value: ir.Value, count: int | None = None) -> ir.Value:
        """A scalar in every lane, or ``count`` times."""
        count = count or self.lanes
        vector = lanes_of(value.type, count)
        single = self.b.insert_element(ir.Constant(vector, ir.Undefined), value, I32(0))
        return self.b.shuffle_vector(single, ir.Constant(vector, ir.Undefined), self.constant(lanes_of(I32, count), 0))

    def shuffle(self, value: ir.Value, indices: Sequence[int], other: ir.Value | None = None) -> ir.Value:
        """Lanes of ``value`` (and ``other``) in the order given."""
        second = other if other is not None else ir.Constant(value.type, ir.Undefined)
        return self.b.shuffle_vector(value, second, ir.Constant(lanes_of(I32, len(indices)), list(indices)))

    def intrinsic(self, name: str, result: ir.Type, arguments: Sequence[ir.Value]) -> ir.Value:
        """Call an LLVM intrinsic, its suffix taken from the result type: ``llvm.fma`` becomes ``llvm.fma.v64f32``."""
        return self.call(f"{name}.{_suffix(result)}", result, arguments)

    def call(self, name: str, result: ir.Type, arguments: Sequence[ir.Value]) -> ir.Value:
        """Call a function of the module by its full name, declared on first use."""
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, [a.type for a in arguments]), name=name)
        return self.b.call(function, arguments)

    def convert(self, value: ir.Value, element: ir.Type, *, signed: bool = False) -> ir.Value:
        """Resize integers lane by lane; ``signed`` chooses sign extension."""
        target = lanes_of(element, value.type.count) if isinstance(value.type, ir.VectorType) else element
        source = value.type.element if isinstance(value.type, ir.VectorType) else value.type
        if source.width == element.width:
            return value
        if source.width > element.width:
            return self.b.trunc(value, target)
        return self.b.sext(value, target) if signed else self.b.zext(value, target)

    def bitcast(self, value: ir.Value, element: ir.Type) -> ir.Value:
        """The same bits of each lane as another element type of the same width."""
        target = lanes_of(element, value.type.count) if isinstance(value.type, ir.VectorType) else element
        return self.b.bitcast(value, target)

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        return self.b.select(condition, yes, no)

    def mask(self, flags: ir.Value) -> ir.Value:
        """One bit a lane as an i64."""
        return self.convert(self.b.bitcast(flags, ir.IntType(self.lanes)), I64)

    def flags(self, mask: ir.Value) -> ir.Value:
        """The lanes of an i64 as one bit each."""
        return self.b.bitcast(self.convert(mask, ir.IntType(self.lanes)), lanes_of(I1, self.lanes))

    @property
    def everyone(self) -> ir.Constant:
        """Mask of all lanes, i64."""
        return I64((1 << self.lanes) - 1)

    # ---- memory -------------------------------------------------------------------------------------------------

    def at(self, base: ir.Value, offset: ir.Value | int) -> ir.Value:
        """Pointer ``offset`` bytes behind ``base``."""
        index = I64(offset) if isinstance(offset, int) else offset
        return self.b.gep(base, [index], source_etype=I8)

    def allocate(self, element: ir.Type, count: int) -> ir.Value:
        """Stack array, allocated once at the entry of the helper so that loops do not grow the stack."""
        with self.b.goto_entry_block():
            pointer = self.b.alloca(ir.ArrayType(element, count))
            pointer.align = 64
            # llvmlite gives the typed pointer of older LLVM; everything here works on opaque ones.
            pointer.type = POINTER
        return pointer

    @contextlib.contextmanager
    def for_each(self, count: ir.Value | int) -> Iterator[ir.Value]:
        """Loop ``count`` times (i64); yields the index."""
        limit = I64(count) if isinstance(count, int) else count
        before = self.b.block
        head = self.b.append_basic_block("loop")
        body = self.b.append_basic_block("body")
        done = self.b.append_basic_block("done")
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(I64)
        index.add_incoming(I64(0), before)
        self.b.cbranch(self.b.icmp_unsigned("<", index, limit), body, done)
        self.b.position_at_end(body)
        yield index
        index.add_incoming(self.b.add(index, I64(1)), self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)

    @contextlib.contextmanager
    def for_each_lane(self, mask: ir.Value) -> Iterator[ir.Value]:
        """Loop over the lanes that are set in an i64 mask, lowest first; yields the lane as i64."""
        before = self.b.block
        head = self.b.append_basic_block("lanes")
        body = self.b.append_basic_block("lane")
        done = self.b.append_basic_block("lanes_done")
        self.b.branch(head)
        self.b.position_at_end(head)
        rest = self.b.phi(I64)
        rest.add_incoming(mask, before)
        self.b.cbranch(self.b.icmp_unsigned("!=", rest, I64(0)), body, done)
        self.b.position_at_end(body)
        lane = self.call("llvm.cttz.i64", I64, [rest, I1(1)])
        yield lane
        rest.add_incoming(self.b.and_(rest, self.b.sub(rest, I64(1))), self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)

    # ---- functions that helpers share ---------------------------------------------------------------------------

    def shared(
        self, name: str, result: ir.Type, arguments: Sequence[ir.Type], emit: Callable[..., None]
    ) -> ir.Function:
        """A function of the module, built on first use and never inlined: what is rare or long is compiled once.

        Args:
            name: The same name is the same function.
            result: Its type.
            arguments: Their types.
            emit: Builds the body; receives a builder and the arguments, and ends with a return.
        """
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, arguments), name=name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            emit(Builder(self.module, function), *function.args)
        return function


def _suffix(type_: ir.Type) -> str:
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{_suffix(type_.element)}"
    return {F16: "f16", F32: "f32", F64: "f64"}.get(type_) or f"i{type_.width}"

"""Vector comparisons into a lane mask, and the selection by one."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.registry import raw, vector
from wavecast.simulator.program.instruction import EXEC

Test = Callable[[Emitter, ir.Value, ir.Value], ir.Value]

# Name of a comparison → relation of the values.
_INTEGER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# Name → relation, and whether an unordered pair (a NaN among them) satisfies it.
_FLOAT = {
    "eq": ("==", False),
    "lt": ("<", False),
    "le": ("<=", False),
    "gt": (">", False),
    "ge": (">=", False),
    "lg": ("!=", False),
    "o": ("ord", False),
    "u": ("uno", True),
    "nge": ("<", True),
    "nlg": ("==", True),
    "ngt": ("<=", True),
    "nle": (">", True),
    "neq": ("!=", True),
    "nlt": (">=", True),
}


def _register(name: str, sources: str, test: Test) -> None:
    """Enter ``v_cmp_…``, which writes a lane mask, and ``v_cmpx_…``, which writes EXEC as well."""
    vector(f"v_cmp_{name}", "mask", sources)(test)
    first, second = sources.split()

    @raw(f"v_cmpx_{name}", f"mask {sources}")
    def _(e: Emitter) -> None:
        outcome = test(e, e.read(1, first), e.read(2, second))
        e.write(0, "mask", outcome)
        e.scalar_store(EXEC, e.b.and_(e.b.bitcast(outcome, I64), e.exec_mask()))


def _constant(value: int) -> Test:
    def test(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        return e.constant(lanes_of(I1), value)

    return test


def _integer(relation: str, signed: bool) -> Test:
    def test(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        return (e.b.icmp_signed if signed else e.b.icmp_unsigned)(relation, a, b)

    return test


def _float(relation: str, unordered: bool) -> Test:
    def test(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        return (e.b.fcmp_unordered if unordered else e.b.fcmp_ordered)(relation, a, b)

    return test


for _type in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for _name, _relation in _INTEGER.items():
        _register(f"{_name}_{_type}", f"{_type} {_type}", _integer(_relation, _type[0] == "i"))
for _type in ("f16", "f32", "f64"):
    for _name, (_relation, _unordered) in _FLOAT.items():
        _register(f"{_name}_{_type}", f"{_type} {_type}", _float(_relation, _unordered))
for _type in ("i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64"):
    _register(f"f_{_type}", f"{_type} {_type}", _constant(0))
    _register(f"{'tru' if _type[0] == 'f' else 't'}_{_type}", f"{_type} {_type}", _constant(1))


def _classes(fraction_bits: int) -> Test:
    """Whether the class of the value is in the set that the second source spells, one bit a class."""

    def test(e: Emitter, a: ir.Value, wanted: ir.Value) -> ir.Value:
        width = {"half": 16, "float": 32, "double": 64}[str(a.type.element)]
        element = ir.IntType(width)
        bits = e.bitcast(a, element)
        magnitude = e.b.and_(bits, e.like(bits, (1 << (width - 1)) - 1))
        infinity = ((1 << (width - 1 - fraction_bits)) - 1) << fraction_bits
        # Classes of magnitudes in ascending order: upper end, bit for the negative sign, bit for the positive one.
        steps = [
            (1, 5, 6),  # zero
            (1 << fraction_bits, 4, 7),  # denormal
            (infinity, 3, 8),  # normal
            (infinity + 1, 2, 9),  # infinity
            (infinity + (1 << (fraction_bits - 1)), 0, 0),  # signaling NaN
        ]
        negative = e.b.icmp_signed("<", bits, e.like(bits, 0))
        one = e.like(wanted, 1 << 1)  # quiet NaN
        for end, minus, plus in reversed(steps):
            mine = e.select(negative, e.like(wanted, 1 << minus), e.like(wanted, 1 << plus))
            one = e.select(e.b.icmp_unsigned("<", magnitude, e.like(magnitude, end)), mine, one)
        return e.b.icmp_unsigned("!=", e.b.and_(one, wanted), e.like(wanted, 0))

    return test


for _type, _fraction in (("f16", 10), ("f32", 23), ("f64", 52)):
    _register(f"class_{_type}", f"{_type} u32", _classes(_fraction))


@vector("v_cndmask_b32", "b32", "b32 b32 mask")
def _(e: Emitter, no: ir.Value, yes: ir.Value, mask: ir.Value) -> ir.Value:
    return e.select(mask, yes, no)

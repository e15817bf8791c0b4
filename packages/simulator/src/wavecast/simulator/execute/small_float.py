"""Decoding of 8- and 4-bit floats to fp32, branch-free on vectors.

``fp8`` is e4m3 and ``bf8`` e5m2: the FNUZ encodings on gfx942 (bias 8 and 16, one NaN 0x80, no infinity, no −0), the
OCP ones on gfx950 (bias 7 and 15). ``fp4`` is e2m1 (OCP MX).
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.emitter import F16, F32, I16, Emitter, lanes_of

_FNUZ_ARCHITECTURES = frozenset({"gfx942"})


def is_fnuz(arch: str) -> bool:
    """Whether the architecture's fp8 and bf8 are the FNUZ encodings."""
    return arch in _FNUZ_ARCHITECTURES


def decode_fp8(e: Emitter, code: ir.Value, source: str, *, arch: str) -> ir.Value:
    """fp32 values of 8-bit codes.

    Args:
        e: The helper.
        code: <n x i32>, of which the low 8 bits count.
        source: ``fp8`` or ``bf8``.
        arch: Decides the encoding.
    """
    fnuz = is_fnuz(arch)
    magnitude = e.b.and_(code, e.like(code, 0x7F))
    sign = e.b.shl(e.b.and_(code, e.like(code, 0x80)), e.like(code, 24))
    if source == "bf8" and fnuz:
        # The top exponent is an ordinary one, which f16 would read as infinity or NaN: go through f32 instead.
        bits = e.b.shl(magnitude, e.like(code, 21))
        value = e.b.fmul(e.bitcast(bits, F32), e.constant(lanes_of(F32, code.type.count), 2.0 ** (127 - 16)))
    else:
        # As f16 with the same mantissa at the top: its subnormals convert at full speed, where f32's would not.
        bits = e.convert(e.b.shl(magnitude, e.like(code, 7 if source == "fp8" else 8)), I16)
        value = e.b.fpext(e.bitcast(bits, F16), lanes_of(F32, code.type.count))
        bias = {("fp8", True): 8, ("fp8", False): 7, ("bf8", False): 15}[source, fnuz]
        if bias != 15:
            value = e.b.fmul(value, e.like(value, 2.0 ** (15 - bias)))
    value = e.bitcast(e.b.or_(e.bitcast(value, code.type.element), sign), F32)
    if fnuz:
        is_nan = e.b.icmp_unsigned("==", e.b.and_(code, e.like(code, 0xFF)), e.like(code, 0x80))
    elif source == "fp8":
        is_nan = e.b.icmp_unsigned("==", magnitude, e.like(code, 0x7F))
    else:
        return value
    return e.select(is_nan, e.like(value, float("nan")), value)


def decode_fp4(e: Emitter, code: ir.Value) -> ir.Value:
    """fp32 values of e2m1 codes: the low 4 bits of <n x i32>."""
    mantissa = e.b.and_(code, e.like(code, 1))
    exponent = e.b.and_(e.b.lshr(code, e.like(code, 1)), e.like(code, 3))
    normal = e.b.or_(
        e.b.shl(e.b.add(exponent, e.like(code, 126)), e.like(code, 23)), e.b.shl(mantissa, e.like(code, 22))
    )
    # Exponent 0 holds 0 and 0.5.
    small = e.b.mul(mantissa, e.like(code, 0x3F000000))
    magnitude = e.select(e.b.icmp_unsigned("==", exponent, e.like(code, 0)), small, normal)
    sign = e.b.shl(e.b.and_(code, e.like(code, 8)), e.like(code, 28))
    return e.bitcast(e.b.or_(magnitude, sign), F32)


def decode_e8m0(e: Emitter, code: ir.Value) -> ir.Value:
    """fp32 values 2^(code − 127) of e8m0 scale codes in the low 8 bits of <n x i32>; 255 is NaN."""
    byte = e.b.and_(code, e.like(code, 0xFF))
    # 2^-127 is a subnormal of fp32.
    small = e.like(code, 0x00400000)
    bits = e.select(e.b.icmp_unsigned("==", byte, e.like(code, 0)), small, e.b.shl(byte, e.like(code, 23)))
    nan = e.like(code, 0x7FC00000)
    return e.bitcast(e.select(e.b.icmp_unsigned("==", byte, e.like(code, 0xFF)), nan, bits), F32)

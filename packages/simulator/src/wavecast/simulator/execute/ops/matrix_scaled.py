"""MFMA on 8- and 4-bit floats with block scales (gfx950): ``v_mfma_[scale_]f32_{32x32x64,16x16x128}_f8f6f4``.

``cbsz`` and ``blgp`` give the formats of A and B (0 fp8, 1 bf8, 4 fp4). A lane of group g holds 32 elements of its
row: 4-bit k = 32·g…32·g+31; 8-bit k = 16·g…16·g+15 and K/2 + 16·g…K/2 + 16·g+15. The scale of (row, block of 32 k) is
a byte of the scale register of lane block·N + row, chosen by ``op_sel`` and ``op_sel_hi``.
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import F32, I32, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.ops.matrix import Shape, product
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.small_float import E2M1, E4M3_OCP, E5M2_OCP, SmallFloat, decode, decode_e8m0

_FORMATS = {0: E4M3_OCP, 1: E5M2_OCP, 4: E2M1}
_BLOCK = 32
_PER_LANE = 32


def _format(e: Emitter, name: str) -> SmallFloat:
    number = int(e.form.modifier(name))  # type: ignore[arg-type]
    if number not in _FORMATS:
        raise NotImplementedError(f"{name}:{number}, a 6-bit format, in a matrix instruction")
    return _FORMATS[number]


def _element(e: Emitter, position: int, index: int, source: SmallFloat) -> ir.Value:
    """Element ``index`` of each lane as <64 x float>."""
    per_word = 8 if source is E2M1 else 4
    word = e.b.load(e.row(position, index // per_word), typ=lanes_of(I32), align=64)
    code = e.b.lshr(word, e.like(word, index % per_word * (32 // per_word)))
    return decode(e, code, source)


def _k(shape: Shape, source: SmallFloat, group: int, index: int) -> int:
    if source is E2M1:
        return _PER_LANE * group + index
    half = _PER_LANE // 2
    return shape.depth // 2 * (index // half) + half * group + index % half


def _pack(e: Emitter, position: int, shape: Shape, source: SmallFloat, scales: ir.Value | None) -> ir.Value:
    """A or B, scaled, as a stack array [k][row or column] of fp32."""
    array = e.allocate(F32, shape.depth * shape.size)
    for index in range(_PER_LANE):
        values = _element(e, position, index, source)
        if scales is not None:
            blocks = [_k(shape, source, lane // shape.size, index) // _BLOCK for lane in range(LANES)]
            lanes = [block * shape.size + lane % shape.size for lane, block in enumerate(blocks)]
            values = e.b.fmul(values, e.shuffle(scales, lanes))
        for group in range(shape.groups):
            part = e.shuffle(values, list(range(group * shape.size, (group + 1) * shape.size)))
            e.b.store(part, e.at(array, _k(shape, source, group, index) * shape.size * 4), align=64)
    return array


def _scales(e: Emitter, position: int, source: int) -> ir.Value:
    """2^(byte − 127) of each lane's selected scale byte."""
    byte = e.form.bits("op_sel", 3)[source] + 2 * e.form.bits("op_sel_hi", 3, default=1)[source]
    word = e.read(position, "b32")
    return decode_e8m0(e, e.b.lshr(word, e.like(word, 8 * byte)))


def _register(name: str, shape: Shape, *, scaled: bool) -> None:
    @raw(name, "b32 b32 b32 f32 b32 b32" if scaled else "b32 b32 b32 f32")
    def _(e: Emitter) -> None:
        a_format, b_format = _format(e, "cbsz"), _format(e, "blgp")
        a_scales, b_scales = (_scales(e, 4, 0), _scales(e, 5, 1)) if scaled else (None, None)
        a = _pack(e, 1, shape, a_format, a_scales)
        b = _pack(e, 2, shape, b_format, b_scales)
        product(e, shape, a, b)


for _name, _shape in (("32x32x64", Shape(32, 64, "f8f6f4")), ("16x16x128", Shape(16, 128, "f8f6f4"))):
    _register(f"v_mfma_f32_{_name}_f8f6f4", _shape, scaled=False)
    _register(f"v_mfma_scale_f32_{_name}_f8f6f4", _shape, scaled=True)

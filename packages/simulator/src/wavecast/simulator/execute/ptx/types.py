"""Value types of PTX by name, and what an opcode's dotted parts say."""

from __future__ import annotations

import functools
import re

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, F64, I16

_TYPE = re.compile(r"^(?:[bsu](?:8|16|32|64|128)|f(?:16|32|64)|bf16|tf32|pred|(?:s16|u16|f16|bf16|e4m3|e5m2)x2)$")
_WIDTH = re.compile(r"(\d+)(?:x2)?$")
# Parts that concern caches, ordering and scope, but no value.
_NEUTRAL = frozenset(
    "ca cg cs cv lu wb wt nc weak relaxed acquire release acq_rel volatile mmio cta cluster gpu sys aligned".split()
)


def type_width(name: str) -> int:
    """Bits of a value; of both halves for a packed type."""
    if name == "pred":
        return 1
    if name in ("e4m3x2", "e5m2x2"):
        return 16
    found = _WIDTH.search(name)
    assert found is not None
    return int(found[1]) * (2 if name.endswith("x2") else 1)


def is_float(name: str) -> bool:
    """Whether a type is a floating-point one."""
    return name.lstrip("b").startswith("f") or name.startswith("tf")


def element_of(name: str) -> ir.Type:
    """LLVM type of one value; bf16 is carried as i16, packed values one by one."""
    base = name.removesuffix("x2")
    if base in ("e4m3", "e5m2"):
        return ir.IntType(8)
    if base == "bf16":
        return I16
    return {"f16": F16, "f32": F32, "f64": F64}.get(base) or ir.IntType(type_width(base))


@functools.lru_cache(maxsize=4096)
def parts_of(opcode: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Head, other parts without those that concern no value, and types among them, of ``cvt.rn.f16x2.f32``."""
    head, *rest = opcode.split(".")
    parts = tuple(part for part in rest if (part not in _NEUTRAL and "::" not in part) or part.startswith("shared::"))
    return head, parts, tuple(part for part in parts if _TYPE.match(part))

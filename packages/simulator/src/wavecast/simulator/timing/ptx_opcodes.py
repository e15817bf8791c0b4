"""Which unit of a multiprocessor a PTX instruction occupies, and at which rate.

Rates are those of the table of arithmetic instructions in the CUDA programming guide, compute capability 9.0: fp32 and
packed 16-bit arithmetic 128 results a cycle and multiprocessor, most integer work and conversions 64, special functions
and conversions of 64 bits 16. Plain moves, packing and declarations leave no instruction behind in the machine code.
"""

from __future__ import annotations

import functools
import re

from wavecast.simulator.program.instruction import RECONVERGE, WARP_END, WARP_WAIT
from wavecast.simulator.program.ptx.results import counter_of, is_copy
from wavecast.simulator.timing.units import Rate, Unit

_SPECIAL = ("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "popc", "clz", "bfind", "brev")
_FULL_RATE = ("add", "sub", "mul", "fma", "mad", "neg", "abs")
_FREE = ("mov", "cvta", RECONVERGE, WARP_END, WARP_WAIT)
_SKIPPED = ("cp", "createpolicy", "prefetch", "prefetchu", "griddepcontrol", "setmaxnreg", "applypriority", "discard")
_FENCES = ("membar", "fence")
_SHAPE = re.compile(r"^m(\d+)n(\d+)k(\d+)$")
_TYPE = re.compile(r"^(?:[bsu]|f|bf|tf|e\dm)\d+(?:x2)?$")
_MATRIX_FIELD = {
    "f16": "f16",
    "bf16": "f16",
    "tf32": "xf32",
    "f64": "f64",
    "s8": "i8",
    "u8": "i8",
    "e4m3": "f8",
    "e5m2": "f8",
}


@functools.lru_cache(maxsize=4096)
def ptx_unit(opcode: str) -> Unit:
    """The unit that an opcode occupies; ``Unit.NONE`` for what is no instruction of the machine."""
    head = opcode.partition(".")[0]
    if opcode.startswith("ld.param"):
        return Unit.SCALAR_MEMORY
    counter = counter_of(opcode)
    if counter is not None:
        return Unit.VECTOR_MEMORY if counter == "vmcnt" else Unit.LDS
    if head in _FREE or (head in _SKIPPED and not is_copy(opcode)):
        return Unit.NONE
    if head in ("bra", "ret", "exit", "trap"):
        return Unit.BRANCH
    if head in ("mma", "wgmma"):
        return Unit.MATRIX
    if head in ("bar", "barrier", *_FENCES):
        return Unit.SCALAR
    return Unit.VALU


@functools.lru_cache(maxsize=4096)
def ptx_rate(opcode: str) -> Rate:
    """How fast a vector instruction goes."""
    head, *parts = opcode.split(".")
    types = [part for part in parts if _TYPE.match(part)]
    is_wide = any(kind in ("f64", "s64", "u64", "b64") for kind in types)
    if head in _SPECIAL or (head in ("div", "rem") and types and types[-1][0] in "su") or (head == "cvt" and is_wide):
        return Rate.QUARTER
    if head == "div":
        # A reciprocal and its refinement.
        return Rate.QUARTER
    if head in _FULL_RATE and types and types[-1][0] in "fb" and types[-1] != "f64" and not types[-1].startswith("b1"):
        return Rate.FULL
    if head in ("fma", "add", "mul", "sub") and types and types[-1].endswith("16x2"):
        return Rate.FULL
    return Rate.HALF


def is_fence(opcode: str) -> bool:
    """Whether it orders memory for others than its block."""
    return opcode.partition(".")[0] in _FENCES and not any(part in opcode for part in (".cta", "proxy"))


def orders_memory(opcode: str) -> bool:
    """Whether an atomic also orders what its thread reads and writes."""
    return opcode.startswith(("atom", "red")) and any(part in opcode for part in (".acq_rel", ".acquire", ".release"))


def ptx_matrix(opcode: str) -> tuple[int, str] | None:
    """Operations of a matrix instruction and the rate that counts for it (``f16``, ``f8``, …); None if it is none."""
    parts = opcode.split(".")
    shape = next((found for found in map(_SHAPE.match, parts) if found), None)
    types = [part for part in parts if part in _MATRIX_FIELD]
    if shape is None or parts[0] not in ("mma", "wgmma") or not types:
        return None
    operands = types[1] if parts[0] == "mma" and len(types) > 2 else types[-1]
    return 2 * int(shape[1]) * int(shape[2]) * int(shape[3]), _MATRIX_FIELD[operands]

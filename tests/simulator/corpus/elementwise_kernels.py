"""Corpus kernels that work on vectors: casts, mathematics, integers, random numbers, atomics."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def cast_kernel(source, target, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(source + index, mask=inside)
    tl.store(target + index, value.to(target.dtype.element_ty), mask=inside)


@triton.jit
def cast_through_fp32_kernel(source, target, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(source + index, mask=inside).to(tl.float32)
    tl.store(target + index, value.to(target.dtype.element_ty), mask=inside)


@triton.jit
def axpy_kernel(x, y, output, alpha, beta, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    left = tl.load(x + index, mask=inside)
    right = tl.load(y + index, mask=inside)
    tl.store(output + index, (alpha * left + beta * right).to(output.dtype.element_ty), mask=inside)


@triton.jit
def gated_unit_kernel(gate, up, output, columns, gate_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        g = tl.load(gate + row * gate_stride + column, mask=inside).to(tl.float32)
        u = tl.load(up + row * gate_stride + column, mask=inside).to(tl.float32)
        result = g * tl.sigmoid(g) * u
        tl.store(output + row * columns + column, result.to(output.dtype.element_ty), mask=inside)


@triton.jit
def transcendental_kernel(x, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    v = tl.load(x + index, mask=inside, other=1.0)
    result = tl.exp(v) + tl.exp2(v) + tl.log(v) + tl.log2(v) + tl.erf(v)
    result += tl.sqrt(v) + tl.rsqrt(v) + tl.sqrt_rn(v)
    tl.store(output + index, result, mask=inside)


@triton.jit
def trigonometric_kernel(x, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    v = tl.load(x + index, mask=inside, other=0.0)
    tl.store(output + index, tl.sin(v) + 2.0 * tl.cos(v), mask=inside)


@triton.jit
def rounding_kernel(x, y, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    a = tl.load(x + index, mask=inside, other=0.0)
    b = tl.load(y + index, mask=inside, other=1.0)
    result = tl.floor(a) + tl.ceil(b) + libdevice.nearbyint(a) + libdevice.trunc(b)
    result += tl.div_rn(a, b) + a / b + tl.fma(a, b, result)
    result += tl.minimum(a, b) + tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    result = tl.where(libdevice.isnan(a) | libdevice.isinf(b), 0.0, result)
    tl.store(output + index, result, mask=inside)


@triton.jit
def device_library_kernel(x, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    v = tl.load(x + index, mask=inside, other=0.5)
    result = libdevice.tanh(v) + libdevice.pow(v, v + 1.0) + libdevice.log1p(v) + libdevice.expm1(v)
    result += libdevice.fast_expf(v) + libdevice.atan(v) + libdevice.copysign(v, -v)
    tl.store(output + index, result, mask=inside)


@triton.jit
def double_kernel(x, y, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    a = tl.load(x + index, mask=inside, other=1.0).to(tl.float64)
    b = tl.load(y + index, mask=inside, other=1.0)
    result = tl.fma(a, b, a / b) + tl.sqrt(b) - tl.maximum(a, b) + tl.floor(a)
    tl.store(output + index, result, mask=inside)


@triton.jit
def half_kernel(x, y, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    a = tl.load(x + index, mask=inside, other=1.0)
    b = tl.load(y + index, mask=inside, other=1.0)
    result = tl.fma(a, b, a) + (a - b) * b + tl.maximum(a, b) + tl.where(a > b, a, b)
    tl.store(output + index, tl.clamp(result, tl.min(a), tl.max(b)), mask=inside)


@triton.jit
def integer_kernel(x, y, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    a = tl.load(x + index, mask=inside, other=1)
    b = tl.load(y + index, mask=inside, other=1)
    wide = a.to(tl.int64) * b.to(tl.int64) + (a.to(tl.int64) << 3)
    narrow = ((a ^ b) & (a | ~b)) + (a >> 2) - (b << 4) + tl.abs(a) + tl.minimum(a, b)
    unsigned = tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)) + (a.to(tl.uint32) >> 7)
    tl.store(output + index, wide + narrow + unsigned, mask=inside)


@triton.jit
def division_kernel(x, y, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    a = tl.load(x + index, mask=inside, other=1)
    b = tl.load(y + index, mask=inside, other=1)
    result = a // b + a % b + a.to(tl.uint32) // 7 + a.to(tl.uint32) % b.to(tl.uint32)
    tl.store(output + index, result.to(output.dtype.element_ty), mask=inside)


@triton.jit
def small_integer_kernel(x, y, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    a = tl.load(x + index, mask=inside, other=1)
    b = tl.load(y + index, mask=inside, other=1)
    result = tl.maximum(a, b) + tl.minimum(a + b, a - b) * a + (a >> 1) + (b << 2)
    tl.store(output + index, tl.where(a < b, result, b), mask=inside)


@triton.jit
def random_kernel(output, seed, count, NORMAL: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.randn(seed, index) if NORMAL else tl.rand(seed, index)
    tl.store(output + index, value, mask=index < count)


@triton.jit
def gather_kernel(source, where, output, rows, columns, BLOCK: tl.constexpr):
    row = tl.load(where + tl.program_id(0))
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (column < columns) & (row >= 0) & (row < rows)
    value = tl.load(source + row.to(tl.int64) * columns + column, mask=inside, other=0.0)
    tl.store(output + tl.program_id(0).to(tl.int64) * columns + column, value, mask=column < columns)


@triton.jit
def local_gather_kernel(source, where, output, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    index = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(output + index, tl.gather(tl.load(source + index), tl.load(where + index), axis=1))


@triton.jit
def amax_atomic_kernel(x, output, count, SEM: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < count, other=0.0).to(tl.float32)
    tl.atomic_max(output, tl.max(tl.abs(value), axis=0), sem=SEM)
    tl.atomic_min(output + 1, tl.min(value, axis=0), sem=SEM)


@triton.jit
def integer_atomic_kernel(x, output, count, SEM: tl.constexpr, SCOPE: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(x + index, mask=inside, other=0)
    tl.atomic_add(output + value % 16, value, mask=inside, sem=SEM, scope=SCOPE)
    tl.atomic_max(output + 16 + index % 16, value, mask=inside, sem=SEM, scope=SCOPE)
    tl.atomic_min(output + 32 + index % 16, value, mask=inside, sem=SEM, scope=SCOPE)
    tl.atomic_and(output + 48, tl.program_id(0), sem=SEM, scope=SCOPE)
    tl.atomic_or(output + 49, tl.program_id(0), sem=SEM, scope=SCOPE)
    tl.atomic_xor(output + 50, tl.program_id(0), sem=SEM, scope=SCOPE)
    previous = tl.atomic_xchg(output + 51, tl.program_id(0), sem=SEM, scope=SCOPE)
    tl.atomic_add(output + 52, previous, sem=SEM, scope=SCOPE)


@triton.jit
def float_atomic_kernel(x, output, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(x + index, mask=inside, other=0.0)
    tl.atomic_add(output + index % 1024, value.to(output.dtype.element_ty), mask=inside, sem="relaxed")


@triton.jit
def lock_kernel(x, lock, total, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.sum(tl.load(x + index, mask=index < count, other=0.0), axis=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def ticket_kernel(partial, total, ticket, x, count, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    part = tl.program_id(0)
    index = part * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + part, tl.sum(tl.load(x + index, mask=index < count, other=0.0), axis=0))
    arrived = tl.atomic_add(ticket, 1, sem="acq_rel", scope="gpu")
    if arrived == tl.num_programs(0) - 1:
        slot = tl.arange(0, PARTS)
        parts = tl.load(partial + slot, mask=slot < tl.num_programs(0), other=0.0, volatile=True)
        tl.store(total, tl.sum(parts, axis=0))

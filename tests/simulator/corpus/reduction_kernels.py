"""Corpus kernels that reduce, scan, sort, transpose and quantize."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_quantize_kernel(
    x, output, scales, columns, stride, MAXIMUM: tl.constexpr, POWER_OF_TWO: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        value = tl.load(x + row * stride + start + lane, mask=start + lane < columns, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(value))
    scale = MAXIMUM / tl.maximum(tl.max(largest, axis=0), 1e-12)
    if POWER_OF_TWO:
        scale = tl.exp2(tl.floor(tl.log2(scale)))
    for start in range(0, columns, BLOCK):
        inside = start + lane < columns
        value = tl.load(x + row * stride + start + lane, mask=inside, other=0.0).to(tl.float32)
        scaled = tl.clamp(value * scale, -MAXIMUM, MAXIMUM).to(output.dtype.element_ty)
        tl.store(output + row * columns + start + lane, scaled, mask=inside)
    tl.store(scales + row, 1.0 / scale)


@triton.jit
def column_quantize_kernel(
    x, output, scales, rows, columns, stride, MAXIMUM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    largest = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        value = tl.load(x + row[:, None].to(tl.int64) * stride + column[None, :], mask=inside, other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(value.to(tl.float32)), axis=0))
    scale = MAXIMUM / tl.maximum(largest, 1e-12)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        value = tl.load(x + row[:, None].to(tl.int64) * stride + column[None, :], mask=inside, other=0.0)
        scaled = tl.clamp(value.to(tl.float32) * scale[None, :], -MAXIMUM, MAXIMUM)
        pointer = output + column[None, :].to(tl.int64) * rows + row[:, None]
        tl.store(pointer, scaled.to(output.dtype.element_ty), mask=inside)
    tl.store(scales + column, scale, mask=column < columns)


@triton.jit
def group_column_quantize_kernel(
    x, ends, output, scales, rows, columns, MAXIMUM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    group = tl.program_id(1)
    first = tl.load(ends + group - 1, mask=group > 0, other=0)
    last = tl.load(ends + group)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    largest = tl.zeros((COLUMNS,), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < last) & (column[None, :] < columns)
        value = tl.load(x + row[:, None].to(tl.int64) * columns + column[None, :], mask=inside, other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(value.to(tl.float32)), axis=0))
    scale = MAXIMUM / tl.maximum(largest, 1e-12)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < last) & (column[None, :] < columns)
        value = tl.load(x + row[:, None].to(tl.int64) * columns + column[None, :], mask=inside, other=0.0)
        scaled = tl.clamp(value.to(tl.float32) * scale[None, :], -MAXIMUM, MAXIMUM)
        pointer = output + column[:, None].to(tl.int64) * rows + row[None, :]
        turned = tl.trans(scaled.to(output.dtype.element_ty))
        tl.store(pointer, turned, mask=(row[None, :] < last) & (column[:, None] < columns))
    tl.store(scales + group * columns + column, scale, mask=column < columns)


@triton.jit
def group_row_quantize_kernel(
    x, ends, output, scales, rows, total, MAXIMUM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    group = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.load(ends + group - 1, mask=group > 0, other=0)
    last = tl.load(ends + group)
    largest = tl.zeros((ROWS,), tl.float64) + 1e-12
    for start in range(first, last, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = (row[:, None] < rows) & (column[None, :] < last)
        value = tl.load(x + row[:, None] * total + column[None, :], mask=inside, other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(value), axis=1).to(tl.float64))
    scale = (MAXIMUM / largest).to(tl.float32)
    for start in range(first, last, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = (row[:, None] < rows) & (column[None, :] < last)
        value = tl.load(x + row[:, None] * total + column[None, :], mask=inside, other=0.0).to(tl.float32)
        scaled = tl.clamp(value * scale[:, None], -MAXIMUM, MAXIMUM)
        tl.store(output + row[:, None] * total + column[None, :], scaled.to(output.dtype.element_ty), mask=inside)
    tl.store(scales + group * rows + row, scale, mask=row < rows)


@triton.jit
def microscale_quantize_kernel(x, output, scales, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    value = tl.load(x + row[:, None] * columns + column[None, :]).to(tl.float32)
    blocks = tl.reshape(value, (ROWS, COLUMNS // 32, 32))
    largest = tl.max(tl.abs(blocks), axis=2)
    exponent = tl.maximum(((largest.to(tl.int32, bitcast=True) >> 23) & 255) - 8, 1)
    scale = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
    scaled = tl.reshape(blocks * scale[:, :, None], (ROWS, COLUMNS))
    tl.store(output + row[:, None] * columns + column[None, :], scaled.to(output.dtype.element_ty))
    block = tl.program_id(1) * (COLUMNS // 32) + tl.arange(0, COLUMNS // 32)
    tl.store(scales + row[:, None] * (columns // 32) + block[None, :], exponent.to(tl.uint8))


@triton.jit
def transpose_kernel(x, output, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    value = tl.trans(tl.load(x + row[:, None] * columns + column[None, :], mask=inside))
    turned = (row[None, :] < rows) & (column[:, None] < columns)
    tl.store(output + column[:, None] * rows + row[None, :], value, mask=turned)


@triton.jit
def softmax_kernel(x, output, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < columns, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    result = power / tl.sum(power, axis=0)
    tl.store(output + row * stride + column, result.to(output.dtype.element_ty), mask=column < columns)


@triton.jit
def layernorm_kernel(x, weight, bias, output, means, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=0) / columns
    centred = tl.where(inside, value - mean, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    result = centred * inverse * tl.load(weight + column, mask=inside) + tl.load(bias + column, mask=inside)
    tl.store(output + row * columns + column, result.to(output.dtype.element_ty), mask=inside)
    tl.store(means + row, mean)


@triton.jit
def rmsnorm_kernel(x, weight, output, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(value * value, axis=0) / columns + epsilon)
    result = value * inverse * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + row * columns + column, result.to(output.dtype.element_ty), mask=inside)


@triton.jit
def column_sum_kernel(x, output, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.sum(tl.load(x + row[:, None] * columns + column[None, :], mask=inside, other=0.0), axis=0)
    tl.store(output + column, total, mask=column < columns)


@triton.jit
def argument_reduce_kernel(x, largest, smallest, places, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    value = tl.load(x + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    best, place = tl.max(value, axis=1, return_indices=True)
    tl.store(largest + row, best)
    tl.store(places + row, place)
    tl.store(smallest + row, tl.argmin(value, axis=1))


@triton.jit
def integer_reduce_kernel(x, output, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    value = tl.load(x + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    result = tl.sum(value, axis=1) + tl.max(value, axis=1) - tl.min(value, axis=1) + tl.xor_sum(value, axis=1)
    tl.store(output + row, result)


@triton.jit
def scan_kernel(x, sums, products, COLUMNS: tl.constexpr, ROWS: tl.constexpr, REVERSE: tl.constexpr):
    index = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    value = tl.load(x + tl.program_id(0) * ROWS * COLUMNS + index)
    tl.store(sums + index, tl.cumsum(value, axis=1, reverse=REVERSE))
    tl.store(products + index, tl.cumprod(value, axis=0))


@triton.jit
def histogram_kernel(x, counts, count, BINS: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < count, other=0) % BINS
    tl.atomic_add(counts + tl.arange(0, BINS), tl.histogram(value, BINS), sem="relaxed")


@triton.jit
def sort_kernel(x, output, COLUMNS: tl.constexpr, ROWS: tl.constexpr, DESCENDING: tl.constexpr):
    index = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(output + index, tl.sort(tl.load(x + index), dim=1, descending=DESCENDING))


@triton.jit
def top_k_kernel(x, output, COLUMNS: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    value = tl.load(x + row * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(output + row * K + tl.arange(0, K)[None, :], tl.topk(value, K, dim=1))


@triton.jit
def rotary_kernel(x, cosine, sine, output, heads, HALF: tl.constexpr):
    token = tl.program_id(0)
    lane = tl.arange(0, HALF)
    c = tl.load(cosine + token * HALF + lane)
    s = tl.load(sine + token * HALF + lane)
    for head in range(heads):
        base = (token * heads + head) * 2 * HALF
        pair = tl.load(x + base + tl.arange(0, 2 * HALF)).to(tl.float32)
        even, odd = tl.split(tl.reshape(pair, (HALF, 2)))
        turned = tl.interleave(even * c - odd * s, even * s + odd * c)
        tl.store(output + base + tl.arange(0, 2 * HALF), turned.to(output.dtype.element_ty))

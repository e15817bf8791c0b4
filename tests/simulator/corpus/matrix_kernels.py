"""Corpus kernels built round ``tl.dot``: GEMMs, grouped and scaled GEMMs, attention."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gemm_kernel(
    a, b, c, M, N, K, stride_a, stride_b,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, B_ALONG_K: tl.constexpr, PRECISION: tl.constexpr = "ieee",
    ACCUMULATOR: tl.constexpr = tl.float32,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), ACCUMULATOR)
    a_pointer = a + row[:, None] * stride_a + depth[None, :]
    if B_ALONG_K:
        b_pointer = b + column[None, :] * stride_b + depth[:, None]
        step = BK
    else:
        b_pointer = b + column[None, :] + depth[:, None] * stride_b
        step = BK * stride_b
    for k in range(0, K, BK):
        left = tl.load(a_pointer, mask=depth[None, :] < K - k, other=0.0)
        right = tl.load(b_pointer, mask=depth[:, None] < K - k, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION, out_dtype=ACCUMULATOR)
        a_pointer += BK
        b_pointer += step
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def split_k_gemm_kernel(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.program_id(2) * BK + tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK * PARTS)):
        place = k * BK * PARTS + depth
        left = tl.load(a + row[:, None] * K + place[None, :], mask=place[None, :] < K, other=0.0)
        right = tl.load(b + column[None, :] * K + place[:, None], mask=place[:, None] < K, other=0.0)
        total = tl.dot(left, right, total)
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.atomic_add(c + row[:, None] * N + column[None, :], total, mask=inside, sem="relaxed")


@triton.jit
def persistent_gemm_kernel(
    a, b, c, scale_a, scale_b, M, N, K,
    PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS):
        row = ((tile // across) * BM + tl.arange(0, BM)) % M
        column = ((tile % across) * BN + tl.arange(0, BN)) % N
        depth = tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            left = tl.load(a + row[:, None] * K + (k * BK + depth)[None, :])
            right = tl.load(b + column[None, :] * K + (k * BK + depth)[:, None])
            total = tl.dot(left, right, total)
        total *= tl.load(scale_a + row)[:, None] * tl.load(scale_b + column)[None, :]
        tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def grouped_gemm_kernel(
    a, b, c, ends, scale_a, scale_b, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tile = tl.program_id(0)
    across = tl.cdiv(N, BN)
    base = 0
    first = 0
    for group in range(groups):
        last = tl.load(ends + group)
        rows = last - first
        tiles = tl.cdiv(rows, BM) * across
        while (tile >= base) and (tile < base + tiles):
            row = ((tile - base) // across) * BM + tl.arange(0, BM)
            column = ((tile - base) % across) * BN + tl.arange(0, BN)
            depth = tl.arange(0, BK)
            total = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                left = tl.load(
                    a + (first + row)[:, None] * K + (k + depth)[None, :], mask=row[:, None] < rows, other=0.0
                )
                right = tl.load(b + group * N * K + column[None, :] * K + (k + depth)[:, None])
                total = tl.dot(left, right, total)
            total *= tl.load(scale_a + first + row, mask=row < rows)[:, None]
            total *= tl.load(scale_b + group * N + column)[None, :]
            pointer = c + (first + row)[:, None] * N + column[None, :]
            tl.store(pointer, total.to(c.dtype.element_ty), mask=row[:, None] < rows)
            tile += tl.num_programs(0)
        base += tiles
        first = last


@triton.jit
def scaled_gemm_kernel(
    a, b, c, scale_a, scale_b, N, K,
    FORMAT_A: tl.constexpr, FORMAT_B: tl.constexpr, PACK_A: tl.constexpr, PACK_B: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth_a = tl.arange(0, BK // PACK_A)
    depth_b = tl.arange(0, BK // PACK_B)
    block = tl.arange(0, BK // 32)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K // BK):
        left = tl.load(a + row[:, None] * (K // PACK_A) + (k * (BK // PACK_A) + depth_a)[None, :])
        right = tl.load(b + column[None, :] * (K // PACK_B) + (k * (BK // PACK_B) + depth_b)[:, None])
        left_scale = tl.load(scale_a + row[:, None] * (K // 32) + (k * (BK // 32) + block)[None, :])
        right_scale = tl.load(scale_b + column[:, None] * (K // 32) + (k * (BK // 32) + block)[None, :])
        total = tl.dot_scaled(left, left_scale, FORMAT_A, right, right_scale, FORMAT_B, total)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def integer_gemm_kernel(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.int32)
    for k in range(0, K, BK):
        depth = k + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * K + depth[None, :])
        right = tl.load(b + column[None, :] * K + depth[:, None])
        total = tl.dot(left, right, total, out_dtype=tl.int32)
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def weight_only_gemm_kernel(a, b, scale_b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        depth = k + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * K + depth[None, :])
        packed = tl.load(b + column[None, :] * (K // 2) + (depth // 2)[:, None])
        nibble = (packed >> ((depth % 2) * 4).to(tl.uint8)[:, None]) & 15
        total = tl.dot(left, (nibble.to(tl.float32) - 8.0).to(left.dtype), total)
    total *= tl.load(scale_b + column)[None, :]
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def batched_gemm_kernel(a, b, c, BATCH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch = tl.arange(0, BATCH)[:, None, None]
    row, column, depth = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    left = tl.load(a + batch * BM * BK + row[None, :, None] * BK + depth[None, None, :])
    right = tl.load(b + batch * BK * BN + depth[None, :, None] * BN + column[None, None, :])
    result = tl.dot(left, right).to(c.dtype.element_ty)
    tl.store(c + batch * BM * BN + row[None, :, None] * BN + column[None, None, :], result)


@triton.jit
def descriptor_gemm_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left_block = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    right_block = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    result_block = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = left_block.load([tl.program_id(0) * BM, k])
        right = right_block.load([tl.program_id(1) * BN, k])
        total = tl.dot(left, right.T, total)
    result_block.store([tl.program_id(0) * BM, tl.program_id(1) * BN], total.to(c.dtype.element_ty))


@triton.jit
def attention_kernel(
    query, key, value, output, scale, length,
    CAUSAL: tl.constexpr, DEPTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1) * length * DEPTH
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    depth = tl.arange(0, DEPTH)
    q = tl.load(query + base + row[:, None] * DEPTH + depth[None, :])
    total = tl.zeros((BM, DEPTH), tl.float32)
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    end = length
    if CAUSAL:
        end = (tl.program_id(0) + 1) * BM
    for start in range(0, end, BN):
        other = start + tl.arange(0, BN)
        k = tl.load(key + base + other[None, :] * DEPTH + depth[:, None])
        score = tl.dot(q, k) * scale
        if CAUSAL:
            score = tl.where(row[:, None] >= other[None, :], score, -float("inf"))
        higher = tl.maximum(largest, tl.max(score, axis=1))
        power = tl.exp2(score - higher[:, None])
        decay = tl.exp2(largest - higher)
        v = tl.load(value + base + other[:, None] * DEPTH + depth[None, :])
        weight = weight * decay + tl.sum(power, axis=1)
        total = tl.dot(power.to(v.dtype), v, total * decay[:, None])
        largest = higher
    result = total / weight[:, None]
    tl.store(output + base + row[:, None] * DEPTH + depth[None, :], result.to(output.dtype.element_ty))


@triton.jit
def row_sum_helper(x, y):
    return tl.sum(x * y, axis=0)


@triton.jit
def dot_product_kernel(x, y, output, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(output + tl.program_id(0), row_sum_helper(tl.load(x + index), tl.load(y + index)))

# mypy: ignore-errors
# ruff: noqa: SIM102 - a branch on a constexpr is chosen when compiling, which a joined condition is not.
"""Device functions of one output tile, shared by the grouped and the dense GEMM: order, accumulation, epilogue.

Both operands have the summed index k contiguous. Their sizes and strides come as a multiple of a constexpr UNIT, the
largest power of two up to 16 that divides them all: the compiler then knows how wide it may load, and a new size with
the same UNIT does not compile anew.

Rows and columns beyond the last are read as copies of the last one and never stored, so that only the summed index
needs a mask, and that only in the last block and in what a group begins and ends with inside a unit. There both
operands are masked: 0 times a NaN of a neighbour would be NaN.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import issued_here_scalar


@triton.jit
def first_tile(XCDS: tl.constexpr):
    """The first tile of this program; others, if any, follow in steps of the number of programs, a multiple of XCDS.

    Workgroup p runs on XCD p % XCDS: numbered like this, the tiles of one step that share an XCD, and so an L2, are
    neighbours.
    """
    program = tl.program_id(0)
    return program % XCDS * (tl.num_programs(0) // XCDS) + program // XCDS


@triton.jit
def tile_position(index, tiles_m, tiles_n, BAND: tl.constexpr):
    """(row, column) of a tile: column by column within bands of BAND rows, so that neighbours share both operands."""
    band = index // (BAND * tiles_n)
    inside = index - band * (BAND * tiles_n)
    rows = tl.minimum(tiles_m - band * BAND, BAND)
    return band * BAND + inside % rows, inside // rows


@triton.jit
def index_here(size: tl.constexpr, any_scalar, STEP: tl.constexpr, ON_GFX: tl.constexpr):
    """0 <= i < size, made where it stands; ``any_scalar`` is an int32 that is the same in all lanes.

    The compiler would make the indices of all of a lane's registers before the first tile and keep them beside the sum,
    for which a tile of 256 x 256 has no room. A zero that it knows nothing of keeps it from that. STEP is how far a
    lane's registers are apart: what is below, the lane's own part, takes one register.
    """
    index = tl.arange(0, size)
    return index // STEP * STEP + (index % STEP + issued_here_scalar(any_scalar * 0, ON_GFX))


@triton.jit
def _add_slivers(acc, a_ptr, b_ptr, a_rows, b_columns, start, end, first, last, UNIT: tl.constexpr,
                 BLOCK_K: tl.constexpr, IMPRECISE: tl.constexpr):  # fmt: skip
    """What is before the first and behind the last whole unit of a group, element by element, as one block."""
    index = tl.arange(0, BLOCK_K)
    ks = tl.where(index < UNIT, first - UNIT + index, tl.maximum(first, last) - UNIT + index)
    counts = (index < 2 * UNIT) & (ks >= start) & (ks < end)
    a = tl.load(a_ptr + (a_rows[:, None] + ks[None, :]), mask=counts[None, :], other=0.0)
    b = tl.load(b_ptr + (ks[:, None] + b_columns[None, :]), mask=counts[:, None], other=0.0)
    return tl.dot(a, b, acc, max_num_imprecise_acc=IMPRECISE)


@triton.jit
def _add_cut(acc, a_ptr, b_ptr, a_rows, b_columns, at, end, first, last, BLOCK_K: tl.constexpr,
             IMPRECISE: tl.constexpr):  # fmt: skip
    """at <= k < end in blocks, of which first <= k < last counts; all are multiples of a unit: loads are wide."""
    index = tl.arange(0, BLOCK_K)
    a_offsets = a_rows[:, None] + index[None, :]
    b_offsets = index[:, None] + b_columns[None, :]
    for block in tl.range(at, end, BLOCK_K, num_stages=1):
        counts = (block + index >= first) & (block + index < last)
        a = tl.load(a_ptr + block + a_offsets, mask=counts[None, :], other=0.0)
        b = tl.load(b_ptr + block + b_offsets, mask=counts[:, None], other=0.0)
        acc = tl.dot(a, b, acc, max_num_imprecise_acc=IMPRECISE)
    return acc


@triton.jit
def sum_of_products(
    a_ptr, b_ptr, a_rows, b_columns, start, end, UNIT: tl.constexpr, RAGGED: tl.constexpr, CUT: tl.constexpr,
    BLOCK_K: tl.constexpr, IMPRECISE: tl.constexpr,
):  # fmt: skip
    """fp32 sum over start <= k < end of a[row, k] * b[k, column], for a tile of rows and columns.

    Args:
        a_ptr, b_ptr: k = 0 of the tile's first row and column.
        a_rows, b_columns: element offset of each row and column, multiples of UNIT.
        start, end: multiples of UNIT unless RAGGED.
        CUT: whether end - start may be no multiple of BLOCK_K.
        IMPRECISE: products that the matrix unit may sum with less than fp32 (Hopper's FP8); None elsewhere.
    """
    ks = tl.arange(0, BLOCK_K)
    a_offsets = a_rows[:, None] + ks[None, :]
    b_offsets = ks[:, None] + b_columns[None, :]
    acc = tl.zeros((a_rows.shape[0], b_columns.shape[0]), tl.float32)
    # What is not a whole block comes in halves, whose masks and operands find room beside the sum.
    HALF: tl.constexpr = BLOCK_K // 2
    PART: tl.constexpr = IMPRECISE if IMPRECISE is None else HALF
    # Whole units, so that loads are wide, in blocks that begin at multiples of their length: from elsewhere on, every
    # row of every block would be in two cache lines.
    first = tl.cdiv(start, UNIT) * UNIT
    last = end // UNIT * UNIT
    at = first
    if RAGGED:
        at = first // BLOCK_K * BLOCK_K
        if at < first:
            at += BLOCK_K
            acc = _add_cut(acc, a_ptr, b_ptr, a_rows, b_columns, first // HALF * HALF, tl.minimum(at, last), first,
                           last, HALF, PART)  # fmt: skip
    whole = at + tl.maximum(last - at, 0) // BLOCK_K * BLOCK_K
    for block in range(at, whole, BLOCK_K):
        a = tl.load(a_ptr + block + a_offsets)
        b = tl.load(b_ptr + block + b_offsets)
        acc = tl.dot(a, b, acc, max_num_imprecise_acc=IMPRECISE)
    if CUT:
        if whole < last:
            acc = _add_cut(acc, a_ptr, b_ptr, a_rows, b_columns, whole, last, first, last, HALF, PART)
    if RAGGED and UNIT > 1:
        if (start < first) | (last < end):
            # Half a block has room for two units, and for two matrix instructions.
            acc = _add_slivers(acc, a_ptr, b_ptr, a_rows, b_columns, start, end, first, last, UNIT, HALF, PART)
    return acc


@triton.jit
def row_scales(inverse_ptr, rows: tl.constexpr, rows_left):
    """Inverse scales of a tile's rows, to multiply its sum with; loaded with a mask, so that loads stay wide."""
    row = tl.arange(0, rows)
    return tl.load(inverse_ptr + row, mask=row < rows_left, other=0.0)[:, None]


@triton.jit
def column_scales(inverse_ptr, columns: tl.constexpr, columns_left):
    """`row_scales` for columns."""
    column = tl.arange(0, columns)
    return tl.load(inverse_ptr + column, mask=column < columns_left, other=0.0)[None, :]


@triton.jit
def store_tile(out_ptr, acc, row_stride, UNIT: tl.constexpr, rows_left, columns_left, ON_GFX: tl.constexpr):
    """Store the part of a tile that exists, in the element type of out_ptr, its top left corner.

    In the layout of AMD's matrix unit a lane has 4 neighbours of a row and its wave few lanes along one: 8-byte stores
    that fill no line. The third axis keeps the compiler from storing like this; it exchanges the values through LDS, in
    pieces that fit the operands' room there, and stores 16 bytes a lane, whole lines. NVIDIA's does so by itself. Of
    fp32, 4 neighbours are 16 bytes as they are, and a whole tile would have no room in LDS.

    Offsets are made here: kept from tile to tile, as the compiler would, they would take registers beside the sum.
    """
    values = acc.to(out_ptr.dtype.element_ty)
    rows = index_here(acc.shape[0], row_stride, 16, ON_GFX)[:, None]
    row_stride = issued_here_scalar(row_stride, ON_GFX) * UNIT
    if ON_GFX and values.dtype.primitive_bitwidth < 32:
        VECTOR: tl.constexpr = 8
        vectors: tl.constexpr = acc.shape[1] // VECTOR
        values = tl.reshape(values, (acc.shape[0], vectors, VECTOR))
        rows = rows[:, :, None]
        columns = (tl.arange(0, vectors) * VECTOR)[None, :, None] + tl.arange(0, VECTOR)[None, None, :]
    else:
        columns = tl.arange(0, acc.shape[1])[None, :]
    tl.store(out_ptr + rows * row_stride + columns, values, mask=(rows < rows_left) & (columns < columns_left))

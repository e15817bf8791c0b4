/* What the overlapped products share on compiler builtins, for gfx942 and gfx950: tiles of 256 rows and 256 columns,
   signals and counters.

   A workgroup of eight waves, two a SIMD, makes a tile, each wave 128 rows and 64 columns of it in 128 registers of a
   lane. Rows of both operands come in steps of STEP bytes through registers into one half of the LDS, while the other
   half is multiplied. In LDS, the 16-byte pieces of a row stand in an order that depends on the row, so that no bank is
   asked twice in a phase. What is past the end of the rows, the columns or the sum is read as zeros: the buffer
   resources end there.

   The sum runs over pieces of 16 bytes in an order of its own, the same for both operands.

   No header is needed. */

#pragma once

#define DEVICE static __attribute__((device, always_inline)) inline
#define SYSTEM __MEMORY_SCOPE_SYSTEM
#define AGENT __MEMORY_SCOPE_DEVICE

typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef short i16x4 __attribute__((ext_vector_type(4)));
typedef int i32x8 __attribute__((ext_vector_type(8)));
typedef __bf16 bf16x4 __attribute__((ext_vector_type(4)));
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));

/* Types of operands; four values of the bias that belongs to each. */
struct BFloat16 { static constexpr int bytes = 2; typedef bf16x4 Bias; };
struct Float16 { static constexpr int bytes = 2; typedef f16x4 Bias; };
struct Fp8 { static constexpr int bytes = 1; typedef bf16x4 Bias; };

#if defined(__gfx950__)
constexpr int STEP = 128;
constexpr int BANK_LINE = 256;
#else
constexpr int STEP = 64;
constexpr int BANK_LINE = 128;
#endif
constexpr int TILE = 256;
constexpr int THREADS = 512;
constexpr int WAVE = 64;
constexpr int SIDE = 32; /* of a matrix instruction */
constexpr int WAVE_ROWS = 128, WAVE_COLUMNS = 64;
constexpr int ROW_BLOCKS = WAVE_ROWS / SIDE, COLUMN_BLOCKS = WAVE_COLUMNS / SIDE;
constexpr int PIECE = 16; /* bytes that a lane loads at once */
constexpr int PIECES = STEP / PIECE;
constexpr int LOADS = TILE * PIECES / THREADS; /* of a thread, for one operand and step */
constexpr int OPERAND_BYTES = TILE * STEP;
constexpr int HALF_BYTES = 2 * OPERAND_BYTES;
constexpr int LINES = THREADS / PIECES; /* that the workgroup loads at once */
constexpr int LINE_BYTES = WAVE_COLUMNS * 4; /* of a row of a wave's results */
constexpr int PANEL_BYTES = SIDE * LINE_BYTES; /* results of a wave that pass through LDS at once */
constexpr u32 OUTSIDE = 0x80000000u; /* an offset beyond every buffer */
constexpr int RESOURCE_WORD = 0x27000; /* raw buffer, 32-bit elements */

/* Words of the state, as in device_signals.py. */
constexpr int CALL = 0, DONE = 1, FETCHED = 2, TURNS = 2 + 63;

/* Byte of a piece of a row. Rows that are SIDE or a multiple of LINES apart have the same order. */
DEVICE int place_of(int row, int piece) {
  return row * STEP + (piece ^ row / (BANK_LINE / STEP) % PIECES) * PIECE;
}
static_assert(SIDE / (BANK_LINE / STEP) % PIECES == 0 && LINES / (BANK_LINE / STEP) % PIECES == 0);

/* What all lanes have, in scalar registers. */
DEVICE int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }

DEVICE u64 uniform_address(u64 x) {
  const u32 low = uniform((int)x), high = uniform((int)(x >> 32));
  return (u64)high << 32 | low;
}

DEVICE __amdgpu_buffer_rsrc_t buffer(const void *base, u32 bytes) {
  return __builtin_amdgcn_make_buffer_rsrc((void *)base, 0, bytes, RESOURCE_WORD);
}

DEVICE void workgroup_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* Waits until the stores of all waves are through, so that one can release them: a release by one wave is of what has
   come to the caches, and a barrier waits for LDS alone. */
DEVICE void finish_stores() {
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  workgroup_barrier();
}

/* Waits until a signal has reached ``expected``, modulo 2^32; what was written before it is then seen by the whole
   workgroup. One thread polls, and its wave acquires at system scope once: the cache that it drops is that of the
   compute unit, which the other waves share, and the barrier keeps their loads behind it. Returns the value seen
   last, below ``expected`` where the wait was given up. */
DEVICE u32 wait_for_signal(const u32 *signal, u32 expected, int polls, u32 *seen_in_lds) {
  if (__builtin_amdgcn_workitem_id_x() < WAVE) {
    u32 seen = expected - 1;
    for (int left = polls; (int)(seen - expected) < 0 && left > 0; --left) {
      seen = uniform(__scoped_atomic_load_n(signal, __ATOMIC_RELAXED, SYSTEM));
      if ((int)(seen - expected) < 0) __builtin_amdgcn_s_sleep(4);
    }
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
    *seen_in_lds = seen;
  }
  workgroup_barrier();
  const u32 seen = uniform(*seen_in_lds);
  workgroup_barrier(); /* the word is part of the operands' memory */
  return seen;
}

/* Keeps the first signal that did not come: (1, its index, the expected value, the seen one). */
DEVICE void report_failure(u32 *failure, u32 index, u32 expected, u32 seen) {
  if (__builtin_amdgcn_workitem_id_x() != 0) return;
  u32 none = 0;
  if (__scoped_atomic_compare_exchange_n(failure, &none, 1u, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SYSTEM)) {
    failure[1] = index;
    failure[2] = expected;
    failure[3] = seen;
  }
}

/* The last workgroup that comes here begins the turns of ``dies`` anew, and raises the number of the call if this is
   its last launch; all have read it by then. */
DEVICE void finish_call(u32 *state, u32 call, u32 workgroups, int dies, int last) {
  finish_stores();
  if (__builtin_amdgcn_workitem_id_x() != 0) return;
  if (__scoped_atomic_fetch_add(state + DONE, 1u, __ATOMIC_ACQ_REL, AGENT) == workgroups - 1) {
    state[DONE] = 0;
    for (int die = 0; die < dies; ++die) state[TURNS + die] = 0;
    if (last) state[CALL] = call + 1;
  }
}

/* Counts a part of a chunk as written; the one that counts the last sets the signal. */
DEVICE void count_and_signal(u32 *count, u32 parts, u32 *signal, u32 call) {
  finish_stores();
  if (__builtin_amdgcn_workitem_id_x() != 0) return;
  if (__scoped_atomic_fetch_add(count, 1u, __ATOMIC_RELEASE, SYSTEM) == parts - 1) {
    __scoped_atomic_exchange_n(count, 0u, __ATOMIC_ACQUIRE, SYSTEM);
    __scoped_atomic_store_n(signal, call, __ATOMIC_RELEASE, SYSTEM);
  }
}

/* Products of 32 summed bytes of 32 columns and 32 rows each: piece ``half`` of two is in the lanes 32 * half on. The
   columns are the first operand, so that a lane has four consecutive columns of one row of the result. */
DEVICE void multiply(f32x16 &sum, u32x4 columns, u32x4 rows, BFloat16) {
#if defined(__gfx950__)
  sum = __builtin_amdgcn_mfma_f32_32x32x16_bf16(__builtin_bit_cast(bf16x8, columns), __builtin_bit_cast(bf16x8, rows),
                                                sum, 0, 0, 0);
#else
  const u32x2 c0 = columns.xy, c1 = columns.zw, r0 = rows.xy, r1 = rows.zw;
  sum = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_bit_cast(i16x4, c0), __builtin_bit_cast(i16x4, r0), sum, 0,
                                                 0, 0);
  sum = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_bit_cast(i16x4, c1), __builtin_bit_cast(i16x4, r1), sum, 0,
                                                 0, 0);
#endif
}

DEVICE void multiply(f32x16 &sum, u32x4 columns, u32x4 rows, Float16) {
#if defined(__gfx950__)
  sum = __builtin_amdgcn_mfma_f32_32x32x16_f16(__builtin_bit_cast(f16x8, columns), __builtin_bit_cast(f16x8, rows), sum,
                                               0, 0, 0);
#else
  const u32x2 c0 = columns.xy, c1 = columns.zw, r0 = rows.xy, r1 = rows.zw;
  sum = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(f16x4, c0), __builtin_bit_cast(f16x4, r0), sum, 0, 0, 0);
  sum = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(f16x4, c1), __builtin_bit_cast(f16x4, r1), sum, 0, 0, 0);
#endif
}

DEVICE void multiply(f32x16 &sum, u32x4 columns, u32x4 rows, Fp8) {
  const u32x2 c0 = columns.xy, c1 = columns.zw, r0 = rows.xy, r1 = rows.zw;
  sum = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(__builtin_bit_cast(long, c0), __builtin_bit_cast(long, r0), sum, 0,
                                                   0, 0);
  sum = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(__builtin_bit_cast(long, c1), __builtin_bit_cast(long, r1), sum, 0,
                                                   0, 0);
}

#if defined(__gfx950__)
/* The same of 64 summed bytes: one instruction, at twice the rate of those of 16. */
DEVICE void multiply_wide(f32x16 &sum, u32x4 c0, u32x4 c1, u32x4 r0, u32x4 r1) {
  const i32x8 columns = {(int)c0.x, (int)c0.y, (int)c0.z, (int)c0.w, (int)c1.x, (int)c1.y, (int)c1.z, (int)c1.w};
  const i32x8 rows = {(int)r0.x, (int)r0.y, (int)r0.z, (int)r0.w, (int)r1.x, (int)r1.y, (int)r1.z, (int)r1.w};
  sum = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(columns, rows, sum, 0, 0, 0, 0, 0, 0);
}
#endif

/* All products of one step: ``operands`` has the rows of the tile, then its columns; ``row`` and ``column`` are the
   lane's first. */
template <class Type>
DEVICE void multiply_step(f32x16 (&sums)[ROW_BLOCKS][COLUMN_BLOCKS], const char *operands, int row, int column,
                          int half) {
#if defined(__gfx950__)
  constexpr int PARTS = Type::bytes == 1 ? 2 : 1;
#else
  constexpr int PARTS = 1;
#endif
#pragma unroll
  for (int piece = 0; piece < PIECES; piece += 2 * PARTS) {
    u32x4 rows[ROW_BLOCKS][PARTS], columns[COLUMN_BLOCKS][PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const char *first_row = operands + place_of(row, piece + 2 * part + half);
      const char *first_column = operands + OPERAND_BYTES + place_of(column, piece + 2 * part + half);
#pragma unroll
      for (int i = 0; i < ROW_BLOCKS; ++i) rows[i][part] = *(const u32x4 *)(first_row + i * SIDE * STEP);
#pragma unroll
      for (int j = 0; j < COLUMN_BLOCKS; ++j) columns[j][part] = *(const u32x4 *)(first_column + j * SIDE * STEP);
    }
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
      for (int j = 0; j < COLUMN_BLOCKS; ++j) {
#if defined(__gfx950__)
        if constexpr (PARTS == 2) {
          multiply_wide(sums[i][j], columns[j][0], columns[j][1], rows[i][0], rows[i][1]);
          continue;
        }
#endif
        multiply(sums[i][j], columns[j][0], rows[i][0], Type());
      }
  }
}

/* Products of a tile: ``a`` and ``b`` begin at its first row and column, whose bytes end after ``a_size`` and
   ``b_size``; ``row`` and ``column`` are the first of the wave. */
template <class Type>
DEVICE void sum_of_products(f32x16 (&sums)[ROW_BLOCKS][COLUMN_BLOCKS], char *lds, const char *a, u32 a_size,
                            const char *b, u32 b_size, int k_bytes, int b_bytes, int row, int column) {
  const int thread = __builtin_amdgcn_workitem_id_x();
  const int lane = thread % WAVE, piece = thread % PIECES, line = thread / PIECES;
  const int steps = (k_bytes + STEP - 1) / STEP;
#pragma unroll
  for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < COLUMN_BLOCKS; ++j) sums[i][j] = 0.0f;

  u32x4 a_next[LOADS], b_next[LOADS];
  auto load = [&](int step) {
    const int start = step * STEP;
    const u32 inside_sum = start + piece * PIECE < k_bytes ? 0 : OUTSIDE;
    const __amdgpu_buffer_rsrc_t a_rows = buffer(a + start, a_size - start);
    const __amdgpu_buffer_rsrc_t b_rows = buffer(b + start, b_size - start);
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const u32 r = line + i * LINES;
      const u32 a_offset = (r * (u32)k_bytes + piece * PIECE) | inside_sum;
      const u32 b_offset = (r * (u32)b_bytes + piece * PIECE) | inside_sum;
      a_next[i] = __builtin_amdgcn_raw_buffer_load_b128(a_rows, a_offset, 0, 0);
      b_next[i] = __builtin_amdgcn_raw_buffer_load_b128(b_rows, b_offset, 0, 0);
    }
  };
  auto keep = [&](char *operands) {
    const int place = place_of(line, piece);
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      *(u32x4 *)(operands + place + i * LINES * STEP) = a_next[i];
      *(u32x4 *)(operands + OPERAND_BYTES + place + i * LINES * STEP) = b_next[i];
    }
  };
  load(0);
  keep(lds);
  workgroup_barrier();
  int now = 0;
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) load(step + 1);
    multiply_step<Type>(sums, lds + now, row + lane % SIDE, column + lane % SIDE, lane / SIDE);
    now ^= HALF_BYTES;
    if (step + 1 < steps) keep(lds + now);
    workgroup_barrier();
  }
}

/* A wave's part of a tile, 32 rows at a time through its own part of the LDS, so that lanes beside one another have
   what lies beside one another: ``each(row, four)`` gets four columns, from ``lane % 16 * 4`` on, of a row of the part.
   */
template <class Each>
DEVICE void lines_of(const f32x16 (&sums)[ROW_BLOCKS][COLUMN_BLOCKS], char *panel, int lane, Each each) {
#pragma unroll
  for (int i = 0; i < ROW_BLOCKS; ++i) {
    const int half = lane / SIDE;
#pragma unroll
    for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const f32x16 &sum = sums[i][j];
        const f32x4 four = {sum[4 * q], sum[4 * q + 1], sum[4 * q + 2], sum[4 * q + 3]};
        const int piece = j * 8 + q * 2 + half;
        *(f32x4 *)(panel + lane % SIDE * LINE_BYTES + (piece ^ lane % 8) * PIECE) = four;
      }
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
#pragma unroll
    for (int t = 0; t < SIDE / 4; ++t) {
      const int line = t * 4 + lane / 16;
      each(i * SIDE + line, *(const f32x4 *)(panel + line * LINE_BYTES + (lane % 16 ^ line % 8) * PIECE));
    }
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
  }
}

/* Four results as they are kept. */
DEVICE void store_four(__amdgpu_buffer_rsrc_t out, f32x4 x, u32 offset, float) {
  __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, x), out, offset, 0, 0);
}

DEVICE void store_four(__amdgpu_buffer_rsrc_t out, f32x4 x, u32 offset, __bf16) {
  __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(u32x2, __builtin_convertvector(x, bf16x4)), out, offset, 0,
                                        0);
}

DEVICE void store_four(__amdgpu_buffer_rsrc_t out, f32x4 x, u32 offset, _Float16) {
  __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(u32x2, __builtin_convertvector(x, f16x4)), out, offset, 0,
                                        0);
}

/* In any device's memory: an address that comes out of memory would else be of any kind. */
#define IN_MEMORY __attribute__((address_space(1)))

/* The arguments as they lie in memory, to be read where this stands: what is not needed in the loop over the sum shall
   not be kept in scalar registers across it. */
#define IN_ARGUMENTS __attribute__((address_space(4)))

template <class Arguments>
DEVICE const Arguments IN_ARGUMENTS *arguments_here() {
  auto place = (const Arguments IN_ARGUMENTS *)__builtin_amdgcn_kernarg_segment_ptr();
  asm volatile("" : "+s"(place));
  return place;
}

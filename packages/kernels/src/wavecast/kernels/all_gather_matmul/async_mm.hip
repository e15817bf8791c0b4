/* Device code of all-gather+matmul on compiler builtins: another path of the operator of kernel.py, for gfx942 and
   gfx950, with that kernel's arguments, signals, counters and order of tiles.

   A workgroup of eight waves, two a SIMD, makes a tile of 256 rows and 256 columns, each wave 128 rows and 64 columns
   of it in 128 registers of a lane. Rows of both operands come in steps of STEP bytes through registers into one half
   of the LDS, while the other half is multiplied. In LDS, the 16-byte pieces of a row stand in an order that depends on
   the row, so that no bank is asked twice in a phase. What is past the end of the rows, the columns or the sum is read
   as zeros: the buffer resources end there.

   The sum runs over pieces of 16 bytes in an order of its own, the same for both operands.

   No header is needed. */

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

DEVICE int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }

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

/* The number of a turn that no other workgroup of a die has taken. */
DEVICE int take_turn(u32 *state, int die, u32 *turn_in_lds) {
  if (__builtin_amdgcn_workitem_id_x() == 0)
    *turn_in_lds = __scoped_atomic_fetch_add(state + TURNS + die, 1u, __ATOMIC_RELAXED, AGENT);
  workgroup_barrier();
  const int turn = uniform(*turn_in_lds);
  workgroup_barrier(); /* the word is part of the operands' memory */
  return turn;
}

/* Number of the tile that is a die's ``turn``-th. In a round each die has ``turns`` of them that are behind one another,
   so that its workgroups share operands; what is left for the last round is shared out among the dies. */
DEVICE int tile_of_turn(int turn, int turns, int die, int dies, int tiles) {
  const int first = turn / turns * (turns * dies), inside = turn % turns;
  return first + (first + turns * dies <= tiles ? die * turns + inside : inside * dies + die);
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

/* The kernel's arguments as they lie in memory, in the order of its parameters. */
struct Arguments {
  const char *gathered, *shard, *b;
  void *out;
  const float *a_inverse, *b_inverse;
  const char *bias;
  const u32 *signals;
  u32 *state, *failure;
  const u64 *windows;
  int m, shard_rows, signal_rows, n, k_bytes, b_bytes, rank, ranks, polls, a_rows, b_columns, last, xcds, band,
      fetchers, peers, fetch_scales, scales_at;
};
typedef const Arguments __attribute__((address_space(4))) *ArgumentsPlace;

/* The arguments, to be read where this stands: what is not needed in the loop over the sum shall not be kept in
   scalar registers across it. */
DEVICE ArgumentsPlace arguments_here() {
  ArgumentsPlace place = (ArgumentsPlace)__builtin_amdgcn_kernarg_segment_ptr();
  asm volatile("" : "+s"(place));
  return place;
}

/* A wave's part of the tile, 32 rows at a time through its own part of the LDS, so that lanes beside one another store
   what lies beside one another. ``row`` and ``column`` are its first within the tile. */
template <class Type, class Out>
DEVICE void store_part(const f32x16 (&sums)[ROW_BLOCKS][COLUMN_BLOCKS], char *panel, int first_row, int first_column,
                       int row, int column, int lane) {
  asm("" : "+v"(lane)); /* else what follows from it is computed before the first tile, and kept in registers */
  const ArgumentsPlace with = arguments_here();
  const int m = with->m, n = with->n, a_rows = with->a_rows;
  const float *a_inverse = with->a_inverse, *b_inverse = with->b_inverse;
  const char *b_bias = with->bias;
  const int rows_left = m - first_row < TILE ? m - first_row : TILE;
  const __amdgpu_buffer_rsrc_t out =
      buffer((Out *)with->out + (u64)(u32)first_row * (u32)n, (u32)rows_left * (u32)n * (u32)sizeof(Out));
  const int half = lane / SIDE;
  const int tile_column = first_column + column + lane % 16 * 4;
  const bool inside = tile_column < n;
  f32x4 factor = 1.0f, bias = 0.0f;
  if (inside && b_inverse) {
    if (with->b_columns) factor = *(const f32x4 *)(b_inverse + tile_column);
    else factor = *b_inverse;
  }
  typedef typename Type::Bias Four;
  if (inside && b_bias)
    bias = __builtin_convertvector(*(const Four *)(b_bias + tile_column * (int)sizeof(Four) / 4), f32x4);
#pragma unroll
  for (int i = 0; i < ROW_BLOCKS; ++i) {
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
      const int own_row = row + i * SIDE + line;
      f32x4 x = *(const f32x4 *)(panel + line * LINE_BYTES + (lane % 16 ^ line % 8) * PIECE);
      if (a_inverse) {
        const int tile_row = first_row + own_row;
        x *= a_inverse[a_rows && tile_row < m ? tile_row : 0];
        x *= factor;
      }
      x += bias;
      const u32 offset = ((u32)own_row * (u32)n + (u32)tile_column) * (u32)sizeof(Out);
      store_four(out, x, inside ? offset : OUTSIDE, Out());
    }
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
  }
}

/* In another device's memory. An address that comes out of memory would else be of any kind. */
#define IN_MEMORY __attribute__((address_space(1)))
typedef const char IN_MEMORY *Window;

/* Copies every ``parts``-th block of some bytes, a multiple of PIECE, from the ``part``-th on. */
DEVICE void copy_part(char *target, Window source, u64 bytes, int part, int parts) {
  constexpr int AHEAD = 4, BLOCK = THREADS * PIECE;
  const u64 thread = __builtin_amdgcn_workitem_id_x() * PIECE;
  for (u64 at = (u64)(u32)part * (AHEAD * BLOCK) + thread; at < bytes; at += (u64)(u32)parts * (AHEAD * BLOCK)) {
    u32x4 x[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
      if (at + i * BLOCK < bytes) x[i] = *(const u32x4 IN_MEMORY *)(source + at + i * BLOCK);
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
      if (at + i * BLOCK < bytes) *(u32x4 *)(target + at + i * BLOCK) = x[i];
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

/* Copies the others' chunks out of their windows, from ``peers`` of them at a time, with their rows' scales where those
   are to be gathered; signals what all workgroups that fetch from a rank are through with. */
DEVICE void fetch_chunks(ArgumentsPlace with, u32 call, int workgroup) {
  const int rank = with->rank, ranks = with->ranks, peers = with->peers;
  const int part = workgroup / peers, parts = with->fetchers / peers;
  const u32 chunk_rows = with->shard_rows, k_bytes = with->k_bytes, signal_rows = with->signal_rows;
  const u32 signals = (chunk_rows + signal_rows - 1) / signal_rows;
  for (int step = 1 + workgroup % peers; step < ranks; step += peers) {
    const u32 source = rank + step < ranks ? rank + step : rank + step - ranks;
    const Window window = (Window)with->windows[source];
    const u64 chunk = (u64)source * chunk_rows;
    u32 signal = source * signals;
    for (u32 row = 0; row < chunk_rows; row += signal_rows, ++signal) {
      const u32 rows = chunk_rows - row < signal_rows ? chunk_rows - row : signal_rows;
      const u64 start = (u64)row * k_bytes;
      copy_part((char *)with->gathered + chunk * k_bytes + start, window + start, (u64)rows * k_bytes, part, parts);
      if (with->fetch_scales) {
        float *target = (float *)with->a_inverse + chunk + row;
        const float IN_MEMORY *scales = (const float IN_MEMORY *)(window + with->scales_at) + row;
        for (u32 i = part * THREADS + __builtin_amdgcn_workitem_id_x(); i < rows; i += (u32)parts * THREADS)
          target[i] = scales[i];
      }
      count_and_signal(with->state + FETCHED + signal, parts, (u32 *)with->signals + signal, call);
    }
  }
}

/* Rows of tiles that begin in the own chunk, or in the rows that one signal tells of: by the number of ranks from this
   one on, and the first row within the chunk; with the visits before them. */
struct Group {
  int step, row, before;
};

/* First row of tiles that begins in a group, and how many do. */
DEVICE void tiles_of(const Group &group, ArgumentsPlace with, int &first, int &count) {
  const int chunk = with->rank + group.step, rows = with->shard_rows;
  const int start = (chunk >= with->ranks ? chunk - with->ranks : chunk) * rows;
  const int told = group.step == 0 || group.row + with->signal_rows > rows ? rows : group.row + with->signal_rows;
  first = (start + group.row + TILE - 1) / TILE;
  count = (start + told + TILE - 1) / TILE - first;
}

/* Row of tiles that is visited as ``visit``-th: from the own chunk's onwards, chunk after chunk, or by arrival where
   chunks of all ranks come at once. Visits mostly grow, so each is looked for from the group of the last one on. */
DEVICE int visited(int visit, int tiles_m, Group &group, ArgumentsPlace with) {
  if (with->peers == 1) {
    const int row = visit + (with->rank * with->shard_rows + TILE - 1) / TILE;
    return row >= tiles_m ? row - tiles_m : row;
  }
  if (visit < group.before) group = {0, 0, 0};
  int first, count;
  for (tiles_of(group, with, first, count); visit - group.before >= count; tiles_of(group, with, first, count)) {
    const bool around = group.step == with->ranks - 1;
    group = {around ? 1 : group.step + 1, around ? group.row + with->signal_rows : group.row, group.before + count};
  }
  return first + visit - group.before;
}

template <class Type, class Out>
DEVICE void async_mm(const char *b, u32 *state, int last, int m, int shard_rows, int n, int k_bytes, int b_bytes,
                     int rank, int xcds, int band, int fetchers) {
  __attribute__((shared)) static char lds[2 * HALF_BYTES] __attribute__((aligned(16)));
  const int thread = __builtin_amdgcn_workitem_id_x();
  const int lane = thread % WAVE, wave = uniform(thread / WAVE);
  const int row = wave / 4 * WAVE_ROWS, column = wave % 4 * WAVE_COLUMNS;
  const int all_workgroups = (int)(__builtin_amdgcn_grid_size_x() / THREADS);
  const int workgroup = (int)__builtin_amdgcn_workgroup_id_x() - fetchers, workgroups = all_workgroups - fetchers;
  const u32 call = state[CALL];
  if (workgroup < 0) fetch_chunks(arguments_here(), call, workgroup + fetchers);
  /* Workgroups of a die take turns at its tiles. The first ones are theirs from the start; those that fetch come
     behind. */
  const int turns = workgroups / xcds;
  const int die = (workgroup < 0 ? workgroup + fetchers : workgroup) % xcds;
  const int tiles_m = (m + TILE - 1) / TILE, tiles_n = (n + TILE - 1) / TILE;
  const int own_start = rank * shard_rows, own_end = own_start + shard_rows;
  const int steps = (k_bytes + STEP - 1) / STEP;
  const int piece = thread % PIECES, line = thread / PIECES;
  u64 arrived = 0;
  Group group = {0, 0, 0};
  const int tiles = tiles_m * tiles_n;
  int turn = workgroup < 0 ? turns + take_turn(state, die, (u32 *)lds) : workgroup / xcds;
  for (;;) {
    const int tile = uniform(tile_of_turn(turn, turns, die, xcds, tiles));
    if (tile >= tiles) break;
    const int in_band = band * tiles_n;
    const int which = tile / in_band, inside = tile % in_band;
    const int rows_of_band = tiles_m - which * band < band ? tiles_m - which * band : band;
    const ArgumentsPlace given = arguments_here();
    /* Else operands' addresses would be taken for different ones in each lane, and loads be made in turns. */
    const int tile_row = uniform(visited(which * band + inside % rows_of_band, tiles_m, group, given));
    const int first_row = tile_row * TILE, first_column = inside / rows_of_band * TILE;
    const int end = first_row + TILE < m ? first_row + TILE : m;
    const char *a;
    if (first_row >= own_start && end <= own_end) {
      a = given->shard + (u64)(u32)(first_row - own_start) * (u32)k_bytes;
    } else {
      a = given->gathered + (u64)(u32)first_row * (u32)k_bytes;
      bool there = true;
      const int signal_rows = given->signal_rows, signals = (shard_rows + signal_rows - 1) / signal_rows;
      const int chunk_before = first_row / shard_rows, chunk_behind = (end - 1) / shard_rows;
      const int last_signal = chunk_behind * signals + (end - 1 - chunk_behind * shard_rows) / signal_rows;
      int signal = chunk_before * signals + (first_row - chunk_before * shard_rows) / signal_rows;
      for (; there && signal <= last_signal; ++signal) {
        if (arrived >> signal & 1) continue;
        const int chunk = signal / signals;
        /* What is of the own chunk has one signal. */
        const u32 *word = given->signals + (chunk == rank ? rank * signals : signal);
        const u32 seen = wait_for_signal(word, call, given->polls, (u32 *)lds);
        arrived |= 1ull << signal;
        if ((int)(seen - call) < 0) {
          report_failure(given->failure, chunk, call, seen);
          there = false;
        }
      }
      if (!there) break; /* what is not there now will not be: the others find out by themselves */
    }
    const int rows_left = end - first_row, columns_left = n - first_column < TILE ? n - first_column : TILE;
    const char *b_tile = b + (u64)(u32)first_column * (u32)b_bytes;
    const u32 a_size = (u32)rows_left * (u32)k_bytes;
    const u32 b_size = (u32)(columns_left - 1) * (u32)b_bytes + (u32)k_bytes;

    f32x16 sums[ROW_BLOCKS][COLUMN_BLOCKS];
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
      for (int j = 0; j < COLUMN_BLOCKS; ++j) sums[i][j] = 0.0f;

    u32x4 a_next[LOADS], b_next[LOADS];
    auto load = [&](int step) {
      const int start = step * STEP;
      const u32 inside_sum = start + piece * PIECE < k_bytes ? 0 : OUTSIDE;
      const __amdgpu_buffer_rsrc_t a_rows = buffer(a + start, a_size - start);
      const __amdgpu_buffer_rsrc_t b_rows = buffer(b_tile + start, b_size - start);
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
    store_part<Type, Out>(sums, lds + wave * PANEL_BYTES, first_row, first_column, row, column, lane);
    workgroup_barrier();
    turn = fetchers ? turns + take_turn(state, die, (u32 *)lds) : turn + turns;
  }
  if (last || fetchers) finish_call(state, call, all_workgroups, fetchers ? xcds : 0, last);
}

#define KERNEL(NAME, TYPE, OUT)                                                                                       \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))                   \
  __attribute__((amdgpu_waves_per_eu(2, 2))) void                                                                     \
  NAME(const char *gathered, const char *shard, const char *b, OUT *out, const float *a_inverse,                      \
       const float *b_inverse, const char *bias, const u32 *signals, u32 *state, u32 *failure, const u64 *windows,    \
       int m, int shard_rows, int signal_rows, int n, int k_bytes, int b_bytes, int rank, int ranks, int polls,       \
       int a_rows, int b_columns, int last, int xcds, int band, int fetchers, int peers, int fetch_scales,            \
       int scales_at) {                                                                                               \
    async_mm<TYPE, OUT>(b, state, last, m, shard_rows, n, k_bytes, b_bytes, rank, xcds, band, fetchers);              \
  }

KERNEL(async_mm_bf16_bf16, BFloat16, __bf16)
KERNEL(async_mm_bf16_f32, BFloat16, float)
KERNEL(async_mm_f16_f16, Float16, _Float16)
KERNEL(async_mm_f16_f32, Float16, float)
KERNEL(async_mm_fp8_bf16, Fp8, __bf16)
KERNEL(async_mm_fp8_f32, Fp8, float)

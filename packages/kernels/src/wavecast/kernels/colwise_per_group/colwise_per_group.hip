/* Device code of the column-wise quantizer per group on compiler builtins: another path of kernel.py, byte for byte.

   A workgroup of eight waves has 64 columns, a cache line of every row, of one group. A lane loads 16 bytes, 8 columns,
   of each of 8 neighbouring rows; 8 lanes beside one another have a line, and the others of a wave the next rows. So a
   lane has 8 bytes of each of its columns, which lie beside one another in the result, and 8 lanes have 64 of them.
   Before they are stored, lanes exchange them whole, so that those 8 lanes are beside one another: only then does the
   memory take 64 bytes at once.

   The last HELD * 512 rows of a group stay in registers from the maximum to the store; what is before them is read
   twice. Rows are counted from a multiple of 8; of 8 rows that a bound of the group cuts, bytes are stored one by one.

   No header is needed. */

#define DEVICE static __attribute__((device, always_inline)) inline

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef short i16x8 __attribute__((ext_vector_type(8)));

constexpr int THREADS = 512, WAVE = 64, WAVES = THREADS / WAVE;
constexpr int CHUNK = 8; /* rows of a lane */
constexpr int LANE_COLUMNS = 8, COLUMN_LANES = 8, COLUMNS = LANE_COLUMNS * COLUMN_LANES;
constexpr int ROW_LANES = WAVE / COLUMN_LANES;
constexpr int PIECE_ROWS = CHUNK * ROW_LANES * WAVES;
constexpr int HELD = 2;
constexpr u32 OUTSIDE = 0x80000000u;
constexpr int RESOURCE_WORD = 0x27000; /* raw buffer, 32-bit elements */

/* A number of 16 bits. ``unit``: one of its exponent, which carries the magnitude of Inf and NaN into the sign. */
struct BFloat16 {
  static constexpr short unit = 0x0080;
  DEVICE float value(short bits) { return __builtin_bit_cast(float, (u32)(unsigned short)bits << 16); }
};
struct Float16 {
  static constexpr short unit = 0x0400;
  DEVICE float value(short bits) { return (float)__builtin_bit_cast(_Float16, bits); }
};

/* A lane's rows of one piece. */
struct Rows {
  i16x8 row[CHUNK];
};

DEVICE Rows load_rows(const char *x, int first, int start, int end, u32 row_bytes, u32 column_byte, bool in_columns) {
  const __amdgpu_buffer_rsrc_t rows = __builtin_amdgcn_make_buffer_rsrc((void *)x, 0, OUTSIDE - 1, RESOURCE_WORD);
  Rows loaded;
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) {
    const bool inside = in_columns && first + i >= start && first + i < end;
    const u32 offset = inside ? (u32)(first + i) * row_bytes + column_byte : OUTSIDE;
    loaded.row[i] = __builtin_bit_cast(i16x8, __builtin_amdgcn_raw_buffer_load_b128(rows, offset, 0, 0));
  }
  return loaded;
}

/* Orders magnitudes of finite numbers, and is negative for the others: their largest is a maximum of integers. */
template <class Type> DEVICE i16x8 larger_key(i16x8 best, const Rows &x) {
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) best = __builtin_elementwise_max(best, (x.row[i] & (short)0x7FFF) + Type::unit);
  return best;
}

DEVICE i16x8 of_lane(i16x8 x, int lane) {
  u32x4 words = __builtin_bit_cast(u32x4, x);
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = __builtin_amdgcn_ds_bpermute(lane * 4, words[i]);
  return __builtin_bit_cast(i16x8, words);
}

/* cast(clamp(x * scale)), NaN kept. */
template <class Type> DEVICE float scaled(short bits, float scale, float largest) {
  const float y = Type::value(bits) * scale;
  return y == y ? __builtin_fminf(__builtin_fmaxf(y, -largest), largest) : y;
}

/* The place of a lane in the 8 x 8 of a wave, rows and columns exchanged. */
DEVICE int turned(int lane) { return lane % ROW_LANES * COLUMN_LANES + lane / ROW_LANES; }

/* ``first`` and ``in_columns`` are those of the lane whose bytes this one stores. */
template <class Type>
DEVICE void store_rows(u8 *out, const Rows &x, const float (&scale)[LANE_COLUMNS], float largest, int first, int start,
                       int end, u64 tokens, bool in_columns, int lane) {
  const int from = turned(lane) * 4;
  const bool any = in_columns && first + CHUNK > start && first < end;
  const bool whole = in_columns && first >= start && first + CHUNK <= end;
#pragma unroll
  for (int column = 0; column < LANE_COLUMNS; ++column) {
    float y[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) y[i] = scaled<Type>(x.row[i][column], scale[column], largest);
    u32x2 word = {0, 0};
    word.x = __builtin_amdgcn_cvt_pk_fp8_f32(y[0], y[1], word.x, false);
    word.x = __builtin_amdgcn_cvt_pk_fp8_f32(y[2], y[3], word.x, true);
    word.y = __builtin_amdgcn_cvt_pk_fp8_f32(y[4], y[5], word.y, false);
    word.y = __builtin_amdgcn_cvt_pk_fp8_f32(y[6], y[7], word.y, true);
    word.x = __builtin_amdgcn_ds_bpermute(from, word.x);
    word.y = __builtin_amdgcn_ds_bpermute(from, word.y);
    u8 *place = out + (u64)(u32)column * tokens + (u64)(u32)first;
    if (whole) {
      *(u32x2 *)place = word;
    } else if (any) {
#pragma unroll
      for (int i = 0; i < CHUNK; ++i)
        if (first + i >= start && first + i < end) place[i] = (u8)(word[i / 4] >> i % 4 * 8);
    }
  }
}

/* Rows [start, tokens) of the workgroup's columns. */
DEVICE void zero_rows(u8 *out, int start, int tokens, int columns_left, int thread) {
  const int column = thread / COLUMN_LANES;
  if (column >= columns_left) return;
  u8 *own = out + (u64)(u32)column * (u32)tokens;
  for (int row = (start / CHUNK + thread % COLUMN_LANES) * CHUNK; row < tokens; row += CHUNK * COLUMN_LANES) {
    if (row >= start) {
      *(u32x2 *)(own + row) = 0;
      continue;
    }
    for (int i = start - row; i < CHUNK; ++i) own[row + i] = 0;
  }
}

DEVICE int clipped(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

template <class Type>
DEVICE void colwise(const char *x, const int *offs, u8 *out, float *scales, float *inverses, int tokens, int columns,
                    int row_bytes, int groups, float largest, float eps, int power_of_two) {
  __attribute__((shared)) static i16x8 keys[WAVES][COLUMN_LANES];
  const int thread = __builtin_amdgcn_workitem_id_x(), lane = thread % WAVE, wave = thread / WAVE;
  const int column_lane = lane % COLUMN_LANES;
  const int first_column = __builtin_amdgcn_workgroup_id_x() * COLUMNS, group = __builtin_amdgcn_workgroup_id_y();
  const int own_column = first_column + column_lane * LANE_COLUMNS;
  const bool in_columns = own_column < columns;
  const int from = clipped(group ? offs[group - 1] : 0, 0, tokens);
  const int to = clipped(offs[group], from, tokens);
  u8 *block = out + (u64)(u32)first_column * (u32)tokens;
  if (group == groups - 1) zero_rows(block, to, tokens, columns - first_column, thread);

  /* From here on, row 0 is the multiple of CHUNK that the group begins at or behind. */
  const int base = from / CHUNK * CHUNK, start = from - base, end = to - base;
  const int first = (wave * ROW_LANES + lane / COLUMN_LANES) * CHUNK;
  const u32 column_byte = column_lane * LANE_COLUMNS * 2;
  x += (u64)(u32)base * (u32)row_bytes + (u64)(u32)first_column * 2;
  const int stored_lane = turned(lane);
  const int stored_first = (wave * ROW_LANES + stored_lane / COLUMN_LANES) * CHUNK;
  const int stored_column = stored_lane % COLUMN_LANES * LANE_COLUMNS;
  const bool stored_in_columns = first_column + stored_column < columns;
  out = block + base + (u64)(u32)stored_column * (u32)tokens;

  const int before = end > HELD * PIECE_ROWS ? (end - HELD * PIECE_ROWS + PIECE_ROWS - 1) / PIECE_ROWS : 0;
  i16x8 best = Type::unit;
  for (int piece = 0; piece < before; ++piece) {
    const int row = piece * PIECE_ROWS;
    const char *at = x + (u64)(u32)row * (u32)row_bytes;
    best = larger_key<Type>(best, load_rows(at, first, start - row, end - row, row_bytes, column_byte, in_columns));
  }
  Rows held[HELD];
#pragma unroll
  for (int piece = 0; piece < HELD; ++piece) {
    const int row = (before + piece) * PIECE_ROWS;
    const char *at = x + (u64)(u32)row * (u32)row_bytes;
    held[piece] = load_rows(at, first, start - row, end - row, row_bytes, column_byte, in_columns);
  }
#pragma unroll
  for (int piece = 0; piece < HELD; ++piece) best = larger_key<Type>(best, held[piece]);

#pragma unroll
  for (int distance = COLUMN_LANES; distance < WAVE; distance *= 2)
    best = __builtin_elementwise_max(best, of_lane(best, lane ^ distance));
  if (lane < COLUMN_LANES) keys[wave][lane] = best;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#pragma unroll
  for (int i = 0; i < WAVES; ++i) best = __builtin_elementwise_max(best, keys[i][column_lane]);

  float scale[LANE_COLUMNS];
#pragma unroll
  for (int i = 0; i < LANE_COLUMNS; ++i) {
    const short bits = best[i] - Type::unit;
    const float amax = Type::value(bits > 0 ? bits : (short)0);
    scale[i] = largest / __builtin_fmaxf(amax, eps);
    if (power_of_two) scale[i] = __builtin_bit_cast(float, __builtin_bit_cast(u32, scale[i]) & 0x7F800000u);
  }
#pragma unroll
  for (int piece = 0; piece < HELD; ++piece) {
    const int row = (before + piece) * PIECE_ROWS;
    store_rows<Type>(out + row, held[piece], scale, largest, stored_first, start - row, end - row, tokens,
                     stored_in_columns, lane);
  }
  /* Backwards: what was read last is what the caches still hold. */
  for (int piece = before - 1; piece >= 0; --piece) {
    const int row = piece * PIECE_ROWS;
    const char *at = x + (u64)(u32)row * (u32)row_bytes;
    const Rows again = load_rows(at, first, start - row, end - row, row_bytes, column_byte, in_columns);
    store_rows<Type>(out + row, again, scale, largest, stored_first, start - row, end - row, tokens, stored_in_columns,
                     lane);
  }
  if (thread < COLUMN_LANES && in_columns) {
    const u64 place = (u64)(u32)group * (u32)columns + (u32)own_column;
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; ++i) {
      scales[place + i] = scale[i];
      inverses[place + i] = 1.0f / scale[i];
    }
  }
}

#define KERNEL(NAME, TYPE)                                                                                            \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))                   \
  __attribute__((amdgpu_waves_per_eu(4, 4))) void                                                                     \
  NAME(const char *x, const int *offs, u8 *out, float *scale, float *inverse, int tokens, int columns, int row_bytes, \
       int groups, float largest, float eps, int power_of_two) {                                                      \
    colwise<TYPE>(x, offs, out, scale, inverse, tokens, columns, row_bytes, groups, largest, eps, power_of_two);      \
  }

KERNEL(colwise_per_group_bf16, BFloat16)
KERNEL(colwise_per_group_f16, Float16)

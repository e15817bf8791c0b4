/* Device code of matmul+reduce-scatter on compiler builtins: another path of the operator of kernel.py, for gfx942 and
   gfx950, with that kernel's arguments, signals, counters and order of tiles. */

#include "../async_tp/tiles.hip.h"

/* The kernel's arguments as they lie in memory, in the order of its parameters. */
struct Arguments {
  const char *a, *b;
  void *out;
  const float *a_inverse, *b_inverse, *window;
  const u64 *peers; /* where every rank's window begins, then where every rank's signal pad does */
  u32 *state, *failure;
  int rows, n, k_bytes, b_bytes, rank, ranks, polls;
  float factor;
  int a_rows, b_columns, in_turns, xcds, band;
};
typedef const Arguments IN_ARGUMENTS *ArgumentsPlace;

/* What a sum is multiplied by for its row and its columns: inverse scales, if there are some. */
struct Scales {
  const float *rows;
  f32x4 columns;
  int each_row, rows_left;

  __attribute__((device, always_inline)) inline f32x4 applied(f32x4 x, int row) const {
    if (!rows) return x;
    x *= rows[each_row && row < rows_left ? row : 0];
    return x * columns;
  }
};

DEVICE Scales scales_of(ArgumentsPlace with, u64 first_row, int rows_left, int tile_column, bool inside) {
  Scales found = {with->a_inverse, 1.0f, with->a_rows, rows_left};
  if (found.rows && found.each_row) found.rows += first_row;
  const float *b_inverse = with->b_inverse;
  if (inside && b_inverse) {
    if (with->b_columns) found.columns = *(const f32x4 *)(b_inverse + tile_column);
    else found.columns = *b_inverse;
  }
  return found;
}

/* Signals of a rank: of each, the call of which its part has come. */
DEVICE u32 *pad_of(int rank, ArgumentsPlace with) { return (u32 *)(u32 IN_MEMORY *)with->peers[with->ranks + rank]; }

/* Counts a tile of a rank's part, whose stores have had the time of another tile to end; who counts the last signals
   that rank. */
DEVICE void count_tile(int target, u32 tiles, u32 call) {
  const ArgumentsPlace with = arguments_here<Arguments>();
  u32 *pad = pad_of(target, with);
  count_and_signal(with->state + FETCHED + target, tiles, pad + with->rank, call);
}

/* Whether every other rank's part of this rank's rows has come. */
DEVICE bool wait_for_others(u32 call, u32 *seen_in_lds) {
  const ArgumentsPlace with = arguments_here<Arguments>();
  const int rank = with->rank, ranks = with->ranks;
  const u32 *pad = pad_of(rank, with);
  for (int source = 0; source < ranks; ++source) {
    if (source == rank) continue;
    const u32 seen = wait_for_signal(pad + source, call, with->polls, seen_in_lds);
    if ((int)(seen - call) < 0) {
      report_failure(with->failure, source, call, seen);
      return false;
    }
  }
  return true;
}

/* Writes a wave's part of a tile in fp32 to where its rank adds it: the ``step``-th of that window's parts. */
DEVICE void send_part(const f32x16 (&sums)[ROW_BLOCKS][COLUMN_BLOCKS], char *panel, int target, int step, int tile_row,
                      int first_column, int row, int column, int lane) {
  asm("" : "+v"(lane)); /* else what follows from it is computed before the first tile, and kept in registers */
  const ArgumentsPlace with = arguments_here<Arguments>();
  const int rows = with->rows, n = with->n;
  const int rows_left = rows - tile_row < TILE ? rows - tile_row : TILE;
  float *there = (float *)uniform_address(with->peers[target]) + ((u64)(u32)step * (u32)rows + (u32)tile_row) * (u32)n;
  const __amdgpu_buffer_rsrc_t out = buffer(there, (u32)rows_left * (u32)n * (u32)sizeof(float));
  const int tile_column = first_column + column + lane % 16 * 4;
  const bool inside = tile_column < n;
  const Scales scales = scales_of(with, (u64)(u32)target * (u32)rows + (u32)tile_row, rows_left, tile_column, inside);
  lines_of(sums, panel, lane, [&](int line, f32x4 x) {
    const int own_row = row + line;
    const u32 offset = ((u32)own_row * (u32)n + (u32)tile_column) * (u32)sizeof(float);
    store_four(out, scales.applied(x, own_row), inside ? offset : OUTSIDE, float());
  });
}

/* Adds to a wave's part of a tile of this rank what the others have written, and stores the sum, rounded once. */
template <class Out>
DEVICE void add_and_store(const f32x16 (&sums)[ROW_BLOCKS][COLUMN_BLOCKS], char *panel, int tile_row, int first_column,
                          int row, int column, int lane) {
  asm("" : "+v"(lane));
  const ArgumentsPlace with = arguments_here<Arguments>();
  const int rows = with->rows, n = with->n, others = with->ranks - 1;
  const float factor = with->factor;
  const int rows_left = rows - tile_row < TILE ? rows - tile_row : TILE;
  const float *window = with->window + (u64)(u32)tile_row * (u32)n;
  const u64 part = (u64)(u32)rows * (u32)n;
  const u32 values = (u32)rows_left * (u32)n;
  const __amdgpu_buffer_rsrc_t out =
      buffer((Out *)with->out + (u64)(u32)tile_row * (u32)n, values * (u32)sizeof(Out));
  const int tile_column = first_column + column + lane % 16 * 4;
  const bool inside = tile_column < n;
  const Scales scales =
      scales_of(with, (u64)(u32)with->rank * (u32)rows + (u32)tile_row, rows_left, tile_column, inside);
  lines_of(sums, panel, lane, [&](int line, f32x4 x) {
    const int own_row = row + line;
    const u32 at = (u32)own_row * (u32)n + (u32)tile_column;
    x = scales.applied(x, own_row);
    for (int other = 0; other < others; ++other) {
      const __amdgpu_buffer_rsrc_t theirs = buffer(window + other * part, values * (u32)sizeof(float));
      const u32 offset = inside ? at * (u32)sizeof(float) : OUTSIDE;
      x += __builtin_bit_cast(f32x4, __builtin_amdgcn_raw_buffer_load_b128(theirs, offset, 0, 0));
    }
    store_four(out, x * factor, inside ? at * (u32)sizeof(Out) : OUTSIDE, Out());
  });
}

/* Tiles of the other ranks come first: those of the rank that is farthest behind before the next one's, or one of each
   in turns. This rank's own come last. */
template <class Type, class Out>
DEVICE void async_rs(const char *a, const char *b, u32 *state, int rows, int n, int k_bytes, int b_bytes, int rank,
                     int ranks, int in_turns, int xcds, int band) {
  __attribute__((shared)) static char lds[2 * HALF_BYTES] __attribute__((aligned(16)));
  const int thread = __builtin_amdgcn_workitem_id_x();
  const int lane = thread % WAVE, wave = uniform(thread / WAVE);
  const int row = wave / 4 * WAVE_ROWS, column = wave % 4 * WAVE_COLUMNS;
  const int workgroups = (int)(__builtin_amdgcn_grid_size_x() / THREADS);
  const int workgroup = (int)__builtin_amdgcn_workgroup_id_x();
  const u32 call = state[CALL];
  const int tiles_m = (rows + TILE - 1) / TILE, tiles_n = (n + TILE - 1) / TILE;
  const int part_tiles = tiles_m * tiles_n, tiles = ranks * part_tiles;
  bool complete = false;
  int written = -1; /* whose part the tile before is of */
  char *panel = lds + wave * PANEL_BYTES;
  /* Workgroups of a die make tiles that are behind one another, so that they share operands. */
  for (int tile = workgroup % xcds * (workgroups / xcds) + workgroup / xcds; tile < tiles; tile += workgroups) {
    int step = tile / part_tiles, inside = tile % part_tiles;
    if (in_turns && step < ranks - 1) {
      inside = tile / (ranks - 1);
      step = tile % (ranks - 1);
    }
    const int in_band = band * tiles_n, which = inside / in_band, in_which = inside % in_band;
    const int rows_of_band = tiles_m - which * band < band ? tiles_m - which * band : band;
    const int tile_row = uniform((which * band + in_which % rows_of_band) * TILE);
    const int first_column = uniform(in_which / rows_of_band * TILE);
    step = uniform(step); /* a division is made in vector registers, where a lane may have its own result */
    const int behind = rank - 1 - step, target = uniform(behind < 0 ? behind + ranks : behind);
    const int rows_left = rows - tile_row < TILE ? rows - tile_row : TILE;
    const int columns_left = n - first_column < TILE ? n - first_column : TILE;
    const u64 first_row = (u64)(u32)target * (u32)rows + (u32)tile_row;

    f32x16 sums[ROW_BLOCKS][COLUMN_BLOCKS];
    sum_of_products<Type>(sums, lds, a + first_row * (u32)k_bytes, (u32)rows_left * (u32)k_bytes,
                          b + (u64)(u32)first_column * (u32)b_bytes,
                          (u32)(columns_left - 1) * (u32)b_bytes + (u32)k_bytes, k_bytes, b_bytes, row, column);
    if (written >= 0) count_tile(written, part_tiles, call);
    written = -1;
    if (step < ranks - 1) {
      send_part(sums, panel, target, step, tile_row, first_column, row, column, lane);
      written = target;
    } else {
      if (!complete) complete = wait_for_others(call, (u32 *)lds);
      if (!complete) break; /* what is not there now will not be: the others find out by themselves */
      add_and_store<Out>(sums, panel, tile_row, first_column, row, column, lane);
    }
    workgroup_barrier();
  }
  if (written >= 0) count_tile(written, part_tiles, call);
  finish_call(state, call, workgroups, 0, 1);
}

#define KERNEL(NAME, TYPE, OUT)                                                                                       \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))                   \
  __attribute__((amdgpu_waves_per_eu(2, 2))) void                                                                     \
  NAME(const char *a, const char *b, OUT *out, const float *a_inverse, const float *b_inverse, const float *window,   \
       const u64 *peers, u32 *state, u32 *failure, int rows, int n, int k_bytes, int b_bytes, int rank, int ranks,    \
       int polls, float factor, int a_rows, int b_columns, int in_turns, int xcds, int band) {                        \
    async_rs<TYPE, OUT>(a, b, state, rows, n, k_bytes, b_bytes, rank, ranks, in_turns, xcds, band);                   \
  }

KERNEL(async_rs_bf16_bf16, BFloat16, __bf16)
KERNEL(async_rs_bf16_f32, BFloat16, float)
KERNEL(async_rs_f16_f16, Float16, _Float16)
KERNEL(async_rs_f16_f32, Float16, float)
KERNEL(async_rs_fp8_bf16, Fp8, __bf16)
KERNEL(async_rs_fp8_f32, Fp8, float)

/* Device code of all-gather+matmul on compiler builtins: another path of the operator of kernel.py, for gfx942 and
   gfx950, with that kernel's arguments, signals, counters and order of tiles. */

#include "../async_tp/tiles.hip.h"

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
typedef const Arguments IN_ARGUMENTS *ArgumentsPlace;

/* Scales, biases, rounds and stores a wave's part of the tile; ``row`` and ``column`` are its first within the tile. */
template <class Type, class Out>
DEVICE void store_part(const f32x16 (&sums)[ROW_BLOCKS][COLUMN_BLOCKS], char *panel, int first_row, int first_column,
                       int row, int column, int lane) {
  asm("" : "+v"(lane)); /* else what follows from it is computed before the first tile, and kept in registers */
  const ArgumentsPlace with = arguments_here<Arguments>();
  const int m = with->m, n = with->n, a_rows = with->a_rows;
  const float *a_inverse = with->a_inverse, *b_inverse = with->b_inverse;
  const char *b_bias = with->bias;
  const int rows_left = m - first_row < TILE ? m - first_row : TILE;
  const __amdgpu_buffer_rsrc_t out =
      buffer((Out *)with->out + (u64)(u32)first_row * (u32)n, (u32)rows_left * (u32)n * (u32)sizeof(Out));
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
  lines_of(sums, panel, lane, [&](int line, f32x4 x) {
    const int own_row = row + line;
    if (a_inverse) {
      const int tile_row = first_row + own_row;
      x *= a_inverse[a_rows && tile_row < m ? tile_row : 0];
      x *= factor;
    }
    x += bias;
    const u32 offset = ((u32)own_row * (u32)n + (u32)tile_column) * (u32)sizeof(Out);
    store_four(out, x, inside ? offset : OUTSIDE, Out());
  });
}

/* In another device's memory. */
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
  if (workgroup < 0) fetch_chunks(arguments_here<Arguments>(), call, workgroup + fetchers);
  /* Workgroups of a die take turns at its tiles. The first ones are theirs from the start; those that fetch come
     behind. */
  const int turns = workgroups / xcds;
  const int die = (workgroup < 0 ? workgroup + fetchers : workgroup) % xcds;
  const int tiles_m = (m + TILE - 1) / TILE, tiles_n = (n + TILE - 1) / TILE;
  const int own_start = rank * shard_rows, own_end = own_start + shard_rows;
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
    const ArgumentsPlace given = arguments_here<Arguments>();
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
    sum_of_products<Type>(sums, lds, a, a_size, b_tile, b_size, k_bytes, b_bytes, row, column);
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

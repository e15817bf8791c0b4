// Kernels that touch memory as common grids do; each lane moves 16 bytes.
typedef float float4_ __attribute__((ext_vector_type(4)));

// A product's operand panels: 64 rows of the left, 64 rows of the right, each of `depth` 16-byte pieces; tiles in groups of rows.
extern "C" __global__ void panels(const float4_* left, const float4_* right, float4_* out, int tiles_m, int tiles_n, int group, int depth) {
  int id = blockIdx.x, in_group = group * tiles_n, first = id / in_group * group;
  int rows = tiles_m - first < group ? tiles_m - first : group;
  int m = first + id % in_group % rows, n = id % in_group / rows;
  float4_ sum = {0, 0, 0, 0};
  for (int k = 0; k < depth; k += 8)
    for (int row = threadIdx.x / 8; row < 64; row += 8) {
      sum += left[(unsigned long)(m * 64 + row) * depth + k + threadIdx.x % 8];
      sum += right[(unsigned long)(n * 64 + row) * depth + k + threadIdx.x % 8];
    }
  for (int row = threadIdx.x / 16; row < 64; row += 4)
    out[(unsigned long)(m * 64 + row) * tiles_n * 16 + n * 16 + threadIdx.x % 16] = sum;
}

// The same, each group of rows with a right operand of its own; `ends` are the groups' last rows in tiles.
extern "C" __global__ void ragged(const float4_* left, const float4_* right, float4_* out, const int* ends, int groups, int tiles_n, int depth) {
  int id = blockIdx.x, m = id / tiles_n, n = id % tiles_n, g = 0;
  while (g < groups - 1 && m >= ends[g]) ++g;
  float4_ sum = {0, 0, 0, 0};
  for (int k = 0; k < depth; k += 8)
    for (int row = threadIdx.x / 8; row < 64; row += 8) {
      sum += left[(unsigned long)(m * 64 + row) * depth + k + threadIdx.x % 8];
      sum += right[(unsigned long)((g * tiles_n + n) * 64 + row) * depth + k + threadIdx.x % 8];
    }
  for (int row = threadIdx.x / 16; row < 64; row += 4)
    out[(unsigned long)(m * 64 + row) * tiles_n * 16 + n * 16 + threadIdx.x % 16] = sum;
}

extern "C" __global__ void transpose(const float* in, float* out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int row = 0; row < 32; row += 8) out[(unsigned long)x * n + y + row] = in[(unsigned long)(y + row) * n + x];
}

// Weighted sum of neighbours next to a point in a plane or a cube of floats.
extern "C" __global__ void stencil(const float* in, float* out, int n_x, int n_y, int n_z, int reach_z) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  float sum = 0;
  for (int at_z = z - reach_z; at_z <= z + reach_z; ++at_z)
    for (int at_y = y - 1; at_y <= y + 1; ++at_y)
      for (int at_x = x - 1; at_x <= x + 1; ++at_x)
        if (at_x >= 0 && at_x < n_x && at_y >= 0 && at_y < n_y && at_z >= 0 && at_z < n_z)
          sum += in[((unsigned long)at_z * n_y + at_y) * n_x + at_x];
  out[((unsigned long)z * n_y + y) * n_x + x] = sum;
}

// A matrix both ways: the first `blocks` workgroups of a row of the grid take 128 bytes of each of 64 rows, the others a row.
extern "C" __global__ void both(const float4_* in, float4_* by_row, float4_* by_column, int pieces, int blocks) {
  int x = blockIdx.x, first = blockIdx.y * 64;
  if (x < blocks)
    for (int row = threadIdx.x / 8; row < 64; row += 8) {
      unsigned long at = (unsigned long)(first + row) * pieces + x * 8 + threadIdx.x % 8;
      by_column[at] = in[at];
    }
  else
    for (int piece = threadIdx.x; piece < pieces; piece += 64) {
      unsigned long at = (unsigned long)(first + x - blocks) * pieces + piece;
      by_row[at] = in[at];
    }
}

extern "C" __global__ void triad(float* a, const float* b, const float* c) {
  int i = blockIdx.x * 256 + threadIdx.x;
  a[i] = b[i] + 2.0f * c[i];
}

// Below a row and right of a column, take the row off; the workgroups elsewhere end at once.
extern "C" __global__ void corner(float* matrix, int n, int first) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x <= first || y <= first) return;
  matrix[(unsigned long)y * n + x] -= matrix[(unsigned long)first * n + x];
}

// Products of square matrices of floats, workgroups of 16 x 16 work-items, one element of the result each.

#define TILE 16

// Through tiles in LDS: out = alpha * left * right + beta * out.
extern "C" __global__ void tiled_product(const float* __restrict__ left, const float* __restrict__ right,
                                         float* __restrict__ out, int n, float alpha, float beta) {
  __shared__ float left_tile[TILE][TILE];
  __shared__ float right_tile[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  int tiles = (n + TILE - 1) / TILE;
  for (int tile = 0; tile < tiles; ++tile) {
    int left_column = tile * TILE + threadIdx.x, right_row = tile * TILE + threadIdx.y;
    left_tile[threadIdx.y][threadIdx.x] = row < n && left_column < n ? left[row * n + left_column] : 0.0f;
    right_tile[threadIdx.y][threadIdx.x] = right_row < n && column < n ? right[right_row * n + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += left_tile[threadIdx.y][k] * right_tile[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n) out[row * n + column] = alpha * sum + beta * out[row * n + column];
}

// Straight from memory: out = left * right.
extern "C" __global__ void plain_product(const float* __restrict__ left, const float* __restrict__ right,
                                         float* __restrict__ out, int rows, int depth, int columns) {
  int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
  if (row >= rows || column >= columns) return;
  float sum = 0;
  for (int k = 0; k < depth; ++k) sum += left[row * depth + k] * right[k * columns + column];
  out[row * columns + column] = sum;
}

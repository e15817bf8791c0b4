// What a workgroup does together: LDS of fixed and of launch-time size, barriers, lane exchange, atomics, two axes.
#include <hip/hip_runtime.h>

__global__ void __launch_bounds__(256) block_sum(const float *in, float *out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  part[t] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

__global__ void reverse(const int *in, int *out) {
  extern __shared__ int all[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  all[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = all[blockDim.x - 1 - threadIdx.x];
}

__global__ void wave_sum(const int *in, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
  for (int distance = warpSize / 2; distance > 0; distance /= 2) value += __shfl_down(value, distance);
  if (threadIdx.x % warpSize == 0) out[i / warpSize] = value;
}

__global__ void histogram(const unsigned *in, unsigned *bins, float *total, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&bins[in[i] & 15], 1u);
  atomicAdd(total, 0.5f);
}

__global__ void transpose(const float *in, float *out, int rows, int columns) {
  __shared__ float tile[16][17];
  int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = in[row * columns + column];
  __syncthreads();
  int to_column = blockIdx.y * 16 + threadIdx.x, to_row = blockIdx.x * 16 + threadIdx.y;
  if (to_row < columns && to_column < rows) out[to_row * rows + to_column] = tile[threadIdx.x][threadIdx.y];
}

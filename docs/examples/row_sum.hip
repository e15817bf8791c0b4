// One wave sums one row: predict it with
//   predict docs/examples/row_sum.hip --grid 1024 --block 256 --arg buf:64MiB --arg buf:4096 --arg 4096 --arg 4096
#include <hip/hip_runtime.h>

__global__ void row_sum(const float *in, float *out, int rows, int columns) {
  int row = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
  int lane = threadIdx.x % warpSize;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int column = lane; column < columns; column += warpSize) sum += in[row * columns + column];
  for (int distance = warpSize / 2; distance > 0; distance /= 2) sum += __shfl_down(sum, distance);
  if (lane == 0) out[row] = sum;
}

// Algorithms of many short launches.

// One row of a path search: the cheapest of the three neighbours above, plus the cost of the cell.
extern "C" __global__ void path_row(const int* __restrict__ costs, const int* __restrict__ above,
                                    int* __restrict__ out, int columns, int row) {
  int column = blockIdx.x * 256 + threadIdx.x;
  if (column >= columns) return;
  int left = column > 0 ? above[column - 1] : 0x7fffffff;
  int right = column < columns - 1 ? above[column + 1] : 0x7fffffff;
  int here = above[column];
  int least = left < here ? left : here;
  least = right < least ? right : least;
  out[column] = costs[(long)row * columns + column] + least;
}

// Gaussian elimination below pivot t: factors of the rows, then the rows themselves with the right-hand side.
extern "C" __global__ void elimination_factors(float* __restrict__ factors, const float* __restrict__ matrix, int n,
                                               int t) {
  int item = blockIdx.x * 256 + threadIdx.x;
  if (item >= n - 1 - t) return;
  int row = t + 1 + item;
  factors[row * n + t] = matrix[row * n + t] / matrix[t * n + t];
}

extern "C" __global__ void elimination_rows(const float* __restrict__ factors, float* __restrict__ matrix,
                                            float* __restrict__ right_side, int n, int t) {
  int item = blockIdx.x * 16 + threadIdx.x, line = blockIdx.y * 16 + threadIdx.y;
  int left = n - t - 1;
  if (item >= left || line >= left) return;
  int row = t + 1 + line, column = t + 1 + item;
  matrix[row * n + column] -= factors[row * n + t] * matrix[t * n + column];
  if (item == 0) right_side[row] -= factors[row * n + t] * right_side[t];
}

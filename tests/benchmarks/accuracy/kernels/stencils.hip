// Stencils on a grid of floats: workgroups of 16 x 16 work-items, one point each.

#define TILE 16
#define ROW (int)(blockIdx.y * TILE + threadIdx.y)
#define COLUMN (int)(blockIdx.x * TILE + threadIdx.x)

// Weighted sum of the 3 x 3 neighbours; the border is left out.
extern "C" __global__ void convolution(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
  int row = ROW, column = COLUMN;
  if (row < 1 || row >= rows - 1 || column < 1 || column >= columns - 1) return;
  const float weights[3][3] = {{0.5f, 0.25f, 0.125f}, {0.3f, 0.6f, 0.9f}, {0.7f, 0.2f, 0.4f}};
  float sum = 0;
#pragma unroll
  for (int y = 0; y < 3; ++y)
#pragma unroll
    for (int x = 0; x < 3; ++x) sum += weights[y][x] * in[(row + y - 1) * columns + column + x - 1];
  out[row * columns + column] = sum;
}

// Mean of a point and its four neighbours; work-items stand on the inner points.
extern "C" __global__ void jacobi(const float* __restrict__ in, float* __restrict__ out, int n) {
  int row = ROW + 1, column = COLUMN + 1;
  if (row >= n - 1 || column >= n - 1) return;
  const float* point = in + row * n + column;
  out[row * n + column] = 0.2f * (point[-n] + point[n] + point[-1] + point[1] + point[0]);
}

// Two-dimensional finite differences in time: the two electric fields, then the magnetic one.
extern "C" __global__ void fdtd_ex(float* __restrict__ ex, const float* __restrict__ hz, int rows, int columns) {
  int row = ROW, column = COLUMN;
  if (row >= rows || column >= columns) return;
  int i = row * columns + column;
  if (row == 0)
    ex[i] = 0;
  else
    ex[i] += 0.5f * (hz[i] - hz[i - columns]);
}

extern "C" __global__ void fdtd_ey(float* __restrict__ ey, const float* __restrict__ hz, int rows, int columns) {
  int row = ROW, column = COLUMN;
  if (row >= rows || column >= columns) return;
  int i = row * columns + column;
  if (column == 0)
    ey[i] = 0;
  else
    ey[i] += 0.5f * (hz[i] - hz[i - 1]);
}

extern "C" __global__ void fdtd_hz(const float* __restrict__ ex, const float* __restrict__ ey, float* __restrict__ hz,
                                   int rows, int columns) {
  int row = ROW, column = COLUMN;
  if (row >= rows - 1 || column >= columns - 1) return;
  int i = row * columns + column;
  hz[i] -= 0.7f * (ex[i + 1] - ex[i] + ey[i + columns] - ey[i]);
}

// Speckle reduction: gradients to the four neighbours and a diffusion coefficient, then the update.
extern "C" __global__ void srad_gradients(const float* __restrict__ image, float* __restrict__ north,
                                          float* __restrict__ south, float* __restrict__ west, float* __restrict__ east,
                                          float* __restrict__ coefficient, int rows, int columns, float q0) {
  int row = ROW, column = COLUMN;
  if (row >= rows || column >= columns) return;
  int above = row > 0 ? row - 1 : 0, below = row < rows - 1 ? row + 1 : rows - 1;
  int left = column > 0 ? column - 1 : 0, right = column < columns - 1 ? column + 1 : columns - 1;
  int i = row * columns + column;
  float here = image[i];
  float n = image[above * columns + column] - here, s = image[below * columns + column] - here;
  float w = image[row * columns + left] - here, e = image[row * columns + right] - here;
  north[i] = n;
  south[i] = s;
  west[i] = w;
  east[i] = e;
  float squares = (n * n + s * s + w * w + e * e) / (here * here);
  float laplacian = (n + s + w + e) / here;
  float numerator = 0.5f * squares - 0.0625f * laplacian * laplacian;
  float denominator = 1 + 0.25f * laplacian;
  float q = numerator / (denominator * denominator);
  float c = 1 / (1 + (q - q0) / (q0 * (1 + q0)));
  coefficient[i] = c < 0 ? 0 : c > 1 ? 1 : c;
}

extern "C" __global__ void srad_update(float* __restrict__ image, const float* __restrict__ north,
                                       const float* __restrict__ south, const float* __restrict__ west,
                                       const float* __restrict__ east, const float* __restrict__ coefficient, int rows,
                                       int columns, float step) {
  int row = ROW, column = COLUMN;
  if (row >= rows || column >= columns) return;
  int below = row < rows - 1 ? row + 1 : rows - 1, right = column < columns - 1 ? column + 1 : columns - 1;
  int i = row * columns + column;
  float c = coefficient[i];
  float divergence = c * north[i] + coefficient[below * columns + column] * south[i] + c * west[i] +
                     coefficient[row * columns + right] * east[i];
  image[i] += 0.25f * step * divergence;
}

// A cube of points in workgroups of 8 x 8 x 8, a cubic filter, neighbours outside the cube left out.
extern "C" __global__ void convolution_3d(const float* __restrict__ in, const float* __restrict__ filter,
                                          float* __restrict__ out, int n, int width) {
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z * 8 + threadIdx.z;
  if (x >= n || y >= n || z >= n) return;
  int half = width / 2;
  float sum = 0;
  for (int dz = 0; dz < width; ++dz) {
    int at_z = z + dz - half;
    if (at_z < 0 || at_z >= n) continue;
    for (int dy = 0; dy < width; ++dy) {
      int at_y = y + dy - half;
      if (at_y < 0 || at_y >= n) continue;
      for (int dx = 0; dx < width; ++dx) {
        int at_x = x + dx - half;
        if (at_x < 0 || at_x >= n) continue;
        sum += in[((unsigned long)at_z * n + at_y) * n + at_x] * filter[((unsigned long)dz * width + dy) * width + dx];
      }
    }
  }
  out[((unsigned long)z * n + y) * n + x] = sum;
}

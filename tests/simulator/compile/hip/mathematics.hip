// One function a row of the result.
#include <cmath>

#define ROWS 24
extern "C" __global__ void mathematics(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i], y = in[(i + 1) % n];
  float results[ROWS] = {
      sinf(x), std::cos(x), tanf(x), tanhf(x), expf(x), std::exp2(x), logf(fabsf(x)), log10f(std::fabs(x)),
      sqrtf(std::abs(x)), rsqrtf(fabsf(x)), powf(fabsf(x), y), cbrtf(x), erff(x), atan2f(x, y), hypotf(x, y), fmodf(x, y),
      floorf(x), ceil(x), rintf(x), std::trunc(x), fmaf(x, y, 1.0f), fminf(x, y), std::fmax(x, y), copysignf(x, y)};
  for (int row = 0; row < ROWS; row++) out[row * n + i] = results[row];
}

extern "C" __global__ void mathematics64(const double *in, double *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = in[i];
  double results[6] = {cbrt(x), exp(x), log(fabs(x)), std::pow(std::abs(x), 1.5), sqrt(fabs(x)), tanh(x)};
  for (int row = 0; row < 6; row++) out[row * n + i] = results[row];
}

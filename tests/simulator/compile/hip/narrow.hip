// Half precision and brain floats: arithmetic, conversion, pairs.
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>

extern "C" __global__ void halves(const __half *a, const __half *b, __half *out, float *wide, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half x = a[i], y = b[i];
  out[i] = __hfma(x, y, __float2half(1.0f)) + (x - y) * __half(0.5f);
  wide[i] = __half2float(x) * static_cast<float>(y) + (x < y ? 1.0f : 0.0f);
}

extern "C" __global__ void pairs(const __half2 *a, const __half2 *b, __half2 *out, float2 *wide, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __hfma2(a[i], b[i], __float2half2_rn(2.0f));
  wide[i] = __half22float2(__hadd2(a[i], b[i]));
}

extern "C" __global__ void brains(const __hip_bfloat16 *a, __hip_bfloat16 *out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __float2bfloat16(__bfloat162float(a[i]) * factor) + a[i];
}

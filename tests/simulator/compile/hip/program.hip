// A whole program as people write it: standard headers, a host that launches, a template that only it instantiates.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#define CHECK(call) \
  do { \
    hipError_t status = call; \
    if (status != hipSuccess) { \
      std::cerr << hipGetErrorString(status) << std::endl; \
      std::exit(EXIT_FAILURE); \
    } \
  } while (0)

template <typename T>
__global__ void scale(const T *in, T *out, T factor, size_t n) {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = std::max(in[i] * factor, T(0));
}

int main(int argc, char **argv) {
  size_t n = argc > 1 ? std::stoul(argv[1]) : 1 << 20;
  std::vector<float> host(n);
  std::generate(host.begin(), host.end(), [engine = std::mt19937(7)]() mutable { return engine() * 1e-9f; });
  float *in, *out;
  CHECK(hipMalloc(&in, n * sizeof(float)));
  CHECK(hipMalloc(&out, n * sizeof(float)));
  CHECK(hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice));
  hipEvent_t start, stop;
  CHECK(hipEventCreate(&start));
  CHECK(hipEventCreate(&stop));
  CHECK(hipEventRecord(start));
  scale<float><<<dim3((n + 255) / 256), dim3(256)>>>(in, out, 2.0f, n);
  hipLaunchKernelGGL(scale<double>, dim3(1), dim3(64), 0, 0, nullptr, nullptr, 2.0, size_t(0));
  CHECK(hipEventRecord(stop));
  CHECK(hipDeviceSynchronize());
  float milliseconds = 0;
  CHECK(hipEventElapsedTime(&milliseconds, start, stop));
  std::printf("%f ms\n", milliseconds);
  CHECK(hipFree(in));
  CHECK(hipFree(out));
}

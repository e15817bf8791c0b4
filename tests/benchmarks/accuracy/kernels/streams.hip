// Streams: one element of each array for each lane.

extern "C" __global__ void triad(float* a, const float* b, const float* c, float scalar, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = b[i] + scalar * c[i];
}

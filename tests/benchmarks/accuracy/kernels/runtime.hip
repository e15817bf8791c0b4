// What a HIP runtime launches for copies and fills inside device memory, as far as geometry and access width are known:
// 16 bytes a lane for copies, a word for fills, lanes that stride by the size of the grid.

extern "C" __global__ void copy_16_bytes(float4* destination, const float4* source, unsigned long items) {
  unsigned long stride = (unsigned long)gridDim.x * blockDim.x;
  for (unsigned long item = (unsigned long)blockIdx.x * blockDim.x + threadIdx.x; item < items; item += stride)
    destination[item] = source[item];
}

extern "C" __global__ void fill_words(unsigned* destination, unsigned value, unsigned long items) {
  unsigned long stride = (unsigned long)gridDim.x * blockDim.x;
  for (unsigned long item = (unsigned long)blockIdx.x * blockDim.x + threadIdx.x; item < items; item += stride)
    destination[item] = value;
}

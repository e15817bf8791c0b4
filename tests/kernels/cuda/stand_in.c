/* Stands for CUDA's driver, by the declarations of its own header: keeps the last launch and what is put on streams. */
#include <string.h>

#include "cuda.h"

static unsigned char arguments[4096];
static size_t size;
static unsigned long long last[8];
static int has_context = 1;

static CUresult keep(unsigned long long kind, unsigned long long a, unsigned long long b, unsigned long long c,
                     unsigned long long d) {
  if (!has_context) return CUDA_ERROR_INVALID_CONTEXT;
  const unsigned long long given[5] = {kind, a, b, c, d};
  memcpy(last, given, sizeof given);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
  if (!has_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (parameters != NULL || config->numAttrs != 0 || config->attrs != NULL) return CUDA_ERROR_INVALID_VALUE;
  if (extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE ||
      extra[4] != CU_LAUNCH_PARAM_END)
    return CUDA_ERROR_INVALID_VALUE;
  size = *(size_t *)extra[3];
  if (size > sizeof arguments) return CUDA_ERROR_INVALID_VALUE;
  memcpy(arguments, extra[1], size);
  const unsigned long long given[8] = {config->gridDimX,  config->gridDimY,       config->gridDimZ,
                                       config->blockDimX, config->blockDimY * 100 + config->blockDimZ,
                                       config->sharedMemBytes, (unsigned long long)config->hStream,
                                       (unsigned long long)function};
  memcpy(last, given, sizeof given);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return keep(1, target, source, bytes, (unsigned long long)stream);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return keep(2, (unsigned long long)event, (unsigned long long)stream, 0, 0);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return keep(3, (unsigned long long)stream, (unsigned long long)event, flags, 0);
}

/* A map, an address and a number. */
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
  static const size_t places[3][2] = {{0, 128}, {128, 8}, {136, 4}};
  if (index >= 3) return CUDA_ERROR_INVALID_VALUE;
  *offset = places[index][0];
  *bytes = places[index][1];
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  if ((unsigned long long)map % 64 != 0 || rank != 2) return CUDA_ERROR_INVALID_VALUE;
  const cuuint64_t found[16] = {type,   (cuuint64_t)address, sizes[0], sizes[1],   strides[0], box[0], box[1],
                                element_strides[0], element_strides[1], interleave, swizzle, promotion, fill};
  memcpy(map, found, sizeof *map);
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "another";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = 10 + ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = (CUcontext)(unsigned long long)(device + 100);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  has_context = (unsigned long long)context == 110;
  return CUDA_SUCCESS;
}

void forget_context(void) { has_context = 0; }
const unsigned char *last_arguments(void) { return arguments; }
size_t last_size(void) { return size; }
const unsigned long long *last_put(void) { return last; }

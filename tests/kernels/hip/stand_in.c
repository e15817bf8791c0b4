/* Stands for ROCm's library: knows modules and functions by what it was given, and keeps the last launch. */
#include <stddef.h>
#include <string.h>

static const void *image;
static char name[128];
static unsigned char arguments[4096];
static size_t size;
static unsigned sizes[7];
static void *last_stream;

int hipModuleLoadData(void **module, const void *data) {
  if (memcmp(data, "\177ELF", 4) != 0) return 209; /* hipErrorNoBinaryForGpu */
  image = data;
  *module = &image;
  return 0;
}

int hipModuleGetFunction(void **function, void *module, const char *wanted) {
  if (module != &image || strlen(wanted) >= sizeof name || strcmp(wanted, "missing") == 0) return 500;
  strcpy(name, wanted);
  *function = name;
  return 0;
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned lds, void *stream, void **parameters, void **extra) {
  const unsigned given[7] = {gx, gy, gz, bx, by, bz, lds};
  if (function != name || parameters != NULL) return 1;
  if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3) return 1;
  size = *(size_t *)extra[3];
  if (size > sizeof arguments) return 1;
  memcpy(arguments, extra[1], size);
  memcpy(sizes, given, sizeof sizes);
  last_stream = stream;
  return 0;
}

/* What is put on streams: its kind, and what it was given. */
static unsigned long long put[6];

int hipMemcpyAsync(void *target, const void *source, size_t bytes, int kind, void *stream) {
  const unsigned long long given[6] = {1, (unsigned long long)target, (unsigned long long)source, bytes,
                                       (unsigned long long)kind, (unsigned long long)stream};
  memcpy(put, given, sizeof put);
  return bytes == 0;
}

int hipEventRecord(void *event, void *stream) {
  const unsigned long long given[6] = {2, (unsigned long long)event, (unsigned long long)stream};
  memcpy(put, given, sizeof put);
  return 0;
}

int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
  const unsigned long long given[6] = {3, (unsigned long long)stream, (unsigned long long)event, flags};
  memcpy(put, given, sizeof put);
  return 0;
}

const unsigned long long *last_put(void) { return put; }

/* Device 1 is one hop of xGMI away, 2 is behind PCIe, 3 is two hops of xGMI away; there are no more. */
int hipExtGetLinkTypeAndHopCount(int device, int other, unsigned *type, unsigned *hops) {
  if (device != 0 || other > 3) return 101;
  *type = other == 2 ? 2 : 4;
  *hops = other == 1 ? 1 : 2;
  return 0;
}

const char *hipGetErrorString(int error) { return error == 500 ? "named symbol not found" : "refused"; }

const char *last_name(void) { return name; }
const unsigned char *last_arguments(void) { return arguments; }
size_t last_size(void) { return size; }
const unsigned *last_sizes(void) { return sizes; }

// Kernels with one fault each; the line that must be named ends in FAULT. Kernels named right_* have none.
#include <hip/hip_runtime.h>

#define AGENT __HIP_MEMORY_SCOPE_AGENT
#define SYSTEM __HIP_MEMORY_SCOPE_SYSTEM

// ---- out of bounds -----------------------------------------------------------------------------------------------

extern "C" __global__ void read_other_buffer(const float *a, float *out, long skip) {
    long i = threadIdx.x;
    out[i] = a[i + skip];  // FAULT
}

extern "C" __global__ void write_other_buffer(float *a, float *out, long skip) {
    long i = threadIdx.x;
    float *p = out + i;
    p[skip] = a[i];  // FAULT
}

extern "C" __global__ void overflowed_index(const float *a, float *out, int rows, int stride) {
    int i = rows * stride + threadIdx.x;
    out[threadIdx.x] = a[(unsigned)i];  // FAULT
}

extern "C" __global__ void right_chosen_buffer(float *a, float *out, int second) {
    float *p = second ? out : a;
    p[threadIdx.x] = 1.0f;
}

extern "C" __global__ void right_loaded_pointer(float **table, int n) {
    for (int k = 0; k < n; ++k)
        table[k][threadIdx.x] = (float)k;
}

extern "C" __global__ void lds_read_beyond(float *out, int skip) {
    __shared__ float s[64];
    s[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + skip];  // FAULT
}

extern "C" __global__ void lds_write_beyond(float *out, int skip) {
    __shared__ float s[64];
    s[threadIdx.x + skip] = 1.0f;  // FAULT
    __syncthreads();
    if (threadIdx.x == 0)
        out[0] = s[63];
}

// ---- misaligned --------------------------------------------------------------------------------------------------

extern "C" __global__ void misaligned_load(const char *a, int *out) {
    out[threadIdx.x] = ((const int *)(a + 1))[threadIdx.x];  // FAULT
}

extern "C" __global__ void misaligned_atomic(char *a) {
    atomicAdd((int *)(a + 2), 1);  // FAULT
}

extern "C" __global__ void misaligned_scalar(const char *__restrict__ a, int *__restrict__ out, int skip) {
    out[threadIdx.x] = *(const int *)(a + skip);  // FAULT
}

extern "C" __global__ void misaligned_lds(int *out, int skip) {
    __shared__ int s[130];
    s[threadIdx.x] = s[threadIdx.x + 64] = s[128] = 0;
    __syncthreads();
    out[threadIdx.x] = *(int *)((char *)&s[threadIdx.x] + skip);  // FAULT
}

// ---- never written -----------------------------------------------------------------------------------------------

extern "C" __global__ void read_never_written(const float *a, float *out) {
    out[threadIdx.x] = a[threadIdx.x] + 1.0f;  // FAULT
}

extern "C" __global__ void scalar_never_written(const int *__restrict__ a, int *__restrict__ out, int which) {
    out[threadIdx.x] = a[which];  // FAULT
}

extern "C" __global__ void atomic_never_written(int *a) {
    atomicAdd(a + threadIdx.x, 1);  // FAULT
}

extern "C" __global__ void right_written_first(float *a, float *out) {
    a[threadIdx.x] = 3.0f;
    __syncthreads();
    out[threadIdx.x] = a[threadIdx.x ^ 1];
}

extern "C" __global__ void lds_never_written(float *out, int n) {
    __shared__ float s[64];
    if (threadIdx.x < n)
        s[threadIdx.x] = 2.0f;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];  // FAULT
}

// ---- races in LDS ------------------------------------------------------------------------------------------------

extern "C" __global__ void lds_read_after_write(float *out) {
    __shared__ float s[256];
    s[threadIdx.x] = 0.0f;
    __syncthreads();
    s[threadIdx.x] = threadIdx.x + 1.0f;
    out[threadIdx.x] = s[threadIdx.x ^ 64];  // FAULT
}

extern "C" __global__ void lds_write_after_read(float *out) {
    __shared__ float s[256];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    float x = s[255 - threadIdx.x];
    s[threadIdx.x] = x + 1.0f;  // FAULT
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void lds_write_after_write(float *out) {
    __shared__ float s[64];
    s[threadIdx.x & 63] = threadIdx.x;  // FAULT
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x & 63];
}

extern "C" __global__ void lds_bytes_after_write(unsigned char *out) {
    __shared__ unsigned char s[256];
    s[threadIdx.x] = 0;
    __syncthreads();
    s[threadIdx.x] = threadIdx.x + 1;
    out[threadIdx.x] = s[(threadIdx.x + 1) & 255];  // FAULT
}

extern "C" __global__ void right_lds_barrier(float *out) {
    __shared__ float s[256];
    __shared__ unsigned char flags[256];
    for (int k = 0; k < 3; ++k) {
        s[threadIdx.x] = threadIdx.x + k;
        flags[threadIdx.x] = k;
        __syncthreads();
        out[256 * blockIdx.x + threadIdx.x] = s[threadIdx.x ^ 64] + flags[threadIdx.x ^ 65];
        __syncthreads();
    }
}

extern "C" __global__ void right_lds_atomics(int *out) {
    __shared__ int bins[16];
    if (threadIdx.x < 16)
        bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16)
        out[threadIdx.x] = bins[threadIdx.x];
}

extern "C" __global__ void right_lds_same_value(int *out, int value) {
    __shared__ int s[64];
    s[threadIdx.x & 63] = value + (threadIdx.x & 63);
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x & 63];
}

// ---- races in global memory --------------------------------------------------------------------------------------

extern "C" __global__ void read_after_write_in_workgroup(float *a, float *out) {
    a[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = a[threadIdx.x ^ 64];  // FAULT
}

extern "C" __global__ void read_after_write(float *a, float *out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    a[i] = i;
    if (i >= 64)
        out[i] = a[i - 64];  // FAULT
}

extern "C" __global__ void write_after_read(float *a, float *out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    out[i] = a[i + 64];
    a[i] = i;  // FAULT
}

extern "C" __global__ void write_after_own_read(float *a, float *out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    out[i] = a[threadIdx.x];
    if (blockIdx.x == 1)
        a[threadIdx.x] = i;  // FAULT
}

extern "C" __global__ void write_after_write(float *out) {
    out[threadIdx.x] = blockIdx.x + 1.0f;  // FAULT
}

extern "C" __global__ void bytes_after_write(unsigned char *out) {
    out[threadIdx.x + 63 * blockIdx.x] = blockIdx.x + 1;  // FAULT
}

extern "C" __global__ void plain_read_of_atomic(int *a, int *out) {
    atomicAdd(a, 1);
    out[blockIdx.x * 64 + threadIdx.x] = *a;  // FAULT
}

extern "C" __global__ void right_bytes_side_by_side(unsigned char *out) {
    out[blockIdx.x + 2 * threadIdx.x] = blockIdx.x + 1;
}

extern "C" __global__ void right_atomics(int *a) {
    atomicAdd(a + (threadIdx.x & 3), 1);
}

// ---- several lanes of one store ----------------------------------------------------------------------------------

extern "C" __global__ void collision(int *out) {
    out[threadIdx.x / 2] = threadIdx.x;  // FAULT
}

extern "C" __global__ void lds_collision(int *out) {
    __shared__ int s[64];
    s[threadIdx.x / 2] = threadIdx.x;  // FAULT
    __syncthreads();
    if (threadIdx.x < 32)
        out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void right_same_value(int *out, int value) {
    out[threadIdx.x / 2] = value;
}

// ---- flags: workgroup 0 hands over to workgroup 1 ----------------------------------------------------------------

#define WRITE_DATA(value) if (blockIdx.x == 0) { data[threadIdx.x] = (value); __syncthreads(); if (threadIdx.x == 0) {
#define WRITTEN } }
#define WAIT_FOR(load) else { while (load != 1) __builtin_amdgcn_s_sleep(1);

extern "C" __global__ void right_flag(int *data, int *flag, int *out) {
    WRITE_DATA(7) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT); WRITTEN
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT))
        out[threadIdx.x] = data[threadIdx.x];
    }
}

extern "C" __global__ void right_system_flag(int *data, int *flag, int *out) {
    WRITE_DATA(7) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, SYSTEM); WRITTEN
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_ACQUIRE, SYSTEM))
        out[threadIdx.x] = data[threadIdx.x];
    }
}

extern "C" __global__ void right_acquire_by_one(int *data, int *flag, int *out) {
    WRITE_DATA(7) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT); WRITTEN
    else {
        if (threadIdx.x == 0)
            while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT) != 1) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x ^ 64];
    }
}

extern "C" __global__ void right_last_one_sums(int *data, int *count, int *out) {
    __shared__ int last;
    data[blockIdx.x * 64 + threadIdx.x] = blockIdx.x + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0)
        last = __hip_atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL, AGENT) == (int)gridDim.x - 1;
    __syncthreads();
    if (last) {
        int sum = 0;
        for (int k = 0; k < gridDim.x; ++k)
            sum += data[k * 64 + threadIdx.x];
        out[threadIdx.x] = sum;
    }
}

extern "C" __global__ void right_released_sum(int *data, int *count, int *out) {
    data[blockIdx.x * 64 + threadIdx.x] = blockIdx.x + threadIdx.x;
    bool last = __hip_atomic_fetch_add(count, 1, __ATOMIC_RELEASE, AGENT) == (int)(gridDim.x * 64) - 1;
    if (__ballot(last)) {
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        int sum = 0;
        for (int k = 0; k < gridDim.x; ++k)
            sum += data[k * 64 + threadIdx.x];
        out[threadIdx.x] = sum;
    }
}

extern "C" __global__ void right_passed_on(int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = 7;
        if (threadIdx.x == 0)
            __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
    } else {
        while (__hip_atomic_load(flag + blockIdx.x - 1, __ATOMIC_ACQUIRE, AGENT) != 1) {}
        out[blockIdx.x * 64 + threadIdx.x] = data[threadIdx.x];
        if (threadIdx.x == 0)
            __hip_atomic_store(flag + blockIdx.x, 1, __ATOMIC_RELEASE, AGENT);
    }
}

extern "C" __global__ void right_written_through(int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        __hip_atomic_store(data + threadIdx.x, 7, __ATOMIC_RELAXED, AGENT);
        __syncthreads();
        if (threadIdx.x == 0)
            __hip_atomic_store(flag, 1, __ATOMIC_RELAXED, AGENT);
    } else {
        while (__hip_atomic_load(flag, __ATOMIC_RELAXED, AGENT) != 1) {}
        out[threadIdx.x] = __hip_atomic_load(data + threadIdx.x, __ATOMIC_RELAXED, AGENT);
    }
}

extern "C" __global__ void no_release(int *data, int *flag, int *out) {
    WRITE_DATA(7) __hip_atomic_store(flag, 1, __ATOMIC_RELAXED, AGENT); WRITTEN
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT))
        out[threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void no_wait(int *data, int *flag, int *out) {
    WRITE_DATA(7) asm volatile("buffer_wbl2 sc1" ::: "memory");
    __hip_atomic_store(flag, 1, __ATOMIC_RELAXED, AGENT); WRITTEN
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT))
        out[threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void no_acquire(int *data, int *flag, int *out) {
    WRITE_DATA(7) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT); WRITTEN
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_RELAXED, AGENT))
        out[threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void acquire_too_early(int *data, int *flag, int *out) {
    WRITE_DATA(7) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT); WRITTEN
    else {
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        while (__hip_atomic_load(flag, __ATOMIC_RELAXED, AGENT) != 1) {}
        out[threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void scopes_differ(int *data, int *flag, int *out) {
    WRITE_DATA(7) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, SYSTEM); WRITTEN
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT))
        out[threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void flag_before_data(int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0)
            __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
        data[threadIdx.x] = 7;
    }
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT))
        out[threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void other_waves_not_waited_for(int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = 7;
        if (threadIdx.x == 64)
            __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
    }
    WAIT_FOR(__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT))
        out[threadIdx.x] = data[threadIdx.x];  // FAULT
    }
}

extern "C" __global__ void plain_flag(int *data, int *flag, int *out) {
    WRITE_DATA(7) *flag = 1; WRITTEN
    else {
        int seen = *flag;  // FAULT
        out[threadIdx.x] = seen;
    }
}

// ---- barriers ----------------------------------------------------------------------------------------------------

extern "C" __global__ void barrier_of_some_lanes(int *out, int n) {
    if (threadIdx.x < n)
        __builtin_amdgcn_s_barrier();  // FAULT
    out[threadIdx.x] = n;
}

extern "C" __global__ void different_barriers(int *out) {
    if (__builtin_amdgcn_readfirstlane(threadIdx.x) == 0)
        asm volatile("s_barrier ; one" ::: "memory");
    else
        asm volatile("s_barrier ; two" ::: "memory");  // FAULT
    out[threadIdx.x] = 1;
}

extern "C" __global__ void right_some_waves_end_early(int *out, int n) {
    __shared__ int s[256];
    if (__builtin_amdgcn_readfirstlane(threadIdx.x) >= n)
        return;
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 64];
}

// ---- waiting without end -----------------------------------------------------------------------------------------

extern "C" __global__ void waits_for_a_later_workgroup(int *flag) {
    if (blockIdx.x == 0)
        while (__hip_atomic_load(flag + 3, __ATOMIC_RELAXED, AGENT) == 0) {}  // FAULT
    else
        __hip_atomic_store(flag + 3, 1, __ATOMIC_RELAXED, AGENT);
}

extern "C" __global__ void takes_a_lock_twice(int *lock) {
    for (int k = 0; k < 2; ++k)
        if (threadIdx.x == 0)
            while (atomicCAS(lock, 0, 1) != 0) {}  // FAULT
}

extern "C" __global__ void waits_and_broadcasts(int *flag) {
    __shared__ int seen;
    do {
        if (threadIdx.x == 0)
            seen = __hip_atomic_fetch_add(flag, 0, __ATOMIC_ACQUIRE, AGENT);  // FAULT
        __syncthreads();
    } while (seen == 0);
}

extern "C" __global__ void right_long_loop_of_one_atomic(int *count, int n) {
    for (int k = 0; k < n; ++k)
        atomicAdd(count, 1);
}

extern "C" __global__ void right_long_loop_of_one_read(int *out, int n) {
    int sum = 0;
    __shared__ int s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    int place = 4 * threadIdx.x;
    for (int k = 0; k < n; ++k) {
        int value;
        asm volatile("ds_read_b32 %0, %1\n\ts_waitcnt lgkmcnt(0)" : "=v"(value) : "v"(place));
        sum += value;
    }
    out[threadIdx.x] = sum + s[threadIdx.x];
}

extern "C" __global__ void waits_for_its_own_workgroup(int *out) {
    __shared__ volatile int ready;
    if (threadIdx.x == 0)
        ready = 0;
    __syncthreads();
    if (threadIdx.x >= 64)
        while (ready == 0) {}  // FAULT
    __syncthreads();
    if (threadIdx.x == 0)
        ready = 1;
    out[threadIdx.x] = ready;
}

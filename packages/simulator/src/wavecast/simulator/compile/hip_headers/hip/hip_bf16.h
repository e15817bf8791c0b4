/* Brain floats under HIP's names, for a compiler that comes without ROCm: thin names for the compiler's __bf16. */
#pragma once
#include <hip/hip_runtime.h>

#define WAVECAST_BOTH __host__ __device__ inline __attribute__((always_inline))

struct __hip_bfloat16_raw {
  unsigned short x;
};

struct __hip_bfloat16 {
  union {
    __bf16 data;
    unsigned short __x;
  };
  WAVECAST_BOTH __hip_bfloat16() {}
  WAVECAST_BOTH __hip_bfloat16(__bf16 value) : data(value) {}
  WAVECAST_BOTH __hip_bfloat16(float value) : data((__bf16)value) {}
  WAVECAST_BOTH __hip_bfloat16(double value) : data((__bf16)(float)value) {}
  WAVECAST_BOTH __hip_bfloat16(int value) : data((__bf16)(float)value) {}
  WAVECAST_BOTH __hip_bfloat16(__hip_bfloat16_raw raw) : __x(raw.x) {}
  WAVECAST_BOTH operator float() const { return (float)data; }
  WAVECAST_BOTH operator __hip_bfloat16_raw() const { return __hip_bfloat16_raw{__x}; }
  WAVECAST_BOTH __hip_bfloat16 operator-() const { return __hip_bfloat16(-(float)data); }
};
typedef __hip_bfloat16 hip_bfloat16;

struct __hip_bfloat162 {
  __hip_bfloat16 x, y;
};

#define WAVECAST_BRAIN_OPERATOR(SIGN, NAME) \
  WAVECAST_BOTH __hip_bfloat16 operator SIGN(__hip_bfloat16 a, __hip_bfloat16 b) { \
    return __hip_bfloat16((float)a.data SIGN (float)b.data); \
  } \
  WAVECAST_BOTH __hip_bfloat16 &operator SIGN##=(__hip_bfloat16 &a, __hip_bfloat16 b) { return a = a SIGN b; } \
  WAVECAST_BOTH __hip_bfloat16 NAME(__hip_bfloat16 a, __hip_bfloat16 b) { return a SIGN b; }
WAVECAST_BRAIN_OPERATOR(+, __hadd)
WAVECAST_BRAIN_OPERATOR(-, __hsub)
WAVECAST_BRAIN_OPERATOR(*, __hmul)
WAVECAST_BRAIN_OPERATOR(/, __hdiv)
#define WAVECAST_BRAIN_COMPARISON(SIGN) \
  WAVECAST_BOTH bool operator SIGN(__hip_bfloat16 a, __hip_bfloat16 b) { return (float)a.data SIGN (float)b.data; }
WAVECAST_BRAIN_COMPARISON(==)
WAVECAST_BRAIN_COMPARISON(!=)
WAVECAST_BRAIN_COMPARISON(<)
WAVECAST_BRAIN_COMPARISON(<=)
WAVECAST_BRAIN_COMPARISON(>)
WAVECAST_BRAIN_COMPARISON(>=)

WAVECAST_BOTH __hip_bfloat16 __float2bfloat16(float a) { return __hip_bfloat16(a); }
WAVECAST_BOTH __hip_bfloat16 __double2bfloat16(double a) { return __hip_bfloat16(a); }
WAVECAST_BOTH float __bfloat162float(__hip_bfloat16 a) { return (float)a.data; }
WAVECAST_BOTH __hip_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return __hip_bfloat162{__hip_bfloat16(a), __hip_bfloat16(b)};
}
WAVECAST_BOTH float2 __bfloat1622float2(__hip_bfloat162 a) { return float2((float)a.x.data, (float)a.y.data); }
WAVECAST_BOTH unsigned short __bfloat16_as_ushort(__hip_bfloat16 a) { return a.__x; }
WAVECAST_BOTH __hip_bfloat16 __ushort_as_bfloat16(unsigned short a) {
  return __hip_bfloat16(__hip_bfloat16_raw{a});
}
WAVECAST_BOTH __hip_bfloat16 __hfma(__hip_bfloat16 a, __hip_bfloat16 b, __hip_bfloat16 c) {
  return __hip_bfloat16(__builtin_fmaf((float)a.data, (float)b.data, (float)c.data));
}

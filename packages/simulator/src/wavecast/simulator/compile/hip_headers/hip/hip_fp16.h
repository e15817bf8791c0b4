/* Half precision under HIP's names, for a compiler that comes without ROCm: thin names for the compiler's _Float16. */
#pragma once
#include <hip/hip_runtime.h>

#define WAVECAST_BOTH __host__ __device__ inline __attribute__((always_inline))

struct __half_raw {
  unsigned short x;
};

struct __half {
  union {
    _Float16 data;
    unsigned short __x;
  };
  WAVECAST_BOTH __half() {}
  WAVECAST_BOTH __half(_Float16 value) : data(value) {}
  WAVECAST_BOTH __half(float value) : data((_Float16)value) {}
  WAVECAST_BOTH __half(double value) : data((_Float16)value) {}
  WAVECAST_BOTH __half(int value) : data((_Float16)value) {}
  WAVECAST_BOTH __half(unsigned value) : data((_Float16)value) {}
  WAVECAST_BOTH __half(long value) : data((_Float16)value) {}
  WAVECAST_BOTH __half(unsigned long value) : data((_Float16)value) {}
  WAVECAST_BOTH __half(__half_raw raw) : __x(raw.x) {}
  WAVECAST_BOTH operator float() const { return data; }
  WAVECAST_BOTH operator _Float16() const { return data; }
  WAVECAST_BOTH operator __half_raw() const { return __half_raw{__x}; }
  WAVECAST_BOTH __half operator-() const { return __half((_Float16)-data); }
  WAVECAST_BOTH __half &operator+=(__half other) { data += other.data; return *this; }
  WAVECAST_BOTH __half &operator-=(__half other) { data -= other.data; return *this; }
  WAVECAST_BOTH __half &operator*=(__half other) { data *= other.data; return *this; }
  WAVECAST_BOTH __half &operator/=(__half other) { data /= other.data; return *this; }
};
typedef __half half;

typedef _Float16 wavecast_half2 __attribute__((ext_vector_type(2)));
struct __half2 {
  union {
    wavecast_half2 data;
    struct {
      __half x, y;
    };
  };
  WAVECAST_BOTH __half2() {}
  WAVECAST_BOTH __half2(wavecast_half2 value) : data(value) {}
  WAVECAST_BOTH __half2(__half low, __half high) : data{low.data, high.data} {}
};
typedef __half2 half2;

#define WAVECAST_HALF_OPERATOR(SIGN, NAME, NAME2) \
  WAVECAST_BOTH __half operator SIGN(__half a, __half b) { return __half((_Float16)(a.data SIGN b.data)); } \
  WAVECAST_BOTH __half2 operator SIGN(__half2 a, __half2 b) { return __half2(a.data SIGN b.data); } \
  WAVECAST_BOTH __half NAME(__half a, __half b) { return a SIGN b; } \
  WAVECAST_BOTH __half2 NAME2(__half2 a, __half2 b) { return a SIGN b; }
WAVECAST_HALF_OPERATOR(+, __hadd, __hadd2)
WAVECAST_HALF_OPERATOR(-, __hsub, __hsub2)
WAVECAST_HALF_OPERATOR(*, __hmul, __hmul2)
WAVECAST_HALF_OPERATOR(/, __hdiv, __h2div)
#define WAVECAST_HALF_COMPARISON(SIGN, NAME) \
  WAVECAST_BOTH bool operator SIGN(__half a, __half b) { return a.data SIGN b.data; } \
  WAVECAST_BOTH bool NAME(__half a, __half b) { return a.data SIGN b.data; }
WAVECAST_HALF_COMPARISON(==, __heq)
WAVECAST_HALF_COMPARISON(!=, __hne)
WAVECAST_HALF_COMPARISON(<, __hlt)
WAVECAST_HALF_COMPARISON(<=, __hle)
WAVECAST_HALF_COMPARISON(>, __hgt)
WAVECAST_HALF_COMPARISON(>=, __hge)

WAVECAST_BOTH __half __hneg(__half a) { return -a; }
WAVECAST_BOTH __half __habs(__half a) { return __half((_Float16)__builtin_fabsf16(a.data)); }
WAVECAST_BOTH bool __hisnan(__half a) { return a.data != a.data; }
WAVECAST_BOTH __half __hmax(__half a, __half b) { return __half((_Float16)__builtin_fmaxf16(a.data, b.data)); }
WAVECAST_BOTH __half __hmin(__half a, __half b) { return __half((_Float16)__builtin_fminf16(a.data, b.data)); }
WAVECAST_BOTH __half __hfma(__half a, __half b, __half c) {
  return __half((_Float16)__builtin_fmaf16(a.data, b.data, c.data));
}
WAVECAST_BOTH __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __half2(__builtin_elementwise_fma(a.data, b.data, c.data));
}
WAVECAST_BOTH __half2 __hneg2(__half2 a) { return __half2(-a.data); }

WAVECAST_BOTH __half __float2half(float a) { return __half(a); }
WAVECAST_BOTH __half __float2half_rn(float a) { return __half(a); }
WAVECAST_BOTH __half __double2half(double a) { return __half(a); }
WAVECAST_BOTH float __half2float(__half a) { return a.data; }
WAVECAST_BOTH __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
WAVECAST_BOTH __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
WAVECAST_BOTH __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
WAVECAST_BOTH float2 __half22float2(__half2 a) { return float2(a.data.x, a.data.y); }
WAVECAST_BOTH float __low2float(__half2 a) { return a.data.x; }
WAVECAST_BOTH float __high2float(__half2 a) { return a.data.y; }
WAVECAST_BOTH __half __low2half(__half2 a) { return a.x; }
WAVECAST_BOTH __half __high2half(__half2 a) { return a.y; }
WAVECAST_BOTH __half2 __half2half2(__half a) { return __half2(a, a); }
WAVECAST_BOTH __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
WAVECAST_BOTH __half2 make_half2(__half a, __half b) { return __half2(a, b); }
WAVECAST_BOTH __half __int2half_rn(int a) { return __half(a); }
WAVECAST_BOTH int __half2int_rn(__half a) { return (int)__builtin_rintf(a.data); }
WAVECAST_BOTH int __half2int_rz(__half a) { return (int)a.data; }
WAVECAST_BOTH unsigned short __half_as_ushort(__half a) { return a.__x; }
WAVECAST_BOTH __half __ushort_as_half(unsigned short a) { return __half(__half_raw{a}); }

#define WAVECAST_HALF_FUNCTION(NAME, EXPRESSION) \
  WAVECAST_DEVICE __half NAME(__half a) { return __half((_Float16)(EXPRESSION)); }
WAVECAST_HALF_FUNCTION(hsqrt, __builtin_sqrtf16(a.data))
WAVECAST_HALF_FUNCTION(hrsqrt, __builtin_amdgcn_rsqh(a.data))
WAVECAST_HALF_FUNCTION(hrcp, __builtin_amdgcn_rcph(a.data))
WAVECAST_HALF_FUNCTION(hfloor, __builtin_floorf16(a.data))
WAVECAST_HALF_FUNCTION(hceil, __builtin_ceilf16(a.data))
WAVECAST_HALF_FUNCTION(htrunc, __builtin_truncf16(a.data))
WAVECAST_HALF_FUNCTION(hrint, __builtin_rintf16(a.data))
WAVECAST_HALF_FUNCTION(hexp, __builtin_expf((float)a.data))
WAVECAST_HALF_FUNCTION(hexp2, __builtin_exp2f((float)a.data))
WAVECAST_HALF_FUNCTION(hlog, __builtin_logf((float)a.data))
WAVECAST_HALF_FUNCTION(hsin, __ocml_sin_f32((float)a.data))
WAVECAST_HALF_FUNCTION(hcos, __ocml_cos_f32((float)a.data))

WAVECAST_DEVICE __half __shfl(__half a, int lane, int width = warpSize) {
  return __ushort_as_half((unsigned short)__shfl((int)a.__x, lane, width));
}
WAVECAST_DEVICE __half __shfl_down(__half a, unsigned distance, int width = warpSize) {
  return __ushort_as_half((unsigned short)__shfl_down((int)a.__x, distance, width));
}
WAVECAST_DEVICE __half __shfl_xor(__half a, int mask, int width = warpSize) {
  return __ushort_as_half((unsigned short)__shfl_xor((int)a.__x, mask, width));
}

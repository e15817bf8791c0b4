/* What clang's own headers give every HIP file before its first line, for a clang that comes without them: the keywords,
   and the C mathematics on the device. It is included before everything else, so that libc++'s <cmath> takes the device
   functions into std along with the host's. */
#pragma once

#define __HIP__ 1
#define __HIPCC__ 1
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
/* hip_runtime.h shall take this file for clang's, and not look for that one. */
#define __CLANG_HIP_RUNTIME_WRAPPER_INCLUDED__ 1

#define WAVECAST_DEVICE static __device__ inline __attribute__((always_inline))
#define WAVECAST_LIBRARY extern "C" __device__ __attribute__((const))

template <bool, typename T> struct wavecast_enable_if {};
template <typename T> struct wavecast_enable_if<true, T> { typedef T type; };
#define WAVECAST_IF_INTEGRAL(T, RESULT) typename wavecast_enable_if<__is_integral(T), RESULT>::type

/* A function of one argument under its three names, and for integers as for double. */
#define WAVECAST_UNARY(NAME, F32, F64) \
  WAVECAST_DEVICE float NAME##f(float x) { return F32(x); } \
  WAVECAST_DEVICE float NAME(float x) { return F32(x); } \
  WAVECAST_DEVICE double NAME(double x) { return F64(x); } \
  template <typename T> WAVECAST_DEVICE WAVECAST_IF_INTEGRAL(T, double) NAME(T x) { return F64((double)x); }
#define WAVECAST_BINARY(NAME, F32, F64) \
  WAVECAST_DEVICE float NAME##f(float x, float y) { return F32(x, y); } \
  WAVECAST_DEVICE float NAME(float x, float y) { return F32(x, y); } \
  WAVECAST_DEVICE double NAME(double x, double y) { return F64(x, y); }

/* Those that the compiler expands itself. */
#define WAVECAST_BUILTIN_1(NAME) WAVECAST_UNARY(NAME, __builtin_##NAME##f, __builtin_##NAME)
#define WAVECAST_BUILTIN_2(NAME) WAVECAST_BINARY(NAME, __builtin_##NAME##f, __builtin_##NAME)
/* Those of ROCm's device library. */
#define WAVECAST_OCML_1(NAME) \
  WAVECAST_LIBRARY float __ocml_##NAME##_f32(float); \
  WAVECAST_LIBRARY double __ocml_##NAME##_f64(double); \
  WAVECAST_UNARY(NAME, __ocml_##NAME##_f32, __ocml_##NAME##_f64)
#define WAVECAST_OCML_2(NAME) \
  WAVECAST_LIBRARY float __ocml_##NAME##_f32(float, float); \
  WAVECAST_LIBRARY double __ocml_##NAME##_f64(double, double); \
  WAVECAST_BINARY(NAME, __ocml_##NAME##_f32, __ocml_##NAME##_f64)

WAVECAST_BUILTIN_1(ceil)
WAVECAST_BUILTIN_1(fabs)
WAVECAST_BUILTIN_1(floor)
WAVECAST_BUILTIN_1(nearbyint)
WAVECAST_BUILTIN_1(rint)
WAVECAST_BUILTIN_1(round)
WAVECAST_BUILTIN_1(sqrt)
WAVECAST_BUILTIN_1(trunc)
WAVECAST_BUILTIN_2(copysign)
WAVECAST_BUILTIN_2(fmax)
WAVECAST_BUILTIN_2(fmin)
WAVECAST_OCML_1(acos)
WAVECAST_OCML_1(acosh)
WAVECAST_OCML_1(asin)
WAVECAST_OCML_1(asinh)
WAVECAST_OCML_1(atan)
WAVECAST_OCML_1(atanh)
WAVECAST_OCML_1(cbrt)
WAVECAST_OCML_1(cos)
WAVECAST_OCML_1(cosh)
WAVECAST_OCML_1(erf)
WAVECAST_OCML_1(erfc)
WAVECAST_OCML_1(exp10)
WAVECAST_OCML_1(expm1)
WAVECAST_OCML_1(lgamma)
WAVECAST_OCML_1(log1p)
WAVECAST_OCML_1(logb)
WAVECAST_OCML_1(rsqrt)
WAVECAST_OCML_1(sin)
WAVECAST_OCML_1(sinh)
WAVECAST_OCML_1(tan)
WAVECAST_OCML_1(tanh)
WAVECAST_OCML_1(tgamma)
WAVECAST_OCML_2(atan2)
WAVECAST_OCML_2(fdim)
WAVECAST_OCML_2(fmod)
WAVECAST_OCML_2(hypot)
WAVECAST_OCML_2(nextafter)
WAVECAST_OCML_2(pow)
WAVECAST_OCML_2(remainder)

/* Exponentials and logarithms: the compiler expands single precision, the library has double. */
#define WAVECAST_EXPONENTIAL(NAME) \
  WAVECAST_LIBRARY double __ocml_##NAME##_f64(double); \
  WAVECAST_UNARY(NAME, __builtin_##NAME##f, __ocml_##NAME##_f64)
WAVECAST_EXPONENTIAL(exp)
WAVECAST_EXPONENTIAL(exp2)
WAVECAST_EXPONENTIAL(log)
WAVECAST_EXPONENTIAL(log2)
WAVECAST_EXPONENTIAL(log10)

WAVECAST_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
WAVECAST_DEVICE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
WAVECAST_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
WAVECAST_DEVICE float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
WAVECAST_DEVICE float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }
WAVECAST_DEVICE double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
WAVECAST_DEVICE float scalbnf(float x, int n) { return __builtin_ldexpf(x, n); }
WAVECAST_DEVICE double scalbn(double x, int n) { return __builtin_ldexp(x, n); }
WAVECAST_DEVICE float frexpf(float x, int *n) { return __builtin_frexpf(x, n); }
WAVECAST_DEVICE double frexp(double x, int *n) { return __builtin_frexp(x, n); }
WAVECAST_DEVICE float pow(float x, int n) { return __ocml_pow_f32(x, (float)n); }
WAVECAST_DEVICE double pow(double x, int n) { return __ocml_pow_f64(x, (double)n); }
WAVECAST_DEVICE void sincosf(float x, float *s, float *c) { *s = __ocml_sin_f32(x); *c = __ocml_cos_f32(x); }
WAVECAST_DEVICE void sincos(double x, double *s, double *c) { *s = __ocml_sin_f64(x); *c = __ocml_cos_f64(x); }
WAVECAST_DEVICE long lrintf(float x) { return (long)__builtin_rintf(x); }
WAVECAST_DEVICE long lrint(double x) { return (long)__builtin_rint(x); }
WAVECAST_DEVICE long lroundf(float x) { return (long)__builtin_roundf(x); }
WAVECAST_DEVICE long lround(double x) { return (long)__builtin_round(x); }

WAVECAST_DEVICE int abs(int x) { return x < 0 ? -x : x; }
WAVECAST_DEVICE long labs(long x) { return x < 0 ? -x : x; }
WAVECAST_DEVICE long abs(long x) { return x < 0 ? -x : x; }
WAVECAST_DEVICE long long llabs(long long x) { return x < 0 ? -x : x; }
WAVECAST_DEVICE long long abs(long long x) { return x < 0 ? -x : x; }
WAVECAST_DEVICE float abs(float x) { return __builtin_fabsf(x); }
WAVECAST_DEVICE double abs(double x) { return __builtin_fabs(x); }

#define WAVECAST_CLASSIFY(NAME, TEST) \
  WAVECAST_DEVICE bool NAME(float x) { return TEST(x); } \
  WAVECAST_DEVICE bool NAME(double x) { return TEST(x); }
WAVECAST_CLASSIFY(isnan, __builtin_isnan)
WAVECAST_CLASSIFY(isinf, __builtin_isinf)
WAVECAST_CLASSIFY(isfinite, __builtin_isfinite)
WAVECAST_CLASSIFY(signbit, __builtin_signbit)

/* CUDA's names without overloads. */
#define WAVECAST_SMALLER_LARGER(T) \
  WAVECAST_DEVICE T min(T a, T b) { return a < b ? a : b; } \
  WAVECAST_DEVICE T max(T a, T b) { return a < b ? b : a; }
WAVECAST_SMALLER_LARGER(int)
WAVECAST_SMALLER_LARGER(unsigned)
WAVECAST_SMALLER_LARGER(long)
WAVECAST_SMALLER_LARGER(unsigned long)
WAVECAST_SMALLER_LARGER(long long)
WAVECAST_SMALLER_LARGER(unsigned long long)
WAVECAST_DEVICE float min(float a, float b) { return __builtin_fminf(a, b); }
WAVECAST_DEVICE float max(float a, float b) { return __builtin_fmaxf(a, b); }
WAVECAST_DEVICE double min(double a, double b) { return __builtin_fmin(a, b); }
WAVECAST_DEVICE double max(double a, double b) { return __builtin_fmax(a, b); }

/* The fast forms: one instruction, or a few. */
WAVECAST_DEVICE float __cosf(float x) { return __builtin_amdgcn_cosf(x * 0.15915494f); }
WAVECAST_DEVICE float __sinf(float x) { return __builtin_amdgcn_sinf(x * 0.15915494f); }
WAVECAST_DEVICE float __tanf(float x) { return __sinf(x) * __builtin_amdgcn_rcpf(__cosf(x)); }
WAVECAST_DEVICE float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504f); }
WAVECAST_DEVICE float __exp10f(float x) { return __builtin_amdgcn_exp2f(x * 3.32192809f); }
WAVECAST_DEVICE float __log2f(float x) { return __builtin_amdgcn_logf(x); }
WAVECAST_DEVICE float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.69314718f; }
WAVECAST_DEVICE float __log10f(float x) { return __builtin_amdgcn_logf(x) * 0.30103f; }
WAVECAST_DEVICE float __powf(float x, float y) { return __builtin_amdgcn_exp2f(y * __builtin_amdgcn_logf(x)); }
WAVECAST_DEVICE void __sincosf(float x, float *s, float *c) { *s = __sinf(x); *c = __cosf(x); }
WAVECAST_DEVICE float __saturatef(float x) { return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }
WAVECAST_DEVICE float __fdividef(float x, float y) { return x / y; }
WAVECAST_DEVICE float __fadd_rn(float x, float y) { return x + y; }
WAVECAST_DEVICE float __fsub_rn(float x, float y) { return x - y; }
WAVECAST_DEVICE float __fmul_rn(float x, float y) { return x * y; }
WAVECAST_DEVICE float __fdiv_rn(float x, float y) { return x / y; }
WAVECAST_DEVICE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
WAVECAST_DEVICE float __frcp_rn(float x) { return 1.0f / x; }
WAVECAST_DEVICE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
WAVECAST_DEVICE float __frsqrt_rn(float x) { return __builtin_amdgcn_rsqf(x); }
WAVECAST_DEVICE double __dadd_rn(double x, double y) { return x + y; }
WAVECAST_DEVICE double __dmul_rn(double x, double y) { return x * y; }
WAVECAST_DEVICE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }

#include <hip/hip_runtime.h>
/* A keyword of ROCm's headers that is a name in libc++'s. */
#undef __local

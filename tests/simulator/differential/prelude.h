/* What generated functions build on, for both targets. Every helper is defined for all values of its arguments:
   counts are masked, divisors are never zero, floats are in range before they become integers, and a NaN, whose bits
   differ between processors, never becomes an integer. */
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef _Float16 f16;
typedef float f32;
typedef double f64;
typedef __bf16 bf16;
typedef i16 i16x2 __attribute__((ext_vector_type(2)));
typedef u16 u16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef f32 f32x2 __attribute__((ext_vector_type(2)));

#define INLINE static inline __attribute__((always_inline))
#ifdef __AMDGCN__
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3)))
#define BARRIER() do { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup"); __builtin_amdgcn_s_barrier(); } while (0)
#else
#define GLOBAL
#define LOCAL
#endif
#define ATOMIC(name, place, value) __scoped_atomic_##name(place, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
#define COPY(to, from) __builtin_memcpy(&(to), &(from), sizeof(to))

/* Helpers of an integer type: T signed or unsigned, U its unsigned twin, S its signed one, W one of twice the width. */
#define COMMON(T, U, S, W, B) \
  INLINE T least_##T(T a, T b) { return __builtin_elementwise_min(a, b); } \
  INLINE T most_##T(T a, T b) { return __builtin_elementwise_max(a, b); } \
  INLINE T add_sat_##T(T a, T b) { return __builtin_elementwise_add_sat(a, b); } \
  INLINE T sub_sat_##T(T a, T b) { return __builtin_elementwise_sub_sat(a, b); } \
  INLINE T shl_##T(T a, u32 n) { return (T)(a << (n & (B - 1))); } \
  INLINE T shr_##T(T a, u32 n) { return (T)(a >> (n & (B - 1))); } \
  INLINE T rotate_##T(T a, u32 n) { U u = (U)a; return (T)(U)((u << (n & (B - 1))) | (u >> (-n & (B - 1)))); } \
  INLINE T ones_##T(T a) { return (T)__builtin_popcountg((U)a); } \
  INLINE T leading_##T(T a) { return (T)__builtin_clzg((U)a, B); } \
  INLINE T trailing_##T(T a) { return (T)__builtin_ctzg((U)a, B); } \
  INLINE T high_##T(T a, T b) { return (T)(((W)a * (W)b) >> B); } \
  INLINE T field_##T(T a, u32 at, u32 n) { return (T)(((T)(a << (at & (B - 1)))) >> (n & (B - 1))); } \
  INLINE T insert_##T(T m, T a, T b) { return (T)((m & a) | (~m & b)); } \
  INLINE T distance_##T(T a, T b, T c) { return (T)((a > b ? a - b : b - a) + c); } \
  INLINE T short_product_##T(T a, T b, T c) { return (T)((T)((a & 0xffff) * (b & 0xffff)) + c); } \
  INLINE T carry_##T(T a, T b) { T r; T o = (T)__builtin_add_overflow(a, b, &r); return (T)(r ^ o); } \
  INLINE T borrow_##T(T a, T b) { T r; T o = (T)__builtin_sub_overflow(a, b, &r); return (T)(r - o); } \
  INLINE T middle_##T(T a, T b, T c) { T l = a < b ? a : b, h = a < b ? b : a; T x = h < c ? h : c; return l > x ? l : x; }
#define SIGNED(T, U, W, B) \
  COMMON(T, U, T, W, B) \
  INLINE T size_##T(T a) { return __builtin_elementwise_abs(a); } \
  INLINE T divisor_##T(T a) { a |= 1; return a == -1 ? 7 : a; } \
  INLINE T from_f16_##T(f16 a) { return a > (f16)(B == 8 ? -128.0 : -32768.0) && a < (f16)(B == 8 ? 127.0 : 32752.0) ? (T)a : (T)77; } \
  INLINE T from_f32_##T(f32 a) { return a > -0x1p##B##f * 0.5f && a < 0x1p##B##f * 0.499f ? (T)a : (T)-3; } \
  INLINE T from_f64_##T(f64 a) { return a > -0x1p##B * 0.5 && a < 0x1p##B * 0.499 ? (T)a : (T)-5; }
#define UNSIGNED(T, S, W, B) \
  COMMON(T, T, S, W, B) \
  INLINE T divisor_##T(T a) { return a | 1; } \
  INLINE T from_f16_##T(f16 a) { return a > (f16)-1.0 && a < (f16)(B == 8 ? 255.0 : 65504.0) ? (T)a : (T)78; } \
  INLINE T from_f32_##T(f32 a) { return a > -1.0f && a < 0x1p##B##f * 0.999f ? (T)a : (T)3; } \
  INLINE T from_f64_##T(f64 a) { return a > -1.0 && a < 0x1p##B * 0.999 ? (T)a : (T)5; }
SIGNED(i8, u8, i32, 8)
UNSIGNED(u8, i8, u32, 8)
SIGNED(i16, u16, i32, 16)
UNSIGNED(u16, i16, u32, 16)
SIGNED(i32, u32, i64, 32)
UNSIGNED(u32, i32, u64, 32)
SIGNED(i64, u64, __int128, 64)
UNSIGNED(u64, i64, unsigned __int128, 64)
#define REVERSE(T, U, B, SWAP) \
  INLINE T mirror_##T(T a) { return (T)__builtin_bitreverse##B((U)a); } \
  INLINE T swap_##T(T a) { return (T)SWAP((U)a); }
REVERSE(i8, u8, 8, )
REVERSE(u8, u8, 8, )
REVERSE(i16, u16, 16, __builtin_bswap16)
REVERSE(u16, u16, 16, __builtin_bswap16)
REVERSE(i32, u32, 32, __builtin_bswap32)
REVERSE(u32, u32, 32, __builtin_bswap32)
REVERSE(i64, u64, 64, __builtin_bswap64)
REVERSE(u64, u64, 64, __builtin_bswap64)

/* Helpers of a float type T with an unsigned twin U. plus_zero makes the sign of a zero definite,
   where it depends on the order of two zeros, and in plus and minus,
   because clang takes 0 - x, and -x + 0, as an operand for -x. */
#define FLOATING(T, U, P) \
  INLINE T quiet_##T(T a) { return a != a ? (T)__builtin_nan("") : a; } \
  INLINE U bits_##T(T a) { U r; T q = a != a ? (T)1.5 : a; COPY(r, q); return r; } \
  INLINE T float_##T(U a) { T r; COPY(r, a); return quiet_##T(r); } \
  INLINE T plus_zero_##T(T a) { return a == (T)0.0 ? (T)0.0 : a; } \
  INLINE T least_##T(T a, T b) { return plus_zero_##T(__builtin_fmin##P(a, b)); } \
  INLINE T most_##T(T a, T b) { return plus_zero_##T(__builtin_fmax##P(a, b)); } \
  INLINE T unit_##T(T a) { return plus_zero_##T(__builtin_fmin##P(__builtin_fmax##P(a, (T)0.0), (T)1.0)); } \
  INLINE T median_##T(T a, T b, T c) { \
    return most_##T(least_##T(quiet_##T(a), b), least_##T(most_##T(quiet_##T(a), b), c)); } \
  INLINE T plus_##T(T a, T b) { return __builtin_constant_p(a) || __builtin_constant_p(b) ? plus_zero_##T(a + b) : a + b; } \
  INLINE T minus_##T(T a, T b) { return __builtin_constant_p(a) ? plus_zero_##T(a - b) : a - b; } \
  INLINE T root_##T(T a) { return __builtin_sqrt##P(__builtin_fabs##P(a)); } \
  INLINE T sign_##T(T a, T b) { return b != b ? a : __builtin_copysign##P(a, b); } \
  INLINE T near_##T(T a) { return __builtin_elementwise_roundeven(a); } \
  INLINE T down_##T(T a) { return __builtin_elementwise_floor(a); } \
  INLINE T up_##T(T a) { return __builtin_elementwise_ceil(a); } \
  INLINE T whole_##T(T a) { return __builtin_elementwise_trunc(a); } \
  INLINE T size_##T(T a) { return __builtin_elementwise_abs(a); }
FLOATING(f16, u16, f16)
FLOATING(f32, u32, f)
FLOATING(f64, u64, )
/* A product that becomes half precision: clang emits v_fma_mixlo_f16 with an addend of +0 for it, which turns a product of
   -0 into +0, so the sign of a zero is not asked for. */
INLINE f16 half_f32(f32 a) { return plus_zero_f16((f16)a); }
INLINE f32 fused_f32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
INLINE f64 fused_f64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
INLINE f32 scale_f32(f32 a, i32 n) { return __builtin_ldexpf(a, n % 300); }
INLINE f64 scale_f64(f64 a, i32 n) { return __builtin_ldexp(a, n % 2200); }
INLINE f32 fraction_f32(f32 a) { i32 e; return __builtin_frexpf(a, &e); }
INLINE f64 fraction_f64(f64 a) { i32 e; return __builtin_frexp(a, &e); }
INLINE i32 exponent_f32(f32 a) { i32 e; __builtin_frexpf(a, &e); return __builtin_isfinite(a) ? e : -9; }
INLINE i32 exponent_f64(f64 a) { i32 e; __builtin_frexp(a, &e); return __builtin_isfinite(a) ? e : -9; }

/* Brain floats: storage, with arithmetic in single precision. The CPU rounds in integers, because x86 has no conversion
   that keeps subnormal numbers. */
#ifdef __AMDGCN__
INLINE bf16 to_bf16(f32 a) { return (bf16)a; }
#else
INLINE u16 bfloat_bits(f32 a) {
  u32 b;
  COPY(b, a);
  return (u16)(a != a ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
}
INLINE bf16 to_bf16(f32 a) {
  u16 b = bfloat_bits(a);
  bf16 r;
  COPY(r, b);
  return r;
}
#ifdef __x86_64__
/* Results of both types are returned in the same register; with bf16 the function would call itself. */
f16 __truncsfbf2(f32 a) {
  u16 b = bfloat_bits(a);
  f16 r;
  COPY(r, b);
  return r;
}
#endif
#endif
#define BY_SINGLE_1(NAME) INLINE bf16 NAME##_bf16(bf16 a) { return to_bf16(NAME##_f32((f32)a)); }
#define BY_SINGLE_2(NAME) INLINE bf16 NAME##_bf16(bf16 a, bf16 b) { return to_bf16(NAME##_f32((f32)a, (f32)b)); }
BY_SINGLE_1(root) BY_SINGLE_1(near) BY_SINGLE_1(down) BY_SINGLE_1(up) BY_SINGLE_1(whole) BY_SINGLE_1(size) BY_SINGLE_1(unit)
BY_SINGLE_2(least) BY_SINGLE_2(most) BY_SINGLE_2(sign) BY_SINGLE_2(plus) BY_SINGLE_2(minus)
INLINE bf16 times_bf16(bf16 a, bf16 b) { return to_bf16((f32)a * (f32)b); }
INLINE bf16 fused_bf16(bf16 a, bf16 b, bf16 c) { return to_bf16(fused_f32((f32)a, (f32)b, (f32)c)); }
INLINE u16 bits_bf16(bf16 a) { u16 r; COPY(r, a); return a != a ? 0x3fc0 : r; }
#define FROM_BFLOAT(T) INLINE T from_bf16_##T(bf16 a) { return from_f32_##T((f32)a); }
FROM_BFLOAT(i8) FROM_BFLOAT(u8) FROM_BFLOAT(i16) FROM_BFLOAT(u16)
FROM_BFLOAT(i32) FROM_BFLOAT(u32) FROM_BFLOAT(i64) FROM_BFLOAT(u64)

/* Pairs, which the GPU's packed instructions work on. */
#define WHOLE_PAIR(T) \
  INLINE T##x2 least_##T##x2(T##x2 a, T##x2 b) { return __builtin_elementwise_min(a, b); } \
  INLINE T##x2 most_##T##x2(T##x2 a, T##x2 b) { return __builtin_elementwise_max(a, b); } \
  INLINE T##x2 add_sat_##T##x2(T##x2 a, T##x2 b) { return __builtin_elementwise_add_sat(a, b); } \
  INLINE T##x2 sub_sat_##T##x2(T##x2 a, T##x2 b) { return __builtin_elementwise_sub_sat(a, b); }
WHOLE_PAIR(i16)
WHOLE_PAIR(u16)

#ifdef __AMDGCN__
INLINE f16 fused_f16(f16 a, f16 b, f16 c) { return __builtin_fmaf16(a, b, c); }
#else
/* A processor without half-precision arithmetic goes through wider types, and rounding twice is not rounding once: the
   wider result is first made odd in its last place, where it is not exact (Boldo and Melquiond, "Emulation of FMA and
   correctly rounded sums: proved algorithms using rounding to odd", 2008). */
INLINE f32 odd_f32(f64 a) {
  f32 r = (f32)a;
  u32 b;
  COPY(b, r);
  if (r == r && (f64)r != a && !(b & 1)) {
    b += __builtin_fabs((f64)r) < __builtin_fabs(a) ? 1 : -1;
    COPY(r, b);
  }
  return r;
}
INLINE f16 fused_f16(f16 a, f16 b, f16 c) {
  f64 p = (f64)a * (f64)b, r = p + (f64)c, t = r - p, error = (p - (r - t)) + ((f64)c - t);
  u64 u;
  COPY(u, r);
  if (error != 0.0 && __builtin_isfinite(r) && !(u & 1)) {
    u += (error > 0.0) == (r > 0.0) ? 1 : -1;
    COPY(r, u);
  }
  return (f16)odd_f32(r);
}
#ifdef __x86_64__
f16 __truncdfhf2(f64 a) { return (f16)odd_f32(a); }
#endif
#endif

#define FLOAT_PAIR(T) \
  INLINE T##x2 fused_##T##x2(T##x2 a, T##x2 b, T##x2 c) { \
    return (T##x2){fused_##T(a.x, b.x, c.x), fused_##T(a.y, b.y, c.y)}; } \
  INLINE T##x2 least_##T##x2(T##x2 a, T##x2 b) { return (T##x2){least_##T(a.x, b.x), least_##T(a.y, b.y)}; } \
  INLINE T##x2 most_##T##x2(T##x2 a, T##x2 b) { return (T##x2){most_##T(a.x, b.x), most_##T(a.y, b.y)}; }
FLOAT_PAIR(f16)
FLOAT_PAIR(f32)

/* Values of other lanes of the wave, at places where all 64 are active. The CPU finds them in the states of the phase
   before. NEW becomes the value of OLD in another lane. */
#define EXCHANGE(NEW, OLD, WORD) \
  do { u32 word_, other_; COPY(word_, OLD); other_ = WORD; COPY(NEW, other_); } while (0)
#ifdef __AMDGCN__
#define FROM_LANE(NEW, OLD, LANE) EXCHANGE(NEW, OLD, __builtin_amdgcn_ds_bpermute((LANE) * 4, word_))
#define FROM_FIRST(NEW, OLD) EXCHANGE(NEW, OLD, __builtin_amdgcn_readfirstlane(word_))
#define FROM_ROW(NEW, OLD, CONTROL, ROWS, BANKS) \
  EXCHANGE(NEW, OLD, __builtin_amdgcn_update_dpp(word_, word_, CONTROL, ROWS, BANKS, 0))
#define FROM_ROW_OR_ZERO(NEW, OLD, CONTROL) EXCHANGE(NEW, OLD, __builtin_amdgcn_update_dpp(0, word_, CONTROL, 15, 15, 1))
#define BALLOT(NEW, OLD) NEW = __builtin_amdgcn_ballot_w64((OLD) & 1)
#define SET_BELOW(NEW, MASK) \
  NEW = __builtin_amdgcn_mbcnt_hi((u32)((MASK) >> 32), __builtin_amdgcn_mbcnt_lo((u32)(MASK), 0))
#else
/* The lane that a DPP control of the ISA text makes a lane read; -1 if it is none or the lane is masked off. */
INLINE i32 dpp_source(i32 lane, u32 control, u32 rows, u32 banks) {
  i32 row = lane & ~15, in_row = lane & 15, n = control & 15, from = -1;
  if (!(rows >> (lane >> 4) & 1) || !(banks >> (in_row >> 2) & 1)) return -1;
  if (control < 0x100) return (lane & ~3) | (control >> (lane & 3) * 2 & 3);
  switch (control >> 4) {
  case 0x10: from = in_row + n < 16 ? lane + n : -1; break;
  case 0x11: from = in_row >= n ? lane - n : -1; break;
  case 0x12: from = row | ((in_row - n) & 15); break;
  case 0x15: from = row | n; break;
  case 0x14:
    if (control == 0x140) from = row | (15 - in_row);
    if (control == 0x141) from = (lane & ~7) | (7 - (lane & 7));
    if (control == 0x142 && lane >= 16) from = row - 1;
    if (control == 0x143 && lane >= 32) from = 31;
  }
  return from;
}
#define AT(NEW, OLD, LANE) COPY(NEW, state[(i32)(LANE) - (i32)(item & 63)].OLD)
#define FROM_LANE(NEW, OLD, LANE) AT(NEW, OLD, (LANE) & 63)
#define FROM_FIRST(NEW, OLD) AT(NEW, OLD, 0)
#define FROM_ROW(NEW, OLD, CONTROL, ROWS, BANKS) \
  do { i32 from_ = dpp_source(item & 63, CONTROL, ROWS, BANKS); AT(NEW, OLD, from_ < 0 ? item & 63 : from_); } while (0)
#define FROM_ROW_OR_ZERO(NEW, OLD, CONTROL) \
  do { i32 from_ = dpp_source(item & 63, CONTROL, 15, 15); AT(NEW, OLD, from_ < 0 ? 0 : from_); \
       if (from_ < 0) NEW = 0; } while (0)
#define BALLOT(NEW, OLD) \
  do { NEW = 0; for (u32 l_ = 0; l_ < 64; l_++) NEW |= (u64)(state[(i32)l_ - (i32)(item & 63)].OLD & 1) << l_; } while (0)
#define SET_BELOW(NEW, MASK) NEW = __builtin_popcountg((MASK) & ((1ull << (item & 63)) - 1))
#endif

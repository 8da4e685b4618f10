// Vectors of floats as wide as the target processor's, and operations on them.
//
// GCC's and Clang's vector types do most of it; intrinsics only what those can't express.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Lanes of two vectors, by their indices: older GCC has only the one builtin, Clang the other.
#if defined(__clang__)
#define MTKIT_SHUFFLE(first, second, ...) __builtin_shufflevector(first, second, __VA_ARGS__)
#else
#define MTKIT_SHUFFLE(first, second, ...) __builtin_shuffle(first, second, mtkit::Ints{__VA_ARGS__})
#endif

namespace mtkit {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef float FloatsInMemory __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef int32_t IntsInMemory __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

inline Floats load(const float* from) { return *reinterpret_cast<const FloatsInMemory*>(from); }
inline void store(float* to, Floats values) { *reinterpret_cast<FloatsInMemory*>(to) = values; }
// Subtracting 0 is free, as it changes no value; adding 0 would cost an addition, because of -0.
inline Floats broadcast(float value) { return value - Floats{}; }
inline Ints broadcast(int32_t value) { return Ints{} + value; }
inline Ints as_ints(Floats values) { return reinterpret_cast<Ints>(values); }
inline Floats as_floats(Ints values) { return reinterpret_cast<Floats>(values); }

// The first if both are equal or either is NaN.
inline Floats max(Floats first, Floats second) { return second > first ? second : first; }

inline Floats absolute(Floats values) {
  return as_floats(as_ints(values) & broadcast(INT32_C(0x7fffffff)));
}

// Neighbouring lanes added up: those of the first, then those of the second.
inline Floats add_neighbours(Floats first, Floats second) {
#if defined(__AVX512F__)
  return MTKIT_SHUFFLE(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                                 28, 30) +
         MTKIT_SHUFFLE(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                 29, 31);
#elif defined(__AVX2__)
  return MTKIT_SHUFFLE(first, second, 0, 2, 4, 6, 8, 10, 12, 14) +
         MTKIT_SHUFFLE(first, second, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return MTKIT_SHUFFLE(first, second, 0, 2, 4, 6) +
         MTKIT_SHUFFLE(first, second, 1, 3, 5, 7);
#endif
}

// The sum of each of as many vectors as there are lanes, in that lane. They are overwritten.
inline Floats sum_each(Floats* vectors) {
#pragma GCC unroll 4
  for (int width = kLanes / 2; width > 0; width /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < width; ++i)
      vectors[i] = add_neighbours(vectors[2 * i], vectors[2 * i + 1]);
  return vectors[0];
}

// Moves the upper half's lanes to the lower half; `kWidth` is half of those that matter.
template <int kWidth, class Vector>
inline Vector upper_half(Vector values) {
#if defined(__AVX512F__)
  if constexpr (kWidth == 8)
    return MTKIT_SHUFFLE(values, values, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12,
                                   13, 14, 15);
  if constexpr (kWidth == 4)
    return MTKIT_SHUFFLE(values, values, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  if constexpr (kWidth == 2)
    return MTKIT_SHUFFLE(values, values, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3);
  return MTKIT_SHUFFLE(values, values, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
#elif defined(__AVX2__)
  if constexpr (kWidth == 4)
    return MTKIT_SHUFFLE(values, values, 4, 5, 6, 7, 4, 5, 6, 7);
  if constexpr (kWidth == 2)
    return MTKIT_SHUFFLE(values, values, 2, 3, 2, 3, 2, 3, 2, 3);
  return MTKIT_SHUFFLE(values, values, 1, 1, 1, 1, 1, 1, 1, 1);
#else
  if constexpr (kWidth == 2) return MTKIT_SHUFFLE(values, values, 2, 3, 2, 3);
  return MTKIT_SHUFFLE(values, values, 1, 1, 1, 1);
#endif
}

// Reduces all lanes to one, pairwise, by a function of vectors.
template <int kWidth = kLanes / 2, class Vector, class Join>
inline auto fold(Vector values, Join join) {
  const Vector joined = join(values, upper_half<kWidth>(values));
  if constexpr (kWidth == 1)
    return joined[0];
  else
    return fold<kWidth / 2>(joined, join);
}

// Always in the same order, so that a row's sum doesn't depend on where the row lies.
inline float sum(Floats values) {
  return fold(values, [](Floats a, Floats b) { return a + b; });
}
inline int32_t sum(Ints values) {
  return fold(values, [](Ints a, Ints b) { return a + b; });
}
inline float largest(Floats values) {
  return fold(values, [](Floats a, Floats b) { return max(a, b); });
}

inline int32_t largest(Ints values) {
  return fold(values, [](Ints a, Ints b) { return a > b ? a : b; });
}

// A bit mask of the lanes where the first is greater.
inline uint32_t where_greater(Floats first, Floats second) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(__m512(first), __m512(second), _CMP_GT_OQ);
#elif defined(__AVX2__)
  return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(__m256(first), __m256(second), _CMP_GT_OQ)));
#elif defined(__SSE2__)
  return uint32_t(_mm_movemask_ps(_mm_cmpgt_ps(__m128(first), __m128(second))));
#elif defined(__aarch64__)
  return vaddvq_u32(uint32x4_t(first > second) & uint32x4_t{1, 2, 4, 8});
#else
  uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= uint32_t(first[i] > second[i]) << i;
  return bits;
#endif
}

// Added to a number of at most 2^22, it leaves that number's rounded value in the lowest bits.
constexpr float kRounder = 1.5f * (1 << 23);
constexpr int32_t kRounderBits = 0x4b400000;

// e to the power of each, to 2 units in the last place; 0 below -87.3; NaN stays NaN.
// As in Cephes' expf: e^x = 2^n e^r, with |r| at most ln(2) / 2.
inline Floats exponential(Floats x) {
  const Floats is_zero_below = broadcast(-87.3f);
  const Ints vanishes = x < is_zero_below;
  x = x > broadcast(88.3f) ? broadcast(88.3f) : x;
  x = vanishes ? broadcast(0.0f) : x;
  const Floats rounded = x * broadcast(1.44269504f) + broadcast(kRounder);
  const Floats n = rounded - broadcast(kRounder);
  Floats r = x - n * broadcast(0.693359375f);
  r = r + n * broadcast(2.12194440e-4f);
  Floats p = broadcast(1.9875691500e-4f);
  p = p * r + broadcast(1.3981999507e-3f);
  p = p * r + broadcast(8.3334519073e-3f);
  p = p * r + broadcast(4.1665795894e-2f);
  p = p * r + broadcast(1.6666665459e-1f);
  p = p * r + broadcast(5.0000001201e-1f);
  p = p * (r * r) + r + broadcast(1.0f);
  const Ints power = (as_ints(rounded) - broadcast(kRounderBits) + broadcast(INT32_C(127))) << 23;
  const Floats result = p * as_floats(power);
  return vanishes ? broadcast(0.0f) : result;
}

// The natural logarithm of positive normal numbers, to 1 unit in the last place, as Cephes' logf.
inline Floats logarithm(Floats x) {
  const Ints bits = as_ints(x);
  Ints power = ((bits >> 23) & broadcast(INT32_C(0xff))) - broadcast(INT32_C(126));
  Floats m = as_floats((bits & broadcast(INT32_C(0x7fffff))) | broadcast(INT32_C(0x3f000000)));
  const Ints is_low = m < broadcast(0.707106781f);
  power = is_low ? power - 1 : power;
  m = (is_low ? m + m : m) - 1.0f;
  Floats p = broadcast(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const Floats square = m * m, of_power = __builtin_convertvector(power, Floats);
  p = p * m * square - 2.12194440e-4f * of_power - 0.5f * square;
  return m + p + 0.693359375f * of_power;
}

// log(e^a + e^b).
inline Floats log_of_two(Floats a, Floats b) {
  return max(a, b) + logarithm(1.0f + exponential(-absolute(a - b)));
}

// Calls `of_vector(i)` for whole vectors of a row, then `of_one(i)` for what is left.
template <class OfVector, class OfOne>
inline void along(int64_t width, OfVector of_vector, OfOne of_one) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) of_vector(i);
  for (; i < width; ++i) of_one(i);
}

inline void prefetch(const float* from, int64_t width) {
  constexpr int64_t kLine = 16;
  for (int64_t i = 0; i < width; i += kLine) __builtin_prefetch(from + i);
}

// Prefetches memory that is read soon.
template <int64_t kBytes>
inline void prefetch_bytes(const void* from) {
  constexpr int64_t kLine = 64;
#pragma GCC unroll 2
  for (int64_t i = 0; i < kBytes; i += kLine)
    __builtin_prefetch(static_cast<const char*>(from) + i, 0, 2);
}

inline int64_t round_up(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

}  // namespace mtkit

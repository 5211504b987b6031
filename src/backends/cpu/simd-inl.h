// SPDX-License-Identifier: Apache-2.0
// Vectors of accumulators: loaded from any type, stored in any type, whole runs at a time. Compiled once for each
// instruction set, so it is included like Highway's own "-inl.h" headers, after foreach_target.h.
//
// The bits are those of core/dtype.h: widening is exact, narrowing rounds once to nearest even, keeps subnormals and
// saturates integers. What an instruction set has of its own is used only where it does just that.

#if defined(BP_BACKENDS_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_BACKENDS_CPU_SIMD_INL_H
#undef BP_BACKENDS_CPU_SIMD_INL_H
#else
#define BP_BACKENDS_CPU_SIMD_INL_H
#endif

#include "core/dtype.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Whether the instruction set converts between f16 and f32.
#undef BP_HAS_F16
#define BP_HAS_F16 (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64)

// Whether vectors have a size that the compiler knows and more than one lane: then there are arrays of them.
#undef BP_IS_FIXED
#define BP_IS_FIXED (!HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR)

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// All the lanes of a register hold accumulators; narrower types fill a part of one.
template <class A>
using Lanes = hn::ScalableTag<A>;

// Scratch rows have room for one vector beyond their end, so that loops over scratch need no tails.
inline constexpr std::int64_t kSlack = 64;

template <class D>
HWY_INLINE std::int64_t lanes(D d) {
  return static_cast<std::int64_t>(hn::Lanes(d));
}

// ---- One vector ------------------------------------------------------------------------------------------

// f32 of the bits of f16 in lanes of 32, for sets that have no instruction for it. (Highway's own way there knows
// neither infinity nor NaN.)
template <class D, class V>
HWY_INLINE hn::Vec<D> f32_of_f16_bits(D d, V bits) {
  const hn::RebindToUnsigned<D> u;
  const hn::RebindToSigned<D> i;
  const auto magnitude = hn::And(bits, hn::Set(u, 0x7fffu));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const auto scaled = hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f));  // exact, subnormals included
  const auto is_finite = hn::Lt(hn::BitCast(i, magnitude), hn::Set(i, 0x7c00));
  const auto special = hn::Or(shifted, hn::Set(u, 0x7f800000u));
  const auto all = hn::IfThenElse(hn::RebindMask(u, is_finite), hn::BitCast(u, scaled), special);
  return hn::BitCast(d, hn::Or(all, hn::ShiftLeft<16>(hn::Sub(bits, magnitude))));
}

// The accumulators of lanes(d) elements at p.
template <class D, class T>
HWY_INLINE hn::Vec<D> load(D d, const T* p) {
  using A = hn::TFromD<D>;
  if constexpr (std::is_same_v<T, A>) {
    return hn::LoadU(d, p);
  } else if constexpr (std::is_same_v<T, f16>) {
#if BP_HAS_F16
    const hn::Rebind<hwy::float16_t, D> narrow_d;
    return hn::PromoteTo(d, hn::LoadU(narrow_d, reinterpret_cast<const hwy::float16_t*>(p)));
#else
    const hn::Rebind<std::uint16_t, D> narrow_d;
    const hn::Rebind<std::uint32_t, D> bits_d;
    return f32_of_f16_bits(d, hn::PromoteTo(bits_d, hn::LoadU(narrow_d, reinterpret_cast<const std::uint16_t*>(p))));
#endif
  } else if constexpr (std::is_same_v<T, bf16>) {
    const hn::Rebind<std::uint16_t, D> narrow_d;
    const hn::Rebind<std::uint32_t, D> bits_d;
    const auto bits = hn::PromoteTo(bits_d, hn::LoadU(narrow_d, reinterpret_cast<const std::uint16_t*>(p)));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  } else {
    static_assert(sizeof(T) == 1);
    const hn::Rebind<T, D> narrow_d;
    const hn::Rebind<std::int32_t, D> wide_d;
    return hn::ConvertTo(d, hn::PromoteTo(wide_d, hn::LoadU(narrow_d, p)));
  }
}

// The bits of f16, in lanes of 32, for sets that have no instruction for it.
template <class D, class V>
HWY_INLINE auto f16_bits(D d, V v) {
  const hn::RebindToUnsigned<D> u;
  const hn::RebindToSigned<D> i;
  const auto all = hn::BitCast(u, v);
  const auto sign = hn::And(all, hn::Set(u, 0x80000000u));
  const auto magnitude = hn::Xor(all, sign);
  const auto signed_magnitude = hn::BitCast(i, magnitude);
  // Normal: the exponent moves down by 112, and just under half a unit, and the odd bit, round to nearest even.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u, 1u));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(u, 0xc8000fffu)), odd));
  // Subnormal: adding 0.5 leaves the result in the lowest bits, rounded by the addition.
  const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const auto subnormal = hn::Sub(hn::BitCast(u, shifted), hn::Set(u, 0x3f000000u));
  const auto is_subnormal = hn::Lt(signed_magnitude, hn::Set(i, 0x38800000));
  const auto is_large = hn::Gt(signed_magnitude, hn::Set(i, 0x477fffff));
  const auto is_nan = hn::Gt(signed_magnitude, hn::Set(i, 0x7f800000));
  const auto large = hn::IfThenElse(hn::RebindMask(u, is_nan), hn::Set(u, 0x7e00u), hn::Set(u, 0x7c00u));
  const auto finite = hn::IfThenElse(hn::RebindMask(u, is_subnormal), subnormal, normal);
  return hn::Or(hn::IfThenElse(hn::RebindMask(u, is_large), large, finite), hn::ShiftRight<16>(sign));
}

// The bits of bf16 are the upper half of these, in lanes of 32.
template <class D, class V>
HWY_INLINE auto rounded_to_bf16(D, V v) {
  const hn::RebindToUnsigned<D> u;
  const auto all = hn::BitCast(u, v);
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    // Masks do what takes vectors elsewhere: the odd ones get one more, and a NaN its quiet bit.
    const __m512i half = _mm512_add_epi32(all.raw, _mm512_set1_epi32(0x7fff));
    const __mmask16 is_odd = _mm512_test_epi32_mask(all.raw, _mm512_set1_epi32(0x10000));
    const __m512i rounded = _mm512_mask_sub_epi32(half, is_odd, half, _mm512_set1_epi32(-1));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v.raw, v.raw, _CMP_UNORD_Q);
    return hn::VFromD<decltype(u)>{_mm512_mask_or_epi32(rounded, is_nan, all.raw, _mm512_set1_epi32(0x400000))};
  }
#endif
  const auto odd = hn::And(hn::ShiftRight<16>(all), hn::Set(u, 1u));
  const auto rounded = hn::Add(hn::Add(all, hn::Set(u, 0x7fffu)), odd);
  const auto quiet = hn::Or(all, hn::Set(u, 0x400000u));
  return hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(v)), quiet, rounded);
}

// The upper halves of lanes of 32 bits.
template <class D, class V>
HWY_INLINE hn::Vec<D> upper_halves(D narrow_d, V v) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    alignas(32) constexpr std::uint16_t kOdd[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    const __m512i odd = _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(kOdd)));
    return hn::Vec<D>{_mm512_castsi512_si256(_mm512_permutexvar_epi16(odd, v.raw))};
  }
#endif
  return hn::TruncateTo(narrow_d, hn::ShiftRight<16>(v));
}

// lanes(d) lanes as elements of T. Accumulators are rounded: the one rounding. Lanes of integers hold bits, of which
// the lowest are T.
template <class T, class D, class V>
HWY_INLINE auto narrowed(D d, V v) {
  using A = hn::TFromD<D>;
  if constexpr (std::is_same_v<T, A>) {
    return v;
  } else if constexpr (std::is_integral_v<A>) {
    const hn::Rebind<std::make_unsigned_t<T>, D> narrow_d;
    const hn::RebindToUnsigned<D> wide_d;
    if constexpr (sizeof(T) == sizeof(A)) {
      return hn::BitCast(hn::Rebind<T, D>(), v);
    } else {
      return hn::BitCast(hn::Rebind<T, D>(), hn::TruncateTo(narrow_d, hn::BitCast(wide_d, v)));
    }
  } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    const hn::Rebind<std::uint16_t, D> narrow_d;
    if constexpr (std::is_same_v<T, bf16>) {
      return upper_halves(narrow_d, rounded_to_bf16(d, v));
    } else {
#if BP_HAS_F16
      const hn::Rebind<hwy::float16_t, D> half_d;
      return hn::BitCast(narrow_d, hn::DemoteTo(half_d, v));
#else
      return hn::TruncateTo(narrow_d, f16_bits(d, v));
#endif
    }
  } else {
    static_assert(sizeof(T) == 1);
    const hn::Rebind<T, D> narrow_d;
    const auto number = hn::IfThenZeroElse(hn::IsNaN(v), v);
    const auto least = hn::Set(d, static_cast<A>(std::numeric_limits<T>::min()));
    const auto most = hn::Set(d, static_cast<A>(std::numeric_limits<T>::max()));
    return hn::DemoteTo(narrow_d, hn::NearestInt(hn::Min(hn::Max(number, least), most)));
  }
}

// What Highway calls the elements of `narrowed`.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, std::uint16_t, T>;

template <class T, class D, class V>
HWY_INLINE void store(D d, V v, T* p) {
  const hn::Rebind<Stored<T>, D> narrow_d;
  hn::StoreU(narrowed<T>(d, v), narrow_d, reinterpret_cast<Stored<T>*>(p));
}

// Past the cache; p is aligned to the bytes written.
template <class T, class D, class V>
HWY_INLINE void stream(D d, V v, T* p) {
  const hn::Rebind<Stored<T>, D> narrow_d;
  hn::Stream(narrowed<T>(d, v), narrow_d, reinterpret_cast<Stored<T>*>(p));
}

// ---- Two vectors at once ---------------------------------------------------------------------------------

// The lanes in which a or b, vectors of f32, is a NaN.
template <class D, class V>
HWY_INLINE hn::Mask<D> either_is_nan([[maybe_unused]] D d, V a, V b) {
#if HWY_TARGET == HWY_AVX3
  return hn::Mask<D>{_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Mask<D>{_mm256_cmp_ps(a.raw, b.raw, _CMP_UNORD_Q)};
#else
  return hn::Or(hn::IsNaN(a), hn::IsNaN(b));
#endif
}

// Vectors of f32, a[0] b[0] a[1] b[1] ...: the first vector of it, and the second.
template <class D, class V>
HWY_INLINE V interleave_lower(D d, V a, V b) {
#if HWY_TARGET == HWY_AVX3
  const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return V{_mm512_permutex2var_ps(a.raw, order, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::ConcatLowerLower(d, hn::InterleaveUpper(d, a, b), hn::InterleaveLower(d, a, b));
#elif BP_IS_FIXED && HWY_MAX_BYTES == 16
  return hn::InterleaveLower(d, a, b);
#else
  HWY_ALIGN hn::TFromD<D> pairs[2 * hn::MaxLanes(D())];
  hn::StoreInterleaved2(a, b, d, pairs);
  return hn::Load(d, pairs);
#endif
}
template <class D, class V>
HWY_INLINE V interleave_upper(D d, V a, V b) {
#if HWY_TARGET == HWY_AVX3
  const __m512i order = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return V{_mm512_permutex2var_ps(a.raw, order, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::ConcatUpperUpper(d, hn::InterleaveUpper(d, a, b), hn::InterleaveLower(d, a, b));
#elif BP_IS_FIXED && HWY_MAX_BYTES == 16
  return hn::InterleaveUpper(d, a, b);
#else
  HWY_ALIGN hn::TFromD<D> pairs[2 * hn::MaxLanes(D())];
  hn::StoreInterleaved2(a, b, d, pairs);
  return hn::Load(d, pairs + lanes(d));
#endif
}

// Vectors of f32 side by side, one lane to the right: the last lane of `before`, then v without its last one.
template <class D, class V>
HWY_INLINE V last_before([[maybe_unused]] D d, V before, V v) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(v.raw), _mm512_castps_si512(before.raw), 15))};
#elif HWY_TARGET == HWY_AVX2
  const __m256 between = _mm256_permute2f128_ps(before.raw, v.raw, 0x21);  // what lies around the middle
  return V{_mm256_castsi256_ps(_mm256_alignr_epi8(_mm256_castps_si256(v.raw), _mm256_castps_si256(between), 12))};
#elif BP_IS_FIXED && HWY_MAX_BYTES == 16
  return hn::CombineShiftRightBytes<12>(d, v, before);
#else
  HWY_ALIGN hn::TFromD<D> both[2 * hn::MaxLanes(D())];
  hn::Store(before, d, both);
  hn::Store(v, d, both + lanes(d));
  return hn::LoadU(d, both + lanes(d) - 1);
#endif
}
// One lane to the left: v without its first lane, then the first one of `after`. With AVX-512, of 16 bits, too.
template <class D, class V>
HWY_INLINE V first_after([[maybe_unused]] D d, V v, V after) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 2) {
    return V{_mm512_permutex2var_epi16(v.raw, hn::Iota(d, 1).raw, after.raw)};
  } else {
    return V{_mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(after.raw), _mm512_castps_si512(v.raw), 1))};
  }
#elif HWY_TARGET == HWY_AVX2
  const __m256 between = _mm256_permute2f128_ps(v.raw, after.raw, 0x21);
  return V{_mm256_castsi256_ps(_mm256_alignr_epi8(_mm256_castps_si256(between), _mm256_castps_si256(v.raw), 4))};
#elif BP_IS_FIXED && HWY_MAX_BYTES == 16
  return hn::CombineShiftRightBytes<4>(d, after, v);
#else
  HWY_ALIGN hn::TFromD<D> both[2 * hn::MaxLanes(D())];
  hn::Store(v, d, both);
  hn::Store(after, d, both + lanes(d));
  return hn::LoadU(d, both + 1);
#endif
}

// a[0] b[0] a[1] b[1] ... as a half type: as many bits as one of the two.
template <class T, class D, class V>
HWY_INLINE auto interleaved(D d, V a, V b) {
  const hn::RebindToUnsigned<D> u;
  if constexpr (std::is_same_v<T, bf16>) {
    return hn::Or(hn::ShiftRight<16>(rounded_to_bf16(d, a)), hn::And(rounded_to_bf16(d, b), hn::Set(u, 0xffff0000u)));
  } else {
#if BP_HAS_F16
    const hn::Rebind<hwy::float16_t, D> half_d;
    const hn::Rebind<std::uint16_t, D> narrow_d;
    const auto bits = [=](V v) HWY_ATTR { return hn::PromoteTo(u, hn::BitCast(narrow_d, hn::DemoteTo(half_d, v))); };
#else
    const auto bits = [=](V v) HWY_ATTR { return f16_bits(d, v); };
#endif
    return hn::Or(bits(a), hn::ShiftLeft<16>(bits(b)));
  }
}

// ---- Where a byte says so --------------------------------------------------------------------------------

// The lanes of f32 whose byte is `value`; bytes are a vector of as many u8.
template <class D, class V>
HWY_INLINE hn::Mask<D> byte_is(D d, V bytes, int value) {
#if HWY_TARGET == HWY_AVX3
  // A comparison of 16 bytes makes the mask of 16 lanes, at a quarter of the cost.
  const hn::Rebind<std::uint8_t, D> narrow_d;
  hn::Mask<D> mask;
  mask.raw = static_cast<decltype(mask.raw)>(hn::Eq(bytes, hn::Set(narrow_d, static_cast<std::uint8_t>(value))).raw);
  return mask;
#else
  const hn::RebindToSigned<D> wide_d;
  return hn::RebindMask(d, hn::Eq(hn::PromoteTo(wide_d, bytes), hn::Set(wide_d, value)));
#endif
}

// sum + v in the lanes of the mask, for vectors of f32 and sums that began at +0.
template <class M, class V>
HWY_INLINE V add_if(M mask, V sum, V v) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    // Left to itself, gcc moves every other sum to another register first.
    __asm__("vaddps %2, %0, %0 %{%1%}" : "+v"(sum.raw) : "Yk"(mask.raw), "v"(v.raw));
    return sum;
  } else if constexpr (sizeof(V) == 32) {
    return V{_mm256_mask_add_ps(sum.raw, mask.raw, sum.raw, v.raw)};
  } else {
    return V{_mm_mask_add_ps(sum.raw, mask.raw, sum.raw, v.raw)};
  }
#else
  return hn::Add(sum, hn::IfThenElseZero(mask, v));  // + 0 changes no sum that began at +0
#endif
}

// ---- Lambdas ---------------------------------------------------------------------------------------------

// Of one that is called in several places, or by a function that is: what it captures stays in registers only where it
// is no call.
#define BP_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

// ---- Addresses -------------------------------------------------------------------------------------------

// p + step, and keeps the compiler from holding one address for each row, of which there are more than registers.
template <class P>
HWY_INLINE P* step_on(P* p, std::int64_t step) {
  p += step;
#if HWY_COMPILER_GCC
  __asm__("" : "+r"(p));
#endif
  return p;
}

// ---- Tails -----------------------------------------------------------------------------------------------

// The first n < lanes(d) elements at p; the rest of the vector is zero.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, std::int64_t n) {
  alignas(64) T buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(d, buffer);
}

template <class T, class D, class V>
HWY_INLINE void store_first(D d, V v, T* p, std::int64_t n) {
  alignas(64) T buffer[hn::MaxLanes(D())];
  store(d, v, buffer);
  std::memcpy(p, buffer, static_cast<std::size_t>(n) * sizeof(T));
}

// ---- Runs ------------------------------------------------------------------------------------------------

// n elements as accumulators in scratch. `readable` >= n elements may be read, and up to a vector beyond n may be
// written.
template <class T>
HWY_INLINE void import_packed(const T* from, std::int64_t n, std::int64_t readable, Acc<T>* to) {
  const Lanes<Acc<T>> d;
  std::int64_t i = 0;
  for (; i < n && i + lanes(d) <= readable; i += lanes(d)) hn::StoreU(load(d, from + i), d, to + i);
  if (i < n) hn::StoreU(load_first(d, from + i, n - i), d, to + i);
}

// Fetches n elements ahead of their use: rows of several tensors and planes in turn are more streams than the processor
// follows by itself. (An address that is not there does no harm.)
template <class T>
HWY_INLINE void prefetch(const T* run, std::int64_t n) {
  const auto bytes = static_cast<std::int64_t>(sizeof(T)) * n;
  for (std::int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(reinterpret_cast<const std::byte*>(run) + i);
}

// Whether a run with gaps around it has so many lines of its own that they are worth streaming.
HWY_INLINE bool is_long_run(std::int64_t n, std::size_t element) {
  return n * static_cast<std::int64_t>(element) >= 4096;
}

// How many elements lie before the next border of `bytes`.
template <class T>
HWY_INLINE std::int64_t elements_to_border(const T* p, std::size_t bytes) {
  const auto beyond = reinterpret_cast<std::uintptr_t>(p) % bytes;
  return beyond == 0 ? 0 : static_cast<std::int64_t>((bytes - beyond) / sizeof(T));
}

inline constexpr std::int64_t kLeastStream = 16;  // bytes of the shortest vector that Highway can stream

// One of vectors that follow each other and are whole lines together, if they are streamed.
template <class T, class D, class V>
HWY_INLINE void store_or_stream(D d, V v, T* p, bool streams) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) >= kLeastStream) {
    if (streams) return stream(d, v, p);
  }
  store(d, v, p);
}

// n lanes as elements, a vector at a time: lanes_from(i) is the one from lane i on, up to a vector beyond n. Past the
// cache whole lines are streamed; what lies on the lines at both ends, which may be a neighbour's too, is stored as
// usual.
template <class L, class T, class F>
HWY_INLINE void export_each(const F& lanes_from, T* to, std::int64_t n, bool past_cache) {
  const Lanes<L> d;
  std::int64_t i = 0;
  if (past_cache && lanes(d) * static_cast<std::int64_t>(sizeof(T)) >= kLeastStream) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    const std::int64_t head = std::min(n, elements_to_border(to, 64));
    if (n - head >= kLine) {
      for (; i + lanes(d) <= head; i += lanes(d)) store(d, lanes_from(i), to + i);
      if (i < head) store_first(d, lanes_from(i), to + i, head - i);
      const std::int64_t end = head + (n - head) / kLine * kLine;
      for (i = head; i + lanes(d) <= end; i += lanes(d)) stream(d, lanes_from(i), to + i);
    }
  }
  for (; i + lanes(d) <= n; i += lanes(d)) store(d, lanes_from(i), to + i);
  if (i < n) store_first(d, lanes_from(i), to + i, n - i);
}

// The same of lanes in memory.
template <class T, class L>
HWY_INLINE void export_packed(const L* from, T* to, std::int64_t n, bool past_cache) {
  export_each<L>([from](std::int64_t i) HWY_ATTR { return hn::LoadU(Lanes<L>(), from + i); }, to, n, past_cache);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_BACKENDS_CPU_SIMD_INL_H

// SPDX-License-Identifier: Apache-2.0
// Transposition: of vectors in registers, and of a matrix in memory. Compiled once for each instruction set.

#if defined(BP_BACKENDS_CPU_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_BACKENDS_CPU_TRANSPOSE_INL_H
#undef BP_BACKENDS_CPU_TRANSPOSE_INL_H
#else
#define BP_BACKENDS_CPU_TRANSPOSE_INL_H
#endif

#include "backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

#if BP_IS_FIXED

// As many vectors as they have lanes, transposed: after log2(kSide) perfect shuffles. lower(a, b) and upper(a, b) are
// the two vectors of a[0] b[0] a[1] b[1] ...
template <int kSide, int kDone = 1, class V, class Lower, class Upper>
HWY_INLINE void transpose_vectors(V (&v)[kSide], const Lower& lower, const Upper& upper) {
  if constexpr (kDone < kSide) {
    V next[kSide];
#pragma GCC unroll 16
    for (int i = 0; i < kSide / 2; ++i) {
      next[2 * i] = lower(v[i], v[i + kSide / 2]);
      next[2 * i + 1] = upper(v[i], v[i + kSide / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) v[i] = next[i];
    transpose_vectors<kSide, 2 * kDone>(v, lower, upper);
  }
}

// Of 128 bits, whatever their lanes; or of f32, whatever the vector.
template <class D, class V, int kSide>
HWY_INLINE void transpose_vectors(D d, V (&v)[kSide]) {
  if constexpr (kSide * sizeof(hn::TFromD<D>) == 16) {
    transpose_vectors(
        v, [&](V a, V b) HWY_ATTR { return hn::InterleaveLower(d, a, b); },
        [&](V a, V b) HWY_ATTR { return hn::InterleaveUpper(d, a, b); });
  } else {
    transpose_vectors(
        v, [&](V a, V b) HWY_ATTR { return interleave_lower(d, a, b); },
        [&](V a, V b) HWY_ATTR { return interleave_upper(d, a, b); });
  }
}

#endif

// to[c * to_pitch + r] = from[r * from_pitch + c], in blocks of 128 bits each way. The last ones overlap those before
// them, so that nothing beyond is read or written.
template <class T>
HWY_NOINLINE void transpose(const T* from, std::int64_t from_pitch, std::int64_t height, std::int64_t width, T* to,
                            std::int64_t to_pitch) {
#if BP_IS_FIXED
  constexpr int kSide = static_cast<int>(16 / sizeof(T));
  if (height >= kSide && width >= kSide) {
    const hn::FixedTag<T, kSide> d;
    for (std::int64_t r0 = 0; r0 < height; r0 += kSide) {
      const std::int64_t r = std::min(r0, height - kSide);
      for (std::int64_t c0 = 0; c0 < width; c0 += kSide) {
        const std::int64_t c = std::min(c0, width - kSide);
        const T* in = from + r * from_pitch + c;
        T* out = to + c * to_pitch + r;
        hn::Vec<decltype(d)> v[kSide];
#pragma GCC unroll 16
        for (int k = 0; k < kSide; ++k) v[k] = hn::LoadU(d, in + k * from_pitch);
        transpose_vectors(d, v);
#pragma GCC unroll 16
        for (int k = 0; k < kSide; ++k) hn::StoreU(v[k], d, out + k * to_pitch);
      }
    }
    return;
  }
#endif
  for (std::int64_t r = 0; r < height; ++r) {
    for (std::int64_t c = 0; c < width; ++c) to[c * to_pitch + r] = from[r * from_pitch + c];
  }
}

// The same a few rows at a time, while those of the panel after it, which begins at `next`, are asked for.
template <class T>
HWY_INLINE void turn_panel(const T* from, std::int64_t from_pitch, std::int64_t height, std::int64_t width, T* to,
                           std::int64_t to_pitch, const T* next) {
  constexpr std::int64_t kAtOnce = 16;
  for (std::int64_t i = 0; i < height; i += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, height), r = std::min(i, height - count);
    for (std::int64_t k = r; next != nullptr && k < r + count; ++k) prefetch(next + k * from_pitch, width);
    transpose(from + r * from_pitch, from_pitch, count, width, to + r, to_pitch);
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_BACKENDS_CPU_TRANSPOSE_INL_H

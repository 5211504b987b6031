// SPDX-License-Identifier: Apache-2.0
// Chunks: neighbouring elements that move in one access of up to 16 bytes, and the way of the types to f32 and back.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace bp::cuda {

// ---- Values ------------------------------------------------------------------------------------------

inline __device__ float widened(float v) { return v; }
inline __device__ float widened(__half v) { return __half2float(v); }
inline __device__ float widened(__nv_bfloat16 v) { return __bfloat162float(v); }

// The one rounding at the end of a sum.
template <class T>
__device__ T narrowed(float v) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(v);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(v);
  } else {
    return v;
  }
}

// Below every other value.
template <class T>
__device__ T minus_infinity() {
  return narrowed<T>(__int_as_float(0xff800000));
}

// ---- Memory ------------------------------------------------------------------------------------------

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Chunk {
  T at[kCount];
};

// The bits of a chunk as the hardware moves them.
template <int kBytes>
using Bits = std::conditional_t<
    kBytes == 1, unsigned char,
    std::conditional_t<kBytes == 2, unsigned short,
                       std::conditional_t<kBytes == 4, unsigned int, std::conditional_t<kBytes == 8, uint2, uint4>>>>;

// Memory that no one writes while the kernel runs: only then may a load move above the stores before it.
template <int kCount, class T>
__device__ Chunk<T, kCount> load_constant(const T* from) {
  using Raw = Bits<static_cast<int>(sizeof(T)) * kCount>;
  const Raw raw = __ldg(reinterpret_cast<const Raw*>(from));
  Chunk<T, kCount> chunk;
  std::memcpy(&chunk, &raw, sizeof chunk);
  return chunk;
}

template <int kCount, class T>
__device__ Chunk<T, kCount> load(const T* from) {
  return *reinterpret_cast<const Chunk<T, kCount>*>(from);
}

template <int kCount, class T>
__device__ void store(T* to, const Chunk<T, kCount>& chunk) {
  *reinterpret_cast<Chunk<T, kCount>*>(to) = chunk;
}

}  // namespace bp::cuda

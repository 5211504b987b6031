// SPDX-License-Identifier: Apache-2.0
// Slice and its gradient on CUDA.
#include "backends/cuda/launch.cuh"
#include "core/dtype.h"
#include "ops/slice/cuda.h"

#include <array>
#include <bit>
#include <type_traits>

namespace bp::cuda {

namespace {

// ---- Any strides: one thread for each element of the output --------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_elements(const __grid_constant__ GatherMove move, const T* __restrict__ in, T* __restrict__ out) {
  each_item(move.elements, [&](std::int64_t item) {
    auto rest = static_cast<std::uint64_t>(item);
    std::int64_t to = 0, from = 0;
    bool moved = true;
    for (int i = 0; i < move.rank; ++i) moved &= move.axes[i].move(move.axes[i].size.split(rest), to, from);
    out[to] = moved ? in[from] : T{0};
  });
}

// ---- Contiguous rows: vectors of the output ------------------------------------------------------------

template <std::size_t kBytes>
struct VectorOf;
template <>
struct VectorOf<1> {
  using type = std::uint8_t;
};
template <>
struct VectorOf<2> {
  using type = std::uint16_t;
};
template <>
struct VectorOf<4> {
  using type = std::uint32_t;
};
template <>
struct VectorOf<8> {
  using type = std::uint64_t;
};
template <>
struct VectorOf<16> {
  using type = uint4;
};

template <class T, std::size_t kWidth>
using Elements = std::array<T, kWidth / sizeof(T)>;

template <class T, std::size_t kWidth>
__device__ Elements<T, kWidth> load_vector(const T* from) {
  using Vector = typename VectorOf<kWidth>::type;
  return std::bit_cast<Elements<T, kWidth>>(*reinterpret_cast<const Vector*>(from));
}

// The vector at a distance from the first position that is taken; `in` is where that takes from.
template <class T, std::size_t kWidth, RowMode kMode>
__device__ Elements<T, kWidth> moved_vector(const MovedAxis<std::uint32_t>& run, std::int32_t distance,
                                            const T* __restrict__ in) {
  constexpr int kCount = kWidth / sizeof(T);
  Elements<T, kWidth> result{};
  if constexpr (kMode == RowMode::copy) {
    if (distance >= 0 && distance + kCount <= run.count) return load_vector<T, kWidth>(in + distance);
  } else if constexpr (kMode == RowMode::reverse) {
    if (distance >= 0 && distance + kCount <= run.count) {
      const auto forward = load_vector<T, kWidth>(in - distance - (kCount - 1));
#pragma unroll
      for (int i = 0; i < kCount; ++i) result[i] = forward[kCount - 1 - i];
      return result;
    }
  } else if constexpr (kMode == RowMode::spread) {
    const std::int32_t k = distance >> 1;  // distances are even, or all odd: then one less than where they begin
    const int phase = distance & 1;
    if (distance >= 0 && k + phase + kCount / 2 <= run.count) {
      const auto half = load_vector<T, kWidth / 2>(in + k + phase);
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        result[2 * i] = phase == 0 ? half[i] : T{0};
        result[2 * i + 1] = phase == 0 ? T{0} : half[i];
      }
      return result;
    }
  }
  const auto in_stride = static_cast<std::int32_t>(run.in_stride);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::int32_t k = run.taken(distance + i);
    if (k >= 0) result[i] = in[std::int64_t{k} * in_stride];
  }
  return result;
}

template <class T, std::size_t kWidth, RowMode kMode>
__global__ void __launch_bounds__(kThreads)
    move_vectors(const __grid_constant__ RowMove move, const T* __restrict__ in, T* __restrict__ out) {
  using Vector = typename VectorOf<kWidth>::type;
  std::uint32_t rest = blockIdx.x * kThreads + threadIdx.x;
  if (rest >= move.threads) return;
  const auto position = static_cast<std::int32_t>(move.row.split(rest) * (kWidth / sizeof(T)));
  const auto first_row = static_cast<std::uint32_t>(move.rows.split(rest) * kRowsOfThread);
  std::int64_t to = position, from = 0;
  bool moved = true;
  for (int i = 1; i < move.outer; ++i) moved &= move.axes[i].move(move.axes[i].size.split(rest), to, from);

  // All loads before the first store.
  Elements<T, kWidth> vectors[kRowsOfThread] = {};
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    std::int64_t row_to = to, row_from = from;
    if (first_row + i >= move.axes[0].size.value || !move.axes[0].move(first_row + i, row_to, row_from) || !moved)
      continue;
    vectors[i] = moved_vector<T, kWidth, kMode>(move.run, position - move.run.first, in + row_from);
  }
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    if (first_row + i >= move.axes[0].size.value) continue;
    const std::int64_t row_to = to + std::int64_t{first_row + i} * move.axes[0].out_stride;
    *reinterpret_cast<Vector*>(out + row_to) = std::bit_cast<Vector>(vectors[i]);
  }
}

template <class T, std::size_t kWidth>
cudaError_t launch_rows(RowMode mode, const T* in, T* out, const RowMove& move, cudaStream_t stream) {
  auto kernel = move_vectors<T, kWidth, RowMode::elements>;
  if constexpr (kWidth > sizeof(T)) {
    if (mode == RowMode::copy) kernel = move_vectors<T, kWidth, RowMode::copy>;
    if (mode == RowMode::reverse) kernel = move_vectors<T, kWidth, RowMode::reverse>;
    if (mode == RowMode::spread) kernel = move_vectors<T, kWidth, RowMode::spread>;
  }
  return launch(stream, move.threads, kernel, move, in, out);
}

}  // namespace

cudaError_t move_gather(std::size_t element_size, const void* in, void* out, const GatherMove& move,
                        cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(element_size, [&]<class T>() {
    status = launch(stream, move.elements, gather_elements<T>, move, static_cast<const T*>(in), static_cast<T*>(out));
  });
  return status;
}

cudaError_t move_rows(std::size_t element_size, std::size_t width, RowMode mode, const void* in, void* out,
                      const RowMove& move, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(element_size, [&]<class T>() {
    const auto* from = static_cast<const T*>(in);
    auto* to = static_cast<T*>(out);
    if (width == 16) {
      status = launch_rows<T, 16>(mode, from, to, move, stream);
    } else if (width == 8) {
      status = launch_rows<T, 8>(mode, from, to, move, stream);
    } else {
      status = launch_rows<T, sizeof(T)>(mode, from, to, move, stream);
    }
  });
  return status;
}

}  // namespace bp::cuda

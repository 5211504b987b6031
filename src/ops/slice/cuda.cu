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
template <std::size_t kWidth>
using Vector = typename VectorOf<kWidth>::type;

template <std::size_t kWidth, class T>
__device__ Vector<kWidth> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<kWidth>*>(from);
}

// The vector at a distance from the first position that is taken, element by element; `in` is where that takes from.
template <class T, std::size_t kWidth>
__device__ Vector<kWidth> vector_of_elements(const MovedAxis<std::uint32_t>& run, std::int32_t distance,
                                             const T* __restrict__ in) {
  const auto in_stride = static_cast<std::int32_t>(run.in_stride);
  Elements<T, kWidth> result{};
#pragma unroll
  for (int i = 0; i < static_cast<int>(result.size()); ++i) {
    const std::int32_t k = run.taken(distance + i);
    if (k >= 0) result[i] = in[std::int64_t{k} * in_stride];
  }
  return std::bit_cast<Vector<kWidth>>(result);
}

// Where whole vectors are taken, few are taken in part: as a call, these cost the others no registers.
template <class T, std::size_t kWidth>
__device__ __noinline__ Vector<kWidth> vector_in_part(const MovedAxis<std::uint32_t>& run, std::int32_t distance,
                                                      const T* __restrict__ in) {
  return vector_of_elements<T, kWidth>(run, distance, in);
}

template <class T, std::size_t kWidth, RowMode kMode>
__device__ Vector<kWidth> moved_vector(const MovedAxis<std::uint32_t>& run, std::int32_t distance,
                                       const T* __restrict__ in) {
  constexpr int kCount = kWidth / sizeof(T);
  if constexpr (kMode == RowMode::elements) {
    return vector_of_elements<T, kWidth>(run, distance, in);
  } else {
    const std::int32_t taken_before = kMode == RowMode::spread ? (distance + 1) >> 1 : distance;
    const std::int32_t taken_here = kMode == RowMode::spread ? kCount / 2 : kCount;
    if (distance < 0 || taken_before + taken_here > run.count) {
      if (distance <= -kCount || taken_before >= run.count) return {};
      return vector_in_part<T, kWidth>(run, distance, in);
    }
    if constexpr (kMode == RowMode::copy) return load_vector<kWidth>(in + distance);
    Elements<T, kWidth> result{};
    if constexpr (kMode == RowMode::reverse) {
      const auto forward = std::bit_cast<Elements<T, kWidth>>(load_vector<kWidth>(in - distance - (kCount - 1)));
#pragma unroll
      for (int i = 0; i < kCount; ++i) result[i] = forward[kCount - 1 - i];
    } else {
      const auto half = std::bit_cast<Elements<T, kWidth / 2>>(load_vector<kWidth / 2>(in + taken_before));
      const bool odd = (distance & 1) != 0;  // as all are, or none
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        result[2 * i] = odd ? T{0} : half[i];
        result[2 * i + 1] = odd ? half[i] : T{0};
      }
    }
    return std::bit_cast<Vector<kWidth>>(result);
  }
}

template <class T, std::size_t kWidth, RowMode kMode, int kRows>
__global__ void __launch_bounds__(kThreads)
    move_vectors(const __grid_constant__ RowMove move, const T* __restrict__ in, T* __restrict__ out) {
  std::uint32_t rest = blockIdx.x * kThreads + threadIdx.x;
  if (rest >= move.threads) return;
  const auto position = static_cast<std::int32_t>(move.row.split(rest) * (kWidth / sizeof(T)));
  const std::uint32_t apart = move.side_by_side ? 1 : move.rows.value;
  const auto first_row = static_cast<std::uint32_t>(move.rows.split(rest) * (move.side_by_side ? kRows : 1));
  std::int64_t to = position, from = 0;
  bool moved = true;
  for (int i = 1; i < move.outer; ++i) moved &= move.axes[i].move(move.axes[i].size.split(rest), to, from);

  // All loads before the first store.
  Vector<kWidth> vectors[kRows] = {};
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    std::int64_t row_to = to, row_from = from;
    const std::uint32_t row = first_row + i * apart;
    if (row >= move.axes[0].size.value || !move.axes[0].move(row, row_to, row_from) || !moved) continue;
    vectors[i] = moved_vector<T, kWidth, kMode>(move.run, position - move.run.first, in + row_from);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const std::uint32_t row = first_row + i * apart;
    if (row >= move.axes[0].size.value) continue;
    const std::int64_t row_to = to + std::int64_t{row} * move.axes[0].out_stride;
    *reinterpret_cast<Vector<kWidth>*>(out + row_to) = vectors[i];
  }
}

template <class T, std::size_t kWidth>
cudaError_t launch_rows(RowMode mode, const T* in, T* out, const RowMove& move, cudaStream_t stream) {
  constexpr int kMost = kMostRowsOfThread;
  auto kernel = move_vectors<T, kWidth, RowMode::elements, kMost>;
  if constexpr (kWidth > sizeof(T)) {
    if (mode == RowMode::copy) kernel = move_vectors<T, kWidth, RowMode::copy, kMost>;
    if (mode == RowMode::copy && move.rows_of_thread == 1) kernel = move_vectors<T, kWidth, RowMode::copy, 1>;
    if (mode == RowMode::reverse) kernel = move_vectors<T, kWidth, RowMode::reverse, kMost>;
    if (mode == RowMode::spread) kernel = move_vectors<T, kWidth, RowMode::spread, kMost>;
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

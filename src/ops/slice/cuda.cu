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

// ---- Contiguous rows: one thread for some vectors of the output ----------------------------------------

constexpr std::uint32_t kVectors = 2;  // for each thread: their loads are in flight together

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
struct MovedVector {
  std::int64_t to = 0;
  std::array<T, kWidth / sizeof(T)> elements{};
};

template <class T, std::size_t kWidth, bool kAligned>
__device__ MovedVector<T, kWidth> gather_vector(const RowMove& move, std::uint32_t number, const T* __restrict__ in) {
  using Vector = typename VectorOf<kWidth>::type;
  constexpr int kElements = kWidth / sizeof(T);
  MovedVector<T, kWidth> vector;
  std::uint32_t rest = number;
  const auto position = static_cast<std::int64_t>(move.row.split(rest)) * kElements;
  vector.to = position;
  std::int64_t from = 0;
  bool moved = true;
  for (int i = 0; i < move.outer; ++i) moved &= move.axes[i].move(move.axes[i].size.split(rest), vector.to, from);
  if (!moved) return vector;
  const std::int64_t distance = position - move.run.first;
  if (kAligned && distance >= 0 && distance + kElements <= move.run.count) {
    vector.elements = std::bit_cast<std::array<T, kElements>>(*reinterpret_cast<const Vector*>(in + from + distance));
    return vector;
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    std::int64_t at = from;
    if (move.run.move_input(distance + i, at)) vector.elements[i] = in[at];
  }
  return vector;
}

template <class T, std::size_t kWidth, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    move_vectors(const __grid_constant__ RowMove move, const T* __restrict__ in, T* __restrict__ out) {
  using Vector = typename VectorOf<kWidth>::type;
  const std::uint32_t first = blockIdx.x * (kThreads * kVectors) + threadIdx.x;
  MovedVector<T, kWidth> vectors[kVectors];
#pragma unroll
  for (std::uint32_t i = 0; i < kVectors; ++i) {
    const std::uint32_t number = first + i * kThreads;
    if (number < move.vectors) vectors[i] = gather_vector<T, kWidth, kAligned>(move, number, in);
  }
#pragma unroll
  for (std::uint32_t i = 0; i < kVectors; ++i) {
    if (first + i * kThreads >= move.vectors) continue;
    *reinterpret_cast<Vector*>(out + vectors[i].to) = std::bit_cast<Vector>(vectors[i].elements);
  }
}

template <class T, std::size_t kWidth>
cudaError_t launch_rows(bool aligned, const T* in, T* out, const RowMove& move, cudaStream_t stream) {
  const std::int64_t threads = (std::int64_t{move.vectors} + kVectors - 1) / kVectors;
  if (aligned) return launch(stream, threads, move_vectors<T, kWidth, true>, move, in, out);
  return launch(stream, threads, move_vectors<T, kWidth, false>, move, in, out);
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

cudaError_t move_rows(std::size_t element_size, std::size_t width, bool aligned, const void* in, void* out,
                      const RowMove& move, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(element_size, [&]<class T>() {
    const auto* from = static_cast<const T*>(in);
    auto* to = static_cast<T*>(out);
    if (width == 16) {
      status = launch_rows<T, 16>(aligned, from, to, move, stream);
    } else if (width == 8) {
      status = launch_rows<T, 8>(aligned, from, to, move, stream);
    } else {
      status = launch(stream, (std::int64_t{move.vectors} + kVectors - 1) / kVectors, move_vectors<T, sizeof(T), false>,
                      move, from, to);
    }
  });
  return status;
}

}  // namespace bp::cuda

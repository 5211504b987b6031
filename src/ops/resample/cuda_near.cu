// SPDX-License-Identifier: Apache-2.0
// Where an element of dx has at most two terms along an axis, it has four at most, and to read them where they are is
// less work than to pass sums on: what neighbours read too is in the cache. A thread keeps to a few columns, whose
// terms stay in registers, and walks down; the elements of the next row are under way while one is summed.
//
// An element is read only if it is a term of its row and of its column; one that is not is 0, which changes no sum: all
// weights are finite. A sum's sign where it is 0 is settled at the end alone: until then 0 and -0 make the same sums.
#include "ops/resample/cuda_near.h"

#include "backends/cuda/chunk.cuh"
#include "backends/cuda/launch.cuh"

namespace bp::cuda {

template <bool kPlanar_, bool kAligned, int kTerms_, bool kUnit_>
struct NearShape {
  static constexpr NearKind kKind{.planar = kPlanar_, .aligned = kAligned, .terms = kTerms_, .unit = kUnit_};
  static constexpr bool kPlanar = kPlanar_;
  static constexpr int kTerms = kTerms_;
  static constexpr bool kUnit = kUnit_;
  static constexpr int kColumns = near_columns(kKind);
  static constexpr int kChannels = near_channels(kKind);
};

namespace {

constexpr int kBlock = 128;

// The elements of dy that are the terms of a thread's columns in one row of dx.
template <class T, class Shape>
struct NearRow {
  RawChunk<T, Shape::kChannels> of[Shape::kTerms][Shape::kColumns][Shape::kTerms];  // row, column, the column's term
};

// So many bytes on.
template <class T>
__device__ const T* moved(const T* from, std::int64_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + bytes);
}

// The sum of w * value over the terms there are.
template <class Shape>
__device__ float sum_of_terms(const NearTerms& terms, const float (&values)[Shape::kTerms]) {
  float sum = Shape::kUnit ? values[0] : terms.weights[0] * values[0];
  if constexpr (Shape::kTerms == 2) sum += Shape::kUnit ? values[1] : terms.weights[1] * values[1];
  return sum;
}

template <class T, class Shape>
__global__ void __launch_bounds__(kBlock)
    sum_near(const __grid_constant__ NearProblem problem, const ResampleView<const T> dy, const ResampleView<T> dx) {
  constexpr int kTerms = Shape::kTerms, kColumns = Shape::kColumns, kChannels = Shape::kChannels;
  using Row = NearRow<T, Shape>;
  std::uint32_t rest = blockIdx.x * kBlock + threadIdx.x;
  if (rest >= problem.threads) return;
  std::int64_t channel = 0;
  if constexpr (!Shape::kPlanar) channel = problem.channels.split(rest) * kChannels;
  const int first_column = static_cast<int>(problem.groups.split(rest)) * kColumns;
  const int first_row = static_cast<int>(problem.strips.split(rest)) * problem.strip;
  if constexpr (Shape::kPlanar) channel = problem.channels.split(rest);
  const std::int64_t batch = rest;
  const int end_row = min(first_row + problem.strip, problem.rows);

  NearTerms columns[kColumns];
  const T* from[kColumns];  // a column's first term in row 0
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    columns[c] = load_entry(problem.column_terms + first_column + c);
    from[c] = moved(dy.data + batch * dy.batch + channel * dy.channel, columns[c].offset);
    keep(from[c]);  // or every load adds it up anew
  }
  const std::int64_t next_column = Shape::kPlanar ? 1 : dy.column;
  const auto load = [&](const NearTerms& row, bool wanted) {
    Row read{};
#pragma unroll
    for (int r = 0; r < kTerms; ++r) {
      const bool row_exists = wanted && row.weights[r] != 0;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const T* at = moved(from[c], row.offset) + r * dy.row;
        keep(at);
#pragma unroll
        for (int k = 0; k < kTerms; ++k) {
          read.of[r][c][k].load_if(row_exists && columns[c].weights[k] != 0, at + k * next_column);
        }
      }
    }
    return read;
  };

  T* to = dx.data + batch * dx.batch + channel * dx.channel + first_row * dx.row + first_column * dx.column;
  const auto write = [&](const NearTerms& row, const Row& read) {
    Chunk<T, kColumns * kChannels> chunk;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      float down[kChannels][kTerms];
#pragma unroll
      for (int k = 0; k < kTerms; ++k) {
        Chunk<T, kChannels> elements[kTerms];
#pragma unroll
        for (int r = 0; r < kTerms; ++r) elements[r] = read.of[r][c][k].chunk();
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          float values[kTerms];
#pragma unroll
          for (int r = 0; r < kTerms; ++r) values[r] = widened(elements[r].at[i]);
          down[i][k] = sum_of_terms<Shape>(row, values);
        }
      }
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        chunk.at[c * kChannels + i] = narrowed<T>(sum_of_terms<Shape>(columns[c], down[i]) + 0.0f);  // never -0
      }
    }
    store(to, chunk);
    to += dx.row;
  };

  // Rows take turns: while one is summed, the elements of the other are under way.
  constexpr int kAhead = kNearAhead;
  const NearTerms* terms = problem.row_terms + first_row;
  NearTerms here[kAhead], next[kAhead];
  Row read[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    here[i] = load_entry(terms + i);
    next[i] = load_entry(terms + kAhead + i);
  }
#pragma unroll
  for (int i = 0; i < kAhead; ++i) read[i] = load(here[i], first_row + i < end_row);
  for (int row = first_row; row < end_row; row += kAhead) {
    terms += kAhead;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i == 0 || row + i < end_row) write(here[i], read[i]);
      here[i] = next[i];
      read[i] = load(here[i], row + kAhead + i < end_row);
      next[i] = load_entry(terms + kAhead + i);
    }
  }
}

// Calls run<T, Shape>(). One term has no use for the knowledge that its weight is 1.
template <class Run>
cudaError_t with_kind(const NearKind& kind, const Run& run) {
  cudaError_t status = cudaErrorInvalidValue;
  const auto terms = [&]<class T, bool kPlanar, bool kAligned>() {
    if (kind.terms == 1) {
      status = run.template operator()<T, NearShape<kPlanar, kAligned, 1, false>>();
    } else if (kind.unit) {
      status = run.template operator()<T, NearShape<kPlanar, kAligned, 2, true>>();
    } else {
      status = run.template operator()<T, NearShape<kPlanar, kAligned, 2, false>>();
    }
  };
  const auto type = [&]<class T>() {
    if (kind.planar && kind.aligned) return terms.template operator()<T, true, true>();
    if (kind.planar) return terms.template operator()<T, true, false>();
    if (kind.aligned) return terms.template operator()<T, false, true>();
    return terms.template operator()<T, false, false>();
  };
  if (kind.dtype == DType::f32) type.template operator()<float>();
  if (kind.dtype == DType::f16) type.template operator()<__half>();
  if (kind.dtype == DType::bf16) type.template operator()<__nv_bfloat16>();
  return status;
}

}  // namespace

cudaError_t resample_near(const NearKind& kind, const NearProblem& problem, const ResampleView<const void>& dy,
                          const ResampleView<void>& dx, cudaStream_t stream) {
  return with_kind(kind, [&]<class T, class Shape>() {
    return launch_blocks(stream, divide_up(problem.threads, kBlock), kBlock, 0, sum_near<T, Shape>, problem,
                         typed<const T>(dy), typed<T>(dx));
  });
}

}  // namespace bp::cuda

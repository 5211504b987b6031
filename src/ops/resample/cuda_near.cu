// SPDX-License-Identifier: Apache-2.0
// Where an element has at most two terms along an axis, it has four at most, and to read them where they are is less
// work than to pass sums on: what neighbours read too is in the cache. A thread keeps to a few columns, whose terms
// stay in registers, and walks down.
//
// An element is read only if it is a term of its column and, where rows come first, of its row; one that is not is 0,
// which changes no sum: all weights are finite. A sum's sign where it is 0 is settled at the end alone: until then 0
// and -0 make the same sums.
#include "ops/resample/cuda_near.h"

#include "backends/cuda/chunk.cuh"
#include "backends/cuda/launch.cuh"

namespace bp::cuda {

template <bool kPlanar_, bool kAligned, NearSums kSums_, int kTerms_, bool kUnit_>
struct NearShape {
  static constexpr NearKind kKind{
      .sums = kSums_, .planar = kPlanar_, .aligned = kAligned, .terms = kTerms_, .unit = kUnit_};
  static constexpr NearSums kSums = kSums_;
  static constexpr bool kPlanar = kPlanar_;
  static constexpr int kTerms = kTerms_;
  static constexpr bool kUnit = kUnit_;
  static constexpr int kColumns = near_columns(kKind);
  static constexpr int kChannels = near_channels(kKind);
};

namespace {

constexpr int kBlock = 128;

// The terms of a thread's columns in one row.
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

// What a thread keeps to.
template <class T, class Shape>
struct NearThread {
  NearTerms columns[Shape::kColumns];
  const T* from[Shape::kColumns];  // a column's first term in row 0
  T* to;                           // its first row
  int first_row, end_row;

  // False: there is nothing left for it.
  __device__ bool begin(const NearProblem& problem, const ResampleView<const T>& in, const ResampleView<T>& out) {
    std::uint32_t rest = blockIdx.x * kBlock + threadIdx.x;
    if (rest >= problem.threads) return false;
    std::int64_t channel = 0;
    if constexpr (!Shape::kPlanar) channel = problem.channels.split(rest) * Shape::kChannels;
    const int first_column = static_cast<int>(problem.groups.split(rest)) * Shape::kColumns;
    first_row = static_cast<int>(problem.strips.split(rest)) * problem.strip;
    end_row = min(first_row + problem.strip, problem.rows);
    if constexpr (Shape::kPlanar) channel = problem.channels.split(rest);
    const std::int64_t batch = rest;
#pragma unroll
    for (int c = 0; c < Shape::kColumns; ++c) {
      columns[c] = load_entry(problem.column_terms + first_column + c);
      from[c] = moved(in.data + batch * in.batch + channel * in.channel, columns[c].offset);
      keep(from[c]);  // or every load adds it up anew
    }
    to = out.data + batch * out.batch + channel * out.channel + first_row * out.row + first_column * out.column;
    return true;
  }
};

// Rows first: the gradient. The elements of the next rows are under way while one is summed.
template <class T, class Shape>
__global__ void __launch_bounds__(kBlock) sum_rows_first(const __grid_constant__ NearProblem problem,
                                                         const ResampleView<const T> in, const ResampleView<T> out) {
  constexpr int kTerms = Shape::kTerms, kColumns = Shape::kColumns, kChannels = Shape::kChannels;
  using Row = NearRow<T, Shape>;
  NearThread<T, Shape> thread;
  if (!thread.begin(problem, in, out)) return;
  const auto& [columns, from, start, first_row, end_row] = thread;
  const std::int64_t next_column = Shape::kPlanar ? 1 : in.column;
  const auto load = [&](const NearTerms& row, bool wanted) {
    Row read{};
#pragma unroll
    for (int r = 0; r < kTerms; ++r) {
      const bool row_exists = wanted && row.weights[r] != 0;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const T* at = moved(from[c], row.offset) + r * in.row;
        keep(at);
#pragma unroll
        for (int k = 0; k < kTerms; ++k) {
          read.of[r][c][k].load_if(row_exists && columns[c].weights[k] != 0, at + k * next_column);
        }
      }
    }
    return read;
  };

  T* to = start;
  const auto write = [&](const NearTerms& row, const Row& read) {
    Chunk<T, kColumns * kChannels> chunk;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        float down[kTerms];
#pragma unroll
        for (int k = 0; k < kTerms; ++k) {
          float values[kTerms];
#pragma unroll
          for (int r = 0; r < kTerms; ++r) values[r] = widened(read.of[r][c][k].chunk().at[i]);
          down[k] = sum_of_terms<Shape>(row, values);
        }
        chunk.at[c * kChannels + i] = narrowed<T>(sum_of_terms<Shape>(columns[c], down) + 0.0f);  // never -0
      }
    }
    store(to, chunk);
    to += out.row;
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

// Columns first: forward. What two rows of the input are along them is kept for the next rows of the output, which
// mostly need the same two, or the second and the one below.
template <class T, class Shape>
__global__ void __launch_bounds__(kBlock) sum_columns_first(const __grid_constant__ NearProblem problem,
                                                            const ResampleView<const T> in, const ResampleView<T> out) {
  constexpr int kTerms = Shape::kTerms, kColumns = Shape::kColumns, kChannels = Shape::kChannels;
  constexpr bool kMoves = Shape::kSums == NearSums::none;
  using Value = std::conditional_t<kMoves, T, float>;
  struct Across {
    Value of[kColumns][kChannels];
  };
  NearThread<T, Shape> thread;
  if (!thread.begin(problem, in, out)) return;
  const auto& [columns, from, start, first_row, end_row] = thread;

  const std::int64_t next_column = Shape::kPlanar ? 1 : in.column;
  const auto across = [&](std::int64_t row) {
    RawChunk<T, kChannels> read[kColumns][kTerms] = {};
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int k = 0; k < kTerms; ++k) {
        read[c][k].load_if(columns[c].weights[k] != 0, moved(from[c], row) + k * next_column);
      }
    }
    Across sums;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        if constexpr (kMoves) {
          sums.of[c][i] = read[c][0].chunk().at[i];
        } else {
          float values[kTerms];
#pragma unroll
          for (int k = 0; k < kTerms; ++k) values[k] = widened(read[c][k].chunk().at[i]);
          sums.of[c][i] = sum_of_terms<Shape>(columns[c], values);
        }
      }
    }
    return sums;
  };

  const std::int64_t next_row = in.row * static_cast<std::int64_t>(sizeof(T));
  T* to = start;
  Across upper{}, lower{};
  std::int64_t held = 0;  // the row that `upper` is
  for (int row = first_row; row < end_row; ++row, to += out.row) {
    const NearTerms terms = load_entry(problem.row_terms + row);
    if (row == first_row || terms.offset != held) {
      if (!kMoves && row != first_row && terms.offset == held + next_row) {
        upper = lower;
      } else {
        upper = across(terms.offset);
      }
      held = terms.offset;
      if (!kMoves && held != problem.last_row) lower = across(held + next_row);
    }
    Chunk<T, kColumns * kChannels> chunk;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        if constexpr (kMoves) {
          chunk.at[c * kChannels + i] = upper.of[c][i];
        } else {
          // What is no term may be infinite.
          float sum = terms.weights[0] != 0 ? terms.weights[0] * upper.of[c][i] : 0.0f;
          if (terms.weights[1] != 0) sum += terms.weights[1] * lower.of[c][i];
          chunk.at[c * kChannels + i] = narrowed<T>(sum + 0.0f);  // never -0
        }
      }
    }
    store(to, chunk);
  }
}

// Calls run<T, Shape>(). One term has no use for the knowledge that its weight is 1.
template <class Run>
cudaError_t with_kind(const NearKind& kind, const Run& run) {
  cudaError_t status = cudaErrorInvalidValue;
  const auto with_sums = [&]<class T, NearSums kSums, int kTerms, bool kUnit>() {
    if (kind.planar && kind.aligned) {
      status = run.template operator()<T, NearShape<true, true, kSums, kTerms, kUnit>>();
    } else if (kind.planar) {
      status = run.template operator()<T, NearShape<true, false, kSums, kTerms, kUnit>>();
    } else if (kind.aligned) {
      status = run.template operator()<T, NearShape<false, true, kSums, kTerms, kUnit>>();
    } else {
      status = run.template operator()<T, NearShape<false, false, kSums, kTerms, kUnit>>();
    }
  };
  const auto type = [&]<class T>() {
    if (kind.sums == NearSums::columns_first)
      return with_sums.template operator()<T, NearSums::columns_first, 2, false>();
    if (kind.terms == 1) return with_sums.template operator()<T, NearSums::rows_first, 1, false>();
    if (kind.unit) return with_sums.template operator()<T, NearSums::rows_first, 2, true>();
    with_sums.template operator()<T, NearSums::rows_first, 2, false>();
  };
  if (kind.sums == NearSums::none) {
    if (size_of(kind.dtype) == 2) with_sums.template operator()<Bits<2>, NearSums::none, 1, false>();
    if (size_of(kind.dtype) == 4) with_sums.template operator()<Bits<4>, NearSums::none, 1, false>();
    return status;
  }
  with_type(kind.dtype, type);
  return status;
}

}  // namespace

cudaError_t resample_near(const NearKind& kind, const NearProblem& problem, const ResampleView<const void>& from,
                          const ResampleView<void>& to, cudaStream_t stream) {
  return with_kind(kind, [&]<class T, class Shape>() {
    constexpr auto kKernel =
        Shape::kSums == NearSums::rows_first ? sum_rows_first<T, Shape> : sum_columns_first<T, Shape>;
    return launch_blocks(stream, divide_up(problem.threads, kBlock), kBlock, 0, kKernel, problem, typed<const T>(from),
                         typed<T>(to));
  });
}

}  // namespace bp::cuda

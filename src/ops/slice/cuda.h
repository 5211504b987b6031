// SPDX-License-Identifier: Apache-2.0
// The kernels of slice and its gradient, as the host calls them: both are one movement (see movement.h). They only put
// work on the stream.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/tensor.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace bp::cuda {

// An axis of the output: positions first + step * k, for k < count, take what lies at k * in_stride in the input; the
// others are zero.
template <class Unsigned>
struct MovedAxis {
  using Signed = std::make_signed_t<Unsigned>;
  Divisor<Unsigned> size{}, step{};
  Signed first = 0, count = 1;
  bool is_whole = true;  // every position is taken
  std::int64_t out_stride = 1, in_stride = 1;

  // The k of a position, -1 where it is zero; by the distance from `first`.
  [[nodiscard]] constexpr Signed taken(Signed distance) const {
    if (distance < 0) return -1;
    const Unsigned k = step.quotient(static_cast<Unsigned>(distance));
    const bool taken = static_cast<Signed>(k) < count && k * step.value == static_cast<Unsigned>(distance);
    return taken ? static_cast<Signed>(k) : -1;
  }
  // Moves both offsets to a position; false where it is zero.
  [[nodiscard]] constexpr bool move(Unsigned position, std::int64_t& out, std::int64_t& in) const {
    if (is_whole) {
      out += static_cast<std::int64_t>(position) * out_stride;
      in += static_cast<std::int64_t>(position) * in_stride;
      return true;
    }
    const Signed k = taken(static_cast<Signed>(position) - first);
    out += static_cast<std::int64_t>(position) * out_stride;
    in += k * in_stride;
    return k >= 0;
  }
};

// One thread for each element of the output; the innermost axis first.
struct GatherMove {
  std::int64_t elements = 0;
  int rank = 0;
  MovedAxis<std::uint64_t> axes[kMaxRank];
};
cudaError_t move_gather(std::size_t element_size, const void* in, void* out, const GatherMove& move,
                        cudaStream_t stream);

// The output's rows are contiguous, and each is so many whole vectors of `width` bytes, which begin at multiples of it.
// Each thread moves the same vector of as many rows as occupy it best: one where it is copied; else a few, that lie far
// apart, so that the rows of neighbouring threads follow each other; or side by side, where every second row or more
// are zero, so that all threads have as many of these.
inline constexpr std::int64_t kMostRowsOfThread = 2;
struct RowMove {
  std::int64_t threads = 0;              // below 2^31
  Divisor<std::uint32_t> row{}, rows{};  // vectors of one row; threads that share the rows of the innermost outer axis
  std::int64_t rows_of_thread = 1;       // 1 or kMostRowsOfThread
  bool side_by_side = false;
  MovedAxis<std::uint32_t> run{};  // its in_stride is of 32 bits
  int outer = 0;                   // axes outside of the row, at least one; the innermost first
  MovedAxis<std::uint32_t> axes[kMaxRank];
};
// What a vector of the output that is wholly taken is made of.
enum class RowMode {
  copy,      // a vector of the input, which begins at a multiple of its width
  reverse,   // the same, backwards
  spread,    // half of one, with a zero behind or before each element
  elements,  // one by one
};
cudaError_t move_rows(std::size_t element_size, std::size_t width, RowMode mode, const void* in, void* out,
                      const RowMove& move, cudaStream_t stream);

// The output is one run without gaps, whose rows end anywhere within vectors: each thread makes a vector, of one row
// or, where one ends, of two. `before` elements of the first vector lie before the output.
inline constexpr std::size_t kLinearWidth = 16;  // bytes of a vector
struct LinearMove {
  std::int64_t elements = 0, before = 0;
  std::int32_t row = 1;  // elements of one, at least those of a vector
  Divisor<std::uint32_t> rows_32{};
  Divisor<std::uint64_t> rows_64{};  // by that, for outputs that 32 bits count, and for all
  MovedAxis<std::uint32_t> run{};    // its in_stride is of 32 bits
  int outer = 0;                     // axes outside of the row; the innermost first
  MovedAxis<std::uint32_t> axes[kMaxRank];
};
// What a row takes of the input.
enum class LinearMode {
  forward,   // neighbours
  backward,  // the same, backwards
  apart,     // elements in_stride apart
  spread,    // the same, with a zero behind each
  elements,  // with more zeros
};
cudaError_t move_linear(std::size_t element_size, LinearMode mode, const void* in, void* out, const LinearMove& move,
                        cudaStream_t stream);

}  // namespace bp::cuda

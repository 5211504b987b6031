// SPDX-License-Identifier: Apache-2.0
// The kernels of slice and its gradient, as the host calls them: both are one movement (see movement.h). They only put
// work on the stream.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/tensor.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

// An axis of the output: positions first + step * k, for k < count, take what lies at k * in_stride in the input; the
// others are zero.
template <class Unsigned>
struct MovedAxis {
  Divisor<Unsigned> size, step;
  std::int64_t first = 0, count = 1;
  std::int64_t out_stride = 1, in_stride = 1;

  // Moves both offsets to a position; false where it is zero.
  [[nodiscard]] constexpr bool move(Unsigned position, std::int64_t& out, std::int64_t& in) const {
    out += static_cast<std::int64_t>(position) * out_stride;
    return move_input(static_cast<std::int64_t>(position) - first, in);
  }
  // The input's alone, by the distance from `first`.
  [[nodiscard]] constexpr bool move_input(std::int64_t distance, std::int64_t& in) const {
    if (distance < 0) return false;
    const Unsigned k = step.quotient(static_cast<Unsigned>(distance));
    in += static_cast<std::int64_t>(k) * in_stride;
    return static_cast<std::int64_t>(k) < count && k * step.value == static_cast<Unsigned>(distance);
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
struct RowMove {
  std::uint32_t vectors = 0;   // in all, below 2^31
  Divisor<std::uint32_t> row;  // vectors of one row
  MovedAxis<std::uint32_t> run;
  int outer = 0;  // axes outside of the row
  MovedAxis<std::uint32_t> axes[kMaxRank];
};
// Aligned: every vector of the input that is wholly taken begins at a multiple of `width`, too, and is loaded as one.
cudaError_t move_rows(std::size_t element_size, std::size_t width, bool aligned, const void* in, void* out,
                      const RowMove& move, cudaStream_t stream);

}  // namespace bp::cuda

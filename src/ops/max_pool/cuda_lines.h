// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling by any windows over rows that are contiguous, as the host calls it: those for which no
// kernel is compiled, one-dimensional ones among them. Types are f32, f16 and bf16, winners compact, in bytes; no depth
// axis, no dilation.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/dtype.h"
#include "ops/max_pool/cuda.h"
#include "ops/max_pool/cuda_tiles.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

struct LineAxis {
  int input = 1, output = 1, window = 1, padding = 0;
  Divisor<std::uint32_t> stride{};
};

// A thread makes a vector of a row of dx: 16 bytes of neighbours, or what is left of a row.
inline constexpr int kLineBytes = 16;
struct LinePool {
  DType dtype = DType::f32;
  std::uint32_t threads = 0;
  Divisor<std::uint32_t> vectors{}, channels{};  // of a row; of a sample
  Divisor<std::uint32_t> all_rows{};             // of a plane
  Divisor<std::uint32_t> columns_of_window{};
  LineAxis rows{}, columns{};
  bool in_vectors = false;  // every row of dx begins at a multiple of 16 bytes, and is whole vectors
};

// Only puts work on the stream. `found` may be null: then the winners are known to be right; else *found is cleared
// first.
cudaError_t gather_lines(const LinePool& pool, const ConstPoolView& winners, const ConstPoolView& dy,
                         const MutablePoolView& dx, WrongWinnersFound* found, cudaStream_t stream);

}  // namespace bp::cuda

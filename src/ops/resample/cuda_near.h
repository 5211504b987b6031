// SPDX-License-Identifier: Apache-2.0
// A resample in which no element has more than two terms along an axis, as the host calls it: forward every one, but
// for tables; of the gradients nearest up to twice the size, and linear to a smaller one. Rows and columns; types are
// f32, f16 and bf16.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/dtype.h"
#include "ops/resample/cuda_view.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace bp::cuda {

// The terms of one element: what is read `offset` bytes from the first, and what comes after it. A weight of 0 is no
// term.
struct alignas(16) NearTerms {
  std::int64_t offset;
  float weights[2];
};

// What is summed first; or nothing is: bits move.
enum class NearSums { rows_first, columns_first, none };

struct NearKind {
  DType dtype = DType::f32;
  NearSums sums = NearSums::rows_first;
  bool planar = true;
  bool aligned = true;  // elements that are written move together, and channels that are read
  int terms = 2;        // at most, of an element along an axis
  bool unit = false;    // every weight is 1
};

// What a thread makes of a row: columns of one channel, or channels of one column. Fewer columns of two rows and two
// terms each: one load of a warp touches fewer lines.
constexpr int near_columns(const NearKind& kind) {
  if (!kind.planar || !kind.aligned) return 1;
  return kind.sums == NearSums::rows_first && kind.terms == 2 ? 2 : 4;
}
constexpr int near_channels(const NearKind& kind) { return !kind.planar && kind.aligned ? 4 : 1; }

inline constexpr int kNearAhead = 2;  // rows whose terms are under way
inline constexpr std::size_t kNearBeyond = std::size_t{3} * kNearAhead;

struct NearProblem {
  std::int32_t rows = 1;                 // that are written
  const NearTerms* row_terms = nullptr;  // kNearBeyond more, without terms, follow
  const NearTerms* column_terms = nullptr;
  std::int64_t last_row = 0;  // of what is read, in bytes from its first

  // Its cut: a thread walks down a strip of rows.
  Divisor<std::uint32_t> channels, groups, strips;  // channels, or vectors of them
  std::int32_t strip = 1;
  std::uint32_t threads = 0;
};

// Only puts work on the stream. Where the kind is aligned, rows that are written are, for their columns, or those of
// both tensors, for their channels.
cudaError_t resample_near(const NearKind& kind, const NearProblem& problem, const ResampleView<const void>& from,
                          const ResampleView<void>& to, cudaStream_t stream);

}  // namespace bp::cuda

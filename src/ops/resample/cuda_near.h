// SPDX-License-Identifier: Apache-2.0
// The gradient of a resample in which no element of dx has more than two terms along an axis, as the host calls it:
// nearest up to twice the size, and linear to a smaller one. Rows and columns; types are f32, f16 and bf16.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/dtype.h"
#include "ops/resample/cuda_view.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace bp::cuda {

// The terms of one input: the output `offset` bytes from the first, and the one after it. A weight of 0 is no term.
struct alignas(16) NearTerms {
  std::int64_t offset;
  float weights[2];
};

struct NearKind {
  DType dtype = DType::f32;
  bool planar = true;
  bool aligned = true;  // elements of dx move together, and channels of dy
  int terms = 2;        // at most, of an element of dx along an axis
  bool unit = false;    // every weight is 1
};

// What a thread makes of a row of dx: columns of one channel, or channels of one column. Fewer columns of two
// terms: one load of a warp touches fewer lines.
constexpr int near_columns(const NearKind& kind) { return kind.planar && kind.aligned ? (kind.terms == 1 ? 4 : 2) : 1; }
constexpr int near_channels(const NearKind& kind) { return !kind.planar && kind.aligned ? 4 : 1; }

inline constexpr int kNearAhead = 2;  // rows of dx whose terms are under way
inline constexpr std::size_t kNearBeyond = std::size_t{3} * kNearAhead;

struct NearProblem {
  std::int32_t rows = 1;                 // of dx
  const NearTerms* row_terms = nullptr;  // kNearBeyond more, without terms, follow
  const NearTerms* column_terms = nullptr;

  // Its cut: a thread walks down a strip of rows.
  Divisor<std::uint32_t> channels, groups, strips;  // channels, or vectors of them
  std::int32_t strip = 1;
  std::uint32_t threads = 0;
};

// Only puts work on the stream. Where the kind is aligned, rows of dx are, for its columns, or those of both tensors,
// for its channels.
cudaError_t resample_near(const NearKind& kind, const NearProblem& problem, const ResampleView<const void>& dy,
                          const ResampleView<void>& dx, cudaStream_t stream);

}  // namespace bp::cuda

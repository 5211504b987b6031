// SPDX-License-Identifier: Apache-2.0
// The gradient of doubling two or three axes, as the host calls it: input i is fed by outputs 2i and 2i + 1 (nearest),
// or by 2i - 1 to 2i + 2 (linear, whatever the weights), less those beyond the ends. Types are f32, f16 and bf16.
#pragma once

#include "core/dtype.h"
#include "ops/resample/cuda_view.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

// Of outputs 2i - 1, 2i, 2i + 1 and 2i + 2; 0 for one that does not exist. Those of one input more than there are
// follow, all 0.
struct alignas(16) DoubledWeights {
  float of[4];
};

struct DoubledKind {
  DType dtype = DType::f32;
  bool planar = true, nearest = false, volume = false;
  bool exact = false;  // the products of the first axis are
};

// Columns of dx that a thread makes, of one channel or of kDoubledChannels, and of how many depths: as registers allow.
inline constexpr int kDoubledChannels = 4;
constexpr int doubled_columns(const DoubledKind& kind) { return kind.planar ? 4 : 2; }
constexpr int doubled_depths(const DoubledKind& kind) { return kind.volume && kind.planar ? 2 : 1; }

struct DoubledProblem {
  std::uint32_t batch = 1, channels = 1;
  std::int32_t depth = 1, rows = 1, columns = 1;  // of dx
  const DoubledWeights* depth_weights = nullptr;  // null for nearest
  const DoubledWeights* row_weights = nullptr;
  const DoubledWeights* column_weights = nullptr;

  // Its cut, by `cut_doubled`: a thread walks down a strip of rows.
  std::uint32_t groups = 0, vectors = 0, strips = 0, depth_groups = 0, threads = 0;
  std::int32_t strip = 0;
};

// Fills in the cut; false where there are too many threads.
bool cut_doubled(const DoubledKind& kind, DoubledProblem& problem);
// Only puts work on the stream. Rows of dy are aligned for 16 bytes, or for kDoubledChannels elements, and so are those
// of dx for half as many columns.
cudaError_t resample_doubled(const DoubledKind& kind, const DoubledProblem& problem, const ResampleView<const void>& dy,
                             const ResampleView<void>& dx, cudaStream_t stream);

}  // namespace bp::cuda

// SPDX-License-Identifier: Apache-2.0
// The gradient of resampling one, two or three axes in one kernel, as the host calls it. Types are f32, f16 and bf16.
#pragma once

#include "core/dtype.h"
#include "ops/resample/cuda_tables.h"
#include "ops/resample/cuda_view.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

struct ResampleCut {
  // The problem; with two axes, depth is not read.
  std::uint32_t batch, channels;
  ResampleAxis depth, rows, columns;

  // Its cut, by `cut_separable`. A block's threads are [unit][lane]; a unit is the block's part of one plane or of one
  // block of channels.
  std::uint32_t pixel = 0, channel_blocks = 0, planes = 0;
  std::uint32_t tiles = 0, strips = 0, depth_strips = 0;
  // Rows of a strip, and how many of them have one more: nearly alike, so that all blocks take nearly the same time.
  std::uint32_t strip = 0, longer_strips = 0;
  std::uint32_t tile_columns = 0;
  std::uint32_t units = 0, lanes = 0;
};

struct ResampleGrid {
  std::uint64_t blocks = 0;
  std::uint32_t threads = 0;  // 0: even the least tile is too wide
  std::uint32_t shared_bytes = 0;
};

// Which products are exact, so that a fused multiplication and addition gives the contract's bits: none, those of the
// first axis (elements of a half type by short weights), or all (by weights of 1).
enum class Exact { none, first, all };

// How the kernel is specialised: for rows of columns or of channels, by how many elements move together, as measured on
// an H200. `together` are those of a row of dy, `out` those of dx.
enum class SeparableShape {
  columns,             // 4 together
  even_columns,        // 2
  odd_columns,         // 1
  staged_columns,      // the same of a half type, on devices that copy in bulk
  channels,            // 4, out 4
  channels_shrunk,     // the same for nearest and where dx is the larger
  half_channels,       // 8, out 8, of a half type, nearest
  half_few_channels,   // 8, out 1, of a half type: pixels of any count of channels, without gaps
  few_channels,        // 4, out 1
  odd_channels,        // 1
  staged_channels,     // the same of a half type, on devices that copy in bulk
  columns_volume,      // 4; these have three axes
  odd_columns_volume,  // 1
  channels_volume,     // 4, out 4
  odd_channels_volume  // 1
};
constexpr Together together(SeparableShape shape) {
  switch (shape) {
    case SeparableShape::columns:
    case SeparableShape::few_channels:
    case SeparableShape::columns_volume:
      return {4, 1};
    case SeparableShape::even_columns:
      return {2, 1};
    case SeparableShape::channels:
    case SeparableShape::channels_shrunk:
    case SeparableShape::channels_volume:
      return {4, 4};
    case SeparableShape::half_channels:
      return {8, 8};
    case SeparableShape::half_few_channels:
      return {8, 1};
    default:
      return {1, 1};
  }
}

constexpr bool is_for_halves(SeparableShape shape) {
  using enum SeparableShape;
  return shape == half_channels || shape == half_few_channels || shape == staged_columns || shape == staged_channels;
}

// With three axes: the depths of dx that a block makes, and those of dy that it may read at most.
inline constexpr int kSeparableDepths = 2;
inline constexpr int kMostDepthOutputs = 64;

struct SeparableKind {
  DType dtype = DType::f32;
  SeparableShape shape = SeparableShape::columns;
  Exact exact = Exact::none;
};

// Fills in the cut. `column_runs` is the host's copy of cut.columns.runs.
ResampleGrid cut_separable(const SeparableKind& kind, ResampleCut& cut, const OutputRun* column_runs);
// Whether the device at hand copies in bulk (compute capability 9.0 or newer), and runs code that is compiled for it.
bool can_stage();
// Lets the kernel have its shared memory on the device at hand: once, at create.
cudaError_t prepare_separable(const SeparableKind& kind, const ResampleGrid& grid);
// Only puts work on the stream.
cudaError_t resample_separable(const SeparableKind& kind, const ResampleCut& cut, const ResampleGrid& grid,
                               const ResampleView<const void>& dy, const ResampleView<void>& dx, cudaStream_t stream);

}  // namespace bp::cuda

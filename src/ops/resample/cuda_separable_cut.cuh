// SPDX-License-Identifier: Apache-2.0
// How the separable gradient is cut into blocks and threads, and how its kernel is specialised.
#pragma once

#include "backends/cuda/divisor.h"
#include "ops/resample/cuda_separable.h"

#include <algorithm>
#include <cstdint>

namespace bp::cuda {

template <int kThreads_, int kChunk_, int kPieces_, int kPasses_, int kOut_, int kRows_, int kDepths_, int kAhead_,
          bool kPlanar_, Exact kExact_, int kUnits_ = kPlanar_ ? 2 : 1, int kBlocks_ = 0, int kStages_ = 0>
struct ResampleShape {
  static constexpr int kThreads = kThreads_;  // of a block, at most
  static constexpr int kBlocks = kBlocks_;  // that registers are kept for on a multiprocessor; 0: the compiler's choice
  // Of a row of dy a thread reads kPieces chunks of kChunk elements: several where rows are not aligned for chunks. It
  // does so in kPasses, kAhead rows (with three axes: depths) at a time.
  static constexpr int kChunk = kChunk_;
  static constexpr int kPieces = kPieces_;
  static constexpr int kPasses = kPasses_;
  static constexpr int kAhead = kAhead_;
  static constexpr int kOut = kOut_;        // channels of a pixel of dx that are written together
  static constexpr int kRows = kRows_;      // of dx that a block makes,
  static constexpr int kDepths = kDepths_;  // of so many depths; 1: two axes
  static constexpr bool kPlanar = kPlanar_;
  static constexpr Exact kExact = kExact_;
  // So many times kAhead rows of dy are on their way through shared memory, copied by threads in front of the others;
  // 0: those who add them read them.
  static constexpr int kStages = kStages_;
  static constexpr int kReaders = kStages > 0 ? 32 : 0;

  static constexpr int kColumns = kChunk * kPieces;  // of a thread in one pass
  // Where a column is in a row of shared memory. In NCHW the sums of neighbours in dx begin several columns apart: at a
  // distance of 8, as of a scale of 8, a warp would read four banks alone, so that after every 32 columns one is left
  // out. (Not where a thread has several pieces: that takes registers, and such rows have scales whose distances vary.)
  static constexpr bool kGaps = kPlanar && kPieces == 1;
  static constexpr __host__ __device__ int place(int column) { return kGaps ? column + (column >> 5) : column; }
  // Constant, so that addresses in rows of shared memory, and of pieces, cost nothing.
  static constexpr int kPitch = place(kThreads * kColumns * kPasses);
  // Of a unit; 0: as many as it needs.
  static constexpr int kLanes = kPieces == 1 ? 0 : kThreads / kUnits_;
  static constexpr int kApart = kLanes * kChunk;  // from one piece to the next
  // Rows whose sums along the columns are made at once.
  static constexpr int kTogether = kOut > 1 && kRows > 4 ? 4 : kRows;
  static_assert(kStages == 0 || (kUnits_ == 1 && kDepths == 1 && kPasses == 1 && kPieces > 1 && kAhead <= kReaders));
};

template <SeparableShape kShape, Exact kExact>
struct ShapeOf;
template <Exact kExact>
struct ShapeOf<SeparableShape::columns, kExact> {
  using type = ResampleShape<128, 4, 1, 1, 1, 8, 1, kExact == Exact::all ? 8 : 6, true, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::half_few_channels, kExact> {
  using type = ResampleShape<256, 8, 1, 1, 1, 8, 1, 4, false, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::even_columns, kExact> {
  using type = ResampleShape<160, 2, 2, 1, 1, 8, 1, 4, true, kExact, 4>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::odd_columns, kExact> {
  using type = ResampleShape<208, 1, 5, 1, 1, 8, 1, 4, true, kExact, 2, kExact == Exact::all ? 0 : 4>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::staged_columns, kExact> {
  using type = ResampleShape<96, 1, 6, 1, 1, 9, 1, 4, true, kExact, 1, 7, 2>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::channels, kExact> {
  using type = ResampleShape<256, 4, 1, 2, 4, 8, 1, 6, false, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::channels_shrunk, kExact> {
  using type = ResampleShape<256, 4, 1, 1, 4, 8, 1, 4, false, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::half_channels, kExact> {
  using type = ResampleShape<256, 8, 1, 1, 8, 8, 1, 4, false, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::few_channels, kExact> {
  using type = ResampleShape<256, 4, 1, 2, 1, 8, 1, 4, false, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::odd_channels, kExact> {
  using type = ResampleShape<256, 1, 7, 1, 1, 9, 1, kExact == Exact::all ? 4 : 6, false, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::staged_channels, kExact> {
  using type = ResampleShape<224, 1, 9, 1, 1, 6, 1, 3, false, kExact, 1, 3, 2>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::columns_volume, kExact> {
  using type = ResampleShape<128, 4, 1, 1, 1, 4, kSeparableDepths, 6, true, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::odd_columns_volume, kExact> {
  using type = ResampleShape<256, 1, 5, 1, 1, 4, kSeparableDepths, 6, true, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::channels_volume, kExact> {
  using type = ResampleShape<256, 4, 1, 2, 4, 4, kSeparableDepths, 6, false, kExact>;
};
template <Exact kExact>
struct ShapeOf<SeparableShape::odd_channels_volume, kExact> {
  using type = ResampleShape<256, 1, 5, 1, 1, 4, kSeparableDepths, 6, false, kExact>;
};

// Where rows of dy stand on their way, in bytes of shared memory behind the sums.
template <class T, class Shape>
struct RowStages {
  static constexpr int kAligned = 16;  // what copies begin at and are multiples of
  // A row of a tile, wherever it begins and ends between two borders.
  static constexpr int kRow =
      (Shape::kThreads * Shape::kColumns * static_cast<int>(sizeof(T)) / kAligned + 2) * kAligned;
  static constexpr int kStage = Shape::kAhead * kRow;
  static constexpr int kBytes = Shape::kStages * kStage;
  static constexpr int kFirst = Shape::kRows * Shape::kDepths * Shape::kPitch * static_cast<int>(sizeof(float));
  static_assert(Shape::kStages == 0 || kFirst % kAligned == 0);
};

template <class T, class Shape>
ResampleGrid cut_resample(ResampleCut& cut, const OutputRun* column_runs) {
  constexpr std::uint32_t kMostPixel = Shape::kChunk == 8 ? 64 : 32;
  constexpr std::uint32_t kAligned = Shape::kChunk;
  // Channels that do not come in chunks are kept together, so that rows are without gaps; pieces of rows want that,
  // too.
  const bool whole = cut.channels % kAligned != 0 || cut.channels <= kMostPixel || Shape::kPieces > 1;
  cut.pixel = Shape::kPlanar ? 1 : whole ? cut.channels : kMostPixel;
  cut.channel_blocks = divide_up(cut.channels, cut.pixel);
  cut.planes = cut.batch * cut.channel_blocks;
  cut.strips = divide_up(cut.rows.inputs, Shape::kRows);
  cut.strip = static_cast<std::uint32_t>(cut.rows.inputs) / cut.strips;
  cut.longer_strips = static_cast<std::uint32_t>(cut.rows.inputs) % cut.strips;
  cut.depth_strips = Shape::kDepths > 1 ? divide_up(cut.depth.inputs, Shape::kDepths) : 1;
  const std::uint32_t inputs = cut.columns.inputs, outputs = cut.columns.outputs;
  const std::uint32_t most = (Shape::kLanes > 0 ? Shape::kLanes : Shape::kThreads) * Shape::kColumns * Shape::kPasses;
  std::uint32_t widest = 0;  // of the tiles, in outputs
  cut.tiles = static_cast<std::uint32_t>(std::max<std::uint64_t>(std::uint64_t{outputs} * cut.pixel / most, 1));
  for (;; ++cut.tiles) {
    cut.tile_columns = divide_up(inputs, std::int64_t{cut.tiles} * kAligned) * kAligned;
    widest = 0;
    for (std::uint32_t i = 0; i < inputs; i += cut.tile_columns) {
      const std::uint32_t begin = column_runs[i].begin / kAligned * kAligned;
      const std::uint32_t end = column_runs[std::min(i + cut.tile_columns, inputs) - 1].end;
      widest = std::max(widest, std::min(divide_up(end, kAligned) * kAligned, outputs) - begin);
    }
    if (cut.tile_columns <= kAligned || std::uint64_t{widest} * cut.pixel <= most) break;
  }
  if (std::uint64_t{widest} * cut.pixel > most) return {};
  cut.tiles = divide_up(inputs, cut.tile_columns);
  cut.lanes =
      Shape::kLanes > 0 ? Shape::kLanes : std::max(divide_up(widest * cut.pixel, Shape::kColumns * Shape::kPasses), 1u);
  cut.units = Shape::kThreads / cut.lanes;
  const std::uint64_t unit_blocks = divide_up(cut.planes, std::max<std::uint32_t>(cut.units, 1));
  using Stages = RowStages<T, Shape>;
  return {unit_blocks * cut.tiles * cut.strips * cut.depth_strips, Shape::kReaders + cut.units * cut.lanes,
          std::uint32_t{Stages::kFirst + Stages::kBytes}};
}

}  // namespace bp::cuda

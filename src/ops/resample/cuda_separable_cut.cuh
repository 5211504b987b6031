// SPDX-License-Identifier: Apache-2.0
// How the separable gradient is cut into blocks and threads, and how its kernel is specialised.
#pragma once

#include "backends/cuda/divisor.h"
#include "ops/resample/cuda_separable.h"

#include <algorithm>
#include <cstdint>

namespace bp::cuda {

// What the kernel of a shape is compiled for, as measured on an H200; `together` says the rest.
struct SeparableNumbers {
  int threads = 256;  // of a block, at most
  int blocks = 0;     // that registers are kept for on a multiprocessor; 0: the compiler's choice
  bool planar = false;
  // Of a row of dy a thread reads so many pieces: several where rows are not aligned for chunks. It does so in passes,
  // `ahead` rows (with three axes: depths) at a time.
  int pieces = 1, passes = 1, ahead = 4;
  int units = 1;   // planes whose pieces a block reads
  int rows = 8;    // of dx that a block makes,
  int depths = 1;  // of so many depths; 1: two axes
  // So many times `ahead` rows of dy are on their way through shared memory, copied by threads in front of the others;
  // 0: those who add them read them.
  int stages = 0;
};

constexpr SeparableNumbers numbers_of(SeparableShape shape, Exact exact) {
  const bool all = exact == Exact::all;
  switch (shape) {
    case SeparableShape::columns:
      return {.threads = 128, .planar = true, .ahead = all ? 8 : 6};
    case SeparableShape::even_columns:
      return {.threads = 160, .planar = true, .pieces = 2, .units = 4};
    case SeparableShape::odd_columns:
      return {.threads = 208, .blocks = all ? 0 : 4, .planar = true, .pieces = 5, .units = 2};
    case SeparableShape::staged_columns:
      return {.threads = 96, .blocks = 7, .planar = true, .pieces = 6, .rows = 9, .stages = 2};
    case SeparableShape::channels:
      return {.passes = 2, .ahead = 6};
    case SeparableShape::channels_shrunk:
    case SeparableShape::half_channels:
    case SeparableShape::half_few_channels:
      return {};
    case SeparableShape::few_channels:
      return {.passes = 2};
    case SeparableShape::odd_channels:
      return {.pieces = 7, .ahead = all ? 4 : 6, .rows = 9};
    case SeparableShape::staged_channels:
      return {.threads = 224, .blocks = 3, .pieces = 9, .ahead = 3, .rows = 6, .stages = 2};
    case SeparableShape::columns_volume:
      return {.threads = 128, .planar = true, .ahead = 6, .rows = 4, .depths = kSeparableDepths};
    case SeparableShape::odd_columns_volume:
      return {.planar = true, .pieces = 5, .ahead = 6, .units = 2, .rows = 4, .depths = kSeparableDepths};
    case SeparableShape::channels_volume:
      return {.passes = 2, .ahead = 6, .rows = 4, .depths = kSeparableDepths};
    case SeparableShape::odd_channels_volume:
      return {.pieces = 5, .ahead = 6, .rows = 4, .depths = kSeparableDepths};
  }
  return {};
}

template <SeparableShape kShape, Exact kExact_>
struct ResampleShape {
  static constexpr SeparableNumbers kNumbers = numbers_of(kShape, kExact_);
  static constexpr Exact kExact = kExact_;
  static constexpr int kThreads = kNumbers.threads;
  static constexpr int kBlocks = kNumbers.blocks;
  static constexpr bool kPlanar = kNumbers.planar;
  static constexpr int kChunk = together(kShape).in;  // elements of a piece
  static constexpr int kOut = together(kShape).out;   // channels of a pixel of dx that are written together
  static constexpr int kPieces = kNumbers.pieces;
  static constexpr int kPasses = kNumbers.passes;
  static constexpr int kAhead = kNumbers.ahead;
  static constexpr int kRows = kNumbers.rows;
  static constexpr int kDepths = kNumbers.depths;
  static constexpr int kStages = kNumbers.stages;
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
  static constexpr int kLanes = kPieces == 1 ? 0 : kThreads / kNumbers.units;
  static constexpr int kApart = kLanes * kChunk;  // from one piece to the next
  // Rows whose sums along the columns are made at once.
  static constexpr int kTogether = kOut > 1 && kRows > 4 ? 4 : kRows;
  static_assert(kStages == 0 ||
                (kNumbers.units == 1 && kDepths == 1 && kPasses == 1 && kPieces > 1 && kAhead <= kReaders));
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

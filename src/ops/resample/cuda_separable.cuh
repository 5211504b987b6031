// SPDX-License-Identifier: Apache-2.0
// The gradient of resampling two or three neighbouring axes, outermost first, in one kernel. A block walks down a strip
// of dx, a tile of columns wide. Every dy is read once: it is added to the sums of the one or two rows it feeds, and a
// row that gets no more goes to shared memory, from where the sums along the rows are taken. The next rows of dy are
// under way meanwhile.
//
// A column of the tile is one channel of one pixel: NCHW has pixels of one channel, NHWC of a block of channels.
#pragma once

#include "backends/cuda/chunk.cuh"
#include "ops/resample/cuda_tables.h"

#include <algorithm>
#include <cstdint>

namespace bp::cuda {

template <class T>
struct ResampleView {
  T* data;
  std::int64_t batch, channel, depth, row, column;  // strides in elements
};

struct ResampleCut {
  // The problem; with two axes, depth is not read.
  std::uint32_t batch, channels;
  ResampleAxis depth, rows, columns;

  // Its cut, by `cut_resample`. A block's threads are [unit][lane]; a unit is the block's part of one plane or of one
  // block of channels.
  std::uint32_t pixel, channel_blocks, planes;
  std::uint32_t tiles, strips, depth_strips;
  std::uint32_t tile_columns;
  int strip;  // rows
  std::uint32_t units, lanes;
};

struct ResampleGrid {
  std::uint32_t blocks, threads, shared_bytes;
};

// Which products are exact, so that a fused multiplication and addition gives the contract's bits: none, those of the
// first axis (elements of a half type by short weights), or all (by weights of 1).
enum class Exact { none, first, all };

// How the kernel is specialised. Of each row of dy a thread reads kPieces chunks of kChunk elements: several where rows
// are not aligned for chunks. It writes dx by kOut channels of a pixel.
template <int kThreads_, int kChunk_, int kPieces_, int kOut_, int kRing_, int kDepths_, bool kPlanar_, Exact kExact_>
struct ResampleShape {
  static constexpr int kThreads = kThreads_;  // of a block, at most
  static constexpr int kChunk = kChunk_;
  static constexpr int kPieces = kPieces_;
  static constexpr int kOut = kOut_;
  static constexpr int kRing = kRing_;      // rows in shared memory, of each depth
  static constexpr int kDepths = kDepths_;  // of dx that share what they read of dy; 1: two axes
  static constexpr bool kPlanar = kPlanar_;
  static constexpr Exact kExact = kExact_;

  static constexpr int kColumns = kChunk * kPieces;  // of a thread
  static constexpr int kPitch =
      kThreads * kColumns;  // of the rows in shared memory: constant, so that it costs nothing
  static constexpr int kLanes = kPieces == 1 ? 0 : kPlanar ? 104 : kThreads;  // of a unit, where they must be constant
  static constexpr int kApart = kLanes * kChunk;                              // from one piece to the next
  static constexpr int kTogether = 4;                         // rows whose sums along the columns are made at once
  static constexpr int kMostEnded = kRing - (kTogether - 1);  // rows that may end between two looks at them
};

inline constexpr int kMostDepthOutputs = 64;  // that one block reads

template <class Shape>
ResampleGrid cut_resample(ResampleCut& cut, const OutputRun* column_runs, int strip) {
  constexpr std::uint32_t kMostPixel = 32;
  constexpr std::uint32_t kAligned = Shape::kChunk;
  const auto divide_up = [](std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; };
  // Channels that do not come in chunks are kept together, so that rows are without gaps.
  const bool together = cut.channels % kAligned != 0 || cut.channels <= kMostPixel;
  cut.pixel = Shape::kPlanar ? 1 : together ? cut.channels : kMostPixel;
  cut.channel_blocks = divide_up(cut.channels, cut.pixel);
  cut.planes = cut.batch * cut.channel_blocks;
  const std::uint32_t rows = cut.rows.inputs;
  cut.strips = std::max<std::uint32_t>((rows + strip / 2) / strip, 1);
  cut.strip = static_cast<int>(divide_up(divide_up(rows, cut.strips), Shape::kTogether) * Shape::kTogether);
  cut.strips = divide_up(rows, cut.strip);
  cut.depth_strips = Shape::kDepths > 1 ? divide_up(cut.depth.inputs, Shape::kDepths) : 1;
  const std::uint32_t inputs = cut.columns.inputs, outputs = cut.columns.outputs;
  const std::uint32_t most = (Shape::kLanes > 0 ? Shape::kLanes : Shape::kThreads) * Shape::kColumns;
  std::uint32_t widest = 0;  // of the tiles, in outputs
  for (cut.tiles = 1;; ++cut.tiles) {
    cut.tile_columns = divide_up(inputs, cut.tiles * kAligned) * kAligned;
    widest = 0;
    for (std::uint32_t i = 0; i < inputs; i += cut.tile_columns) {
      const std::uint32_t begin = column_runs[i].begin / kAligned * kAligned;
      const std::uint32_t end = column_runs[std::min(i + cut.tile_columns, inputs) - 1].end;
      widest = std::max(widest, std::min(divide_up(end, kAligned) * kAligned, outputs) - begin);
    }
    if (cut.tile_columns <= kAligned || widest * cut.pixel <= most) break;
  }
  cut.tiles = divide_up(inputs, cut.tile_columns);
  cut.lanes = Shape::kLanes > 0 ? Shape::kLanes : std::max(divide_up(widest * cut.pixel, Shape::kColumns), 1u);
  cut.units = Shape::kThreads / cut.lanes;
  return {divide_up(cut.planes, std::max<std::uint32_t>(cut.units, 1)) * cut.tiles * cut.strips * cut.depth_strips,
          cut.units * cut.lanes,
          static_cast<std::uint32_t>(Shape::kRing * Shape::kDepths * Shape::kPitch * sizeof(float))};
}

template <bool kExact>
__device__ float add_product(float sum, float weight, float value) {
  if constexpr (kExact) return __fmaf_rn(weight, value, sum);
  return sum + weight * value;
}

// The sums of a thread's columns in one row.
template <int kCount>
struct RowSums {
  float at[kCount] = {};

  template <bool kExact>
  __device__ void add(float weight, const RowSums& values) {
    if (weight == 0) return;  // no tap
#pragma unroll
    for (int i = 0; i < kCount; ++i) at[i] = add_product<kExact>(at[i], weight, values.at[i]);
  }
};

// A thread's chunks in rows of dy; the last ones may be missing.
template <class T, class Shape>
struct ColumnChunks {
  static constexpr int kChunk = Shape::kChunk;
  static constexpr int kPieces = Shape::kPieces;
  using Sums = RowSums<Shape::kColumns>;

  struct Raw {
    RawChunk<T, kChunk> piece[kPieces];

    __device__ Sums values() const {
      Sums values;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const auto chunk = piece[i].chunk();
#pragma unroll
        for (int k = 0; k < kChunk; ++k) values.at[i * kChunk + k] = widened(chunk.at[k]);
      }
      return values;
    }
  };

  const T* from;  // in row 0
  bool exists[kPieces];

  __device__ Raw load(std::int64_t offset, bool row_exists) const {
    Raw raw{};
#pragma unroll
    for (int i = 0; i < kPieces; ++i) raw.piece[i].load_if(row_exists && exists[i], from + offset + i * Shape::kApart);
    return raw;
  }
  // `row` begins at the thread's first column.
  __device__ void store_to(float* row, const Sums& sums) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (!exists[i]) continue;
      constexpr int kPart = kChunk < 4 ? kChunk : 4;  // 16 bytes
#pragma unroll
      for (int k = 0; k < kChunk; k += kPart) {
        Chunk<float, kPart> part;
#pragma unroll
        for (int j = 0; j < kPart; ++j) part.at[j] = sums.at[i * kChunk + k + j];
        store(row + i * Shape::kApart + k, part);
      }
    }
  }
};

template <class Raw, class V>
__device__ V load_entry(const V* from) {
  static_assert(sizeof(V) == sizeof(Raw));
  const Raw raw = __ldg(reinterpret_cast<const Raw*>(from));
  V entry;
  std::memcpy(&entry, &raw, sizeof entry);
  return entry;
}
inline __device__ FedInputs load_fed(const FedInputs* from) { return load_entry<uint4>(from); }
inline __device__ OutputRun load_run(const OutputRun* from) { return load_entry<uint2>(from); }

// Where a thread works.
struct ResamplePlace {
  bool here;
  int unit, lane;
  std::int64_t batch;
  int first_channel, channels;
  int first_row, end_row;
  int first_depth;
  int first_column, end_column;
  int first_output, end_output;  // columns of dy

  template <class Shape>
  __device__ static ResamplePlace find(const ResampleCut& cut) {
    constexpr int kAligned = Shape::kChunk;
    ResamplePlace at;
    at.unit = static_cast<int>(threadIdx.x / cut.lanes);
    at.lane = static_cast<int>(threadIdx.x % cut.lanes);
    std::uint32_t block = blockIdx.x;
    at.first_column = static_cast<int>(block % cut.tiles * cut.tile_columns);
    block /= cut.tiles;
    at.first_row = static_cast<int>(block % cut.strips) * cut.strip;
    block /= cut.strips;
    at.first_depth = static_cast<int>(block % cut.depth_strips) * Shape::kDepths;
    block /= cut.depth_strips;
    const std::uint32_t plane = block * cut.units + static_cast<std::uint32_t>(at.unit);
    at.here = plane < cut.planes;
    at.batch = plane / cut.channel_blocks;
    at.first_channel = static_cast<int>(plane % cut.channel_blocks * cut.pixel);
    at.channels =
        Shape::kPlanar ? 1 : min(static_cast<int>(cut.pixel), static_cast<int>(cut.channels) - at.first_channel);
    at.end_row = min(at.first_row + cut.strip, cut.rows.inputs);
    at.end_column = min(at.first_column + static_cast<int>(cut.tile_columns), cut.columns.inputs);
    at.first_output = load_run(cut.columns.runs + at.first_column).begin / kAligned * kAligned;
    const int end = load_run(cut.columns.runs + at.end_column - 1).end;
    at.end_output = min((end + kAligned - 1) / kAligned * kAligned, cut.columns.outputs);
    return at;
  }
};

// The sums along kTogether rows of shared memory, or as many as there are, into dx from `row` on.
template <class T, class Shape>
__device__ void sum_along(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<T>& dx, const float* rows,
                          int depth, int row, int count) {
  constexpr int kOut = Shape::kOut;
  constexpr bool kUnit = Shape::kExact == Exact::all;
  const int vectors = Shape::kPlanar ? 1 : at.channels / kOut;
  const int columns = (at.end_column - at.first_column) * vectors;
  T* to = dx.data + at.batch * dx.batch + at.first_channel * dx.channel + row * dx.row;
  if constexpr (Shape::kDepths > 1) to += depth * dx.depth;
  for (int item = at.lane; item < columns; item += static_cast<int>(cut.lanes)) {
    const int column = at.first_column + (Shape::kPlanar ? item : item / vectors);
    const int channel = Shape::kPlanar ? 0 : item % vectors * kOut;
    float sums[Shape::kTogether][kOut] = {};
    const OutputRun run = load_run(cut.columns.runs + column);
    const float* weights = cut.columns.weights + column;
    const float* from = rows + (run.begin - at.first_output) * at.channels + channel;
#pragma unroll 2
    for (int o = run.begin; o < run.end; ++o) {
      const float weight = kUnit ? 1.0f : __ldg(weights);
#pragma unroll
      for (int r = 0; r < Shape::kTogether; ++r) {
        const auto chunk = load<kOut>(from + r * Shape::kPitch);
#pragma unroll
        for (int k = 0; k < kOut; ++k) sums[r][k] = add_product<kUnit>(sums[r][k], weight, chunk.at[k]);
      }
      weights += cut.columns.inputs;
      from += at.channels;
    }
    T* row_to = to + column * dx.column + channel;
#pragma unroll
    for (int r = 0; r < Shape::kTogether; ++r) {
      Chunk<T, kOut> chunk;
#pragma unroll
      for (int k = 0; k < kOut; ++k) chunk.at[k] = narrowed<T>(sums[r][k]);
      if (r < count) store(row_to, chunk);
      row_to += dx.row;
    }
  }
}

// For a depth of dy, its weights in the block's depths of dx.
template <int kDepths>
struct alignas(kDepths * sizeof(float)) DepthWeights {
  float weight[kDepths];
};

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    resample_grad_separable(ResampleCut cut, ResampleView<const T> dy, ResampleView<T> dx) {
  constexpr int kDepths = Shape::kDepths;
  constexpr bool kFirstExact = Shape::kExact != Exact::none;
  constexpr bool kRowsExact = kDepths == 1 ? kFirstExact : Shape::kExact == Exact::all;
  using Chunks = ColumnChunks<T, Shape>;
  using Sums = typename Chunks::Sums;
  extern __shared__ __align__(16) float shared_rows[];
  const ResamplePlace at = ResamplePlace::find<Shape>(cut);

  Chunks chunks;
  {
    const int width = at.here ? (at.end_output - at.first_output) * at.channels : 0;
    const int first = at.lane * Shape::kChunk;
#pragma unroll
    for (int i = 0; i < Shape::kPieces; ++i) chunks.exists[i] = first + i * Shape::kApart < width;
    chunks.from = dy.data + at.batch * dy.batch + at.first_channel * dy.channel + at.first_output * dy.column +
                  (Shape::kPlanar ? first : first / at.channels * dy.column + first % at.channels);
  }
  float* unit_rows = shared_rows + at.unit * static_cast<int>(cut.lanes) * Shape::kColumns;
  float* own_rows = unit_rows + at.lane * Shape::kChunk;
  const auto ring = [&](int depth, int row) {
    return (depth * Shape::kRing + (row - at.first_row) % Shape::kRing) * Shape::kPitch;
  };

  Sums sums[kDepths], next[kDepths];
  int row = at.first_row - 1;  // that `sums` is for; `next` is for the one after
  int done = at.first_row;     // rows before it are in dx
  const auto add = [&](const FedInputs& fed, const Sums(&values)[kDepths]) {
    for (; row < fed.input; ++row) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        if (row >= at.first_row) chunks.store_to(own_rows + ring(d, row), sums[d]);
        sums[d] = next[d];
        next[d] = Sums{};
      }
    }
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
      sums[d].template add<kRowsExact>(fed.weights[0], values[d]);
      next[d].template add<kRowsExact>(fed.weights[1], values[d]);
    }
  };
  const auto finish = [&](int end) {
    __syncthreads();
    for (; done < end; done += Shape::kTogether) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        if (!at.here || (kDepths > 1 && at.first_depth + d >= cut.depth.inputs)) continue;
        sum_along<T, Shape>(cut, at, dx, unit_rows + ring(d, done), at.first_depth + d, done, end - done);
      }
    }
    __syncthreads();
  };
  const auto finish_groups = [&] {
    if (row - done >= Shape::kTogether) finish(row - (row - done) % Shape::kTogether);
  };

  const int begin = load_run(cut.rows.runs + at.first_row).begin;
  const int end = load_run(cut.rows.runs + at.end_row - 1).end;
  if constexpr (kDepths == 1) {
    typename Chunks::Raw coming[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) coming[i] = chunks.load((begin + i) * dy.row, begin + i < end);
    for (int o = begin; o < end; o += kAhead) {
      typename Chunks::Raw here[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int then = o + kAhead + i;
        here[i] = coming[i];
        coming[i] = chunks.load(then * dy.row, then < end);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (o + i >= end) continue;
        const Sums values[1] = {here[i].values()};
        add(load_fed(cut.rows.fed + o + i), values);
      }
      finish_groups();
    }
  } else {
    __shared__ DepthWeights<kDepths> depth_weights[kMostDepthOutputs];
    const int depth_begin = load_run(cut.depth.runs + at.first_depth).begin;
    const int depth_end = load_run(cut.depth.runs + min(at.first_depth + kDepths, cut.depth.inputs) - 1).end;
    for (int i = static_cast<int>(threadIdx.x); i < depth_end - depth_begin; i += static_cast<int>(blockDim.x)) {
      const FedInputs fed = load_fed(cut.depth.fed + depth_begin + i);
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        const int which = at.first_depth + d - fed.input;
        depth_weights[i].weight[d] = which == 0 ? fed.weights[0] : which == 1 ? fed.weights[1] : 0.0f;
      }
    }
    __syncthreads();
    for (int o = begin; o < end; ++o) {
      Sums values[kDepths];
      for (int p = depth_begin; p < depth_end; p += kAhead) {
        typename Chunks::Raw raw[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) raw[i] = chunks.load((p + i) * dy.depth + o * dy.row, p + i < depth_end);
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          if (p + i >= depth_end) continue;
          const DepthWeights<kDepths> weights = depth_weights[p + i - depth_begin];
          const Sums read = raw[i].values();
#pragma unroll
          for (int d = 0; d < kDepths; ++d) values[d].template add<kFirstExact>(weights.weight[d], read);
        }
      }
      add(load_fed(cut.rows.fed + o), values);
      finish_groups();
    }
  }
  const Sums nothing[kDepths] = {};
  add({at.end_row, {0, 0}}, nothing);
  finish(at.end_row);
}

}  // namespace bp::cuda

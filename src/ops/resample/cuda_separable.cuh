// SPDX-License-Identifier: Apache-2.0
// The gradient of resampling two or three neighbouring axes, outermost first, in one kernel. A block makes a few rows
// of dx, a tile of columns each. Down the columns every dy is read once: it is added to the sums of the one or two rows
// it feeds, and a row that gets no more goes to shared memory. From there the sums along the rows are taken.
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
  std::uint32_t units, lanes;
  std::uint32_t pitch;  // of the rows in shared memory
};

struct ResampleGrid {
  std::uint32_t blocks, threads, shared_bytes;
};

// Which products are exact, so that a fused multiplication and addition gives the contract's bits: none, those of the
// first axis (elements of a half type by short weights), or all (by weights of 1).
enum class Exact { none, first, all };

// How the kernel is specialised. A thread reads kPieces chunks of kChunk elements of a row of dy, and writes dx by kOut
// channels of a pixel; in shared memory are kRows rows of each of kDepths depths of dx.
template <int kChunk_, int kPieces_, int kOut_, int kRows_, int kDepths_, bool kPlanar_, Exact kExact_>
struct ResampleShape {
  static constexpr int kChunk = kChunk_;
  static constexpr int kPieces = kPieces_;
  static constexpr int kOut = kOut_;
  static constexpr int kRows = kRows_;
  static constexpr int kDepths = kDepths_;  // 1: two axes
  static constexpr bool kPlanar = kPlanar_;
  static constexpr Exact kExact = kExact_;
};

inline constexpr int kMostResampleThreads = 256;
inline constexpr int kMostDepthOutputs = 64;  // that one block reads
inline constexpr int kAligned = 8;            // tiles begin at a multiple of so many columns

template <class Shape>
ResampleGrid cut_resample(ResampleCut& cut, const OutputRun* column_runs, std::uint32_t threads,
                          std::uint32_t shared_bytes) {
  constexpr std::uint32_t kMostPixel = 32;
  const auto divide_up = [](std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; };
  // Channels that do not come in chunks are kept together, so that rows are without gaps.
  const bool together = cut.channels % kAligned != 0 || cut.channels <= kMostPixel;
  cut.pixel = Shape::kPlanar ? 1 : together ? cut.channels : kMostPixel;
  cut.channel_blocks = divide_up(cut.channels, cut.pixel);
  cut.planes = cut.batch * cut.channel_blocks;
  cut.strips = divide_up(cut.rows.inputs, Shape::kRows);
  cut.depth_strips = Shape::kDepths > 1 ? divide_up(cut.depth.inputs, Shape::kDepths) : 1;
  const std::uint32_t inputs = cut.columns.inputs, outputs = cut.columns.outputs;
  constexpr std::uint32_t kColumnBytes = Shape::kRows * Shape::kDepths * sizeof(float);
  for (cut.tiles = 1;; ++cut.tiles) {
    cut.tile_columns = divide_up(inputs, cut.tiles * kAligned) * kAligned;
    std::uint32_t widest = 0;
    for (std::uint32_t i = 0; i < inputs; i += cut.tile_columns) {
      const std::uint32_t begin = column_runs[i].begin / kAligned * kAligned;
      const std::uint32_t end = column_runs[std::min(i + cut.tile_columns, inputs) - 1].end;
      widest = std::max(widest, std::min(divide_up(end, kAligned) * kAligned, outputs) - begin);
    }
    cut.pitch = divide_up(widest * cut.pixel, kAligned) * kAligned;
    if (cut.tile_columns <= kAligned || cut.pitch * kColumnBytes <= shared_bytes) break;
  }
  cut.tiles = divide_up(inputs, cut.tile_columns);
  cut.lanes = std::clamp<std::uint32_t>(divide_up(cut.pitch, Shape::kChunk * Shape::kPieces), 1, threads);
  const std::uint32_t unit_bytes = std::max<std::uint32_t>(cut.pitch * kColumnBytes, 1);
  cut.units = std::clamp<std::uint32_t>(shared_bytes / unit_bytes, 1, threads / cut.lanes);
  return {divide_up(cut.planes, cut.units) * cut.tiles * cut.strips * cut.depth_strips, cut.units * cut.lanes,
          cut.units * unit_bytes};
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
  using Sums = RowSums<kChunk * kPieces>;

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

  int first, apart;  // columns
  const T* from[kPieces];
  bool exists[kPieces];

  __device__ Raw load(std::int64_t offset, bool row_exists) const {
    Raw raw{};
#pragma unroll
    for (int i = 0; i < kPieces; ++i) raw.piece[i].load_if(row_exists && exists[i], from[i] + offset);
    return raw;
  }
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
        store(row + first + i * apart + k, part);
      }
    }
  }
};

template <class V, class Raw>
__device__ V load_entry(const V* from) {
  static_assert(sizeof(V) == sizeof(Raw));
  const Raw raw = __ldg(reinterpret_cast<const Raw*>(from));
  V entry;
  std::memcpy(&entry, &raw, sizeof entry);
  return entry;
}
inline __device__ FedInputs load_fed(const FedInputs* from) { return load_entry<FedInputs, uint4>(from); }
inline __device__ OutputRun load_run(const OutputRun* from) { return load_entry<OutputRun, uint2>(from); }

// Where a block works.
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
    ResamplePlace at;
    at.unit = static_cast<int>(threadIdx.x / cut.lanes);
    at.lane = static_cast<int>(threadIdx.x % cut.lanes);
    std::uint32_t block = blockIdx.x;
    at.first_column = static_cast<int>(block % cut.tiles * cut.tile_columns);
    block /= cut.tiles;
    at.first_row = static_cast<int>(block % cut.strips) * Shape::kRows;
    block /= cut.strips;
    at.first_depth = static_cast<int>(block % cut.depth_strips) * Shape::kDepths;
    block /= cut.depth_strips;
    const std::uint32_t plane = block * cut.units + static_cast<std::uint32_t>(at.unit);
    at.here = plane < cut.planes;
    at.batch = plane / cut.channel_blocks;
    at.first_channel = static_cast<int>(plane % cut.channel_blocks * cut.pixel);
    at.channels =
        Shape::kPlanar ? 1 : min(static_cast<int>(cut.pixel), static_cast<int>(cut.channels) - at.first_channel);
    at.end_row = min(at.first_row + Shape::kRows, cut.rows.inputs);
    at.end_column = min(at.first_column + static_cast<int>(cut.tile_columns), cut.columns.inputs);
    at.first_output = load_run(cut.columns.runs + at.first_column).begin / kAligned * kAligned;
    const int end = load_run(cut.columns.runs + at.end_column - 1).end;
    at.end_output = min((end + kAligned - 1) / kAligned * kAligned, cut.columns.outputs);
    return at;
  }
};

// For each depth of dy that a block reads, its weights in the block's depths.
template <int kDepths>
struct DepthWeights {
  float weight[kDepths];
};

// The sums down the columns, into the rows of shared memory.
template <class T, class Shape>
__device__ void sum_down(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<const T>& dy, float* rows,
                         const DepthWeights<Shape::kDepths>* depth_weights, int depth_begin, int depth_end) {
  using Chunks = ColumnChunks<T, Shape>;
  using Sums = typename Chunks::Sums;
  constexpr int kDepths = Shape::kDepths;
  constexpr bool kFirstExact = Shape::kExact != Exact::none;
  constexpr bool kRowsExact = kDepths == 1 ? kFirstExact : Shape::kExact == Exact::all;
  const int width = (at.end_output - at.first_output) * at.channels;
  const int begin = load_run(cut.rows.runs + at.first_row).begin;
  const int end = load_run(cut.rows.runs + at.end_row - 1).end;
  const int pitch = static_cast<int>(cut.pitch);
  const T* from = dy.data + at.batch * dy.batch + at.first_channel * dy.channel + at.first_output * dy.column;
  const int apart = static_cast<int>(cut.lanes) * Shape::kChunk;
  for (int first = at.lane * Shape::kChunk; first < width; first += apart * Shape::kPieces) {
    Chunks chunks;
    chunks.first = first;
    chunks.apart = apart;
#pragma unroll
    for (int i = 0; i < Shape::kPieces; ++i) {
      const int column = first + i * apart;
      chunks.exists[i] = column < width;
      chunks.from[i] = from + (Shape::kPlanar ? column : column / at.channels * dy.column + column % at.channels);
    }
    Sums sums[kDepths], next[kDepths];
    int row = at.first_row - 1;  // that `sums` is for; `next` is for the one after
    const auto add = [&](const FedInputs& fed, const Sums(&values)[kDepths]) {
      for (; row < fed.input; ++row) {
#pragma unroll
        for (int d = 0; d < kDepths; ++d) {
          if (row >= at.first_row && row < at.end_row) {
            chunks.store_to(rows + (d * Shape::kRows + row - at.first_row) * pitch, sums[d]);
          }
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
    if constexpr (kDepths == 1) {
      // Rows beyond the end feed rows beyond the strip, which are not kept.
      for (int o = begin; o < end; o += kPastEnd) {
        typename Chunks::Raw raw[kPastEnd];
        FedInputs fed[kPastEnd];
#pragma unroll
        for (int i = 0; i < kPastEnd; ++i) {
          fed[i] = load_fed(cut.rows.fed + o + i);
          raw[i] = chunks.load((o + i) * dy.row, o + i < end);
        }
#pragma unroll
        for (int i = 0; i < kPastEnd; ++i) {
          const Sums values[1] = {raw[i].values()};
          add(fed[i], values);
        }
      }
    } else {
      for (int o = begin; o < end; ++o) {
        Sums values[kDepths];
        for (int p = depth_begin; p < depth_end; p += 2) {
          typename Chunks::Raw raw[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) raw[i] = chunks.load((p + i) * dy.depth + o * dy.row, p + i < depth_end);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const DepthWeights<kDepths> weights = depth_weights[p + i - depth_begin];
            const Sums read = raw[i].values();
#pragma unroll
            for (int d = 0; d < kDepths; ++d) values[d].template add<kFirstExact>(weights.weight[d], read);
          }
        }
        add(load_fed(cut.rows.fed + o), values);
      }
    }
    const Sums nothing[kDepths] = {};
    add({at.end_row, {0, 0}}, nothing);
  }
}

// The sums along the rows of shared memory, into dx.
template <class T, class Shape>
__device__ void sum_along(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<T>& dx,
                          const float* rows) {
  constexpr int kOut = Shape::kOut;
  constexpr int kTogether = kOut > 1 && Shape::kRows > 4 ? 4 : Shape::kRows;  // rows
  constexpr int kParts = Shape::kRows / kTogether;
  const int vectors = Shape::kPlanar ? 1 : at.channels / kOut;
  const int columns = (at.end_column - at.first_column) * vectors;
  const int pitch = static_cast<int>(cut.pitch);
  T* to = dx.data + at.batch * dx.batch + at.first_channel * dx.channel + at.first_row * dx.row;
  for (int item = at.lane; item < Shape::kDepths * kParts * columns; item += static_cast<int>(cut.lanes)) {
    const int part = item / columns;
    const int vector = item - part * columns;
    const int column = at.first_column + (Shape::kPlanar ? vector : vector / vectors);
    const int channel = Shape::kPlanar ? 0 : vector % vectors * kOut;
    const int depth = at.first_depth + part / kParts;
    const int first_row = part % kParts * kTogether;
    const int count = min(kTogether, at.end_row - at.first_row - first_row);
    if (count <= 0 || (Shape::kDepths > 1 && depth >= cut.depth.inputs)) continue;
    float sums[kTogether][kOut] = {};
    const OutputRun run = load_run(cut.columns.runs + column);
    const float* weights = cut.columns.weights + column;
    const float* from = rows + part * kTogether * pitch + (run.begin - at.first_output) * at.channels + channel;
#pragma unroll 2
    for (int o = run.begin; o < run.end; ++o) {
      const float weight = Shape::kExact == Exact::all ? 1.0f : __ldg(weights);
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const auto chunk = load<kOut>(from + r * pitch);
#pragma unroll
        for (int k = 0; k < kOut; ++k) {
          sums[r][k] = add_product<Shape::kExact == Exact::all>(sums[r][k], weight, chunk.at[k]);
        }
      }
      weights += cut.columns.inputs;
      from += at.channels;
    }
    T* row_to = to + first_row * dx.row + column * dx.column + channel;
    if constexpr (Shape::kDepths > 1) row_to += depth * dx.depth;
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      if (r >= count) continue;
      Chunk<T, kOut> chunk;
#pragma unroll
      for (int k = 0; k < kOut; ++k) chunk.at[k] = narrowed<T>(sums[r][k]);
      store(row_to + r * dx.row, chunk);
    }
  }
}

template <class T, class Shape>
__global__ void __launch_bounds__(kMostResampleThreads)
    resample_grad_separable(ResampleCut cut, ResampleView<const T> dy, ResampleView<T> dx) {
  extern __shared__ __align__(16) float shared_rows[];
  __shared__ DepthWeights<Shape::kDepths> depth_weights[Shape::kDepths > 1 ? kMostDepthOutputs : 1];
  const ResamplePlace at = ResamplePlace::find<Shape>(cut);
  int depth_begin = 0, depth_end = 0;
  if constexpr (Shape::kDepths > 1) {
    depth_begin = load_run(cut.depth.runs + at.first_depth).begin;
    depth_end = load_run(cut.depth.runs + min(at.first_depth + Shape::kDepths, cut.depth.inputs) - 1).end;
    // One more than there are, of weight 0, so that they can be taken two by two.
    for (int i = static_cast<int>(threadIdx.x); i <= depth_end - depth_begin; i += static_cast<int>(blockDim.x)) {
      const FedInputs fed = load_fed(cut.depth.fed + depth_begin + i);
#pragma unroll
      for (int d = 0; d < Shape::kDepths; ++d) {
        const int which = at.first_depth + d - fed.input;
        const bool feeds = depth_begin + i < depth_end && (which == 0 || which == 1);
        depth_weights[i].weight[d] = feeds ? fed.weights[which == 1 ? 1 : 0] : 0.0f;
      }
    }
    __syncthreads();
  }
  float* rows = shared_rows + at.unit * Shape::kDepths * Shape::kRows * static_cast<int>(cut.pitch);
  if (at.here) sum_down<T, Shape>(cut, at, dy, rows, depth_weights, depth_begin, depth_end);
  __syncthreads();
  if (at.here) sum_along<T, Shape>(cut, at, dx, rows);
}

}  // namespace bp::cuda

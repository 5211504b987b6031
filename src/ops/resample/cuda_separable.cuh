// SPDX-License-Identifier: Apache-2.0
// The gradient of resampling one, two or three axes, outermost first, in one kernel. A block makes a few rows
// of dx, a tile of columns wide. Down the columns every dy is read once: it is added to the sums of the one or two rows
// it feeds, and a row that gets no more goes to shared memory. From there the sums along the rows are taken.
//
// A column of the tile is one channel of one pixel: NCHW has pixels of one channel, NHWC of a block of channels.
#pragma once

#include "backends/cuda/chunk.cuh"
#include "ops/resample/cuda_separable_cut.cuh"

#include <cuda/ptx>

#include <cstddef>
#include <cstdint>

namespace bp::cuda {

namespace ptx = ::cuda::ptx;

template <bool kExact>
__device__ float add_product(float sum, float weight, float value) {
  if constexpr (kExact) return __fmaf_rn(weight, value, sum);
  return sum + weight * value;
}
// Where the weight is 0, which is no tap, the sum stays. Predicated: a branch would hold up the loads behind it.
template <bool kExact>
__device__ void add_tap(float& sum, float weight, float value) {
  if constexpr (kExact) {
    asm("{ .reg .pred p; setp.neu.f32 p, %1, 0f00000000; @p fma.rn.f32 %0, %1, %2, %0; }"
        : "+f"(sum)
        : "f"(weight), "f"(value));
  } else {
    asm("{ .reg .pred p; setp.neu.f32 p, %1, 0f00000000; @p add.rn.f32 %0, %0, %2; }"
        : "+f"(sum)
        : "f"(weight), "f"(weight * value));
  }
}

// The sums of a thread's columns in one row.
template <int kCount>
struct RowSums {
  float at[kCount] = {};

  template <bool kExact>
  __device__ void add(float weight, const RowSums& values) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) add_tap<kExact>(at[i], weight, values.at[i]);
  }
  // And leaves 0. Where the compiler sees moves in a branch that is seldom taken, it moves all of it on each way to it:
  // a third of the loop.
  __device__ void take(RowSums& other) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      asm volatile("mov.f32 %0, %1;" : "=f"(at[i]) : "f"(other.at[i]));
      asm volatile("mov.f32 %0, 0f00000000;" : "=f"(other.at[i]));
    }
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
  int first;      // of its columns in a row of shared memory
  bool exists[kPieces];

  // Moves `at` on to the next row. `keep`: or each piece of each row gets a pointer of its own, at ten instructions.
  // What does not exist stays as it is.
  __device__ void load(Raw& raw, const T*& at, std::int64_t step) const {
    raw.piece[0].load_if(true, at);
#pragma unroll
    for (int i = 1; i < kPieces; ++i) raw.piece[i].load_if(exists[i], at + i * Shape::kApart);
    at += step;
    keep(at);
  }
  // Of a row in shared memory, from the thread's first column on. There is room for those that are missing, too, as
  // there is for their sums.
  static __device__ void load_staged(Raw& raw, std::uint32_t at) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      raw.piece[i].load_shared(at + static_cast<std::uint32_t>(i * Shape::kApart * sizeof(T)));
  }
  __device__ void store_to(float* row, const Sums& sums) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (Shape::kStages == 0 && !exists[i]) continue;
      constexpr int kPart = Shape::kGaps ? 1 : kChunk < 4 ? kChunk : 4;  // 16 bytes
      float* to = row + Shape::place(first + i * Shape::kApart);         // 32 columns are whole chunks
#pragma unroll
      for (int k = 0; k < kChunk; k += kPart) {
        Chunk<float, kPart> part;
#pragma unroll
        for (int j = 0; j < kPart; ++j) part.at[j] = sums.at[i * kChunk + k + j];
        store(to + k, part);
      }
    }
  }
};

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
  __device__ static ResamplePlace find(const ResampleCut& cut, std::uint32_t thread) {
    constexpr int kAligned = Shape::kChunk;
    ResamplePlace at;
    at.unit = static_cast<int>(thread / cut.lanes);
    at.lane = static_cast<int>(thread % cut.lanes);
    std::uint32_t block = blockIdx.x;
    at.first_column = static_cast<int>(block % cut.tiles * cut.tile_columns);
    block /= cut.tiles;
    const std::uint32_t strip = block % cut.strips;
    at.first_row = static_cast<int>(strip * cut.strip + min(strip, cut.longer_strips));
    at.end_row = at.first_row + static_cast<int>(cut.strip + (strip < cut.longer_strips ? 1 : 0));
    block /= cut.strips;
    at.first_depth = static_cast<int>(block % cut.depth_strips) * Shape::kDepths;
    block /= cut.depth_strips;
    const std::uint32_t plane = block * cut.units + static_cast<std::uint32_t>(at.unit);
    at.here = plane < cut.planes;
    at.batch = plane / cut.channel_blocks;
    at.first_channel = static_cast<int>(plane % cut.channel_blocks * cut.pixel);
    at.channels =
        Shape::kPlanar ? 1 : min(static_cast<int>(cut.pixel), static_cast<int>(cut.channels) - at.first_channel);
    at.end_column = min(at.first_column + static_cast<int>(cut.tile_columns), cut.columns.inputs);
    at.first_output = load_entry(cut.columns.runs + at.first_column).begin / kAligned * kAligned;
    const int end = load_entry(cut.columns.runs + at.end_column - 1).end;
    at.end_output = min((end + kAligned - 1) / kAligned * kAligned, cut.columns.outputs);
    return at;
  }
};

// The sums along kTogether rows of shared memory, or as many as there are, into dx from `row` on. The unit's columns
// begin at `first` of a row.
template <class T, class Shape>
__device__ void sum_along(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<T>& dx, const float* rows,
                          int first, int depth, int row, int count) {
  constexpr int kOut = Shape::kOut;
  constexpr bool kUnit = Shape::kExact == Exact::all;
  const int lanes = static_cast<int>(cut.lanes);
  const int vectors = Shape::kPlanar ? 1 : at.channels / kOut;
  T* to = dx.data + at.batch * dx.batch + at.first_channel * dx.channel + row * dx.row;
  if constexpr (Shape::kDepths > 1) to += depth * dx.depth;
  const int columns = (at.end_column - at.first_column) * vectors;
  for (int item = at.lane; item < columns; item += lanes) {
    const int column = at.first_column + (Shape::kPlanar ? item : item / vectors);
    const int channel = Shape::kPlanar ? 0 : item % vectors * kOut;
    float sums[Shape::kTogether][kOut] = {};
    const OutputRun run = load_entry(cut.columns.runs + column);
    const float* weights = cut.columns.weights + column;
    int from = first + (run.begin - at.first_output) * at.channels + channel;
#pragma unroll 2
    for (int o = run.begin; o < run.end; ++o) {
      const float weight = kUnit ? 1.0f : __ldg(weights);
#pragma unroll
      for (int r = 0; r < Shape::kTogether; ++r) {
        const auto chunk = load<kOut>(rows + Shape::place(from) + r * Shape::kPitch);
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

// The sums down a thread's columns of one pass, on their way into its columns of shared memory.
template <class T, class Shape>
struct SumsDown {
  static constexpr int kDepths = Shape::kDepths;
  static constexpr bool kFirstExact = Shape::kExact != Exact::none;
  static constexpr bool kUnit = Shape::kExact == Exact::all;
  static constexpr bool kRowsExact = kDepths == 1 ? kFirstExact : kUnit;
  using Sums = typename ColumnChunks<T, Shape>::Sums;

  const ColumnChunks<T, Shape>& chunks;
  float* rows;
  int first_row;
  int row = first_row - 1;  // that `sums` is for; `next` is for the one after
  Sums sums[kDepths] = {}, next[kDepths] = {};

  // The rows above `input` get no more.
  __device__ void finish_above(int input) {
    for (; row < input; ++row) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        if (row >= first_row) chunks.store_to(rows + (d * Shape::kRows + row - first_row) * Shape::kPitch, sums[d]);
        sums[d].take(next[d]);
      }
    }
  }
  __device__ void add(const FedInputs& fed, const Sums (&values)[kDepths]) {
    finish_above(fed.input);
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
      sums[d].template add<kRowsExact>(fed.weights[0], values[d]);
      if constexpr (!kUnit) next[d].template add<kRowsExact>(fed.weights[1], values[d]);  // nearest feeds one input
    }
  }
  __device__ void add(const FedInputs& fed, const typename ColumnChunks<T, Shape>::Raw& raw) {
    const Sums values[1] = {raw.values()};
    add(fed, values);
  }
};

// Two axes: rows of dy straight from memory.
template <class T, class Shape>
__device__ void sum_down(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<const T>& dy,
                         const ColumnChunks<T, Shape>& chunks, float* rows) {
  constexpr int kAhead = Shape::kAhead;
  // Weights are read when they are used: fewer registers.
  constexpr bool kLazy = Shape::kExact == Exact::all || Shape::kBlocks > 0;
  SumsDown<T, Shape> down{chunks, rows, at.first_row};
  typename ColumnChunks<T, Shape>::Raw raw[kAhead] = {};
  int o = load_entry(cut.rows.runs + at.first_row).begin;
  const int end = load_entry(cut.rows.runs + at.end_row - 1).end;
  const T* at_row = chunks.from + o * dy.row;
  for (; o + kAhead <= end; o += kAhead) {
    FedInputs fed[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if constexpr (!kLazy) fed[i] = load_entry(cut.rows.fed + o + i);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) chunks.load(raw[i], at_row, dy.row);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) down.add(kLazy ? load_entry(cut.rows.fed + o + i) : fed[i], raw[i]);
  }
  for (; o < end; ++o) {
    chunks.load(raw[0], at_row, dy.row);
    down.add(load_entry(cut.rows.fed + o), raw[0]);
  }
  down.finish_above(at.end_row);
}

// ---- Rows by way of shared memory ----------------------------------------------------------------------
//
// Where rows are not aligned for vectors, a thread could read only one element at a time, each into a register of its
// own. Copies need no registers, and one warp keeps them going. They begin and end at borders of 16 bytes, between
// which a row may begin and end anywhere: what lies around it is copied, too.

struct StageBarriers {
  std::uint64_t full, empty;
};

// The stage at hand, and how often it was at hand before.
template <int kStages>
struct StageCount {
  int at = 0;
  std::uint32_t times = 0;

  __device__ void next() {
    if (++at < kStages) return;
    at = 0;
    ++times;
  }
};

// Until a barrier has been passed so many times and once more. (A template: older devices have nothing of the kind.)
template <class Barrier>
__device__ void wait_for(Barrier& barrier, std::uint32_t times) {
  while (!ptx::mbarrier_try_wait_parity(&barrier, times % 2)) {
  }
}

// The warp's work: each lane has one of the rows of a stage.
template <class T, class Shape>
__device__ void read_rows(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<const T>& dy,
                          const T* from, int width, std::byte* stages, StageBarriers* barriers) {
  using Stages = RowStages<T, Shape>;
  constexpr std::uintptr_t kBorder = ~std::uintptr_t{Stages::kAligned - 1};
  const int ahead = static_cast<int>(threadIdx.x);
  if (ahead >= Shape::kAhead) return;
  const auto address = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p); };
  // No copy reads what lies behind the tensor: those elements come one by one. (What lies in front of it, up to the
  // border, belongs to the same memory, which begins at one.)
  const auto steps = [](std::int64_t count, std::int64_t stride) { return max((count - 1) * stride, std::int64_t{0}); };
  const T* last = dy.data + steps(cut.batch, dy.batch) + steps(cut.channels, dy.channel) +
                  steps(cut.rows.outputs, dy.row) + steps(cut.columns.outputs, dy.column);
  const std::uintptr_t last_border = address(last + 1) & kBorder;
  const int end = load_entry(cut.rows.runs + at.end_row - 1).end;
  int o = load_entry(cut.rows.runs + at.first_row).begin + ahead;
  const T* row = from + o * dy.row;
  StageCount<Shape::kStages> stage;
  for (; o - ahead < end; o += Shape::kAhead, row += Shape::kAhead * dy.row, stage.next()) {
    if (stage.times > 0) wait_for(barriers[stage.at].empty, stage.times - 1);
    std::uint32_t bytes = 0;
    if (o < end) {
      std::byte* to = stages + stage.at * Stages::kStage + ahead * Stages::kRow;
      const std::uintptr_t begin = address(row) & kBorder, row_end = address(row + width);
      const std::uintptr_t copied = min((row_end + Stages::kAligned - 1) & kBorder, last_border);
      for (std::uintptr_t p = max(address(row), copied); p < row_end; p += sizeof(T))
        *reinterpret_cast<T*>(to + (p - begin)) = *reinterpret_cast<const T*>(p);
      bytes = static_cast<std::uint32_t>(copied - begin);
      if (bytes > 0) {
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to, reinterpret_cast<const void*>(begin), bytes,
                           &barriers[stage.at].full);
      }
    }
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barriers[stage.at].full,
                                   bytes);
  }
}

// The other warps'.
template <class T, class Shape>
__device__ void sum_down_stages(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<const T>& dy,
                                const T* from, float* rows, const std::byte* stages, StageBarriers* barriers) {
  using Stages = RowStages<T, Shape>;
  constexpr int kAhead = Shape::kAhead;
  ColumnChunks<T, Shape> chunks{};
  chunks.first = at.lane;
  SumsDown<T, Shape> down{chunks, rows, at.first_row};
  int o = load_entry(cut.rows.runs + at.first_row).begin;
  const int end = load_entry(cut.rows.runs + at.end_row - 1).end;
  const FedInputs* fed = cut.rows.fed + o;
  // Where a row begins after a border: only the lowest bits matter.
  auto begin = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from + o * dy.row));
  const auto step = static_cast<std::uint32_t>(dy.row * static_cast<std::int64_t>(sizeof(T)));
  // (As a number: pointers to shared memory are made anew for every row.)
  auto columns = static_cast<std::uint32_t>(__cvta_generic_to_shared(stages)) +
                 static_cast<std::uint32_t>(at.lane) * static_cast<std::uint32_t>(sizeof(T));
  keep(columns);
  for (StageCount<Shape::kStages> stage; o < end; o += kAhead, stage.next()) {
    wait_for(barriers[stage.at].full, stage.times);
    typename ColumnChunks<T, Shape>::Raw raw[kAhead];
    const std::uint32_t there = columns + static_cast<std::uint32_t>(stage.at * Stages::kStage);
#pragma unroll
    for (int i = 0; i < kAhead; ++i, begin += step)
      chunks.load_staged(raw[i], there + begin % Stages::kAligned + static_cast<std::uint32_t>(i * Stages::kRow));
    ptx::mbarrier_arrive(&barriers[stage.at].empty);
    if (o + kAhead <= end) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) down.add(load_entry(fed + i), raw[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kAhead - 1; ++i) {
        if (o + i < end) down.add(load_entry(fed + i), raw[i]);
      }
    }
    fed += kAhead;
    keep(fed);
  }
  down.finish_above(at.end_row);
}

// Three axes: the depths of a row first.
template <class T, class Shape>
__device__ void sum_down_depths(const ResampleCut& cut, const ResamplePlace& at, const ResampleView<const T>& dy,
                                const ColumnChunks<T, Shape>& chunks, float* rows,
                                const DepthWeights<Shape::kDepths>* depth_weights, int depth_begin, int depth_end) {
  constexpr int kDepths = Shape::kDepths;
  constexpr int kAhead = Shape::kAhead;
  using Raw = typename ColumnChunks<T, Shape>::Raw;
  using Sums = typename ColumnChunks<T, Shape>::Sums;
  SumsDown<T, Shape> down{chunks, rows, at.first_row};
  const int end = load_entry(cut.rows.runs + at.end_row - 1).end;
  Raw raw[kAhead] = {};
  for (int o = load_entry(cut.rows.runs + at.first_row).begin; o < end; ++o) {
    Sums values[kDepths];
    const T* at_depth = chunks.from + depth_begin * dy.depth + o * dy.row;
    const auto add_depth = [&](const Raw& depth, const DepthWeights<kDepths>& weights) {
      const Sums read = depth.values();
#pragma unroll
      for (int d = 0; d < kDepths; ++d)
        values[d].template add<SumsDown<T, Shape>::kFirstExact>(weights.weight[d], read);
    };
    int p = 0;
    for (; p + kAhead <= depth_end - depth_begin; p += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) chunks.load(raw[i], at_depth, dy.depth);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) add_depth(raw[i], depth_weights[p + i]);
    }
    for (; p < depth_end - depth_begin; ++p) {
      chunks.load(raw[0], at_depth, dy.depth);
      add_depth(raw[0], depth_weights[p]);
    }
    down.add(load_entry(cut.rows.fed + o), values);
  }
  down.finish_above(at.end_row);
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads + Shape::kReaders, Shape::kBlocks)
    sum_separable(const __grid_constant__ ResampleCut cut, const ResampleView<const T> dy, const ResampleView<T> dx) {
  constexpr int kDepths = Shape::kDepths;
  extern __shared__ __align__(16) float shared_rows[];
  __shared__ DepthWeights<kDepths> depth_weights[kDepths > 1 ? kMostDepthOutputs : 1];
  const int thread = static_cast<int>(threadIdx.x) - Shape::kReaders;
  const ResamplePlace at = ResamplePlace::find<Shape>(cut, static_cast<std::uint32_t>(max(thread, 0)));
  int depth_begin = 0, depth_end = 0;
  if constexpr (kDepths > 1) {
    depth_begin = load_entry(cut.depth.runs + at.first_depth).begin;
    depth_end = load_entry(cut.depth.runs + min(at.first_depth + kDepths, cut.depth.inputs) - 1).end;
    for (int i = static_cast<int>(threadIdx.x); i < depth_end - depth_begin; i += static_cast<int>(blockDim.x)) {
      const FedInputs fed = load_entry(cut.depth.fed + depth_begin + i);
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        const int which = at.first_depth + d - fed.input;
        depth_weights[i].weight[d] = which == 0 ? fed.weights[0] : which == 1 ? fed.weights[1] : 0.0f;
      }
    }
    __syncthreads();
  }

  const int first_of_unit = at.unit * static_cast<int>(cut.lanes) * Shape::kColumns * Shape::kPasses;
  const int width = at.here ? (at.end_output - at.first_output) * at.channels : 0;
  const T* from = dy.data + at.batch * dy.batch + at.first_channel * dy.channel + at.first_output * dy.column;
  if constexpr (Shape::kStages > 0) {
#if __CUDA_ARCH__ >= 900
    __shared__ StageBarriers barriers[Shape::kStages];
    auto* stages = reinterpret_cast<std::byte*>(shared_rows) + RowStages<T, Shape>::kFirst;
    if (threadIdx.x == 0) {
      for (StageBarriers& stage : barriers) {
        ptx::mbarrier_init(&stage.full, Shape::kAhead);
        ptx::mbarrier_init(&stage.empty, Shape::kThreads);
      }
      ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (thread < 0) {
      read_rows<T, Shape>(cut, at, dy, from, width, stages, barriers);
    } else {
      sum_down_stages<T, Shape>(cut, at, dy, from, shared_rows, stages, barriers);
    }
#endif
  } else {
    for (int pass = 0; pass < Shape::kPasses; ++pass) {
      const int first = (pass * static_cast<int>(cut.lanes) * Shape::kPieces + at.lane) * Shape::kChunk;
      ColumnChunks<T, Shape> chunks;
#pragma unroll
      for (int i = 0; i < Shape::kPieces; ++i) chunks.exists[i] = first + i * Shape::kApart < width;
      chunks.first = first_of_unit + first;
      chunks.from = from + (Shape::kPlanar ? first : first / at.channels * dy.column + first % at.channels);
      if (!chunks.exists[0]) continue;
      if constexpr (kDepths == 1) {
        sum_down<T, Shape>(cut, at, dy, chunks, shared_rows);
      } else {
        sum_down_depths<T, Shape>(cut, at, dy, chunks, shared_rows, depth_weights, depth_begin, depth_end);
      }
    }
  }
  __syncthreads();
  if (!at.here || thread < 0) return;
#pragma unroll
  for (int d = 0; d < kDepths; ++d) {
    if (kDepths > 1 && at.first_depth + d >= cut.depth.inputs) continue;
#pragma unroll
    for (int r = 0; r < Shape::kRows; r += Shape::kTogether) {
      const int row = at.first_row + r;
      const float* from = shared_rows + (d * Shape::kRows + r) * Shape::kPitch;
      if (row < at.end_row)
        sum_along<T, Shape>(cut, at, dx, from, first_of_unit, at.first_depth + d, row, at.end_row - row);
    }
  }
}

}  // namespace bp::cuda

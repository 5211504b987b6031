// SPDX-License-Identifier: Apache-2.0
// Doubling is what most networks do, and there every sum has so few terms that all stay in registers. A thread keeps to
// a few columns and walks down: each dy is read once, added to the sums of the rows that it feeds, and a finished row
// is summed along the columns. Columns that a neighbour has, and the one beyond them, are asked of it.
//
// A sum's sign where it is 0 is settled at the end alone: until then 0 and -0 make the same sums.
#include "ops/resample/cuda_doubled.h"

#include "backends/cuda/chunk.cuh"
#include "backends/cuda/divisor.h"
#include "backends/cuda/launch.cuh"

#include <algorithm>
#include <type_traits>

namespace bp::cuda {

template <bool kPlanar_, bool kNearest_, bool kVolume_, bool kExact_>
struct DoubledShape {
  static constexpr bool kPlanar = kPlanar_;
  static constexpr bool kNearest = kNearest_;
  static constexpr bool kVolume = kVolume_;
  static constexpr bool kExact = kExact_;  // the products of the first axis are
  static constexpr int kColumns = doubled_columns({.planar = kPlanar});
  static constexpr int kChannels = kPlanar ? 1 : kDoubledChannels;
  static constexpr int kDepths = doubled_depths({.planar = kPlanar, .volume = kVolume});
  static constexpr int kBeside =
      kNearest ? 0 : 1;  // outputs before and after those of the columns, or depths, of a thread
  static constexpr int kReadDepths = kVolume ? 2 * (kDepths + kBeside) : 1;
  // Planar rows have one value more, that of a neighbour in another warp.
  static constexpr int kValues = kPlanar ? 2 * kColumns + kBeside : 2 * (kColumns + kBeside) * kChannels;
};

namespace {

constexpr int kBlock = 128;
constexpr unsigned kAllLanes = 0xffffffff;

// The values of a thread in a row.
template <int kCount>
struct Row {
  float at[kCount];

  template <bool kExact>
  __device__ void add(float weight, const Row& values) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      at[i] = kExact ? __fmaf_rn(weight, values.at[i], at[i]) : at[i] + weight * values.at[i];
    }
  }
  __device__ void set(float weight, const Row& values) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) at[i] = weight * values.at[i];
  }
};

// What a thread reads of a row of dy.
template <class T, class Shape>
class Reader {
 public:
  using Values = Row<Shape::kValues>;
  static constexpr int kChunk =
      Shape::kPlanar ? std::min(2 * Shape::kColumns, 16 / static_cast<int>(sizeof(T))) : Shape::kChannels;
  static constexpr int kChunks = Shape::kPlanar ? 2 * Shape::kColumns / kChunk : 2 * (Shape::kColumns + Shape::kBeside);

  struct Raw {
    RawChunk<T, kChunk> chunk[kChunks];
    RawChunk<T, 1> edge;

    __device__ Values values() const {
      Values values;
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const auto elements = chunk[i].chunk();
#pragma unroll
        for (int k = 0; k < kChunk; ++k) values.at[i * kChunk + k] = widened(elements.at[k]);
      }
      if constexpr (Shape::kPlanar && !Shape::kNearest) values.at[2 * Shape::kColumns] = widened(edge.chunk().at[0]);
      return values;
    }
  };

  const T* from;  // the thread's first output in row 0
  const T* edge;  // planar: of another warp, in row 0
  std::int64_t column;
  bool exists[kChunks];
  bool edge_exists;

  __device__ Raw load(std::int64_t offset, bool row_exists) const {
    Raw raw{};
    const T* at = from + offset - (Shape::kPlanar ? 0 : Shape::kBeside * column);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      keep(at);  // one pointer, moved on
      raw.chunk[i].load_if(row_exists && exists[i], at);
      at += Shape::kPlanar ? kChunk : column;
    }
    if constexpr (Shape::kPlanar && !Shape::kNearest) raw.edge.load_if(row_exists && edge_exists, edge + offset);
    return raw;
  }
};

inline __device__ DoubledWeights load_weights(const DoubledWeights* from) {
  const float4 raw = __ldg(reinterpret_cast<const float4*>(from));
  return {{raw.x, raw.y, raw.z, raw.w}};
}

// The four values that feed a column, or the two in the middle of them.
template <class Shape>
__device__ float sum_of_column(const DoubledWeights& weights, float before, float first, float second, float after) {
  if constexpr (Shape::kNearest) return (first + second) + 0.0f;
  float sum = weights.of[0] * before;
  sum += weights.of[1] * first;
  sum += weights.of[2] * second;
  sum += weights.of[3] * after;
  return sum + 0.0f;  // never -0
}

template <class T, class Shape>
__global__ void __launch_bounds__(kBlock)
    sum_doubled(const DoubledProblem problem, const ResampleView<const T> dy, const ResampleView<T> dx) {
  using Values = typename Reader<T, Shape>::Values;
  using Raw = typename Reader<T, Shape>::Raw;
  constexpr int kColumns = Shape::kColumns, kDepths = Shape::kDepths, kReadDepths = Shape::kReadDepths;
  constexpr int kChannels = Shape::kChannels;
  // Threads beyond the last do as it does, but write nothing: all of a warp take part in the exchange.
  const std::uint32_t number = blockIdx.x * kBlock + threadIdx.x;
  const bool here = number < problem.threads;
  std::uint32_t rest = here ? number : problem.threads - 1;
  const auto take = [&rest](std::uint32_t count) {
    const std::uint32_t all = rest;
    rest = all / count;
    return static_cast<int>(all - rest * count);
  };
  const int vector = Shape::kPlanar ? 0 : take(problem.vectors);
  const int group = take(problem.groups);
  const int first_row = take(problem.strips) * problem.strip;
  const int first_depth = Shape::kVolume ? take(problem.depth_groups) * kDepths : 0;
  const std::int64_t channel = Shape::kPlanar ? take(problem.channels) : vector * kChannels;
  const std::int64_t batch = rest;
  const int first_column = group * kColumns;
  const int lane = static_cast<int>(threadIdx.x % 32);

  Reader<T, Shape> reader;
  reader.column = dy.column;
  reader.from = dy.data + batch * dy.batch + channel * dy.channel + 2 * first_column * dy.column;
  const bool has_left = group > 0, has_right = group + 1 < static_cast<int>(problem.groups);
  reader.edge_exists = lane == 0 ? has_left : lane == 31 && has_right;
  reader.edge = reader.from + (lane == 0 ? -1 : 2 * kColumns);
#pragma unroll
  for (int i = 0; i < Reader<T, Shape>::kChunks; ++i) {
    const int output = 2 * first_column + i - Shape::kBeside;
    reader.exists[i] = Shape::kPlanar || (output >= 0 && output < 2 * problem.columns);
  }

  DoubledWeights column_weights[kColumns], depth_weights[kDepths];
  if constexpr (!Shape::kNearest) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      column_weights[i] = load_weights(problem.column_weights + min(first_column + i, problem.columns));
    }
    if constexpr (Shape::kVolume) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        depth_weights[d] = load_weights(problem.depth_weights + min(first_depth + d, problem.depth));
      }
    }
  }

  // Rows of dy, one for each depth that is read.
  struct RawRow {
    Raw depth[kReadDepths];
  };
  const int outputs = 2 * problem.rows;
  const auto load = [&](int row) {
    RawRow raw;
#pragma unroll
    for (int d = 0; d < kReadDepths; ++d) {
      const int depth = Shape::kVolume ? 2 * first_depth + d - Shape::kBeside : 0;
      const bool exists = row >= 0 && row < outputs && depth >= 0 && depth < 2 * problem.depth;
      raw.depth[d] = reader.load(row * dy.row + depth * dy.depth, exists);
    }
    return raw;
  };
  // The sums over the depths.
  struct Depths {
    Values of[kDepths];
  };
  const auto values_of = [&](const RawRow& raw) {
    Depths sums;
    if constexpr (!Shape::kVolume) {
      sums.of[0] = raw.depth[0].values();
    } else {
#pragma unroll
      for (int k = 0; k < kReadDepths; ++k) {
        const Values values = raw.depth[k].values();
#pragma unroll
        for (int d = 0; d < kDepths; ++d) {
          const int tap = k - 2 * d + (Shape::kNearest ? 1 : 0);
          const int first = Shape::kNearest ? 1 : 0, last = Shape::kNearest ? 2 : 3;
          if (tap < first || tap > last) continue;
          const float weight = Shape::kNearest ? 1.0f : depth_weights[d].of[tap];
          if (tap == first) {
            sums.of[d].set(weight, values);
          } else {
            sums.of[d].template add<Shape::kExact>(weight, values);
          }
        }
      }
    }
    return sums;
  };

  T* to = dx.data + batch * dx.batch + channel * dx.channel + first_depth * dx.depth + first_column * dx.column +
          first_row * dx.row;
  const auto write = [&](int row, const Depths& sums) {
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
      const float(&t)[Shape::kValues] = sums.of[d].at;
      const bool exists = here && row < problem.rows && first_depth + d < problem.depth;
      T* row_to = to + d * dx.depth;
      if constexpr (Shape::kPlanar) {
        float before = 0, after = 0;
        if constexpr (!Shape::kNearest) {
          before = __shfl_up_sync(kAllLanes, t[2 * kColumns - 1], 1);
          after = __shfl_down_sync(kAllLanes, t[0], 1);
          if (lane == 0) before = t[2 * kColumns];
          if (lane == 31) after = t[2 * kColumns];
          if (!has_left) before = 0;
          if (!has_right) after = 0;
        }
        Chunk<T, kColumns> chunk;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          chunk.at[c] = narrowed<T>(sum_of_column<Shape>(
              column_weights[c], c == 0 ? before : t[(2 * c + 2 * kColumns - 1) % (2 * kColumns)], t[2 * c],
              t[2 * c + 1], c + 1 == kColumns ? after : t[(2 * c + 2) % (2 * kColumns)]));
        }
        if (exists) store(row_to, chunk);
      } else {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          Chunk<T, kChannels> chunk;
#pragma unroll
          for (int k = 0; k < kChannels; ++k) {
            const auto value = [&](int output) { return t[(2 * c + output) * kChannels + k]; };
            chunk.at[k] = narrowed<T>(
                Shape::kNearest ? sum_of_column<Shape>({}, 0, value(0), value(1), 0)
                                : sum_of_column<Shape>(column_weights[c], value(0), value(1), value(2), value(3)));
          }
          if (exists && first_column + c < problem.columns) store(row_to + c * dx.column, chunk);
        }
      }
    }
    to += dx.row;
  };

  // Rows of dy are under way while others are summed.
  constexpr int kAhead = Shape::kVolume ? 1 : 2;
  RawRow ahead[kAhead];
  const auto start = [&](int row) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) ahead[i] = load(row + i);
  };
  const auto next_row = [&](int row, int which) {
    const RawRow raw = ahead[which % kAhead];
    ahead[which % kAhead] = load(row + kAhead);
    return values_of(raw);
  };
  if constexpr (Shape::kNearest) {
    start(2 * first_row);
    for (int row = first_row; row < first_row + problem.strip; ++row) {
      Depths sums = next_row(2 * row, 0);
      const Depths second = next_row(2 * row + 1, 1);
#pragma unroll
      for (int d = 0; d < kDepths; ++d) sums.of[d].template add<true>(1.0f, second.of[d]);
      write(row, sums);
    }
  } else {
    Depths sums, next;
    start(2 * first_row - 1);
    DoubledWeights weights = load_weights(problem.row_weights + first_row);
    {
      const Depths first = next_row(2 * first_row - 1, 0), second = next_row(2 * first_row, 1);
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        sums.of[d].set(weights.of[0], first.of[d]);
        sums.of[d].template add<Shape::kExact && !Shape::kVolume>(weights.of[1], second.of[d]);
      }
    }
    for (int row = first_row; row < first_row + problem.strip; ++row) {
      const DoubledWeights below = load_weights(problem.row_weights + min(row + 1, problem.rows));
      const Depths first = next_row(2 * row + 1, 0);
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        sums.of[d].template add<Shape::kExact && !Shape::kVolume>(weights.of[2], first.of[d]);
        next.of[d].set(below.of[0], first.of[d]);
      }
      const Depths second = next_row(2 * row + 2, 1);
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        sums.of[d].template add<Shape::kExact && !Shape::kVolume>(weights.of[3], second.of[d]);
        next.of[d].template add<Shape::kExact && !Shape::kVolume>(below.of[1], second.of[d]);
      }
      write(row, sums);
      sums = next;
      weights = below;
    }
  }
}

// Calls run<T, Shape>().
template <class Run>
cudaError_t with_kind(const DoubledKind& kind, const Run& run) {
  cudaError_t status = cudaErrorInvalidValue;
  const auto exact = [&]<class T, bool kPlanar, bool kVolume>() {
    if (kind.nearest) {
      status = run.template operator()<T, DoubledShape<kPlanar, true, kVolume, true>>();
    } else if (kind.exact) {
      status = run.template operator()<T, DoubledShape<kPlanar, false, kVolume, sizeof(T) == 2>>();
    } else {
      status = run.template operator()<T, DoubledShape<kPlanar, false, kVolume, false>>();
    }
  };
  const auto type = [&]<class T>() {
    if (kind.planar && kind.volume) return exact.template operator()<T, true, true>();
    if (kind.planar) return exact.template operator()<T, true, false>();
    if (kind.volume) return exact.template operator()<T, false, true>();
    return exact.template operator()<T, false, false>();
  };
  with_type(kind.dtype, type);
  return status;
}

}  // namespace

bool cut_doubled(const DoubledKind& kind, DoubledProblem& p) {
  p.groups = divide_up(p.columns, doubled_columns(kind));
  p.vectors = kind.planar ? 1 : p.channels / kDoubledChannels;
  p.depth_groups = kind.volume ? divide_up(p.depth, doubled_depths(kind)) : 1;
  const std::uint64_t planes = std::uint64_t{p.batch} * (kind.planar ? p.channels : p.vectors) * p.depth_groups;
  constexpr std::uint64_t kMost = 0x7fffffff, kFewThreads = 1 << 15;
  if (planes > kMost) return false;
  // Long strips read few rows twice; where a problem is small, short ones are more threads.
  int strip = 16;
  while (strip > 2 && planes * p.groups * divide_up(p.rows, strip) < kFewThreads) strip /= 2;
  p.strips = divide_up(p.rows, strip);
  p.strip = static_cast<std::int32_t>(divide_up(p.rows, p.strips));
  const std::uint64_t each = std::uint64_t{p.groups} * p.strips;
  if (each > kMost || planes * each > kMost) return false;
  p.threads = static_cast<std::uint32_t>(planes * each);
  return true;
}

cudaError_t resample_doubled(const DoubledKind& kind, const DoubledProblem& problem, const ResampleView<const void>& dy,
                             const ResampleView<void>& dx, cudaStream_t stream) {
  return with_kind(kind, [&]<class T, class Shape>() {
    return launch_blocks(stream, (problem.threads + kBlock - 1) / kBlock, kBlock, 0, sum_doubled<T, Shape>, problem,
                         typed<const T>(dy), typed<T>(dx));
  });
}

}  // namespace bp::cuda

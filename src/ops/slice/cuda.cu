// SPDX-License-Identifier: Apache-2.0
// Slice and its gradient on CUDA.
#include "backends/cuda/launch.cuh"
#include "core/dtype.h"
#include "ops/slice/cuda.h"

#include <array>
#include <bit>
#include <limits>
#include <type_traits>

namespace bp::cuda {

namespace {

// ---- Any strides: one thread for each element of the output --------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_elements(const __grid_constant__ GatherMove move, const T* __restrict__ in, T* __restrict__ out) {
  each_item(move.elements, [&](std::int64_t item) {
    auto rest = static_cast<std::uint64_t>(item);
    std::int64_t to = 0, from = 0;
    bool moved = true;
    for (int i = 0; i < move.rank; ++i) moved &= move.axes[i].move(move.axes[i].size.split(rest), to, from);
    out[to] = moved ? in[from] : T{0};
  });
}

// ---- Contiguous rows: vectors of the output ------------------------------------------------------------

template <std::size_t kBytes>
struct VectorOf;
template <>
struct VectorOf<1> {
  using type = std::uint8_t;
};
template <>
struct VectorOf<2> {
  using type = std::uint16_t;
};
template <>
struct VectorOf<4> {
  using type = std::uint32_t;
};
template <>
struct VectorOf<8> {
  using type = std::uint64_t;
};
template <>
struct VectorOf<16> {
  using type = uint4;
};

template <class T, std::size_t kWidth>
using Elements = std::array<T, kWidth / sizeof(T)>;
template <std::size_t kWidth>
using Vector = typename VectorOf<kWidth>::type;

template <std::size_t kWidth, class T>
__device__ Vector<kWidth> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<kWidth>*>(from);
}

// The vector at a distance from the first position that is taken, element by element; `in` is where that takes from.
template <class T, std::size_t kWidth>
__device__ Vector<kWidth> vector_of_elements(const MovedAxis<std::uint32_t>& run, std::int32_t distance,
                                             const T* __restrict__ in) {
  const auto in_stride = static_cast<std::int32_t>(run.in_stride);
  Elements<T, kWidth> result{};
#pragma unroll
  for (int i = 0; i < static_cast<int>(result.size()); ++i) {
    const std::int32_t k = run.taken(distance + i);
    if (k >= 0) result[i] = in[std::int64_t{k} * in_stride];
  }
  return std::bit_cast<Vector<kWidth>>(result);
}

// Where whole vectors are taken, few are taken in part: as a call, these cost the others no registers.
template <class T, std::size_t kWidth>
__device__ __noinline__ Vector<kWidth> vector_in_part(const MovedAxis<std::uint32_t>& run, std::int32_t distance,
                                                      const T* __restrict__ in) {
  return vector_of_elements<T, kWidth>(run, distance, in);
}

template <class T, std::size_t kWidth, RowMode kMode>
__device__ Vector<kWidth> moved_vector(const MovedAxis<std::uint32_t>& run, std::int32_t distance,
                                       const T* __restrict__ in) {
  constexpr int kCount = kWidth / sizeof(T);
  if constexpr (kMode == RowMode::elements) {
    return vector_of_elements<T, kWidth>(run, distance, in);
  } else {
    const std::int32_t taken_before = kMode == RowMode::spread ? (distance + 1) >> 1 : distance;
    const std::int32_t taken_here = kMode == RowMode::spread ? kCount / 2 : kCount;
    if (distance < 0 || taken_before + taken_here > run.count) {
      if (distance <= -kCount || taken_before >= run.count) return {};
      return vector_in_part<T, kWidth>(run, distance, in);
    }
    if constexpr (kMode == RowMode::copy) return load_vector<kWidth>(in + distance);
    Elements<T, kWidth> result{};
    if constexpr (kMode == RowMode::reverse) {
      const auto forward = std::bit_cast<Elements<T, kWidth>>(load_vector<kWidth>(in - distance - (kCount - 1)));
#pragma unroll
      for (int i = 0; i < kCount; ++i) result[i] = forward[kCount - 1 - i];
    } else {
      const auto half = std::bit_cast<Elements<T, kWidth / 2>>(load_vector<kWidth / 2>(in + taken_before));
      const bool odd = (distance & 1) != 0;  // as all are, or none
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        result[2 * i] = odd ? T{0} : half[i];
        result[2 * i + 1] = odd ? half[i] : T{0};
      }
    }
    return std::bit_cast<Vector<kWidth>>(result);
  }
}

template <class T, std::size_t kWidth, RowMode kMode, int kRows>
__global__ void __launch_bounds__(kThreads)
    move_vectors(const __grid_constant__ RowMove move, const T* __restrict__ in, T* __restrict__ out) {
  std::uint32_t rest = blockIdx.x * kThreads + threadIdx.x;
  if (rest >= move.threads) return;
  const auto position = static_cast<std::int32_t>(move.row.split(rest) * (kWidth / sizeof(T)));
  const std::uint32_t apart = move.side_by_side ? 1 : move.rows.value;
  const auto first_row = static_cast<std::uint32_t>(move.rows.split(rest) * (move.side_by_side ? kRows : 1));
  std::int64_t to = position, from = 0;
  bool moved = true;
  for (int i = 1; i < move.outer; ++i) moved &= move.axes[i].move(move.axes[i].size.split(rest), to, from);

  // All loads before the first store.
  Vector<kWidth> vectors[kRows] = {};
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    std::int64_t row_to = to, row_from = from;
    const std::uint32_t row = first_row + i * apart;
    if (row >= move.axes[0].size.value || !move.axes[0].move(row, row_to, row_from) || !moved) continue;
    vectors[i] = moved_vector<T, kWidth, kMode>(move.run, position - move.run.first, in + row_from);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const std::uint32_t row = first_row + i * apart;
    if (row >= move.axes[0].size.value) continue;
    const std::int64_t row_to = to + std::int64_t{row} * move.axes[0].out_stride;
    *reinterpret_cast<Vector<kWidth>*>(out + row_to) = vectors[i];
  }
}

template <class T, std::size_t kWidth>
cudaError_t launch_rows(RowMode mode, const T* in, T* out, const RowMove& move, cudaStream_t stream) {
  constexpr int kMost = kMostRowsOfThread;
  auto kernel = move_vectors<T, kWidth, RowMode::elements, kMost>;
  if constexpr (kWidth > sizeof(T)) {
    if (mode == RowMode::copy) kernel = move_vectors<T, kWidth, RowMode::copy, kMost>;
    if (mode == RowMode::copy && move.rows_of_thread == 1) kernel = move_vectors<T, kWidth, RowMode::copy, 1>;
    if (mode == RowMode::reverse) kernel = move_vectors<T, kWidth, RowMode::reverse, kMost>;
    if (mode == RowMode::spread) kernel = move_vectors<T, kWidth, RowMode::spread, kMost>;
  }
  return launch(stream, move.threads, kernel, move, in, out);
}

// ---- Rows of any length, one after the other: vectors of the output -------------------------------------

// Where a row of the output takes its elements from; nullptr: it is zero.
template <class T>
__device__ const T* row_of(const LinearMove& move, std::uint32_t row, const T* in) {
  std::uint32_t rest = row;
  std::int64_t to = 0, from = 0;
  bool moved = true;
  for (int i = 0; i < move.outer; ++i) moved &= move.axes[i].move(move.axes[i].size.split(rest), to, from);
  return moved ? in + from : nullptr;
}

// The element at a distance from the first position that is taken.
template <LinearMode kMode, class T>
__device__ T element_at(const MovedAxis<std::uint32_t>& run, std::int32_t distance, const T* from) {
  std::int32_t k = distance;
  if constexpr (kMode == LinearMode::spread) k = (distance & 1) == 0 ? distance >> 1 : -1;
  if constexpr (kMode == LinearMode::elements) k = run.taken(distance);
  if (static_cast<std::uint32_t>(k) >= static_cast<std::uint32_t>(run.count) || from == nullptr) return T{0};
  if constexpr (kMode == LinearMode::forward) return from[k];
  if constexpr (kMode == LinearMode::backward) return from[-std::int64_t{k}];
  return from[k * static_cast<std::int64_t>(static_cast<std::int32_t>(run.in_stride))];
}

// Neighbours, which begin anywhere: halves of words by as many words as there are, none of which reaches beyond them.
template <class T>
__device__ Elements<T, kLinearWidth> load_neighbours(const T* from) {
  using Result = Elements<T, kLinearWidth>;
  if (reinterpret_cast<std::uintptr_t>(from) % kLinearWidth == 0) {
    return std::bit_cast<Result>(load_vector<kLinearWidth>(from));
  } else if constexpr (sizeof(T) == 2) {
    std::array<std::uint32_t, 4> words;
    if (reinterpret_cast<std::uintptr_t>(from) % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = load_vector<4>(from + 2 * i);
    } else {
      std::uint32_t before = std::uint32_t{from[0]} << 16;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t next = i < 3 ? load_vector<4>(from + 2 * i + 1) : std::uint32_t{from[7]};
        words[i] = __funnelshift_r(before, next, 16);
        before = next;
      }
    }
    return std::bit_cast<Result>(words);
  } else {
    Result result;
#pragma unroll
    for (int i = 0; i < static_cast<int>(result.size()); ++i) result[i] = from[i];
    return result;
  }
}

// The vector from element `begin` on, in which the row of it has `left` elements, element by element.
template <LinearMode kMode, class T>
__device__ Elements<T, kLinearWidth> vector_of_two_rows(const LinearMove& move, std::int32_t distance,
                                                        std::int32_t left, const T* from, const T* next) {
  Elements<T, kLinearWidth> result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(result.size()); ++i) {
    const bool here = i < left;
    result[i] = element_at<kMode>(move.run, here ? distance + i : i - left - move.run.first, here ? from : next);
  }
  return result;
}

// The vector that begins at a distance from the first position that is taken, and ends within the row.
template <LinearMode kMode, class T>
__device__ Elements<T, kLinearWidth> vector_of_row(const LinearMove& move, std::int32_t distance, const T* from) {
  constexpr int kCount = kLinearWidth / sizeof(T);
  constexpr bool kSpreads = kMode == LinearMode::spread;
  Elements<T, kLinearWidth> result{};
  if (from == nullptr) return result;
  const std::int32_t taken = kSpreads ? (distance + 1) >> 1 : distance;  // before this vector
  const bool whole = distance >= 0 && taken + (kSpreads ? kCount / 2 : kCount) <= move.run.count;
  if (!whole || kMode == LinearMode::elements)
    return vector_of_two_rows<kMode>(move, distance, kCount, from, static_cast<const T*>(nullptr));
  const auto in_stride = static_cast<std::int64_t>(static_cast<std::int32_t>(move.run.in_stride));
  if constexpr (kMode == LinearMode::forward) {
    result = load_neighbours(from + distance);
  } else if constexpr (kMode == LinearMode::backward) {
    const auto forward = load_neighbours(from - distance - (kCount - 1));
#pragma unroll
    for (int i = 0; i < kCount; ++i) result[i] = forward[kCount - 1 - i];
  } else if constexpr (kSpreads) {
    const bool odd = (distance & 1) != 0;
    from += taken * in_stride;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const T value = from[i * in_stride];
      result[2 * i] = odd ? T{0} : value;
      result[2 * i + 1] = odd ? value : T{0};
    }
  } else {
    from += distance * in_stride;
#pragma unroll
    for (int i = 0; i < kCount; ++i) result[i] = from[i * in_stride];
  }
  return result;
}

// A vector for each thread. Those of two rows are left to a few threads of the block: one in a warp would keep all
// others waiting. kNarrow: 32 bits count the elements.
template <class T, LinearMode kMode, bool kNarrow>
__global__ void __launch_bounds__(kThreads)
    move_run(const __grid_constant__ LinearMove move, const T* __restrict__ in, T* __restrict__ out) {
  constexpr int kCount = kLinearWidth / sizeof(T), kBlock = kThreads * kCount;
  using Int = std::conditional_t<kNarrow, std::int32_t, std::int64_t>;
  using Unsigned = std::make_unsigned_t<Int>;
  const auto elements = static_cast<Int>(move.elements);
  const Int block = static_cast<Int>(blockIdx.x) * kBlock - static_cast<Int>(move.before);
  const auto row_at = [&](Int element, std::int32_t& position) {
    auto row = static_cast<Unsigned>(element);
    if constexpr (kNarrow) {
      position = static_cast<std::int32_t>(move.rows_32.split(row));
    } else {
      position = static_cast<std::int32_t>(move.rows_64.split(row));
    }
    return static_cast<std::uint32_t>(row);
  };
  const auto put = [&](Int begin, const Elements<T, kLinearWidth>& vector) {
    *reinterpret_cast<Vector<kLinearWidth>*>(out + begin) = std::bit_cast<Vector<kLinearWidth>>(vector);
  };

  std::int32_t position = 0;
  if (const Int begin = block + static_cast<Int>(threadIdx.x) * kCount; begin < elements) {
    const std::uint32_t row = row_at(begin < 0 ? 0 : begin, position);
    if (begin < 0 || begin + kCount > elements) {  // the first vector, or the last
      for (int i = 0; i < kCount; ++i) {
        const Int element = begin + i;
        if (element < 0 || element >= elements) continue;
        const std::uint32_t its_row = row_at(element, position);
        out[element] = element_at<kMode>(move.run, position - move.run.first, row_of(move, its_row, in));
      }
    } else if (position + kCount <= move.row) {
      put(begin, vector_of_row<kMode>(move, position - move.run.first, row_of(move, row, in)));
    }
  }

  const Int last = min(block + kBlock, elements) - 1;
  const std::uint32_t first_row = row_at(block < 0 ? 0 : block, position), last_row = row_at(last, position);
  for (std::uint32_t row = first_row + threadIdx.x; row < last_row; row += kThreads) {
    const Int next = static_cast<Int>(row + 1) * static_cast<Int>(move.row);  // where the next row begins
    const auto left = static_cast<std::int32_t>((next - block) % kCount);
    const Int begin = next - left;
    if (left == 0 || begin < 0 || begin + kCount > elements) continue;
    put(begin, vector_of_two_rows<kMode>(move, move.row - left - move.run.first, left, row_of(move, row, in),
                                         row_of(move, row + 1, in)));
  }
}

}  // namespace

cudaError_t move_gather(std::size_t element_size, const void* in, void* out, const GatherMove& move,
                        cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(element_size, [&]<class T>() {
    status = launch(stream, move.elements, gather_elements<T>, move, static_cast<const T*>(in), static_cast<T*>(out));
  });
  return status;
}

cudaError_t move_rows(std::size_t element_size, std::size_t width, RowMode mode, const void* in, void* out,
                      const RowMove& move, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(element_size, [&]<class T>() {
    const auto* from = static_cast<const T*>(in);
    auto* to = static_cast<T*>(out);
    if (width == 16) {
      status = launch_rows<T, 16>(mode, from, to, move, stream);
    } else if (width == 8) {
      status = launch_rows<T, 8>(mode, from, to, move, stream);
    } else {
      status = launch_rows<T, sizeof(T)>(mode, from, to, move, stream);
    }
  });
  return status;
}

cudaError_t move_linear(std::size_t element_size, LinearMode mode, const void* in, void* out, const LinearMove& move,
                        cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(element_size, [&]<class T>() {
    constexpr std::int64_t kCount = kLinearWidth / sizeof(T);
    const std::int64_t vectors = divide_up(move.before + move.elements, kCount);
    const bool narrow = (vectors + kThreads) * kCount <= std::numeric_limits<std::int32_t>::max();
    const auto kernel_of = [&]<LinearMode kMode>() {
      return narrow ? move_run<T, kMode, true> : move_run<T, kMode, false>;
    };
    auto kernel = kernel_of.template operator()<LinearMode::elements>();
    if (mode == LinearMode::forward) kernel = kernel_of.template operator()<LinearMode::forward>();
    if (mode == LinearMode::backward) kernel = kernel_of.template operator()<LinearMode::backward>();
    if (mode == LinearMode::apart) kernel = kernel_of.template operator()<LinearMode::apart>();
    if (mode == LinearMode::spread) kernel = kernel_of.template operator()<LinearMode::spread>();
    status = launch(stream, vectors, kernel, move, static_cast<const T*>(in), static_cast<T*>(out));
  });
  return status;
}

}  // namespace bp::cuda

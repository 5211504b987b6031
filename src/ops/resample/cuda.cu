// SPDX-License-Identifier: Apache-2.0
// Resample and its gradient on CUDA.
#include "backends/cuda/launch.cuh"
#include "core/dtype.h"
#include "ops/resample/cuda.h"

#include <type_traits>

namespace bp::cuda {

namespace {

// The sum of one level and those inside it: `row` has the output's index on each level's axis.
template <int kLevel, class T>
__device__ Acc<T> nested_sum(const ResampleGather& s, const std::int64_t* row, const T* __restrict__ in) {
  if constexpr (kLevel < kMaxRank) {
    if (kLevel < s.levels) {
      const ResampleAxis& axis = s.axes[s.axis_of_level[kLevel]];
      const auto* weight = static_cast<const Acc<T>*>(axis.weight);
      const std::int64_t end = axis.begin[row[kLevel] + 1];
      Acc<T> total = 0;
      for (std::int64_t k = axis.begin[row[kLevel]]; k < end;) {
        const std::int64_t block_end = end - k < s.block ? end : k + s.block;
        Acc<T> sum = 0;
        for (; k < block_end; ++k) {
          sum += weight[k] * nested_sum<kLevel + 1>(s, row, in + axis.index[k] * axis.in_stride);
        }
        total += sum;
      }
      return total;
    }
  }
  return static_cast<Acc<T>>(widen(*in));
}

// The element of the output and where its first input is, before any sum moves on from there.
struct Place {
  std::int64_t out = 0, in = 0;
};

__device__ Place place_of(const ResampleGather& s, std::int64_t item, std::int64_t* row) {
  Place place;
  auto rest = static_cast<std::uint64_t>(item);
  for (int i = 0; i < s.rank; ++i) {
    const ResampleAxis& axis = s.axes[i];
    const auto at = static_cast<std::int64_t>(axis.size.split(rest));
    place.out += at * axis.out_stride;
    if (axis.level >= 0) {
      row[axis.level] = at;
    } else {
      place.in += (axis.index == nullptr ? at : axis.index[at]) * axis.in_stride;
    }
  }
  return place;
}

// A sum is never -0, and where no axis has one the gradient's value is +0 + g all the same.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_elements(const __grid_constant__ ResampleGather s, const T* __restrict__ in, T* __restrict__ out) {
  each_item(s.count, [&](std::int64_t item) {
    std::int64_t row[kMaxRank];
    const Place place = place_of(s, item, row);
    out[place.out] = s.nothing_comes_in ? T{} : narrow<T>(Acc<T>{0} + nested_sum<0>(s, row, in + place.in));
  });
}

// Every axis is movement: whatever the bits mean, they pass.
template <class T>
__global__ void __launch_bounds__(kThreads)
    move_elements(const __grid_constant__ ResampleGather s, const T* __restrict__ in, T* __restrict__ out) {
  each_item(s.count, [&](std::int64_t item) {
    const Place place = place_of(s, item, nullptr);
    out[place.out] = in[place.in];
  });
}

}  // namespace

cudaError_t resample_sum(DType dtype, const void* in, void* out, const ResampleGather& gather, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit(FloatsAndBytes{}, dtype, [&]<class T>() {
    status = launch(stream, gather.count, sum_elements<T>, gather, static_cast<const T*>(in), static_cast<T*>(out));
  });
  return status;
}

cudaError_t resample_move(DType dtype, const void* in, void* out, const ResampleGather& gather, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(size_of(dtype), [&]<class T>() {
    status = launch(stream, gather.count, move_elements<T>, gather, static_cast<const T*>(in), static_cast<T*>(out));
  });
  return status;
}

}  // namespace bp::cuda

// SPDX-License-Identifier: Apache-2.0
// Resample and its gradient on CUDA.
#include "backends/cuda/launch.cuh"
#include "core/dtype.h"
#include "ops/resample/cuda.h"

namespace bp::cuda {

namespace {

// The index of one output on the axis of each level. Up to three levels it lies in registers, which have no numbers at
// run time.
template <class Int, int kLevels>
struct Rows {
  Int row[kLevels];

  __device__ void set(int level, Int value) {
    if constexpr (kLevels <= 3) {
#pragma unroll
      for (int i = 0; i < kLevels; ++i) {
        if (i == level) row[i] = value;
      }
    } else {
      row[level] = value;
    }
  }
};

// The sum of one level and those inside it.
template <int kLevel, class T, class Int, int kLevels>
__device__ Acc<T> nested_sum(const ResampleGather<Int>& s, const Rows<Int, kLevels>& rows, const T* __restrict__ in) {
  if constexpr (kLevel < kLevels) {
    if (kLevel < s.levels) {
      const SummedAxis<Int>& axis = s.axes[s.axis_of_level[kLevel]];
      const auto* weight = static_cast<const Acc<T>*>(axis.weight);
      const Int end = axis.begin[rows.row[kLevel] + 1];
      Acc<T> total = 0;
      for (Int k = axis.begin[rows.row[kLevel]]; k < end;) {
        const Int block_end = end - k < s.block ? end : k + s.block;
        Acc<T> sum = 0;
        for (; k < block_end; ++k) sum += weight[k] * nested_sum<kLevel + 1>(s, rows, in + axis.offset[k]);
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

template <class Int, class OnLevel>
__device__ Place place_of(const ResampleGather<Int>& s, std::int64_t item, const OnLevel& on_level) {
  using Unsigned = std::make_unsigned_t<Int>;
  Place place;
  auto rest = static_cast<Unsigned>(item);
  for (int i = 0; i < s.rank; ++i) {
    const SummedAxis<Int>& axis = s.axes[i];
    const auto at = static_cast<Int>(axis.size.split(rest));
    place.out += at * axis.out_stride;
    if (axis.level >= 0) {
      on_level(axis.level, at);
    } else {
      place.in += axis.offset == nullptr ? at * axis.in_stride : axis.offset[at];
    }
  }
  return place;
}

// A sum is never -0, and where no axis has one the gradient's value is +0 + g all the same.
template <class T, class Int, int kLevels>
__global__ void __launch_bounds__(kThreads)
    sum_elements(const __grid_constant__ ResampleGather<Int> s, const T* __restrict__ in, T* __restrict__ out) {
  each_item(s.count, [&](std::int64_t item) {
    Rows<Int, kLevels> rows;
    const Place place = place_of(s, item, [&](int level, Int at) { rows.set(level, at); });
    out[place.out] = s.nothing_comes_in ? T{} : narrow<T>(Acc<T>{0} + nested_sum<0>(s, rows, in + place.in));
  });
}

// Every axis is movement: whatever the bits mean, they pass.
template <class T, class Int>
__global__ void __launch_bounds__(kThreads)
    move_elements(const __grid_constant__ ResampleGather<Int> s, const T* __restrict__ in, T* __restrict__ out) {
  each_item(s.count, [&](std::int64_t item) {
    const Place place = place_of(s, item, [](int, Int) {});
    out[place.out] = in[place.in];
  });
}

}  // namespace

template <class Int>
cudaError_t resample_sum(DType dtype, const void* in, void* out, const ResampleGather<Int>& gather,
                         cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit(FloatsAndBytes{}, dtype, [&]<class T>() {
    auto kernel = sum_elements<T, Int, kMaxRank>;
    if (gather.levels == 1) kernel = sum_elements<T, Int, 1>;
    if (gather.levels == 2) kernel = sum_elements<T, Int, 2>;
    if (gather.levels == 3) kernel = sum_elements<T, Int, 3>;
    status = launch(stream, gather.count, kernel, gather, static_cast<const T*>(in), static_cast<T*>(out));
  });
  return status;
}
template cudaError_t resample_sum(DType, const void*, void*, const ResampleGather<std::int32_t>&, cudaStream_t);
template cudaError_t resample_sum(DType, const void*, void*, const ResampleGather<std::int64_t>&, cudaStream_t);

template <class Int>
cudaError_t resample_move(DType dtype, const void* in, void* out, const ResampleGather<Int>& gather,
                          cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit_size(size_of(dtype), [&]<class T>() {
    status =
        launch(stream, gather.count, move_elements<T, Int>, gather, static_cast<const T*>(in), static_cast<T*>(out));
  });
  return status;
}
template cudaError_t resample_move(DType, const void*, void*, const ResampleGather<std::int32_t>&, cudaStream_t);
template cudaError_t resample_move(DType, const void*, void*, const ResampleGather<std::int64_t>&, cudaStream_t);

}  // namespace bp::cuda

// SPDX-License-Identifier: Apache-2.0
// The kernels of resample and its gradient, as the host calls them. They only put work on the stream.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/tensor.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace bp::cuda {

// An axis of the output, which is y or dx. Its element i takes the input's element i (`offset` is null), or the one
// offset[i] away (`begin` is null, too), or the sum over k from begin[i] to begin[i + 1] of weight[k] times the one
// offset[k] away.
template <class Int>
struct SummedAxis {
  Divisor<std::make_unsigned_t<Int>> size{};
  std::int64_t out_stride = 0, in_stride = 0;
  const Int* begin = nullptr;
  const Int* offset = nullptr;
  const void* weight = nullptr;  // in the accumulator's type
  int level = -1;                // where there is a sum: how deep it is in the nest, 0 outermost
};

// One thread for each element of the output, one nested sum. Kernels exist twice: for problems whose elements and
// tables can be counted in 32 bits, and for all.
template <class Int>
struct ResampleGather {
  std::int64_t count = 0;
  int rank = 0;
  SummedAxis<Int> axes[kMaxRank];  // the innermost in the output's memory first
  int levels = 0;
  int axis_of_level[kMaxRank] = {};
  Int block = 0;                  // so many terms are summed on their own
  bool nothing_comes_in = false;  // an empty input leaves +0
};
template <class Int>
cudaError_t resample_sum(DType dtype, const void* in, void* out, const ResampleGather<Int>& gather,
                         cudaStream_t stream);
// Without any sum, the elements' bits.
template <class Int>
cudaError_t resample_move(DType dtype, const void* in, void* out, const ResampleGather<Int>& gather,
                          cudaStream_t stream);

}  // namespace bp::cuda

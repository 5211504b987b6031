// SPDX-License-Identifier: Apache-2.0
// The kernels of resample and its gradient, as the host calls them. They only put work on the stream.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/tensor.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

// An axis of the output, which is y or dx. Its element i takes the input's element i (`index` is null), or element
// index[i] (`begin` is null, too), or the sum over k from begin[i] to begin[i + 1] of weight[k] * element index[k].
struct ResampleAxis {
  Divisor<std::uint64_t> size;
  std::int64_t out_stride = 0, in_stride = 0;
  const std::int64_t* begin = nullptr;
  const std::int64_t* index = nullptr;
  const void* weight = nullptr;  // in the accumulator's type
  int level = -1;                // where there is a sum: how deep it is in the nest, 0 outermost
};

// One thread for each element of the output, one nested sum.
struct ResampleGather {
  std::int64_t count = 0;
  int rank = 0;
  ResampleAxis axes[kMaxRank];  // the innermost in the output's memory first
  int levels = 0;
  int axis_of_level[kMaxRank] = {};
  std::int64_t block = 0;         // so many terms are summed on their own
  bool nothing_comes_in = false;  // an empty input leaves +0
};
cudaError_t resample_sum(DType dtype, const void* in, void* out, const ResampleGather& gather, cudaStream_t stream);
// Without any sum, the elements' bits.
cudaError_t resample_move(DType dtype, const void* in, void* out, const ResampleGather& gather, cudaStream_t stream);

}  // namespace bp::cuda

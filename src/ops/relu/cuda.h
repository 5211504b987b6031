// SPDX-License-Identifier: Apache-2.0
// ReLU's kernels, as the host calls them. They only put work on the stream.
#pragma once

#include "backends/cuda/strided.h"
#include "core/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

// All tensors lie in one piece of `count` elements each, and begin at multiples of kVectorBytes.
inline constexpr std::size_t kVectorBytes = 16;
cudaError_t relu_packed(DType dtype, const void* x, void* y, std::int64_t count, cudaStream_t stream);
cudaError_t relu_grad_packed(DType dtype, const void* x, const void* dy, void* dx, std::int64_t count, bool nan_passes,
                             cudaStream_t stream);

// Any strides; the views are y, x and dx, x, dy.
cudaError_t relu_strided(DType dtype, const void* x, void* y, const Strided<2>& views, cudaStream_t stream);
cudaError_t relu_grad_strided(DType dtype, const void* x, const void* dy, void* dx, const Strided<3>& views,
                              bool nan_passes, cudaStream_t stream);

}  // namespace bp::cuda

// SPDX-License-Identifier: Apache-2.0
// A build without CUDA: no device, and no implementation for one.
#include "backends/cuda/device.h"
#include "ops/all.h"

namespace bp::cuda {

std::int32_t device_count() { return 0; }
void require_device(std::int32_t) { unsupported("device: this build of backpass has no CUDA backend"); }

std::span<const Implementation<ReluPlan>> relu_implementations() { return {}; }
std::span<const Implementation<ReluGradPlan>> relu_grad_implementations() { return {}; }
std::span<const Implementation<MaxPoolPlan>> max_pool_implementations() { return {}; }
std::span<const Implementation<MaxPoolGradPlan>> max_pool_grad_implementations() { return {}; }
std::span<const Implementation<ConvertWinnersPlan>> convert_winners_implementations() { return {}; }
std::span<const Implementation<ResamplePlan>> resample_implementations() { return {}; }
std::span<const Implementation<ResampleGradPlan>> resample_grad_implementations() { return {}; }
std::span<const Implementation<SlicePlan>> slice_implementations() { return {}; }
std::span<const Implementation<SliceGradPlan>> slice_grad_implementations() { return {}; }

}  // namespace bp::cuda

// SPDX-License-Identifier: Apache-2.0
// ReLU and its gradient: the contract.
//
//     y  = x > 0 ? x : +0     a NaN stays
//     dx = x > 0 ? dy : +0    x = NaN gives +0, or dy with nan = pass
//
// So -0, +0 and everything below give +0, whatever dy is: NaN and infinity too. Where a value passes, all its bits do.
// The output y may stand in for x in the gradient, since y > 0 exactly where x > 0. Any strides, rank 1 to 8; an output
// may be the identical view of an input.
#pragma once

#include "core/operator.h"

#include <cstdint>
#include <span>

namespace bp {

struct ReluPlan {
  Tensor x, y;
};

struct ReluGradPlan {
  Tensor x, dy, dx;
  bool nan_passes = false;
};

struct Relu {
  using Desc = bp_relu_desc;
  using Plan = ReluPlan;
  using Types = SignedNumbers;
  static constexpr std::int32_t kKind = BP_RELU;
  static constexpr std::string_view kName = "relu";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

struct ReluGrad {
  using Desc = bp_relu_grad_desc;
  using Plan = ReluGradPlan;
  using Types = SignedNumbers;
  static constexpr std::int32_t kKind = BP_RELU_GRAD;
  static constexpr std::string_view kName = "relu_grad";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

namespace reference {
void relu(const ReluPlan& plan, const Bindings& bindings);
void relu_grad(const ReluGradPlan& plan, const Bindings& bindings);
}  // namespace reference

namespace cpu {
std::unique_ptr<Kernel> make_relu(std::shared_ptr<const ReluPlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_relu_grad(std::shared_ptr<const ReluGradPlan> plan, const Settings& settings);
}  // namespace cpu

namespace cuda {
// Best first, the last takes everything; none in a build without CUDA.
std::span<const Implementation<ReluPlan>> relu_implementations();
std::span<const Implementation<ReluGradPlan>> relu_grad_implementations();
}  // namespace cuda

}  // namespace bp

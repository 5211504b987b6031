// SPDX-License-Identifier: Apache-2.0
// ReLU: validation, plan, implementation lists.
#include "ops/relu/relu.h"

#include "core/read_struct.h"

namespace bp {

namespace {

// Best first; the last takes everything that validation accepts.
constexpr Implementation<ReluPlan> kReluCpu[] = {
    {"simd", accept_all<ReluPlan>, cpu::make_relu},
    {"reference", accept_all<ReluPlan>, PlainKernel<ReluPlan, reference::relu>::make},
};
constexpr Implementation<ReluGradPlan> kReluGradCpu[] = {
    {"simd", accept_all<ReluGradPlan>, cpu::make_relu_grad},
    {"reference", accept_all<ReluGradPlan>, PlainKernel<ReluGradPlan, reference::relu_grad>::make},
};

}  // namespace

ReluPlan Relu::plan(const Desc& desc) {
  ReluPlan plan{.x = read_tensor(kName, "x", desc.x), .y = read_tensor(kName, "y", desc.y)};
  require_dtype(kName, "x", plan.x, Types{});
  require_same_dtype(kName, "y", plan.y, "x", plan.x);
  require_same_sizes(kName, "y", plan.y, "x", plan.x);
  require_distinct_elements(kName, "y", plan.y);
  return plan;
}

Description Relu::describe(const Plan& plan) {
  return {.inputs = {{"x", plan.x}},
          .outputs = {{"y", plan.y}},
          .in_place = true,
          .bytes = stored_bytes({&plan.x, &plan.y}),
          .problem = ProblemText(kName)
                         .add("--dtype", name(plan.x.dtype))
                         .add("--x-shape", plan.x.shape())
                         .strides("x", plan.x)
                         .strides("y", plan.y)
                         .text()};
}

std::span<const Implementation<ReluPlan>> Relu::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::relu_implementations();
  if (device_kind == BP_DEVICE_CPU) return kReluCpu;
  return {};
}

ReluGradPlan ReluGrad::plan(const Desc& desc) {
  ReluGradPlan plan{.x = read_tensor(kName, "x", desc.x),
                    .dy = read_tensor(kName, "dy", desc.dy),
                    .dx = read_tensor(kName, "dx", desc.dx),
                    .nan_passes = desc.nan == BP_NAN_PASS};
  if (desc.nan != BP_NAN_ZERO && desc.nan != BP_NAN_PASS) {
    invalid("{}: nan: is {}, expected 0 (zero) or 1 (pass)", kName, desc.nan);
  }
  require_reserved(kName, "desc", desc.reserved);
  require_dtype(kName, "x", plan.x, Types{});
  require_same_dtype(kName, "dy", plan.dy, "x", plan.x);
  require_same_dtype(kName, "dx", plan.dx, "x", plan.x);
  require_same_sizes(kName, "dy", plan.dy, "x", plan.x);
  require_same_sizes(kName, "dx", plan.dx, "x", plan.x);
  require_distinct_elements(kName, "dx", plan.dx);
  return plan;
}

Description ReluGrad::describe(const Plan& plan) {
  return {.inputs = {{"x", plan.x}, {"dy", plan.dy}},
          .outputs = {{"dx", plan.dx}},
          .in_place = true,
          .bytes = stored_bytes({&plan.x, &plan.dy, &plan.dx}),
          .problem = ProblemText(kName)
                         .add("--dtype", name(plan.x.dtype))
                         .add("--x-shape", plan.x.shape())
                         .strides("x", plan.x)
                         .strides("dy", plan.dy)
                         .strides("dx", plan.dx)
                         .add("--nan", plan.nan_passes ? "pass" : "zero")
                         .text()};
}

std::span<const Implementation<ReluGradPlan>> ReluGrad::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::relu_grad_implementations();
  if (device_kind == BP_DEVICE_CPU) return kReluGradCpu;
  return {};
}

}  // namespace bp

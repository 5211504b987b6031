// SPDX-License-Identifier: Apache-2.0
// Resample: validation, plans, implementation lists.
#include "ops/resample/resample.h"

namespace bp {

namespace {

constexpr Implementation<ResamplePlan> kResampleCpu[] = {
    {"packed", cpu::refuse_resample_packed, cpu::make_resample_packed},
    {"simd", cpu::refuse_resample, cpu::make_resample},
    {"reference", accept_all<ResamplePlan>, PlainKernel<ResamplePlan, reference::resample>::make},
};
constexpr Implementation<ResampleGradPlan> kResampleGradCpu[] = {
    {"packed", cpu::refuse_resample_grad_packed, cpu::make_resample_grad_packed},
    {"simd", cpu::refuse_resample_grad, cpu::make_resample_grad},
    {"reference", accept_all<ResampleGradPlan>, PlainKernel<ResampleGradPlan, reference::resample_grad>::make},
};

Accumulator accumulator_of(const Tensor& tensor) {
  return accumulates_in_f64(tensor.dtype) ? Accumulator::f64 : Accumulator::f32;
}

std::vector<std::string> axis_notes(const std::array<AxisTable, kMaxRank>& axes, int rank, std::string_view row) {
  std::vector<std::string> notes;
  for (int i = 0; i < rank; ++i) {
    const AxisTable& a = axes[i];
    notes.push_back(a.left_alone ? fmt::format("axis {}: {}, left alone", i, a.inputs)
                                 : fmt::format("axis {}: {} -> {}, {} taps, at most {} for one element of {}", i,
                                               a.inputs, a.outputs, a.index.size(), a.longest_row(), row));
  }
  return notes;
}

}  // namespace

ResamplePlan Resample::plan(const Desc& desc) {
  ResamplePlan plan{.x = read_tensor(kName, "x", desc.x), .y = read_tensor(kName, "y", desc.y)};
  require_dtype(kName, "x", plan.x, Types{});
  require_same_dtype(kName, "y", plan.y, "x", plan.x);
  require_same_rank(kName, "y", plan.y, "x", plan.x);
  require_distinct_elements(kName, "y", plan.y);
  if (plan.x.empty() && !plan.y.empty()) {
    invalid("{}: y: has {} although x is empty, expected none", kName, counted(plan.y.count(), "element", "elements"));
  }
  const ResampleMap map = read_map(kName, desc.map, plan.x, plan.y);
  plan.map_text = map.text;
  if (plan.y.empty()) return plan;
  for (int i = 0; i < plan.x.rank; ++i) {
    plan.axes[i] =
        build_table(kName, map, i, plan.x.sizes[i], plan.y.sizes[i], accumulator_of(plan.x), Direction::forward);
  }
  return plan;
}

Description Resample::describe(const Plan& plan) {
  return {.inputs = {{"x", plan.x}},
          .outputs = {{"y", plan.y}},
          .bytes = stored_bytes({&plan.x, &plan.y}),
          .problem = ProblemText(kName)
                         .add("--dtype", name(plan.x.dtype))
                         .add("--x-shape", plan.x.shape())
                         .add("--y-shape", plan.y.shape())
                         .strides("x", plan.x)
                         .strides("y", plan.y)
                         .text() +
                     plan.map_text,
          .notes = axis_notes(plan.axes, plan.x.rank, "y")};
}

std::span<const Implementation<ResamplePlan>> Resample::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::resample_implementations();
  if (device_kind == BP_DEVICE_CPU) return kResampleCpu;
  return {};
}

ResampleGradPlan ResampleGrad::plan(const Desc& desc) {
  ResampleGradPlan plan{.dy = read_tensor(kName, "dy", desc.dy), .dx = read_tensor(kName, "dx", desc.dx)};
  require_dtype(kName, "dx", plan.dx, Types{});
  require_same_dtype(kName, "dy", plan.dy, "dx", plan.dx);
  require_same_rank(kName, "dy", plan.dy, "dx", plan.dx);
  require_distinct_elements(kName, "dx", plan.dx);
  const ResampleMap map = read_map(kName, desc.map, plan.dx, plan.dy);
  plan.map_text = map.text;
  if (plan.dx.empty() || plan.dy.empty()) return plan;
  for (int i = 0; i < plan.dx.rank; ++i) {
    plan.axes[i] =
        build_table(kName, map, i, plan.dx.sizes[i], plan.dy.sizes[i], accumulator_of(plan.dx), Direction::gradient);
  }
  return plan;
}

Description ResampleGrad::describe(const Plan& plan) {
  return {.inputs = {{"dy", plan.dy}},
          .outputs = {{"dx", plan.dx}},
          .bytes = stored_bytes({&plan.dy, &plan.dx}),
          .problem = ProblemText(kName)
                         .add("--dtype", name(plan.dx.dtype))
                         .add("--x-shape", plan.dx.shape())
                         .add("--y-shape", plan.dy.shape())
                         .strides("dy", plan.dy)
                         .strides("dx", plan.dx)
                         .text() +
                     plan.map_text,
          .notes = axis_notes(plan.axes, plan.dx.rank, "dx")};
}

std::span<const Implementation<ResampleGradPlan>> ResampleGrad::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::resample_grad_implementations();
  if (device_kind == BP_DEVICE_CPU) return kResampleGradCpu;
  return {};
}

}  // namespace bp

// SPDX-License-Identifier: Apache-2.0
// Slice: validation, plan, implementation lists.
#include "ops/slice/slice.h"

#include "core/checked.h"
#include "core/read_struct.h"

namespace bp {

namespace {

constexpr Implementation<SlicePlan> kSliceCpu[] = {
    {"simd", accept_all<SlicePlan>, cpu::make_slice},
    {"reference", accept_all<SlicePlan>, PlainKernel<SlicePlan, reference::slice>::make},
};
constexpr Implementation<SliceGradPlan> kSliceGradCpu[] = {
    {"simd", accept_all<SliceGradPlan>, cpu::make_slice_grad},
    {"reference", accept_all<SliceGradPlan>, PlainKernel<SliceGradPlan, reference::slice_grad>::make},
};

void require_window(std::string_view op, int i, const SliceAxis& axis, std::int64_t whole) {
  if (axis.offset < 0) invalid("{}: offsets: axis {}: is {}, expected 0 or more", op, i, axis.offset);
  const std::int64_t least = whole == 0 ? 0 : 1;
  if (axis.offset > whole - least) {
    invalid("{}: offsets: axis {}: is {}, expected at most {} (the axis has {})", op, i, axis.offset, whole - least,
            counted(whole, "element", "elements"));
  }
  if (axis.size < least) invalid("{}: sizes: axis {}: is {}, expected {} or more", op, i, axis.size, least);
  if (axis.size > whole - axis.offset) {
    invalid("{}: sizes: axis {}: the window [{}, {} + {}) leaves the axis, expected offset + size <= {}", op, i,
            axis.offset, axis.offset, axis.size, whole);
  }
  if (axis.stride == 0 || axis.stride <= -kParameterLimit || axis.stride >= kParameterLimit) {
    invalid("{}: strides: axis {}: is {}, expected a number other than 0 between -2^31 and 2^31", op, i, axis.stride);
  }
}

void require_part_size(std::string_view op, std::string_view part_name, int i, const SliceAxis& axis,
                       std::int64_t part) {
  const std::int64_t magnitude = axis.stride < 0 ? -axis.stride : axis.stride;
  const std::int64_t least = axis.size == 0 ? 0 : 1;
  const std::int64_t most = axis.size == 0 ? 0 : 1 + (axis.size - 1) / magnitude;
  if (part < least || part > most) {
    invalid("{}: {}: axis {}: size is {}, expected {} to {} (window of {} walked by {})", op, part_name, i, part, least,
            most, axis.size, axis.stride);
  }
}

template <class Plan>
Plan plan_slice(std::string_view op, std::string_view whole_name, const bp_tensor_desc* whole,
                std::string_view part_name, const bp_tensor_desc* part, const bp_slice_window* window) {
  Plan plan;
  plan.whole = read_tensor(op, whole_name, whole);
  plan.part = read_tensor(op, part_name, part);
  require_same_dtype(op, part_name, plan.part, whole_name, plan.whole);
  require_same_rank(op, part_name, plan.part, whole_name, plan.whole);
  if (window == nullptr) invalid("{}: window: is null, expected a bp_slice_window", op);
  const auto given = read_struct<bp_slice_window>(op, "window", window);
  require_reserved(op, "window", given.reserved);
  if (given.rank != plan.whole.rank) {
    invalid("{}: window: rank is {}, expected {} (that of {})", op, given.rank, plan.whole.rank, whole_name);
  }
  if (given.offsets == nullptr)
    invalid("{}: offsets: is null, expected {}", op, counted(given.rank, "entry", "entries"));
  if (given.sizes == nullptr) invalid("{}: sizes: is null, expected {}", op, counted(given.rank, "entry", "entries"));
  for (int i = 0; i < given.rank; ++i) {
    SliceAxis& axis = plan.axes[i];
    axis = {given.offsets[i], given.sizes[i], given.strides == nullptr ? 1 : given.strides[i]};
    require_window(op, i, axis, plan.whole.sizes[i]);
    require_part_size(op, part_name, i, axis, plan.part.sizes[i]);
  }
  return plan;
}

std::string problem_text(std::string_view op, std::string_view whole_name, std::string_view part_name,
                         const SlicePlan& plan) {
  Dims offsets{}, sizes{}, strides{};
  for (int i = 0; i < plan.whole.rank; ++i) {
    offsets[i] = plan.axes[i].offset;
    sizes[i] = plan.axes[i].size;
    strides[i] = plan.axes[i].stride;
  }
  const auto values = [&](const Dims& dims) {
    return std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(plan.whole.rank));
  };
  return ProblemText(op)
      .add("--dtype", name(plan.whole.dtype))
      .add("--x-shape", plan.whole.shape())
      .add("--y-shape", plan.part.shape())
      .strides(whole_name, plan.whole)
      .strides(part_name, plan.part)
      .add("--offsets", values(offsets))
      .add("--sizes", values(sizes))
      .add("--strides", values(strides))
      .text();
}

}  // namespace

SlicePlan Slice::plan(const Desc& desc) {
  auto plan = plan_slice<SlicePlan>(kName, "x", desc.x, "y", desc.y, desc.window);
  require_distinct_elements(kName, "y", plan.part);
  return plan;
}

Description Slice::describe(const Plan& plan) {
  Tensor read = plan.part;  // the elements of x that are read: broadcast ones once
  read.strides = plan.whole.strides;
  return {.inputs = {{"x", plan.whole}},
          .outputs = {{"y", plan.part}},
          .bytes = stored_bytes({&read, &plan.part}),
          .problem = problem_text(kName, "x", "y", plan)};
}

std::span<const Implementation<SlicePlan>> Slice::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::slice_implementations();
  if (device_kind == BP_DEVICE_CPU) return kSliceCpu;
  return {};
}

SliceGradPlan SliceGrad::plan(const Desc& desc) {
  auto plan = plan_slice<SliceGradPlan>(kName, "dx", desc.dx, "dy", desc.dy, desc.window);
  require_distinct_elements(kName, "dx", plan.whole);
  return plan;
}

Description SliceGrad::describe(const Plan& plan) {
  return {.inputs = {{"dy", plan.part}},
          .outputs = {{"dx", plan.whole}},
          .bytes = stored_bytes({&plan.whole, &plan.part}),
          .problem = problem_text(kName, "dx", "dy", plan)};
}

std::span<const Implementation<SliceGradPlan>> SliceGrad::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::slice_grad_implementations();
  if (device_kind == BP_DEVICE_CPU) return kSliceGradCpu;
  return {};
}

}  // namespace bp

// SPDX-License-Identifier: Apache-2.0
// A resample, or its gradient, as kernels see it: which axis has which role, and the tables of an axis.
#pragma once

#include "ops/resample/cuda_tables.h"
#include "ops/resample/cuda_view.h"
#include "ops/resample/resample.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace bp::cuda {

// One axis, or several that are left alone and follow each other in memory.
struct RoleAxis {
  int of = -1;                    // the tensors' axis; the innermost of several
  std::int64_t to = 1, from = 1;  // sizes of the tensors that are written and read
  std::int64_t to_stride = 0, from_stride = 0;

  [[nodiscard]] bool contiguous() const { return (to_stride == 1 || to == 1) && (from_stride == 1 || from == 1); }
};

// Both directions: an element of `to` is a sum of elements of `from`, and the axes' tables have a row for each.
struct Resampling {
  const Tensor& from;
  const Tensor& to;
  const std::array<AxisTable, kMaxRank>& axes;

  explicit Resampling(const ResamplePlan& plan) : from(plan.x), to(plan.y), axes(plan.axes) {}
  explicit Resampling(const ResampleGradPlan& plan) : from(plan.dy), to(plan.dx), axes(plan.axes) {}
};

// A trivial axis stands for a role that no axis has.
struct Roles {
  RoleAxis batch, channel, depth, rows, columns;
  bool volume = false, planar = false;
};

// The resampled axes in their order: depth, rows, columns. Of those that are left alone the contiguous one is the
// channels; where there is none, columns are contiguous. Empty: all have a role.
std::string assign_roles(const Resampling& resampling, Roles& roles);

// Whether elements can move together, so many at a time: what their rows and strides are multiples of.
bool divides(int count, std::initializer_list<std::int64_t> lengths);

// The tensors of a run; nothing where they do not begin where so many elements can move together.
struct ResampleViews {
  ResampleView<const void> from;
  ResampleView<void> to;
};
std::optional<ResampleViews> views_of(const Bindings& bindings, const Roles& roles, DType dtype, Together moved);

// Of an axis that is left alone, too.
std::optional<ResampleTables> tables_of(const ResampleGradPlan& plan, const RoleAxis& axis);

}  // namespace bp::cuda

// SPDX-License-Identifier: Apache-2.0
// The gradient of a resample as kernels see it: which axis has which role, and the tables of an axis.
#pragma once

#include "ops/resample/cuda_tables.h"
#include "ops/resample/cuda_view.h"
#include "ops/resample/resample.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace bp::cuda {

// One axis, or several that are left alone and follow each other in memory.
struct RoleAxis {
  int of = -1;  // the tensors' axis; the innermost of several
  std::int64_t inputs = 1, outputs = 1;
  std::int64_t dx = 0, dy = 0;  // strides

  [[nodiscard]] bool contiguous() const { return (dx == 1 || inputs == 1) && (dy == 1 || outputs == 1); }
};

// A trivial axis stands for a role that no axis has.
struct Roles {
  RoleAxis batch, channel, depth, rows, columns;
  bool volume = false, planar = false;
};

// The resampled axes in their order: depth, rows, columns. Of those that are left alone the contiguous one is the
// channels; where there is none, columns are contiguous. Empty: all have a role.
std::string assign_roles(const ResampleGradPlan& plan, Roles& roles);

// Whether elements can move together, so many at a time: what their rows and strides are multiples of.
bool divides(int count, std::initializer_list<std::int64_t> lengths);

// The tensors of a run; nothing where they do not begin where so many elements can move together.
struct ResampleViews {
  ResampleView<const void> dy;
  ResampleView<void> dx;
};
std::optional<ResampleViews> views_of(const Bindings& bindings, const Roles& roles, DType dtype, Together moved);

// Of an axis that is left alone, too.
std::optional<ResampleTables> tables_of(const ResampleGradPlan& plan, const RoleAxis& axis);

}  // namespace bp::cuda

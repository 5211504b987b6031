// SPDX-License-Identifier: Apache-2.0
#include "ops/resample/cuda_roles.h"

#include "backends/cuda/runtime.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace bp::cuda {

namespace {

std::vector<RoleAxis> fused(const std::vector<RoleAxis>& axes) {
  std::vector<RoleAxis> result;
  for (const RoleAxis& axis : axes) {
    if (!result.empty()) {
      RoleAxis& outer = result.back();
      if (outer.dx == axis.dx * axis.inputs && outer.dy == axis.dy * axis.inputs) {
        const std::int64_t count = outer.inputs * axis.inputs;
        outer = axis;
        outer.inputs = outer.outputs = count;
        continue;
      }
    }
    result.push_back(axis);
  }
  return result;
}

}  // namespace

std::string assign_roles(const ResampleGradPlan& plan, Roles& roles) {
  std::vector<RoleAxis> resampled, left;
  for (int i = 0; i < plan.dx.rank; ++i) {
    const RoleAxis axis{i, plan.dx.sizes[i], plan.dy.sizes[i], plan.dx.strides[i], plan.dy.strides[i]};
    if (!plan.axes[i].left_alone) {
      resampled.push_back(axis);
    } else if (axis.inputs > 1) {
      left.push_back(axis);
    }
  }
  if (resampled.empty() || resampled.size() > 3) return "not one, two or three axes are resampled";
  const auto channel = std::ranges::find_if(left, &RoleAxis::contiguous);
  roles.planar = channel == left.end();
  if (!roles.planar) {
    roles.channel = *channel;
    left.erase(channel);
  }
  roles.columns = resampled.back();
  roles.volume = resampled.size() == 3;
  if (roles.volume) roles.depth = resampled.front();
  if (resampled.size() > 1) roles.rows = resampled[resampled.size() - 2];
  // Rows that are left alone, rather than blocks of one row; not so many that their table counts.
  constexpr std::int64_t kMostRows = 1 << 20;
  if (resampled.size() == 1 && !left.empty() && left.back().inputs <= kMostRows) {
    roles.rows = left.back();
    left.pop_back();
  }
  if (roles.planar && !roles.columns.contiguous())
    return "the last resampled axis is not contiguous, nor one that is left alone";
  if (!roles.planar && roles.columns.outputs > 1 && roles.columns.dy != roles.channel.outputs)
    return "there are gaps between the pixels of dy";
  left = fused(left);
  if (roles.planar && !left.empty()) {
    roles.channel = left.back();
    left.pop_back();
  }
  if (!left.empty()) {
    roles.batch = left.back();
    left.pop_back();
  }
  return left.empty() ? std::string{} : "too many axes are left alone that do not follow each other in memory";
}

bool divides(int count, std::initializer_list<std::int64_t> lengths) {
  return std::ranges::all_of(lengths, [count](std::int64_t length) { return length % count == 0; });
}

std::optional<ResampleViews> views_of(const Bindings& bindings, const Roles& roles, DType dtype, Together moved) {
  const Roles& r = roles;
  const ResampleViews views{.dy = {bindings.inputs[0], r.batch.dy, r.channel.dy, r.depth.dy, r.rows.dy, r.columns.dy},
                            .dx = {bindings.outputs[0], r.batch.dx, r.channel.dx, r.depth.dx, r.rows.dx, r.columns.dx}};
  const auto begins = [&](const void* data, int count) {
    return is_aligned(data, static_cast<std::size_t>(count) * size_of(dtype));
  };
  if (!begins(views.dy.data, moved.in) || !begins(views.dx.data, moved.out)) return std::nullopt;
  return views;
}

std::optional<ResampleTables> tables_of(const ResampleGradPlan& plan, const RoleAxis& axis) {
  const auto inputs = static_cast<std::int32_t>(axis.inputs), outputs = static_cast<std::int32_t>(axis.outputs);
  if (axis.of >= 0 && !plan.axes[axis.of].left_alone) {
    const AxisTable& table = plan.axes[axis.of];
    return make_tables(inputs, outputs, table.begin.data(), table.index.data(), table.weight.data());
  }
  std::vector<std::int64_t> same(static_cast<std::size_t>(inputs) + 1);
  std::iota(same.begin(), same.end(), 0);
  const std::vector<double> ones(same.size(), 1.0);
  return make_tables(inputs, outputs, same.data(), same.data(), ones.data());
}

}  // namespace bp::cuda

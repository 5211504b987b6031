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
      if (outer.to_stride == axis.to_stride * axis.to && outer.from_stride == axis.from_stride * axis.to) {
        const std::int64_t count = outer.to * axis.to;
        outer = axis;
        outer.to = outer.from = count;
        continue;
      }
    }
    result.push_back(axis);
  }
  return result;
}

}  // namespace

std::string assign_roles(const Resampling& resampling, Roles& roles) {
  const Tensor &to = resampling.to, &from = resampling.from;
  std::vector<RoleAxis> resampled, left;
  for (int i = 0; i < to.rank; ++i) {
    const RoleAxis axis{i, to.sizes[i], from.sizes[i], to.strides[i], from.strides[i]};
    if (!resampling.axes[i].left_alone) {
      resampled.push_back(axis);
    } else if (axis.to > 1) {
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
  if (resampled.size() == 1 && !left.empty() && left.back().to <= kMostRows) {
    roles.rows = left.back();
    left.pop_back();
  }
  if (roles.planar && !roles.columns.contiguous())
    return "the last resampled axis is not contiguous, nor one that is left alone";
  if (!roles.planar && roles.columns.from > 1 && roles.columns.from_stride != roles.channel.from)
    return "there are gaps between the pixels that are read";
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
  const auto view = [&]<class Data>(Data* data, std::int64_t RoleAxis::*stride) {
    return ResampleView<Data>{data,           r.batch.*stride,  r.channel.*stride, r.depth.*stride,
                              r.rows.*stride, r.columns.*stride};
  };
  const ResampleViews views{.from = view(bindings.inputs[0], &RoleAxis::from_stride),
                            .to = view(bindings.outputs[0], &RoleAxis::to_stride)};
  const auto begins = [&](const void* data, int count) {
    return is_aligned(data, static_cast<std::size_t>(count) * size_of(dtype));
  };
  if (!begins(views.from.data, moved.in) || !begins(views.to.data, moved.out)) return std::nullopt;
  return views;
}

std::optional<ResampleTables> tables_of(const ResampleGradPlan& plan, const RoleAxis& axis) {
  const auto inputs = static_cast<std::int32_t>(axis.to), outputs = static_cast<std::int32_t>(axis.from);
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

// SPDX-License-Identifier: Apache-2.0
// Resample in strides that it would walk slowly: on packed copies, of a slab at a time where there are planes enough. A
// copy is read several times, once for every sum that a row is in; the strides themselves would be walked as often.
#include "ops/slice/cpu_packed.h"

#include "backends/cpu/parallel.h"
#include "backends/cpu/slabs.h"
#include "ops/resample/resample.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace bp::cpu {

namespace {

// What both directions have: the input, the output, how to make a kernel of their own, and what that does well.
struct Forward {
  using Plan = ResamplePlan;
  static Tensor& in(Plan& plan) { return plan.x; }
  static Tensor& out(Plan& plan) { return plan.y; }
  static constexpr auto kRefuse = refuse_resample;
  static constexpr auto kMake = make_resample_rows;
  // A row of x is read once, and one of y written once: those backwards and every second element will do.
  static constexpr std::int64_t kFarthestColumns = 2;
  static constexpr bool kWantsPlanes = false;
};
struct Gradient {
  using Plan = ResampleGradPlan;
  static Tensor& in(Plan& plan) { return plan.dy; }
  static Tensor& out(Plan& plan) { return plan.dx; }
  static constexpr auto kRefuse = refuse_resample_grad;
  static constexpr auto kMake = make_resample_grad_rows;
  // Rows of dy are read several times, several side by side: even gaps between them cost more than a copy in the cache.
  static constexpr std::int64_t kFarthestColumns = 0;
  static constexpr bool kWantsPlanes = true;
};

// The order in which tensors are packed: first axes that are left alone, then those that are resampled, then what the
// larger tensor has inside of them.
struct Order {
  std::vector<int> axes;
  int outer = 0;    // so many come before the resampled ones
  int columns = 0;  // the place of the last resampled one

  Order(const Tensor& larger, std::span<const AxisTable> tables) {
    const auto stride = [&](int axis) { return std::abs(larger.strides[axis]); };
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::vector<int> alone, resampled;
    for (int i = 0; i < larger.rank; ++i) {
      const bool is_alone = tables[static_cast<std::size_t>(i)].left_alone;
      (is_alone ? alone : resampled).push_back(i);
      if (!is_alone && larger.sizes[i] > 1) least = std::min(least, stride(i));
    }
    std::ranges::stable_sort(alone, [&](int a, int b) { return stride(a) > stride(b); });
    const auto is_inside = [&](int axis) { return larger.sizes[axis] > 1 && stride(axis) < least; };
    for (const int axis : alone) {
      if (!is_inside(axis)) axes.push_back(axis);
    }
    outer = static_cast<int>(axes.size());
    axes.insert(axes.end(), resampled.begin(), resampled.end());
    columns = static_cast<int>(axes.size()) - 1;
    for (const int axis : alone) {
      if (is_inside(axis)) axes.push_back(axis);
    }
  }

  // Whether the axes from place `first` on are packed already.
  [[nodiscard]] bool is_packed_from(int first, const Tensor& t) const {
    const Tensor packed = packed_in_order(t, axes);
    return std::all_of(axes.begin() + first, axes.end(),
                       [&](int axis) { return t.sizes[axis] == 1 || t.strides[axis] == packed.strides[axis]; });
  }
  // Whether columns are single elements that lie no farther apart.
  [[nodiscard]] bool has_columns_within(std::int64_t farthest, const Tensor& t) const {
    return axes.size() == static_cast<std::size_t>(columns) + 1 && std::abs(t.strides[axes.back()]) <= farthest;
  }
};

template <class Way>
Order order_of(typename Way::Plan plan) {
  const Tensor &in = Way::in(plan), &out = Way::out(plan);
  return {in.count() > out.count() ? in : out, plan.axes};
}

template <class Way>
Slabs slabs_of(typename Way::Plan plan, const Order& order) {
  const std::array<const Tensor*, 2> tensors{&Way::in(plan), &Way::out(plan)};
  return {std::span(order.axes).first(static_cast<std::size_t>(order.outer)), tensors};
}

// Makes those tensors packed ones that are read or written slowly as they are. `in_cache`: the copies will be there.
template <class Way>
std::vector<PackedCopy> pack(typename Way::Plan& plan, const Order& order, bool in_cache) {
  std::vector<PackedCopy> copies;
  const auto pack_one = [&](Tensor& t, bool is_output) {
    if (order.has_columns_within(Way::kFarthestColumns, t)) return;
    if (order.is_packed_from(Way::kWantsPlanes && in_cache ? order.outer : order.columns, t)) return;
    const Tensor packed = packed_in_order(t, order.axes);
    copies.push_back({is_output, 0, t, packed});
    t = packed;
  };
  pack_one(Way::in(plan), false);
  pack_one(Way::out(plan), true);
  return copies;
}

template <class Way>
std::string refuse(typename Way::Plan plan) {
  if (!is_copied_as_it_is(Way::in(plan)) || !is_copied_as_it_is(Way::out(plan))) return kNotCopiedAsItIs;
  const auto first = plan.axes.begin(), end = first + Way::in(plan).rank;
  if (std::all_of(first, end, [](const AxisTable& axis) { return axis.left_alone; })) return "nothing is resampled";
  const Order order = order_of<Way>(plan);
  const Slabs slabs = slabs_of<Way>(plan, order);
  if (pack<Way>(plan, order, slabs.are_small() && slabs.are_many(1)).empty())
    return "simd reads the tensors as they are";
  return Way::kRefuse(plan);
}

template <class Way>
std::unique_ptr<Kernel> make(const typename Way::Plan& plan, const Settings& settings) {
  auto whole = plan;
  const Tensor &in = Way::in(whole), &out = Way::out(whole);
  const Order order = order_of<Way>(plan);
  const bool past_cache = is_past_cache(stored_bytes({&in, &out}));
  const Slabs slabs = slabs_of<Way>(plan, order);
  const bool in_slabs = slabs.are_many(Team(settings).width());
  const auto make_part = [&](typename Way::Plan part, const Settings& with) {
    const std::vector<PackedCopy> copies = pack<Way>(part, order, in_slabs && slabs.are_small());
    const bool writes_copy = !copies.empty() && copies.back().is_output;
    auto shared = std::make_shared<typename Way::Plan>(std::move(part));
    return make_packed(Way::kMake(std::move(shared), with, past_cache && !writes_copy), copies, with, past_cache);
  };
  if (!in_slabs) return make_part(plan, settings);
  return make_in_slabs(slabs, {in}, {out}, settings, [&](std::int64_t positions, const Settings& with) {
    typename Way::Plan part = plan;
    Way::in(part) = slabs.cut(in, positions);
    Way::out(part) = slabs.cut(out, positions);
    return make_part(std::move(part), with);
  });
}

}  // namespace

std::string refuse_resample_packed(const ResamplePlan& plan) { return refuse<Forward>(plan); }
std::string refuse_resample_grad_packed(const ResampleGradPlan& plan) { return refuse<Gradient>(plan); }

std::unique_ptr<Kernel> make_resample_packed(std::shared_ptr<const ResamplePlan> plan, const Settings& settings) {
  return make<Forward>(*plan, settings);
}
std::unique_ptr<Kernel> make_resample_grad_packed(std::shared_ptr<const ResampleGradPlan> plan,
                                                  const Settings& settings) {
  return make<Gradient>(*plan, settings);
}

}  // namespace bp::cpu

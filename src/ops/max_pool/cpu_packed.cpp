// SPDX-License-Identifier: Apache-2.0
// Max pooling in strides that tiles cannot read, or write slowly: on packed copies, of a slab at a time where there are
// planes enough. The copies and tiles together are faster than what can be done on the strides themselves.
#include "ops/slice/cpu_packed.h"

#include "backends/cpu/parallel.h"
#include "backends/cpu/slabs.h"
#include "ops/max_pool/cpu_tiles.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace bp::cpu {

namespace {

// A tensor that a plan's kernels read or write, and its place among their inputs or outputs.
struct Bound {
  Tensor* tensor;
  bool is_output;
  std::size_t slot;
};
std::vector<Bound> tensors_of(MaxPoolGradPlan& plan) {
  return {plan.recomputes() ? Bound{&plan.x, false, 0} : Bound{&plan.winners.tensor, false, 2},
          {&plan.dy, false, 1},
          {&plan.dx, true, 0}};
}
std::vector<Bound> tensors_of(MaxPoolPlan& plan) {
  std::vector<Bound> tensors{{&plan.x, false, 0}, {&plan.y, true, 0}};
  if (plan.winners.kind != WinnersKind::none) tensors.push_back({&plan.winners.tensor, true, 1});
  return tensors;
}
const Tensor& largest_of(const MaxPoolGradPlan& plan) { return plan.dx; }
const Tensor& largest_of(const MaxPoolPlan& plan) { return plan.x; }
// Rows with gaps between them are written more slowly than they are copied in the cache; to read them costs nothing.
bool wants_planes(const MaxPoolGradPlan& /*plan*/) { return true; }
bool wants_planes(const MaxPoolPlan& /*plan*/) { return false; }

// The order in which tensors are packed, the largest one's, and the slabs of that order.
struct Order {
  std::array<int, 5> axes{0, 1, 2, 3, 4};
  Slabs slabs;
  bool has_slabs;
  bool wants_planes;  // of slabs

  template <class Plan>
  explicit Order(Plan plan)
      : axes(order_of(largest_of(plan))),
        slabs(make_slabs(plan)),
        wants_planes(slabs.are_small() && cpu::wants_planes(plan)) {
    // A flat winner counts the elements of all of x; and channels that lie side by side are not to be parted.
    has_slabs = slabs.are_many(1) && plan.winners.kind != WinnersKind::flat;
    for (const Bound& bound : tensors_of(plan)) {
      if (axes.back() != 1 && has_channels_innermost(*bound.tensor)) has_slabs = false;
    }
  }

  // Whether tiles reads the tensor as it is.
  [[nodiscard]] bool suits(const Tensor& t, bool in_slabs) const {
    const Tensor packed = packed_in_order(t, axes);
    const auto agrees = [&](int axis) { return t.sizes[axis] == 1 || t.strides[axis] == packed.strides[axis]; };
    const bool rows_follow = !(in_slabs && wants_planes) || (agrees(2) && agrees(3));
    return agrees(4) && agrees(axes.back()) && rows_follow;
  }

 private:
  static bool has_channels_innermost(const Tensor& t) { return t.sizes[1] > 1 && t.strides[1] == 1; }
  static std::array<int, 5> order_of(const Tensor& largest) {
    return has_channels_innermost(largest) ? std::array{0, 2, 3, 4, 1} : std::array{0, 1, 2, 3, 4};
  }
  template <class Plan>
  [[nodiscard]] Slabs make_slabs(Plan& plan) const {
    const int cut = axes.back() == 1 ? 1 : 2;  // channels that are innermost stay together
    std::vector<const Tensor*> tensors;
    for (const Bound& bound : tensors_of(plan)) tensors.push_back(bound.tensor);
    return {std::span(axes).first(static_cast<std::size_t>(cut)), tensors};
  }
};

// Makes those tensors packed ones that do not suit tiles.
template <class Plan>
std::vector<PackedCopy> pack(Plan& plan, const Order& order, bool in_slabs) {
  std::vector<PackedCopy> copies;
  for (const Bound& bound : tensors_of(plan)) {
    if (order.suits(*bound.tensor, in_slabs)) continue;
    const Tensor packed = packed_in_order(*bound.tensor, order.axes);
    copies.push_back({bound.is_output, bound.slot, *bound.tensor, packed});
    *bound.tensor = packed;
  }
  return copies;
}

template <class Plan>
std::string refuse(Plan plan) {
  for (const Bound& bound : tensors_of(plan)) {
    if (!is_copied_as_it_is(*bound.tensor)) return kNotCopiedAsItIs;
  }
  const Order order(plan);
  if (pack(plan, order, order.has_slabs).empty()) return "tiles reads the tensors as they are";
  return refuse_tiles(plan);
}

std::unique_ptr<Kernel> make_best(const MaxPoolPlan& plan, const Settings& settings, bool past_cache) {
  return make_max_pool_tiles(std::make_shared<MaxPoolPlan>(plan), settings, past_cache);
}
std::unique_ptr<Kernel> make_best(const MaxPoolGradPlan& plan, const Settings& settings, bool past_cache) {
  const auto shared = std::make_shared<MaxPoolGradPlan>(plan);
  if (refuse_turned(plan).empty()) return make_max_pool_grad_turned(shared, settings, past_cache);
  return make_max_pool_grad_tiles(shared, settings, past_cache);
}

template <class Plan>
std::unique_ptr<Kernel> make(std::shared_ptr<const Plan> plan, const Settings& settings) {
  const Order order(*plan);
  const bool in_slabs = order.has_slabs && order.slabs.are_many(Team(settings).width());
  std::vector<Tensor> inputs(3), outputs(2);
  Plan whole = *plan;
  for (const Bound& bound : tensors_of(whole)) {
    (bound.is_output ? outputs : inputs)[bound.slot] = *bound.tensor;
  }
  const bool past_cache = is_past_cache(plan->bytes());
  const auto make_part = [&](Plan part, const Settings& with) {
    const std::vector<PackedCopy> copies = pack(part, order, in_slabs);
    const bool writes_copy = std::ranges::any_of(copies, [](const PackedCopy& copy) { return copy.is_output; });
    const bool streams = past_cache && (!in_slabs || !writes_copy);
    return make_packed(make_best(part, with, streams), copies, with, past_cache);
  };
  if (!in_slabs) return make_part(*plan, settings);
  const auto make_slab = [&](std::int64_t positions, const Settings& with) {
    Plan part = *plan;
    for (const Bound& bound : tensors_of(part)) *bound.tensor = order.slabs.cut(*bound.tensor, positions);
    part.geometry.batch = largest_of(part).sizes[0];
    part.geometry.channels = largest_of(part).sizes[1];
    return make_part(std::move(part), with);
  };
  ReportSlabs report;
  if constexpr (std::is_same_v<Plan, MaxPoolGradPlan>) {
    report = [plan](const Bindings& bindings) { reference::report_wrong_winners(*plan, bindings); };
  }
  return make_in_slabs(order.slabs, std::move(inputs), std::move(outputs), settings, make_slab, std::move(report));
}

}  // namespace

std::string refuse_packed(const MaxPoolGradPlan& plan) { return refuse(plan); }
std::string refuse_packed(const MaxPoolPlan& plan) { return refuse(plan); }

std::unique_ptr<Kernel> make_max_pool_grad_packed(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                  const Settings& settings) {
  return make(std::move(plan), settings);
}
std::unique_ptr<Kernel> make_max_pool_packed(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings) {
  return make(std::move(plan), settings);
}

}  // namespace bp::cpu

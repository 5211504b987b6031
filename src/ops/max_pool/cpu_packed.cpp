// SPDX-License-Identifier: Apache-2.0
// Max pooling in strides that tiles cannot read, but could if the tensors were packed: on packed copies. The copies and
// tiles together are faster than what can be done on the strides themselves.
#include "ops/slice/cpu_packed.h"

#include "ops/max_pool/max_pool.h"

#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace bp::cpu {

namespace {

constexpr std::array<int, 5> kChannelsFirst{0, 1, 2, 3, 4};
constexpr std::array<int, 5> kChannelsLast{0, 2, 3, 4, 1};

// Makes `t` one that tiles read, packed in the order of the largest tensor, unless it is one already.
void pack(Tensor& t, const Tensor& largest, bool is_output, std::size_t slot, std::vector<PackedCopy>& copies) {
  const bool channels_last = largest.sizes[1] > 1 && largest.strides[1] == 1;
  const Tensor packed = packed_in_order(t, channels_last ? kChannelsLast : kChannelsFirst);
  const int columns = 4, inner = channels_last ? 1 : 4;
  const auto agrees = [&](int axis) { return t.sizes[axis] == 1 || t.strides[axis] == packed.strides[axis]; };
  if (agrees(columns) && agrees(inner)) return;
  copies.push_back({is_output, slot, t, packed});
  t = packed;
}

// The tensors of a plan in the order of its kernels' slots, packed where that is needed.
std::vector<PackedCopy> pack(MaxPoolGradPlan& plan) {
  std::vector<PackedCopy> copies;
  const Tensor largest = plan.dx;
  const bool recomputes = plan.winners.kind == WinnersKind::none;
  if (recomputes) pack(plan.x, largest, false, 0, copies);
  pack(plan.dy, largest, false, 1, copies);
  if (!recomputes) pack(plan.winners.tensor, largest, false, 2, copies);
  pack(plan.dx, largest, true, 0, copies);
  return copies;
}
std::vector<PackedCopy> pack(MaxPoolPlan& plan) {
  std::vector<PackedCopy> copies;
  const Tensor largest = plan.x;
  pack(plan.x, largest, false, 0, copies);
  pack(plan.y, largest, true, 0, copies);
  if (plan.winners.kind != WinnersKind::none) pack(plan.winners.tensor, largest, true, 1, copies);
  return copies;
}

template <class Plan>
std::string refuse(Plan plan, std::initializer_list<const Tensor*> tensors) {
  if (refuse_tiles(plan).empty()) return "tiles reads the tensors as they are";
  for (const Tensor* tensor : tensors) {
    if (!is_copied_as_it_is(*tensor)) return kNotCopiedAsItIs;
  }
  pack(plan);
  return refuse_tiles(plan);
}

}  // namespace

std::string refuse_packed(const MaxPoolGradPlan& plan) {
  const bool recomputes = plan.winners.kind == WinnersKind::none;
  return refuse(plan, {&plan.dx, &plan.dy, recomputes ? &plan.x : &plan.winners.tensor});
}
std::string refuse_packed(const MaxPoolPlan& plan) {
  const bool stores = plan.winners.kind != WinnersKind::none;
  return refuse(plan, {&plan.x, &plan.y, stores ? &plan.winners.tensor : &plan.y});
}

std::unique_ptr<Kernel> make_max_pool_grad_packed(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                  const Settings& settings) {
  auto packed = std::make_shared<MaxPoolGradPlan>(*plan);
  const std::vector<PackedCopy> copies = pack(*packed);
  const auto make = refuse_turned(*packed).empty() ? make_max_pool_grad_turned : make_max_pool_grad_tiles;
  return make_packed(make(std::move(packed), settings), copies, settings);
}

std::unique_ptr<Kernel> make_max_pool_packed(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings) {
  auto packed = std::make_shared<MaxPoolPlan>(*plan);
  const std::vector<PackedCopy> copies = pack(*packed);
  return make_packed(make_max_pool_tiles(std::move(packed), settings), copies, settings);
}

}  // namespace bp::cpu

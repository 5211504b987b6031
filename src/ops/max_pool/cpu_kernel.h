// SPDX-License-Identifier: Apache-2.0
// What every implementation of max pooling on the CPU is for its caller: items of work, cut for a team's threads.
#pragma once

#include "backends/cpu/scratch.h"
#include "ops/max_pool/max_pool.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace bp::cpu {

// What is to be done around an item of tiles, for a caller that brings their rows and takes their results.
class AroundItems {
 public:
  virtual ~AroundItems() = default;
  virtual void before(std::int64_t windows_end) = 0;  // rows of windows up to this one are read now
  virtual void after(std::int64_t end_row) = 0;       // rows of dx up to this one are written
};

// One part of a run: items [first, last) with a slot's scratch memory. `wrong` is set when a stored winner is no tap of
// its window; then dx may be wrong too, unless such winners were expected.
template <class Setup>
struct PoolPart {
  const Setup* setup;
  const Bindings* bindings = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::byte* scratch = nullptr;
  bool* wrong = nullptr;
  bool expects_wrong = false;
  AroundItems* around = nullptr;
};

// A setup says how many items() it has, and how many `bytes` they move in all.
template <class Plan, class Setup>
class PoolKernel final : public Kernel {
 public:
  // Runs a part. Without a scratch address nothing is run, and the bytes that a slot needs are returned.
  using RunPart = std::size_t (*)(const PoolPart<Setup>&);

  PoolKernel(std::shared_ptr<const Plan> plan, const Settings& settings, Setup setup, RunPart run_part)
      : plan_(std::move(plan)), team_(settings), setup_(std::move(setup)), run_part_(run_part) {
    if (setup_.items() > 0) slot_bytes_ = run_part_({.setup = &setup_});
  }

  [[nodiscard]] std::size_t workspace_bytes() const override { return team_workspace(team_, slot_bytes_); }

  void run(const Bindings& bindings) const override {
    if (setup_.items() == 0) return;
    [[maybe_unused]] const bool wrong = run(bindings, false);
    if constexpr (std::is_same_v<Plan, MaxPoolGradPlan>) {
      if (wrong) (void)run(bindings, true);
      if (wrong || setup_.has_unread_winners()) reference::report_wrong_winners(*plan_, bindings);
    }
  }

 private:
  // Returns whether a stored winner is wrong.
  [[nodiscard]] bool run(const Bindings& bindings, bool expects_wrong) const {
    const TeamScratch scratch(bindings.workspace, slot_bytes_);
    std::atomic<bool> wrong{false};
    team_.run_items(setup_.items(), setup_.bytes, [&](std::int64_t first, std::int64_t last, int slot) {
      bool wrong_here = false;
      run_part_({&setup_, &bindings, first, last, scratch.slot(slot), &wrong_here, expects_wrong});
      if (wrong_here) wrong = true;
    });
    return wrong;
  }

  std::shared_ptr<const Plan> plan_;
  Team team_;
  Setup setup_;
  RunPart run_part_;
  std::size_t slot_bytes_ = 0;
};

template <class Plan, class Setup>
std::unique_ptr<Kernel> make_pool_kernel(std::shared_ptr<const Plan> plan, const Settings& settings, Setup setup,
                                         typename PoolKernel<Plan, Setup>::RunPart run_part) {
  return std::make_unique<PoolKernel<Plan, Setup>>(std::move(plan), settings, std::move(setup), run_part);
}

}  // namespace bp::cpu

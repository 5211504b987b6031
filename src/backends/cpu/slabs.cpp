// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/slabs.h"

#include "backends/cpu/parallel.h"
#include "backends/cpu/scratch.h"
#include "core/status.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <ranges>
#include <utility>

namespace bp::cpu {

Slabs::Slabs(std::span<const int> axes, std::span<const Tensor* const> tensors) {
  const auto most = static_cast<double>(4 * least_part());
  double bytes = 0;
  for (const Tensor* t : tensors) bytes += static_cast<double>(t->count()) * static_cast<double>(size_of(t->dtype));
  sizes_ = tensors.front()->sizes;
  for (const int axis : axes) {
    if (bytes <= most) break;
    if (sizes_[axis] == 1) continue;
    if (axis_ >= 0) walked_.push_back(axis_);
    axis_ = axis;
    size_ = sizes_[axis];
    bytes /= static_cast<double>(size_);
    piece_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(most / bytes), 1, size_);
  }
  are_small_ = bytes <= most;
}

std::int64_t Slabs::count() const {
  std::int64_t n = pieces();
  for (const int axis : walked_) n *= sizes_[axis];
  return n;
}

Tensor Slabs::cut(const Tensor& t, std::int64_t positions) const {
  Tensor part = t;
  const auto set = [&](int axis, std::int64_t size) {
    part.sizes[axis] = size;
    if (size == 1) part.strides[axis] = 0;
  };
  for (const int axis : walked_) set(axis, 1);
  if (axis_ >= 0) set(axis_, positions);
  return part;
}

std::int64_t Slabs::offset(const Tensor& t, std::int64_t slab) const {
  if (axis_ < 0) return 0;
  std::int64_t at = slab % pieces() * piece_ * t.strides[axis_];
  slab /= pieces();
  for (const int axis : std::views::reverse(walked_)) {
    at += slab % sizes_[axis] * t.strides[axis];
    slab /= sizes_[axis];
  }
  return at;
}

namespace {

class SlabKernel final : public Kernel {
 public:
  SlabKernel(Slabs slabs, std::vector<Tensor> inputs, std::vector<Tensor> outputs, const Settings& settings,
             const MakeSlab& make, ReportSlabs report)
      : team_(settings),
        slabs_(std::move(slabs)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        report_(std::move(report)) {
    const Settings alone{.threads = 1};
    whole_ = make(slabs_.piece(), alone);
    if (slabs_.last_piece() != slabs_.piece()) last_ = make(slabs_.last_piece(), alone);
    const std::size_t most = std::max(whole_->workspace_bytes(), last_ ? last_->workspace_bytes() : 0);
    slot_bytes_ = (most + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
    for (const Tensor& t : inputs_) bytes_ += stored_bytes({&t});
    for (const Tensor& t : outputs_) bytes_ += stored_bytes({&t});
  }

  [[nodiscard]] std::size_t workspace_bytes() const override { return team_workspace(team_, slot_bytes_); }

  void run(const Bindings& bindings) const override {
    const TeamScratch scratch(bindings.workspace, slot_bytes_);
    std::atomic<bool> failed{false};
    team_.run_items(slabs_.count(), bytes_, [&](std::int64_t first, std::int64_t last, int slot) {
      std::array<const void*, kMostTensors> in{};
      std::array<void*, kMostTensors> out{};
      const auto moved = [](auto* base, const Tensor& t, std::int64_t elements) {
        return base + elements * static_cast<std::int64_t>(size_of(t.dtype));
      };
      for (std::int64_t slab = first; slab < last; ++slab) {
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
          in[i] = moved(bindings.input<std::byte>(i), inputs_[i], slabs_.offset(inputs_[i], slab));
        }
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
          out[i] = moved(bindings.output<std::byte>(i), outputs_[i], slabs_.offset(outputs_[i], slab));
        }
        const Kernel& kernel = last_ && slabs_.ends_axis(slab) ? *last_ : *whole_;
        try {
          kernel.run({.inputs = {in.data(), inputs_.size()},
                      .outputs = {out.data(), outputs_.size()},
                      .workspace = scratch.slot(slot)});
        } catch (const Failure&) {
          failed = true;
        }
      }
    });
    if (failed) report_(bindings);
  }

 private:
  Team team_;
  Slabs slabs_;
  std::vector<Tensor> inputs_, outputs_;
  ReportSlabs report_;
  std::unique_ptr<Kernel> whole_, last_;  // of a slab, and of one with the last piece, where that is smaller
  std::size_t slot_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_in_slabs(Slabs slabs, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                                      const Settings& settings, const MakeSlab& make, ReportSlabs report) {
  return std::make_unique<SlabKernel>(std::move(slabs), std::move(inputs), std::move(outputs), settings, make,
                                      std::move(report));
}

}  // namespace bp::cpu

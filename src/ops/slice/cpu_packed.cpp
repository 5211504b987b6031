// SPDX-License-Identifier: Apache-2.0
#include "ops/slice/cpu_packed.h"

#include "backends/cpu/scratch.h"
#include "ops/slice/slice.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <ranges>
#include <utility>

namespace bp::cpu {

namespace {

class PackedKernel final : public Kernel {
 public:
  PackedKernel(std::unique_ptr<Kernel> kernel, std::span<const PackedCopy> copies, const Settings& settings,
               bool past_cache)
      : kernel_(std::move(kernel)) {
    for (const PackedCopy& c : copies) {
      copies_.push_back({c.is_output, c.slot, layout_.reserve(c.packed.count(), size_of(c.packed.dtype)),
                         c.is_output ? make_copy(c.packed, c.there, settings, past_cache)
                                     : make_copy(c.there, c.packed, settings, false)});
    }
  }

  [[nodiscard]] std::size_t workspace_bytes() const override {
    return layout_.bytes() + kernel_->workspace_bytes() + kScratchAlign;
  }

  void run(const Bindings& bindings) const override {
    const TeamScratch scratch(bindings.workspace, layout_.bytes());
    std::array<const void*, kMostTensors> inputs{};
    std::array<void*, kMostTensors> outputs{};
    std::copy(bindings.inputs.begin(), bindings.inputs.end(), inputs.begin());
    std::copy(bindings.outputs.begin(), bindings.outputs.end(), outputs.begin());
    for (const Copy& c : copies_) {
      void* packed = scratch.slot(0) + c.offset;
      if (c.is_output) {
        outputs[c.slot] = packed;
      } else {
        move(*c.kernel, inputs[c.slot], packed);
        inputs[c.slot] = packed;
      }
    }
    // A run that reports wrong winners has written its outputs nevertheless.
    std::exception_ptr report;
    try {
      kernel_->run({.inputs = {inputs.data(), bindings.inputs.size()},
                    .outputs = {outputs.data(), bindings.outputs.size()},
                    .workspace = scratch.slot(1)});
    } catch (...) {
      report = std::current_exception();
    }
    for (const Copy& c : copies_) {
      if (c.is_output) move(*c.kernel, outputs[c.slot], bindings.outputs[c.slot]);
    }
    if (report) std::rethrow_exception(report);
  }

 private:
  struct Copy {
    bool is_output;
    std::size_t slot, offset;
    std::unique_ptr<Kernel> kernel;
  };

  static void move(const Kernel& copy, const void* from, void* to) {
    copy.run({.inputs = {&from, 1}, .outputs = {&to, 1}});
  }

  std::unique_ptr<Kernel> kernel_;
  ScratchLayout layout_;
  std::vector<Copy> copies_;
};

}  // namespace

Tensor packed_in_order(const Tensor& t, std::span<const int> order) {
  Tensor packed = t;
  std::int64_t stride = 1;
  for (const int axis : std::views::reverse(order)) {
    packed.strides[axis] = stride;
    stride *= std::max<std::int64_t>(t.sizes[axis], 1);
  }
  return packed;
}

bool is_copied_as_it_is(const Tensor& t) {
  constexpr double kAbsurd = 1e15;
  double count = 1;
  for (int i = 0; i < t.rank; ++i) count *= static_cast<double>(t.sizes[i]);
  return count > 0 && count < kAbsurd && t.count() == t.stored_count();
}

std::unique_ptr<Kernel> make_packed(std::unique_ptr<Kernel> kernel, std::span<const PackedCopy> copies,
                                    const Settings& settings, bool past_cache) {
  return std::make_unique<PackedKernel>(std::move(kernel), copies, settings, past_cache);
}

}  // namespace bp::cpu

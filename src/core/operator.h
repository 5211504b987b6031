// SPDX-License-Identifier: Apache-2.0
// What all operators share: a plan made once from a desc, a list of implementations that each accept it or say why not,
// and a kernel that runs it. No operator is named here.
#pragma once

#include "core/status.h"
#include "core/tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bp {

// A tensor of an operator as run binds it; without a view it is an optional tensor that this operator does not use.
struct Slot {
  std::string_view name;
  std::optional<Tensor> tensor;
};

// What the host asked for at create.
struct Settings {
  int threads = 0;
  bp_parallel_for parallel_for = nullptr;
  void* parallel_for_context = nullptr;
  std::int32_t ordinal = 0;  // of the device
};

inline constexpr std::size_t kMostTensors = 4;  // that an operator reads, or writes

// The pointers of one run, already checked: every used slot has its pointer.
struct Bindings {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;
  void* stream = nullptr;

  template <class T>
  [[nodiscard]] const T* input(std::size_t slot) const {
    return static_cast<const T*>(inputs[slot]);
  }
  template <class T>
  [[nodiscard]] T* output(std::size_t slot) const {
    return static_cast<T*>(outputs[slot]);
  }
};

// A chosen implementation with all it prepared at create.
class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  [[nodiscard]] virtual std::size_t workspace_bytes() const { return 0; }
  virtual void run(const Bindings& bindings) const = 0;
  // What an asynchronous run left in its workspace to report.
  virtual void check(void* /*workspace*/, void* /*stream*/) const {}
};

template <class Plan>
struct Implementation {
  std::string_view name;
  // Why the plan is not for this implementation; empty when it is.
  std::string (*refuse)(const Plan&);
  std::unique_ptr<Kernel> (*make)(std::shared_ptr<const Plan>, const Settings&);
};

template <class Plan>
std::size_t no_workspace(const Plan&) {
  return 0;
}

// For implementations that prepare nothing: a function over the plan is the whole kernel.
template <class Plan, void (*kRun)(const Plan&, const Bindings&), std::size_t (*kWorkspace)(const Plan&) = no_workspace>
class PlainKernel final : public Kernel {
 public:
  explicit PlainKernel(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  [[nodiscard]] std::size_t workspace_bytes() const override { return kWorkspace(*plan_); }
  void run(const Bindings& bindings) const override { kRun(*plan_, bindings); }

  static std::unique_ptr<Kernel> make(std::shared_ptr<const Plan> plan, const Settings&) {
    return std::make_unique<PlainKernel>(std::move(plan));
  }

 private:
  std::shared_ptr<const Plan> plan_;
};

// The last entry of every list takes everything that validation accepts.
template <class Plan>
std::string accept_all(const Plan&) {
  return {};
}

// A plan in the words of the command line: "max-pool-grad --dtype f32 --x-shape 1,1,3,3 --window 2,2".
class ProblemText {
 public:
  explicit ProblemText(std::string_view op);
  ProblemText& add(std::string_view option, std::string_view value);
  ProblemText& add(std::string_view option, std::span<const std::int64_t> values);
  ProblemText& add(std::string_view option, std::span<const double> values);
  // --NAME-strides, unless packed.
  ProblemText& strides(std::string_view tensor, const Tensor& view);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct Refusal {
  std::string implementation;
  std::string reason;
};

// What a family's folder tells the rest of the library about a created operator.
struct Description {
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  bool in_place = false;    // an output may be the identical view of an input
  std::uint64_t bytes = 0;  // the fewest that must move
  std::string problem;
  std::vector<std::string> notes{};  // tables and other facts of the plan, a line each
};

}  // namespace bp

// The C ABI's handle.
struct bp_operator {
  std::string name;
  std::string implementation;
  std::vector<bp::Refusal> refusals;
  bp::Description description;
  std::size_t workspace_bytes = 0;
  std::unique_ptr<bp::Kernel> kernel;
};

namespace bp {

// The implementation names that the options and BACKPASS_IMPL leave; empty: all.
struct Choice {
  std::string forced;  // by bp_options
  std::string limit;   // by BACKPASS_IMPL, a comma list
  [[nodiscard]] bool allows(std::string_view name) const;
  [[noreturn]] void refuse(std::string_view op, std::string_view device, const std::vector<std::string>& available,
                           const std::vector<Refusal>& refusals) const;
};

std::string_view device_name(std::int32_t device_kind);

// Validates, plans, and takes the first implementation that accepts.
template <class Op>
std::unique_ptr<bp_operator> create(const typename Op::Desc& desc, bp_device device, const Settings& settings,
                                    const Choice& choice) {
  using Plan = typename Op::Plan;
  const auto plan = std::make_shared<const Plan>(Op::plan(desc));
  const std::span<const Implementation<Plan>> list = Op::implementations(device.kind);
  auto op = std::make_unique<bp_operator>();
  op->name = Op::kName;
  std::vector<std::string> available;
  for (const Implementation<Plan>& candidate : list) {
    available.emplace_back(candidate.name);
    if (!choice.allows(candidate.name)) continue;
    if (std::string reason = candidate.refuse(*plan); !reason.empty()) {
      op->refusals.push_back({std::string(candidate.name), std::move(reason)});
      continue;
    }
    op->implementation = candidate.name;
    op->kernel = candidate.make(plan, settings);
    // A multiple of malloc's alignment, so that malloc of that many bytes has it.
    constexpr std::size_t kUnit = alignof(std::max_align_t);
    op->workspace_bytes = (op->kernel->workspace_bytes() + kUnit - 1) / kUnit * kUnit;
    op->description = Op::describe(*plan);
    return op;
  }
  choice.refuse(Op::kName, device_name(device.kind), available, op->refusals);
}

// Everything run can refuse: counts, null and misaligned pointers, outputs that meet other tensors.
void check_bindings(const bp_operator& op, const Bindings& bindings);

}  // namespace bp

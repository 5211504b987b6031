// SPDX-License-Identifier: Apache-2.0
#include "core/operator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

namespace bp {

// ---- Problem text --------------------------------------------------------------------------------------

ProblemText::ProblemText(std::string_view op) : text_(op) { std::replace(text_.begin(), text_.end(), '_', '-'); }

ProblemText& ProblemText::add(std::string_view option, std::string_view value) {
  text_ += fmt::format(" {} {}", option, value);
  return *this;
}

ProblemText& ProblemText::add(std::string_view option, std::span<const std::int64_t> values) {
  return add(option, fmt::format("{}", fmt::join(values, ",")));
}

ProblemText& ProblemText::add(std::string_view option, std::span<const double> values) {
  return add(option, fmt::format("{}", fmt::join(values, ",")));
}

ProblemText& ProblemText::strides(std::string_view tensor, const Tensor& view) {
  if (view.is_packed()) return *this;
  return add(fmt::format("--{}-strides", tensor),
             std::span<const std::int64_t>(view.strides.data(), static_cast<std::size_t>(view.rank)));
}

// ---- Choice --------------------------------------------------------------------------------------------

namespace {

bool in_comma_list(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

}  // namespace

bool Choice::allows(std::string_view name) const {
  return (forced.empty() || forced == name) && (limit.empty() || in_comma_list(limit, name));
}

void Choice::refuse(std::string_view op, std::string_view device, const std::vector<std::string>& available,
                    const std::vector<Refusal>& refusals) const {
  if (available.empty()) unsupported("{}: device: this build has no implementation for {}", op, device);
  if (!refusals.empty()) {
    unsupported("{}: implementation: '{}' refused on {}: {}", op, refusals.back().implementation, device,
                refusals.back().reason);
  }
  const bool by_option = !forced.empty();
  if (by_option && std::find(available.begin(), available.end(), forced) != available.end()) {
    unsupported("{}: implementation: '{}' is forced, expected one that BACKPASS_IMPL ('{}') leaves", op, forced, limit);
  }
  unsupported("{}: implementation: '{}'{} is not among those for {}, expected one of {}", op,
              by_option ? forced : limit, by_option ? "" : " (BACKPASS_IMPL)", device, fmt::join(available, " "));
}

std::string_view device_name(std::int32_t device_kind) { return device_kind == BP_DEVICE_CPU ? "cpu" : "cuda"; }

// ---- Bindings ------------------------------------------------------------------------------------------

namespace {

void check_pointer(const bp_operator& op, const Slot& slot, const void* data) {
  if (!slot.tensor) {
    if (data != nullptr)
      invalid("{}: {}: a pointer is bound, expected null (the desc has no such tensor)", op.name, slot.name);
    return;
  }
  if (slot.tensor->empty()) return;
  if (data == nullptr)
    invalid("{}: {}: the pointer is null, expected {}", op.name, slot.name,
            counted(slot.tensor->count(), "element", "elements"));
  const std::size_t alignment = size_of(slot.tensor->dtype);
  const std::size_t excess = reinterpret_cast<std::uintptr_t>(data) % alignment;
  if (excess != 0) {
    invalid("{}: {}: the address is {} past a multiple of {}, expected alignment to the element", op.name, slot.name,
            counted(excess, "byte", "bytes"), alignment);
  }
}

void check_apart(const bp_operator& op, const Slot& output, const void* output_data, const Slot& other,
                 const void* other_data, bool other_is_input) {
  if (!output.tensor || !other.tensor) return;
  const bool identical = output_data == other_data && *output.tensor == *other.tensor;
  if (identical && other_is_input && op.description.in_place) return;
  switch (sharing(*output.tensor, output_data, *other.tensor, other_data)) {
    case Sharing::no:
      return;
    case Sharing::yes:
      invalid("{}: {}: shares memory with {}, expected {}", op.name, output.name, other.name,
              op.description.in_place && other_is_input ? "none, or the identical view" : "none");
    case Sharing::maybe:
      invalid(
          "{}: {}: could not be shown to be apart from {}, whose bytes lie in the same range, expected views that can",
          op.name, output.name, other.name);
  }
}

void check_workspace(const bp_operator& op, const Bindings& bindings) {
  if (op.workspace_bytes == 0) return;
  if (bindings.workspace == nullptr) {
    invalid("{}: workspace: the pointer is null, expected {} bytes", op.name, op.workspace_bytes);
  }
  const std::size_t excess = reinterpret_cast<std::uintptr_t>(bindings.workspace) % alignof(std::max_align_t);
  if (excess != 0) {
    invalid("{}: workspace: the address is {} past a multiple of {}, expected malloc's alignment", op.name,
            counted(excess, "byte", "bytes"), alignof(std::max_align_t));
  }
  const Tensor bytes{
      .dtype = DType::u8, .rank = 1, .sizes = {static_cast<std::int64_t>(op.workspace_bytes)}, .strides = {1}};
  const auto check = [&](const Slot& slot, const void* data) {
    if (slot.tensor && sharing(bytes, bindings.workspace, *slot.tensor, data) != Sharing::no) {
      invalid("{}: workspace: shares memory with {}, expected none", op.name, slot.name);
    }
  };
  for (std::size_t i = 0; i < bindings.inputs.size(); ++i) check(op.description.inputs[i], bindings.inputs[i]);
  for (std::size_t i = 0; i < bindings.outputs.size(); ++i) check(op.description.outputs[i], bindings.outputs[i]);
}

}  // namespace

void check_bindings(const bp_operator& op, const Bindings& bindings) {
  const std::vector<Slot>& inputs = op.description.inputs;
  const std::vector<Slot>& outputs = op.description.outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) check_pointer(op, inputs[i], bindings.inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) check_pointer(op, outputs[i], bindings.outputs[i]);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_apart(op, outputs[o], bindings.outputs[o], inputs[i], bindings.inputs[i], true);
    }
    for (std::size_t i = 0; i < o; ++i) {
      check_apart(op, outputs[o], bindings.outputs[o], outputs[i], bindings.outputs[i], false);
    }
  }
  check_workspace(op, bindings);
}

}  // namespace bp

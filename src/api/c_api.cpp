// SPDX-License-Identifier: Apache-2.0
// The C ABI. Everything is caught here; nothing but a status and a sentence leaves.
#include "api/guard.h"
#include "api/verbose.h"
#include "backends/cuda/device.h"
#include "core/cpu_features.h"
#include "core/float_mode.h"
#include "core/read_struct.h"
#include "ops/all.h"

#include <backpass/backpass.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace {

using bp::guarded;

void require_device(bp_device device) {
  if (device.kind == BP_DEVICE_CUDA) return bp::cuda::require_device(device.ordinal);
  if (device.kind != BP_DEVICE_CPU) {
    bp::invalid("device: kind is {}, expected 0 (cpu) or 1 (cuda)", device.kind);
  }
  if (device.ordinal != 0) bp::invalid("device: ordinal is {}, expected 0 (there is one cpu)", device.ordinal);
}

bp_options read_options(const bp_options* options) {
  if (options == nullptr) return {};
  const auto given = bp::read_struct<bp_options>("options", "bp_options", options);
  bp::require_reserved("options", "bp_options", given.reserved);
  if (given.threads < 0) bp::invalid("options: threads: is {}, expected 0 or more", given.threads);
  return given;
}

bp::Choice read_choice(const bp_options& options) {
  bp::Choice choice;
  if (options.implementation != nullptr) choice.forced = options.implementation;
  if (const char* limit = std::getenv("BACKPASS_IMPL"); limit != nullptr) choice.limit = limit;
  return choice;
}

// Bindings with every slot present: trailing absent tensors may be left out by the caller.
template <class Pointer>
class Pointers {
 public:
  Pointers(const bp_operator& op, const char* direction, const std::vector<bp::Slot>& slots, Pointer const* given,
           std::size_t count) {
    std::size_t least = slots.size();
    while (least > 0 && !slots[least - 1].tensor) --least;
    if (count < least || count > slots.size()) {
      const std::string expected =
          least == slots.size() ? std::to_string(least) : fmt::format("{} to {}", least, slots.size());
      bp::invalid("{}: {}: {} bound, expected {}", op.name, direction, count, expected);
    }
    if (count > 0 && given == nullptr)
      bp::invalid("{}: {}: the array is null, expected {}", op.name, direction,
                  bp::counted(count, "pointer", "pointers"));
    std::copy_n(given, count, pointers_.begin());
    count_ = slots.size();
  }
  [[nodiscard]] std::span<const Pointer> span() const { return {pointers_.data(), count_}; }

 private:
  static constexpr std::size_t kMostSlots = 4;
  std::array<Pointer, kMostSlots> pointers_{};
  std::size_t count_ = 0;
};

// Guarded, and said aloud where BACKPASS_VERBOSE asks for it.
template <class F>
bp_status told(const char* what, F&& f) noexcept {
  const bp_status status = guarded(std::forward<F>(f));
  if (status != BP_OK && bp::verbose::enabled()) {
    (void)guarded([&] { bp::verbose::failed(what, bp_last_error()); });
  }
  return status;
}

void require_operator(const bp_operator* op) {
  if (op == nullptr) bp::invalid("operator: the handle is null, expected one from bp_operator_create");
}

std::string explain(const bp_operator& op) {
  std::string text = fmt::format("problem: {}\nimplementation: {}\n", op.description.problem, op.implementation);
  for (const bp::Refusal& r : op.refusals) text += fmt::format("refused: {}: {}\n", r.implementation, r.reason);
  for (const std::string& note : op.description.notes) text += note + "\n";
  return text + fmt::format("bytes: {}\nworkspace: {}\n", op.description.bytes, op.workspace_bytes);
}

}  // namespace

extern "C" {

uint32_t bp_version(void) { return BP_VERSION_MAJOR * 10000 + BP_VERSION_MINOR * 100 + BP_VERSION_PATCH; }

const char* bp_last_error(void) { return bp::last_error(); }

const char* bp_status_name(int32_t status) {
  switch (status) {
    case BP_OK:
      return "ok";
    case BP_INVALID_ARGUMENT:
      return "invalid_argument";
    case BP_UNSUPPORTED:
      return "unsupported";
    case BP_OUT_OF_MEMORY:
      return "out_of_memory";
    case BP_BACKEND_ERROR:
      return "backend_error";
    case BP_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

bp_status bp_operator_create(int32_t kind, const void* desc, bp_device device, const bp_options* options,
                             bp_operator** op) {
  const bp::FloatMode float_mode;  // tables are part of the bits
  return told("create", [&] {
    if (op == nullptr) bp::invalid("operator: the address for the new handle is null, expected one");
    *op = nullptr;
    if (desc == nullptr) bp::invalid("operator: the desc is null, expected the struct of its kind");
    const auto start = bp::verbose::Clock::now();
    const bp_options given = read_options(options);
    const bp::Settings settings{given.threads, given.parallel_for, given.parallel_for_context, device.ordinal};
    const bp::Choice choice = read_choice(given);
    require_device(device);
    bp::instruction_sets();  // refuses a BACKPASS_MAX_ISA that names none
    std::unique_ptr<bp_operator> created;
    const bool known = bp::visit_operator(bp::AllOperators{}, kind, [&]<class Op>() {
      const auto described = bp::read_struct<typename Op::Desc>(Op::kName, "desc", desc);
      created = bp::create<Op>(described, device, settings, choice);
    });
    if (!known) {
      bp::invalid("operator: kind is {}, expected a bp_operator_kind (1 to {})", kind,
                  bp::count_of(bp::AllOperators{}));
    }
    if (bp::verbose::enabled()) bp::verbose::created(*created, bp::verbose::Clock::now() - start);
    *op = created.release();
  });
}

bp_status bp_operator_workspace_size(const bp_operator* op, size_t* bytes) {
  return guarded([&] {
    require_operator(op);
    if (bytes == nullptr) bp::invalid("{}: workspace: the address for its size is null, expected one", op->name);
    *bytes = op->workspace_bytes;
  });
}

bp_status bp_operator_bytes(const bp_operator* op, uint64_t* bytes) {
  return guarded([&] {
    require_operator(op);
    if (bytes == nullptr) bp::invalid("{}: bytes: the address for their number is null, expected one", op->name);
    *bytes = op->description.bytes;
  });
}

const char* bp_operator_name(const bp_operator* op) { return op == nullptr ? "" : op->name.c_str(); }

const char* bp_operator_implementation(const bp_operator* op) {
  return op == nullptr ? "" : op->implementation.c_str();
}

size_t bp_operator_refusal_count(const bp_operator* op) { return op == nullptr ? 0 : op->refusals.size(); }

bp_status bp_operator_refusal(const bp_operator* op, size_t index, const char** implementation, const char** reason) {
  return guarded([&] {
    require_operator(op);
    if (index >= op->refusals.size()) {
      bp::invalid("{}: refusal: index is {}, expected below {} (the count of refusals)", op->name, index,
                  op->refusals.size());
    }
    if (implementation != nullptr) *implementation = op->refusals[index].implementation.c_str();
    if (reason != nullptr) *reason = op->refusals[index].reason.c_str();
  });
}

bp_status bp_operator_explain(const bp_operator* op, char* text, size_t capacity, size_t* length) {
  return guarded([&] {
    require_operator(op);
    if (text == nullptr && capacity > 0)
      bp::invalid("{}: explain: the text is null, expected {}", op->name, bp::counted(capacity, "byte", "bytes"));
    const std::string full = explain(*op);
    if (length != nullptr) *length = full.size();
    if (capacity == 0) return;
    const std::size_t written = std::min(full.size(), capacity - 1);
    std::memcpy(text, full.data(), written);
    text[written] = '\0';
  });
}

bp_status bp_operator_run(const bp_operator* op, const void* const* inputs, size_t input_count, void* const* outputs,
                          size_t output_count, void* workspace, void* stream) {
  const bp::FloatMode float_mode;
  return told("run", [&] {
    require_operator(op);
    const bool timed = bp::verbose::enabled();
    const auto start = timed ? bp::verbose::Clock::now() : bp::verbose::Clock::time_point();
    const Pointers<const void*> in(*op, "inputs", op->description.inputs, inputs, input_count);
    const Pointers<void*> out(*op, "outputs", op->description.outputs, outputs, output_count);
    const bp::Bindings bindings{in.span(), out.span(), workspace, stream};
    bp::check_bindings(*op, bindings);
    op->kernel->run(bindings);
    if (timed) bp::verbose::ran(*op, bp::verbose::Clock::now() - start);
  });
}

bp_status bp_operator_check(const bp_operator* op, void* workspace, void* stream) {
  return guarded([&] {
    require_operator(op);
    op->kernel->check(workspace, stream);
  });
}

void bp_operator_destroy(bp_operator* op) { delete op; }

int32_t bp_is_supported(int32_t kind, int32_t device_kind, int32_t dtype) {
  if (!bp::is_dtype(dtype)) return 0;
  bool supported = false;
  bp::visit_operator(bp::AllOperators{}, kind, [&]<class Op>() {
    supported =
        !Op::implementations(device_kind).empty() && bp::contains(typename Op::Types{}, static_cast<bp::DType>(dtype));
  });
  return supported ? 1 : 0;
}

const char* bp_implementation_name(int32_t kind, int32_t device_kind, size_t index) {
  const char* name = nullptr;
  bp::visit_operator(bp::AllOperators{}, kind, [&]<class Op>() {
    const auto list = Op::implementations(device_kind);
    if (index < list.size()) name = list[index].name.data();  // string literals, so 0-terminated
  });
  return name;
}

int32_t bp_device_count(int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return bp::cuda::device_count();
  return device_kind == BP_DEVICE_CPU ? 1 : 0;
}

const char* bp_cpu_instruction_sets(void) {
  const char* sets = "";
  (void)guarded([&] { sets = bp::instruction_sets().c_str(); });
  return sets;
}

}  // extern "C"

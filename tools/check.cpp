// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include "buffer.h"
#include "device.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>

namespace tools {

namespace {

// Beyond this the oracle's lists would not fit; the reference implementation stands in for it.
constexpr std::int64_t kMostForOracle = 1 << 24;

// ---- Inputs --------------------------------------------------------------------------------------------

// Stored winners that a forward pass over some x would have left, a part of them spoiled where the problem asks so.
Dense stored_winners(const Problem& problem, std::int32_t dtype, std::int32_t kind, const TensorSpec& spec) {
  Problem forward = problem;
  forward.kind = BP_MAX_POOL;
  forward.winners = kind == BP_WINNERS_PLANE ? BP_WINNERS_FLAT : kind;
  forward.winners_dtype = kind == BP_WINNERS_PLANE ? BP_I64 : spec.dtype;
  const TensorSpec x{.name = "x", .dtype = dtype, .sizes = problem.x_shape, .strides = {}, .absent = false};
  Dense winners = brute_force(forward, {random_values(x, problem.fill, problem.seed, 1)}).outputs[1];
  const std::size_t width = 8 * dtype_size(spec.dtype);
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  if (kind == BP_WINNERS_PLANE) {
    std::int64_t plane = 1;
    for (std::size_t i = 2; i < problem.x_shape.size(); ++i) plane *= problem.x_shape[i];
    for (std::uint64_t& w : winners.bits) {
      if (w != ~std::uint64_t{0} && plane > 0) w %= static_cast<std::uint64_t>(plane);
      w &= mask;
    }
    winners.dtype = spec.dtype;
  }
  if (!problem.corrupt_winners) return winners;
  std::mt19937_64 random(problem.seed ^ 0x5eed);
  for (std::uint64_t& w : winners.bits) {
    switch (random() % 8) {
      case 0:
        w = random() & mask;
        break;
      case 1:
        w = (w + random() % 5 - 2) & mask;
        break;
      case 2:
        w = mask;  // no winner
        break;
      default:
        break;
    }
  }
  return winners;
}

std::vector<Dense> make_inputs(const Problem& problem, std::int32_t dtype, const Tensors& tensors) {
  std::vector<Dense> inputs;
  for (std::size_t i = 0; i < tensors.inputs.size(); ++i) {
    const TensorSpec& spec = tensors.inputs[i];
    if (problem.kind == BP_CONVERT_WINNERS) {
      inputs.push_back(stored_winners(problem, BP_F32, problem.winners_from, spec));
    } else if (spec.name == "winners" && !spec.absent) {
      inputs.push_back(stored_winners(problem, dtype, problem.winners, spec));
    } else {
      inputs.push_back(random_values(spec, problem.fill, problem.seed, i + 1));
    }
  }
  return inputs;
}

// ---- Comparison ----------------------------------------------------------------------------------------

bool is_nan_bits(std::int32_t dtype, std::uint64_t bits) {
  switch (dtype) {
    case BP_F64:
      return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
    case BP_F32:
      return (bits & 0x7fffffffu) > 0x7f800000u;
    case BP_F16:
      return (bits & 0x7fffu) > 0x7c00u;
    case BP_BF16:
      return (bits & 0x7fffu) > 0x7f80u;
    default:
      return false;
  }
}

std::string index_text(const Ints& sizes, std::size_t number) {
  std::string text;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(sizes[i]);
    text = fmt::format("{}{}{}", number % size, text.empty() ? "" : ",", text);
    number /= size;
  }
  return text;
}

std::string compare(const TensorSpec& spec, const Dense& found, const Dense& expected, bool any_nan) {
  for (std::size_t i = 0; i < expected.bits.size(); ++i) {
    if (found.bits[i] == expected.bits[i]) continue;
    if (any_nan && is_nan_bits(spec.dtype, found.bits[i]) && is_nan_bits(spec.dtype, expected.bits[i])) continue;
    return fmt::format("{}[{}] has bits {:#x}, expected {:#x}", spec.name, index_text(spec.sizes, i), found.bits[i],
                       expected.bits[i]);
  }
  return {};
}

// ---- One run in guarded memory -------------------------------------------------------------------------

using Buffers = std::vector<std::unique_ptr<Buffer>>;

Buffers make_buffers(const std::vector<TensorSpec>& specs, Buffer::Against side, std::byte gap) {
  Buffers buffers;
  for (const TensorSpec& spec : specs) buffers.push_back(std::make_unique<Buffer>(spec, side, gap));
  return buffers;
}

void store(const Buffers& buffers, const std::vector<TensorSpec>& specs, const std::vector<Dense>& values) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!specs[i].absent) buffers[i]->store(values[i]);
  }
}

// The values of views that overlap themselves are what memory holds in the end.
std::vector<Dense> loaded(const std::vector<TensorSpec>& specs, const std::vector<Dense>& values) {
  const Buffers buffers = make_buffers(specs, Buffer::Against::front, std::byte{0xa5});
  store(buffers, specs, values);
  std::vector<Dense> result;
  for (const auto& buffer : buffers) result.push_back(buffer->load());
  return result;
}

// A buffer's bytes on the device. As on the host the view lies hard against one end of an allocation, as far from an
// alignment; beyond its other end known bytes follow.
class Mirror {
 public:
  Mirror(const Buffer& buffer, Buffer::Against side)
      : buffer_(buffer),
        before_(side == Buffer::Against::back ? kZone + misalignment(buffer) : 0),
        image_(before_ + buffer.bytes().size() + (side == Buffer::Against::front ? kZone : 0), kZoneByte),
        memory_(image_.size()) {
    std::ranges::copy(buffer.bytes(), image_.begin() + static_cast<std::ptrdiff_t>(before_));
    memory_.write(image_);
  }

  [[nodiscard]] void* data() const {
    return memory_.data() + before_ + (static_cast<std::byte*>(buffer_.data()) - buffer_.bytes().data());
  }

  // The bytes back on the host; false where others were written.
  bool take_back() {
    memory_.read(image_);
    const auto view = std::span(image_).subspan(before_, buffer_.bytes().size());
    std::ranges::copy(view, buffer_.bytes().begin());
    std::ranges::fill(view, kZoneByte);
    return std::ranges::all_of(image_, [](std::byte b) { return b == kZoneByte; });
  }

 private:
  static constexpr std::size_t kZone = 256;  // what the device aligns to, at least
  static constexpr std::byte kZoneByte{0x5a};
  static std::size_t misalignment(const Buffer& buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % kZone;
  }

  const Buffer& buffer_;
  std::size_t before_;
  std::vector<std::byte> image_;
  DeviceMemory memory_;
};

// The tensors where an operator can reach them: in their buffers, or on the device.
class Places {
 public:
  Places(const Buffers& buffers, Buffer::Against side, std::int32_t device_kind) : buffers_(buffers) {
    for (const auto& buffer : buffers) {
      const bool moves = device_kind == BP_DEVICE_CUDA && !buffer->bytes().empty();
      mirrors_.push_back(moves ? std::make_unique<Mirror>(*buffer, side) : nullptr);
    }
  }

  [[nodiscard]] std::vector<void*> data() const {
    std::vector<void*> pointers;
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      pointers.push_back(mirrors_[i] ? mirrors_[i]->data() : buffers_[i]->data());
    return pointers;
  }
  bool take_back() {
    return std::ranges::all_of(mirrors_, [](auto& mirror) { return !mirror || mirror->take_back(); });
  }

 private:
  const Buffers& buffers_;
  std::vector<std::unique_ptr<Mirror>> mirrors_;
};

class Trial {
 public:
  Trial(const bp_operator* op, std::int32_t device_kind, const Tensors& tensors, Buffer::Against side, std::byte gap,
        const std::vector<Dense>& values)
      : op_(op),
        device_kind_(device_kind),
        side_(side),
        tensors_(tensors),
        inputs_(make_buffers(tensors.inputs, side, gap)),
        outputs_(make_buffers(tensors.outputs, side, ~gap)) {
    store(inputs_, tensors.inputs, values);
  }

  // Runs and compares; `aliased` binds output 0 to the memory of that input.
  std::string run(const Expected& expected, std::optional<std::size_t> aliased) {
    std::vector<std::vector<std::byte>> before;
    for (const auto& buffer : inputs_) before.push_back(buffer->snapshot());
    if (std::string wrong = launch(expected, aliased); !wrong.empty()) return wrong;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (tensors_.outputs[i].absent) continue;
      const Buffer& memory = aliased && i == 0 ? *inputs_[*aliased] : *outputs_[i];
      std::string difference = compare(tensors_.outputs[i], memory.load(), expected.outputs[i], expected.any_nan);
      if (!difference.empty()) return difference;
      if (!memory.gaps_are_intact()) return fmt::format("{}: wrote outside of the view", tensors_.outputs[i].name);
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (aliased == i) continue;
      if (inputs_[i]->snapshot() != before[i])
        return fmt::format("{}: an input was written to", tensors_.inputs[i].name);
    }
    return {};
  }

 private:
  std::string launch(const Expected& expected, std::optional<std::size_t> aliased) {
    std::size_t workspace_bytes = 0;
    if (bp_operator_workspace_size(op_, &workspace_bytes) != BP_OK) return bp_last_error();
    const TensorSpec workspace_spec{
        "workspace", BP_U8, {static_cast<std::int64_t>((workspace_bytes + 15) / 16 * 16)}, {1}, false};
    const Buffers workspace_buffers = make_buffers({workspace_spec}, Buffer::Against::back, std::byte{0xee});

    Places inputs(inputs_, side_, device_kind_), outputs(outputs_, side_, device_kind_);
    Places workspaces(workspace_buffers, Buffer::Against::back, device_kind_);
    const std::vector<void*> in_data = inputs.data();
    const std::vector<const void*> in(in_data.begin(), in_data.end());
    std::vector<void*> out = outputs.data();
    if (aliased) out[0] = in_data[*aliased];
    void* workspace = workspaces.data().front();
    const bool on_device = device_kind_ == BP_DEVICE_CUDA;
    // Half of the trials on a stream of their own.
    std::optional<DeviceStream> own;
    if (on_device && side_ == Buffer::Against::back) own.emplace();
    void* stream = own ? own->handle() : nullptr;

    bp_status status = bp_operator_run(op_, in.data(), in.size(), out.data(), out.size(), workspace, stream);
    // A device's run only launches; what it found is asked for.
    if (on_device && status == BP_OK) status = bp_operator_check(op_, workspace, stream);
    const bp_status wanted = expected.wrong_winners ? BP_INVALID_ARGUMENT : BP_OK;
    if (status != wanted) {
      return fmt::format("run returned {}, expected {}{}{}", bp_status_name(status), bp_status_name(wanted),
                         status == BP_OK ? "" : ": ", status == BP_OK ? "" : bp_last_error());
    }
    if (!inputs.take_back()) return "wrote outside of an input";
    if (!outputs.take_back()) return "wrote outside of an output";
    if (!workspaces.take_back()) return "wrote outside of the workspace";
    return {};
  }

  const bp_operator* op_;
  std::int32_t device_kind_;
  Buffer::Against side_;
  const Tensors& tensors_;
  Buffers inputs_;
  Buffers outputs_;
};

bool same_view(const TensorSpec& a, const TensorSpec& b) {
  return !a.absent && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides;
}

// What a large problem is compared with.
Expected from_reference(const Problem& problem, const Tensors& tensors, const std::vector<Dense>& inputs) {
  CreateOptions options;
  options.implementation = "reference";
  const CreateResult reference = try_create(problem, tensors, options);
  if (!reference.op) throw UsageError(reference.error);
  const Buffers in = make_buffers(tensors.inputs, Buffer::Against::front, std::byte{0});
  const Buffers out = make_buffers(tensors.outputs, Buffer::Against::front, std::byte{0});
  std::vector<const void*> in_pointers;
  std::vector<void*> out_pointers;
  store(in, tensors.inputs, inputs);
  for (const auto& buffer : in) in_pointers.push_back(buffer->data());
  for (const auto& buffer : out) out_pointers.push_back(buffer->data());
  std::size_t bytes = 0;
  bp_operator_workspace_size(reference.op.get(), &bytes);
  std::vector<std::max_align_t> workspace(bytes / sizeof(std::max_align_t) + 1);
  Expected expected{
      .outputs = {},
      .any_nan = problem.kind == BP_MAX_POOL_GRAD || problem.kind == BP_RESAMPLE_GRAD || problem.kind == BP_RESAMPLE};
  const bp_status status = bp_operator_run(reference.op.get(), in_pointers.data(), in.size(), out_pointers.data(),
                                           out.size(), workspace.data(), nullptr);
  if (status != BP_OK && tensors.inputs.back().name != "winners" && problem.kind != BP_CONVERT_WINNERS) {
    throw UsageError(bp_last_error());
  }
  expected.wrong_winners = status != BP_OK;
  for (const auto& buffer : out) expected.outputs.push_back(buffer->load());
  return expected;
}

}  // namespace

ProblemCheck::ProblemCheck(const Problem& problem, std::int32_t dtype)
    : kind_(problem.kind),
      elements_(std::max(element_count(problem.x_shape), element_count(problem.y_shape))),
      specs_(tensors(problem, dtype)),
      values_(make_inputs(problem, dtype, specs_)) {
  const std::vector<Dense> inputs = loaded(specs_.inputs, values_);
  expected_ = elements_ > kMostForOracle ? from_reference(problem, specs_, inputs) : brute_force(problem, inputs);
}

void require_judge(const Problem& problem, std::string_view implementation) {
  const std::int64_t elements = std::max(element_count(problem.x_shape), element_count(problem.y_shape));
  if (elements <= kMostForOracle || implementation != "reference") return;
  throw UsageError(fmt::format(
      "{} elements are more than the oracle takes ({}), and the reference has nothing else to be compared with",
      elements, kMostForOracle));
}

std::string ProblemCheck::run(const bp_operator* op, std::int32_t device_kind) const {
  Trial front(op, device_kind, specs_, Buffer::Against::front, std::byte{0xa5}, values_);
  if (std::string wrong = front.run(expected_, std::nullopt); !wrong.empty()) return wrong;

  // Once more with other bytes around and before: what lies there must not matter, and twice is the same.
  Trial back(op, device_kind, specs_, Buffer::Against::back, std::byte{0x00}, values_);
  if (const std::string wrong = back.run(expected_, std::nullopt); !wrong.empty()) return wrong + " (second run)";

  if (!is_elementwise(kind_)) return {};
  for (std::size_t i = 0; i < specs_.inputs.size(); ++i) {
    if (!same_view(specs_.inputs[i], specs_.outputs[0])) continue;
    Trial in_place(op, device_kind, specs_, Buffer::Against::back, std::byte{0x3c}, values_);
    if (const std::string wrong = in_place.run(expected_, i); !wrong.empty()) return wrong + " (in place)";
  }
  return {};
}

std::string check_problem(const Problem& problem, std::int32_t dtype, const bp_operator* op, std::int32_t device_kind) {
  return ProblemCheck(problem, dtype).run(op, device_kind);
}

std::vector<std::int32_t> dtypes_of(const Problem& problem, std::int32_t device_kind) {
  if (!problem.dtypes.empty()) return problem.dtypes;
  if (problem.kind == BP_CONVERT_WINNERS) {
    if (problem.winners_from == BP_WINNERS_COMPACT) return {compact_dtype(problem.window)};
    return {BP_U32, BP_U64, BP_I32, BP_I64};
  }
  std::vector<std::int32_t> supported;
  for (const std::int32_t dtype : all_dtypes()) {
    if (bp_is_supported(problem.kind, device_kind, dtype) != 0) supported.push_back(dtype);
  }
  return supported;
}

std::vector<std::string> implementations_of(std::int32_t kind, std::int32_t device_kind) {
  std::vector<std::string> names;
  for (std::size_t i = 0; bp_implementation_name(kind, device_kind, i) != nullptr; ++i) {
    names.emplace_back(bp_implementation_name(kind, device_kind, i));
  }
  return names;
}

}  // namespace tools

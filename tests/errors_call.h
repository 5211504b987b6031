// SPDX-License-Identifier: Apache-2.0
// Words for the tests of refusals: a call of bp_operator_create that is accepted and can be spoiled in any field, an
// operator whose bindings can be, and what is expected then.
#pragma once

#include "support.h"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace errors {

using Ints = std::vector<std::int64_t>;
using Reals = std::vector<double>;

// Parentheses instead of braces, for short rows in tables.
template <class... Numbers>
Ints ints(Numbers... values) {
  return {static_cast<std::int64_t>(values)...};
}
template <class... Numbers>
Reals reals(Numbers... values) {
  return {static_cast<double>(values)...};
}

inline constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr std::int64_t two_to(int exponent) { return std::int64_t{1} << exponent; }

inline std::string str(std::int64_t v) { return std::to_string(v); }

// "1 byte", "2 bytes".
inline std::string counted(std::size_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

// ---- A call of bp_operator_create that can be spoiled in any field ---------------------------------------

// What a struct says of its own size, and the bytes that lie behind it.
struct Claim {
  std::optional<std::size_t> size{};  // absent: the right one
  unsigned char tail = 0;
};

// In all of these an absent value is a null pointer.
struct View {
  std::int32_t dtype = BP_F32;
  std::optional<Ints> sizes{};
  std::optional<Ints> strides{};
  std::optional<std::int32_t> rank{};  // absent: as many as sizes
  Claim claim{};
};

struct Window {
  std::optional<Ints> size{}, strides{}, start_padding{}, end_padding{}, dilations{};
  std::int32_t spatial_rank = 1;
  std::int32_t reserved = 0;
  Claim claim{};
};

struct Table {
  std::optional<Ints> first{}, count{};
  std::optional<Reals> weights{};
  std::int64_t weight_count = 0;
};

struct Map {
  std::int32_t mode = BP_LINEAR, rounding = BP_ROUND_HALF_UP, convention = BP_HALF_PIXEL, rank = 3;
  std::optional<Reals> scales{}, input_offsets{}, output_offsets{};
  std::vector<Table> tables{};
  Claim claim{};
};

struct SliceWindow {
  std::optional<Ints> offsets{}, sizes{}, strides{};
  std::int32_t rank = 3;
  std::int32_t reserved = 0;
  Claim claim{};
};

struct Call {
  std::int32_t kind = 0;
  std::map<std::string, View> tensors{};
  std::optional<Window> window{};
  std::optional<Map> map{};
  std::optional<SliceWindow> slice{};
  std::optional<Ints> x_sizes{};
  std::int32_t nan = BP_NAN_ZERO, winners_kind = 0, from_kind = 0, to_kind = 0, reserved = 0;
  Claim claim{};
  bp_device device{BP_DEVICE_CPU, 0};
  const bp_options* options = nullptr;

  View& tensor(const std::string& name) { return tensors.at(name); }
  Table& table() { return map->tables.at(2); }
};

// A struct in memory with its tail.
template <class Struct>
class Block {
 public:
  Block(Struct value, const Claim& claim) {
    value.struct_size = claim.size.value_or(sizeof(Struct));
    bytes_.fill(claim.tail);
    std::memcpy(bytes_.data(), &value, sizeof value);
  }
  [[nodiscard]] const Struct* get() const { return reinterpret_cast<const Struct*>(bytes_.data()); }

 private:
  alignas(Struct) std::array<unsigned char, 4096> bytes_;
};

template <class T>
const T* data(const std::optional<std::vector<T>>& values) {
  return values ? values->data() : nullptr;
}

inline Block<bp_tensor_desc> block(const View& v) {
  const auto rank = v.rank ? *v.rank : static_cast<std::int32_t>(v.sizes->size());
  return {{0, v.dtype, rank, data(v.sizes), data(v.strides)}, v.claim};
}

inline Block<bp_window> block(const Window& w) {
  return {{0, w.spatial_rank, w.reserved, data(w.size), data(w.strides), data(w.start_padding), data(w.end_padding),
           data(w.dilations)},
          w.claim};
}

inline Block<bp_slice_window> block(const SliceWindow& w) {
  return {{0, w.rank, w.reserved, data(w.offsets), data(w.sizes), data(w.strides)}, w.claim};
}

inline Block<bp_resample_map> block(const Map& m, const std::vector<bp_resample_table>& tables) {
  return {{0, m.mode, m.rounding, m.convention, m.rank, data(m.scales), data(m.input_offsets), data(m.output_offsets),
           tables.empty() ? nullptr : tables.data()},
          m.claim};
}

struct Outcome {
  bp_status status = BP_OK;
  std::string error;
  bool has_handle = false;
};

inline bp_options default_options() {
  bp_options options{};
  options.struct_size = sizeof options;
  return options;
}

inline Outcome create(std::int32_t kind, const void* desc, bp_device device, const bp_options* options) {
  int not_a_handle = 0;
  auto* op = reinterpret_cast<bp_operator*>(&not_a_handle);  // a failing create must replace it by null
  Outcome outcome;
  outcome.status = bp_operator_create(kind, desc, device, options, &op);
  outcome.has_handle = op != nullptr;
  if (outcome.status != BP_OK) outcome.error = bp_last_error();
  if (outcome.status == BP_OK) bp_operator_destroy(op);
  return outcome;
}

inline Outcome create(const Call& c) {
  std::map<std::string, Block<bp_tensor_desc>> tensors;
  for (const auto& [name, view] : c.tensors) tensors.emplace(name, block(view));
  const auto tensor = [&](const char* name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : found->second.get();
  };
  std::vector<bp_resample_table> tables;
  if (c.map) {
    for (const Table& t : c.map->tables) {
      tables.push_back({data(t.first), data(t.count), data(t.weights), t.weight_count});
    }
  }
  const auto window_block = c.window ? std::optional(block(*c.window)) : std::nullopt;
  const auto slice_block = c.slice ? std::optional(block(*c.slice)) : std::nullopt;
  const auto map_block = c.map ? std::optional(block(*c.map, tables)) : std::nullopt;
  const bp_window* window = c.window ? window_block->get() : nullptr;
  const bp_slice_window* slice = c.slice ? slice_block->get() : nullptr;
  const bp_resample_map* map = c.map ? map_block->get() : nullptr;
  const auto finish = [&](const auto& desc) { return create(c.kind, Block(desc, c.claim).get(), c.device, c.options); };
  switch (c.kind) {
    case BP_RELU:
      return finish(bp_relu_desc{0, tensor("x"), tensor("y")});
    case BP_RELU_GRAD:
      return finish(bp_relu_grad_desc{0, tensor("x"), tensor("dy"), tensor("dx"), c.nan, c.reserved});
    case BP_MAX_POOL:
      return finish(
          bp_max_pool_desc{0, tensor("x"), tensor("y"), tensor("winners"), window, c.winners_kind, c.reserved});
    case BP_MAX_POOL_GRAD:
      return finish(bp_max_pool_grad_desc{0, tensor("x"), tensor("dy"), tensor("winners"), tensor("dx"), window,
                                          c.winners_kind, c.reserved});
    case BP_RESAMPLE:
      return finish(bp_resample_desc{0, tensor("x"), tensor("y"), map});
    case BP_RESAMPLE_GRAD:
      return finish(bp_resample_grad_desc{0, tensor("dy"), tensor("dx"), map});
    case BP_SLICE:
      return finish(bp_slice_desc{0, tensor("x"), tensor("y"), slice});
    case BP_SLICE_GRAD:
      return finish(bp_slice_grad_desc{0, tensor("dy"), tensor("dx"), slice});
    default:
      return finish(
          bp_convert_winners_desc{0, tensor("from"), tensor("to"), data(c.x_sizes), window, c.from_kind, c.to_kind});
  }
}

// ---- The nine operators ----------------------------------------------------------------------------------

// What the sentences call an operator and the tensors that have the sizes of the forward input and output.
struct Names {
  std::string op, x, y;
  std::string rank = x;  // the tensor whose rank the window is measured by
};
inline const Names& names(std::int32_t kind) {
  static const std::array<Names, 9> all{{{"relu", "x", "y"},
                                         {"relu_grad", "x", "dy"},
                                         {"max_pool", "x", "y"},
                                         {"max_pool_grad", "dx", "dy"},
                                         {"resample", "x", "y"},
                                         {"resample_grad", "dx", "dy"},
                                         {"slice", "x", "y"},
                                         {"slice_grad", "dx", "dy"},
                                         {"convert_winners", "x_sizes", "from", "from"}}};
  return all.at(static_cast<std::size_t>(kind - BP_RELU));
}

inline const Ints kWhole{1, 2, 4};
inline const Ints kPart{1, 2, 3};

inline View view(const Ints& sizes, std::int32_t dtype = BP_F32) { return {.dtype = dtype, .sizes = sizes}; }

// A call that is accepted, over {1, 2, 4} and {1, 2, 3}. max_pool stores winners; max_pool_grad recomputes them.
inline Call valid(std::int32_t kind) {
  Call c{.kind = kind};
  const Window window{.size = ints(2), .strides = ints(1)};
  const SliceWindow slice{.offsets = ints(0, 0, 0), .sizes = kPart};
  switch (kind) {
    case BP_RELU:
      c.tensors = {{"x", view(kWhole)}, {"y", view(kWhole)}};
      break;
    case BP_RELU_GRAD:
      c.tensors = {{"x", view(kWhole)}, {"dy", view(kWhole)}, {"dx", view(kWhole)}};
      break;
    case BP_MAX_POOL:
      c.tensors = {{"x", view(kWhole)}, {"y", view(kPart)}, {"winners", view(kPart, BP_U8)}};
      c.winners_kind = BP_WINNERS_COMPACT;
      c.window = window;
      break;
    case BP_MAX_POOL_GRAD:
      c.tensors = {{"x", view(kWhole)}, {"dy", view(kPart)}, {"dx", view(kWhole)}};
      c.window = window;
      break;
    case BP_RESAMPLE:
    case BP_SLICE:
      c.tensors = {{"x", view(kWhole)}, {"y", view(kPart)}};
      break;
    case BP_RESAMPLE_GRAD:
    case BP_SLICE_GRAD:
      c.tensors = {{"dy", view(kPart)}, {"dx", view(kWhole)}};
      break;
    default:
      c.tensors = {{"from", view(kPart, BP_U8)}, {"to", view(kPart, BP_I64)}};
      c.x_sizes = kWhole;
      c.from_kind = BP_WINNERS_COMPACT;
      c.to_kind = BP_WINNERS_FLAT;
      c.window = window;
  }
  if (kind == BP_RESAMPLE || kind == BP_RESAMPLE_GRAD) c.map = Map{};
  if (kind == BP_SLICE || kind == BP_SLICE_GRAD) c.slice = slice;
  return c;
}

inline Call max_pool_grad_of_stored_winners() {
  Call c = valid(BP_MAX_POOL_GRAD);
  c.tensors.erase("x");
  c.tensors["winners"] = view(kPart, BP_U8);
  c.winners_kind = BP_WINNERS_COMPACT;
  return c;
}

// Every kind, and the second form of max_pool_grad.
inline std::vector<Call> all_valid() {
  std::vector<Call> calls;
  for (std::int32_t kind = BP_RELU; kind <= BP_CONVERT_WINNERS; ++kind) calls.push_back(valid(kind));
  calls.push_back(max_pool_grad_of_stored_winners());
  return calls;
}

inline const std::vector<std::int32_t> kPooling{BP_MAX_POOL, BP_MAX_POOL_GRAD, BP_CONVERT_WINNERS};
inline const std::vector<std::int32_t> kResample{BP_RESAMPLE, BP_RESAMPLE_GRAD};
inline const std::vector<std::int32_t> kSlice{BP_SLICE, BP_SLICE_GRAD};

// The sizes of everything that is shaped like the forward input, or output.
inline void set_x(Call& c, const Ints& sizes) {
  for (const char* name : {"x", "dx"}) {
    if (c.tensors.count(name) != 0) c.tensor(name).sizes = sizes;
  }
  if (c.x_sizes) c.x_sizes = sizes;
}
inline void set_y(Call& c, const Ints& sizes) {
  for (const char* name : {"y", "dy", "winners", "from", "to"}) {
    if (c.tensors.count(name) != 0) c.tensor(name).sizes = sizes;
  }
}
inline void set_dtype(Call& c, std::int32_t dtype) {
  for (const char* name : {"x", "dx", "y", "dy"}) {
    if (c.tensors.count(name) != 0) c.tensor(name).dtype = dtype;
  }
}

// Axis 2 by a table of three outputs, the other axes by the mode.
inline void set_table(Call& c) {
  c.map->tables.assign(3, {});
  c.table() = {ints(0, 1, 2), ints(2, 0, 1), reals(0.5, 0.5, 1), 3};
}

inline std::string type_name(std::int32_t dtype) {
  constexpr std::array<const char*, 12> kNames{"f64", "f32", "f16", "bf16", "i64", "i32",
                                               "i16", "i8",  "u64", "u32",  "u16", "u8"};
  return kNames.at(static_cast<std::size_t>(dtype - BP_F64));
}

inline std::vector<std::string> outputs(std::int32_t kind) {
  if (kind == BP_MAX_POOL) return {"y", "winners"};
  if (kind == BP_CONVERT_WINNERS) return {"to"};
  return {kind == BP_RELU || kind == BP_RESAMPLE || kind == BP_SLICE ? "y" : "dx"};
}

// ---- An operator with memory for its tensors -------------------------------------------------------------

class Bound {
 public:
  explicit Bound(std::string_view line, std::optional<std::int32_t> dtype = std::nullopt, std::size_t slot_bytes = 256,
                 const std::string& implementation = "")
      : slot_bytes_(slot_bytes) {
    const tools::Problem problem = tools::parse_problem(line);
    specs = tools::tensors(problem, dtype.value_or(tools::default_dtype(problem)));
    tools::CreateResult created = tools::try_create(problem, specs, {.implementation = implementation});
    if (!created.op) throw std::runtime_error(created.error);
    op = std::move(created.op);
    name = bp_operator_name(op.get());
    EXPECT_EQ(bp_operator_workspace_size(op.get(), &workspace_bytes), BP_OK);
    constexpr std::size_t kUnit = 256;
    slot_bytes_ = std::max(slot_bytes, (workspace_bytes + kUnit - 1) / kUnit * kUnit);
    const std::size_t slots = specs.inputs.size() + specs.outputs.size();
    memory_.resize((slots + 3) * slot_bytes_ / sizeof(std::max_align_t));
    std::memset(address(specs.inputs.size()), 0xc3, (specs.outputs.size() + 1) * slot_bytes_);
    for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
      inputs.push_back(specs.inputs[i].absent ? nullptr : address(i));
    }
    for (std::size_t i = 0; i < specs.outputs.size(); ++i) {
      outputs.push_back(specs.outputs[i].absent ? nullptr : address(specs.inputs.size() + i));
    }
    workspace = workspace_bytes == 0 ? nullptr : address(slots);
  }

  bp_status run() { return run(inputs.data(), inputs.size(), outputs.data(), outputs.size()); }
  bp_status run(const void* const* in, std::size_t in_count, void* const* out, std::size_t out_count) {
    return bp_operator_run(op.get(), in, in_count, out, out_count, workspace, nullptr);
  }
  [[nodiscard]] std::vector<std::byte> snapshot() const {
    const auto* bytes = reinterpret_cast<const std::byte*>(memory_.data());
    return {bytes, bytes + memory_.size() * sizeof(std::max_align_t)};
  }

  template <class T>
  void fill_input(std::size_t slot, const std::vector<T>& values) {
    std::memcpy(const_cast<void*>(inputs.at(slot)), values.data(), values.size() * sizeof(T));
  }
  template <class T>
  [[nodiscard]] std::vector<T> output(std::size_t slot, std::size_t count) const {
    std::vector<T> values(count);
    std::memcpy(values.data(), outputs.at(slot), count * sizeof(T));
    return values;
  }

  tools::OperatorPtr op;
  tools::Tensors specs;
  std::string name;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;

 private:
  // With room before the first slot and behind the last.
  std::byte* address(std::size_t slot) {
    return reinterpret_cast<std::byte*>(memory_.data()) + (slot + 1) * slot_bytes_;
  }

  std::size_t slot_bytes_;
  std::vector<std::max_align_t> memory_;
};

// Every operator, with and without its optional tensors, over {1, 2, 4} and {1, 2, 3}.
inline const std::vector<std::string_view> kLines{
    "relu --x-shape 1,2,4",
    "relu-grad --x-shape 1,2,4",
    "max-pool --x-shape 1,2,4 --window 2 --strides 1",
    "max-pool --x-shape 1,2,4 --window 2 --strides 1 --winners compact",
    "max-pool-grad --x-shape 1,2,4 --window 2 --strides 1",
    "max-pool-grad --x-shape 1,2,4 --window 2 --strides 1 --winners compact",
    "resample --x-shape 1,2,4 --y-shape 1,2,3",
    "resample-grad --x-shape 1,2,4 --y-shape 1,2,3",
    "slice --x-shape 1,2,4 --sizes 1,2,3",
    "slice-grad --x-shape 1,2,4 --sizes 1,2,3",
    "convert-winners --x-shape 1,2,4 --window 2 --strides 1 --winners-kind compact --winners flat",
};

// ---- Expectations ----------------------------------------------------------------------------------------

inline void expect_refused(const Outcome& outcome, bp_status status, const std::string& sentence) {
  EXPECT_EQ(outcome.error, sentence);
  EXPECT_EQ(outcome.status, status) << sentence;
  EXPECT_FALSE(outcome.has_handle) << sentence;
}
inline void expect_invalid(const Call& c, const std::string& sentence) {
  expect_refused(create(c), BP_INVALID_ARGUMENT, sentence);
}
inline void expect_unsupported(const Call& c, const std::string& sentence) {
  expect_refused(create(c), BP_UNSUPPORTED, sentence);
}
inline void expect_accepted(const Call& c) {
  const Outcome outcome = create(c);
  EXPECT_EQ(outcome.status, BP_OK) << names(c.kind).op << ": " << outcome.error;
  EXPECT_TRUE(outcome.has_handle);
}

// What a call on an operator answers.
inline void expect_refused(bp_status status, const std::string& sentence) {
  EXPECT_EQ(std::string(bp_last_error()), sentence);
  EXPECT_EQ(status, BP_INVALID_ARGUMENT) << sentence;
}
inline void expect_runs(Bound& bound) { EXPECT_EQ(bound.run(), BP_OK) << bound.name << ": " << bp_last_error(); }

inline std::string replaced(std::string text, const std::string& mark, const std::string& by) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size())) {
    text.replace(at, mark.size(), by);
  }
  return text;
}

// A row: a valid call, spoiled, and its sentence without the operator. $x, $y and $rank stand for the tensors' names.
struct Refusal {
  void (*spoil)(Call&);
  std::string sentence;
};
inline void expect_all_refused(const std::vector<std::int32_t>& kinds, bp_status status,
                               const std::vector<Refusal>& refusals) {
  for (const std::int32_t kind : kinds) {
    for (const Refusal& refusal : refusals) {
      Call c = valid(kind);
      refusal.spoil(c);
      const std::string sentence = names(kind).op + ": " + refusal.sentence;
      const std::string with_x = replaced(replaced(sentence, "$x", names(kind).x), "$rank", names(kind).rank);
      expect_refused(create(c), status, replaced(with_x, "$y", names(kind).y));
    }
  }
}
inline void expect_all_invalid(const std::vector<std::int32_t>& kinds, const std::vector<Refusal>& refusals) {
  expect_all_refused(kinds, BP_INVALID_ARGUMENT, refusals);
}

// A row of what must be accepted.
inline void expect_all_accepted(const std::vector<std::int32_t>& kinds, const std::vector<void (*)(Call&)>& changes) {
  for (const std::int32_t kind : kinds) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      SCOPED_TRACE("row " + std::to_string(i));
      Call c = valid(kind);
      changes[i](c);
      expect_accepted(c);
    }
  }
}

}  // namespace errors

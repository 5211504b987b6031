// SPDX-License-Identifier: Apache-2.0
// backpass for C++20: a thin, header-only layer over the C ABI. Two forms of every operator, here of tensors x, dy and
// dx:
//
//     backpass::max_pool_grad(x, dy, dx, {.window = {2, 2}, .strides = {1, 1}});        // one call
//
//     const backpass::Operator op(backpass::MaxPoolGrad{                                 // the same, planned once
//         .x = x, .dy = dy, .dx = dx, .window = {.size = {2, 2}, .strides = {1, 1}}});
//     std::vector<std::max_align_t> workspace(op.workspace_size() / sizeof(std::max_align_t) + 1);
//     op.run({x.data(), dy.data()}, {dx.data()}, workspace.data());                      // and run as often as wanted
//
// Everything that is wrong throws backpass::Error with the library's sentence. The contract of each operator stands in
// backpass.h and, whole, beside its code.
#pragma once

// Microsoft's compiler says the language's version elsewhere.
#if (defined(_MSVC_LANG) && _MSVC_LANG < 202002L) || (!defined(_MSVC_LANG) && __cplusplus < 202002L)
#error "backpass.hpp needs C++20 (backpass.h needs C11 or C++11)"
#endif

#include <backpass/backpass.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace backpass {

// ---- Errors ----------------------------------------------------------------------------------------------

enum class Status {
  ok = BP_OK,
  invalid_argument = BP_INVALID_ARGUMENT,
  unsupported = BP_UNSUPPORTED,
  out_of_memory = BP_OUT_OF_MEMORY,
  backend_error = BP_BACKEND_ERROR,
  internal = BP_INTERNAL,
};

class Error : public std::runtime_error {
 public:
  Error(Status code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] Status code() const noexcept { return code_; }

 private:
  Status code_;
};

namespace detail {
inline void require(bp_status status) {
  if (status != BP_OK) throw Error(static_cast<Status>(status), bp_last_error());
}
}  // namespace detail

// ---- Types -----------------------------------------------------------------------------------------------

enum class DType : std::int32_t {
  f64 = BP_F64,
  f32 = BP_F32,
  f16 = BP_F16,
  bf16 = BP_BF16,
  i64 = BP_I64,
  i32 = BP_I32,
  i16 = BP_I16,
  i8 = BP_I8,
  u64 = BP_U64,
  u32 = BP_U32,
  u16 = BP_U16,
  u8 = BP_U8,
};

// The half types as their bits, for those who have no type of their own.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};

// Which DType an element type is. Specialise it for a half type of your own: __half, Eigen::bfloat16, ...
template <class T>
struct dtype_of;
template <DType kValue>
using dtype_constant = std::integral_constant<DType, kValue>;
template <>
struct dtype_of<double> : dtype_constant<DType::f64> {};
template <>
struct dtype_of<float> : dtype_constant<DType::f32> {};
template <>
struct dtype_of<f16> : dtype_constant<DType::f16> {};
template <>
struct dtype_of<bf16> : dtype_constant<DType::bf16> {};
template <>
struct dtype_of<std::int64_t> : dtype_constant<DType::i64> {};
template <>
struct dtype_of<std::int32_t> : dtype_constant<DType::i32> {};
template <>
struct dtype_of<std::int16_t> : dtype_constant<DType::i16> {};
template <>
struct dtype_of<std::int8_t> : dtype_constant<DType::i8> {};
template <>
struct dtype_of<std::uint64_t> : dtype_constant<DType::u64> {};
template <>
struct dtype_of<std::uint32_t> : dtype_constant<DType::u32> {};
template <>
struct dtype_of<std::uint16_t> : dtype_constant<DType::u16> {};
template <>
struct dtype_of<std::uint8_t> : dtype_constant<DType::u8> {};

template <class T>
concept Element = requires { dtype_of<std::remove_const_t<T>>::value; };
template <class T>
concept Writable = Element<T> && !std::is_const_v<T>;

// ---- Views -----------------------------------------------------------------------------------------------

using Dims = std::vector<std::int64_t>;

namespace detail {

// "1 entry", "2 entries".
inline std::string counted(std::int64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// The range holds all elements. A negative size is left to the library, which refuses it by name.
inline void require_elements(std::int64_t count, const Dims& sizes) {
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; })) return;
  const bool empty = std::ranges::find(sizes, 0) != sizes.end();
  std::int64_t rest = count;  // divided down, so that absurd sizes cannot overflow
  bool fits = true;
  std::string list;
  for (const std::int64_t size : sizes) {
    fits = fits && !empty && rest % size == 0;
    if (fits) rest /= size;
    list += (list.empty() ? "" : ",") + std::to_string(size);
  }
  if (empty ? count == 0 : fits && rest == 1) return;
  throw Error(Status::invalid_argument, "tensor: the range has " + counted(count, "element", "elements") +
                                            ", expected the product of the sizes " + list);
}

}  // namespace detail

// A tensor without its memory. Empty strides mean packed, row-major.
struct TensorDesc {
  DType dtype = DType::f32;
  Dims sizes{};
  Dims strides{};
};

// A tensor with its memory: an address of element (0, ..., 0), or a packed array, vector or span of all elements.
template <Element T>
class Tensor {
 public:
  template <class Pointer>
    requires std::is_pointer_v<Pointer>
  Tensor(const Pointer& data, Dims sizes, Dims strides = {})
      : data_(data), desc_{dtype_of<std::remove_const_t<T>>::value, std::move(sizes), std::move(strides)} {}

  template <std::ranges::contiguous_range Range>
    requires std::ranges::borrowed_range<Range>
  Tensor(Range&& range, Dims sizes) : Tensor(std::ranges::data(range), std::move(sizes)) {
    detail::require_elements(static_cast<std::int64_t>(std::ranges::size(range)), desc_.sizes);
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] const TensorDesc& desc() const { return desc_; }
  operator const TensorDesc&() const { return desc_; }  // NOLINT: where only the desc counts

 private:
  T* data_;
  TensorDesc desc_;
};
template <class Pointer>
  requires std::is_pointer_v<Pointer>
Tensor(const Pointer&, Dims) -> Tensor<std::remove_pointer_t<Pointer>>;
template <class Pointer>
  requires std::is_pointer_v<Pointer>
Tensor(const Pointer&, Dims, Dims) -> Tensor<std::remove_pointer_t<Pointer>>;
template <std::ranges::contiguous_range Range>
Tensor(Range&&, Dims) -> Tensor<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

// ---- Parameters ------------------------------------------------------------------------------------------

enum class Nan { zero = BP_NAN_ZERO, pass = BP_NAN_PASS };

// One entry for each spatial axis; empty strides mean the window, empty paddings 0, empty dilations 1.
struct Window {
  Dims size{};
  Dims strides{};
  Dims start_padding{};
  Dims end_padding{};
  Dims dilations{};
};

enum class Winners {
  none = BP_WINNERS_NONE,
  compact = BP_WINNERS_COMPACT,
  flat = BP_WINNERS_FLAT,
  plane = BP_WINNERS_PLANE
};

enum class Mode { nearest = BP_NEAREST, linear = BP_LINEAR };
enum class Rounding { increasing = BP_ROUND_INCREASING, decreasing = BP_ROUND_DECREASING, half_up = BP_ROUND_HALF_UP };
enum class Convention { half_pixel = BP_HALF_PIXEL, align_corners = BP_ALIGN_CORNERS, asymmetric = BP_ASYMMETRIC };

// One axis of a resample given outright. Empty first: the axis is left to mode and scale.
struct AxisTable {
  Dims first{};
  Dims count{};
  std::vector<double> weights{};
};

// Without scales the convention's exact coordinates; with them c = (o - output_offset) / scale - input_offset. The
// defaults are those of the command line; a zeroed bp_resample_map means nearest, rounded increasing.
struct ResampleMap {
  Mode mode = Mode::linear;
  Rounding rounding = Rounding::half_up;
  Convention convention = Convention::half_pixel;
  std::vector<double> scales{};
  std::vector<double> input_offsets{};
  std::vector<double> output_offsets{};
  std::vector<AxisTable> tables{};
};

// One entry for each axis; empty strides mean 1.
struct SliceWindow {
  Dims offsets{};
  Dims sizes{};
  Dims strides{};
};

// ---- Operators -------------------------------------------------------------------------------------------

struct Relu {
  TensorDesc x{}, y{};
};
struct ReluGrad {
  TensorDesc x{}, dy{}, dx{};
  Nan nan = Nan::zero;
};
struct MaxPool {
  TensorDesc x{}, y{};
  std::optional<TensorDesc> winners = std::nullopt;
  Window window{};
  Winners winners_kind = Winners::none;
};
// Exactly one of x and winners.
struct MaxPoolGrad {
  std::optional<TensorDesc> x = std::nullopt;
  TensorDesc dy{};
  std::optional<TensorDesc> winners = std::nullopt;
  TensorDesc dx{};
  Window window{};
  Winners winners_kind = Winners::none;
};
struct ConvertWinners {
  TensorDesc from{}, to{};
  Dims x_sizes{};
  Window window{};
  Winners from_kind = Winners::none;
  Winners to_kind = Winners::none;
};
struct Resample {
  TensorDesc x{}, y{};
  ResampleMap map{};
};
struct ResampleGrad {
  TensorDesc dy{}, dx{};
  ResampleMap map{};
};
struct Slice {
  TensorDesc x{}, y{};
  SliceWindow window{};
};
struct SliceGrad {
  TensorDesc dy{}, dx{};
  SliceWindow window{};
};

// Where the library was built without CUDA, or finds no device, an operator for a CUDA device is refused as
// unsupported.
struct Device {
  static bp_device cpu() { return {BP_DEVICE_CPU, 0}; }
  static bp_device cuda(int ordinal = 0) { return {BP_DEVICE_CUDA, ordinal}; }
};

struct Options {
  std::string implementation{};
  int threads = 0;
  bp_parallel_for parallel_for = nullptr;
  void* parallel_for_context = nullptr;
};

template <class T>
concept OperatorDescription =
    std::same_as<T, Relu> || std::same_as<T, ReluGrad> || std::same_as<T, MaxPool> || std::same_as<T, MaxPoolGrad> ||
    std::same_as<T, ConvertWinners> || std::same_as<T, Resample> || std::same_as<T, ResampleGrad> ||
    std::same_as<T, Slice> || std::same_as<T, SliceGrad>;

// A created operator: validated, planned, ready to run from any number of threads.
class Operator {
 public:
  template <OperatorDescription Description>
  explicit Operator(const Description& description, bp_device device = Device::cpu(), const Options& options = {});

  // Takes over an operator that C made: bp_operator_create, bp_dml_create_operator.
  [[nodiscard]] static Operator adopt(bp_operator* created) {
    if (created == nullptr) throw Error(Status::invalid_argument, "operator: is null, expected a created one");
    return Operator(Handle(created));
  }

  [[nodiscard]] std::size_t workspace_size() const {
    std::size_t bytes = 0;
    detail::require(bp_operator_workspace_size(op_.get(), &bytes));
    return bytes;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    detail::require(bp_operator_bytes(op_.get(), &bytes));
    return bytes;
  }
  [[nodiscard]] const char* name() const { return bp_operator_name(op_.get()); }
  [[nodiscard]] const char* implementation() const { return bp_operator_implementation(op_.get()); }
  [[nodiscard]] std::string explain() const {
    std::size_t length = 0;
    detail::require(bp_operator_explain(op_.get(), nullptr, 0, &length));
    std::string text(length + 1, '\0');
    detail::require(bp_operator_explain(op_.get(), text.data(), text.size(), nullptr));
    text.resize(length);
    return text;
  }

  // Pointers in slot order; an absent optional tensor is null. The workspace needs workspace_size() bytes.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace = nullptr,
           void* stream = nullptr) const {
    detail::require(
        bp_operator_run(op_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), workspace, stream));
  }
  void run(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs, void* workspace = nullptr,
           void* stream = nullptr) const {
    run(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()), workspace, stream);
  }
  void check(void* workspace, void* stream = nullptr) const {
    detail::require(bp_operator_check(op_.get(), workspace, stream));
  }

  [[nodiscard]] const bp_operator* handle() const { return op_.get(); }

 private:
  struct Destroy {
    void operator()(bp_operator* op) const { bp_operator_destroy(op); }
  };
  using Handle = std::unique_ptr<bp_operator, Destroy>;
  explicit Operator(Handle created) : op_(std::move(created)) {}
  Handle op_;
};

// ---- From these structs to those of the C ABI ------------------------------------------------------------

namespace detail {

inline const std::int64_t* pointer(const Dims& values) { return values.empty() ? nullptr : values.data(); }
inline const double* pointer(const std::vector<double>& values) { return values.empty() ? nullptr : values.data(); }

// A list of the wrong length would be read beyond its end: it is refused here, where its length is known. Everything
// else is left to the library. The name, in parts, is as in its sentences: operator, tensor or parameter, field.
using Name = std::initializer_list<std::string_view>;
[[noreturn]] inline void refuse(Name name, const std::string& what) {
  std::string text;
  for (const std::string_view part : name) text += part;
  throw Error(Status::invalid_argument, text + " " + what);
}
[[noreturn]] inline void refuse_length(Name name, std::size_t found, std::size_t expected) {
  refuse(name, "has " + counted(static_cast<std::int64_t>(found), "entry", "entries") + ", expected " +
                   std::to_string(expected));
}
// For no axes (length 0) nothing is read: the library says first what is wrong with that.
template <class List>
void require_length(Name name, const List& list, std::size_t length) {
  if (!list.empty() && length > 0 && list.size() != length) refuse_length(name, list.size(), length);
}

inline bp_tensor_desc c_desc(std::string_view op, std::string_view name, const TensorDesc& t) {
  require_length({op, ": ", name, ": strides"}, t.strides, t.sizes.size());
  return {sizeof(bp_tensor_desc), static_cast<std::int32_t>(t.dtype), static_cast<std::int32_t>(t.sizes.size()),
          t.sizes.data(), pointer(t.strides)};
}
inline std::optional<bp_tensor_desc> c_desc(std::string_view op, std::string_view name,
                                            const std::optional<TensorDesc>& t) {
  return t ? std::optional(c_desc(op, name, *t)) : std::nullopt;
}
inline const bp_tensor_desc* address(const std::optional<bp_tensor_desc>& t) { return t ? &*t : nullptr; }

inline bp_window c_desc(std::string_view op, const Window& w) {
  const std::size_t rank = w.size.size();
  require_length({op, ": strides:"}, w.strides, rank);
  require_length({op, ": start_padding:"}, w.start_padding, rank);
  require_length({op, ": end_padding:"}, w.end_padding, rank);
  require_length({op, ": dilations:"}, w.dilations, rank);
  return {sizeof(bp_window),
          static_cast<std::int32_t>(rank),
          0,
          w.size.data(),
          pointer(w.strides),
          pointer(w.start_padding),
          pointer(w.end_padding),
          pointer(w.dilations)};
}

inline bp_slice_window c_desc(std::string_view op, const SliceWindow& w) {
  const std::size_t rank = std::max(w.offsets.size(), w.sizes.size());
  require_length({op, ": offsets:"}, w.offsets, rank);
  require_length({op, ": sizes:"}, w.sizes, rank);
  require_length({op, ": strides:"}, w.strides, rank);
  return {sizeof(bp_slice_window), static_cast<std::int32_t>(rank), 0, pointer(w.offsets), pointer(w.sizes),
          pointer(w.strides)};
}

// An axis that y has not, or of a negative size, is the library's to refuse.
inline bp_resample_table c_desc(std::string_view op, const AxisTable& t, std::size_t axis, const TensorDesc& y) {
  const std::string name = ": tables: axis " + std::to_string(axis) + ": ";
  if (t.first.empty() && !(t.count.empty() && t.weights.empty())) {
    refuse({op, name, "first"}, "is empty although count or weights are given");
  }
  if (!t.first.empty() && axis < y.sizes.size() && y.sizes[axis] >= 0) {
    const auto outputs = static_cast<std::size_t>(y.sizes[axis]);
    if (t.first.size() != outputs) refuse_length({op, name, "first"}, t.first.size(), outputs);
  }
  if (t.count.size() != t.first.size()) refuse_length({op, name, "count"}, t.count.size(), t.first.size());
  return {pointer(t.first), pointer(t.count), pointer(t.weights), static_cast<std::int64_t>(t.weights.size())};
}

// The C map points into `tables`.
inline bp_resample_map c_desc(std::string_view op, const ResampleMap& m, const TensorDesc& x, const TensorDesc& y,
                              std::vector<bp_resample_table>& tables) {
  const std::size_t rank = x.sizes.size();
  require_length({op, ": scales:"}, m.scales, rank);
  require_length({op, ": input_offsets:"}, m.input_offsets, rank);
  require_length({op, ": output_offsets:"}, m.output_offsets, rank);
  require_length({op, ": tables:"}, m.tables, rank);
  for (const AxisTable& table : m.tables) tables.push_back(c_desc(op, table, tables.size(), y));
  return {sizeof(bp_resample_map),
          static_cast<std::int32_t>(m.mode),
          static_cast<std::int32_t>(m.rounding),
          static_cast<std::int32_t>(m.convention),
          static_cast<std::int32_t>(rank),
          pointer(m.scales),
          pointer(m.input_offsets),
          pointer(m.output_offsets),
          tables.empty() ? nullptr : tables.data()};
}

inline bp_operator* create(std::int32_t kind, const void* desc, bp_device device, const Options& options) {
  const bp_options given{
      sizeof(bp_options),   options.implementation.empty() ? nullptr : options.implementation.c_str(),
      options.threads,      0,
      options.parallel_for, options.parallel_for_context};
  bp_operator* op = nullptr;
  require(bp_operator_create(kind, desc, device, &given, &op));
  return op;
}

inline bp_operator* create(const Relu& d, bp_device device, const Options& options) {
  const char* const op = "relu";
  const bp_tensor_desc x = c_desc(op, "x", d.x), y = c_desc(op, "y", d.y);
  const bp_relu_desc desc{sizeof desc, &x, &y};
  return create(BP_RELU, &desc, device, options);
}
inline bp_operator* create(const ReluGrad& d, bp_device device, const Options& options) {
  const char* const op = "relu_grad";
  const bp_tensor_desc x = c_desc(op, "x", d.x), dy = c_desc(op, "dy", d.dy), dx = c_desc(op, "dx", d.dx);
  const bp_relu_grad_desc desc{sizeof desc, &x, &dy, &dx, static_cast<std::int32_t>(d.nan), 0};
  return create(BP_RELU_GRAD, &desc, device, options);
}
inline bp_operator* create(const MaxPool& d, bp_device device, const Options& options) {
  const char* const op = "max_pool";
  const bp_tensor_desc x = c_desc(op, "x", d.x), y = c_desc(op, "y", d.y);
  const std::optional<bp_tensor_desc> winners = c_desc(op, "winners", d.winners);
  const bp_window window = c_desc(op, d.window);
  const bp_max_pool_desc desc{
      sizeof desc, &x, &y, address(winners), &window, static_cast<std::int32_t>(d.winners_kind), 0};
  return create(BP_MAX_POOL, &desc, device, options);
}
inline bp_operator* create(const MaxPoolGrad& d, bp_device device, const Options& options) {
  const char* const op = "max_pool_grad";
  const bp_tensor_desc dy = c_desc(op, "dy", d.dy), dx = c_desc(op, "dx", d.dx);
  const std::optional<bp_tensor_desc> x = c_desc(op, "x", d.x), winners = c_desc(op, "winners", d.winners);
  const bp_window window = c_desc(op, d.window);
  const bp_max_pool_grad_desc desc{
      sizeof desc, address(x), &dy, address(winners), &dx, &window, static_cast<std::int32_t>(d.winners_kind), 0};
  return create(BP_MAX_POOL_GRAD, &desc, device, options);
}
inline bp_operator* create(const ConvertWinners& d, bp_device device, const Options& options) {
  const char* const op = "convert_winners";
  const bp_tensor_desc from = c_desc(op, "from", d.from), to = c_desc(op, "to", d.to);
  const bp_window window = c_desc(op, d.window);
  if (!d.window.size.empty()) require_length({op, ": x_sizes:"}, d.x_sizes, d.window.size.size() + 2);
  const bp_convert_winners_desc desc{sizeof desc,
                                     &from,
                                     &to,
                                     pointer(d.x_sizes),
                                     &window,
                                     static_cast<std::int32_t>(d.from_kind),
                                     static_cast<std::int32_t>(d.to_kind)};
  return create(BP_CONVERT_WINNERS, &desc, device, options);
}
inline bp_operator* create(const Resample& d, bp_device device, const Options& options) {
  const char* const op = "resample";
  const bp_tensor_desc x = c_desc(op, "x", d.x), y = c_desc(op, "y", d.y);
  std::vector<bp_resample_table> tables;
  const bp_resample_map map = c_desc(op, d.map, d.x, d.y, tables);
  const bp_resample_desc desc{sizeof desc, &x, &y, &map};
  return create(BP_RESAMPLE, &desc, device, options);
}
inline bp_operator* create(const ResampleGrad& d, bp_device device, const Options& options) {
  const char* const op = "resample_grad";
  const bp_tensor_desc dy = c_desc(op, "dy", d.dy), dx = c_desc(op, "dx", d.dx);
  std::vector<bp_resample_table> tables;
  const bp_resample_map map = c_desc(op, d.map, d.dx, d.dy, tables);
  const bp_resample_grad_desc desc{sizeof desc, &dy, &dx, &map};
  return create(BP_RESAMPLE_GRAD, &desc, device, options);
}
inline bp_operator* create(const Slice& d, bp_device device, const Options& options) {
  const char* const op = "slice";
  const bp_tensor_desc x = c_desc(op, "x", d.x), y = c_desc(op, "y", d.y);
  const bp_slice_window window = c_desc(op, d.window);
  const bp_slice_desc desc{sizeof desc, &x, &y, &window};
  return create(BP_SLICE, &desc, device, options);
}
inline bp_operator* create(const SliceGrad& d, bp_device device, const Options& options) {
  const char* const op = "slice_grad";
  const bp_tensor_desc dy = c_desc(op, "dy", d.dy), dx = c_desc(op, "dx", d.dx);
  const bp_slice_window window = c_desc(op, d.window);
  const bp_slice_grad_desc desc{sizeof desc, &dy, &dx, &window};
  return create(BP_SLICE_GRAD, &desc, device, options);
}

// Creates, finds a workspace, runs: what the one-call forms do.
template <class Description>
void run_once(const Description& description, std::initializer_list<const void*> inputs,
              std::initializer_list<void*> outputs) {
  const Operator op(description);
  std::vector<std::max_align_t> workspace((op.workspace_size() + sizeof(std::max_align_t) - 1) /
                                          sizeof(std::max_align_t));
  op.run(inputs, outputs, workspace.data());
}

}  // namespace detail

template <OperatorDescription Description>
Operator::Operator(const Description& description, bp_device device, const Options& options)
    : op_(detail::create(description, device, options)) {}

// ---- One call, on the CPU --------------------------------------------------------------------------------

// The parameters of a pooling, in one flat list: {.window = {3, 3}, .strides = {2, 2}}.
struct PoolOptions {
  Dims window{};
  Dims strides{};
  Dims start_padding{};
  Dims end_padding{};
  Dims dilations{};
  Winners winners = Winners::compact;  // the form of stored winners, where a call has some

  [[nodiscard]] Window as_window() const { return {window, strides, start_padding, end_padding, dilations}; }
};

template <Element T, Writable U>
void relu(const Tensor<T>& x, const Tensor<U>& y) {
  detail::run_once(Relu{x, y}, {x.data()}, {y.data()});
}
template <Element T, Element U, Writable V>
void relu_grad(const Tensor<T>& x, const Tensor<U>& dy, const Tensor<V>& dx, Nan nan = Nan::zero) {
  detail::run_once(ReluGrad{x, dy, dx, nan}, {x.data(), dy.data()}, {dx.data()});
}

template <Element T, Writable U>
void max_pool(const Tensor<T>& x, const Tensor<U>& y, const PoolOptions& options) {
  detail::run_once(MaxPool{.x = x, .y = y, .window = options.as_window()}, {x.data()}, {y.data()});
}
template <Element T, Writable U, Writable W>
void max_pool(const Tensor<T>& x, const Tensor<U>& y, const Tensor<W>& winners, const PoolOptions& options) {
  detail::run_once(
      MaxPool{
          .x = x, .y = y, .winners = winners.desc(), .window = options.as_window(), .winners_kind = options.winners},
      {x.data()}, {y.data(), winners.data()});
}
template <Element T, Element U, Writable V>
void max_pool_grad(const Tensor<T>& x, const Tensor<U>& dy, const Tensor<V>& dx, const PoolOptions& options) {
  detail::run_once(MaxPoolGrad{.x = x.desc(), .dy = dy, .dx = dx, .window = options.as_window()}, {x.data(), dy.data()},
                   {dx.data()});
}
// From stored winners instead of x.
template <Element W, Element U, Writable V>
void max_pool_grad_from(const Tensor<W>& winners, const Tensor<U>& dy, const Tensor<V>& dx,
                        const PoolOptions& options) {
  detail::run_once(MaxPoolGrad{.dy = dy,
                               .winners = winners.desc(),
                               .dx = dx,
                               .window = options.as_window(),
                               .winners_kind = options.winners},
                   {nullptr, dy.data(), winners.data()}, {dx.data()});
}

// Stored winners from one form to another; options.window and its companions are those of the pooling.
template <Element W, Writable V>
void convert_winners(const Tensor<W>& from, Winners from_kind, const Tensor<V>& to, Winners to_kind, Dims x_sizes,
                     const PoolOptions& options) {
  detail::run_once(ConvertWinners{from, to, std::move(x_sizes), options.as_window(), from_kind, to_kind}, {from.data()},
                   {to.data()});
}

template <Element T, Writable U>
void resample(const Tensor<T>& x, const Tensor<U>& y, const ResampleMap& map = {}) {
  detail::run_once(Resample{x, y, map}, {x.data()}, {y.data()});
}
template <Element U, Writable V>
void resample_grad(const Tensor<U>& dy, const Tensor<V>& dx, const ResampleMap& map = {}) {
  detail::run_once(ResampleGrad{dy, dx, map}, {dy.data()}, {dx.data()});
}

template <Element T, Writable U>
void slice(const Tensor<T>& x, const Tensor<U>& y, const SliceWindow& window) {
  detail::run_once(Slice{x, y, window}, {x.data()}, {y.data()});
}
template <Element U, Writable V>
void slice_grad(const Tensor<U>& dy, const Tensor<V>& dx, const SliceWindow& window) {
  detail::run_once(SliceGrad{dy, dx, window}, {dy.data()}, {dx.data()});
}

}  // namespace backpass

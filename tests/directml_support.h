// SPDX-License-Identifier: Apache-2.0
// Words for the tests of the DirectML door: a call that is accepted and can be spoiled in any field, and its run.
#pragma once

#include <backpass/directml.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace directml {

using Uints = std::vector<UINT>;
using Ints = std::vector<INT>;
using Floats = std::vector<FLOAT>;

// Puts a number into an enum's memory, whether it is one of its enumerators or not. (To load it as the enum would be
// undefined where it is out of range.)
template <class Enum>
void set(Enum& field, int number) {
  static_assert(sizeof field == sizeof number);
  std::memcpy(&field, &number, sizeof field);
}

// ---- A call that can be spoiled --------------------------------------------------------------------------

// In all of these an absent value is a null pointer.
struct View {
  int type = DML_TENSOR_DATA_TYPE_FLOAT32;
  std::optional<Uints> sizes{};
  std::optional<Uints> strides{};
  int flags = 0;
  std::optional<UINT> rank{};     // absent: as many as sizes
  std::optional<UINT64> total{};  // absent: as much as there can be need for
  UINT alignment = 0;
  int tensor_type = DML_TENSOR_TYPE_BUFFER;
  bool null_desc = false;
};

struct Call {
  int type = 0;
  int level = DML_FEATURE_LEVEL_6_4;
  std::vector<std::optional<View>> tensors{};  // in the order of the struct
  UINT count = 0;                              // DimensionCount, ScaleCount
  std::optional<Uints> strides{}, window{}, start_padding{}, end_padding{}, dilations{};
  int mode = DML_INTERPOLATION_MODE_LINEAR, rounding = DML_AXIS_DIRECTION_INCREASING;
  std::optional<Floats> scales{}, input_offsets{}, output_offsets{};
  std::optional<Uints> offsets{}, sizes{};  // of slices
  std::optional<Ints> signed_strides{};
  std::uint32_t flags = 0;
  bp_device device{BP_DEVICE_CPU, 0};
  const bp_options* options = nullptr;
  bool null_desc = false;

  View& tensor(std::size_t i) { return tensors.at(i).value(); }
};

inline const std::vector<int> kFourteen{DML_OPERATOR_ACTIVATION_RELU, DML_OPERATOR_ACTIVATION_RELU_GRAD,
                                        DML_OPERATOR_MAX_POOLING,     DML_OPERATOR_MAX_POOLING1,
                                        DML_OPERATOR_MAX_POOLING2,    DML_OPERATOR_MAX_POOLING_GRAD,
                                        DML_OPERATOR_RESAMPLE,        DML_OPERATOR_RESAMPLE1,
                                        DML_OPERATOR_RESAMPLE2,       DML_OPERATOR_RESAMPLE_GRAD,
                                        DML_OPERATOR_RESAMPLE_GRAD1,  DML_OPERATOR_SLICE,
                                        DML_OPERATOR_SLICE1,          DML_OPERATOR_SLICE_GRAD};

inline std::string name(int type) {
  static const std::vector<std::string> names{"ACTIVATION_RELU", "ACTIVATION_RELU_GRAD",
                                              "MAX_POOLING",     "MAX_POOLING1",
                                              "MAX_POOLING2",    "MAX_POOLING_GRAD",
                                              "RESAMPLE",        "RESAMPLE1",
                                              "RESAMPLE2",       "RESAMPLE_GRAD",
                                              "RESAMPLE_GRAD1",  "SLICE",
                                              "SLICE1",          "SLICE_GRAD"};
  const auto found = std::find(kFourteen.begin(), kFourteen.end(), type) - kFourteen.begin();
  return "DML_OPERATOR_" + names.at(static_cast<std::size_t>(found));
}

inline bool is_pooling(int type) {
  return type == DML_OPERATOR_MAX_POOLING || type == DML_OPERATOR_MAX_POOLING1 || type == DML_OPERATOR_MAX_POOLING2 ||
         type == DML_OPERATOR_MAX_POOLING_GRAD;
}
inline bool has_indices(int type) { return type == DML_OPERATOR_MAX_POOLING1 || type == DML_OPERATOR_MAX_POOLING2; }
inline bool is_gradient(int type) {
  return type == DML_OPERATOR_ACTIVATION_RELU_GRAD || type == DML_OPERATOR_MAX_POOLING_GRAD ||
         type == DML_OPERATOR_RESAMPLE_GRAD || type == DML_OPERATOR_RESAMPLE_GRAD1 || type == DML_OPERATOR_SLICE_GRAD;
}
inline bool is_slice(int type) {
  return type == DML_OPERATOR_SLICE || type == DML_OPERATOR_SLICE1 || type == DML_OPERATOR_SLICE_GRAD;
}
inline bool is_relu(int type) {
  return type == DML_OPERATOR_ACTIVATION_RELU || type == DML_OPERATOR_ACTIVATION_RELU_GRAD;
}
inline bool is_resample(int type) { return !is_pooling(type) && !is_slice(type) && !is_relu(type); }

inline std::vector<std::string> tensor_names(int type) {
  if (type == DML_OPERATOR_ACTIVATION_RELU_GRAD || type == DML_OPERATOR_MAX_POOLING_GRAD) {
    return {"InputTensor", "InputGradientTensor", "OutputGradientTensor"};
  }
  if (is_gradient(type)) return {"InputGradientTensor", "OutputGradientTensor"};
  if (has_indices(type)) return {"InputTensor", "OutputTensor", "OutputIndicesTensor"};
  return {"InputTensor", "OutputTensor"};
}

// How many of the tensors, from the first, are inputs.
inline std::size_t input_count(int type) {
  return type == DML_OPERATOR_ACTIVATION_RELU_GRAD || type == DML_OPERATOR_MAX_POOLING_GRAD ? 2 : 1;
}

// A call that keeps every constraint, of any rank: the forward input has N = C = 1 and 3 on the other axes, the output
// 2 there. Without indices.
inline Call valid(int type, int data_type = DML_TENSOR_DATA_TYPE_FLOAT32, std::size_t rank = 4) {
  Uints whole(rank, 3), part(rank, 2);
  for (std::size_t i = 0; i < std::min<std::size_t>(rank, 2); ++i) whole[i] = part[i] = 1;
  const View x{.type = data_type, .sizes = whole};
  const View y{.type = data_type, .sizes = is_relu(type) ? whole : part};
  Call c{.type = type, .tensors = {x, y}, .count = static_cast<UINT>(rank)};
  if (is_gradient(type)) c.tensors = {y, x};
  if (input_count(type) == 2) c.tensors = {x, y, x};
  if (has_indices(type)) c.tensors = {x, y, std::nullopt};
  if (is_pooling(type)) {
    const std::size_t spatial = rank < 2 ? 0 : rank - 2;
    c.count = static_cast<UINT>(spatial);
    c.strides = c.dilations = Uints(spatial + 1, 1);  // one more, so that an empty one has an address too
    c.start_padding = c.end_padding = Uints(spatial + 1, 0);
    c.window = Uints(spatial + 1, 2);
  }
  c.scales = Floats(rank, 1);
  c.input_offsets = Floats(rank, 0.5F);
  c.output_offsets = Floats(rank, -0.5F);
  if (is_slice(type)) {
    c.offsets = Uints(rank, 0);
    c.sizes = part;
    c.strides = Uints(rank, 1);
    c.signed_strides = Ints(rank, 1);
  }
  return c;
}

// ---- The descs -------------------------------------------------------------------------------------------

template <class T>
const T* data(const std::optional<std::vector<T>>& values) {
  return values ? values->data() : nullptr;
}

// A tensor's two structs, which point at each other and at the view.
class TensorDesc {
 public:
  explicit TensorDesc(const std::optional<View>& view) {
    if (!view) return;
    set(buffer_.DataType, view->type);
    set(buffer_.Flags, view->flags);
    buffer_.DimensionCount = view->rank.value_or(view->sizes ? static_cast<UINT>(view->sizes->size()) : 0);
    buffer_.Sizes = data(view->sizes);
    buffer_.Strides = data(view->strides);
    buffer_.TotalTensorSizeInBytes = view->total.value_or(UINT64{1} << 40);
    buffer_.GuaranteedBaseOffsetAlignment = view->alignment;
    set(desc_.Type, view->tensor_type);
    desc_.Desc = view->null_desc ? nullptr : &buffer_;
    present_ = true;
  }
  TensorDesc(const TensorDesc&) = delete;
  TensorDesc& operator=(const TensorDesc&) = delete;
  [[nodiscard]] const DML_TENSOR_DESC* get() const { return present_ ? &desc_ : nullptr; }

 private:
  DML_BUFFER_TENSOR_DESC buffer_{};
  DML_TENSOR_DESC desc_{};
  bool present_ = false;
};

struct OperatorDeleter {
  void operator()(bp_operator* op) const { bp_operator_destroy(op); }
};

struct Answer {
  std::int32_t hresult = 0;
  std::string error;
  std::unique_ptr<bp_operator, OperatorDeleter> op;
};

// Asks both entry points; what they say of the same call must agree.
inline Answer ask(const Call& c, const void* desc) {
  DML_OPERATOR_DESC wrapped{DML_OPERATOR_INVALID, c.null_desc ? nullptr : desc};
  set(wrapped.Type, c.type);
  const auto level = static_cast<DML_FEATURE_LEVEL>(c.level);  // tests stay within 0 to 0x7fff
  int not_a_handle = 0;
  auto* op = reinterpret_cast<bp_operator*>(&not_a_handle);  // a failing create must replace it by null
  Answer answer;
  answer.hresult = bp_dml_create_operator_ex(&wrapped, level, c.device, c.flags, c.options, &op);
  if (answer.hresult != 0) {
    answer.error = bp_last_error();
    EXPECT_EQ(op, nullptr) << answer.error;
    EXPECT_NE(answer.error, "");
  } else {
    EXPECT_NE(op, nullptr);
    answer.op.reset(op);
  }
  if (c.flags == 0 && c.options == nullptr && c.device.kind == BP_DEVICE_CPU && c.device.ordinal == 0) {
    EXPECT_EQ(bp_dml_check_support(&wrapped, level), answer.hresult) << answer.error;
    if (answer.hresult != 0) {
      EXPECT_EQ(bp_last_error(), answer.error);
    }
  }
  return answer;
}

inline Answer create(const Call& c) {
  static const std::optional<View> kNone;
  const TensorDesc a(c.tensors.at(0)), b(c.tensors.at(1)), third(c.tensors.size() > 2 ? c.tensors[2] : kNone);
  constexpr DML_INTERPOLATION_MODE kMode{};  // set below
  constexpr DML_AXIS_DIRECTION kRounding{};
  const auto finish = [&](auto desc) {
    if constexpr (requires { desc.InterpolationMode; }) set(desc.InterpolationMode, c.mode);
    if constexpr (requires { desc.RoundingDirection; }) set(desc.RoundingDirection, c.rounding);
    return ask(c, &desc);
  };
  switch (c.type) {
    case DML_OPERATOR_ACTIVATION_RELU:
      return finish(DML_ACTIVATION_RELU_OPERATOR_DESC{a.get(), b.get()});
    case DML_OPERATOR_ACTIVATION_RELU_GRAD:
      return finish(DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC{a.get(), b.get(), third.get()});
    case DML_OPERATOR_MAX_POOLING:
      return finish(DML_MAX_POOLING_OPERATOR_DESC{a.get(), b.get(), c.count, data(c.strides), data(c.window),
                                                  data(c.start_padding), data(c.end_padding)});
    case DML_OPERATOR_MAX_POOLING1:
      return finish(DML_MAX_POOLING1_OPERATOR_DESC{a.get(), b.get(), third.get(), c.count, data(c.strides),
                                                   data(c.window), data(c.start_padding), data(c.end_padding)});
    case DML_OPERATOR_MAX_POOLING2:
      return finish(DML_MAX_POOLING2_OPERATOR_DESC{a.get(), b.get(), third.get(), c.count, data(c.strides),
                                                   data(c.window), data(c.start_padding), data(c.end_padding),
                                                   data(c.dilations)});
    case DML_OPERATOR_MAX_POOLING_GRAD:
      return finish(DML_MAX_POOLING_GRAD_OPERATOR_DESC{a.get(), b.get(), third.get(), c.count, data(c.strides),
                                                       data(c.window), data(c.start_padding), data(c.end_padding),
                                                       data(c.dilations)});
    case DML_OPERATOR_RESAMPLE:
      return finish(DML_RESAMPLE_OPERATOR_DESC{a.get(), b.get(), kMode, c.count, data(c.scales)});
    case DML_OPERATOR_RESAMPLE1:
      return finish(DML_RESAMPLE1_OPERATOR_DESC{a.get(), b.get(), kMode, c.count, data(c.scales), data(c.input_offsets),
                                                data(c.output_offsets)});
    case DML_OPERATOR_RESAMPLE2:
      return finish(DML_RESAMPLE2_OPERATOR_DESC{a.get(), b.get(), kMode, kRounding, c.count, data(c.scales),
                                                data(c.input_offsets), data(c.output_offsets)});
    case DML_OPERATOR_RESAMPLE_GRAD:
      return finish(DML_RESAMPLE_GRAD_OPERATOR_DESC{a.get(), b.get(), kMode, c.count, data(c.scales),
                                                    data(c.input_offsets), data(c.output_offsets)});
    case DML_OPERATOR_RESAMPLE_GRAD1:
      return finish(DML_RESAMPLE_GRAD1_OPERATOR_DESC{a.get(), b.get(), kMode, kRounding, c.count, data(c.scales),
                                                     data(c.input_offsets), data(c.output_offsets)});
    case DML_OPERATOR_SLICE:
      return finish(
          DML_SLICE_OPERATOR_DESC{a.get(), b.get(), c.count, data(c.offsets), data(c.sizes), data(c.strides)});
    case DML_OPERATOR_SLICE1:
      return finish(
          DML_SLICE1_OPERATOR_DESC{a.get(), b.get(), c.count, data(c.offsets), data(c.sizes), data(c.signed_strides)});
    case DML_OPERATOR_SLICE_GRAD:
      return finish(DML_SLICE_GRAD_OPERATOR_DESC{a.get(), b.get(), c.count, data(c.offsets), data(c.sizes),
                                                 data(c.signed_strides)});
    default:
      return finish(0);
  }
}

// ---- Expectations ----------------------------------------------------------------------------------------

inline constexpr std::int32_t kOk = 0;
inline constexpr auto kInvalid = static_cast<std::int32_t>(0x80070057U);
inline constexpr auto kUnsupported = static_cast<std::int32_t>(0x887A0004U);

inline void expect_accepted(const Call& c) { EXPECT_EQ(create(c).hresult, kOk) << bp_last_error(); }
inline void expect_refused(const Call& c, std::int32_t hresult, const std::string& sentence) {
  const Answer answer = create(c);
  EXPECT_EQ(answer.error, sentence);
  EXPECT_EQ(answer.hresult, hresult) << sentence;
}

// ---- Runs ------------------------------------------------------------------------------------------------

// The tensor as memory: an element for each place that its strides reach.
class Memory {
 public:
  explicit Memory(const View& view) : sizes_(view.sizes.value()), strides_(view.strides.value_or(Uints())) {
    if (strides_.empty()) {
      strides_.resize(sizes_.size(), 1);
      for (std::size_t i = sizes_.size() - 1; i-- > 0;) strides_[i] = strides_[i + 1] * sizes_[i + 1];
    }
  }
  // The place of each element, in row-major order.
  [[nodiscard]] std::vector<std::size_t> places() const {
    std::vector<std::size_t> all{0};
    for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
      std::vector<std::size_t> next;
      for (const std::size_t base : all) {
        for (std::size_t i = 0; i < sizes_[axis]; ++i) next.push_back(base + i * strides_[axis]);
      }
      all = next;
    }
    return all;
  }

 private:
  Uints sizes_, strides_;
};

template <class T>
std::vector<T> scattered(const View& view, const std::vector<T>& values) {
  const std::vector<std::size_t> places = Memory(view).places();
  if (values.size() != places.size()) throw std::runtime_error("as many values as elements, please");
  std::vector<T> memory(*std::max_element(places.begin(), places.end()) + 1, T{});
  for (std::size_t i = 0; i < places.size(); ++i) memory[places[i]] = values[i];
  return memory;
}

template <class T>
std::vector<T> gathered(const View& view, const std::vector<T>& memory) {
  std::vector<T> values;
  for (const std::size_t place : Memory(view).places()) values.push_back(memory.at(place));
  return values;
}

// Runs a call without indices on inputs given in row-major order; gives the output in row-major order.
template <class T>
std::vector<T> run(const Call& c, const std::vector<std::vector<T>>& inputs) {
  const Answer created = create(c);
  if (created.hresult != kOk) throw std::runtime_error(created.error);
  std::vector<std::vector<T>> memory;
  std::vector<const void*> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) memory.push_back(scattered(*c.tensors.at(i), inputs[i]));
  for (const std::vector<T>& m : memory) in.push_back(m.data());
  const View& output = c.tensors.at(inputs.size()).value();
  const std::vector<std::size_t> places = Memory(output).places();
  std::vector<T> out(*std::max_element(places.begin(), places.end()) + 1, T(99));
  void* const outs[] = {out.data()};
  std::size_t bytes = 0;
  EXPECT_EQ(bp_operator_workspace_size(created.op.get(), &bytes), BP_OK);
  std::vector<std::max_align_t> workspace(bytes / sizeof(std::max_align_t) + 1);
  EXPECT_EQ(bp_operator_run(created.op.get(), in.data(), in.size(), outs, 1, workspace.data(), nullptr), BP_OK)
      << bp_last_error();
  return gathered(output, out);
}

}  // namespace directml

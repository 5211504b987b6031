// SPDX-License-Identifier: Apache-2.0
// The DirectML door: reads DML_* descs, checks them in DirectML's own words, and hands them to bp_operator_create.
//
// Every broken constraint comes before every table, even for types and ranks that the library itself does not have; so
// the constraints are tested here, on the whole desc, and bp_operator_create has nothing left to refuse but the device
// and the options.
#include "api/directml_fields.h"
#include "api/directml_tables.h"
#include "api/guard.h"
#include "core/checked.h"
#include "core/float_mode.h"
#include "core/tensor.h"
#include "ops/max_pool/geometry.h"

#include <backpass/directml.h>

#include <cmath>

namespace bp::dml {

namespace {

constexpr int kLastOperatorType = DML_OPERATOR_UNFOLD;

// Where the created operator goes.
struct Target {
  bp_device device;
  const bp_options* options;
  bp_operator** op;
};

struct Call {
  const OperatorFacts& facts;
  const LevelFacts& level;
  bool offsets_swapped;
  const Target* target;  // null: only the answer is wanted

  [[nodiscard]] std::string_view op() const { return facts.name; }
};

// ---- The level's tables --------------------------------------------------------------------------------

void require_type(const Call& call, const Field& field, DataTypes listed) {
  if (listed.contains(field.type)) return;
  unsupported("{}: {}: DataType is {}, expected one of {} at {}", call.op(), field.name, kDataTypes[field.type].name,
              listed.names(), call.level.name);
}

void require_listed(const Call& call, const Field& data, const Field* indices) {
  const Row* row = find_row(call.facts, call.level.value);
  if (row == nullptr) {
    unsupported("{}: level: is {}, expected {} or above", call.op(), call.level.name,
                find_level(call.facts.rows.back().from)->name);
  }
  if (data.view.rank < row->least_rank || data.view.rank > row->most_rank) {
    const std::string ranks = row->least_rank == row->most_rank
                                  ? std::to_string(row->least_rank)
                                  : fmt::format("{} to {}", row->least_rank, row->most_rank);
    unsupported("{}: {}: DimensionCount is {}, expected {} at {}", call.op(), data.name, data.view.rank, ranks,
                call.level.name);
  }
  require_type(call, data, row->types);
  if (indices != nullptr) require_type(call, *indices, row->indices);
}

// The last step of every translation. All data tensors are like `data`.
void finish(const Call& call, const Field& data, const Field* indices, std::int32_t kind, const void* desc) {
  require_listed(call, data, indices);
  if (call.target == nullptr) return;
  const bp_status status = bp_operator_create(kind, desc, call.target->device, call.target->options, call.target->op);
  if (status == BP_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != BP_OK) throw Failure(status, fmt::format("{}: {}", call.op(), last_error()));
}

// ---- ReLU ----------------------------------------------------------------------------------------------

void translate(const Call& call, const DML_ACTIVATION_RELU_OPERATOR_DESC& given) {
  const Field x = read_tensor(call.op(), "InputTensor", Role::input, given.InputTensor);
  const Field y = read_tensor(call.op(), "OutputTensor", Role::output, given.OutputTensor);
  require_alike(call.op(), y, x);
  require_same_sizes(call.op(), y.name, y.view, x.name, x.view);
  const bp_tensor_desc x_desc = x.desc(), y_desc = y.desc();
  const bp_relu_desc desc{sizeof desc, &x_desc, &y_desc};
  finish(call, x, nullptr, BP_RELU, &desc);
}

void translate(const Call& call, const DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC& given) {
  const Field x = read_tensor(call.op(), "InputTensor", Role::input, given.InputTensor);
  const Field dy = read_tensor(call.op(), "InputGradientTensor", Role::input, given.InputGradientTensor);
  const Field dx = read_tensor(call.op(), "OutputGradientTensor", Role::output, given.OutputGradientTensor);
  for (const Field* field : {&dy, &dx}) {
    require_alike(call.op(), *field, x);
    require_same_sizes(call.op(), field->name, field->view, x.name, x.view);
  }
  const bp_tensor_desc x_desc = x.desc(), dy_desc = dy.desc(), dx_desc = dx.desc();
  const bp_relu_grad_desc desc{sizeof desc, &x_desc, &dy_desc, &dx_desc, BP_NAN_ZERO, 0};
  finish(call, x, nullptr, BP_RELU_GRAD, &desc);
}

// ---- Max pooling ---------------------------------------------------------------------------------------

// The parameters of a pooling desc; the older ones have no dilations.
struct Pooling {
  UINT count;
  const UINT* strides;
  const UINT* window;
  const UINT* start_padding;
  const UINT* end_padding;
  const UINT* dilations = nullptr;
};

struct Window {
  int rank = 0;
  Dims size{}, strides{}, start_padding{}, end_padding{}, dilations{};

  [[nodiscard]] bp_window desc() const {
    return {sizeof(bp_window), rank, 0, size.data(), strides.data(), start_padding.data(), end_padding.data(),
            dilations.data()};
  }
};

std::int64_t read_parameter(std::string_view op, std::string_view name, int i, const UINT* values, UINT least) {
  if (values[i] < least || values[i] >= kParameterLimit) {
    invalid("{}: {}: spatial axis {}: is {}, expected {} to 2^31 - 1", op, name, i, values[i], least);
  }
  return values[i];
}

PoolAxis read_pool_axis(std::string_view op, const Pooling& given, int i, const Field& x, const Field& y) {
  PoolAxis axis{.input = x.view.sizes[i + 2], .output = y.view.sizes[i + 2]};
  axis.stride = read_parameter(op, "Strides", i, given.strides, 1);
  axis.window = read_parameter(op, "WindowSize", i, given.window, 1);
  axis.start_padding = read_parameter(op, "StartPadding", i, given.start_padding, 0);
  axis.end_padding = read_parameter(op, "EndPadding", i, given.end_padding, 0);
  if (given.dilations != nullptr) axis.dilation = read_parameter(op, "Dilations", i, given.dilations, 1);
  const std::int64_t padded = axis.input + axis.start_padding + axis.end_padding;
  if (axis.extent() > padded) {
    invalid(
        "{}: WindowSize: spatial axis {}: spans {} ({}, dilation {}), expected at most {} (size {} and padding {} + "
        "{})",
        op, i, axis.extent(), counted(axis.window, "tap", "taps"), axis.dilation, padded, axis.input,
        axis.start_padding, axis.end_padding);
  }
  if (axis.output > axis.ceil_size()) {
    invalid("{}: {}: axis {}: size is {}, expected 1 to {} (with whole windows only: {})", op, y.name, i + 2,
            axis.output, axis.ceil_size(), axis.floor_size());
  }
  return axis;
}

Window read_window(std::string_view op, const Pooling& given, const Field& x, const Field& y) {
  require_array(op, "Strides", given.strides, given.count);
  require_array(op, "WindowSize", given.window, given.count);
  require_array(op, "StartPadding", given.start_padding, given.count);
  require_array(op, "EndPadding", given.end_padding, given.count);
  Window window;
  // Without a spatial axis no count could be right: the rank is what is wrong, and no table lists it.
  if (x.view.rank <= 2) return window;
  window.rank = x.view.rank - 2;
  if (given.count != static_cast<UINT>(window.rank)) {
    invalid("{}: DimensionCount: is {}, expected {} (rank {} of {} less 2)", op, given.count, window.rank, x.view.rank,
            x.name);
  }
  for (int i = 0; i < 2; ++i) {
    if (y.view.sizes[i] != x.view.sizes[i]) {
      invalid("{}: {}: axis {}: size is {}, expected {} (that of {})", op, y.name, i, y.view.sizes[i], x.view.sizes[i],
              x.name);
    }
  }
  std::int64_t taps = 1;
  for (int i = 0; i < window.rank; ++i) {
    const PoolAxis axis = read_pool_axis(op, given, i, x, y);
    window.size[i] = axis.window;
    window.strides[i] = axis.stride;
    window.start_padding[i] = axis.start_padding;
    window.end_padding[i] = axis.end_padding;
    window.dilations[i] = axis.dilation;
    taps *= axis.window;  // below 2^32 times below 2^31
    if (taps > kMostTaps) invalid("{}: WindowSize: has more than 2^32 - 2 taps, expected at most that", op);
  }
  return window;
}

void max_pooling(const Call& call, const DML_TENSOR_DESC* input, const DML_TENSOR_DESC* output,
                 const DML_TENSOR_DESC* output_indices, const Pooling& given) {
  const Field x = read_tensor(call.op(), "InputTensor", Role::input, input);
  const Field y = read_tensor(call.op(), "OutputTensor", Role::output, output);
  require_alike(call.op(), y, x);
  Field indices;
  const bool stores = output_indices != nullptr;
  if (stores) {
    indices = read_tensor(call.op(), "OutputIndicesTensor", Role::output, output_indices);
    require_same_sizes(call.op(), indices.name, indices.view, y.name, y.view);
  }
  const Window window = read_window(call.op(), given, x, y);
  const bp_tensor_desc x_desc = x.desc(), y_desc = y.desc(), indices_desc = indices.desc();
  const bp_window window_desc = window.desc();
  const bp_max_pool_desc desc{sizeof desc,
                              &x_desc,
                              &y_desc,
                              stores ? &indices_desc : nullptr,
                              &window_desc,
                              stores ? BP_WINNERS_FLAT : BP_WINNERS_NONE,
                              0};
  finish(call, x, stores ? &indices : nullptr, BP_MAX_POOL, &desc);
}

void translate(const Call& call, const DML_MAX_POOLING_OPERATOR_DESC& given) {
  max_pooling(call, given.InputTensor, given.OutputTensor, nullptr,
              {given.DimensionCount, given.Strides, given.WindowSize, given.StartPadding, given.EndPadding});
}

void translate(const Call& call, const DML_MAX_POOLING1_OPERATOR_DESC& given) {
  max_pooling(call, given.InputTensor, given.OutputTensor, given.OutputIndicesTensor,
              {given.DimensionCount, given.Strides, given.WindowSize, given.StartPadding, given.EndPadding});
}

void translate(const Call& call, const DML_MAX_POOLING2_OPERATOR_DESC& given) {
  require_array(call.op(), "Dilations", given.Dilations, given.DimensionCount);
  max_pooling(
      call, given.InputTensor, given.OutputTensor, given.OutputIndicesTensor,
      {given.DimensionCount, given.Strides, given.WindowSize, given.StartPadding, given.EndPadding, given.Dilations});
}

void translate(const Call& call, const DML_MAX_POOLING_GRAD_OPERATOR_DESC& given) {
  const Field x = read_tensor(call.op(), "InputTensor", Role::input, given.InputTensor);
  const Field dy = read_tensor(call.op(), "InputGradientTensor", Role::input, given.InputGradientTensor);
  const Field dx = read_tensor(call.op(), "OutputGradientTensor", Role::output, given.OutputGradientTensor);
  require_alike(call.op(), dy, x);
  require_alike(call.op(), dx, x);
  require_same_sizes(call.op(), dx.name, dx.view, x.name, x.view);
  require_array(call.op(), "Dilations", given.Dilations, given.DimensionCount);
  const Window window = read_window(
      call.op(),
      {given.DimensionCount, given.Strides, given.WindowSize, given.StartPadding, given.EndPadding, given.Dilations}, x,
      dy);
  const bp_tensor_desc x_desc = x.desc(), dy_desc = dy.desc(), dx_desc = dx.desc();
  const bp_window window_desc = window.desc();
  const bp_max_pool_grad_desc desc{sizeof desc, &x_desc, &dy_desc, nullptr, &dx_desc, &window_desc, BP_WINNERS_NONE, 0};
  finish(call, x, nullptr, BP_MAX_POOL_GRAD, &desc);
}

// ---- Resample ------------------------------------------------------------------------------------------

using Reals = std::array<double, kMaxRank>;

// The parameters of a resample desc. The older ones round half up, the oldest samples at the centers of pixels.
struct Sampling {
  std::string_view count_name;
  UINT count;
  int mode;
  int rounding;
  const FLOAT* scales;
  const FLOAT* input_offsets;
  const FLOAT* output_offsets;
};

template <class Desc>
Sampling sampling_of(const Desc& given, int rounding) {
  return {"DimensionCount",        given.DimensionCount,    number_of(given.InterpolationMode), rounding, given.Scales,
          given.InputPixelOffsets, given.OutputPixelOffsets};
}

template <class Desc>
int rounding_of(std::string_view op, const Desc& given) {
  return require_enum(op, "RoundingDirection", number_of(given.RoundingDirection), "INCREASING", "DECREASING") == 0
             ? BP_ROUND_INCREASING
             : BP_ROUND_DECREASING;
}

Reals read_reals(std::string_view op, std::string_view name, const FLOAT* values, UINT count) {
  require_array(op, name, values, count);
  Reals result{};
  for (UINT i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) {
      invalid("{}: {}: axis {}: is {}, expected a finite number", op, name, i, values[i]);
    }
    result[i] = values[i];
  }
  return result;
}

struct Map {
  int mode = BP_NEAREST;
  int rounding = BP_ROUND_HALF_UP;
  int rank = 0;
  Reals scales{}, input_offsets{}, output_offsets{};

  [[nodiscard]] bp_resample_map desc() const {
    return {sizeof(bp_resample_map), mode,   rounding, BP_HALF_PIXEL, rank, scales.data(), input_offsets.data(),
            output_offsets.data(),   nullptr};
  }
};

Map read_map(std::string_view op, const Sampling& given, const Field& tensor) {
  require_count(op, given.count_name, given.count, tensor);
  Map map{.rounding = given.rounding, .rank = tensor.view.rank};
  map.mode =
      require_enum(op, "InterpolationMode", given.mode, "NEAREST_NEIGHBOR", "LINEAR") == 0 ? BP_NEAREST : BP_LINEAR;
  map.scales = read_reals(op, "Scales", given.scales, given.count);
  for (UINT i = 0; i < given.count; ++i) {
    if (map.scales[i] <= 0) invalid("{}: Scales: axis {}: is {}, expected a number above 0", op, i, map.scales[i]);
  }
  map.input_offsets = read_reals(op, "InputPixelOffsets", given.input_offsets, given.count);
  map.output_offsets = read_reals(op, "OutputPixelOffsets", given.output_offsets, given.count);
  return map;
}

void resample(const Call& call, const DML_TENSOR_DESC* input, const DML_TENSOR_DESC* output, const Sampling& given) {
  const Field x = read_tensor(call.op(), "InputTensor", Role::input, input);
  const Field y = read_tensor(call.op(), "OutputTensor", Role::output, output);
  require_alike(call.op(), y, x);
  const Map map = read_map(call.op(), given, x);
  const bp_tensor_desc x_desc = x.desc(), y_desc = y.desc();
  const bp_resample_map map_desc = map.desc();
  const bp_resample_desc desc{sizeof desc, &x_desc, &y_desc, &map_desc};
  finish(call, x, nullptr, BP_RESAMPLE, &desc);
}

void resample_grad(const Call& call, const DML_TENSOR_DESC* input, const DML_TENSOR_DESC* output,
                   const Sampling& given) {
  const Field dy = read_tensor(call.op(), "InputGradientTensor", Role::input, input);
  const Field dx = read_tensor(call.op(), "OutputGradientTensor", Role::output, output);
  require_alike(call.op(), dx, dy);
  Map map = read_map(call.op(), given, dy);
  if (call.offsets_swapped) std::swap(map.input_offsets, map.output_offsets);
  const bp_tensor_desc dy_desc = dy.desc(), dx_desc = dx.desc();
  const bp_resample_map map_desc = map.desc();
  const bp_resample_grad_desc desc{sizeof desc, &dy_desc, &dx_desc, &map_desc};
  finish(call, dy, nullptr, BP_RESAMPLE_GRAD, &desc);
}

void translate(const Call& call, const DML_RESAMPLE_OPERATOR_DESC& given) {
  constexpr FLOAT kHalf = 0.5F;
  std::array<FLOAT, kMaxRank> input_offsets{}, output_offsets{};
  input_offsets.fill(kHalf);
  output_offsets.fill(-kHalf);
  resample(call, given.InputTensor, given.OutputTensor,
           {"ScaleCount", given.ScaleCount, number_of(given.InterpolationMode), BP_ROUND_HALF_UP, given.Scales,
            input_offsets.data(), output_offsets.data()});
}

void translate(const Call& call, const DML_RESAMPLE1_OPERATOR_DESC& given) {
  resample(call, given.InputTensor, given.OutputTensor, sampling_of(given, BP_ROUND_HALF_UP));
}

void translate(const Call& call, const DML_RESAMPLE2_OPERATOR_DESC& given) {
  resample(call, given.InputTensor, given.OutputTensor, sampling_of(given, rounding_of(call.op(), given)));
}

void translate(const Call& call, const DML_RESAMPLE_GRAD_OPERATOR_DESC& given) {
  resample_grad(call, given.InputGradientTensor, given.OutputGradientTensor, sampling_of(given, BP_ROUND_HALF_UP));
}

void translate(const Call& call, const DML_RESAMPLE_GRAD1_OPERATOR_DESC& given) {
  resample_grad(call, given.InputGradientTensor, given.OutputGradientTensor,
                sampling_of(given, rounding_of(call.op(), given)));
}

// ---- Slice ---------------------------------------------------------------------------------------------

struct Slicing {
  int rank = 0;
  Dims offsets{}, sizes{}, strides{};

  [[nodiscard]] bp_slice_window desc() const {
    return {sizeof(bp_slice_window), rank, 0, offsets.data(), sizes.data(), strides.data()};
  }
};

// The two tensors, and where the elements of one lie in the other.
void finish_slice(const Call& call, const Field& x, const Field& y, const Slicing& slicing) {
  const bp_tensor_desc x_desc = x.desc(), y_desc = y.desc();
  const bp_slice_window window = slicing.desc();
  const bp_slice_desc desc{sizeof desc, &x_desc, &y_desc, &window};
  finish(call, x, nullptr, BP_SLICE, &desc);
}

void translate(const Call& call, const DML_SLICE_OPERATOR_DESC& given) {
  const std::string_view op = call.op();
  const Field x = read_tensor(op, "InputTensor", Role::input, given.InputTensor);
  const Field y = read_tensor(op, "OutputTensor", Role::output, given.OutputTensor);
  require_alike(op, y, x);
  require_count(op, "DimensionCount", given.DimensionCount, x);
  require_array(op, "Offsets", given.Offsets, given.DimensionCount);
  require_array(op, "Sizes", given.Sizes, given.DimensionCount);
  require_array(op, "Strides", given.Strides, given.DimensionCount);
  Slicing slicing{.rank = x.view.rank};
  for (int i = 0; i < slicing.rank; ++i) {
    if (given.Sizes[i] != y.view.sizes[i]) {
      invalid("{}: Sizes: axis {}: is {}, expected {} (that of {})", op, i, given.Sizes[i], y.view.sizes[i], y.name);
    }
    if (given.Strides[i] < 1 || given.Strides[i] >= kParameterLimit) {
      invalid("{}: Strides: axis {}: is {}, expected 1 to 2^31 - 1", op, i, given.Strides[i]);
    }
    slicing.offsets[i] = given.Offsets[i];
    slicing.strides[i] = given.Strides[i];
    slicing.sizes[i] = (y.view.sizes[i] - 1) * slicing.strides[i] + 1;  // below 2^32 times below 2^31
    if (slicing.sizes[i] > x.view.sizes[i] - slicing.offsets[i]) {
      invalid("{}: Offsets: axis {}: the last element read is {} + {} * {}, expected below {} (the size of {})", op, i,
              given.Offsets[i], given.Strides[i], given.Sizes[i] - 1, x.view.sizes[i], x.name);
    }
  }
  finish_slice(call, x, y, slicing);
}

// What SLICE1 and SLICE_GRAD share: `whole` has the window, `part` the elements taken from it.
template <class Desc>
Slicing read_slicing(std::string_view op, const Desc& given, const Field& whole, const Field& part) {
  require_count(op, "DimensionCount", given.DimensionCount, whole);
  require_array(op, "InputWindowOffsets", given.InputWindowOffsets, given.DimensionCount);
  require_array(op, "InputWindowSizes", given.InputWindowSizes, given.DimensionCount);
  require_array(op, "InputWindowStrides", given.InputWindowStrides, given.DimensionCount);
  Slicing slicing{.rank = whole.view.rank};
  for (int i = 0; i < slicing.rank; ++i) {
    const std::int64_t offset = given.InputWindowOffsets[i];
    const std::int64_t size = given.InputWindowSizes[i];
    const std::int64_t stride = given.InputWindowStrides[i];
    if (size < 1) invalid("{}: InputWindowSizes: axis {}: is 0, expected 1 or more", op, i);
    if (offset + size > whole.view.sizes[i]) {
      invalid("{}: InputWindowSizes: axis {}: the window [{}, {} + {}) leaves the axis, expected offset + size <= {}",
              op, i, offset, offset, size, whole.view.sizes[i]);
    }
    if (stride == 0 || stride <= -kParameterLimit) {
      invalid("{}: InputWindowStrides: axis {}: is {}, expected a number other than 0 between -2^31 and 2^31", op, i,
              stride);
    }
    const std::int64_t most = 1 + (size - 1) / (stride < 0 ? -stride : stride);
    if (part.view.sizes[i] > most) {
      invalid("{}: {}: axis {}: size is {}, expected 1 to {} (window of {} walked by {})", op, part.name, i,
              part.view.sizes[i], most, size, stride);
    }
    slicing.offsets[i] = offset;
    slicing.sizes[i] = size;
    slicing.strides[i] = stride;
  }
  return slicing;
}

void translate(const Call& call, const DML_SLICE1_OPERATOR_DESC& given) {
  const Field x = read_tensor(call.op(), "InputTensor", Role::input, given.InputTensor);
  const Field y = read_tensor(call.op(), "OutputTensor", Role::output, given.OutputTensor);
  require_alike(call.op(), y, x);
  finish_slice(call, x, y, read_slicing(call.op(), given, x, y));
}

void translate(const Call& call, const DML_SLICE_GRAD_OPERATOR_DESC& given) {
  const Field dy = read_tensor(call.op(), "InputGradientTensor", Role::input, given.InputGradientTensor);
  const Field dx = read_tensor(call.op(), "OutputGradientTensor", Role::output, given.OutputGradientTensor);
  require_alike(call.op(), dx, dy);
  const Slicing slicing = read_slicing(call.op(), given, dx, dy);
  const bp_tensor_desc dy_desc = dy.desc(), dx_desc = dx.desc();
  const bp_slice_window window = slicing.desc();
  const bp_slice_grad_desc desc{sizeof desc, &dy_desc, &dx_desc, &window};
  finish(call, dy, nullptr, BP_SLICE_GRAD, &desc);
}

// ---- The call itself -----------------------------------------------------------------------------------

void translate(const Call& call, const void* desc) {
  const auto as = [&]<class Desc>() { translate(call, *static_cast<const Desc*>(desc)); };
  switch (static_cast<int>(call.facts.type)) {
    case DML_OPERATOR_ACTIVATION_RELU:
      return as.operator()<DML_ACTIVATION_RELU_OPERATOR_DESC>();
    case DML_OPERATOR_ACTIVATION_RELU_GRAD:
      return as.operator()<DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC>();
    case DML_OPERATOR_MAX_POOLING:
      return as.operator()<DML_MAX_POOLING_OPERATOR_DESC>();
    case DML_OPERATOR_MAX_POOLING1:
      return as.operator()<DML_MAX_POOLING1_OPERATOR_DESC>();
    case DML_OPERATOR_MAX_POOLING2:
      return as.operator()<DML_MAX_POOLING2_OPERATOR_DESC>();
    case DML_OPERATOR_MAX_POOLING_GRAD:
      return as.operator()<DML_MAX_POOLING_GRAD_OPERATOR_DESC>();
    case DML_OPERATOR_RESAMPLE:
      return as.operator()<DML_RESAMPLE_OPERATOR_DESC>();
    case DML_OPERATOR_RESAMPLE1:
      return as.operator()<DML_RESAMPLE1_OPERATOR_DESC>();
    case DML_OPERATOR_RESAMPLE2:
      return as.operator()<DML_RESAMPLE2_OPERATOR_DESC>();
    case DML_OPERATOR_RESAMPLE_GRAD:
      return as.operator()<DML_RESAMPLE_GRAD_OPERATOR_DESC>();
    case DML_OPERATOR_RESAMPLE_GRAD1:
      return as.operator()<DML_RESAMPLE_GRAD1_OPERATOR_DESC>();
    case DML_OPERATOR_SLICE:
      return as.operator()<DML_SLICE_OPERATOR_DESC>();
    case DML_OPERATOR_SLICE1:
      return as.operator()<DML_SLICE1_OPERATOR_DESC>();
    default:
      return as.operator()<DML_SLICE_GRAD_OPERATOR_DESC>();
  }
}

bool has_swappable_offsets(int type) {
  return type == DML_OPERATOR_RESAMPLE_GRAD || type == DML_OPERATOR_RESAMPLE_GRAD1;
}

void require_call_flags(int type, std::uint32_t flags) {
  if ((flags & ~std::uint32_t{BP_DML_OFFSETS_SWAPPED}) != 0) {
    invalid("flags: is {:#x}, expected 0x0 or 0x1 (BP_DML_OFFSETS_SWAPPED)", flags);
  }
  if (flags != 0 && !has_swappable_offsets(type)) {
    invalid("flags: BP_DML_OFFSETS_SWAPPED is set, expected only for RESAMPLE_GRAD and RESAMPLE_GRAD1");
  }
}

void answer(const DML_OPERATOR_DESC* desc, int level, std::uint32_t flags, const Target* target) {
  const FloatMode float_mode;  // subnormal scales and offsets are kept
  if (desc == nullptr) invalid("desc: is null, expected a DML_OPERATOR_DESC");
  const int type = number_of(desc->Type);
  if (type <= DML_OPERATOR_INVALID || type > kLastOperatorType) {
    invalid("desc: Type is {}, expected a DML_OPERATOR_TYPE (1 to {})", type, kLastOperatorType);
  }
  if (desc->Desc == nullptr) invalid("desc: Desc is null, expected the struct of operator type {}", type);
  const LevelFacts* level_facts = find_level(level);
  if (level_facts == nullptr) {
    invalid("level: is {:#x}, expected a DML_FEATURE_LEVEL (0x1000 to 0x6400)", static_cast<std::uint32_t>(level));
  }
  require_call_flags(type, flags);
  const OperatorFacts* op = find_operator(type);
  if (op == nullptr) {
    unsupported("desc: Type is {}, expected one of the fourteen operators that backpass/directml.h marks", type);
  }
  translate(Call{*op, *level_facts, (flags & BP_DML_OFFSETS_SWAPPED) != 0, target}, desc->Desc);
}

void require_target(const Target& target) {
  if (target.op == nullptr) invalid("op: is null, expected the address for the new handle");
  *target.op = nullptr;
  if (target.device.kind != BP_DEVICE_CPU && target.device.kind != BP_DEVICE_CUDA) {
    invalid("device: kind is {}, expected 0 (cpu) or 1 (cuda)", target.device.kind);
  }
}

// The values, since Windows' headers may not be there.
std::int32_t to_hresult(bp_status status) {
  const auto value = [](std::uint32_t bits) { return static_cast<std::int32_t>(bits); };
  switch (status) {
    case BP_OK:
      return 0;
    case BP_INVALID_ARGUMENT:
      return value(0x80070057U);  // E_INVALIDARG
    case BP_UNSUPPORTED:
      return value(0x887A0004U);  // DXGI_ERROR_UNSUPPORTED
    case BP_OUT_OF_MEMORY:
      return value(0x8007000EU);  // E_OUTOFMEMORY
    default:
      return value(0x80004005U);  // E_FAIL
  }
}

}  // namespace

}  // namespace bp::dml

extern "C" {

int32_t bp_dml_create_operator(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level, bp_device device,
                               bp_operator** op) {
  return bp_dml_create_operator_ex(desc, level, device, 0, nullptr, op);
}

int32_t bp_dml_create_operator_ex(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level, bp_device device,
                                  uint32_t flags, const bp_options* options, bp_operator** op) {
  return bp::dml::to_hresult(bp::guarded([&] {
    const bp::dml::Target target{device, options, op};
    bp::dml::require_target(target);
    bp::dml::answer(desc, bp::dml::number_of(level), flags, &target);
  }));
}

int32_t bp_dml_check_support(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level) {
  return bp::dml::to_hresult(bp::guarded([&] { bp::dml::answer(desc, bp::dml::number_of(level), 0, nullptr); }));
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Max pooling: validation, plans, implementation lists.
#include "ops/max_pool/max_pool.h"

#include "core/checked.h"
#include "core/read_struct.h"

#include <algorithm>

namespace bp {

namespace {

template <class Plan>
std::string refuse_for_cpu(const Plan& plan) {
  return cpu::refuse_pool(plan.geometry);
}

constexpr Implementation<MaxPoolPlan> kMaxPoolCpu[] = {
    {"packed", cpu::refuse_packed, cpu::make_max_pool_packed},
    {"tiles", cpu::refuse_tiles, cpu::make_max_pool_tiles},
    {"simd", refuse_for_cpu<MaxPoolPlan>, cpu::make_max_pool},
    {"reference", accept_all<MaxPoolPlan>, PlainKernel<MaxPoolPlan, reference::max_pool>::make},
};
constexpr Implementation<MaxPoolGradPlan> kMaxPoolGradCpu[] = {
    {"scatter", cpu::refuse_scatter, cpu::make_max_pool_grad_scatter},
    {"turned", cpu::refuse_turned, cpu::make_max_pool_grad_turned},
    {"packed", cpu::refuse_packed, cpu::make_max_pool_grad_packed},
    {"tiles", cpu::refuse_tiles, cpu::make_max_pool_grad_tiles},
    {"simd", refuse_for_cpu<MaxPoolGradPlan>, cpu::make_max_pool_grad},
    {"reference", accept_all<MaxPoolGradPlan>,
     PlainKernel<MaxPoolGradPlan, reference::max_pool_grad, reference::max_pool_grad_workspace>::make},
};
constexpr Implementation<ConvertWinnersPlan> kConvertWinnersCpu[] = {
    {"reference", accept_all<ConvertWinnersPlan>, PlainKernel<ConvertWinnersPlan, reference::convert_winners>::make},
};

// ---- The window ----------------------------------------------------------------------------------------

std::int64_t read_parameter(std::string_view op, std::string_view name, int i, const std::int64_t* values,
                            std::int64_t otherwise, std::int64_t least) {
  if (values == nullptr) return otherwise;
  if (values[i] < least || values[i] >= kParameterLimit) {
    invalid("{}: {}: spatial axis {}: is {}, expected {} to 2^31 - 1", op, name, i, values[i], least);
  }
  return values[i];
}

PoolAxis read_axis(std::string_view op, std::string_view x_name, const bp_window& window, int i, std::int64_t input) {
  PoolAxis axis{.input = input};
  axis.window = read_parameter(op, "window", i, window.size, 1, 1);
  axis.stride = read_parameter(op, "strides", i, window.strides, axis.window, 1);
  axis.start_padding = read_parameter(op, "start_padding", i, window.start_padding, 0, 0);
  axis.end_padding = read_parameter(op, "end_padding", i, window.end_padding, 0, 0);
  axis.dilation = read_parameter(op, "dilations", i, window.dilations, 1, 1);
  const Checked padded = add(add(input, axis.start_padding), axis.end_padding);
  // Every position, existing or not, stays within one stride beyond the padded size.
  if (!add(padded, kParameterLimit)) {
    invalid("{}: {}: axis {}: size {} and padding {} + {} exceed 2^63 - 1 - 2^31, expected at most that", op, x_name,
            i + 2, input, axis.start_padding, axis.end_padding);
  }
  if (axis.extent() > *padded) {
    invalid(
        "{}: window: spatial axis {}: spans {} ({}, dilation {}), expected at most {} (size {} and padding {} + {})",
        op, i, axis.extent(), counted(axis.window, "tap", "taps"), axis.dilation, *padded, input, axis.start_padding,
        axis.end_padding);
  }
  return axis;
}

// The window of tensors of this rank.
bp_window read_window(std::string_view op, std::string_view name, int rank, const bp_window* window) {
  if (rank < 3 || rank > 5)
    invalid("{}: {}: rank is {}, expected 3 to 5 (N, C and 1 to 3 spatial axes)", op, name, rank);
  if (window == nullptr) invalid("{}: window: is null, expected a bp_window", op);
  const auto given = read_struct<bp_window>(op, "window", window);
  require_reserved(op, "window", given.reserved);
  if (given.spatial_rank != rank - 2) {
    invalid("{}: window: spatial_rank is {}, expected {} (rank {} of {} less 2)", op, given.spatial_rank, rank - 2,
            rank, name);
  }
  if (given.size == nullptr) {
    invalid("{}: window: size is null, expected {}", op, counted(given.spatial_rank, "entry", "entries"));
  }
  return given;
}

// The reference keeps an accumulator of up to 8 bytes for each position of a plane.
void require_plane_fits(std::string_view op, std::string_view x_name, std::span<const std::int64_t> spatial) {
  if (std::find(spatial.begin(), spatial.end(), 0) != spatial.end()) return;
  Checked bytes = sizeof(double);
  for (const std::int64_t size : spatial) bytes = multiply(bytes, size);
  if (!bytes) unsupported("{}: {}: the spatial sizes multiply to 2^60 or more, expected less", op, x_name);
}

// The geometry of x under a window; output sizes are still 1.
PoolGeometry read_geometry(std::string_view op, std::string_view x_name, std::span<const std::int64_t> x,
                           const bp_window& window) {
  const int rank = static_cast<int>(x.size());
  require_plane_fits(op, x_name, x.subspan(2));
  PoolGeometry geometry{.batch = x[0], .channels = x[1]};
  Checked taps = 1;
  for (int i = 0; i < rank - 2; ++i) {
    PoolAxis& axis = geometry.axes[5 - rank + i];
    axis = read_axis(op, x_name, window, i, x[2 + i]);
    taps = multiply(taps, axis.window);
  }
  if (!taps || *taps > kMostTaps) {
    invalid("{}: window: has {} taps, expected at most 2^32 - 2", op,
            taps ? std::to_string(*taps) : "more than 2^63 - 1");
  }
  return geometry;
}

// Takes the output sizes from y or dy.
void read_output_sizes(std::string_view op, std::string_view y_name, const Tensor& y, std::string_view x_name,
                       std::span<const std::int64_t> x, PoolGeometry& geometry) {
  const int rank = static_cast<int>(x.size());
  if (y.rank != rank) invalid("{}: {}: rank is {}, expected {} (that of {})", op, y_name, y.rank, rank, x_name);
  for (int i = 0; i < 2; ++i) {
    if (y.sizes[i] != x[i]) {
      invalid("{}: {}: axis {}: size is {}, expected {} (that of {})", op, y_name, i, y.sizes[i], x[i], x_name);
    }
  }
  for (int i = 2; i < rank; ++i) {
    PoolAxis& axis = geometry.axes[3 - rank + i];
    axis.output = y.sizes[i];
    if (axis.output < 1 || axis.output > axis.ceil_size()) {
      invalid("{}: {}: axis {}: size is {}, expected 1 to {} (with whole windows only: {})", op, y_name, i, axis.output,
              axis.ceil_size(), axis.floor_size());
    }
  }
}

// {N, C, spatial...} as {N, C, D, H, W}, and back.
Tensor with_five_axes(const Tensor& tensor) {
  const int missing = 5 - tensor.rank;
  Tensor result = tensor;
  result.rank = 5;
  for (int i = 2; i < 5; ++i) {
    const bool inserted = i < 2 + missing;
    result.sizes[i] = inserted ? 1 : tensor.sizes[i - missing];
    result.strides[i] = inserted ? 0 : tensor.strides[i - missing];
  }
  return result;
}

Tensor with_rank(const Tensor& tensor, int rank) {
  Tensor result{.dtype = tensor.dtype, .rank = rank};
  for (int i = 0; i < rank; ++i) {
    const int from = i < 2 ? i : i + 5 - rank;
    result.sizes[i] = tensor.sizes[from];
    result.strides[i] = tensor.strides[from];
  }
  return result;
}

// ---- Winners -------------------------------------------------------------------------------------------

WinnersKind read_kind(std::string_view op, std::string_view name, std::int32_t kind, bool plane_allowed) {
  if (kind == BP_WINNERS_COMPACT || kind == BP_WINNERS_FLAT || (plane_allowed && kind == BP_WINNERS_PLANE)) {
    return static_cast<WinnersKind>(kind);
  }
  if (plane_allowed) invalid("{}: {}: is {}, expected 1 (compact), 2 (flat) or 3 (plane)", op, name, kind);
  invalid("{}: {}: is {}, expected 1 (compact) or 2 (flat){}", op, name, kind,
          kind == BP_WINNERS_PLANE ? "; convert_winners rewrites plane indices" : "");
}

void require_winners_dtype(std::string_view op, std::string_view name, WinnersKind kind, DType dtype,
                           const PoolGeometry& g) {
  if (kind == WinnersKind::compact) {
    if (dtype != compact_dtype(g)) {
      invalid("{}: {}: data type is {}, expected {} for compact winners of {}", op, name, bp::name(dtype),
              bp::name(compact_dtype(g)), counted(g.taps(), "tap", "taps"));
    }
    return;
  }
  const std::int64_t count = kind == WinnersKind::flat ? g.batch * g.channels * g.plane() : g.plane();
  const bool known = visit(FlatIndexTypes{}, dtype, [&]<class Index>() {
    if (count > 0 && static_cast<std::uint64_t>(count) - 1 > kMostIndex<Index>) {
      const bool u32_would_do = static_cast<std::uint64_t>(count) - 1 <= kMostIndex<std::uint32_t>;
      invalid("{}: {}: data type is {}, which cannot hold the {} indices of {}, expected {}a 64-bit type", op, name,
              bp::name(dtype), count, kind == WinnersKind::flat ? "x" : "a plane of x", u32_would_do ? "u32 or " : "");
    }
  });
  if (!known) {
    invalid("{}: {}: data type is {}, expected one of {}", op, name, bp::name(dtype), type_names(FlatIndexTypes{}));
  }
}

Winners read_winners(std::string_view op, std::string_view name, const bp_tensor_desc* desc, WinnersKind kind,
                     const PoolGeometry& geometry, std::string_view y_name, const Tensor& y) {
  const Tensor tensor = read_tensor(op, name, desc);
  require_same_sizes(op, name, tensor, y_name, y);
  require_winners_dtype(op, name, kind, tensor.dtype, geometry);
  return {kind, tensor};
}

void require_no_kind(std::string_view op, std::int32_t kind) {
  if (kind != BP_WINNERS_NONE) invalid("{}: winners_kind: is {}, expected 0 (no winners tensor is given)", op, kind);
}

// ---- Text ----------------------------------------------------------------------------------------------

std::string_view kind_name(WinnersKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"none", "compact", "flat", "plane"};
  return kNames[static_cast<std::size_t>(kind)];
}

void add_window(ProblemText& text, const PoolGeometry& g, int rank) {
  const auto add = [&](std::string_view option, std::int64_t PoolAxis::*field) {
    Spatial values{};
    for (int i = 0; i < rank - 2; ++i) values[i] = g.axes[5 - rank + i].*field;
    text.add(option, std::span<const std::int64_t>(values.data(), static_cast<std::size_t>(rank - 2)));
  };
  add("--window", &PoolAxis::window);
  add("--strides", &PoolAxis::stride);
  add("--start-padding", &PoolAxis::start_padding);
  add("--end-padding", &PoolAxis::end_padding);
  add("--dilations", &PoolAxis::dilation);
}

void add_winners(ProblemText& text, const Winners& winners, int rank) {
  if (winners.kind == WinnersKind::none) return;
  text.add("--winners", kind_name(winners.kind));
  if (winners.kind != WinnersKind::compact) text.add("--winners-dtype", name(winners.tensor.dtype));
  text.strides("winners", with_rank(winners.tensor, rank));
}

std::string window_note(const PoolGeometry& g) {
  std::int64_t most = 1;
  for (const PoolAxis& axis : g.axes) most *= std::min(axis.window, ceil_div(axis.extent(), axis.stride));
  return fmt::format("windows: {} taps each; an element of x lies in at most {} of them", g.taps(), most);
}

}  // namespace

DType compact_dtype(const PoolGeometry& geometry) {
  if (static_cast<std::uint64_t>(geometry.taps()) - 1 <= kMostIndex<std::uint8_t>) return DType::u8;
  if (static_cast<std::uint64_t>(geometry.taps()) - 1 <= kMostIndex<std::uint16_t>) return DType::u16;
  return DType::u32;
}

// ---- max_pool ------------------------------------------------------------------------------------------

MaxPoolPlan MaxPool::plan(const Desc& desc) {
  require_reserved(kName, "desc", desc.reserved);
  const Tensor x = read_tensor(kName, "x", desc.x);
  const Tensor y = read_tensor(kName, "y", desc.y);
  require_dtype(kName, "x", x, Types{});
  require_same_dtype(kName, "y", y, "x", x);
  MaxPoolPlan plan{.rank = x.rank,
                   .geometry = read_geometry(kName, "x", x.shape(), read_window(kName, "x", x.rank, desc.window))};
  read_output_sizes(kName, "y", y, "x", x.shape(), plan.geometry);
  require_distinct_elements(kName, "y", y);
  if (desc.winners != nullptr) {
    const WinnersKind kind = read_kind(kName, "winners_kind", desc.winners_kind, false);
    plan.winners = read_winners(kName, "winners", desc.winners, kind, plan.geometry, "y", y);
    require_distinct_elements(kName, "winners", plan.winners.tensor);
    plan.winners.tensor = with_five_axes(plan.winners.tensor);
  } else {
    require_no_kind(kName, desc.winners_kind);
  }
  plan.x = with_five_axes(x);
  plan.y = with_five_axes(y);
  return plan;
}

Description MaxPool::describe(const Plan& plan) {
  const Tensor x = with_rank(plan.x, plan.rank);
  const Tensor y = with_rank(plan.y, plan.rank);
  const bool stores = plan.winners.kind != WinnersKind::none;
  ProblemText text(kName);
  text.add("--dtype", name(x.dtype)).add("--x-shape", x.shape()).add("--y-shape", y.shape());
  text.strides("x", x).strides("y", y);
  add_window(text, plan.geometry, plan.rank);
  add_winners(text, plan.winners, plan.rank);
  return {.inputs = {{"x", x}},
          .outputs = {{"y", y},
                      {"winners", stores ? std::optional(with_rank(plan.winners.tensor, plan.rank)) : std::nullopt}},
          .bytes = plan.bytes(),
          .problem = text.text(),
          .notes = {window_note(plan.geometry)}};
}

std::span<const Implementation<MaxPoolPlan>> MaxPool::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::max_pool_implementations();
  if (device_kind == BP_DEVICE_CPU) return kMaxPoolCpu;
  return {};
}

// ---- max_pool_grad -------------------------------------------------------------------------------------

MaxPoolGradPlan MaxPoolGrad::plan(const Desc& desc) {
  require_reserved(kName, "desc", desc.reserved);
  const Tensor dy = read_tensor(kName, "dy", desc.dy);
  const Tensor dx = read_tensor(kName, "dx", desc.dx);
  require_dtype(kName, "dx", dx, Types{});
  require_same_dtype(kName, "dy", dy, "dx", dx);
  MaxPoolGradPlan plan{
      .rank = dx.rank,
      .geometry = read_geometry(kName, "dx", dx.shape(), read_window(kName, "dx", dx.rank, desc.window))};
  read_output_sizes(kName, "dy", dy, "dx", dx.shape(), plan.geometry);
  require_distinct_elements(kName, "dx", dx);
  if ((desc.x != nullptr) == (desc.winners != nullptr)) {
    invalid("{}: winners: {} given, expected exactly one", kName,
            desc.x != nullptr ? "both x and winners are" : "neither x nor winners is");
  }
  if (desc.winners != nullptr) {
    const WinnersKind kind = read_kind(kName, "winners_kind", desc.winners_kind, false);
    plan.winners = read_winners(kName, "winners", desc.winners, kind, plan.geometry, "dy", dy);
    plan.winners.tensor = with_five_axes(plan.winners.tensor);
  } else {
    require_no_kind(kName, desc.winners_kind);
    const Tensor x = read_tensor(kName, "x", desc.x);
    require_same_dtype(kName, "x", x, "dx", dx);
    require_same_sizes(kName, "x", x, "dx", dx);
    plan.x = with_five_axes(x);
  }
  plan.dy = with_five_axes(dy);
  plan.dx = with_five_axes(dx);
  return plan;
}

Description MaxPoolGrad::describe(const Plan& plan) {
  const Tensor dy = with_rank(plan.dy, plan.rank);
  const Tensor dx = with_rank(plan.dx, plan.rank);
  const bool stored = !plan.recomputes();
  const Tensor choice = with_rank(plan.choice(), plan.rank);
  ProblemText text(kName);
  text.add("--dtype", name(dx.dtype)).add("--x-shape", dx.shape()).add("--y-shape", dy.shape());
  if (!stored) text.strides("x", choice);
  text.strides("dy", dy).strides("dx", dx);
  add_window(text, plan.geometry, plan.rank);
  add_winners(text, plan.winners, plan.rank);
  return {.inputs = {{"x", stored ? std::nullopt : std::optional(choice)},
                     {"dy", dy},
                     {"winners", stored ? std::optional(choice) : std::nullopt}},
          .outputs = {{"dx", dx}},
          .bytes = plan.bytes(),
          .problem = text.text(),
          .notes = {window_note(plan.geometry),
                    stored ? fmt::format("winners: read, {}", kind_name(plan.winners.kind)) : "winners: recomputed"}};
}

std::span<const Implementation<MaxPoolGradPlan>> MaxPoolGrad::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::max_pool_grad_implementations();
  if (device_kind == BP_DEVICE_CPU) return kMaxPoolGradCpu;
  return {};
}

// ---- convert_winners -----------------------------------------------------------------------------------

ConvertWinnersPlan ConvertWinners::plan(const Desc& desc) {
  const Tensor from = read_tensor(kName, "from", desc.from);
  const Tensor to = read_tensor(kName, "to", desc.to);
  const bp_window window =
      read_window(kName, "from", from.rank, desc.window);  // x_sizes has as many entries as it says
  if (desc.x_sizes == nullptr) invalid("{}: x_sizes: is null, expected {} entries", kName, from.rank);
  const bp_tensor_desc x_desc{sizeof(bp_tensor_desc), BP_U8, from.rank, desc.x_sizes, nullptr};
  const Tensor x = read_tensor(kName, "x_sizes", &x_desc);
  ConvertWinnersPlan plan{.rank = from.rank, .geometry = read_geometry(kName, "x_sizes", x.shape(), window)};
  read_output_sizes(kName, "from", from, "x_sizes", x.shape(), plan.geometry);
  require_same_sizes(kName, "to", to, "from", from);
  const WinnersKind from_kind = read_kind(kName, "from_kind", desc.from_kind, true);
  const WinnersKind to_kind = read_kind(kName, "to_kind", desc.to_kind, true);
  require_winners_dtype(kName, "from", from_kind, from.dtype, plan.geometry);
  require_winners_dtype(kName, "to", to_kind, to.dtype, plan.geometry);
  require_distinct_elements(kName, "to", to);
  plan.from = {from_kind, with_five_axes(from)};
  plan.to = {to_kind, with_five_axes(to)};
  return plan;
}

Description ConvertWinners::describe(const Plan& plan) {
  const Tensor from = with_rank(plan.from.tensor, plan.rank);
  const Tensor to = with_rank(plan.to.tensor, plan.rank);
  const PoolGeometry& g = plan.geometry;
  Dims x_sizes{g.batch, g.channels};
  for (int i = 2; i < plan.rank; ++i) x_sizes[i] = g.axes[3 - plan.rank + i].input;
  ProblemText text(kName);
  text.add("--dtype", name(from.dtype))
      .add("--x-shape", std::span<const std::int64_t>(x_sizes.data(), static_cast<std::size_t>(plan.rank)))
      .add("--y-shape", from.shape())
      .strides("from", from)
      .add("--winners-kind", kind_name(plan.from.kind));
  add_window(text, g, plan.rank);
  add_winners(text, plan.to, plan.rank);
  return {.inputs = {{"from", from}},
          .outputs = {{"to", to}},
          .bytes = stored_bytes({&from, &to}),
          .problem = text.text(),
          .notes = {window_note(g)}};
}

std::span<const Implementation<ConvertWinnersPlan>> ConvertWinners::implementations(std::int32_t device_kind) {
  if (device_kind == BP_DEVICE_CUDA) return cuda::convert_winners_implementations();
  if (device_kind == BP_DEVICE_CPU) return kConvertWinnersCpu;
  return {};
}

}  // namespace bp

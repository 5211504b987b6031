// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include "embedded_problems.h"
#include "options.h"
#include "printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace tools {

namespace {

struct DTypeName {
  std::int32_t dtype;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<DTypeName, 12> kDTypes{{{BP_F64, "f64", 8},
                                             {BP_F32, "f32", 4},
                                             {BP_F16, "f16", 2},
                                             {BP_BF16, "bf16", 2},
                                             {BP_I64, "i64", 8},
                                             {BP_I32, "i32", 4},
                                             {BP_I16, "i16", 2},
                                             {BP_I8, "i8", 1},
                                             {BP_U64, "u64", 8},
                                             {BP_U32, "u32", 4},
                                             {BP_U16, "u16", 2},
                                             {BP_U8, "u8", 1}}};

struct OperatorName {
  std::int32_t kind;
  std::string_view name;
  std::string_view help;
};
constexpr auto kOperators = std::to_array<OperatorName>({
    {BP_RELU, "relu", "y = x > 0 ? x : 0"},
    {BP_RELU_GRAD, "relu-grad", "dx = x > 0 ? dy : 0"},
    {BP_MAX_POOL, "max-pool", "the greatest value of each window, and its winner"},
    {BP_MAX_POOL_GRAD, "max-pool-grad", "each dy to its window's winner, recomputed or stored"},
    {BP_RESAMPLE, "resample", "nearest or linear resampling of any axes"},
    {BP_RESAMPLE_GRAD, "resample-grad", "the exact adjoint of resample"},
    {BP_SLICE, "slice", "a window of x, walked by signed strides"},
    {BP_SLICE_GRAD, "slice-grad", "dy back in its window, zero elsewhere"},
    {BP_CONVERT_WINNERS, "convert-winners", "stored winners from one form to another"},
});
static_assert([] {
  for (std::size_t i = 0; i < kOperators.size(); ++i) {
    if (kOperators[i].kind != static_cast<std::int32_t>(i) + BP_RELU) return false;
  }
  return true;
}());

const OperatorName& entry_of(std::int32_t kind) { return kOperators.at(static_cast<std::size_t>(kind - BP_RELU)); }

}  // namespace

std::vector<std::string_view> operator_names() {
  std::vector<std::string_view> names;
  for (const OperatorName& entry : kOperators) names.push_back(entry.name);
  return names;
}
std::string_view operator_name(std::int32_t kind) { return entry_of(kind).name; }
std::optional<std::int32_t> operator_kind(std::string_view name) {
  for (const OperatorName& entry : kOperators) {
    if (entry.name == name) return entry.kind;
  }
  return std::nullopt;
}
std::int32_t require_operator(std::string_view name) {
  if (const std::optional<std::int32_t> kind = operator_kind(name)) return *kind;
  throw UsageError(fmt::format("'{}' is no operator, expected one of {}", name, fmt::join(operator_names(), " ")));
}
std::string operator_help(std::int32_t kind) { return std::string(entry_of(kind).help); }

std::string_view dtype_name(std::int32_t dtype) {
  for (const DTypeName& entry : kDTypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "unknown";
}
std::int32_t dtype_from_name(std::string_view name) {
  for (const DTypeName& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  throw UsageError(
      fmt::format("'{}' is no data type, expected one of f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8", name));
}
std::size_t dtype_size(std::int32_t dtype) {
  for (const DTypeName& entry : kDTypes) {
    if (entry.dtype == dtype) return entry.size;
  }
  return 0;
}
const std::vector<std::int32_t>& all_dtypes() {
  static const std::vector<std::int32_t> dtypes = [] {
    std::vector<std::int32_t> values;
    for (const DTypeName& entry : kDTypes) values.push_back(entry.dtype);
    return values;
  }();
  return dtypes;
}

// ---- Families ------------------------------------------------------------------------------------------

bool is_pooling(std::int32_t kind) {
  return kind == BP_MAX_POOL || kind == BP_MAX_POOL_GRAD || kind == BP_CONVERT_WINNERS;
}
bool is_resample(std::int32_t kind) { return kind == BP_RESAMPLE || kind == BP_RESAMPLE_GRAD; }
bool is_slice(std::int32_t kind) { return kind == BP_SLICE || kind == BP_SLICE_GRAD; }
bool is_elementwise(std::int32_t kind) { return kind == BP_RELU || kind == BP_RELU_GRAD; }
bool reads_x(std::int32_t kind) {
  return kind == BP_RELU || kind == BP_RELU_GRAD || kind == BP_MAX_POOL || kind == BP_MAX_POOL_GRAD ||
         kind == BP_RESAMPLE || kind == BP_SLICE;
}
bool reads_dy(std::int32_t kind) {
  return kind == BP_RELU_GRAD || kind == BP_MAX_POOL_GRAD || kind == BP_RESAMPLE_GRAD || kind == BP_SLICE_GRAD;
}

namespace {

// ---- Completion ----------------------------------------------------------------------------------------

[[noreturn]] void wrong_count(std::string_view option, std::size_t found, std::size_t axes) {
  throw UsageError(fmt::format("{}: has {}, expected {}", option, counted(found, "value", "values"),
                               axes == 1 ? "1" : fmt::format("{} (one for each axis) or 1", axes)));
}

// One value stands for all axes; none for the default.
void spread(std::string_view option, Ints& values, int count, std::int64_t otherwise) {
  const auto n = static_cast<std::size_t>(count);
  if (values.empty()) values.assign(n, otherwise);
  if (values.size() == 1) values.assign(n, values[0]);
  if (values.size() != n) {
    wrong_count(option, values.size(), n);
  }
}

void spread(std::string_view option, Reals& values, int count) {
  const auto n = static_cast<std::size_t>(count);
  if (values.size() == 1) values.assign(n, values[0]);
  if (!values.empty() && values.size() != n) {
    wrong_count(option, values.size(), n);
  }
}

// Of parameters that the library will refuse, any size will do.
std::int64_t pooled_size(const Problem& p, std::size_t i) {
  __extension__ using Wide = __int128;
  const Wide padded = Wide{p.x_shape[i + 2]} + p.start_padding[i] + p.end_padding[i];
  const Wide room = padded - ((Wide{p.window[i]} - 1) * p.dilations[i] + 1);
  const Wide stride = p.strides[i];
  if (stride < 1 || room < 0 || padded > std::numeric_limits<std::int64_t>::max() || room > padded) return 1;
  const Wide whole = room / stride + 1;
  const bool partial = p.ceil_mode && room % stride != 0;
  // PyTorch's rule: a last window that would start beyond the input and its start padding is dropped.
  const bool starts_inside = whole * stride < Wide{p.x_shape[i + 2]} + p.start_padding[i];
  return static_cast<std::int64_t>(partial && starts_inside ? whole + 1 : whole);
}

// As the library's own sentences name the operator.
std::string name_in_sentences(std::int32_t kind) {
  std::string name(operator_name(kind));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void complete_pooling(Problem& p) {
  const int spatial = p.spatial_rank();
  if (spatial < 1)
    throw UsageError(fmt::format("{}: x: rank is {}, expected 3 to 5 (N, C and 1 to 3 spatial axes)",
                                 name_in_sentences(p.kind), p.rank()));
  if (p.window.empty()) throw UsageError("--window: is missing");
  spread("--window", p.window, spatial, 1);
  if (p.strides.empty()) p.strides = p.window;
  spread("--strides", p.strides, spatial, 1);
  spread("--start-padding", p.start_padding, spatial, 0);
  spread("--end-padding", p.end_padding, spatial, 0);
  spread("--dilations", p.dilations, spatial, 1);
  if (!p.y_shape.empty()) return;
  p.y_shape = {p.x_shape[0], p.x_shape[1]};
  for (std::size_t i = 0; i < static_cast<std::size_t>(spatial); ++i) p.y_shape.push_back(pooled_size(p, i));
}

// floor(in * scale) on every axis. An output that is empty because of its scales is a mistake.
void scale_shape(Problem& p) {
  if (p.scales.empty()) throw UsageError("--y-shape: is missing, and so are --scales that would give it");
  for (std::size_t i = 0; i < p.x_shape.size(); ++i) {
    const double size = std::floor(static_cast<double>(p.x_shape[i]) * p.scales[i]);
    if (!(size >= 0 && size <= 9e18)) {
      throw UsageError(fmt::format("--scales: axis {}: {} times the size {} is no size", i, p.scales[i], p.x_shape[i]));
    }
    if (size == 0 && p.x_shape[i] > 0) {
      throw UsageError(
          fmt::format("--scales: axis {}: {} times the size {} is below 1 and leaves no output (--y-shape gives "
                      "its sizes outright)",
                      i, p.scales[i], p.x_shape[i]));
    }
    p.y_shape.push_back(static_cast<std::int64_t>(size));
  }
}

void complete_resample(Problem& p) {
  spread("--scales", p.scales, p.rank());
  spread("--input-offsets", p.input_offsets, p.rank());
  spread("--output-offsets", p.output_offsets, p.rank());
  if (p.scales.empty() && !(p.input_offsets.empty() && p.output_offsets.empty())) {
    throw UsageError(fmt::format("--{}-offsets: needs --scales (the exact conventions have no offsets)",
                                 p.input_offsets.empty() ? "output" : "input"));
  }
  if (p.y_shape.empty()) scale_shape(p);
  if (p.tables.empty()) return;
  if (p.tables.size() > p.x_shape.size()) {
    throw UsageError(
        fmt::format("--table: axis is {}, expected below {} (the rank of x)", p.tables.size() - 1, p.rank()));
  }
  p.tables.resize(p.x_shape.size());
  for (std::size_t i = 0; i < p.tables.size() && i < p.y_shape.size(); ++i) {
    if (p.tables[i] && static_cast<std::int64_t>(p.tables[i]->first.size()) != p.y_shape[i]) {
      throw UsageError(fmt::format("--table: axis {}: has {}, expected {} (the size of y)", i,
                                   counted(p.tables[i]->first.size(), "output", "outputs"), p.y_shape[i]));
    }
  }
}

void complete_slice(Problem& p) {
  spread("--offsets", p.offsets, p.rank(), 0);
  if (p.sizes.empty()) {
    for (std::size_t i = 0; i < p.x_shape.size(); ++i) {
      const std::int64_t whole = std::max<std::int64_t>(p.x_shape[i], 0);
      p.sizes.push_back(whole - std::clamp<std::int64_t>(p.offsets[i], 0, whole));
    }
  }
  spread("--sizes", p.sizes, p.rank(), 0);
  spread("--strides", p.strides, p.rank(), 1);
  if (!p.y_shape.empty()) return;
  for (std::size_t i = 0; i < p.x_shape.size(); ++i) {
    const std::int64_t stride = p.strides[i];
    const bool nothing = p.sizes[i] < 1 || stride == 0 || stride == std::numeric_limits<std::int64_t>::min();
    p.y_shape.push_back(nothing ? 0 : 1 + (p.sizes[i] - 1) / (stride < 0 ? -stride : stride));
  }
}

}  // namespace

namespace {

void require_sensible_winners(const Problem& p) {
  if (p.kind == BP_CONVERT_WINNERS && p.winners_from == BP_WINNERS_NONE)
    throw UsageError("--winners-kind: is missing (the form that is read)");
  if (p.kind == BP_CONVERT_WINNERS && p.winners == BP_WINNERS_NONE)
    throw UsageError("--winners: is missing (the form that is written)");
  if (p.winners_dtype != 0 && p.winners != BP_WINNERS_FLAT && p.winners != BP_WINNERS_PLANE) {
    const std::string_view kinds = p.kind == BP_CONVERT_WINNERS ? "flat or plane" : "flat";
    throw UsageError(fmt::format("--winners-dtype: is for {} winners, expected --winners {} beside it", kinds, kinds));
  }
  if (p.corrupt_winners && p.winners == BP_WINNERS_NONE) throw UsageError("--corrupt-winners: needs --winners");
}

}  // namespace

void complete(Problem& p) {
  if (p.x_shape.empty()) throw UsageError("--x-shape: is missing");
  if (is_elementwise(p.kind)) p.y_shape = p.x_shape;
  if (is_pooling(p.kind)) complete_pooling(p);
  if (is_resample(p.kind)) complete_resample(p);
  if (is_slice(p.kind)) complete_slice(p);
  if (p.y_shape.empty()) throw std::logic_error(fmt::format("complete: no family takes kind {}", p.kind));
  if (p.y_shape.size() != p.x_shape.size()) {
    const std::string_view name = p.kind == BP_CONVERT_WINNERS ? "winners" : reads_dy(p.kind) ? "dy" : "y";
    throw UsageError(fmt::format("{}: {}: rank is {}, expected {} (that of x)", name_in_sentences(p.kind), name,
                                 p.y_shape.size(), p.rank()));
  }
  if (is_pooling(p.kind)) require_sensible_winners(p);
}

// ---- Tensors -------------------------------------------------------------------------------------------

namespace {

// Strides in the given order of axes, innermost last. Zero sizes count as one, absurd ones saturate: the
// library, not the tool, is to refuse them.
Ints strides_in_order(const Ints& sizes, const std::vector<std::size_t>& order) {
  Ints strides(sizes.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(sizes[order[k]], 1), &stride)) {
      stride = std::numeric_limits<std::int64_t>::max();
    }
  }
  return strides;
}

Ints default_strides(const Problem& p, const Ints& sizes) {
  std::vector<std::size_t> order(sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (p.nhwc && order.size() > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return strides_in_order(sizes, order);
}

TensorSpec spec(const Problem& p, std::string_view name, std::int32_t dtype, const Ints& sizes, const Ints& strides) {
  if (!strides.empty() && strides.size() != sizes.size()) {
    throw UsageError(fmt::format("--{}-strides: has {}, expected {}", name, counted(strides.size(), "value", "values"),
                                 sizes.size()));
  }
  return {name, dtype, sizes, strides.empty() ? default_strides(p, sizes) : strides};
}

TensorSpec absent(std::string_view name) { return {.name = name, .absent = true}; }

std::int32_t stored_dtype(const Problem& p, std::int32_t kind) {
  if (kind == BP_WINNERS_COMPACT) return compact_dtype(p.window);
  return p.winners_dtype == 0 ? BP_I64 : p.winners_dtype;
}

}  // namespace

std::int32_t compact_dtype(const Ints& window) {
  double taps = 1;
  for (const std::int64_t w : window) taps *= static_cast<double>(w);
  return taps <= 255 ? BP_U8 : (taps <= 65535 ? BP_U16 : BP_U32);
}

std::int32_t default_dtype(const Problem& p) {
  if (p.kind != BP_CONVERT_WINNERS) return BP_F32;
  return p.winners_from == BP_WINNERS_COMPACT ? compact_dtype(p.window) : BP_I64;
}

Tensors tensors(const Problem& p, std::int32_t dtype) {
  const auto x = [&] { return spec(p, "x", dtype, p.x_shape, p.x_strides); };
  const auto dx = [&] { return spec(p, "dx", dtype, p.x_shape, p.dx_strides); };
  const auto y = [&] { return spec(p, "y", dtype, p.y_shape, p.y_strides); };
  const auto dy = [&] { return spec(p, "dy", dtype, p.y_shape, p.dy_strides); };
  const auto winners = [&] {
    return p.winners == BP_WINNERS_NONE ? absent("winners")
                                        : spec(p, "winners", stored_dtype(p, p.winners), p.y_shape, p.winners_strides);
  };
  switch (p.kind) {
    case BP_RELU:
    case BP_RESAMPLE:
    case BP_SLICE:
      return {{x()}, {y()}};
    case BP_RELU_GRAD:
      return {{x(), dy()}, {dx()}};
    case BP_MAX_POOL:
      return {{x()}, {y(), winners()}};
    case BP_MAX_POOL_GRAD:
      return {{p.winners == BP_WINNERS_NONE ? x() : absent("x"), dy(), winners()}, {dx()}};
    case BP_CONVERT_WINNERS: {
      TensorSpec to = winners();
      to.name = "to";
      return {{spec(p, "from", dtype, p.y_shape, p.dy_strides)}, {to}};
    }
    case BP_RESAMPLE_GRAD:
    case BP_SLICE_GRAD:
      return {{dy()}, {dx()}};
    default:
      throw std::logic_error(fmt::format("tensors: unknown kind {}", p.kind));
  }
}

// ---- The C ABI -----------------------------------------------------------------------------------------

namespace {

bp_tensor_desc desc_of(const TensorSpec& t) {
  return {sizeof(bp_tensor_desc), t.dtype, static_cast<std::int32_t>(t.sizes.size()), t.sizes.data(), t.strides.data()};
}

const double* pointer(const Reals& values) { return values.empty() ? nullptr : values.data(); }

CreateResult finish(const Problem& p, const void* desc, const CreateOptions& options) {
  const bp_options given{.struct_size = sizeof(bp_options),
                         .implementation = options.implementation.empty() ? nullptr : options.implementation.c_str(),
                         .threads = options.threads,
                         .reserved = 0,
                         .parallel_for = options.parallel_for,
                         .parallel_for_context = options.parallel_for_context};
  CreateResult result;
  bp_operator* op = nullptr;
  result.status = bp_operator_create(p.kind, desc, options.device, &given, &op);
  result.op.reset(op);
  if (result.status != BP_OK) result.error = bp_last_error();
  return result;
}

}  // namespace

CreateResult try_create(const Problem& p, const Tensors& t, const CreateOptions& options) {
  std::vector<bp_tensor_desc> in, out;
  for (const TensorSpec& s : t.inputs) in.push_back(desc_of(s));
  for (const TensorSpec& s : t.outputs) out.push_back(desc_of(s));
  const auto input = [&](std::size_t i) { return t.inputs[i].absent ? nullptr : &in[i]; };
  const auto output = [&](std::size_t i) { return t.outputs[i].absent ? nullptr : &out[i]; };

  const bp_window window{sizeof(bp_window),    p.spatial_rank(),  0,
                         p.window.data(),      p.strides.data(),  p.start_padding.data(),
                         p.end_padding.data(), p.dilations.data()};
  const bp_slice_window slice{sizeof(bp_slice_window), p.rank(), 0, p.offsets.data(), p.sizes.data(), p.strides.data()};
  std::vector<bp_resample_table> tables;
  for (const std::optional<AxisTable>& table : p.tables) {
    if (!table) {
      tables.push_back({nullptr, nullptr, nullptr, 0});
    } else {
      tables.push_back({table->first.data(), table->count.data(), table->weights.data(),
                        static_cast<std::int64_t>(table->weights.size())});
    }
  }
  const bp_resample_map map{sizeof(bp_resample_map),
                            p.mode,
                            p.rounding,
                            p.convention,
                            p.rank(),
                            pointer(p.scales),
                            pointer(p.input_offsets),
                            pointer(p.output_offsets),
                            tables.empty() ? nullptr : tables.data()};

  switch (p.kind) {
    case BP_RELU: {
      const bp_relu_desc desc{sizeof desc, input(0), output(0)};
      return finish(p, &desc, options);
    }
    case BP_RELU_GRAD: {
      const bp_relu_grad_desc desc{sizeof desc, input(0), input(1), output(0), p.nan, 0};
      return finish(p, &desc, options);
    }
    case BP_MAX_POOL: {
      const bp_max_pool_desc desc{sizeof desc, input(0), output(0), output(1), &window, p.winners, 0};
      return finish(p, &desc, options);
    }
    case BP_MAX_POOL_GRAD: {
      const bp_max_pool_grad_desc desc{sizeof desc, input(0), input(1), input(2), output(0), &window, p.winners, 0};
      return finish(p, &desc, options);
    }
    case BP_RESAMPLE: {
      const bp_resample_desc desc{sizeof desc, input(0), output(0), &map};
      return finish(p, &desc, options);
    }
    case BP_RESAMPLE_GRAD: {
      const bp_resample_grad_desc desc{sizeof desc, input(0), output(0), &map};
      return finish(p, &desc, options);
    }
    case BP_SLICE: {
      const bp_slice_desc desc{sizeof desc, input(0), output(0), &slice};
      return finish(p, &desc, options);
    }
    case BP_SLICE_GRAD: {
      const bp_slice_grad_desc desc{sizeof desc, input(0), output(0), &slice};
      return finish(p, &desc, options);
    }
    case BP_CONVERT_WINNERS: {
      const bp_convert_winners_desc desc{sizeof desc, input(0),       output(0), p.x_shape.data(),
                                         &window,     p.winners_from, p.winners};
      return finish(p, &desc, options);
    }
    default:
      throw std::logic_error(fmt::format("try_create: unknown kind {}", p.kind));
  }
}

// ---- Problem lines -------------------------------------------------------------------------------------

Problem parse_problem(std::string_view line) {
  const std::size_t space = line.find(' ');
  Problem problem;
  problem.kind = require_operator(line.substr(0, space));
  CLI::App parser;
  add_problem_options(parser, problem);
  try {
    parser.parse(space == std::string_view::npos ? std::string() : std::string(line.substr(space + 1)));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{} (in '{}')", error.what(), line));
  }
  problem.text = line;
  complete(problem);
  return problem;
}

std::vector<SectionedProblem> parse_problems(std::string_view text) {
  std::vector<SectionedProblem> parsed;
  std::string section;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = line.substr(1, line.size() - 2);
      continue;
    }
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) throw UsageError(fmt::format("a problem without a name: '{}'", line));
    parsed.push_back({section, parse_problem(line.substr(colon + 2))});
    parsed.back().problem.name = line.substr(0, colon);
  }
  return parsed;
}

const std::vector<Problem>& named_problems() {
  static const std::vector<Problem> problems = [] {
    std::vector<Problem> named;
    for (SectionedProblem& entry : parse_problems(kEmbeddedProblems)) named.push_back(std::move(entry.problem));
    return named;
  }();
  return problems;
}

}  // namespace tools

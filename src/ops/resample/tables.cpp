// SPDX-License-Identifier: Apache-2.0
#include "ops/resample/tables.h"

#include "core/checked.h"
#include "core/operator.h"
#include "core/read_struct.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace bp {

namespace {

// Coordinates are exact integers in f64 and their products fit in 128 bits up to here.
constexpr std::int64_t kMostResampled = std::int64_t{1} << 40;

std::span<const double> values(const double* data, int rank) { return {data, static_cast<std::size_t>(rank)}; }

// ---- Reading the desc ----------------------------------------------------------------------------------

int read_enum(std::string_view op, std::string_view name, int value, int last, std::string_view expected) {
  if (value < 0 || value > last) invalid("{}: {}: is {}, expected {}", op, name, value, expected);
  return value;
}

double read_offset(std::string_view op, std::string_view name, int axis, const double* offsets, double otherwise) {
  if (offsets == nullptr) return otherwise;
  if (!std::isfinite(offsets[axis])) {
    invalid("{}: {}: axis {}: is {}, expected a finite number", op, name, axis, offsets[axis]);
  }
  return offsets[axis];
}

ScaledAxis read_scaled(std::string_view op, const bp_resample_map& given, Convention convention, int axis) {
  const double scale = given.scales[axis];
  if (!std::isfinite(scale) || scale <= 0) {
    invalid("{}: scales: axis {}: is {}, expected a finite number above 0", op, axis, scale);
  }
  const bool centers = convention == Convention::half_pixel;
  return {scale, read_offset(op, "input_offsets", axis, given.input_offsets, centers ? 0.5 : 0.0),
          read_offset(op, "output_offsets", axis, given.output_offsets, centers ? -0.5 : 0.0)};
}

void require_row(std::string_view op, int axis, std::int64_t o, std::int64_t first, std::int64_t count,
                 std::int64_t inputs) {
  if (count < 0) invalid("{}: tables: axis {}: count of output {} is {}, expected 0 or more", op, axis, o, count);
  if (first < 0 || first > inputs || count > inputs - first) {
    invalid("{}: tables: axis {}: output {} reads [{}, {} + {}), expected to stay within [0, {})", op, axis, o, first,
            first, count, inputs);
  }
}

void read_axis_table(std::string_view op, const bp_resample_table& table, int axis, std::int64_t inputs,
                     std::int64_t outputs, Accumulator accumulator, ResampleMap::Axis& result) {
  if (table.count == nullptr)
    invalid("{}: tables: axis {}: count is null, expected {}", op, axis, counted(outputs, "entry", "entries"));
  Checked total = 0;
  for (std::int64_t o = 0; o < outputs; ++o) {
    require_row(op, axis, o, table.first[o], table.count[o], inputs);
    total = add(total, table.count[o]);
  }
  if (!total || *total != table.weight_count) {
    invalid("{}: tables: axis {}: weight_count is {}, expected the sum of count ({})", op, axis, table.weight_count,
            total ? std::to_string(*total) : "more than 2^63 - 1");
  }
  if (*total > 0 && table.weights == nullptr) {
    invalid("{}: tables: axis {}: weights is null, expected {}", op, axis, counted(*total, "entry", "entries"));
  }
  for (std::int64_t k = 0; k < *total; ++k) {
    if (!std::isfinite(round_to(accumulator, table.weights[k]))) {
      invalid("{}: tables: axis {}: weight {} is {}, expected a number that is finite in {}", op, axis, k,
              table.weights[k], accumulator == Accumulator::f64 ? "f64" : "f32");
    }
  }
  result.source = ResampleMap::Axis::Source::table;
  result.first.assign(table.first, table.first + outputs);
  result.count.assign(table.count, table.count + outputs);
  result.weights.assign(table.weights, table.weights + *total);
}

// "2=0:0.25:0.75,1:1": for every output its first index and its weights.
std::string table_text(int axis, const ResampleMap::Axis& table) {
  std::string text = fmt::format("{}=", axis);
  std::size_t at = 0;
  for (std::size_t o = 0; o < table.first.size(); ++o) {
    text += fmt::format("{}{}", o == 0 ? "" : ",", table.first[o]);
    for (std::int64_t k = 0; k < table.count[o]; ++k) text += fmt::format(":{}", table.weights[at++]);
  }
  return text;
}

std::string map_text(const ResampleMap& map, const bp_resample_map& given) {
  constexpr std::array<std::string_view, 3> kRoundings{"increasing", "decreasing", "half-up"};
  constexpr std::array<std::string_view, 3> kConventions{"half-pixel", "align-corners", "asymmetric"};
  ProblemText text("");
  text.add("--mode", map.linear ? "linear" : "nearest");
  if (!map.linear) text.add("--rounding", kRoundings[static_cast<std::size_t>(map.rounding)]);
  text.add("--convention", kConventions[static_cast<std::size_t>(map.convention)]);
  if (given.scales != nullptr) text.add("--scales", values(given.scales, map.rank));
  if (given.input_offsets != nullptr) text.add("--input-offsets", values(given.input_offsets, map.rank));
  if (given.output_offsets != nullptr) text.add("--output-offsets", values(given.output_offsets, map.rank));
  for (int i = 0; i < map.rank; ++i) {
    if (map.axes[i].source == ResampleMap::Axis::Source::table) text.add("--table", table_text(i, map.axes[i]));
  }
  return text.text();
}

// ---- Building ------------------------------------------------------------------------------------------

// Calls emit(o, i, w) for the existing taps of every output, ascending.
template <class Emit>
void each_tap(const ResampleMap& map, const ResampleMap::Axis& axis, std::int64_t inputs, std::int64_t outputs,
              Accumulator accumulator, Emit&& emit) {
  using Source = ResampleMap::Axis::Source;
  std::size_t at = 0;
  for (std::int64_t o = 0; o < outputs; ++o) {
    Taps taps;
    if (axis.source == Source::exact) {
      const ExactCoordinate c(map.convention, o, inputs, outputs);
      taps = map.linear ? c.linear(inputs, accumulator) : c.nearest(inputs, map.rounding);
    } else if (axis.source == Source::scaled) {
      taps = map.linear ? axis.scaled.linear(o, inputs, accumulator) : axis.scaled.nearest(o, inputs, map.rounding);
    } else {
      for (std::int64_t k = 0; k < axis.count[static_cast<std::size_t>(o)]; ++k) {
        const double weight = round_to(accumulator, axis.weights[at++]);
        if (weight != 0) emit(o, axis.first[static_cast<std::size_t>(o)] + k, weight);
      }
    }
    for (int k = 0; k < taps.count; ++k) emit(o, taps.tap[k].index, taps.tap[k].weight);
  }
}

// Identities that need no look at every output, so that a long axis that is not resampled costs nothing.
bool obviously_left_alone(const ResampleMap::Axis& axis, std::int64_t inputs, std::int64_t outputs) {
  using Source = ResampleMap::Axis::Source;
  if (inputs != outputs || axis.source == Source::table) return false;
  if (axis.source == Source::exact) return true;
  const ScaledAxis& s = axis.scaled;
  const bool corners = s.input_offset == 0 && s.output_offset == 0;
  const bool centers = s.input_offset == 0.5 && s.output_offset == -0.5;
  constexpr std::int64_t kExactHalves = std::int64_t{1} << 51;
  return s.scale == 1 && (corners || centers) && outputs < kExactHalves;
}

// Exchanges rows and indices. Outputs come in ascending order, so they ascend within each row.
void transpose(AxisTable& table) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(table.inputs) + 1, 0);
  for (const std::int64_t i : table.index) ++begin[static_cast<std::size_t>(i) + 1];
  for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<std::int64_t> index(table.index.size());
  std::vector<double> weight(table.weight.size());
  std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t o = 0; o + 1 < table.begin.size(); ++o) {
    for (std::int64_t k = table.begin[o]; k < table.begin[o + 1]; ++k) {
      const auto from = static_cast<std::size_t>(k);
      const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(table.index[from])]++);
      index[to] = static_cast<std::int64_t>(o);
      weight[to] = table.weight[from];
    }
  }
  table.begin = std::move(begin);
  table.index = std::move(index);
  table.weight = std::move(weight);
}

bool is_left_alone(const AxisTable& table) {
  if (table.inputs != table.outputs || table.index.size() != static_cast<std::size_t>(table.outputs)) return false;
  for (std::size_t o = 0; o < table.index.size(); ++o) {
    const auto i = static_cast<std::int64_t>(o);
    if (table.begin[o] != i || table.index[o] != i || table.weight[o] != 1) return false;
  }
  return true;
}

}  // namespace

std::int64_t AxisTable::longest_row() const {
  std::int64_t longest = 0;
  for (std::size_t r = 1; r < begin.size(); ++r) longest = std::max(longest, begin[r] - begin[r - 1]);
  return longest;
}

ResampleMap read_map(std::string_view op, const bp_resample_map* desc, const Tensor& x, const Tensor& y) {
  if (desc == nullptr) invalid("{}: map: is null, expected a bp_resample_map", op);
  const auto given = read_struct<bp_resample_map>(op, "map", desc);
  if (given.rank != x.rank) invalid("{}: map: rank is {}, expected {} (that of the tensors)", op, given.rank, x.rank);
  ResampleMap map;
  map.rank = given.rank;
  map.linear = read_enum(op, "mode", given.mode, BP_LINEAR, "0 (nearest) or 1 (linear)") == BP_LINEAR;
  map.rounding = static_cast<Rounding>(
      read_enum(op, "rounding", given.rounding, BP_ROUND_HALF_UP, "0 (increasing), 1 (decreasing) or 2 (half-up)"));
  map.convention = static_cast<Convention>(read_enum(op, "convention", given.convention, BP_ASYMMETRIC,
                                                     "0 (half-pixel), 1 (align-corners) or 2 (asymmetric)"));
  if (given.scales == nullptr && (given.input_offsets != nullptr || given.output_offsets != nullptr)) {
    invalid("{}: scales: is null although {} is given, expected {} (the exact conventions have no offsets)", op,
            given.input_offsets != nullptr ? "input_offsets" : "output_offsets",
            counted(given.rank, "entry", "entries"));
  }
  const Accumulator accumulator = accumulates_in_f64(x.dtype) ? Accumulator::f64 : Accumulator::f32;
  for (int i = 0; i < given.rank; ++i) {
    ResampleMap::Axis& axis = map.axes[i];
    if (given.scales != nullptr) {
      axis.source = ResampleMap::Axis::Source::scaled;
      axis.scaled = read_scaled(op, given, map.convention, i);
    }
    if (given.tables != nullptr && given.tables[i].first != nullptr) {
      read_axis_table(op, given.tables[i], i, x.sizes[i], y.sizes[i], accumulator, axis);
    }
  }
  map.text = map_text(map, given);
  return map;
}

AxisTable build_table(std::string_view op, const ResampleMap& map, int axis, std::int64_t inputs, std::int64_t outputs,
                      Accumulator accumulator, Direction direction) {
  const ResampleMap::Axis& source = map.axes[axis];
  const bool table_given = source.source == ResampleMap::Axis::Source::table;
  AxisTable table{.inputs = inputs, .outputs = outputs, .left_alone = obviously_left_alone(source, inputs, outputs)};
  table.movement = table.left_alone || (!map.linear && !table_given);
  if (table.left_alone) return table;
  if (std::max(inputs, outputs) > kMostResampled) {
    unsupported("{}: sizes: axis {}: is to be resampled from {} to {}, expected at most 2^40", op, axis, inputs,
                outputs);
  }

  const std::size_t most =
      table_given ? source.weights.size() : static_cast<std::size_t>(outputs) * (map.linear ? 2 : 1);
  table.begin.assign(static_cast<std::size_t>(outputs) + 1, 0);
  table.index.reserve(most);
  table.weight.reserve(most);
  each_tap(map, source, inputs, outputs, accumulator, [&](std::int64_t o, std::int64_t index, double weight) {
    table.index.push_back(index);
    table.weight.push_back(weight);
    table.begin[static_cast<std::size_t>(o) + 1] = static_cast<std::int64_t>(table.index.size());
  });
  // An output without taps ends where the one before it did.
  for (std::size_t o = 1; o < table.begin.size(); ++o) table.begin[o] = std::max(table.begin[o], table.begin[o - 1]);

  if (is_left_alone(table)) return {.inputs = inputs, .outputs = outputs, .left_alone = true, .movement = true};
  if (direction == Direction::gradient) transpose(table);
  return table;
}

}  // namespace bp

// SPDX-License-Identifier: Apache-2.0
#include "oracle/numbers.h"
#include "oracle/operators.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace tools::oracle {
namespace {

// ---- The map of one axis ----------------------------------------------------------------------------------

template <class Acc>
struct Weighted {
  int64_t index;
  Acc weight;
};

template <class Acc>
using WeightLists = std::vector<std::vector<Weighted<Acc>>>;

int64_t clamped_index(i128 index, int64_t in) {
  return static_cast<int64_t>(std::clamp<i128>(index, i128{0}, i128{in} - 1));
}

i128 floor_quotient(i128 numerator, i128 denominator) {
  const i128 quotient = numerator / denominator;
  return quotient * denominator > numerator ? quotient - 1 : quotient;
}

struct Rational {
  i128 numerator = 0, denominator = 1;  // denominator > 0
};

Rational exact_coordinate(int32_t convention, i128 o, i128 in, i128 out) {
  if (convention == BP_HALF_PIXEL) return {(2 * o + 1) * in - out, 2 * out};
  if (convention == BP_ASYMMETRIC) return {o * in, out};
  if (in == 1 || out == 1) return {0, 1};
  return {o * (in - 1), out - 1};
}

// numerator / denominator, in [0, 1], rounded once to nearest even: long division in binary, digit by digit, until the
// significand is full; then the remainder decides. The smallest quotient is far above the subnormals.
template <class Acc>
Acc rounded_quotient(i128 numerator, i128 denominator) {
  if (numerator == 0) return 0;
  i128 significand = numerator / denominator;
  i128 remainder = numerator % denominator;
  int exponent = 0;
  while (significand < i128{1} << (std::numeric_limits<Acc>::digits - 1)) {
    remainder = 2 * remainder;
    const i128 digit = remainder >= denominator ? 1 : 0;
    remainder = remainder - digit * denominator;
    significand = 2 * significand + digit;
    --exponent;
  }
  const bool above_half = 2 * remainder > denominator;
  const bool half = 2 * remainder == denominator;
  if (above_half || (half && significand % 2 == 1)) ++significand;
  return std::ldexp(static_cast<Acc>(significand), exponent);
}

i128 nearest_exact(Rational c, int32_t rounding) {
  if (rounding == BP_ROUND_INCREASING) return -floor_quotient(-c.numerator, c.denominator);
  if (rounding == BP_ROUND_DECREASING) return floor_quotient(c.numerator, c.denominator);
  return floor_quotient(2 * c.numerator + c.denominator, 2 * c.denominator);
}

double nearest_scaled(double c, int32_t rounding) {
  if (rounding == BP_ROUND_INCREASING) return std::ceil(c);
  if (rounding == BP_ROUND_DECREASING) return std::floor(c);
  return std::floor(c + 0.5);
}

double scaled_coordinate(const Problem& problem, std::size_t axis, int64_t o) {
  const bool centers = problem.convention == BP_HALF_PIXEL;
  const double ip = problem.input_offsets.empty() ? (centers ? 0.5 : 0.0) : problem.input_offsets[axis];
  const double op = problem.output_offsets.empty() ? (centers ? -0.5 : 0.0) : problem.output_offsets[axis];
  const double shifted = static_cast<double>(o) - op;
  const double scaled = shifted / problem.scales[axis];
  const double c = scaled - ip;
  return std::clamp(c, -1.0, static_cast<double>(problem.x_shape[axis]));
}

template <class Acc>
std::vector<Weighted<Acc>> linear_taps(i128 below, Acc weight_below, Acc weight_above, int64_t in) {
  const int64_t first = clamped_index(below, in), second = clamped_index(below + 1, in);
  if (first == second) return {{first, 1}};
  std::vector<Weighted<Acc>> taps;
  if (weight_below != 0) taps.push_back({first, weight_below});
  if (weight_above != 0) taps.push_back({second, weight_above});
  return taps;
}

template <class Acc>
std::vector<Weighted<Acc>> exact_taps(const Problem& problem, std::size_t axis, int64_t o) {
  const int64_t in = problem.x_shape[axis];
  const Rational c = exact_coordinate(problem.convention, o, in, problem.y_shape[axis]);
  if (problem.mode == BP_NEAREST) return {{clamped_index(nearest_exact(c, problem.rounding), in), 1}};
  const i128 below = floor_quotient(c.numerator, c.denominator);
  const i128 rest = c.numerator - below * c.denominator;
  return linear_taps(below, rounded_quotient<Acc>(c.denominator - rest, c.denominator),
                     rounded_quotient<Acc>(rest, c.denominator), in);
}

template <class Acc>
std::vector<Weighted<Acc>> scaled_taps(const Problem& problem, std::size_t axis, int64_t o) {
  const int64_t in = problem.x_shape[axis];
  const double c = scaled_coordinate(problem, axis, o);
  if (problem.mode == BP_NEAREST) {
    return {{clamped_index(static_cast<i128>(nearest_scaled(c, problem.rounding)), in), 1}};
  }
  const double below = std::floor(c);
  const double t = c - below;
  const double rest = 1.0 - t;
  return linear_taps(static_cast<i128>(below), round_to<Acc>(rest), round_to<Acc>(t), in);
}

bool has_table(const Problem& problem, std::size_t axis) {
  return !problem.tables.empty() && problem.tables[axis].has_value();
}

template <class Acc>
WeightLists<Acc> table_lists(const AxisTable& table) {
  WeightLists<Acc> lists(table.first.size());
  std::size_t next_weight = 0;
  for (std::size_t o = 0; o < lists.size(); ++o) {
    for (int64_t k = 0; k < table.count[o]; ++k) {
      const Acc weight = round_to<Acc>(table.weights[next_weight++]);
      if (weight != 0) lists[o].push_back({table.first[o] + k, weight});
    }
  }
  return lists;
}

// For each o its taps, ascending.
template <class Acc>
WeightLists<Acc> forward_lists(const Problem& problem, std::size_t axis) {
  if (has_table(problem, axis)) return table_lists<Acc>(*problem.tables[axis]);
  WeightLists<Acc> lists;
  for (int64_t o = 0; o < problem.y_shape[axis]; ++o) {
    lists.push_back(problem.scales.empty() ? exact_taps<Acc>(problem, axis, o) : scaled_taps<Acc>(problem, axis, o));
  }
  return lists;
}

// For each source index i, the outputs that read it, ascending.
template <class Acc>
WeightLists<Acc> gradient_lists(const Problem& problem, std::size_t axis) {
  const WeightLists<Acc> forward = forward_lists<Acc>(problem, axis);
  WeightLists<Acc> lists(at(problem.x_shape[axis]));
  for (std::size_t o = 0; o < forward.size(); ++o) {
    for (const Weighted<Acc>& tap : forward[o]) lists[at(tap.index)].push_back({length(o), tap.weight});
  }
  return lists;
}

template <class Acc>
bool is_movement(const Problem& problem, std::size_t axis, const WeightLists<Acc>& lists) {
  if (problem.mode == BP_NEAREST && !has_table(problem, axis)) return true;
  if (problem.x_shape[axis] != problem.y_shape[axis]) return false;
  for (std::size_t o = 0; o < lists.size(); ++o) {
    if (lists[o].size() != 1 || lists[o][0].index != length(o) || lists[o][0].weight != 1) return false;
  }
  return true;
}

// ---- One pass over a whole array for each axis ------------------------------------------------------------

// Replaces every line along one axis: its new element at i is combine(lists[i], line), where line(j) is the old at j.
template <class T, class Acc, class Combine>
void pass(std::vector<T>& values, Ints& shape, std::size_t axis, const WeightLists<Acc>& lists, Combine combine) {
  int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t old_size = shape[axis];
  const int64_t outer = length(values.size()) / (old_size * inner);
  std::vector<T> result;
  result.reserve(at(outer * length(lists.size()) * inner));
  for (int64_t before = 0; before < outer; ++before) {
    for (const std::vector<Weighted<Acc>>& list : lists) {
      for (int64_t after = 0; after < inner; ++after) {
        const auto line = [&](int64_t j) { return values[at((before * old_size + j) * inner + after)]; };
        result.push_back(combine(list, line));
      }
    }
  }
  values = std::move(result);
  shape[axis] = length(lists.size());
}

// The one element that a movement reads, with no arithmetic.
constexpr auto kMoved = [](const auto& list, const auto& line) { return line(list[0].index); };

template <class Acc, class Line>
Acc sum(std::span<const Weighted<Acc>> terms, const Line& line) {
  Acc total = 0;
  for (const Weighted<Acc>& term : terms) {
    const Acc product = term.weight * line(term.index);
    total = total + product;
  }
  return total;
}

// Up to 128 terms this is the plain sum, since adding to +0 changes no sum that itself began at +0.
template <class Acc, class Line>
Acc sum_in_blocks(std::span<const Weighted<Acc>> terms, const Line& line) {
  Acc total = 0;
  while (!terms.empty()) {
    const std::size_t block = std::min<std::size_t>(128, terms.size());
    total = total + sum<Acc>(terms.first(block), line);
    terms = terms.subspan(block);
  }
  return total;
}

// Where every axis only moves, the bits are moved; otherwise everything is done on accumulators.
template <class Acc>
Expected resample_as(const Problem& problem, const Dense& x) {
  if (x.bits.empty() || element_count(problem.y_shape) == 0) return {{zeros(x.dtype, problem.y_shape)}, false, false};
  std::vector<WeightLists<Acc>> lists;
  std::vector<bool> moves;
  for (std::size_t axis = 0; axis < problem.x_shape.size(); ++axis) {
    lists.push_back(forward_lists<Acc>(problem, axis));
    moves.push_back(is_movement(problem, axis, lists[axis]));
  }
  const bool only_moves = std::find(moves.begin(), moves.end(), false) == moves.end();
  Bits bits = x.bits;
  std::vector<Acc> values = accumulators<Acc>(x);
  Ints shape = problem.x_shape;
  const auto summed = [](const auto& list, const auto& line) { return sum<Acc>(list, line); };
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (only_moves) {
      pass(bits, shape, axis, lists[axis], kMoved);
    } else if (moves[axis]) {
      pass(values, shape, axis, lists[axis], kMoved);
    } else {
      pass(values, shape, axis, lists[axis], summed);
    }
  }
  if (only_moves) return {{Dense{x.dtype, shape, bits}}, false, false};
  return {{to_storage(x.dtype, shape, values)}, is_float(x.dtype), false};
}

template <class Acc>
Expected resample_grad_as(const Problem& problem, const Dense& dy) {
  if (dy.bits.empty() || element_count(problem.x_shape) == 0) return {{zeros(dy.dtype, problem.x_shape)}, true, false};
  std::vector<Acc> values = accumulators<Acc>(dy);
  Ints shape = problem.y_shape;
  const auto summed = [](const auto& list, const auto& line) { return sum_in_blocks<Acc>(list, line); };
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    pass(values, shape, axis, gradient_lists<Acc>(problem, axis), summed);
  }
  return {{to_storage(dy.dtype, shape, values)}, true, false};
}

}  // namespace

Expected resample(const Problem& problem, const Dense& x) {
  return x.dtype == BP_F64 ? resample_as<double>(problem, x) : resample_as<float>(problem, x);
}

Expected resample_grad(const Problem& problem, const Dense& dy) {
  return dy.dtype == BP_F64 ? resample_grad_as<double>(problem, dy) : resample_grad_as<float>(problem, dy);
}

}  // namespace tools::oracle

// SPDX-License-Identifier: Apache-2.0
#include "brute_force.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace tools {
namespace {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

// Holds every i64 and u64 value, and the numerator of every exact coordinate.
__extension__ typedef __int128 i128;

using Bits = std::vector<uint64_t>;

std::size_t at(int64_t index) { return static_cast<std::size_t>(index); }
int64_t length(std::size_t size) { return static_cast<int64_t>(size); }

int64_t element_count(const Ints& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

Dense zeros(int32_t dtype, const Ints& sizes) { return {dtype, sizes, Bits(at(element_count(sizes)), 0)}; }

// ---- Numbers: raw bits <-> values, by arithmetic ----------------------------------------------------------

int bit_width(int32_t dtype) {
  constexpr std::array<int, 13> widths{0, 64, 32, 16, 16, 64, 32, 16, 8, 64, 32, 16, 8};  // in the order of bp_dtype
  return widths[at(dtype)];
}

bool is_float(int32_t dtype) { return dtype >= BP_F64 && dtype <= BP_BF16; }
bool is_signed_integer(int32_t dtype) { return dtype >= BP_I64 && dtype <= BP_I8; }

uint64_t all_ones(int32_t dtype) { return std::numeric_limits<uint64_t>::max() >> (64 - bit_width(dtype)); }

i128 integer_value(uint64_t bits, int32_t dtype) {
  const i128 two_to_width = i128{1} << bit_width(dtype);
  const bool negative = is_signed_integer(dtype) && bits >= static_cast<uint64_t>(two_to_width / 2);
  return negative ? bits - two_to_width : i128{bits};
}

uint64_t integer_bits(i128 value, int32_t dtype) { return static_cast<uint64_t>(value) & all_ones(dtype); }

i128 least_integer(int32_t dtype) { return is_signed_integer(dtype) ? -(i128{1} << (bit_width(dtype) - 1)) : i128{0}; }

i128 greatest_integer(int32_t dtype) { return least_integer(dtype) + (i128{1} << bit_width(dtype)) - 1; }

struct FloatFormat {
  int exponent_bits;
  int fraction_bits;

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int least_exponent() const { return 1 - bias(); }
  [[nodiscard]] uint64_t one() const { return uint64_t{1} << fraction_bits; }
  [[nodiscard]] uint64_t sign() const { return one() << exponent_bits; }
  [[nodiscard]] uint64_t infinity() const { return sign() - one(); }
};

FloatFormat float_format(int32_t dtype) {
  if (dtype == BP_F64) return {11, 52};
  if (dtype == BP_F32) return {8, 23};
  if (dtype == BP_F16) return {5, 10};
  return {8, 7};
}

// Exact: a double holds every value of all four formats.
double float_value(uint64_t bits, FloatFormat format) {
  const uint64_t magnitude = bits % format.sign();
  const uint64_t fraction = magnitude % format.one();
  const int exponent_field = static_cast<int>(magnitude / format.one());
  const double sign = bits < format.sign() ? 1 : -1;
  if (magnitude > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  const int exponent = std::max(exponent_field - format.bias(), format.least_exponent());
  const uint64_t units = exponent_field == 0 ? fraction : format.one() + fraction;
  return sign * std::ldexp(static_cast<double>(units), exponent - format.fraction_bits);
}

// One rounding, to nearest even: scaled so that the format's last place is worth 1, the value is rounded to an integer.
// Scaling by a power of two is exact here, because it never leads into the subnormal doubles.
uint64_t float_bits(double value, FloatFormat format) {
  if (std::isnan(value)) return format.infinity() + format.one() / 2;
  const uint64_t sign = std::signbit(value) ? format.sign() : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign + format.infinity();
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude is in [2^(exponent - 1), 2^exponent)
  exponent = std::max(exponent - 1, format.least_exponent());
  auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  if (units == 2 * format.one()) {  // rounded up to the next power of two
    units = format.one();
    ++exponent;
  }
  if (units < format.one()) return sign + units;  // subnormal, or rounded to zero
  if (exponent > format.bias()) return sign + format.infinity();
  return sign + static_cast<uint64_t>(exponent + format.bias()) * format.one() + (units - format.one());
}

double real_value(uint64_t bits, int32_t dtype) {
  return is_float(dtype) ? float_value(bits, float_format(dtype)) : static_cast<double>(integer_value(bits, dtype));
}

// Integers round to nearest even and saturate; NaN becomes 0.
uint64_t stored_bits(double value, int32_t dtype) {
  if (is_float(dtype)) return float_bits(value, float_format(dtype));
  if (std::isnan(value)) return 0;
  const auto least = static_cast<double>(least_integer(dtype));
  const auto greatest = static_cast<double>(greatest_integer(dtype));
  const double whole = std::clamp(std::nearbyint(value), least, greatest);
  return integer_bits(static_cast<i128>(whole), dtype);
}

template <class Acc>
Acc round_to(double value) {
  const FloatFormat format = float_format(std::is_same_v<Acc, double> ? BP_F64 : BP_F32);
  return static_cast<Acc>(float_value(float_bits(value, format), format));
}

template <class Acc>
std::vector<Acc> accumulators(const Dense& tensor) {
  std::vector<Acc> values;
  values.reserve(tensor.bits.size());
  for (const uint64_t bits : tensor.bits) values.push_back(static_cast<Acc>(real_value(bits, tensor.dtype)));
  return values;
}

template <class Acc>
Dense to_storage(int32_t dtype, const Ints& sizes, const std::vector<Acc>& values) {
  Dense tensor{dtype, sizes, {}};
  for (const Acc value : values) tensor.bits.push_back(stored_bits(value, dtype));
  return tensor;
}

// ---- ReLU ----------------------------------------------------------------------------------------------------

bool is_nan(uint64_t bits, int32_t dtype) { return is_float(dtype) && std::isnan(real_value(bits, dtype)); }

bool is_positive(uint64_t bits, int32_t dtype) {
  return is_float(dtype) ? real_value(bits, dtype) > 0 : integer_value(bits, dtype) > 0;
}

Expected relu(const Dense& x) {
  Dense y = x;
  for (uint64_t& bits : y.bits) {
    if (!is_positive(bits, x.dtype) && !is_nan(bits, x.dtype)) bits = 0;
  }
  return {{y}, false, false};
}

Expected relu_grad(const Problem& problem, const Dense& x, const Dense& dy) {
  Dense dx = dy;
  for (std::size_t i = 0; i < dx.bits.size(); ++i) {
    const bool nan_passes = problem.nan == BP_NAN_PASS && is_nan(x.bits[i], x.dtype);
    if (!is_positive(x.bits[i], x.dtype) && !nan_passes) dx.bits[i] = 0;
  }
  return {{dx}, false, false};
}

// ---- Max pooling ---------------------------------------------------------------------------------------------

struct AxisTap {
  int64_t position;  // in x
  int64_t number;    // in the window
};

// The existing taps of output o on one axis, ascending. Walks the positions of x that lie on the taps' grid, so that a
// window of any size costs no more than x is long.
std::vector<AxisTap> existing_taps(const Problem& problem, std::size_t axis, int64_t o) {
  const int64_t dilation = problem.dilations[axis];
  const int64_t start = o * problem.strides[axis] - problem.start_padding[axis];
  const int64_t first = start >= 0 ? start : (start % dilation + dilation) % dilation;
  std::vector<AxisTap> taps;
  for (int64_t position = first; position < problem.x_shape[axis + 2]; position += dilation) {
    const int64_t number = (position - start) / dilation;
    if (number >= problem.window[axis]) break;
    taps.push_back({position, number});
  }
  return taps;
}

// One existing tap of one window, by each of its three names.
struct WindowTap {
  int64_t compact = 0, flat = 0, plane = 0;
};

// Always three spatial axes: missing ones are put in front, with size 1 and one tap.
struct Pooling {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1};
  std::array<std::vector<std::vector<AxisTap>>, 3> taps;  // [axis][o on that axis]
  int64_t windows = 0;

  explicit Pooling(const Problem& problem) : windows(element_count(problem.y_shape)) {
    const std::vector<AxisTap> only_tap(1, {0, 0});
    taps.fill({only_tap});
    const std::size_t spatial = problem.x_shape.size() - 2;
    for (std::size_t i = 0; i < spatial; ++i) {
      const std::size_t axis = 3 - spatial + i;
      in[axis] = problem.x_shape[i + 2];
      out[axis] = problem.y_shape[i + 2];
      window[axis] = problem.window[i];
      taps[axis].clear();
      for (int64_t o = 0; o < out[axis]; ++o) taps[axis].push_back(existing_taps(problem, i, o));
    }
  }

  // Visits the existing taps of window o (row-major over all of y) in ascending order.
  template <class Visit>
  void for_each_tap(int64_t o, Visit visit) const {
    const int64_t o2 = o % out[2], o1 = o / out[2] % out[1], o0 = o / out[2] / out[1] % out[0];
    const int64_t image = o / out[2] / out[1] / out[0];  // n and c together
    for (const AxisTap& a : taps[0][at(o0)]) {
      for (const AxisTap& b : taps[1][at(o1)]) {
        for (const AxisTap& c : taps[2][at(o2)]) {
          WindowTap tap;
          tap.compact = (a.number * window[1] + b.number) * window[2] + c.number;
          tap.plane = (a.position * in[1] + b.position) * in[2] + c.position;
          tap.flat = image * in[0] * in[1] * in[2] + tap.plane;
          visit(tap);
        }
      }
    }
  }
};

using Winner = std::optional<WindowTap>;

template <class Value>
std::vector<Winner> winners_of_values(const Pooling& pooling, const std::vector<Value>& x) {
  std::vector<Winner> winners(at(pooling.windows));
  for (int64_t o = 0; o < pooling.windows; ++o) {
    Winner& winner = winners[at(o)];
    pooling.for_each_tap(o, [&](const WindowTap& tap) {
      const Value value = x[at(tap.flat)];
      const Value best = winner ? x[at(winner->flat)] : value;
      const bool first_nan = value != value && best == best;
      if (!winner || value > best || first_nan) winner = tap;
    });
  }
  return winners;
}

// Integers are compared as integers: a double would merge neighbours beyond 2^53.
std::vector<Winner> winners_of(const Pooling& pooling, const Dense& x) {
  if (is_float(x.dtype)) return winners_of_values(pooling, accumulators<double>(x));
  std::vector<i128> values;
  for (const uint64_t bits : x.bits) values.push_back(integer_value(bits, x.dtype));
  return winners_of_values(pooling, values);
}

int64_t winner_name(const WindowTap& tap, int32_t kind) {
  if (kind == BP_WINNERS_COMPACT) return tap.compact;
  return kind == BP_WINNERS_FLAT ? tap.flat : tap.plane;
}

int32_t stored_winner_dtype(const Problem& problem) {
  if (problem.winners != BP_WINNERS_COMPACT) return problem.winners_dtype == 0 ? BP_I64 : problem.winners_dtype;
  const int64_t taps = element_count(problem.window);
  if (taps <= 255) return BP_U8;
  return taps <= 65535 ? BP_U16 : BP_U32;
}

Dense stored_winners(const Problem& problem, const std::vector<Winner>& winners) {
  Dense stored{stored_winner_dtype(problem), problem.y_shape, {}};
  for (const Winner& winner : winners) {
    const uint64_t none = all_ones(stored.dtype);
    stored.bits.push_back(winner ? integer_bits(winner_name(*winner, problem.winners), stored.dtype) : none);
  }
  return stored;
}

struct ReadWinners {
  std::vector<Winner> winners;
  bool some_wrong = false;
};

// A stored winner is right when one of the existing taps of its own window has that name.
ReadWinners read_winners(const Pooling& pooling, const Dense& stored, int32_t kind) {
  ReadWinners read{std::vector<Winner>(stored.bits.size()), false};
  for (std::size_t o = 0; o < stored.bits.size(); ++o) {
    if (stored.bits[o] == all_ones(stored.dtype)) continue;  // no winner
    const i128 name = integer_value(stored.bits[o], stored.dtype);
    pooling.for_each_tap(length(o), [&](const WindowTap& tap) {
      if (winner_name(tap, kind) == name) read.winners[o] = tap;
    });
    if (!read.winners[o]) read.some_wrong = true;
  }
  return read;
}

uint64_t lowest_bits(int32_t dtype) {
  if (is_float(dtype)) return stored_bits(-std::numeric_limits<double>::infinity(), dtype);
  return integer_bits(least_integer(dtype), dtype);
}

Expected max_pool(const Problem& problem, const Dense& x) {
  const std::vector<Winner> winners = winners_of(Pooling(problem), x);
  Dense y{x.dtype, problem.y_shape, {}};
  for (const Winner& winner : winners) y.bits.push_back(winner ? x.bits[at(winner->flat)] : lowest_bits(x.dtype));
  const bool wanted = problem.winners != BP_WINNERS_NONE;
  return {{y, wanted ? stored_winners(problem, winners) : Dense{}}, false, false};
}

// Every element of dx gathers the gradients of the windows that it wins, in ascending order.
template <class Acc>
Dense gathered(const Problem& problem, const std::vector<Winner>& winners, const Dense& dy) {
  std::vector<std::pair<int64_t, std::size_t>> wins;  // (p, o): once sorted, the windows of each p are ascending
  for (std::size_t o = 0; o < winners.size(); ++o) {
    if (winners[o]) wins.emplace_back(winners[o]->flat, o);
  }
  std::sort(wins.begin(), wins.end());
  const std::vector<Acc> gradients = accumulators<Acc>(dy);
  std::vector<Acc> dx(at(element_count(problem.x_shape)));
  auto next = wins.begin();
  for (int64_t p = 0; p < length(dx.size()); ++p) {
    Acc sum = 0;
    for (; next != wins.end() && next->first == p; ++next) sum = sum + gradients[next->second];
    dx[at(p)] = sum;
  }
  return to_storage(dy.dtype, problem.x_shape, dx);
}

Expected max_pool_grad(const Problem& problem, const std::vector<Dense>& inputs) {
  const Dense& dy = inputs[1];
  // An empty output does nothing: it does not look at the stored winners either.
  if (element_count(problem.x_shape) == 0) return {{zeros(dy.dtype, problem.x_shape)}, true, false};
  const Pooling pooling(problem);
  ReadWinners read;
  if (problem.winners == BP_WINNERS_NONE) {
    read.winners = winners_of(pooling, inputs[0]);
  } else {
    read = read_winners(pooling, inputs[2], problem.winners);
  }
  const Dense dx =
      dy.dtype == BP_F64 ? gathered<double>(problem, read.winners, dy) : gathered<float>(problem, read.winners, dy);
  return {{dx}, true, read.some_wrong};
}

Expected convert_winners(const Problem& problem, const Dense& from) {
  const ReadWinners read = read_winners(Pooling(problem), from, problem.winners_from);
  return {{stored_winners(problem, read.winners)}, false, read.some_wrong};
}

// ---- Resample: the map of one axis ---------------------------------------------------------------------------

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

// ---- Resample: one pass over a whole array for each axis -----------------------------------------------------

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
Expected resample(const Problem& problem, const Dense& x) {
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
Expected resample_grad(const Problem& problem, const Dense& dy) {
  if (dy.bits.empty() || element_count(problem.x_shape) == 0) return {{zeros(dy.dtype, problem.x_shape)}, true, false};
  std::vector<Acc> values = accumulators<Acc>(dy);
  Ints shape = problem.y_shape;
  const auto summed = [](const auto& list, const auto& line) { return sum_in_blocks<Acc>(list, line); };
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    pass(values, shape, axis, gradient_lists<Acc>(problem, axis), summed);
  }
  return {{to_storage(dy.dtype, shape, values)}, true, false};
}

// ---- Slice ---------------------------------------------------------------------------------------------------

// The index into x of every element of y, both row-major.
Ints slice_sources(const Problem& problem) {
  Ints sources(at(element_count(problem.y_shape)));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    int64_t rest = length(i), x_stride = 1;
    for (std::size_t axis = problem.y_shape.size(); axis-- > 0;) {
      const int64_t stride = problem.strides[axis], c = rest % problem.y_shape[axis];
      const int64_t start = problem.offsets[axis] + (stride > 0 ? 0 : problem.sizes[axis] - 1);
      sources[i] += x_stride * (start + stride * c);
      rest /= problem.y_shape[axis];
      x_stride *= problem.x_shape[axis];
    }
  }
  return sources;
}

Expected slice(const Problem& problem, const Dense& x) {
  Dense y{x.dtype, problem.y_shape, {}};
  for (const int64_t source : slice_sources(problem)) y.bits.push_back(x.bits[at(source)]);
  return {{y}, false, false};
}

Expected slice_grad(const Problem& problem, const Dense& dy) {
  Dense dx = zeros(dy.dtype, problem.x_shape);
  const Ints sources = slice_sources(problem);
  for (std::size_t i = 0; i < sources.size(); ++i) dx.bits[at(sources[i])] = dy.bits[i];
  return {{dx}, false, false};
}

}  // namespace

Expected brute_force(const Problem& problem, const std::vector<Dense>& inputs) {
  const Dense& in = inputs[0];
  if (problem.kind == BP_RELU) return relu(in);
  if (problem.kind == BP_RELU_GRAD) return relu_grad(problem, in, inputs[1]);
  if (problem.kind == BP_MAX_POOL) return max_pool(problem, in);
  if (problem.kind == BP_MAX_POOL_GRAD) return max_pool_grad(problem, inputs);
  if (problem.kind == BP_CONVERT_WINNERS) return convert_winners(problem, in);
  if (problem.kind == BP_SLICE) return slice(problem, in);
  if (problem.kind == BP_SLICE_GRAD) return slice_grad(problem, in);
  const bool wide = in.dtype == BP_F64;
  if (problem.kind == BP_RESAMPLE) return wide ? resample<double>(problem, in) : resample<float>(problem, in);
  if (problem.kind == BP_RESAMPLE_GRAD) {
    return wide ? resample_grad<double>(problem, in) : resample_grad<float>(problem, in);
  }
  throw std::logic_error("brute_force: unknown operator kind " + std::to_string(problem.kind));
}

}  // namespace tools

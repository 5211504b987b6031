// SPDX-License-Identifier: Apache-2.0
#include "oracle/numbers.h"
#include "oracle/operators.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace tools::oracle {
namespace {

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

}  // namespace

Expected max_pool(const Problem& problem, const Dense& x) {
  const std::vector<Winner> winners = winners_of(Pooling(problem), x);
  Dense y{x.dtype, problem.y_shape, {}};
  for (const Winner& winner : winners) y.bits.push_back(winner ? x.bits[at(winner->flat)] : lowest_bits(x.dtype));
  const bool wanted = problem.winners != BP_WINNERS_NONE;
  return {{y, wanted ? stored_winners(problem, winners) : Dense{}}, false, false};
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

}  // namespace tools::oracle

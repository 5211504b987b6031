// SPDX-License-Identifier: Apache-2.0
// How a pooling is cut into rows, decided once at create.
#include "ops/max_pool/cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace bp::cpu {

namespace {

constexpr std::int64_t kSlackLanes = 64;     // a vector of any instruction set
constexpr std::int64_t kLongestRow = 16384;  // longer ones are cut into blocks of columns
constexpr std::int64_t kWideEnough = 512;    // shorter rows stand side by side
constexpr std::int64_t kReadAtOnce = 2048;   // bytes of one plane's windows
constexpr std::int64_t kMostRowsAtOnce = 8;
constexpr std::int64_t kSmallPlanes = 32768;  // elements of planes that are one block where each dy seeks its place
constexpr std::int64_t kMostSegments = 16;
constexpr std::int64_t kBlock = 64;           // elements of output that are made before they are stored, at least
constexpr std::int64_t kKeptBytes = 1 << 18;  // of rows that are kept for the next plane of windows
constexpr std::int64_t kMostCandidates = 32;  // beyond, seeking costs less than asking every window

// Cuts one side of the pooling: rows along `axes` of the sizes given.
PoolCut cut_rows(const PoolGeometry& g, const Tensor& output, const Spatial& sizes) {
  PoolCut cut{.rows = sizes[0] * sizes[1], .batch = g.batch};
  const std::int64_t width = sizes[2];
  const bool channels_innermost = g.channels > 1 && output.strides[1] == 1;
  cut.unit = channels_innermost ? g.channels : 1;
  cut.columns = std::max<std::int64_t>(width, 1);
  if (width * cut.unit > kLongestRow) {
    const std::int64_t enough = 4 * g.axes[2].extent();
    cut.columns = std::clamp(std::max(kLongestRow / 2 / cut.unit, enough), std::int64_t{1}, width);
  }
  cut.column_blocks = ceil_div(width, cut.columns);
  if (cut.unit == 1) {
    cut.segments = std::clamp<std::int64_t>(kWideEnough / cut.columns, 1, std::min(g.channels, kMostSegments));
  }
  cut.groups = channels_innermost ? 1 : ceil_div(g.channels, cut.segments);
  // A block is as many rows as fill whole cache lines, and no more: its stores are to drain while the next is computed.
  const std::int64_t row = cut.columns * cut.unit;
  const std::int64_t lines = 64 / std::gcd<std::int64_t>(64, row * static_cast<std::int64_t>(size_of(output.dtype)));
  cut.rows_in_block =
      std::clamp<std::int64_t>(lines * ceil_div(kBlock, lines * row), 1, std::max<std::int64_t>(cut.rows, 1));
  cut.row_blocks = ceil_div(cut.rows, cut.rows_in_block);
  return cut;
}

// Slots for windows of rows: `span` of them on each of the two outer axes are alive at once. Where planes follow each
// other, whole planes are kept if they are small enough.
PoolSlots make_slots(std::int64_t planes, std::int64_t plane_span, std::int64_t rows, std::int64_t row_span,
                     std::int64_t row_bytes) {
  PoolSlots slots{std::max<std::int64_t>(std::min(planes, plane_span), 1),
                  std::max<std::int64_t>(std::min(rows, row_span), 1)};
  if (planes > 1 && slots.first * rows * row_bytes <= kKeptBytes) slots.second = rows;
  return slots;
}

void finish(PoolSetup& setup, bool reduces_x, std::int64_t lane) {
  const PoolGeometry& g = setup.g;
  const PoolAxis& w = g.axes[2];
  setup.before = (w.extent() - 1) / w.stride;
  // The rows of x that a window reads lie in one phase of columns after the other, which needs more room at the end.
  setup.pitch = (setup.windows + (reduces_x ? setup.before + 1 : 0)) * setup.cut.unit;
  setup.past_cache = is_past_cache(setup.bytes);
  if (reduces_x) {
    for (std::int64_t tap = 0; tap < w.window; ++tap) {
      const std::int64_t q = tap * w.dilation;
      setup.tap_lane.push_back(q % w.stride * setup.row_lanes() + q / w.stride * setup.cut.unit);
    }
    setup.x_slots = make_slots(g.axes[0].input, g.axes[0].extent(), g.axes[1].input, g.axes[1].extent(),
                               2 * lane * setup.row_lanes());
  }
}

// For flat winners: the tap by its distance from where the window begins. Only where the distance says it all.
std::vector<std::int32_t> taps_by_distance(const PoolGeometry& g) {
  const PoolAxis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
  if (w.extent() > w.input || h.extent() > h.input) return {};
  const std::int64_t last = ((d.extent() - 1) * h.input + (h.extent() - 1)) * w.input + (w.extent() - 1);
  constexpr std::int64_t kMost = 1 << 16;
  if (last >= kMost) return {};
  std::vector<std::int32_t> taps(static_cast<std::size_t>(last) + 1, -1);
  for (std::int64_t t = 0; t < g.taps(); ++t) {
    const Spatial k = g.tap_of_number(t);
    const std::int64_t distance = (k[0] * d.dilation * h.input + k[1] * h.dilation) * w.input + k[2] * w.dilation;
    taps[static_cast<std::size_t>(distance)] = static_cast<std::int32_t>(t);
  }
  return taps;
}

}  // namespace

PoolTensor::PoolTensor(const Tensor& tensor) : view(tensor) {
  const ByteRange range = byte_range(tensor);
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  if (range.low == 0 && range.high == tensor.count() * size) end = tensor.count();
}

bool rows_follow(const Tensor& view, std::int64_t columns, std::int64_t unit) {
  const Dims& size = view.sizes;
  const Dims& stride = view.strides;
  if (unit > 1 && stride[1] != 1) return false;
  if (columns != size[4] || (size[4] > 1 && stride[4] != unit)) return false;
  if (size[3] > 1 && stride[3] != columns * unit) return false;
  return size[2] == 1 || stride[2] == columns * unit * size[3];
}

std::int64_t PoolSetup::row_lanes() const { return cut.segments * pitch + kSlackLanes; }

PoolTaps::PoolTaps(const PoolGeometry& g) {
  for (std::int64_t t = 0; t < g.taps(); ++t) taps.push_back(g.tap_of_number(t));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const PoolAxis& a = g.axes[axis];
    for (std::int64_t o = 0; o < a.output; ++o) {
      first[axis].push_back(a.first_tap(o));
      end[axis].push_back(a.end_tap(o));
      if (a.first_tap(o) >= a.end_tap(o)) lacks_windows = true;
    }
  }
  const PoolAxis& w = g.axes[2];
  const auto is_partial = [&](std::int64_t o) { return w.first_tap(o) > 0 || w.end_tap(o) < w.window; };
  while (partial_left < w.output && is_partial(partial_left)) ++partial_left;
  if (g.taps() <= 255) {
    for (std::int64_t o = 0; o < w.output; ++o) {
      column_low.push_back(static_cast<std::uint8_t>(w.first_tap(o)));
      column_count.push_back(static_cast<std::uint8_t>(std::max<std::int64_t>(w.end_tap(o) - w.first_tap(o), 0)));
    }
    column_low.resize(column_low.size() + 256);
    column_count.resize(column_count.size() + 256);
  }
  while (partial_right < w.output - partial_left && is_partial(w.output - 1 - partial_right)) ++partial_right;
  if (g.taps() > 255 || partial_left + partial_right > kFewPartial) return;
  for (std::int64_t o = 0; o < w.output; ++o) {
    if (!is_partial(o)) continue;
    auto& lacks = lacking.emplace_back();
    for (std::size_t t = 0; t < taps.size(); ++t)
      lacks[t] = taps[t][2] >= w.first_tap(o) && taps[t][2] < w.end_tap(o) ? 0 : 1;
  }
}

PoolStored::PoolStored(const PoolGeometry& g, const Winners& winners) : kind(winners.kind) {
  if (kind == WinnersKind::none) return;
  tensor = PoolTensor(winners.tensor);
  if (kind == WinnersKind::flat) tap_at = taps_by_distance(g);
}

PoolReaches::PoolReaches(const PoolAxis& axis, std::int64_t slots) {
  begin.push_back(0);
  for (std::int64_t p = 0; p < axis.input; ++p) {
    const std::int64_t q = p + axis.start_padding;
    const std::int64_t last = std::min(q / axis.stride, axis.output - 1);
    for (std::int64_t o = q < axis.extent() ? 0 : ceil_div(q - axis.extent() + 1, axis.stride); o <= last; ++o) {
      if (const std::int64_t tap = axis.tap_at(o, p); tap >= 0) reaches.push_back({o, tap, o % slots});
    }
    begin.push_back(static_cast<std::int64_t>(reaches.size()));
  }
}

PoolGradSetup make_setup(const MaxPoolGradPlan& plan) {
  PoolGradSetup setup;
  const PoolGeometry& g = setup.g = plan.geometry;
  const PoolAxis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
  if (plan.recomputes()) setup.x = PoolTensor(plan.x);
  setup.stored = PoolStored(g, plan.winners);
  setup.dy = PoolTensor(plan.dy);
  setup.dx = PoolTensor(plan.dx);
  setup.bytes = plan.bytes();
  setup.cut = cut_rows(g, plan.dx, {d.input, h.input, w.input});

  std::int64_t in_a_phase = 0;
  setup.phase_begin.push_back(0);
  for (std::int64_t phase = 0; phase < w.stride; ++phase) {
    for (std::int64_t tap = w.window; tap-- > 0;) {
      if (tap * w.dilation % w.stride != phase) continue;
      const std::int64_t shift = tap * w.dilation / w.stride;
      setup.candidates.push_back({((w.extent() - 1) / w.stride - shift) * setup.cut.unit, tap});
    }
    setup.phase_begin.push_back(static_cast<std::int64_t>(setup.candidates.size()));
    in_a_phase = std::max(in_a_phase, setup.phase_begin.back() - *(setup.phase_begin.end() - 2));
  }
  const auto most = [](const PoolAxis& a) { return std::min({a.window, ceil_div(a.extent(), a.stride), a.output}); };
  setup.scatters = most(d) * most(h) * in_a_phase > kMostCandidates;
  if (setup.scatters) {
    // A window's row is read again for every block that it reaches into.
    PoolCut& cut = setup.cut;
    const std::int64_t whole = cut.segments * cut.rows * cut.columns * cut.unit;
    const std::int64_t reach = whole <= kSmallPlanes ? cut.rows : 2 * ((d.extent() - 1) * h.input + h.extent());
    cut.rows_in_block = std::clamp<std::int64_t>(std::max(cut.rows_in_block, reach), 1, cut.rows);
    cut.row_blocks = ceil_div(cut.rows, cut.rows_in_block);
  }
  setup.windows = (w.extent() - 1) / w.stride + (setup.cut.columns + w.stride - 2) / w.stride + 1;
  const std::int64_t lane = accumulates_in_f64(plan.dx.dtype) ? 8 : 4;
  finish(setup, plan.recomputes(), lane);
  setup.rows_at_once = std::clamp<std::int64_t>(kReadAtOnce / (setup.pitch * lane), 1, kMostRowsAtOnce);
  const std::int64_t row_span = ceil_div(h.extent(), h.stride) + setup.rows_at_once - 1;
  setup.window_slots =
      make_slots(d.output, ceil_div(d.extent(), d.stride), h.output, row_span, 2 * lane * setup.row_lanes());
  setup.planes = PoolReaches(d, setup.window_slots.first);
  setup.rows = PoolReaches(h, setup.window_slots.second);
  setup.taps = PoolTaps(g);
  for (const Spatial& k : setup.taps.taps) {
    const std::int64_t row = k[0] * d.dilation * h.input + k[1] * h.dilation;
    setup.tap_offset.push_back((row * setup.cut.columns + k[2] * w.dilation) * setup.cut.unit);
  }
  return setup;
}

PoolForwardSetup make_setup(const MaxPoolPlan& plan) {
  PoolForwardSetup setup;
  const PoolGeometry& g = setup.g = plan.geometry;
  setup.x = PoolTensor(plan.x);
  setup.y = PoolTensor(plan.y);
  setup.kind = plan.winners.kind;
  setup.bytes = plan.bytes();
  if (setup.kind != WinnersKind::none) setup.winners = PoolTensor(plan.winners.tensor);
  setup.cut = cut_rows(g, plan.y, {g.axes[0].output, g.axes[1].output, g.axes[2].output});
  setup.windows = setup.cut.columns;
  finish(setup, true, size_of(plan.x.dtype) == 8 ? 8 : 4);
  return setup;
}

std::string refuse_pool(const PoolGeometry& g) {
  if (g.taps() > kMostPoolTaps)
    return fmt::format("a window has {} taps, expected at most {}", g.taps(), kMostPoolTaps);
  // Tables grow with an axis, and scratch memory with what a window spans.
  constexpr std::int64_t kLongest = 1 << 20;
  for (const PoolAxis& a : g.axes) {
    const std::int64_t longest = std::max({a.input, a.output, a.extent(), a.stride});
    if (longest > kLongest)
      return fmt::format("an axis, window or stride spans {}, expected at most {}", longest, kLongest);
  }
  return {};
}

}  // namespace bp::cpu

// SPDX-License-Identifier: Apache-2.0
// Which poolings are cut into tiles, and how.
#include "ops/max_pool/cpu_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace bp::cpu {

namespace {

constexpr PoolTileShape kShapes[] = {{2, 2}, {3, 2}, {3, 1}, {5, 1}};
constexpr std::int64_t kMostLanes = 16;        // of a vector; channels innermost are a multiple of it
constexpr std::int64_t kLongestRow = 1 << 15;  // elements
constexpr std::int64_t kMostDilation = 8;      // so many rows more wait in scratch memory
constexpr std::int64_t kWidestTurned = 32;     // columns; wider rows fill vectors by themselves
constexpr std::int64_t kWidestByTwo = 24;      // the same with a stride of 2, and half as many windows
constexpr std::int64_t kLargestTurned = 4096;  // elements of a plane: 16 of them fit the second cache
constexpr std::int64_t kMostSlack = 64;        // lanes of a scratch row that belong to nobody
constexpr std::int64_t kBlockBytes = 8192;     // of what an item writes, about: it fits the nearest cache
constexpr std::int64_t kOfferedRows = 32;      // of an item where windows offer their dy, at least: it reads four more
constexpr std::int64_t kOfferedBytes = 32768;  // of its sums, about: five rows; half where winners are sought, too

bool rows_are_contiguous(const Tensor& t, bool channels_innermost) {
  const auto is = [&](int axis, std::int64_t stride) { return t.sizes[axis] == 1 || t.strides[axis] == stride; };
  return channels_innermost ? is(1, 1) && is(4, t.sizes[1]) : is(4, 1);
}

std::string refuse(const PoolGeometry& g, DType dtype, std::initializer_list<const Tensor*> tensors) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return fmt::format("the type is {}, expected f32, f16 or bf16", name(dtype));
  const PoolAxis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
  const PoolTileShape shape{w.window, w.stride};
  if (h.window != w.window || h.stride != w.stride ||
      std::find(std::begin(kShapes), std::end(kShapes), shape) == std::end(kShapes))
    return fmt::format("windows of {} x {} with strides {} x {} are not among those known to the compiler", h.window,
                       w.window, h.stride, w.stride);
  const std::int64_t most = w.stride == 1 ? kMostDilation : 1;
  if (h.dilation > most || w.dilation > most)
    return fmt::format("the dilation is {} x {}, expected at most {} with this stride", h.dilation, w.dilation, most);
  if (shape == kShapes[0] && w.start_padding % 2 != 0)
    return fmt::format("the start padding along W is {}, expected an even one with windows of 2", w.start_padding);
  if (d.extent() > d.stride && d.output > 1) return "windows overlap along D";
  if (g.taps() > 255) return fmt::format("a window has {} taps, expected at most 255", g.taps());
  const bool channels_innermost = g.channels > 1 && (*tensors.begin())->strides[1] == 1;
  if (channels_innermost && g.channels % kMostLanes != 0)
    return fmt::format("{} channels innermost, expected a multiple of {}", g.channels, kMostLanes);
  for (const Tensor* tensor : tensors) {
    if (!rows_are_contiguous(*tensor, channels_innermost)) return "rows are not contiguous, or not all in one order";
  }
  if (w.input * (channels_innermost ? g.channels : 1) > kLongestRow)
    return fmt::format("a row has {} elements, expected at most {}", w.input, kLongestRow);
  for (const PoolAxis& a : g.axes) {
    for (std::int64_t o = 0; o < a.output; ++o) {
      if (a.first_tap(o) >= a.end_tap(o)) return "a window is all padding";
    }
  }
  return {};
}

// The rows that tiles cover together.
std::int64_t rows_of_tile(const PoolAxis& h) { return tile_height(h.stride) * (h.stride == 1 ? h.dilation : 1); }

// Blocks of the rows that are written, each a multiple of `together` rows.
void cut(PoolTiles& tiles, const PoolGeometry& g, const Tensor& written, const Winners& winners, std::int64_t rows,
         std::int64_t together) {
  tiles.g = g;
  tiles.shape = {g.axes[2].window, g.axes[2].stride};
  tiles.taps = PoolTaps(g);
  tiles.stored = PoolStored(g, winners);
  const bool channels_innermost = g.channels > 1 && written.strides[1] == 1;
  tiles.unit = tiles.pixel = channels_innermost ? g.channels : 1;
  tiles.planes = channels_innermost ? 1 : g.channels;
  tiles.rows = rows;
  const std::int64_t bytes =
      written.sizes[4] * tiles.unit * static_cast<std::int64_t>(size_of(written.dtype)) * together;
  tiles.rows_in_block = ceil_div(kBlockBytes, bytes) * together;
  tiles.row_blocks = ceil_div(rows - tiles.first_row, tiles.rows_in_block);
}

// Whether windows over channels that are innermost offer their dy, instead of elements asking for it.
bool offers(const PoolGeometry& g) {
  const PoolAxis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
  return PoolTileShape{w.window, w.stride} == PoolTileShape{5, 1} && d.window == 1 && h.dilation == 1 &&
         w.dilation == 1 && has_room_for_offers();
}

// An item is some channels of many rows, since it reads rows of windows that others read, too.
void cut_for_offers(PoolGradTiles& tiles) {
  tiles.offers = tiles.unit > 1 && offers(tiles.g);
  if (!tiles.offers) return;
  const PoolAxis& w = tiles.g.axes[2];
  const std::int64_t sums = w.window * (w.output + w.window) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t most = tiles.stored.kind == WinnersKind::none ? kOfferedBytes / 2 : kOfferedBytes;
  tiles.pixel = kMostOffered;
  while (tiles.pixel > kMostLanes && (tiles.unit % tiles.pixel != 0 || sums * tiles.pixel > most)) tiles.pixel /= 2;
  if (tiles.unit <= 2 * kTurnedBlock) tiles.pixel = tiles.unit;  // planes that are turned together are walked together
  tiles.planes = tiles.unit / tiles.pixel;
  tiles.codes.resize(static_cast<std::size_t>(w.output * OfferCode::kTaps));
  for (std::int64_t o = 0; o < w.output; ++o) {
    for (std::int64_t r = 0; r < w.window; ++r) {
      for (std::int64_t k = w.first_tap(o); k < w.end_tap(o); ++k)
        tiles.codes[static_cast<std::size_t>(o * OfferCode::kTaps + r * w.window + k)] =
            static_cast<std::uint8_t>(OfferCode::row(r) | OfferCode::column(k));
    }
  }
  tiles.row_blocks = std::max<std::int64_t>(tiles.rows / kOfferedRows, 1);
  tiles.rows_in_block = ceil_div(tiles.rows, tiles.row_blocks);
}

bool planes_are_contiguous(const Tensor& t) {
  const auto is = [&](int axis, std::int64_t stride) { return t.sizes[axis] == 1 || t.strides[axis] == stride; };
  return is(4, 1) && is(3, t.sizes[4]) && is(2, t.sizes[4] * t.sizes[3]);
}

std::int64_t plane_size(const Tensor& t) { return t.sizes[2] * t.sizes[3] * t.sizes[4]; }

// The channels of so many planes, innermost.
Tensor turned(const Tensor& t, DType dtype, std::int64_t planes) {
  Tensor view = t;
  view.dtype = dtype;
  view.sizes[0] = 1;
  view.sizes[1] = planes;
  view.strides[4] = planes;
  view.strides[3] = view.strides[4] * view.sizes[4];
  view.strides[2] = view.strides[3] * view.sizes[3];
  view.strides[1] = 1;
  view.strides[0] = view.strides[2] * view.sizes[2];
  return view;
}

}  // namespace

std::string refuse_turned(const MaxPoolGradPlan& plan) {
  if (std::string reason = refuse_tiles(plan); !reason.empty()) return reason;
  const PoolGeometry& g = plan.geometry;
  const bool recomputes = plan.recomputes();
  if (g.channels % kTurnedBlock != 0)
    return fmt::format("{} channels, expected a multiple of {}", g.channels, kTurnedBlock);
  const std::int64_t widest = g.axes[2].stride == 1 ? kWidestTurned : kWidestByTwo;
  if (g.axes[2].input > widest)
    return fmt::format("planes are {} wide, expected at most {} with a stride of {}", g.axes[2].input, widest,
                       g.axes[2].stride);
  if (plane_size(plan.dx) > kLargestTurned)
    return fmt::format("planes have {} elements, expected at most {}", plane_size(plan.dx), kLargestTurned);
  for (const Tensor* tensor : {&plan.dx, &plan.dy, recomputes ? &plan.x : &plan.dy}) {
    if (!planes_are_contiguous(*tensor)) return "planes are not contiguous";
  }
  return {};
}

PoolTurned make_turned(const MaxPoolGradPlan& plan, bool past_cache) {
  PoolTurned t;
  const bool recomputes = plan.recomputes();
  t.g = plan.geometry;
  t.taps = PoolTaps(t.g);
  t.stored = PoolStored(t.g, plan.winners);
  if (recomputes) t.x = PoolTensor(plan.x);
  t.dy = PoolTensor(plan.dy);
  t.dx = PoolTensor(plan.dx);
  t.turns_bytes = plan.winners.kind == WinnersKind::compact && size_of(plan.winners.tensor.dtype) == 1 &&
                  planes_are_contiguous(plan.winners.tensor);
  t.bytes = plan.bytes();
  t.past_cache = past_cache;
  MaxPoolGradPlan planes = plan;
  planes.geometry.batch = 1;
  // Where elements are read once, they stay what they are. Winners of half types are sought in vectors of 32 channels,
  // and bytes of winners are parted in longer vectors.
  const bool is_half = plan.dx.dtype != DType::f32;
  if (offers(t.g) && t.g.channels % (2 * kTurnedBlock) == 0) t.planes = 2 * kTurnedBlock;
  const bool stays = offers(t.g) && (!is_half || t.planes > kTurnedBlock);
  const DType dtype = stays ? plan.dx.dtype : DType::f32;
  planes.geometry.channels = t.planes;
  planes.dx = turned(plan.dx, dtype, t.planes);
  planes.dy = turned(plan.dy, dtype, t.planes);
  if (recomputes) {
    planes.x = turned(plan.x, dtype, t.planes);
  } else {
    planes.winners = {WinnersKind::compact, turned(plan.winners.tensor, DType::u8, t.planes)};
  }
  t.tiles = make_tiles(planes, false);
  const PoolAxis &h = t.g.axes[1], &w = t.g.axes[2];
  t.room = ((h.extent() + rows_of_tile(h)) * w.output + w.input + w.extent()) * t.planes + kMostSlack;
  for (PoolTensor* tensor : {&t.tiles.dy, &t.tiles.stored.tensor}) {
    tensor->room_before = t.room;
    tensor->end += t.room;
  }
  return t;
}

std::string refuse_tiles(const MaxPoolGradPlan& plan) {
  return refuse(plan.geometry, plan.dx.dtype, {&plan.dx, &plan.dy, plan.recomputes() ? &plan.x : &plan.dy});
}

std::string refuse_tiles(const MaxPoolPlan& plan) { return refuse(plan.geometry, plan.y.dtype, {&plan.y, &plan.x}); }

PoolGradTiles make_tiles(const MaxPoolGradPlan& plan, bool past_cache) {
  PoolGradTiles tiles;
  const PoolGeometry& g = plan.geometry;
  if (plan.recomputes()) tiles.x = PoolTensor(plan.x);
  tiles.dy = PoolTensor(plan.dy);
  tiles.dx = PoolTensor(plan.dx);
  tiles.bytes = plan.bytes();
  tiles.past_cache = past_cache;
  const PoolAxis& h = g.axes[1];
  // With stride 2 a tile is the rows whose first window is the same: W - 2 and the next, counted from its start.
  if (h.stride == 2 && (h.start_padding - h.window) % 2 != 0) tiles.first_row = -1;
  cut(tiles, g, plan.dx, plan.winners, h.input, rows_of_tile(h));
  const PoolReaches reaches(g.axes[0], 1);
  for (std::int64_t d = 0; d < g.axes[0].input; ++d) {
    const auto windows = reaches.at(d);
    const std::int64_t window = windows.empty() ? -1 : windows[0].window;
    if (PoolPlanes* last = tiles.groups.empty() ? nullptr : &tiles.groups.back();
        last != nullptr && window >= 0 && last->window == window && g.axes[0].dilation == 1) {
      ++last->count;
    } else {
      tiles.groups.push_back({window, d, 1, windows.empty() ? 0 : windows[0].tap});
    }
  }
  cut_for_offers(tiles);
  return tiles;
}

PoolForwardTiles make_tiles(const MaxPoolPlan& plan, bool past_cache) {
  PoolForwardTiles tiles;
  const PoolGeometry& g = plan.geometry;
  tiles.x = PoolTensor(plan.x);
  tiles.y = PoolTensor(plan.y);
  tiles.bytes = plan.bytes();
  tiles.past_cache = past_cache;
  cut(tiles, g, plan.y, plan.winners, g.axes[1].output, rows_of_tile(g.axes[1]));
  for (std::int64_t od = 0; od < g.axes[0].output; ++od) tiles.groups.push_back({od, od, 1, 0});
  return tiles;
}

}  // namespace bp::cpu

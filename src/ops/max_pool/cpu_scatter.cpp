// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling by wide windows from stored winners: to ask every window that reaches an element costs
// W * W questions, but each window has one winner. So windows are walked in ascending order, and each dy is added to
// its winner's sum. That sum may be wanted again by the very next window; so several planes, or some channels of a
// pixel, take turns, whose sums do not wait for each other.
//
// Sums wait in scratch memory, of a plane with its padding, so that every tap of every window has a cell. There is room
// for as many sums behind them, and twice as many before: dy of windows without a winner, or with a wrong one, which
// tables of the taps that exist lead there, so that no window needs a question.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_scatter.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "backends/cpu/simd-inl.h"
#include "ops/max_pool/cpu_kernel.h"
#include "ops/max_pool/cpu_scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class T>
class Scatter {
  using A = Acc<T>;
  static constexpr bool kReadsInPlace = std::is_same_v<T, A>;  // dy, which otherwise is widened
  static constexpr std::int64_t kAhead = 8;                    // windows that are asked for
  static constexpr std::int64_t kRoom = 64;                    // lanes beyond a row that may be written

 public:
  struct Layout {
    std::size_t sums, dy, bytes;
    std::int64_t row;

    explicit Layout(const PoolScatter& s) {
      ScratchLayout scratch;
      row = s.g.axes[2].output * (s.planar ? 1 : s.together) + kRoom;
      sums = scratch.reserve(4 * s.sums() + kRoom, sizeof(A));
      dy = scratch.reserve(kReadsInPlace ? 0 : row * (s.planar ? s.together : 1), sizeof(A));
      bytes = scratch.bytes();
    }
  };

  Scatter(const PoolPart<PoolScatter>& part, const Layout& layout)
      : s_(*part.setup),
        winners_data_(part.bindings->input<std::uint8_t>(2)),
        dy_data_(part.bindings->input<T>(1)),
        dx_data_(part.bindings->output<T>(0)),
        row_(layout.row),
        sums_(reinterpret_cast<A*>(part.scratch + layout.sums) + 2 * s_.sums()),
        dy_(reinterpret_cast<A*>(part.scratch + layout.dy)),
        wrong_(part.wrong) {}

  void run(std::int64_t item) {
    n_ = item / s_.groups();
    c_ = item % s_.groups() * s_.together;
    count_ = std::min(s_.together, s_.g.channels - c_);
    std::fill_n(sums_, s_.sums(), A{0});
    const auto &d = s_.g.axes[0], &h = s_.g.axes[1];
    for (std::int64_t od = 0; od < d.output; ++od) {
      for (std::int64_t oh = 0; oh < h.output; ++oh) {
        const Row row = import_row(od, oh);
        const std::int32_t* places = s_.rows.at(od * h.output + oh);
        A* first = sums_ + s_.cell(od * d.stride, oh * h.stride, 0) * s_.step();
        const std::uint8_t* winners = row_of(winners_data_, s_.winners, od, oh);
        const bool right = !s_.planar                       ? add_pixels(row, winners, places, first)
                           : count_ == PoolScatter::kPlanes ? add_planes<true>(row, winners, places, first)
                                                            : add_planes<false>(row, winners, places, first);
        if (!right) *wrong_ = true;
      }
    }
    for (std::int64_t id = 0; id < d.input; ++id) {
      for (std::int64_t ih = 0; ih < h.input; ++ih) export_row(id, ih);
    }
  }

 private:
  template <class E>
  [[nodiscard]] E* row_of(E* data, const PoolTensor& tensor, std::int64_t d, std::int64_t h) const {
    const Dims& s = tensor.view.strides;
    return data + n_ * s[0] + c_ * s[1] + d * s[2] + h * s[3];
  }

  // A row of dy: neighbours are `planes` apart, or `pixels`.
  struct Row {
    const A* dy;
    std::int64_t planes, pixels;
  };
  [[nodiscard]] Row import_row(std::int64_t od, std::int64_t oh) const {
    const T* from = row_of(dy_data_, s_.dy, od, oh);
    const Dims& s = s_.dy.view.strides;
    if constexpr (kReadsInPlace) {
      return {from, s[1], s[4]};
    } else {
      const std::int64_t columns = s_.g.axes[2].output;
      const auto readable = [&](const T* run, std::int64_t n) {
        return s_.dy.end < 0 ? n : s_.dy.end - (run - dy_data_);
      };
      if (s_.planar) {
        for (std::int64_t p = 0; p < count_; ++p, from += s[1])
          import_packed(from, columns, readable(from, columns), dy_ + p * row_);
      } else {
        for (std::int64_t w = 0; w < columns; ++w, from += s[4])
          import_packed(from, count_, readable(from, count_), dy_ + w * s_.together);
      }
      return {dy_, row_, s_.together};
    }
  }

  void export_row(std::int64_t id, std::int64_t ih) const {
    const PoolAxis &d = s_.g.axes[0], &h = s_.g.axes[1], &w = s_.g.axes[2];
    T* to = row_of(dx_data_, s_.dx, id, ih);
    const Dims& s = s_.dx.view.strides;
    const std::int64_t first = s_.cell(id + d.start_padding, ih + h.start_padding, w.start_padding);
    if (s_.planar) {
      for (std::int64_t p = 0; p < count_; ++p, to += s[1])
        export_packed(sums_ + p * s_.cells() + first, to, w.input, s_.past_cache && is_long_run(w.input, sizeof(T)));
    } else {
      for (std::int64_t i = 0; i < w.input; ++i, to += s[4])
        export_packed(sums_ + (first + i) * s_.together, to, count_, false);
    }
  }

  // Adds one window's dy to its winner's sum. Below 0 if the winner is wrong.
  static HWY_INLINE std::int32_t add(std::uint8_t winner, A dy, const std::int32_t* rows, const std::int32_t* columns,
                                     A* first) {
    const std::int32_t place = rows[winner] + columns[winner];
    first[place] += dy;
    return place;
  }

  // kAll: as many planes as take turns, which the compiler then writes side by side.
  template <bool kAll>
  bool add_planes(const Row& row, const std::uint8_t* winners, const std::int32_t* rows, A* first) const {
    const std::int64_t windows = s_.g.axes[2].output, stride = s_.g.axes[2].stride, cells = s_.cells();
    const std::int64_t step = s_.winners.view.strides[1], dy_step = row.planes;
    const std::int64_t planes = kAll ? PoolScatter::kPlanes : count_;
    std::int32_t all = 0;
    for (std::int64_t w = 0; w < windows; ++w, first += stride) {
      const std::int32_t* columns = s_.columns.at(w);
#pragma GCC unroll 8
      for (std::int64_t p = 0; p < planes; ++p)
        all |= add(winners[p * step + w], row.dy[p * dy_step + w], rows, columns, first + p * cells);
    }
    return all >= 0;
  }

  bool add_pixels(const Row& row, const std::uint8_t* winners, const std::int32_t* rows, A* first) const {
    const std::int64_t windows = s_.g.axes[2].output, stride = s_.g.axes[2].stride * s_.step(), count = count_;
    const std::int64_t step = s_.winners.view.strides[4], dy_step = row.pixels;
    const A* dy = row.dy;
    std::int32_t all = 0;
    for (std::int64_t w = 0; w < windows; ++w, first += stride, winners += step, dy += dy_step) {
      const std::int32_t* columns = s_.columns.at(w);
      // Of pixels far apart the processor does not see what comes.
      prefetch(winners + kAhead * step, count);
      prefetch(dy + kAhead * dy_step, count);
#pragma GCC unroll 4
      for (std::int64_t c = 0; c < count; ++c) all |= add(winners[c], dy[c], rows, columns, first + c);
    }
    return all >= 0;
  }

  const PoolScatter& s_;
  const std::uint8_t* winners_data_;
  const T* dy_data_;
  T* dx_data_;
  std::int64_t row_;  // lanes of a row of dy
  A *sums_, *dy_;
  bool* wrong_;
  std::int64_t n_ = 0, c_ = 0, count_ = 0;
};

std::size_t RunPoolScatter(const PoolPart<PoolScatter>& part) {
  std::size_t bytes = 0;
  visit(MaxPoolGrad::Types{}, part.setup->dx.view.dtype, [&]<class T>() {
    const typename Scatter<T>::Layout layout(*part.setup);
    bytes = layout.bytes;
    if (part.scratch == nullptr) return;
    Scatter<T> scatter(part, layout);
    for (std::int64_t item = part.first; item < part.last; ++item) scatter.run(item);
  });
  return bytes;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(RunPoolScatter);

namespace {

constexpr std::int64_t kLeastReach = 32;        // windows that reach an element; to ask fewer is faster
constexpr std::int64_t kMostBytes = 256 << 10;  // of sums: the second cache holds them
constexpr std::int64_t kLeastItems = 8;         // or threads have nothing to do

bool is_planar(const MaxPoolGradPlan& plan) { return plan.geometry.channels == 1 || plan.dx.strides[1] != 1; }
// All that windows reach, and all that there is.
std::int64_t padded_size(const PoolAxis& a) {
  return std::max((a.output - 1) * a.stride + a.extent(), a.start_padding + a.input);
}
// How many planes, or channels, an item has: as many as leave room for their sums, and enough items. 0: there is no
// room.
std::int64_t together_of(const MaxPoolGradPlan& plan) {
  const PoolGeometry& g = plan.geometry;
  std::int64_t bytes = accumulates_in_f64(plan.dx.dtype) ? 8 : 4;
  for (const PoolAxis& a : g.axes) {
    if (padded_size(a) > kMostBytes) return 0;
    bytes = std::min(bytes * padded_size(a), kMostBytes + 1);
  }
  std::int64_t together = is_planar(plan) ? PoolScatter::kPlanes : PoolScatter::kChannels;
  const std::int64_t least = together / 4;
  const auto is_too_much = [&] { return bytes * together > kMostBytes; };
  while (together > least && (is_too_much() || g.batch * ceil_div(g.channels, together) < kLeastItems)) together /= 2;
  return is_too_much() ? 0 : together;
}

// Makes a table for each new kind of window.
class Tables {
 public:
  using Key = std::array<std::int64_t, 4>;

  explicit Tables(PoolPlaces& places) : places_(places) {}

  // place_of(number): what a tap's number adds.
  template <class PlaceOf>
  void add(const Key& key, const PlaceOf& place_of) {
    const auto [known, is_new] = begins_.try_emplace(key, places_.tables.size());
    places_.table_of.push_back(known->second);
    if (!is_new) return;
    for (std::size_t number = 0; number < PoolPlaces::kNumbers; ++number) places_.tables.push_back(place_of(number));
  }

 private:
  PoolPlaces& places_;
  std::map<Key, std::size_t> begins_;
};

}  // namespace

std::string refuse_scatter(const MaxPoolGradPlan& plan) {
  const PoolGeometry& g = plan.geometry;
  if (plan.winners.kind != WinnersKind::compact || size_of(plan.winners.tensor.dtype) != 1)
    return "the winners are not stored, or not compact in bytes";
  if (plan.dx.empty() || plan.dy.empty()) return "there is nothing to add";
  std::int64_t reach = 1;
  for (const PoolAxis& a : g.axes) reach *= std::min({a.window, ceil_div(a.extent(), a.stride), a.output});
  const bool planar = is_planar(plan);
  // Where windows begin further apart, those that reach neighbours are not neighbours: to ask takes a pass for each.
  const bool steps = planar && g.axes[2].stride > 2;
  if (reach < kLeastReach && !steps)
    return fmt::format("{} windows reach an element, expected at least {}", reach, kLeastReach);
  const std::int64_t together = together_of(plan);
  if (together == 0) return fmt::format("sums of a plane have more than {} bytes", kMostBytes);
  const auto is_contiguous = [&](const Tensor& t) { return planar ? t.strides[4] == 1 : t.strides[1] == 1; };
  for (const Tensor* t : {&plan.dx, &plan.dy, &plan.winners.tensor}) {
    if (!is_contiguous(*t)) return "rows are not contiguous, or not all in one order";
  }
  const std::int64_t items = g.batch * ceil_div(g.channels, together);
  if (items < kLeastItems) return fmt::format("there are {} parts, expected at least {}", items, kLeastItems);
  return {};
}

std::unique_ptr<Kernel> make_max_pool_grad_scatter(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                   const Settings& settings) {
  PoolScatter s;
  const PoolGeometry& g = s.g = plan->geometry;
  s.winners = PoolTensor(plan->winners.tensor);
  s.dy = PoolTensor(plan->dy);
  s.dx = PoolTensor(plan->dx);
  s.planar = is_planar(*plan);
  s.together = together_of(*plan);
  for (std::size_t i = 0; i < 3; ++i) s.padded[i] = padded_size(g.axes[i]);
  s.bytes = plan->bytes();
  s.past_cache = is_past_cache(s.bytes);
  const PoolAxis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
  const std::int64_t step = s.step();
  const auto none = static_cast<std::int32_t>(s.sums());
  Tables rows(s.rows), columns(s.columns);
  for (std::int64_t od = 0; od < d.output; ++od) {
    for (std::int64_t oh = 0; oh < h.output; ++oh) {
      rows.add({d.first_tap(od), d.end_tap(od), h.first_tap(oh), h.end_tap(oh)}, [&](std::size_t number) {
        if (number == 0xff) return none;
        if (number >= static_cast<std::size_t>(g.taps())) return -none;
        const Spatial k = g.tap_of_number(static_cast<std::int64_t>(number));
        const bool exists = d.exists(od, k[0]) && h.exists(oh, k[1]);
        return exists ? static_cast<std::int32_t>(s.cell(k[0] * d.dilation, k[1] * h.dilation, 0) * step) : -none;
      });
    }
  }
  for (std::int64_t ow = 0; ow < w.output; ++ow) {
    columns.add({w.first_tap(ow), w.end_tap(ow), 0, 0}, [&](std::size_t number) {
      if (number >= static_cast<std::size_t>(g.taps())) return 0;
      const Spatial k = g.tap_of_number(static_cast<std::int64_t>(number));
      return w.exists(ow, k[2]) ? static_cast<std::int32_t>(k[2] * w.dilation * step) : -none;
    });
  }
  return make_pool_kernel(std::move(plan), settings, std::move(s), BP_DISPATCH(RunPoolScatter));
}

}  // namespace bp::cpu
#endif

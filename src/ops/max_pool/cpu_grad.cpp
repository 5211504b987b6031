// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling on vectors. Rows of windows (their winners as tap numbers, their dy as accumulators) wait
// in scratch memory, padded with windows that have no winner. An element of dx is the sum over the windows that reach
// it, in ascending order, of dy where the winner is that element and of +0 elsewhere, which changes no sum that began
// at +0: so there is no branch, and no element has two writers. Where windows are so wide that this would ask too many,
// each dy is added to its winner's sum instead, window after window in the same order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_grad.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "ops/max_pool/cpu_gather-inl.h"
#include "ops/max_pool/cpu_kernel.h"
#include "ops/max_pool/cpu_rows-inl.h"
#include "ops/max_pool/cpu_winners-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class T, class W>
class GradRows {
 public:
  using A = Acc<T>;
  using I = PoolLane<T>;

  struct Layout {
    std::size_t tags, winners, taps, dy, sums, block, candidates, sources, bytes;
    std::int64_t block_lanes;
    typename ReducedRows<T>::Layout reduced{};

    explicit Layout(const PoolGradSetup& s) {
      ScratchLayout scratch;
      const std::int64_t row = s.row_lanes();
      const PoolCut& cut = s.cut;
      block_lanes = cut.rows_in_block * cut.columns * cut.unit + 4 * kSlack;
      tags = scratch.reserve(s.window_slots.count(), sizeof(std::int64_t));
      winners = scratch.reserve(s.window_slots.count() * row, sizeof(W));
      taps = scratch.reserve(row, sizeof(I));
      dy = scratch.reserve(s.window_slots.count() * row, sizeof(A));
      sums = scratch.reserve(s.g.axes[2].stride > 2 ? s.g.axes[2].stride * row : 0, sizeof(A));
      block = scratch.reserve(cut.segments * block_lanes, sizeof(A));
      const std::int64_t rows = s.g.axes[0].window * s.g.axes[1].window;
      candidates = scratch.reserve(s.scatters ? 0 : rows * s.g.axes[2].window, sizeof(Candidate<A, W>));
      sources = scratch.reserve(rows, sizeof(WindowSource<T>));
      if (s.stored.kind == WinnersKind::none) reduced = typename ReducedRows<T>::Layout(s, false, scratch);
      bytes = scratch.bytes();
    }
  };

  GradRows(const PoolPart<PoolGradSetup>& part, const Layout& layout)
      : s_(*part.setup),
        layout_(layout),
        dy_data_(part.bindings->input<T>(1)),
        dx_data_(part.bindings->output<T>(0)),
        stored_(s_.g, s_.taps, s_.stored, s_.cut.unit, part.bindings->inputs[2], part.wrong),
        tags_(reinterpret_cast<std::int64_t*>(part.scratch + layout.tags)),
        winners_(reinterpret_cast<W*>(part.scratch + layout.winners)),
        taps_(reinterpret_cast<I*>(part.scratch + layout.taps)),
        dy_(reinterpret_cast<A*>(part.scratch + layout.dy)),
        sums_(reinterpret_cast<A*>(part.scratch + layout.sums)),
        block_(reinterpret_cast<A*>(part.scratch + layout.block)),
        candidates_(reinterpret_cast<Candidate<A, W>*>(part.scratch + layout.candidates)),
        sources_(reinterpret_cast<WindowSource<T>*>(part.scratch + layout.sources)),
        reduced_(s_, s_.x, part.bindings->input<T>(0), layout.reduced, part.scratch, false) {}

  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const PoolItem item = pool_item(s_.cut, i);
      if (i == first || item.row_block == 0) start(item);
      const std::int64_t row = item.row_block * s_.cut.rows_in_block;
      const std::int64_t rows = std::min(s_.cut.rows_in_block, s_.cut.rows - row);
      if (s_.scatters) {
        scatter_block(row, rows);
      } else {
        std::int64_t d = row / axis_h().input, h = row % axis_h().input;
        for (std::int64_t r = 0; r < rows; ++r) {
          make_row(d, h, r);
          if (++h == axis_h().input) {
            h = 0;
            ++d;
          }
        }
      }
      if (way_ == Way::block) export_block(row, rows);
    }
  }

 private:
  [[nodiscard]] const PoolAxis& axis_d() const { return s_.g.axes[0]; }
  [[nodiscard]] const PoolAxis& axis_h() const { return s_.g.axes[1]; }
  [[nodiscard]] const PoolAxis& axis_w() const { return s_.g.axes[2]; }

  // ---- Rows of windows

  // Another group of planes or another block of columns.
  void start(const PoolItem& item) {
    const PoolCut& cut = s_.cut;
    const PoolAxis& w = axis_w();
    n_ = item.n;
    plane_ = item.group * cut.segments;
    planes_ = cut.unit > 1 ? 1 : std::min(cut.segments, s_.g.channels - plane_);
    column_ = item.column_block * cut.columns;
    columns_ = std::min(cut.columns, w.input - column_);
    first_phase_ = (column_ + w.start_padding) % w.stride;
    first_window_ = (column_ + w.start_padding) / w.stride - s_.before;
    existing_begin_ = std::clamp<std::int64_t>(-first_window_, 0, s_.windows);
    existing_end_ = std::clamp<std::int64_t>(w.output - first_window_, existing_begin_, s_.windows);
    const auto is_contiguous = [&](const Tensor& view) {
      const Dims& t = view.strides;
      return cut.unit == 1 ? t[4] == 1 : t[1] == 1 && t[4] == cut.unit;
    };
    dy_contiguous_ = is_contiguous(s_.dy.view);
    dx_follows_ = rows_follow(s_.dx.view, columns_, cut.unit);
    way_ = choose_way();
    std::fill_n(tags_, s_.window_slots.count(), std::int64_t{-1});
    if (s_.stored.kind == WinnersKind::none) reduced_.start(n_, plane_, planes_, first_window_);
  }

  // Sums go to dx at once where its rows and, channels innermost, its pixels are whole vectors; past the cache, also
  // whole lines, and vectors that can be streamed.
  [[nodiscard]] Way choose_way() const {
    const std::int64_t step = lanes(Lanes<A>());
    const bool phases = axis_w().stride > 2 && s_.cut.unit == 1;
    if (s_.scatters || phases || !dx_follows_ || (s_.cut.unit == 1 ? columns_ : s_.cut.unit) % step != 0)
      return Way::block;
    if (!s_.past_cache) return Way::store;
    constexpr std::int64_t kLine = 64 / sizeof(T);
    const T* first = dx_data_ + n_ * s_.dx.view.strides[0] + plane_ * s_.dx.view.strides[1];
    const bool lines = reinterpret_cast<std::uintptr_t>(first) % 64 == 0 && columns_ * s_.cut.unit % kLine == 0 &&
                       (planes_ == 1 || s_.dx.view.strides[1] % kLine == 0) &&
                       (s_.cut.unit == 1 || s_.cut.unit % kLine == 0);
    return lines && step * static_cast<std::int64_t>(sizeof(T)) >= 16 ? Way::stream : Way::block;
  }

  // Where row (od, oh) of windows stands in winners_ and dy_.
  HWY_INLINE std::int64_t windows_row(std::int64_t od, std::int64_t oh, std::int64_t slot) {
    if (tags_[slot] != od * axis_h().output + oh) import_rows(od, oh, slot);
    return slot * row_lanes_;
  }

  // Rows from (od, oh) on, a few at a time, so that memory is read in longer runs.
  HWY_NOINLINE void import_rows(std::int64_t od, std::int64_t oh, std::int64_t slot) {
    const std::int64_t rows = std::min(s_.rows_at_once, axis_h().output - oh);
    const std::int64_t first_slot = slot - oh % s_.window_slots.second;
    for (std::int64_t r = 0; r < rows; ++r) {
      row_slots_[r] = slot;
      tags_[slot] = od * axis_h().output + oh + r;
      if (s_.stored.kind == WinnersKind::none) find_row(od, oh + r, winners_ + slot * row_lanes_);
      if (++slot == first_slot + s_.window_slots.second) slot = first_slot;
    }
    const std::int64_t unit = s_.cut.unit;
    const Dims& sy = s_.dy.view.strides;
    const std::int64_t n = (existing_end_ - existing_begin_) * unit;
    const std::int64_t dy_at = n_ * sy[0] + od * sy[2] + (first_window_ + existing_begin_) * sy[4];
    for (std::int64_t segment = 0; segment < planes_; ++segment) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at = row_slots_[r] * row_lanes_ + segment * s_.pitch;
        W* row = winners_ + at;
        const RowPlace place{
            n_, plane_ + segment, od, oh + r, first_window_ + existing_begin_, existing_end_ - existing_begin_};
        if (dy_contiguous_) {
          const std::int64_t from = dy_at + place.c * sy[1] + place.h * sy[3];
          import_packed(dy_data_ + from, n, s_.dy.end < 0 ? n : s_.dy.end - from, dy_ + at + existing_begin_ * unit);
          prefetch(dy_data_ + from + s_.rows_at_once * sy[3], n);
        } else if (n > 0) {
          each_run(s_.dy, dy_data_, unit, place,
                   [&](const T* from, std::int64_t stride, std::int64_t count, std::int64_t readable, std::int64_t to)
                       HWY_ATTR { import_run(from, stride, count, readable, dy_ + at + existing_begin_ * unit + to); });
        }
        if (s_.stored.kind == WinnersKind::none) {  // windows that do not exist have no winner
          fill(row, existing_begin_ * unit, kNone);
          fill(row + existing_end_ * unit, (s_.windows - existing_end_) * unit, kNone);
          continue;
        }
        fill_none(row, existing_begin_ * unit);
        if (n > 0) {
          stored_.read(place, row + existing_begin_ * unit);
          RowPlace next = place;
          next.h += s_.rows_at_once;
          stored_.fetch(next);
        }
        fill_none(row + existing_end_ * unit, (s_.windows - existing_end_) * unit);
      }
    }
  }

  // The winners of a row of windows, from x.
  void find_row(std::int64_t od, std::int64_t oh, W* row) {
    const std::int64_t n = (planes_ - 1) * s_.pitch + s_.windows * s_.cut.unit;
    if constexpr (sizeof(W) == sizeof(I)) {
      find_winners(reduced_, s_.g, od, oh, n, sources_, row, nullptr);
    } else {
      find_winners(reduced_, s_.g, od, oh, n, sources_, taps_, nullptr);
      narrow_taps(taps_, n, row);
    }
  }

  // n windows without a winner; where that is few, a vector, what follows being written later.
  static HWY_INLINE void fill_none(W* row, std::int64_t n) {
    const hn::CappedTag<W, 16> d;
    if (n == 0) return;
    hn::StoreU(hn::Set(d, kNone), d, row);
    if (n > lanes(d)) fill(row, n, kNone);
  }

  static constexpr W kNone = static_cast<W>(~W{0});

  static void narrow_taps(const I* taps, std::int64_t n, W* to) {
    const Lanes<I> d;
    const hn::Rebind<W, decltype(d)> narrow_d;
    for (std::int64_t i = 0; i < n; i += lanes(d)) hn::StoreU(narrowed<W>(d, hn::LoadU(d, taps + i)), narrow_d, to + i);
  }

  // ---- Each place asks for its dy

  // The candidates of a phase for the rows of windows collected; how many.
  int add_candidates(std::int64_t phase, int rows, Candidate<A, W>* to) const {
    int count = 0;
    const PoolCandidate* first = s_.candidates.data() + s_.phase_begin[static_cast<std::size_t>(phase)];
    const PoolCandidate* last = s_.candidates.data() + s_.phase_begin[static_cast<std::size_t>(phase) + 1];
    for (int r = 0; r < rows; ++r) {
      for (const PoolCandidate* c = first; c != last; ++c) {
        const std::int64_t at = row_at_[r] + c->lane;
        to[count++] = {winners_ + at, dy_ + at, row_tap_[r] + c->tap};
      }
    }
    return count;
  }

  void make_row(std::int64_t d, std::int64_t h, std::int64_t row_in_block) {
    const std::int64_t stride = axis_w().stride;
    const std::int64_t unit = s_.cut.unit;
    int rows = 0;
    for (const PoolReach& plane : s_.planes.at(d)) {
      for (const PoolReach& row : s_.rows.at(h)) {
        row_at_[rows] = windows_row(plane.window, row.window, plane.slot * s_.window_slots.second + row.slot);
        row_tap_[rows++] = (plane.tap * axis_h().window + row.tap) * axis_w().window;
      }
    }
    const std::int64_t in_block = row_in_block * columns_ * unit;
    T* dx = dx_data_ + n_ * s_.dx.view.strides[0] + plane_ * s_.dx.view.strides[1] +
            (d * axis_h().input + h) * columns_ * unit;
    if (stride > 2 && unit == 1) {
      gather_phases(rows, block_ + in_block);
    } else if (way_ == Way::block) {
      gather_row<Way::block>(rows, layout_.block_lanes, block_ + in_block, dx);
    } else if (way_ == Way::store) {
      gather_row<Way::store>(rows, s_.dx.view.strides[1], block_, dx);
    } else {
      gather_row<Way::stream>(rows, s_.dx.view.strides[1], block_, dx);
    }
  }

  template <Way kWay>
  void gather_row(int rows, std::int64_t plane_step, A* block, T* dx) {
    const std::int64_t unit = s_.cut.unit;
    if (axis_w().stride == 1) {
      const int count = add_candidates(0, rows, candidates_);
      gather<kWay>(Sum<A, W>(candidates_, count), 0, {planes_, columns_ * unit, s_.pitch, plane_step}, block, dx);
    } else if (unit > 1) {
      gather_pixels<kWay>(rows, block, dx);
    } else {
      const int first = add_candidates(first_phase_, rows, candidates_);
      const int second = add_candidates(1 - first_phase_, rows, candidates_ + first);
      gather_pairs<kWay>(Sum<A, W>(candidates_, first), Sum<A, W>(candidates_ + first, second), first_phase_,
                         {planes_, columns_, s_.pitch, plane_step}, block, dx);
    }
  }

  // Channels innermost: phase after phase, each leaving out the pixels of the others.
  template <Way kWay>
  void gather_pixels(int rows, A* block, T* dx) {
    const std::int64_t stride = axis_w().stride;
    const std::int64_t unit = s_.cut.unit;
    const std::int64_t whole = unit / lanes(Lanes<A>()) * lanes(Lanes<A>());
    alignas(64) A rest[hn::MaxLanes(Lanes<A>())];
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      const int count = add_candidates(phase, rows, candidates_);
      const bool wraps = phase < first_phase_;
      const std::int64_t at = wraps ? unit : 0;
      const std::int64_t first = phase - first_phase_ + (wraps ? stride : 0);
      if (first >= columns_) continue;
      const std::int64_t pixels = (columns_ - first - 1) / stride + 1;
      if (whole > 0) {
        gather<kWay>(Sum<A, W>(candidates_, count), at, {pixels, whole, unit, stride * unit}, block + first * unit,
                     dx + first * unit);
      }
      if (whole == unit) continue;
      for (std::int64_t i = 0; i < pixels; ++i) {  // what lies beyond is another phase's
        gather<Way::block>(Sum<A, W>(candidates_, count), at + i * unit + whole, {1, unit - whole, 0, 0}, rest, dx);
        std::memcpy(block + (first + i * stride) * unit + whole, rest,
                    static_cast<std::size_t>(unit - whole) * sizeof(A));
      }
    }
  }

  // Any stride: the sums of every phase, then the columns from their phases.
  void gather_phases(int rows, A* out) {
    const std::int64_t stride = axis_w().stride;
    const std::int64_t n = (planes_ - 1) * s_.pitch + (s_.windows - s_.before);
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      const int count = add_candidates(phase, rows, candidates_);
      gather<Way::block>(Sum<A, W>(candidates_, count), 0, {1, n, 0, 0}, sums_ + phase * row_lanes_, dx_data_);
    }
    for (std::int64_t segment = 0; segment < planes_; ++segment) {
      const A* sums = sums_ + segment * s_.pitch;
      std::int64_t phase = first_phase_, j = 0;
      for (std::int64_t i = 0; i < columns_; ++i) {
        out[segment * layout_.block_lanes + i] = sums[phase * row_lanes_ + j];
        if (++phase == stride) {
          phase = 0;
          ++j;
        }
      }
    }
  }

  // ---- Each dy seeks its place

  void scatter_block(std::int64_t row, std::int64_t rows) {
    const PoolAxis &ad = axis_d(), &ah = axis_h();
    for (std::int64_t segment = 0; segment < planes_; ++segment) {
      std::fill_n(block_ + segment * layout_.block_lanes, rows * columns_ * s_.cut.unit, A{0});
    }
    for (std::int64_t od = 0; od < ad.output; ++od) {
      for (std::int64_t oh = 0; oh < ah.output; ++oh) {
        if (!reaches(od, oh, row, rows)) continue;
        const std::int64_t slot = od % s_.window_slots.first * s_.window_slots.second + oh % s_.window_slots.second;
        scatter_row(windows_row(od, oh, slot), od, oh, row, rows);
      }
    }
  }

  void scatter_row(std::int64_t at, std::int64_t od, std::int64_t oh, std::int64_t row, std::int64_t rows) {
    const std::int64_t unit = s_.cut.unit;
    const PoolAxis &ad = axis_d(), &ah = axis_h(), &aw = axis_w();
    const std::int64_t first_row = ad.position(od, 0) * ah.input + ah.position(oh, 0) - row;
    const bool all_inside = rows == s_.cut.rows && s_.cut.column_blocks == 1;
    for (std::int64_t i = existing_begin_; i < existing_end_; ++i) {
      const std::int64_t first_column = aw.position(first_window_ + i, 0) - column_;
      const std::int64_t first = (first_row * columns_ + first_column) * unit;
      // Lanes from `first` to the winner's sum, unless that is outside of this block.
      constexpr std::int64_t kOutside = std::numeric_limits<std::int64_t>::max();
      const auto offset_of = [&](W winner) {
        const Spatial& k = s_.taps.taps[static_cast<std::size_t>(winner)];
        const std::int64_t p = first_column + k[2] * aw.dilation;
        const std::int64_t r = first_row + k[0] * ad.dilation * ah.input + k[1] * ah.dilation;
        const bool inside = p >= 0 && p < columns_ && r >= 0 && r < rows;
        return inside ? (r * columns_ + p) * unit - first : kOutside;
      };
      // Planes in turn: their sums do not wait for each other.
      for (std::int64_t segment = 0; segment < planes_; ++segment) {
        A* sums = block_ + segment * layout_.block_lanes + first;
        const W* winners = winners_ + at + segment * s_.pitch + i * unit;
        const A* dy = dy_ + at + segment * s_.pitch + i * unit;
        for (std::int64_t c = 0; c < unit; ++c) {
          const W winner = winners[c];
          if (winner == kNone) continue;
          const std::int64_t to = all_inside ? s_.tap_offset[static_cast<std::size_t>(winner)] : offset_of(winner);
          if (to != kOutside) sums[to + c] += dy[c];
        }
      }
    }
  }

  // Whether a row of windows can have a winner in rows [row, row + rows) of the plane.
  [[nodiscard]] bool reaches(std::int64_t od, std::int64_t oh, std::int64_t row, std::int64_t rows) const {
    const PoolAxis &ad = axis_d(), &ah = axis_h();
    const std::int64_t lowest_row = ad.position(od, ad.first_tap(od)) * ah.input + ah.position(oh, ah.first_tap(oh));
    const std::int64_t highest_row =
        ad.position(od, ad.end_tap(od) - 1) * ah.input + ah.position(oh, ah.end_tap(oh) - 1);
    return highest_row >= row && lowest_row < row + rows;
  }

  // ---- The block

  void export_block(std::int64_t row, std::int64_t rows) {
    const Dims& s = s_.dx.view.strides;
    const std::int64_t unit = s_.cut.unit;
    const std::int64_t length = columns_ * unit;
    const std::int64_t height = axis_h().input;
    for (std::int64_t segment = 0; segment < planes_; ++segment) {
      const A* from = block_ + segment * layout_.block_lanes;
      const auto place = [&](std::int64_t r) {
        return RowPlace{n_, plane_ + segment, r / height, r % height, column_, columns_};
      };
      if (dx_follows_) {
        export_packed(from, dx_data_ + n_ * s[0] + (plane_ + segment) * s[1] + row * length, rows * length,
                      s_.past_cache);
        continue;
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        each_run(s_.dx, dx_data_, unit, place(row + r),
                 [&](T* to, std::int64_t stride, std::int64_t n, std::int64_t, std::int64_t at) {
                   export_run(from + r * length + at, to, stride, n, s_.past_cache && is_long_run(n, sizeof(T)));
                 });
      }
    }
  }

  static constexpr int kMostRows = 64;  // of windows that reach one row (more are scattered), and that are read at once

  const PoolGradSetup& s_;
  const Layout& layout_;
  const T* dy_data_;
  T* dx_data_;
  StoredWinners<W> stored_;
  std::int64_t* tags_;
  W* winners_;
  I* taps_;
  A *dy_, *sums_, *block_;
  Candidate<A, W>* candidates_;
  WindowSource<T>* sources_;
  ReducedRows<T> reduced_;
  std::int64_t row_at_[kMostRows] = {};
  std::int64_t row_tap_[kMostRows] = {};
  std::int64_t row_slots_[kMostRows] = {};
  Way way_ = Way::block;
  bool dy_contiguous_ = false, dx_follows_ = false;
  std::int64_t n_ = 0, plane_ = 0, planes_ = 0, column_ = 0, columns_ = 0;
  std::int64_t row_lanes_ = s_.row_lanes();
  std::int64_t first_phase_ = 0, first_window_ = 0, existing_begin_ = 0, existing_end_ = 0;
};

std::size_t RunPoolGrad(const PoolPart<PoolGradSetup>& part) {
  std::size_t bytes = 0;
  visit(MaxPoolGrad::Types{}, part.setup->dx.view.dtype, [&]<class T>() {
    const auto run = [&]<class W>() {
      const typename GradRows<T, W>::Layout layout(*part.setup);
      bytes = layout.bytes;
      if (part.scratch != nullptr) GradRows<T, W>(part, layout).run(part.first, part.last);
    };
    if constexpr (sizeof(Acc<T>) == 4) {
      if (part.setup->g.taps() <= 255) return run.template operator()<std::uint8_t>();
    }
    run.template operator()<PoolLane<Acc<T>>>();
  });
  return bytes;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(RunPoolGrad);

std::unique_ptr<Kernel> make_max_pool_grad(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings) {
  PoolGradSetup setup;
  if (!plan->dx.empty()) setup = make_setup(*plan);
  return make_pool_kernel(std::move(plan), settings, std::move(setup), BP_DISPATCH(RunPoolGrad));
}

}  // namespace bp::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// Resample on vectors: the sums along a row of x come first, then such rows are added level by level, innermost axis
// first. A row that is summed up to some level is kept for the outputs after it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/resample/cpu_forward.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/simd-inl.h"
#include "ops/resample/cpu_along-inl.h"
#include "ops/resample/cpu_between-inl.h"
#include "ops/resample/cpu_rows.h"
#include "ops/resample/cpu_sums-inl.h"
#include "ops/resample/resample.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// One part of a run, on one thread: what sums and movement share. T is the type of the tensors, L of scratch rows, A of
// the tables' weights.
template <class T, class L, class A>
class ForwardPart {
 protected:
  ForwardPart(const Rows<A>& rows, const RowsJob& job)
      : rows_(rows),
        job_(job),
        x_(static_cast<const T*>(job.in)),
        end_(x_ + job.in_end),
        y_(static_cast<T*>(job.out)),
        imported_(array<L>(rows.spare)),
        result_(array<L>(rows.result)) {}

  // Calls start() and then rows(n) for every tile, the cursor at its first row: n elements of y are one of them.
  template <class Start, class RowsOfTile>
  HWY_INLINE void each_tile(const Start& start, const RowsOfTile& rows) {
    for (std::int64_t t = job_.first_tile; t < job_.last_tile; ++t) {
      tile_ = rows_.tile(t);
      start();
      cursor_.set(rows_.walk, job_.first_row);
      rows((tile_.last - tile_.first) * rows_.pixel);
    }
  }
  // Where the tile's part of the cursor's row begins.
  HWY_INLINE const T* row_of_x() const { return x_ + cursor_.in + tile_.low * rows_.in_column_stride; }
  HWY_INLINE T* row_of_y() const { return y_ + cursor_.out + tile_.first * rows_.out_column_stride; }

  // Calls start() for every tile, and make(from, to), which fills a row of scratch memory, for every row of it.
  template <class Start, class Make>
  HWY_INLINE void run_all(const Start& start, const Make& make) {
    const bool follows = rows_.out_follows && rows_.tile_count() == 1;
    each_tile(start, [&](std::int64_t n) HWY_ATTR {
      for (std::int64_t row = job_.first_row; row < job_.last_row;) {
        const std::int64_t count = std::min(rows_.at_once, job_.last_row - row);
        T* first = row_of_y();
        for (std::int64_t i = 0; i < count; ++i, cursor_.next(rows_.walk)) {
          make(row_of_x(), result_ + i * n);
          if (!follows) export_row(rows_, result_ + i * n, n, row_of_y());
        }
        if (follows) export_packed(result_, first, count * n, rows_.past_cache);
        row += count;
      }
    });
  }

  template <class E>
  [[nodiscard]] E* array(std::size_t at) const {
    return reinterpret_cast<E*>(job_.scratch + at);
  }
  // Where the output stands on a level.
  HWY_INLINE std::int64_t index(int level) const {
    const int axis = rows_.walk.rank - rows_.levels + level;
    return cursor_.index[static_cast<std::size_t>(axis)];
  }
  HWY_INLINE std::int64_t columns_read() const { return tile_.high - tile_.low; }

  const Rows<A>& rows_;
  const RowsJob& job_;
  const T* x_;
  const T* end_;
  T* y_;
  L* imported_;
  L* result_;
  Tile tile_;
  RowCursor cursor_;
};

template <class T>
class SumPart : ForwardPart<T, Acc<T>, Acc<T>> {
  using A = Acc<T>;
  using Base = ForwardPart<T, A, A>;
  using Base::cursor_, Base::end_, Base::imported_, Base::index, Base::rows_, Base::tile_;

 public:
  SumPart(const Rows<A>& rows, const RowsJob& job) : Base(rows, job) {}

  void run() {
    if (!puts_sums_at_once()) {
      return Base::run_all([this] { forget(); }, [this](const T* from, A* to) HWY_ATTR { sum_from(0, from, 0, to); });
    }
    Base::each_tile([this] { forget(); },
                    [this](std::int64_t n) HWY_ATTR {
                      for (std::int64_t row = Base::job_.first_row; row < Base::job_.last_row; ++row) {
                        put(Base::row_of_x(), n, Base::row_of_y());
                        cursor_.next(rows_.walk);
                      }
                    });
  }

 private:
  // The last sums need no stop in scratch memory where a row of y is one run, and past the cache of whole lines.
  [[nodiscard]] bool puts_sums_at_once() const {
    if (rows_.levels == 0 || !rows_.out_contiguous) return false;
    constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t columns = rows_.tile(0).last * rows_.pixel;
    return !rows_.past_cache || (reinterpret_cast<std::uintptr_t>(Base::y_) % 64 == 0 && columns % kLine == 0 &&
                                 rows_.out_columns * rows_.pixel % kLine == 0 && rows_.out_follows);
  }

  HWY_INLINE void put(const T* from, std::int64_t n, T* to) {
    const SumAxis<A>& axis = rows_.level[0];
    const std::int64_t begin = axis.begin[index(0)], end = axis.begin[index(0) + 1];
    std::int64_t at[kMostTerms]{};
    const std::int64_t count = keep_rows(0, from, 0, begin, end, at);
    if (begin < end && count == end - begin) {
      const A* rows = Base::template array<A>(rows_.kept_from[1].rows);
      return export_sum<A, T>({rows, 1, at, axis.weight.data() + begin, count, false, nullptr}, n, rows_.past_cache,
                              to);
    }
    sum_from(0, from, 0, Base::result_);
    export_row(rows_, Base::result_, n, to);
  }

  // Which row a kept one is: where the input's row, or the first of those it sums, begins, and the output's indices.
  struct Tag {
    const T* from;
    std::int64_t output;
  };
  static_assert(sizeof(Tag) <= 2 * sizeof(std::int64_t));

  void forget() {
    for (const auto& kept : rows_.kept_from) {
      for (std::int64_t i = 0; i < kept.count; ++i) Base::template array<Tag>(kept.tags)[i] = {nullptr, 0};
    }
  }

  // The sum over the levels from `level` on. `slot` tells the rows apart that are kept for each level before it.
  void sum_from(int level, const T* from, std::int64_t slot, A* to) {
    if (level == rows_.levels) return sum_along(from, to);
    const auto l = static_cast<std::size_t>(level);
    const SumAxis<A>& axis = rows_.level[l];
    const std::int64_t begin = axis.begin[index(level)], end = axis.begin[index(level) + 1];
    const std::int64_t n = (tile_.last - tile_.first) * rows_.pixel;
    const A* rows = Base::template array<A>(rows_.kept_from[l + 1].rows);
    if (begin == end) clear_row(n, to);
    for (std::int64_t k = begin; k < end;) {
      std::int64_t at[kMostTerms];
      const std::int64_t count = keep_rows(level, from, slot, k, end, at);
      const Terms<A, A> terms{rows, 1, at, axis.weight.data() + k, count, false, nullptr};
      if (k == begin) {
        add_few<false, From::zero, false>(terms, n, true, Row<A>{to, nullptr});
      } else {
        add_few<false, From::before, false>(terms, n, true, Row<A>{to, nullptr});
      }
      k += count;
    }
  }

  // The rows that are terms of a level's sum, from term k on: as many as are there at the same time. Returns how many,
  // and where they are among those that are kept.
  static constexpr std::int64_t kMostTerms = 4;
  HWY_INLINE std::int64_t keep_rows(int level, const T* from, std::int64_t slot, std::int64_t k, std::int64_t end,
                                    std::int64_t (&at)[kMostTerms]) {
    const auto l = static_cast<std::size_t>(level);
    const SumAxis<A>& axis = rows_.level[l];
    const A* rows = Base::template array<A>(rows_.kept_from[l + 1].rows);
    const std::int64_t slots = rows_.slots[l];
    std::int64_t count = 0;
    for (; count < kMostTerms && k + count < end && axis.index[k + count] - axis.index[k] < slots; ++count) {
      const std::int64_t i = axis.index[k + count];
      at[count] = kept_row(level + 1, from + i * axis.in_stride, slot * slots + (i & (slots - 1))) - rows;
    }
    return count;
  }

  const A* kept_row(int level, const T* from, std::int64_t slot) {
    const auto& kept = rows_.kept_from[static_cast<std::size_t>(level)];
    std::int64_t output = 0;
    for (int i = level; i < rows_.levels; ++i)
      output = output * rows_.level[static_cast<std::size_t>(i)].out + index(i);
    const std::int64_t at = kept.outputs > 1 ? slot * kept.outputs + output : slot;
    Tag& tag = Base::template array<Tag>(kept.tags)[at];
    A* row = Base::template array<A>(kept.rows) + at * rows_.pitch;
    if (tag.from != from || tag.output != output) {
      sum_from(level, from, slot, row);
      tag = {from, output};
    }
    return row;
  }

  // A row of accumulators with a vector to read beyond it: in the tensor, or else in scratch.
  HWY_INLINE const A* readable_row(const T* from, std::int64_t n) const {
    if constexpr (std::is_same_v<T, A>) {
      if (rows_.in_contiguous && n + lanes(Lanes<A>()) <= end_ - from) return from;
    }
    import_row(rows_, from, end_, n, imported_);
    return imported_;
  }

  void sum_along(const T* from, A* to) const {
    const std::int64_t n = Base::columns_read() * rows_.pixel;
    if (rows_.along == Along::nothing) return import_row(rows_, from, end_, n, to);
    const A* row = readable_row(from, n);
    if (rows_.along == Along::pixels) return along_pixels(rows_, tile_, rows_.pixel, row, to);
    constexpr std::int64_t kFirst = 0;
    const RowSet<A, A> one{1, row, 0, to, &kFirst};
    rows_.along == Along::lookups ? along_lookups<false>(rows_, tile_, one) : along_lookups<true>(rows_, tile_, one);
  }
};

// Every axis is movement: rows of x are spread along the row, and stored as often as they occur.
template <class T, class L, class A>
class MovePart : ForwardPart<T, L, A> {
  using Base = ForwardPart<T, L, A>;
  using Base::end_, Base::imported_, Base::index, Base::rows_, Base::tile_;

 public:
  MovePart(const Rows<A>& rows, const RowsJob& job) : Base(rows, job) {}

  void run() {
    Base::run_all([this] { before_ = nullptr; }, [this](const T* from, L* to) HWY_ATTR { move(from, to); });
  }

 private:
  void move(const T* from, L* to) {
    for (int level = 0; level < rows_.levels; ++level) {
      const SumAxis<A>& axis = rows_.level[static_cast<std::size_t>(level)];
      from += axis.index[index(level)] * axis.in_stride;
    }
    const std::int64_t n = (tile_.last - tile_.first) * rows_.pixel;
    // The row before is as it was where it lies right before this one, or there, from the last row of a block on.
    if (from == before_) {
      if (to != made_) std::memcpy(to, made_, static_cast<std::size_t>(n) * sizeof(L));
    } else {
      move_along(from, to);
    }
    before_ = from;
    made_ = to;
  }

  void move_along(const T* from, L* to) const {
    const std::int64_t pixel = rows_.pixel;
    if (rows_.along == Along::lookups || rows_.along == Along::gathers) {
      import_bits(from, Base::columns_read());
      if constexpr (sizeof(L) == sizeof(A)) {
        rows_.along == Along::lookups ? move_lookups<false>(rows_, tile_, imported_, to)
                                      : move_lookups<true>(rows_, tile_, imported_, to);
      }
    } else if constexpr (std::is_same_v<T, L>) {
      const bool spread = rows_.along == Along::pixels;
      for (std::int64_t c = tile_.first; c < tile_.last; ++c, to += pixel) {
        const std::int64_t i = (spread ? rows_.wide.index[c] : c) - tile_.low;
        move_pixel(from + i * rows_.in_column_stride, to);
      }
    }
  }

  HWY_INLINE void move_pixel(const T* from, L* to) const {
    if (rows_.in_pixel_stride == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(rows_.pixel) * sizeof(L));
    } else {
      for (std::int64_t i = 0; i < rows_.pixel; ++i) to[i] = static_cast<L>(from[i * rows_.in_pixel_stride]);
    }
  }

  void import_bits(const T* from, std::int64_t columns) const {
    const Lanes<L> d;
    const hn::Rebind<T, Lanes<L>> narrow_d;
    const std::int64_t n = columns * rows_.pixel;
    std::int64_t i = 0;
    if (rows_.in_contiguous) {
      for (; i + lanes(d) <= n; i += lanes(d)) {
        if constexpr (sizeof(T) == sizeof(L)) {
          hn::StoreU(hn::LoadU(d, from + i), d, imported_ + i);
        } else {
          hn::StoreU(hn::PromoteTo(d, hn::LoadU(narrow_d, from + i)), d, imported_ + i);
        }
      }
    }
    for (; i < n; ++i) {
      imported_[i] = from[i / rows_.pixel * rows_.in_column_stride + i % rows_.pixel * rows_.in_pixel_stride];
    }
  }

  const T* before_ = nullptr;  // the row of x that was moved last, and where to
  const L* made_ = nullptr;
};

template <class T>
void run_sums(const Rows<Acc<T>>& rows, const RowsJob& job) {
  if (BetweenPart<T> between(rows, job); between.fits()) return between.run();
  SumPart<T>(rows, job).run();
}
void ForwardF32(const Rows<float>& rows, const RowsJob& job) {
  visit(TypeList<float, f16, bf16, std::int8_t, std::uint8_t>{}, job.dtype, [&]<class T>() { run_sums<T>(rows, job); });
}
void ForwardF64(const Rows<double>& rows, const RowsJob& job) { run_sums<double>(rows, job); }

template <class T, class L, class A>
void move_as(const Rows<A>& rows, const RowsJob& job) {
  if (rows.along == Along::lookups || rows.along == Along::gathers) return MovePart<T, L, A>(rows, job).run();
  MovePart<T, T, A>(rows, job).run();
}
void MoveF32(const Rows<float>& rows, const RowsJob& job) {
  switch (size_of(job.dtype)) {
    case 1:
      return move_as<std::uint8_t, std::uint32_t>(rows, job);
    case 2:
      return move_as<std::uint16_t, std::uint32_t>(rows, job);
    default:
      return move_as<std::uint32_t, std::uint32_t>(rows, job);
  }
}
void MoveF64(const Rows<double>& rows, const RowsJob& job) { move_as<std::uint64_t, std::uint64_t>(rows, job); }

std::int64_t ForwardLanesF32() { return lanes(Lanes<float>()); }
std::int64_t ForwardLanesF64() { return lanes(Lanes<double>()); }

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(MoveF32);
HWY_EXPORT(MoveF64);
HWY_EXPORT(ForwardLanesF32);
HWY_EXPORT(ForwardLanesF64);

namespace {

template <class A>
Rows<A> make_rows(const ResamplePlan& plan, bool past_cache) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const std::int64_t lanes =
      std::is_same_v<A, double> ? BP_DISPATCH(ForwardLanesF64)() : BP_DISPATCH(ForwardLanesF32)();
  return {Direction::forward, plan.x, plan.y, plan.axes, kAll, lanes, past_cache};
}

// Where every axis is nearest, bits are moved.
bool moves(const ResamplePlan& plan) {
  return std::all_of(plan.axes.begin(), plan.axes.begin() + plan.x.rank,
                     [](const AxisTable& axis) { return axis.movement; });
}

}  // namespace

std::string refuse_resample(const ResamplePlan& plan) {
  if (plan.y.empty()) return {};
  if (std::string reason = refuse_tables(plan.axes); !reason.empty()) return reason;
  return refuse_scratch(plan.x.dtype == DType::f64 ? make_rows<double>(plan, false).scratch_bytes
                                                   : make_rows<float>(plan, false).scratch_bytes);
}

std::unique_ptr<Kernel> make_resample(std::shared_ptr<const ResamplePlan> plan, const Settings& settings) {
  const bool past_cache = is_past_cache(stored_bytes({&plan->x, &plan->y}));
  return make_resample_rows(std::move(plan), settings, past_cache);
}

std::unique_ptr<Kernel> make_resample_rows(std::shared_ptr<const ResamplePlan> plan, const Settings& settings,
                                           bool past_cache) {
  if (plan->y.empty()) return PlainKernel<ResamplePlan, reference::resample>::make(std::move(plan), settings);
  if (plan->x.dtype == DType::f64) {
    return std::make_unique<RowsKernel<double>>(plan, plan->x, plan->y, settings, make_rows<double>(*plan, past_cache),
                                                moves(*plan) ? BP_DISPATCH(MoveF64) : BP_DISPATCH(ForwardF64));
  }
  return std::make_unique<RowsKernel<float>>(plan, plan->x, plan->y, settings, make_rows<float>(*plan, past_cache),
                                             moves(*plan) ? BP_DISPATCH(MoveF32) : BP_DISPATCH(ForwardF32));
}

}  // namespace bp::cpu
#endif

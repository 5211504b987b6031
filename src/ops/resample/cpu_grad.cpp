// SPDX-License-Identifier: Apache-2.0
// The resample gradient on vectors: rows of dy are added level by level, outermost axis first; the sums along the row
// come last.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/resample/cpu_grad.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/simd-inl.h"
#include "backends/cpu/transpose-inl.h"
#include "ops/resample/cpu_along-inl.h"
#include "ops/resample/cpu_halved-inl.h"
#include "ops/resample/cpu_rows.h"
#include "ops/resample/cpu_sums-inl.h"
#include "ops/resample/cpu_twofold-inl.h"
#include "ops/resample/resample.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// One part of a run, on one thread.
template <class T>
class GradientPart {
  using A = Acc<T>;

 public:
  GradientPart(const Rows<A>& rows, const RowsJob& job)
      : rows_(rows),
        job_(job),
        dy_(static_cast<const T*>(job.in)),
        end_(dy_ + job.in_end),
        dx_(static_cast<T*>(job.out)),
        sums_(array<A>(rows.sums) + kLead),
        result_(array<A>(rows.result)),
        kept_(array<A>(rows.kept)) {}

  void run() {
    if (rows_.along == Along::pairs) clear_all_margins();
    RowCursor cursor;
    cursor.set(rows_.walk, job_.first_row);
    // Rows that share what is kept between levels are done tile by tile, others block by block.
    for (std::int64_t row = job_.first_row; row < job_.last_row;) {
      const bool shares = rows_.kept_rows > 0 || rows_.carries;
      const std::int64_t length = shares ? rows_.run() - row % rows_.run() : rows_.at_once;
      const std::int64_t end = std::min(row + length, job_.last_row);
      for (std::int64_t t = job_.first_tile; t < job_.last_tile; ++t) {
        kept_low_ = kept_high_ = 0;
        begun_ = -1;
        if (t > job_.first_tile) cursor.set(rows_.walk, row);
        for (std::int64_t first = row; first < end; first += rows_.at_once) {
          left_ = end - first;
          block(cursor, std::min(rows_.at_once, end - first), t);
        }
      }
      row = end;
    }
  }

 private:
  template <class E>
  [[nodiscard]] E* array(std::size_t at) const {
    return reinterpret_cast<E*>(job_.scratch + at);
  }
  [[nodiscard]] A* spare(int i) const { return array<A>(rows_.spare) + i * rows_.pitch; }

  // ---- Levels --------------------------------------------------------------------------------------------

  template <class From>
  HWY_INLINE Terms<A, From> terms(const SumAxis<A>& axis, std::int64_t i, const From* base, std::int64_t stride,
                                  const From* end) const {
    const std::int64_t k = axis.begin[i];
    return {base, stride, axis.index + k, axis.weight.data() + k, axis.terms(i), axis.unit, end};
  }

  template <class From>
  HWY_INLINE void sum_terms(const Terms<A, From>& of, std::int64_t n, bool last, Row<A> row) const {
    sum_rows(of, n, of.may_read_beyond(n), last, rows_.block, spare(0), rows_.pitch, row);
  }

  // n elements of the row at `from`, summed over the first `levels` levels.
  void sum_levels(int levels, const RowCursor& cursor, const T* from, std::int64_t n, Row<A> row) const {
    const bool last = rows_.along == Along::nothing && levels == rows_.levels;
    constexpr std::int64_t kFirst = 0;
    constexpr A kOne = 1;
    if (levels == 0) {
      if (rows_.in_contiguous) return sum_terms<T>({from, 0, &kFirst, &kOne, 1, true, end_}, n, last, row);
      A* imported = spare(2);
      import_row(rows_, from, end_, n, imported);
      return sum_terms<A>({imported, 0, &kFirst, &kOne, 1, true, nullptr}, n, last, row);
    }
    const SumAxis<A>& axis = rows_.level[static_cast<std::size_t>(levels - 1)];
    const Terms<A, T> of = terms(axis, level_index(levels, cursor), from, axis.in_stride, end_);
    if (levels == 1 && rows_.in_contiguous) return sum_terms(of, n, last, row);
    A* to = row.odd == nullptr ? row.to : spare(3 * levels);
    A* next = spare(3 * levels + 1);
    A* sum = of.count > rows_.block ? spare(3 * levels + 2) : to;
    clear_row(n, to);
    for (std::int64_t k = 0; k < of.count;) {
      clear_row(n, sum);
      for (const std::int64_t end = k + std::min(rows_.block, of.count - k); k < end; ++k) {
        sum_levels(levels - 1, cursor, of.row(k), n, {next, nullptr});
        add_row(of.weight[k], next, n, sum);
      }
      if (sum != to) add_row(kOne, sum, n, to);
    }
    if (row.odd != nullptr) take_apart(to, n, row);
  }

  // The same of columns [low, high), over all levels.
  void sum_all_levels(const RowCursor& cursor, std::int64_t low, std::int64_t high, Row<A> row) const {
    const T* from = dy_ + cursor.in + low * rows_.in_column_stride;
    if (low < high) sum_levels(rows_.levels, cursor, from, (high - low) * rows_.pixel, row);
  }

  HWY_INLINE std::int64_t level_index(int levels, const RowCursor& cursor) const {
    return cursor.index[static_cast<std::size_t>(rows_.walk.rank - rows_.levels + levels - 1)];
  }

  // ---- Blocks of rows ------------------------------------------------------------------------------------

  // `count` rows from the cursor on, which moves on.
  void block(RowCursor& cursor, std::int64_t count, std::int64_t tile_number) {
    const Tile tile = rows_.tile(tile_number);
    if (rows_.doubles) return block_of_doubles(cursor, count, tile);
    const std::int64_t unique = sum_block(cursor, count, tile_number);
    const std::int64_t n = (tile.high - tile.low) * rows_.pixel;
    const std::int64_t n_out = (tile.last - tile.first) * rows_.pixel;
    switch (rows_.along) {
      case Along::nothing:
        return store_block(count, unique, tile, sums_);
      case Along::transpose: {
        A* across = array<A>(rows_.across);
        A* across_out = array<A>(rows_.across_out);
        transpose(sums_, rows_.pitch, unique, n, across, rows_.lanes);
        along_pixels(rows_, tile, rows_.pixel * rows_.lanes, across, across_out);
        transpose(across_out, rows_.lanes, n_out, unique, result_, n_out);
        return store_block(count, unique, tile, result_);
      }
      default:
        break;
    }
    // Runs that stay in the cache, and of whole vectors, need no stop in scratch; but where dx is the larger one, rows
    // side by side, of types so narrow that a vector is a part of a line, would take too many lines in several turns.
    const std::int64_t shortest = rows_.along == Along::pixels ? rows_.pixel : n_out;
    const bool in_turns = rows_.along == Along::lookups && sizeof(T) < sizeof(A);
    if (rows_.past_cache || !rows_.out_contiguous || shortest < rows_.lanes || in_turns) {
      for (std::int64_t i = 0; i < unique; ++i) first_[i] = i * n_out;
      along(tile, RowSet<A, A>{unique, sums_, rows_.pitch, result_, first_});
      return store_block(count, unique, tile, result_);
    }
    for (std::int64_t i = count - 1; i >= 0; --i) first_[source_[i]] = out_[i];
    along(tile, RowSet<A, T>{unique, sums_, rows_.pitch, dx_, first_});
    for (std::int64_t i = 1; i < count; ++i) {
      if (source_[i] != source_[i - 1]) continue;
      std::memcpy(dx_ + out_[i], dx_ + out_[i - 1], static_cast<std::size_t>(n_out) * sizeof(T));
    }
  }

  // The same where two rows make one and two columns make one.
  void block_of_doubles(RowCursor& cursor, std::int64_t count, const Tile& tile) {
    const SumAxis<A>& axis = rows_.level[0];
    const bool streams = rows_.past_cache && rows_.along == Along::pixels && rows_.pixel % rows_.lanes == 0 &&
                         writes_lines(rows_, static_cast<const T*>(dx_));
    const bool in_scratch = (rows_.past_cache && !streams) || !rows_.out_contiguous;
    const std::int64_t n = (tile.last - tile.first) * rows_.pixel;
    for (std::int64_t i = 0; i < count; ++i, cursor.next(rows_.walk)) {
      const std::int64_t r = level_index(1, cursor);
      if (i == 0 || r == 0) ask_for_rows(axis, r, count - i, dy_ + cursor.in);
      const T* from = dy_ + cursor.in + 2 * r * axis.in_stride + 2 * tile.first * rows_.pixel;
      out_[i] = cursor.out + tile.first * rows_.out_column_stride;
      source_[i] = i;
      if (in_scratch) {
        add_doubles(from, tile, false, result_ + i * n);
      } else {
        if (rows_.pixel == 1) prefetch(from + 2 * rows_.at_once * axis.in_stride, 2 * tile.high);
        add_doubles(from, tile, streams, dx_ + out_[i]);
      }
    }
    if (in_scratch) store_block(count, count, tile, result_);
  }
  template <class U>
  HWY_INLINE void add_doubles(const T* from, const Tile& tile, bool streams, U* to) const {
    const std::int64_t stride = rows_.level[0].in_stride, columns = tile.last - tile.first;
    if (rows_.along == Along::pairs) return nearest_pairs<A>(from, stride, columns, to);
    nearest_pixels<A>(from, stride, columns, rows_.pixel, streams, to);
  }

  template <class U>
  HWY_INLINE void along(const Tile& tile, const RowSet<A, U>& set) const {
    if (rows_.along == Along::pairs) return along_pairs(rows_, tile, set);
    if (rows_.along == Along::lookups) return along_lookups<false>(rows_, tile, set);
    for (std::int64_t i = 0; i < set.count; ++i) {
      along_pixels(rows_, tile, rows_.pixel, set.from + i * set.pitch, set.to + set.offset[i]);
    }
  }

  // The sums over the levels of `count` rows from the cursor on, which moves on; returns how many of them differ.
  std::int64_t sum_block(RowCursor& cursor, std::int64_t count, std::int64_t tile_number) {
    const Tile tile = rows_.tile(tile_number);
    const std::int64_t done = carry_over(count, tile_number);
    const std::int64_t n = (tile.high - done) * rows_.pixel;
    const std::int64_t pitch = rows_.along == Along::nothing ? (tile.high - tile.low) * rows_.pixel : rows_.pitch;
    const SumAxis<A>* axis = rows_.levels == 0 ? nullptr : &rows_.level[static_cast<std::size_t>(rows_.levels - 1)];
    const bool direct = rows_.levels == 1 && rows_.in_contiguous && n > 0;
    const A* kept = rows_.kept_rows > 0 && n > 0 ? keep(*axis, cursor, count, done, tile.high) : nullptr;
    const int last = rows_.walk.rank - 1;
    const std::int64_t out_step = last < 0 ? 0 : rows_.walk.out_strides[static_cast<std::size_t>(last)];
    std::int64_t unique = 0;
    if (!rows_.carries) begun_ = -1;
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t r = axis == nullptr ? 0 : cursor.index[static_cast<std::size_t>(last)];
      if (direct && (i == 0 || r == 0)) ask_for_rows(*axis, r, count - i, dy_ + cursor.in);
      std::int64_t run = 1, repeat = 1;
      if (axis != nullptr && i > 0 && axis->repeats[static_cast<std::size_t>(r)] != 0) {
        --unique;
      } else {
        A* to = sums_ + unique * pitch + (done - tile.low) * rows_.pixel;
        const Row<A> row{to, rows_.along == Along::pairs ? to + rows_.half : nullptr};
        const std::int64_t room = count - i;
        next_is_wanted_ = i + 1 < (rows_.carries ? left_ : count);
        if (kept != nullptr) {
          run = sum_some<A>(*axis, r, room, kept, n, nullptr, n, pitch, row);
        } else if (direct) {
          const T* from = dy_ + cursor.in + done * rows_.in_column_stride;
          if (begun_ == r && begun_at_ != to) std::memcpy(to, begun_at_, static_cast<std::size_t>(n) * sizeof(A));
          run = sum_some<T>(*axis, r, room, from, axis->in_stride, end_, n, pitch, row);
        } else {
          sum_all_levels(cursor, done, tile.high, row);
        }
        if (run > 1) repeat = axis->runs[static_cast<std::size_t>(r)].repeat;
        if (row.odd != nullptr) clear_margins(tile, unique, run);
      }
      std::int64_t out = cursor.out + tile.first * rows_.out_column_stride;
      cursor.move(rows_.walk, run * repeat);
      for (; run > 0; --run, ++unique) {
        for (std::int64_t k = 0; k < repeat; ++k, ++i, out += out_step) {
          source_[i] = unique;
          out_[i] = out;
        }
      }
    }
    return unique;
  }

  // Sum r of the last level, or a run of like sums from it on that covers up to `room` rows; returns of how many. The
  // rows that it adds begin at `from`.
  template <class From>
  HWY_INLINE std::int64_t sum_some(const SumAxis<A>& axis, std::int64_t r, std::int64_t room, const From* from,
                                   std::int64_t stride, const From* readable, std::int64_t n, std::int64_t pitch,
                                   Row<A> row) {
    const bool last = rows_.along == Along::nothing;
    const auto& run = axis.runs[static_cast<std::size_t>(r)];
    const Terms<A, From> of = terms(axis, r, from, stride, readable);
    if (of.count > 4 && row.odd == nullptr) {
      sum_shared(axis, r, of, n, pitch, row.to);
      return 1;
    }
    const std::int64_t count = std::min(run.count, room / run.repeat);
    if (last || count < 2 || of.count > 4 || run.shift < 0) {
      sum_terms(of, n, last, row);
      return 1;
    }
    const From* end = of.row(0) + ((count - 1) * run.shift + of.count - 1) * stride;
    if (!may_read_beyond_of(stride < 0 ? of.row(0) : end, n, readable)) {
      sum_terms(of, n, last, row);
      return 1;
    }
    const bool ask_ahead = rows_.in_follows && !rows_.past_cache && rows_.levels == 1;
    const auto add = [&](auto unit, auto apart) HWY_ATTR {
      add_run<decltype(unit)::value, decltype(apart)::value>(of.row(0), stride, run.shift, of.weight, of.count, count,
                                                             n, ask_ahead, row.to, pitch, rows_.half);
    };
    if (row.odd != nullptr) {
      of.unit ? add(std::true_type(), std::true_type()) : add(std::false_type(), std::true_type());
    } else {
      of.unit ? add(std::true_type(), std::false_type()) : add(std::false_type(), std::false_type());
    }
    return count;
  }

  // Sum r, of many terms. Those that it shares with the next sum, whose row of scratch follows, are added to both.
  template <class From>
  HWY_INLINE void sum_shared(const SumAxis<A>& axis, std::int64_t r, const Terms<A, From>& of, std::int64_t n,
                             std::int64_t pitch, A* to) {
    const bool beyond = of.may_read_beyond(n);
    const std::int64_t begun = begun_ == r ? axis.shared[static_cast<std::size_t>(r - 1)] : 0;
    // What is written beyond n must not reach the next sum, which is begun already.
    const bool apart = n % rows_.lanes == 0 || pitch >= n + rows_.lanes;
    const std::int64_t shared = next_is_wanted_ && beyond && apart ? axis.shared[static_cast<std::size_t>(r)] : 0;
    if (begun == 0 && shared == 0) return sum_terms(of, n, rows_.along == Along::nothing, {to, nullptr});
    add_many(of.part(begun, of.count - shared - begun), n, beyond, begun > 0, to);
    begun_ = -1;
    if (shared == 0) return;
    add_to_both(of.part(of.count - shared, shared), of.weight + of.count, n, to, to + pitch);
    begun_ = r + 1;
    begun_at_ = to + pitch;
  }

  // Where that helps: asks for what up to `count` sums from r on add, of rows that begin at `from`, and some more, if
  // nothing has asked for it yet, in the order of memory.
  void ask_for_rows(const SumAxis<A>& axis, std::int64_t r, std::int64_t count, const T* from) {
    if (!rows_.asks_ahead) return;
    constexpr std::int64_t kAhead = 8192 / sizeof(T);
    const T* first = from + axis.fresh[static_cast<std::size_t>(r)] * axis.in_stride;
    const T* end = from + axis.fresh[static_cast<std::size_t>(std::min(r + count, axis.out))] * axis.in_stride + kAhead;
    if (asked_ < first || asked_ > end) asked_ = first;
    prefetch(asked_, end - asked_);
    asked_ = end;
  }

  // Asks for what the next sum of the outermost level will read first, in the place of the n elements at `from`.
  void fetch_next(const RowCursor& cursor, const T* from, std::int64_t n) const {
    const SumAxis<A>& outer = rows_.level[0];
    constexpr std::int64_t kMostAhead = 131072;  // what is kept until then
    if (outer.in_stride * static_cast<std::int64_t>(sizeof(T)) > kMostAhead) return;
    const auto i = static_cast<std::size_t>(level_index(1, cursor));
    const std::int64_t fresh = outer.fresh[i + 1] - outer.fresh[i];
    for (std::int64_t k = 0; k < fresh; ++k) prefetch(from + (outer.fresh[i + 1] + k) * outer.in_stride, n);
  }

  // The rows of the level before the last that the next `count` sums of the last one add, n elements each, so that row
  // o begins at the result + o * n. What is there already is moved to its new place.
  const A* keep(const SumAxis<A>& axis, const RowCursor& cursor, std::int64_t count, std::int64_t low,
                std::int64_t high) {
    const std::int64_t n = (high - low) * rows_.pixel;
    const std::int64_t r = level_index(rows_.levels, cursor);
    std::int64_t first = axis.in, end = 0;
    for (std::int64_t i = r; i < r + count; ++i) {
      if (axis.terms(i) == 0) continue;
      first = std::min(first, axis.first(i));
      end = std::max(end, axis.last(i) + 1);
    }
    if (first >= end) return kept_;
    std::int64_t o = first;
    if (kept_low_ <= first && first < kept_high_ && kept_high_ <= end) {
      o = kept_high_;
      std::memmove(kept_, kept_ + (first - kept_low_) * n, static_cast<std::size_t>((o - first) * n) * sizeof(A));
    }
    kept_low_ = first;
    kept_high_ = end;
    const T* from = dy_ + cursor.in + low * rows_.in_column_stride;
    if (rows_.levels == 2 && rows_.in_follows && o < end) {
      // Rows that follow each other are one long row.
      const SumAxis<A>& outer = rows_.level[0];
      const Terms<A, T> of = terms(outer, level_index(1, cursor), from + o * axis.in_stride, outer.in_stride, end_);
      if (of.count <= rows_.block) {
        fetch_next(cursor, from + o * axis.in_stride, (end - o) * n);
        sum_terms(of, (end - o) * n, false, {kept_ + (o - first) * n, nullptr});
        return kept_ - first * n;
      }
    }
    for (; o < end; ++o) {
      if (rows_.levels == 2) fetch_next(cursor, from + o * axis.in_stride, n);
      sum_levels(rows_.levels - 1, cursor, from + o * axis.in_stride, n, {kept_ + (o - first) * n, nullptr});
    }
    return kept_ - first * n;
  }

  // The zeros behind even and odd elements that pairs reads where the table ends, if the sums have written there.
  HWY_INLINE void clear_margins(const Tile& tile, std::int64_t first, std::int64_t count) const {
    const std::int64_t n = tile.high - tile.low;
    if (rows_.tile_count() == 1 && n % (2 * lanes(Lanes<A>())) == 0) return;
    for (A* row = sums_ + first * rows_.pitch; count > 0; --count, row += rows_.pitch) {
      clear_few(row + (n + 1) / 2);
      clear_few(row + rows_.half + n / 2);
    }
  }
  static HWY_INLINE void clear_few(A* to) {
    const hn::CappedTag<A, kMargin> d;
    for (std::int64_t i = 0; i < kMargin; i += lanes(d)) hn::StoreU(hn::Zero(d), d, to + i);
  }
  void clear_all_margins() const {
    for (std::int64_t i = 0; i < rows_.at_once; ++i) {
      A* row = sums_ + i * rows_.pitch;
      const std::int64_t n = rows_.tile(0).high - rows_.tile(0).low;
      clear_few(row - kMargin);
      clear_few(row + rows_.half - kMargin);
      clear_few(row + (n + 1) / 2);
      clear_few(row + rows_.half + n / 2);
    }
  }

  // The columns that the tile before this one read too are moved to their new place. Returns the first column that is
  // still to be summed.
  [[nodiscard]] std::int64_t carry_over(std::int64_t count, std::int64_t tile_number) const {
    const Tile tile = rows_.tile(tile_number);
    if (rows_.along != Along::pixels || tile_number == job_.first_tile || rows_.kept_rows > 0) return tile.low;
    const Tile before = rows_.tile(tile_number - 1);
    if (before.low > tile.low || tile.low >= before.high || before.high > tile.high) return tile.low;
    const auto bytes = static_cast<std::size_t>((before.high - tile.low) * rows_.pixel) * sizeof(A);
    for (std::int64_t i = 0; i < count; ++i) {
      A* row = sums_ + i * rows_.pitch;
      std::memmove(row, row + (tile.low - before.low) * rows_.pixel, bytes);
    }
    return before.high;
  }

  // `count` rows, of which `unique` differ, from scratch to dx.
  void store_block(std::int64_t count, std::int64_t unique, const Tile& tile, const A* from) const {
    const std::int64_t n = (tile.last - tile.first) * rows_.pixel;
    if (rows_.out_follows && rows_.tile_count() == 1 && count == unique) {
      return export_packed(from, dx_ + out_[0], count * n, rows_.past_cache);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      export_row(rows_, from + source_[i] * n, n, dx_ + out_[i]);
    }
  }

  const Rows<A>& rows_;
  const RowsJob& job_;
  const T* dy_;
  const T* end_;  // of what may be read
  T* dx_;
  A* sums_;
  A* result_;
  A* kept_;  // rows [kept_low_, kept_high_) of the level before the last
  std::int64_t kept_low_ = 0, kept_high_ = 0;
  const T* asked_ = nullptr;  // the end of what has been asked for
  std::int64_t left_ = 0;     // rows from this block on that follow each other
  std::int64_t begun_ = -1;   // the sum whose first terms are added already
  A* begun_at_ = nullptr;     // and where it is
  bool next_is_wanted_ = false;
  // Of each row of a block: where it goes in dx, and which row of scratch it is.
  std::int64_t out_[kMostAtOnce], source_[kMostAtOnce];
  std::int64_t first_[kMostAtOnce];  // where each row of scratch goes first
};

void GradientF32(const Rows<float>& rows, const RowsJob& job) {
  visit(TypeList<float, f16, bf16>{}, job.dtype, [&]<class T>() {
#if HWY_TARGET != HWY_SCALAR
    if (const HalvedPart<T> part(rows, job); part.fits()) return part.run();
    if (rows.twofold) return rows.levels == 1 ? twofold_planes<T>(rows, job) : TwofoldVolumes<T>(rows, job).run();
#endif
    GradientPart<T>(rows, job).run();
  });
}
void GradientF64(const Rows<double>& rows, const RowsJob& job) { GradientPart<double>(rows, job).run(); }

std::int64_t LanesF32() { return lanes(Lanes<float>()); }
std::int64_t LanesF64() { return lanes(Lanes<double>()); }

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(GradientF32);
HWY_EXPORT(GradientF64);
HWY_EXPORT(LanesF32);
HWY_EXPORT(LanesF64);

namespace {

template <class A>
Rows<A> make_rows(const ResampleGradPlan& plan, bool past_cache) {
  const std::int64_t lanes = std::is_same_v<A, double> ? BP_DISPATCH(LanesF64)() : BP_DISPATCH(LanesF32)();
  return {Direction::gradient, plan.dy, plan.dx, plan.axes, kSumBlock, lanes, past_cache};
}

bool adds_nothing(const ResampleGradPlan& plan) { return plan.dx.empty() || plan.dy.empty(); }

}  // namespace

std::string refuse_resample_grad(const ResampleGradPlan& plan) {
  if (adds_nothing(plan)) return {};
  if (std::string reason = refuse_tables(plan.axes); !reason.empty()) return reason;
  return refuse_scratch(plan.dx.dtype == DType::f64 ? make_rows<double>(plan, false).scratch_bytes
                                                    : make_rows<float>(plan, false).scratch_bytes);
}

std::unique_ptr<Kernel> make_resample_grad(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings) {
  const bool past_cache = is_past_cache(stored_bytes({&plan->dy, &plan->dx}));
  return make_resample_grad_rows(std::move(plan), settings, past_cache);
}

std::unique_ptr<Kernel> make_resample_grad_rows(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings,
                                                bool past_cache) {
  // Every element is +0, or there is none.
  if (adds_nothing(*plan)) {
    return PlainKernel<ResampleGradPlan, reference::resample_grad>::make(std::move(plan), settings);
  }
  if (plan->dx.dtype == DType::f64) {
    return std::make_unique<RowsKernel<double>>(plan, plan->dy, plan->dx, settings,
                                                make_rows<double>(*plan, past_cache), BP_DISPATCH(GradientF64));
  }
  return std::make_unique<RowsKernel<float>>(plan, plan->dy, plan->dx, settings, make_rows<float>(*plan, past_cache),
                                             BP_DISPATCH(GradientF32));
}

}  // namespace bp::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// Max pooling on vectors: rows of windows, their winners sought along W and then over the rows of the window.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_forward.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "ops/max_pool/cpu_kernel.h"
#include "ops/max_pool/cpu_rows-inl.h"
#include "ops/max_pool/winners.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class T>
class ForwardRows {
 public:
  using I = PoolLane<T>;

  struct Layout {
    std::size_t taps, bits, tap_block, bit_block, sources, bytes;
    std::int64_t block_lanes;
    typename ReducedRows<T>::Layout reduced{};

    explicit Layout(const PoolForwardSetup& s) {
      ScratchLayout scratch;
      const PoolCut& cut = s.cut;
      block_lanes = cut.rows_in_block * cut.columns * cut.unit + kSlack;
      taps = scratch.reserve(s.row_lanes(), sizeof(I));
      bits = scratch.reserve(s.row_lanes(), sizeof(I));
      tap_block = scratch.reserve(cut.segments * block_lanes, sizeof(I));
      bit_block = scratch.reserve(cut.segments * block_lanes, sizeof(I));
      sources = scratch.reserve(s.g.axes[0].window * s.g.axes[1].window, sizeof(WindowSource<T>));
      reduced = typename ReducedRows<T>::Layout(s, true, scratch);
      bytes = scratch.bytes();
    }
  };

  ForwardRows(const PoolPart<PoolForwardSetup>& part, const Layout& layout)
      : s_(*part.setup),
        layout_(layout),
        y_data_(part.bindings->output<T>(0)),
        stored_(part.bindings->outputs[1]),
        taps_(reinterpret_cast<I*>(part.scratch + layout.taps)),
        bits_(reinterpret_cast<I*>(part.scratch + layout.bits)),
        tap_block_(reinterpret_cast<I*>(part.scratch + layout.tap_block)),
        bit_block_(reinterpret_cast<I*>(part.scratch + layout.bit_block)),
        sources_(reinterpret_cast<WindowSource<T>*>(part.scratch + layout.sources)),
        reduced_(s_, s_.x, part.bindings->input<T>(0), layout.reduced, part.scratch, true) {}

  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const PoolItem item = pool_item(s_.cut, i);
      if (i == first || item.row_block == 0) start(item);
      const std::int64_t row = item.row_block * s_.cut.rows_in_block;
      const std::int64_t rows = std::min(s_.cut.rows_in_block, s_.cut.rows - row);
      for (std::int64_t r = 0; r < rows; ++r) make_row(row + r, r);
      export_block(row, rows);
    }
  }

 private:
  [[nodiscard]] std::int64_t height() const { return s_.g.axes[1].output; }

  void start(const PoolItem& item) {
    const PoolCut& cut = s_.cut;
    n_ = item.n;
    plane_ = item.group * cut.segments;
    planes_ = cut.unit > 1 ? 1 : std::min(cut.segments, s_.g.channels - plane_);
    column_ = item.column_block * cut.columns;
    columns_ = std::min(cut.columns, s_.g.axes[2].output - column_);
    reduced_.start(n_, plane_, planes_, column_);
  }

  void make_row(std::int64_t row, std::int64_t row_in_block) {
    const std::int64_t length = columns_ * s_.cut.unit;
    const std::int64_t od = row / height(), oh = row % height();
    if (planes_ == 1) {
      return find_winners(reduced_, s_.g, od, oh, length, sources_, tap_block_ + row_in_block * length,
                          bit_block_ + row_in_block * length);
    }
    find_winners(reduced_, s_.g, od, oh, (planes_ - 1) * s_.pitch + length, sources_, taps_, bits_);
    const Lanes<I> d;
    for (std::int64_t segment = 0; segment < planes_; ++segment) {
      const std::int64_t from = segment * s_.pitch;
      const std::int64_t to = segment * layout_.block_lanes + row_in_block * length;
      for (std::int64_t i = 0; i < length; i += lanes(d)) {
        hn::StoreU(hn::LoadU(d, taps_ + from + i), d, tap_block_ + to + i);
        hn::StoreU(hn::LoadU(d, bits_ + from + i), d, bit_block_ + to + i);
      }
    }
  }

  // Calls f(data, stride, n, at) for the runs of `tensor` that the block's rows are.
  template <class E, class F>
  void each_output_run(const PoolTensor& tensor, E* data, std::int64_t segment, std::int64_t row, std::int64_t rows,
                       F&& f) const {
    const Dims& s = tensor.view.strides;
    const std::int64_t unit = s_.cut.unit;
    const std::int64_t length = columns_ * unit;
    const auto place = [&](std::int64_t r) {
      return RowPlace{n_, plane_ + segment, r / height(), r % height(), column_, columns_};
    };
    if (rows_follow(tensor.view, columns_, unit)) {
      const RowPlace p = place(row);
      return f(data + p.n * s[0] + p.c * s[1] + p.d * s[2] + p.h * s[3], std::int64_t{1}, rows * length,
               std::int64_t{0});
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      each_run(tensor, data, unit, place(row + r),
               [&](E* to, std::int64_t stride, std::int64_t n, std::int64_t, std::int64_t at) {
                 f(to, stride, n, r * length + at);
               });
    }
  }

  void export_block(std::int64_t row, std::int64_t rows) {
    for (std::int64_t segment = 0; segment < planes_; ++segment) {
      const I* bits = bit_block_ + segment * layout_.block_lanes;
      const I* taps = tap_block_ + segment * layout_.block_lanes;
      each_output_run(s_.y, reinterpret_cast<Bits<T>*>(y_data_), segment, row, rows,
                      [&](Bits<T>* to, std::int64_t stride, std::int64_t n, std::int64_t at) {
                        export_run(bits + at, to, stride, n, s_.past_cache);
                      });
      if (s_.kind == WinnersKind::none) continue;
      visit(IndexTypes{}, s_.winners.view.dtype, [&]<class Index>() {
        each_output_run(s_.winners, static_cast<Index*>(stored_), segment, row, rows,
                        [&](Index* to, std::int64_t stride, std::int64_t n, std::int64_t at) {
                          export_winners(segment, row, taps, to, stride, n, at);
                        });
      });
    }
  }

  // n winners of the block, from lane `at` on.
  template <class Index>
  void export_winners(std::int64_t segment, std::int64_t row, const I* taps, Index* to, std::int64_t stride,
                      std::int64_t n, std::int64_t at) const {
    if constexpr (sizeof(Index) <= sizeof(I)) {
      if (s_.kind == WinnersKind::compact) {
        export_run(taps + at, to, stride, n, s_.past_cache);  // -1, no winner, is all ones in every type
        return;
      }
    }
    const PoolGeometry& g = s_.g;
    const std::int64_t unit = s_.cut.unit;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t tap = taps[at + i];
      const std::int64_t pixel = (at + i) / unit;
      const std::int64_t r = row + pixel / columns_;
      const WindowIndex w{
          n_, plane_ + segment + (at + i) % unit, {r / height(), r % height(), column_ + pixel % columns_}};
      to[i * stride] = tap < 0 ? kNoWinner<Index> : encode<Index>(g, s_.kind, w, g.tap_of_number(tap));
    }
  }

  const PoolForwardSetup& s_;
  const Layout& layout_;
  T* y_data_;
  void* stored_;
  I *taps_, *bits_, *tap_block_, *bit_block_;
  WindowSource<T>* sources_;
  ReducedRows<T> reduced_;
  std::int64_t n_ = 0, plane_ = 0, planes_ = 0, column_ = 0, columns_ = 0;
};

std::size_t RunPoolForward(const PoolPart<PoolForwardSetup>& part) {
  std::size_t bytes = 0;
  visit(MaxPool::Types{}, part.setup->y.view.dtype, [&]<class T>() {
    const typename ForwardRows<T>::Layout layout(*part.setup);
    bytes = layout.bytes;
    if (part.scratch != nullptr) ForwardRows<T>(part, layout).run(part.first, part.last);
  });
  return bytes;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(RunPoolForward);

std::unique_ptr<Kernel> make_max_pool(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings) {
  PoolForwardSetup setup;
  if (!plan->y.empty()) setup = make_setup(*plan);
  return make_pool_kernel(std::move(plan), settings, std::move(setup), BP_DISPATCH(RunPoolForward));
}

}  // namespace bp::cpu
#endif

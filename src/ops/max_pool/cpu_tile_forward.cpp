// SPDX-License-Identifier: Apache-2.0
// Max pooling for windows known to the compiler: rows of winners and values are sought in scratch memory, and stored a
// block at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_tile_forward.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "ops/max_pool/cpu_tile_search-inl.h"
#include "ops/max_pool/winners.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class T, int kWindow, int kStride>
class ForwardTiles {
  using Search = TileSearch<T, kWindow, kStride, true>;
  using Found = typename Search::Found;

 public:
  struct Layout {
    std::size_t taps, values, bytes;
    typename Search::Layout search{};

    explicit Layout(const PoolForwardTiles& t) {
      const std::int64_t block = t.rows_in_block * t.g.axes[2].output * t.unit + kSlack;
      ScratchLayout scratch;
      taps = scratch.reserve(block, 1);
      values = scratch.reserve(block, sizeof(T));
      search = {t, scratch};
      bytes = scratch.bytes();
    }
  };

  ForwardTiles(const PoolPart<PoolForwardTiles>& part, const Layout& layout)
      : t_(*part.setup),
        y_data_(part.bindings->output<T>(0)),
        stored_(part.bindings->outputs[1]),
        search_(t_, t_.x, part.bindings->input<T>(0), layout.search, part.scratch),
        taps_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.taps)),
        values_(reinterpret_cast<T*>(part.scratch + layout.values)) {}

  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const PoolTileItem item = tile_item(t_, i);
      if (i == first || item.row_block == 0) {
        n_ = item.n;
        c_ = item.c;
        od_ = item.group;
        search_.start(n_, c_, od_);
      }
      const std::int64_t row = item.row_block * t_.rows_in_block;
      const std::int64_t end = std::min(row + t_.rows_in_block, t_.rows);
      for (std::int64_t o = row; o < end; o += search_.rows_at_once()) {
        search_.find(o, std::min(search_.rows_at_once(), end - o), [&](std::int64_t r) {
          return Found{taps_ + (o + r - row) * length(), values_ + (o + r - row) * length()};
        });
      }
      each_run(t_.y, row, end, [&](std::int64_t at, std::int64_t n, std::int64_t from, bool streams) {
        export_packed(reinterpret_cast<const Stored<T>*>(values_ + from), reinterpret_cast<Stored<T>*>(y_data_ + at), n,
                      streams);
      });
      if (t_.stored.kind != WinnersKind::none) export_winners(row, end);
    }
  }

 private:
  [[nodiscard]] std::int64_t length() const { return t_.g.axes[2].output * t_.unit; }

  // Calls f(offset, n, from, streams) for the runs of a tensor that rows [row, end) are.
  template <class F>
  void each_run(const PoolTensor& tensor, std::int64_t row, std::int64_t end, F&& f) const {
    const Dims& s = tensor.view.strides;
    const std::int64_t at = n_ * s[0] + c_ * s[1] + od_ * s[2] + row * s[3];
    if (s[3] == length()) return f(at, (end - row) * length(), std::int64_t{0}, t_.past_cache);
    const bool streams = t_.past_cache && is_long_run(length(), size_of(tensor.view.dtype));
    for (std::int64_t o = row; o < end; ++o) f(at + (o - row) * s[3], length(), (o - row) * length(), streams);
  }

  // Calls f(window, tap) for every window of the block.
  template <class F>
  void each_window(std::int64_t row, std::int64_t end, F&& f) const {
    std::int64_t i = 0;
    for (std::int64_t o = row; o < end; ++o) {
      for (std::int64_t w = 0; w < t_.g.axes[2].output; ++w) {
        for (std::int64_t c = 0; c < t_.unit; ++c, ++i) f(WindowIndex{n_, c_ + c, {od_, o, w}}, taps_[i]);
      }
    }
  }

  static std::int64_t offset(const Dims& s, const WindowIndex& w) {
    return w.n * s[0] + w.c * s[1] + w.o[0] * s[2] + w.o[1] * s[3] + w.o[2] * s[4];
  }

  void export_winners(std::int64_t row, std::int64_t end) const {
    const PoolTensor& tensor = t_.stored.tensor;
    const Dims& s = tensor.view.strides;
    visit(IndexTypes{}, tensor.view.dtype, [&]<class Index>() {
      auto* data = static_cast<Index*>(stored_);
      if constexpr (sizeof(Index) == 1) {
        if (t_.stored.kind == WinnersKind::compact && (t_.unit == 1 ? s[4] == 1 : s[1] == 1 && s[4] == t_.unit)) {
          return each_run(tensor, row, end, [&](std::int64_t at, std::int64_t n, std::int64_t from, bool streams) {
            export_packed(taps_ + from, data + at, n, streams);
          });
        }
      }
      each_window(row, end, [&](const WindowIndex& w, std::uint8_t tap) {
        data[offset(s, w)] = encode<Index>(t_.g, t_.stored.kind, w, t_.taps.taps[tap]);
      });
    });
  }

  const PoolForwardTiles& t_;
  T* y_data_;
  void* stored_;
  Search search_;
  std::uint8_t* taps_;
  T* values_;
  std::int64_t n_ = 0, c_ = 0, od_ = 0;
};

std::size_t RunPoolForwardTiles(const PoolPart<PoolForwardTiles>& part) {
  std::size_t bytes = 0;
  visit_tiles(part.setup->shape, part.setup->y.view.dtype, [&]<class T, int kWindow, int kStride>() {
    using Tiles = ForwardTiles<T, kWindow, kStride>;
    const typename Tiles::Layout layout(*part.setup);
    bytes = layout.bytes;
    if (part.scratch != nullptr) Tiles(part, layout).run(part.first, part.last);
  });
  return bytes;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(RunPoolForwardTiles);

std::unique_ptr<Kernel> make_max_pool_tiles(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings) {
  const bool past_cache = is_past_cache(plan->bytes());
  return make_max_pool_tiles(std::move(plan), settings, past_cache);
}
std::unique_ptr<Kernel> make_max_pool_tiles(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings,
                                            bool past_cache) {
  PoolForwardTiles tiles = make_tiles(*plan, past_cache);
  return make_pool_kernel(std::move(plan), settings, std::move(tiles), BP_DISPATCH(RunPoolForwardTiles));
}

}  // namespace bp::cpu
#endif

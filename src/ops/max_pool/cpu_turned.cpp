// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling over narrow planes: in rows of 20 columns a vector of 16 is half empty, and every second
// load crosses a cache line. So 16 planes are turned on their side: scratch memory holds their dy, winners and dx as if
// channels were innermost, in f32, and tiles find every vector full and every load aligned.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_turned.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "backends/cpu/transpose-inl.h"
#include "ops/max_pool/cpu_tiles.h"
#include "ops/max_pool/cpu_winners-inl.h"

#include <array>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

using TurnedLanes = hn::CappedTag<float, kTurnedPlanes>;

// Elements [first, end) of planes of `total` elements.
struct Span {
  std::int64_t first, end, total;
};

// Turns blocks of kSide elements, at least those of the span; the last of a plane overlaps the one before. Planes of
// less are turned one by one. Returns the end of what is turned.
template <int kSide, class Block, class One>
HWY_INLINE std::int64_t in_blocks(const Span& span, const Block& block, const One& one) {
  std::int64_t i = span.first;
  if (kSide > 1 && span.total >= kSide) {
    for (; i < span.end; i += kSide) block(std::min(i, span.total - kSide));
  } else {
    for (; i < span.end; ++i) one(i);
  }
  return std::min(i, span.total);
}

// What the next 16 planes have at the same place, into the second cache: so many streams the processor does not follow.
HWY_INLINE void prefetch_next(const void* p) { __builtin_prefetch(p, 0, 2); }

// Elements of 16 planes, `step` apart, side by side. Returns the end of what is turned.
template <class T>
HWY_NOINLINE std::int64_t turn_in(const T* from, std::int64_t step, const Span& span, float* to) {
  const auto one = [&](std::int64_t i) {
    for (std::int64_t c = 0; c < kTurnedPlanes; ++c) {
      to[i * kTurnedPlanes + c] = static_cast<float>(widen(from[c * step + i]));
    }
  };
#if BP_IS_FIXED
  constexpr int kSide = static_cast<int>(hn::MaxLanes(TurnedLanes()));
  const auto block = [&](std::int64_t i) HWY_ATTR {
    const TurnedLanes d;
    for (std::int64_t c = 0; c < kTurnedPlanes; c += kSide) {
      hn::Vec<TurnedLanes> v[kSide];
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) {
        const T* row = from + (c + k) * step + i;
        v[k] = load(d, row);
        prefetch_next(row + kTurnedPlanes * step);
      }
      transpose_vectors(d, v);
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) hn::Store(v[k], d, to + (i + k) * kTurnedPlanes + c);
    }
  };
  return in_blocks<kSide>(span, block, one);
#else
  return in_blocks<1>(span, one, one);
#endif
}

HWY_NOINLINE std::int64_t turn_in(const std::uint8_t* from, std::int64_t step, const Span& span, std::uint8_t* to) {
  const auto one = [&](std::int64_t i) {
    for (std::int64_t c = 0; c < kTurnedPlanes; ++c) to[i * kTurnedPlanes + c] = from[c * step + i];
  };
#if BP_IS_FIXED
  constexpr int kSide = static_cast<int>(kTurnedPlanes);
  const auto block = [&](std::int64_t i) HWY_ATTR {
    const hn::FixedTag<std::uint8_t, kSide> d;
    hn::Vec<decltype(d)> v[kSide];
#pragma GCC unroll 16
    for (int k = 0; k < kSide; ++k) {
      const std::uint8_t* row = from + k * step + i;
      v[k] = hn::LoadU(d, row);
      prefetch_next(row + kTurnedPlanes * step);
    }
    transpose_vectors(d, v);
#pragma GCC unroll 16
    for (int k = 0; k < kSide; ++k) hn::Store(v[k], d, to + (i + k) * kSide);
  };
  return in_blocks<kSide>(span, block, one);
#else
  return in_blocks<1>(span, one, one);
#endif
}

// And back, whole blocks of the span only, but for the end of a plane. Past the cache, blocks that are whole vectors of
// their own are streamed. Returns the end of what is turned.
template <class T>
HWY_NOINLINE std::int64_t turn_out(const float* from, T* to, std::int64_t step, const Span& span,
                                   [[maybe_unused]] bool past_cache) {
  const auto one = [&](std::int64_t i) {
    for (std::int64_t c = 0; c < kTurnedPlanes; ++c) to[c * step + i] = narrow<T>(from[i * kTurnedPlanes + c]);
  };
#if BP_IS_FIXED
  constexpr int kSide = static_cast<int>(hn::MaxLanes(TurnedLanes()));
  constexpr auto kVector = static_cast<std::uintptr_t>(kSide * sizeof(T));
  const bool streams = past_cache && kVector >= 16 && span.total % kSide == 0 && step % kSide == 0 &&
                       reinterpret_cast<std::uintptr_t>(to) % kVector == 0;
  const auto block = [&](std::int64_t i) HWY_ATTR {
    const TurnedLanes d;
    for (std::int64_t c = 0; c < kTurnedPlanes; c += kSide) {
      hn::Vec<TurnedLanes> v[kSide];
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) v[k] = hn::Load(d, from + (i + k) * kTurnedPlanes + c);
      transpose_vectors(d, v);
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) {
        T* there = to + (c + k) * step + i;
        if constexpr (kVector >= 16) {
          if (streams) {
            stream(d, v[k], there);
            continue;
          }
        }
        store(d, v[k], there);
        __builtin_prefetch(there + kTurnedPlanes * step, 1, 2);
      }
    }
  };
  Span whole = span;
  if (span.end < span.total) whole.end = span.first + (span.end - span.first) / kSide * kSide;
  return in_blocks<kSide>(whole, block, one);
#else
  return in_blocks<1>(span, one, one);
#endif
}

template <class T>
class TurnedPlanes {
 public:
  struct Layout {
    std::int64_t inputs, outputs, plane_bytes;
    std::size_t x, dy, dx, winners, rows, tiles, bytes;

    explicit Layout(const PoolTurned& t) {
      const auto size = [](const Tensor& v) { return v.sizes[2] * v.sizes[3] * v.sizes[4]; };
      inputs = size(t.dx.view);
      outputs = size(t.dy.view);
      plane_bytes = outputs + kSlack;
      const bool recomputes = t.stored.kind == WinnersKind::none;
      ScratchLayout scratch;
      x = scratch.reserve(recomputes ? inputs * kTurnedPlanes : 0, sizeof(float));
      dy = scratch.reserve(outputs * kTurnedPlanes + 2 * t.room, sizeof(float));
      dx = scratch.reserve(inputs * kTurnedPlanes, sizeof(float));
      winners = scratch.reserve(recomputes ? 0 : outputs * kTurnedPlanes + 2 * t.room, 1);
      rows = scratch.reserve(recomputes || t.turns_bytes ? 0 : plane_bytes * kTurnedPlanes, 1);
      tiles = scratch.reserve(static_cast<std::int64_t>(run_tiles({.setup = &t.tiles})), 1);
      bytes = scratch.bytes();
    }
  };

  TurnedPlanes(const PoolPart<PoolTurned>& part, const Layout& layout) : t_(*part.setup), part_(part), layout_(layout) {
    // Rows before and behind a plane are windows without winners.
    std::memset(part.scratch + layout.winners, 0xff, layout.rows - layout.winners);
  }

  void run(std::int64_t item) const {
    const std::int64_t groups = t_.g.channels / kTurnedPlanes;
    Turner turner(*this, item / groups, item % groups * kTurnedPlanes);
    if (!t_.turns_bytes && t_.stored.kind != WinnersKind::none) turn_winners(turner.n, turner.c);
    const std::array<const void*, 3> inputs{at<float>(layout_.x), dy(), winners()};
    const std::array<void*, 1> outputs{at<float>(layout_.dx)};
    const Bindings bindings{.inputs = inputs, .outputs = outputs};
    // Rows are turned just before they are read, and back as soon as they are written, so that they stay in the nearest
    // cache. Volumes, whose planes are visited in another order, are turned as a whole.
    const bool by_rows = t_.dx.view.sizes[2] == 1 && t_.dy.view.sizes[2] == 1;
    if (!by_rows) turner.turn_in_to(layout_.inputs, layout_.outputs);
    run_tiles({&t_.tiles, &bindings, 0, t_.tiles.items(), part_.scratch + layout_.tiles, part_.wrong,
               part_.expects_wrong, by_rows ? &turner : nullptr});
    if (!by_rows) turner.turn_out_to(layout_.inputs);
  }

 private:
  // What is turned of 16 planes.
  class Turner final : public AroundItems {
   public:
    Turner(const TurnedPlanes& planes, std::int64_t sample, std::int64_t channel)
        : n(sample), c(channel), planes_(planes) {}

    void before(std::int64_t windows_end) override {
      const PoolTurned& t = planes_.t_;
      const PoolAxis &h = t.g.axes[1], &w = t.g.axes[2];
      // As many rows of windows as a tile has may be sought beyond those that are asked for.
      const std::int64_t sought = windows_end + (tile_height(h.stride) + h.window) * h.dilation;
      turn_in_to(std::min(sought, h.input) * w.input, std::clamp<std::int64_t>(windows_end, 0, h.output) * w.output);
    }
    void after(std::int64_t end_row) override { turn_out_to(end_row * planes_.t_.g.axes[2].input); }

    void turn_in_to(std::int64_t x_end, std::int64_t dy_end) {
      const PoolTurned& t = planes_.t_;
      const Layout& layout = planes_.layout_;
      const Bindings& bound = *planes_.part_.bindings;
      if (t.stored.kind == WinnersKind::none) {
        x_ = turn_in(bound.input<T>(0) + plane(t.x), t.x.view.strides[1], {x_, std::max(x_, x_end), layout.inputs},
                     planes_.template at<float>(layout.x));
      }
      if (t.turns_bytes) {
        const PoolTensor& stored = t.stored.tensor;
        winners_ = turn_in(bound.input<std::uint8_t>(2) + plane(stored), stored.view.strides[1],
                           {winners_, std::max(winners_, dy_end), layout.outputs}, planes_.winners());
      }
      dy_ = turn_in(bound.input<T>(1) + plane(t.dy), t.dy.view.strides[1], {dy_, std::max(dy_, dy_end), layout.outputs},
                    planes_.dy());
    }
    void turn_out_to(std::int64_t dx_end) {
      const PoolTurned& t = planes_.t_;
      dx_ = turn_out(planes_.template at<float>(planes_.layout_.dx),
                     planes_.part_.bindings->template output<T>(0) + plane(t.dx), t.dx.view.strides[1],
                     {dx_, dx_end, planes_.layout_.inputs}, t.past_cache);
    }

    const std::int64_t n, c;

   private:
    [[nodiscard]] std::int64_t plane(const PoolTensor& tensor) const {
      return n * tensor.view.strides[0] + c * tensor.view.strides[1];
    }

    const TurnedPlanes& planes_;
    std::int64_t x_ = 0, dy_ = 0, winners_ = 0, dx_ = 0;  // elements that are turned
  };

  template <class U>
  [[nodiscard]] U* at(std::size_t offset) const {
    return reinterpret_cast<U*>(part_.scratch + offset);
  }

  [[nodiscard]] float* dy() const { return at<float>(layout_.dy) + t_.room; }
  [[nodiscard]] std::uint8_t* winners() const { return at<std::uint8_t>(layout_.winners) + t_.room; }

  // Winners of another form or order, as bytes first.
  void turn_winners(std::int64_t n, std::int64_t c) const {
    const StoredWinners<std::uint8_t> stored(t_.g, t_.taps, t_.stored, 1, part_.bindings->inputs[2], part_.wrong);
    const Dims& sizes = t_.dy.view.sizes;
    for (std::int64_t k = 0; k < kTurnedPlanes; ++k) {
      std::uint8_t* to = at<std::uint8_t>(layout_.rows) + k * layout_.plane_bytes;
      for (std::int64_t d = 0; d < sizes[2]; ++d) {
        for (std::int64_t h = 0; h < sizes[3]; ++h, to += sizes[4]) stored.read({n, c + k, d, h, 0, sizes[4]}, to);
      }
    }
    turn_in(at<std::uint8_t>(layout_.rows), layout_.plane_bytes, {0, layout_.outputs, layout_.outputs}, winners());
  }

  const PoolTurned& t_;
  const PoolPart<PoolTurned>& part_;
  const Layout& layout_;
};

std::size_t RunPoolTurned(const PoolPart<PoolTurned>& part) {
  std::size_t bytes = 0;
  visit(TypeList<float, f16, bf16>{}, part.setup->dx.view.dtype, [&]<class T>() {
    const typename TurnedPlanes<T>::Layout layout(*part.setup);
    bytes = layout.bytes;
    if (part.scratch == nullptr) return;
    const TurnedPlanes<T> planes(part, layout);
    for (std::int64_t item = part.first; item < part.last; ++item) planes.run(item);
  });
  return bytes;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(RunPoolTurned);

std::unique_ptr<Kernel> make_max_pool_grad_turned(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                  const Settings& settings) {
  const bool past_cache = is_past_cache(plan->bytes());
  return make_max_pool_grad_turned(std::move(plan), settings, past_cache);
}
std::unique_ptr<Kernel> make_max_pool_grad_turned(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings,
                                                  bool past_cache) {
  PoolTurned turned = make_turned(*plan, past_cache);
  return make_pool_kernel(std::move(plan), settings, std::move(turned), BP_DISPATCH(RunPoolTurned));
}

}  // namespace bp::cpu
#endif

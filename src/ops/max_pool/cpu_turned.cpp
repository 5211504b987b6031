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

// Blocks of kSide elements of a plane, the last of which overlaps the one before; planes of less are too small.
template <int kSide, class F>
HWY_INLINE bool in_blocks(std::int64_t n, const F& f) {
  if (n < kSide) return false;
  for (std::int64_t i = 0; i < n; i += kSide) f(std::min(i, n - kSide));
  return true;
}

// n elements of 16 planes, `step` apart, side by side.
template <class T>
HWY_NOINLINE void turn_in(const T* from, std::int64_t step, std::int64_t n, float* to) {
#if BP_IS_FIXED
  constexpr int kSide = static_cast<int>(hn::MaxLanes(TurnedLanes()));
  const bool done = in_blocks<kSide>(n, [&](std::int64_t i) HWY_ATTR {
    const TurnedLanes d;
    for (std::int64_t c = 0; c < kTurnedPlanes; c += kSide) {
      hn::Vec<TurnedLanes> v[kSide];
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) v[k] = load(d, from + (c + k) * step + i);
      transpose_vectors(d, v);
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) hn::Store(v[k], d, to + (i + k) * kTurnedPlanes + c);
    }
  });
  if (done) return;
#endif
  for (std::int64_t c = 0; c < kTurnedPlanes; ++c) {
    for (std::int64_t i = 0; i < n; ++i) to[i * kTurnedPlanes + c] = static_cast<float>(widen(from[c * step + i]));
  }
}

HWY_NOINLINE void turn_in(const std::uint8_t* from, std::int64_t step, std::int64_t n, std::uint8_t* to) {
#if BP_IS_FIXED
  constexpr int kSide = static_cast<int>(kTurnedPlanes);
  const bool done = in_blocks<kSide>(n, [&](std::int64_t i) HWY_ATTR {
    const hn::FixedTag<std::uint8_t, kSide> d;
    hn::Vec<decltype(d)> v[kSide];
#pragma GCC unroll 16
    for (int k = 0; k < kSide; ++k) v[k] = hn::LoadU(d, from + k * step + i);
    transpose_vectors(d, v);
#pragma GCC unroll 16
    for (int k = 0; k < kSide; ++k) hn::Store(v[k], d, to + (i + k) * kSide);
  });
  if (done) return;
#endif
  for (std::int64_t c = 0; c < kTurnedPlanes; ++c) {
    for (std::int64_t i = 0; i < n; ++i) to[i * kTurnedPlanes + c] = from[c * step + i];
  }
}

// And back. Past the cache, blocks that are whole vectors of their own are streamed.
template <class T>
HWY_NOINLINE void turn_out(const float* from, T* to, std::int64_t step, std::int64_t n,
                           [[maybe_unused]] bool past_cache) {
#if BP_IS_FIXED
  constexpr int kSide = static_cast<int>(hn::MaxLanes(TurnedLanes()));
  constexpr auto kVector = static_cast<std::uintptr_t>(kSide * sizeof(T));
  const bool streams = past_cache && kVector >= 16 && n % kSide == 0 && step % kSide == 0 &&
                       reinterpret_cast<std::uintptr_t>(to) % kVector == 0;
  const bool done = in_blocks<kSide>(n, [&](std::int64_t i) HWY_ATTR {
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
      }
    }
  });
  if (done) return;
#endif
  for (std::int64_t c = 0; c < kTurnedPlanes; ++c) {
    for (std::int64_t i = 0; i < n; ++i) to[c * step + i] = narrow<T>(from[i * kTurnedPlanes + c]);
  }
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
    const std::int64_t n = item / groups, c = item % groups * kTurnedPlanes;
    const Bindings& bound = *part_.bindings;
    const auto plane = [&](const PoolTensor& tensor) {
      return n * tensor.view.strides[0] + c * tensor.view.strides[1];
    };
    const auto step = [](const PoolTensor& tensor) { return tensor.view.strides[1]; };
    if (t_.stored.kind == WinnersKind::none) {
      turn_in(bound.input<T>(0) + plane(t_.x), step(t_.x), layout_.inputs, at<float>(layout_.x));
    } else if (t_.turns_bytes) {
      const PoolTensor& stored = t_.stored.tensor;
      turn_in(bound.input<std::uint8_t>(2) + plane(stored), step(stored), layout_.outputs, winners());
    } else {
      turn_winners(n, c);
    }
    turn_in(bound.input<T>(1) + plane(t_.dy), step(t_.dy), layout_.outputs, dy());
    const std::array<const void*, 3> inputs{at<float>(layout_.x), dy(), winners()};
    const std::array<void*, 1> outputs{at<float>(layout_.dx)};
    const Bindings bindings{.inputs = inputs, .outputs = outputs};
    run_tiles(
        {&t_.tiles, &bindings, 0, t_.tiles.items(), part_.scratch + layout_.tiles, part_.wrong, part_.expects_wrong});
    turn_out(at<float>(layout_.dx), bound.output<T>(0) + plane(t_.dx), step(t_.dx), layout_.inputs, t_.past_cache);
  }

 private:
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
    turn_in(at<std::uint8_t>(layout_.rows), layout_.plane_bytes, layout_.outputs, winners());
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
  PoolTurned turned = make_turned(*plan);
  return make_pool_kernel(std::move(plan), settings, std::move(turned), BP_DISPATCH(RunPoolTurned));
}

}  // namespace bp::cpu
#endif

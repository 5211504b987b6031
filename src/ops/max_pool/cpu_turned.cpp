// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling over narrow planes: in rows of 20 columns a vector of 16 is half empty, and every second
// load crosses a cache line. So 16 planes are turned on their side: scratch memory holds their dy, winners and dx as if
// channels were innermost, and tiles find every vector full and every load aligned: in f32, where they read an element
// several times, and as they are, where each is read once.
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

using TurnedLanes = hn::CappedTag<float, kTurnedBlock>;

// Elements [first, end) of planes of `total` elements.
struct Span {
  std::int64_t first, end, total;
};

// Turns blocks of kElements elements, at least those of the span; the last of a plane overlaps the one before. Planes
// of less are turned one by one. Returns the end of what is turned.
template <int kElements, class Block, class One>
HWY_INLINE std::int64_t in_blocks(const Span& span, const Block& block, const One& one) {
  std::int64_t i = span.first;
  if (kElements > 1 && span.total >= kElements) {
    for (; i < span.end; i += kElements) block(std::min(i, span.total - kElements));
  } else {
    for (; i < span.end; ++i) one(i);
  }
  return std::min(i, span.total);
}

// What the next 16 planes have at the same place, into the second cache: so many streams the processor does not follow.
HWY_INLINE void prefetch_next(const void* p) { __builtin_prefetch(p, 0, 2); }

#if HWY_TARGET == HWY_AVX3

// 16 vectors of 128 bits, as four of 512: lane j of the vector k is that of row 4 j + k.
template <class T>
HWY_INLINE void load_lanes(const T* from, std::int64_t step, __m512i (&v)[4]) {
  const auto lane = [&](int row)
                        HWY_ATTR { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * step)); };
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    v[k] = _mm512_castsi128_si512(lane(k));
    v[k] = _mm512_inserti32x4(v[k], lane(4 + k), 1);
    v[k] = _mm512_inserti32x4(v[k], lane(8 + k), 2);
    v[k] = _mm512_inserti32x4(v[k], lane(12 + k), 3);
  }
}

// In each 128 bits: of four vectors a, b, c, d all of a[0] b[0] c[0] d[0] a[1] ...
template <class T>
HWY_INLINE void interleave_four(__m512i (&v)[4]) {
  const auto pairs = [](auto d, auto twice, __m512i(&v)[4]) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    using W = hn::Vec<decltype(twice)>;
    const W ab_lower{hn::InterleaveLower(d, V{v[0]}, V{v[1]}).raw},
        ab_upper{hn::InterleaveUpper(d, V{v[0]}, V{v[1]}).raw};
    const W cd_lower{hn::InterleaveLower(d, V{v[2]}, V{v[3]}).raw},
        cd_upper{hn::InterleaveUpper(d, V{v[2]}, V{v[3]}).raw};
    v[0] = hn::InterleaveLower(twice, ab_lower, cd_lower).raw;
    v[1] = hn::InterleaveUpper(twice, ab_lower, cd_lower).raw;
    v[2] = hn::InterleaveLower(twice, ab_upper, cd_upper).raw;
    v[3] = hn::InterleaveUpper(twice, ab_upper, cd_upper).raw;
  };
  if constexpr (sizeof(T) == 1) {
    pairs(hn::FixedTag<std::uint8_t, 64>(), hn::FixedTag<std::uint16_t, 32>(), v);
  } else if constexpr (sizeof(T) == 2) {
    pairs(hn::FixedTag<std::uint16_t, 32>(), hn::FixedTag<std::uint32_t, 16>(), v);
  } else {
    pairs(hn::FixedTag<std::uint32_t, 16>(), hn::FixedTag<std::uint64_t, 8>(), v);
  }
}

// 16 rows of 16 elements, `from_step` apart, become columns of as many, `to_step` apart. put(column or several that are
// side by side, where).
template <class T, class Put>
HWY_INLINE void turn_block(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, const Put& put) {
  constexpr int kInLane = 16 / sizeof(T);  // elements of 128 bits
#pragma GCC unroll 4
  for (int first = 0; first < kTurnedBlock; first += kInLane) {
    __m512i v[4];
    load_lanes(from + first, from_step, v);
    interleave_four<T>(v);  // four rows of a column side by side; in each lane as many columns as there is room for
    T* at = to + first * to_step;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      if constexpr (sizeof(T) == 4) {
        put(v[k], at + k * to_step);
      } else if constexpr (sizeof(T) == 2) {
        const __m512i columns = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), v[k]);
        if (to_step == kTurnedBlock) {
          put(columns, at + 2 * k * to_step);
        } else {
          put(_mm512_castsi512_si256(columns), at + 2 * k * to_step);
          put(_mm512_extracti64x4_epi64(columns, 1), at + (2 * k + 1) * to_step);
        }
      } else {
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        const __m512i columns = _mm512_permutexvar_epi32(order, v[k]);
        if (to_step == kTurnedBlock) {
          put(columns, at + 4 * k * to_step);
        } else {
          put(_mm512_castsi512_si128(columns), at + 4 * k * to_step);
          put(_mm512_extracti32x4_epi32(columns, 1), at + (4 * k + 1) * to_step);
          put(_mm512_extracti32x4_epi32(columns, 2), at + (4 * k + 2) * to_step);
          put(_mm512_extracti32x4_epi32(columns, 3), at + (4 * k + 3) * to_step);
        }
      }
    }
  }
}

HWY_INLINE void put_ordinary(__m512i v, void* to) { _mm512_storeu_si512(to, v); }
HWY_INLINE void put_ordinary(__m128i v, void* to) { _mm_storeu_si128(static_cast<__m128i*>(to), v); }
HWY_INLINE void put_ordinary(__m256i v, void* to) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
HWY_INLINE void put_streamed(__m512i v, void* to) { _mm512_stream_si512(static_cast<__m512i*>(to), v); }
HWY_INLINE void put_streamed(__m256i v, void* to) { _mm256_stream_si256(static_cast<__m256i*>(to), v); }

#endif

#if BP_IS_FIXED

// The vectors that a block is turned in: its side is as many elements as they have lanes.
template <class U>
using Turned = std::conditional_t<sizeof(U) == 1, hn::FixedTag<std::uint8_t, kTurnedBlock>, TurnedLanes>;
template <class U>
inline constexpr int kSide = static_cast<int>(hn::MaxLanes(Turned<U>()));

// A block of 16 of the planes that are turned together.
template <class T, class U>
HWY_INLINE void block_in(const T* from, std::int64_t step, U* to, std::int64_t planes) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, U>) {
#pragma GCC unroll 16
    for (int c = 0; c < kTurnedBlock; ++c) prefetch_next(from + (planes + c) * step);
    turn_block(from, step, to, planes, [](auto v, T* there) HWY_ATTR { put_ordinary(v, there); });
  } else
#endif
  {
    const Turned<U> d;
    for (std::int64_t c = 0; c < kTurnedBlock; c += kSide<U>) {
      hn::Vec<Turned<U>> v[kSide<U>];
#pragma GCC unroll 16
      for (int k = 0; k < kSide<U>; ++k) {
        const T* row = from + (c + k) * step;
        v[k] = load(d, row);
        prefetch_next(row + planes * step);
      }
      transpose_vectors(d, v);
#pragma GCC unroll 16
      for (int k = 0; k < kSide<U>; ++k) hn::Store(v[k], d, to + k * planes + c);
    }
  }
}

template <class T, class U>
HWY_INLINE void block_out(const U* from, T* to, std::int64_t step, std::int64_t planes, bool streams) {
  const auto next = [=](T* there) { __builtin_prefetch(there + planes * step, 1, 2); };
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, U>) {
    if (streams) {
      turn_block(from, planes, to, step, [](auto v, T* there) HWY_ATTR { put_streamed(v, there); });
    } else {
      turn_block(from, planes, to, step, [&](auto v, T* there) HWY_ATTR {
        put_ordinary(v, there);
        next(there);
      });
    }
  } else
#endif
  {
    const TurnedLanes d;
    for (std::int64_t c = 0; c < kTurnedBlock; c += kSide<U>) {
      hn::Vec<TurnedLanes> v[kSide<U>];
#pragma GCC unroll 16
      for (int k = 0; k < kSide<U>; ++k) v[k] = hn::Load(d, from + k * planes + c);
      transpose_vectors(d, v);
#pragma GCC unroll 16
      for (int k = 0; k < kSide<U>; ++k) {
        T* there = to + (c + k) * step;
        store_or_stream(d, v[k], there, streams);
        if (!streams) next(there);
      }
    }
  }
}

#endif

// Elements of so many planes, `step` apart, side by side, as they are or widened. Returns the end of what is turned.
template <class T, class U>
HWY_NOINLINE std::int64_t turn_in(const T* from, std::int64_t step, std::int64_t planes, const Span& span, U* to) {
  const auto one = [&](std::int64_t i) {
    for (std::int64_t c = 0; c < planes; ++c) {
      if constexpr (std::is_same_v<T, U>) {
        to[i * planes + c] = from[c * step + i];
      } else {
        to[i * planes + c] = static_cast<U>(widen(from[c * step + i]));
      }
    }
  };
#if BP_IS_FIXED
  const auto block = [&](std::int64_t i) HWY_ATTR {
    for (std::int64_t c = 0; c < planes; c += kTurnedBlock)
      block_in(from + c * step + i, step, to + i * planes + c, planes);
  };
  return in_blocks<kSide<U>>(span, block, one);
#else
  return in_blocks<1>(span, one, one);
#endif
}

// And back, whole blocks of the span only, but for the end of a plane. Past the cache, blocks whose vectors are whole
// lines of their own are streamed. Returns the end of what is turned.
template <class T, class U>
HWY_NOINLINE std::int64_t turn_out(const U* from, T* to, std::int64_t step, std::int64_t planes, const Span& span,
                                   [[maybe_unused]] bool past_cache) {
  const auto one = [&](std::int64_t i) {
    for (std::int64_t c = 0; c < planes; ++c) {
      if constexpr (std::is_same_v<T, U>) {
        to[c * step + i] = from[i * planes + c];
      } else {
        to[c * step + i] = narrow<T>(from[i * planes + c]);
      }
    }
  };
#if BP_IS_FIXED
  constexpr auto kVector = static_cast<std::uintptr_t>(kSide<U> * sizeof(T));
  const bool streams = past_cache && kVector >= 64 && span.total % kSide<U> == 0 && step % kSide<U> == 0 &&
                       reinterpret_cast<std::uintptr_t>(to) % kVector == 0;
  Span whole = span;
  if (span.end < span.total) whole.end = span.first + (span.end - span.first) / kSide<U> * kSide<U>;
  const auto block = [&](std::int64_t i) HWY_ATTR {
    for (std::int64_t c = 0; c < planes; c += kTurnedBlock)
      block_out(from + i * planes + c, to + c * step + i, step, planes, streams);
  };
  return in_blocks<kSide<U>>(whole, block, one);
#else
  return in_blocks<1>(span, one, one);
#endif
}

// U: the elements in scratch memory.
template <class T, class U>
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
      const std::int64_t planes = t.planes;
      x = scratch.reserve(recomputes ? inputs * planes : 0, sizeof(U));
      dy = scratch.reserve(outputs * planes + 2 * t.room, sizeof(U));
      dx = scratch.reserve(inputs * planes, sizeof(U));
      winners = scratch.reserve(recomputes ? 0 : outputs * planes + 2 * t.room, 1);
      rows = scratch.reserve(recomputes || t.turns_bytes ? 0 : plane_bytes * planes, 1);
      tiles = scratch.reserve(static_cast<std::int64_t>(run_tiles({.setup = &t.tiles})), 1);
      bytes = scratch.bytes();
    }
  };

  TurnedPlanes(const PoolPart<PoolTurned>& part, const Layout& layout) : t_(*part.setup), part_(part), layout_(layout) {
    // Rows before and behind a plane are windows without winners.
    std::memset(part.scratch + layout.winners, 0xff, layout.rows - layout.winners);
  }

  void run(std::int64_t item) const {
    const std::int64_t groups = t_.g.channels / t_.planes;
    Turner turner(*this, item / groups, item % groups * t_.planes);
    if (!t_.turns_bytes && t_.stored.kind != WinnersKind::none) turn_winners(turner.n, turner.c);
    const std::array<const void*, 3> inputs{at<U>(layout_.x), dy(), winners()};
    const std::array<void*, 1> outputs{at<U>(layout_.dx)};
    const Bindings bindings{.inputs = inputs, .outputs = outputs};
    // Rows are turned just before they are read, and back as soon as they are written, so that they stay in the nearest
    // cache. Volumes, whose planes are visited in another order, are turned as a whole, and so are planes that are
    // not walked all at once.
    const bool by_rows = t_.dx.view.sizes[2] == 1 && t_.dy.view.sizes[2] == 1 && t_.tiles.planes == 1;
    if (!by_rows) turner.turn_in_to(layout_.inputs, layout_.outputs);
    run_tiles({&t_.tiles, &bindings, 0, t_.tiles.items(), part_.scratch + layout_.tiles, part_.wrong,
               part_.expects_wrong, by_rows ? &turner : nullptr});
    if (!by_rows) turner.turn_out_to(layout_.inputs);
  }

 private:
  // What is turned of the planes of an item.
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
        x_ = turn_in(bound.input<T>(0) + plane(t.x), t.x.view.strides[1], t.planes,
                     {x_, std::max(x_, x_end), layout.inputs}, planes_.template at<U>(layout.x));
      }
      if (t.turns_bytes) {
        const PoolTensor& stored = t.stored.tensor;
        winners_ = turn_in(bound.input<std::uint8_t>(2) + plane(stored), stored.view.strides[1], t.planes,
                           {winners_, std::max(winners_, dy_end), layout.outputs}, planes_.winners());
      }
      dy_ = turn_in(bound.input<T>(1) + plane(t.dy), t.dy.view.strides[1], t.planes,
                    {dy_, std::max(dy_, dy_end), layout.outputs}, planes_.dy());
    }
    void turn_out_to(std::int64_t dx_end) {
      const PoolTurned& t = planes_.t_;
      dx_ = turn_out(planes_.template at<U>(planes_.layout_.dx),
                     planes_.part_.bindings->template output<T>(0) + plane(t.dx), t.dx.view.strides[1], t.planes,
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

  template <class E>
  [[nodiscard]] E* at(std::size_t offset) const {
    return reinterpret_cast<E*>(part_.scratch + offset);
  }

  [[nodiscard]] U* dy() const { return at<U>(layout_.dy) + t_.room; }
  [[nodiscard]] std::uint8_t* winners() const { return at<std::uint8_t>(layout_.winners) + t_.room; }

  // Winners of another form or order, as bytes first.
  void turn_winners(std::int64_t n, std::int64_t c) const {
    const StoredWinners<std::uint8_t> stored(t_.g, t_.taps, t_.stored, 1, part_.bindings->inputs[2], part_.wrong);
    const Dims& sizes = t_.dy.view.sizes;
    for (std::int64_t k = 0; k < t_.planes; ++k) {
      std::uint8_t* to = at<std::uint8_t>(layout_.rows) + k * layout_.plane_bytes;
      for (std::int64_t d = 0; d < sizes[2]; ++d) {
        for (std::int64_t h = 0; h < sizes[3]; ++h, to += sizes[4]) stored.read({n, c + k, d, h, 0, sizes[4]}, to);
      }
    }
    turn_in(at<std::uint8_t>(layout_.rows), layout_.plane_bytes, t_.planes, {0, layout_.outputs, layout_.outputs},
            winners());
  }

  const PoolTurned& t_;
  const PoolPart<PoolTurned>& part_;
  const Layout& layout_;
};

template <class T, class U>
std::size_t RunTurned(const PoolPart<PoolTurned>& part) {
  const typename TurnedPlanes<T, U>::Layout layout(*part.setup);
  if (part.scratch != nullptr) {
    const TurnedPlanes<T, U> planes(part, layout);
    for (std::int64_t item = part.first; item < part.last; ++item) planes.run(item);
  }
  return layout.bytes;
}

std::size_t RunPoolTurned(const PoolPart<PoolTurned>& part) {
  std::size_t bytes = 0;
  visit(TypeList<float, f16, bf16>{}, part.setup->dx.view.dtype, [&]<class T>() {
#if HWY_TARGET == HWY_AVX3
    if (part.setup->tiles.dx.view.dtype == part.setup->dx.view.dtype) {
      bytes = RunTurned<T, T>(part);
      return;
    }
#endif
    bytes = RunTurned<T, float>(part);
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

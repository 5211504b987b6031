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

#if HWY_TARGET == HWY_AVX3

// 16 bytes of each of some rows, `step` bytes apart, as the lanes of 128 bits of a vector.
HWY_INLINE __m128i load_lane(const char* row) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row)); }
HWY_INLINE auto load_lanes(hn::FixedTag<std::uint8_t, 32> /*d*/, const char* row, std::int64_t step) {
  return hn::Vec256<std::uint8_t>{
      _mm256_inserti128_si256(_mm256_castsi128_si256(load_lane(row)), load_lane(row + step), 1)};
}
HWY_INLINE auto load_lanes(hn::FixedTag<std::uint8_t, 64> /*d*/, const char* row, std::int64_t step) {
  __m512i v = _mm512_castsi128_si512(load_lane(row));
  v = _mm512_inserti32x4(v, load_lane(row + step), 1);
  v = _mm512_inserti32x4(v, load_lane(row + 2 * step), 2);
  return hn::Vec512<std::uint8_t>{_mm512_inserti32x4(v, load_lane(row + 3 * step), 3)};
}

// In each 128 bits, of lanes of T: vectors of rows become vectors of columns, those of column k in place
// reversed<kRows>(k), if there are as many columns as rows. If there are twice as many, two stand side by side.
template <class T, int kRows, class D>
HWY_INLINE void turn_lanes(D d, hn::Vec<D> (&v)[kRows]) {
  const auto pairs = [&](auto wider) HWY_ATTR {
    hn::Vec<D> w[kRows];
#pragma GCC unroll 8
    for (int k = 0; k < kRows / 2; ++k) {
      const auto a = hn::BitCast(wider, v[2 * k]), b = hn::BitCast(wider, v[2 * k + 1]);
      w[k] = hn::BitCast(d, hn::InterleaveLower(wider, a, b));
      w[kRows / 2 + k] = hn::BitCast(d, hn::InterleaveUpper(wider, a, b));
    }
#pragma GCC unroll 8
    for (int k = 0; k < kRows; ++k) v[k] = w[k];
  };
  if constexpr (sizeof(T) == 1) pairs(d);
  if constexpr (sizeof(T) <= 2) pairs(hn::Repartition<std::uint16_t, D>());
  pairs(hn::Repartition<std::uint32_t, D>());
  if constexpr (sizeof(T) >= 2) pairs(hn::Repartition<std::uint64_t, D>());
}
// k with its bits in the other order: by a table, which is nothing once the loop around it is unrolled.
template <int kRows>
constexpr int reversed(int k) {
  constexpr int kOfFour[] = {0, 2, 1, 3}, kOfEight[] = {0, 4, 2, 6, 1, 5, 3, 7};
  return kRows == 4 ? kOfFour[k % 4] : kOfEight[k];
}

// Rows of 16 bytes, `from_step` elements apart, become columns of kRows elements, `to_step` apart. put(column or two
// that are side by side, where).
template <class T, int kRows, class Put>
HWY_INLINE void turn_block(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, const Put& put) {
  constexpr int kInLane = sizeof(T) == 4 ? 4 : 8;  // rows that meet in 128 bits
  const hn::FixedTag<std::uint8_t, kRows / kInLane * 16> d;
  const auto step = from_step * static_cast<std::int64_t>(sizeof(T));
  hn::Vec<decltype(d)> v[kInLane];
  // One address after the other: left to itself, gcc prepares more of them than it has registers for.
  auto row = reinterpret_cast<const char*>(from);
#pragma GCC unroll 8
  for (int k = 0; k < kInLane; ++k, row += step) {
    __asm__("" : "+r"(row));
    v[k] = load_lanes(d, row, kInLane * step);
  }
  turn_lanes<T>(d, v);
#pragma GCC unroll 8
  for (int k = 0; k < kInLane; ++k) {
    const auto columns = v[reversed<kInLane>(k)].raw;
    if constexpr (sizeof(T) > 1) {
      put(columns, to);
      to += to_step;
    } else if constexpr (kRows == 32) {
      put(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), columns), to);
      to += 2 * to_step;
    } else {
      put(_mm256_permute4x64_epi64(columns, 0xd8), to);
      to += 2 * to_step;
    }
    __asm__("" : "+r"(to));
  }
}

HWY_INLINE void put_ordinary(__m512i v, void* to) { _mm512_storeu_si512(to, v); }
HWY_INLINE void put_ordinary(__m256i v, void* to) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
HWY_INLINE void put_streamed(__m512i v, void* to) { _mm512_stream_si512(static_cast<__m512i*>(to), v); }

#endif

#if BP_IS_FIXED

// The vectors that a block is turned in: its side is as many elements as they have lanes.
template <class U>
using Turned = std::conditional_t<sizeof(U) == 1, hn::FixedTag<std::uint8_t, kTurnedBlock>, TurnedLanes>;

// Elements of each plane that a block has on the way in, and on the way out.
template <class T, class U>
inline constexpr int kElementsIn =
    HWY_TARGET == HWY_AVX3 && std::is_same_v<T, U> ? 16 / sizeof(T) : static_cast<int>(hn::MaxLanes(Turned<U>()));
template <class T, class U>
inline constexpr int kElementsOut =
    HWY_TARGET == HWY_AVX3 && std::is_same_v<T, U> ? 64 / sizeof(T) : static_cast<int>(hn::MaxLanes(Turned<U>()));

// Some elements of all planes that are turned together.
template <class T, class U>
HWY_INLINE void block_in(const T* from, std::int64_t step, U* to, std::int64_t planes) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, U>) {
    const auto put = [](auto v, T* there) HWY_ATTR { put_ordinary(v, there); };
    if constexpr (sizeof(T) == 1) {
      if (planes == kTurnedBlock) return turn_block<T, kTurnedBlock>(from, step, to, planes, put);
    }
    if constexpr (sizeof(T) == 4) {
      for (std::int64_t c = 0; c < planes; c += kTurnedBlock) {
        turn_block<T, kTurnedBlock>(from + c * step, step, to + c, planes, put);
      }
    } else {
      turn_block<T, 2 * kTurnedBlock>(from, step, to, planes, put);
    }
  } else
#endif
  {
    constexpr int kSide = kElementsIn<T, U>;
    const Turned<U> d;
    for (std::int64_t c = 0; c < planes; c += kSide) {
      hn::Vec<Turned<U>> v[kSide];
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) v[k] = load(d, from + (c + k) * step);
      transpose_vectors(d, v);
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) hn::Store(v[k], d, to + k * planes + c);
    }
  }
}

template <class T, class U>
HWY_INLINE void block_out(const U* from, T* to, std::int64_t step, std::int64_t planes, bool streams) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, U>) {
    constexpr int kSome = 16 / sizeof(T);
    for (std::int64_t c = 0; c < planes; c += kSome) {
      T* there = to + c * step;
      if (streams) {
        turn_block<T, 64 / sizeof(T)>(from + c, planes, there, step,
                                      [](auto v, T* at) HWY_ATTR { put_streamed(v, at); });
      } else {
        turn_block<T, 64 / sizeof(T)>(from + c, planes, there, step,
                                      [](auto v, T* at) HWY_ATTR { put_ordinary(v, at); });
      }
    }
  } else
#endif
  {
    constexpr int kSide = kElementsOut<T, U>;
    const TurnedLanes d;
    for (std::int64_t c = 0; c < planes; c += kSide) {
      hn::Vec<TurnedLanes> v[kSide];
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) v[k] = hn::Load(d, from + k * planes + c);
      transpose_vectors(d, v);
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) store_or_stream(d, v[k], to + (c + k) * step, streams);
    }
  }
}

#endif

// As much of the next planes as has been turned of these, elements [first, end), into the second cache: so many streams
// the processor does not follow by itself.
template <int kWrite, class T>
HWY_INLINE void prefetch_next(const T* from, std::int64_t step, std::int64_t planes, std::int64_t first,
                              std::int64_t end) {
  const T* next = from + planes * step;
  const auto at = [&](std::int64_t i) { return reinterpret_cast<const char*>(next + i * planes); };
  for (const char *p = at(first), *last = at(end); p < last; p += 64) __builtin_prefetch(p, kWrite, 2);
}

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
  const auto block = [&](std::int64_t i) HWY_ATTR { block_in(from + i, step, to + i * planes, planes); };
  const std::int64_t end = in_blocks<kElementsIn<T, U>>(span, block, one);
#else
  const std::int64_t end = in_blocks<1>(span, one, one);
#endif
  prefetch_next<0>(from, step, planes, span.first, end);
  return end;
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
  constexpr int kElements = kElementsOut<T, U>;
  constexpr auto kVector = static_cast<std::uintptr_t>(kElements * sizeof(T));
  const bool streams = past_cache && kVector >= 64 && span.total % kElements == 0 && step % kElements == 0 &&
                       reinterpret_cast<std::uintptr_t>(to) % kVector == 0;
  Span whole = span;
  if (span.end < span.total) whole.end = span.first + (span.end - span.first) / kElements * kElements;
  const auto block = [&](std::int64_t i) HWY_ATTR { block_out(from + i * planes, to + i, step, planes, streams); };
  const std::int64_t end = in_blocks<kElements>(whole, block, one);
  if (!streams) prefetch_next<1>(to, step, planes, span.first, end);
  return end;
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
      const std::int64_t sought = (windows_end + tile_height(h.stride) * h.dilation) * h.stride + h.window * h.dilation;
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

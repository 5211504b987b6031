// SPDX-License-Identifier: Apache-2.0
// Rows of tensors in scratch memory, and the search for winners over them. Compiled once for each instruction set.
//
// Winners are sought on keys: integers in the order of the values, where +0 and -0 are equal and every NaN is the
// largest. A strictly greater key takes over, so the first of equals stays. The search is separable: along W for every
// row of x, then over the rows of a window, which keeps the leftmost of the topmost. A tap in the padding has the
// lowest key and never takes over; the search starts from the first tap that exists.

#if defined(BP_OPS_MAX_POOL_CPU_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_MAX_POOL_CPU_ROWS_INL_H
#undef BP_OPS_MAX_POOL_CPU_ROWS_INL_H
#else
#define BP_OPS_MAX_POOL_CPU_ROWS_INL_H
#endif

#include "backends/cpu/runs-inl.h"
#include "ops/max_pool/cpu.h"

#include <bit>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// The integer lanes that hold keys, taps and bits of T.
template <class T>
using PoolLane = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

// Where a row of a tensor lies: columns [first, first + count) of plane (n, c), row (d, h).
struct RowPlace {
  std::int64_t n, c, d, h, first, count;
};

// Calls f(pointer, stride, n, readable, at) for the contiguous or strided runs that the row consists of; `at` is where
// the run stands in a scratch row.
template <class T, class F>
HWY_INLINE void each_run(const PoolTensor& tensor, T* data, std::int64_t unit, const RowPlace& row, F&& f) {
  const Dims& s = tensor.view.strides;
  const std::int64_t start = row.n * s[0] + row.c * s[1] + row.d * s[2] + row.h * s[3] + row.first * s[4];
  const auto run = [&](std::int64_t offset, std::int64_t stride, std::int64_t n, std::int64_t at) {
    f(data + offset, stride, n, tensor.end < 0 ? n : tensor.end - offset, at);
  };
  if (unit == 1) return run(start, row.count == 1 ? 1 : s[4], row.count, 0);
  if (s[1] == 1 && (s[4] == unit || row.count == 1)) return run(start, 1, row.count * unit, 0);
  for (std::int64_t i = 0; i < row.count; ++i) run(start + i * s[4], s[1], unit, i * unit);
}

// ---- Keys ------------------------------------------------------------------------------------------------

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// The bits of an element as a number of its own width.
template <class T>
using Bits = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_unsigned_v<T>, std::uint64_t, std::int64_t>,
    std::conditional_t<
        sizeof(T) == 4, std::conditional_t<std::is_unsigned_v<T>, std::uint32_t, std::int32_t>,
        std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_unsigned_v<T>, std::uint16_t, std::int16_t>,
                           std::conditional_t<std::is_unsigned_v<T>, std::uint8_t, std::int8_t>>>>;

// The bits of infinity.
template <class T>
inline constexpr PoolLane<T> kInfinity = [] {
  if constexpr (std::is_same_v<T, double>) {
    return std::int64_t{0x7ff0000000000000};
  } else if constexpr (std::is_same_v<T, float>) {
    return std::int32_t{0x7f800000};
  } else {
    return std::int32_t{std::is_same_v<T, f16> ? 0x7c00 : 0x7f80};
  }
}();

// The bits of lanes(d) elements, in lanes.
template <class T, class D>
HWY_INLINE hn::Vec<D> load_bits(D d, const T* p) {
  using I = hn::TFromD<D>;
  using B = Bits<T>;
  if constexpr (sizeof(B) == sizeof(I)) {
    return hn::LoadU(d, reinterpret_cast<const I*>(p));
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<B, D>(), reinterpret_cast<const B*>(p)));
  }
}

template <class T, class D, class V>
HWY_INLINE V key_of_bits(D d, V bits) {
  using I = hn::TFromD<D>;
  if constexpr (kIsFloat<T>) {
    constexpr auto kLeast = static_cast<I>(std::numeric_limits<Bits<T>>::min());
    constexpr auto kMost = static_cast<I>(std::numeric_limits<Bits<T>>::max());
    const auto negative = hn::Sub(hn::Set(d, kLeast), bits);  // minus the magnitude
    const auto ordered = hn::IfThenElse(hn::Lt(bits, hn::Zero(d)), negative, bits);
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(d, kMost)), hn::Set(d, kInfinity<T>));
    return hn::IfThenElse(is_nan, hn::Set(d, std::numeric_limits<I>::max()), ordered);
  } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(I)) {
    return hn::Xor(bits, hn::Set(d, std::numeric_limits<I>::min()));
  } else {
    return bits;
  }
}

// n elements in scratch as keys and, unless null, as bits.
template <class T>
HWY_INLINE void import_keys(const T* from, std::int64_t stride, std::int64_t n, std::int64_t readable,
                            PoolLane<T>* keys, PoolLane<T>* bits) {
  const Lanes<PoolLane<T>> d;
  const auto put_keys = [&](auto v, std::int64_t i) HWY_ATTR {
    hn::StoreU(key_of_bits<T>(d, v), d, keys + i);
    if (bits != nullptr) hn::StoreU(v, d, bits + i);
  };
  std::int64_t i = 0;
  if (stride == 1) {
    for (; i < n && i + lanes(d) <= readable; i += lanes(d)) put_keys(load_bits(d, from + i), i);
  }
  alignas(64) T packed[kPackedAtOnce];
  while (i < n) {
    const std::int64_t first = i;
    const std::int64_t end = std::min(i + kPackedAtOnce, n);
    pack_run(from + i * stride, stride, end - i, packed);
    for (; i < end; i += lanes(d)) put_keys(load_bits(d, packed + (i - first)), i);
  }
}

// ---- Along W ---------------------------------------------------------------------------------------------

template <class I>
HWY_INLINE void fill(I* to, std::int64_t n, I value) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = value;
}

// from[0], from[2], ... and from[1], from[3], ...: n of each; both ends have room for a vector.
template <class I>
HWY_INLINE void split_pairs(const I* from, std::int64_t n, I* even, I* odd) {
  const Lanes<I> d;
  for (std::int64_t i = 0; i < n; i += lanes(d)) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, from + 2 * i, a, b);
    hn::StoreU(a, d, even + i);
    hn::StoreU(b, d, odd + i);
  }
}

// Rows of x reduced along W: for every window the greatest key of its taps in the row, the first tap that has it, and,
// for the forward pass, the bits there.
template <class T>
class ReducedRows {
 public:
  using I = PoolLane<T>;

  struct Row {
    const I* keys;
    const I* taps;
    const I* bits;
  };

  // Reserves what it needs; the same for every slot of the team.
  struct Layout {
    std::size_t tags, linear, linear_bits, phase_keys, phase_bits, first, keys, taps, bits;
    std::int64_t linear_lanes, phase_lanes;

    Layout() = default;
    Layout(const PoolSetup& s, bool with_bits, ScratchLayout& scratch) {
      const PoolAxis& w = s.g.axes[2];
      const std::int64_t row = s.row_lanes();
      linear_lanes = (s.windows * w.stride + w.extent() + w.stride) * s.cut.unit + 2 * kSlack;
      phase_lanes = row;  // as s.tap_lane has it
      tags = scratch.reserve(s.x_slots.count(), sizeof(std::int64_t));
      linear = scratch.reserve(linear_lanes, sizeof(I));
      linear_bits = scratch.reserve(with_bits ? linear_lanes : 0, sizeof(I));
      phase_keys = scratch.reserve(w.stride * phase_lanes, sizeof(I));
      phase_bits = scratch.reserve(with_bits ? w.stride * phase_lanes : 0, sizeof(I));
      first = scratch.reserve(row, sizeof(I));
      keys = scratch.reserve(s.x_slots.count() * row, sizeof(I));
      taps = scratch.reserve(s.x_slots.count() * row, sizeof(I));
      bits = scratch.reserve(with_bits ? s.x_slots.count() * row : 0, sizeof(I));
    }
  };

  ReducedRows(const PoolSetup& setup, const PoolTensor& x, const T* data, const Layout& layout, std::byte* scratch,
              bool with_bits)
      : s_(setup),
        x_(x),
        data_(data),
        layout_(layout),
        with_bits_(with_bits),
        tags_(reinterpret_cast<std::int64_t*>(scratch + layout.tags)),
        linear_(reinterpret_cast<I*>(scratch + layout.linear)),
        linear_bits_(reinterpret_cast<I*>(scratch + layout.linear_bits)),
        phase_keys_(reinterpret_cast<I*>(scratch + layout.phase_keys)),
        phase_bits_(reinterpret_cast<I*>(scratch + layout.phase_bits)),
        first_(reinterpret_cast<I*>(scratch + layout.first)),
        keys_(reinterpret_cast<I*>(scratch + layout.keys)),
        taps_(reinterpret_cast<I*>(scratch + layout.taps)),
        bits_(reinterpret_cast<I*>(scratch + layout.bits)) {}

  // Other planes, or other columns: windows [first_window, first_window + s.windows), some of which may not exist.
  void start(std::int64_t n, std::int64_t plane, std::int64_t planes, std::int64_t first_window) {
    n_ = n;
    plane_ = plane;
    planes_ = planes;
    first_window_ = first_window;
    std::fill_n(tags_, s_.x_slots.count(), std::int64_t{-1});
    const PoolAxis& w = s_.g.axes[2];
    for (std::int64_t i = 0; i < s_.windows; ++i) {
      const std::int64_t o = first_window + i;
      const bool exists = o >= 0 && o < w.output && w.first_tap(o) < w.end_tap(o);
      const auto tap = static_cast<I>(exists ? w.first_tap(o) : kNoTap);
      for (std::int64_t segment = 0; segment < s_.cut.segments; ++segment) {
        fill(first_ + segment * s_.pitch + i * s_.cut.unit, s_.cut.unit, tap);
      }
    }
  }

  Row row(std::int64_t d, std::int64_t h) {
    const std::int64_t slot = d % s_.x_slots.first * s_.x_slots.second + h % s_.x_slots.second;
    const std::int64_t tag = d * s_.g.axes[1].input + h;
    const std::int64_t at = slot * s_.row_lanes();
    if (tags_[slot] != tag) {
      tags_[slot] = tag;
      for (std::int64_t segment = 0; segment < planes_; ++segment) import(segment, d, h);
      reduce(keys_ + at, taps_ + at, with_bits_ ? bits_ + at : nullptr);
    }
    return {keys_ + at, taps_ + at, bits_ + at};
  }

 private:
  // One plane's row of x into the phases of its columns: column q, counted from the first window's first tap, stands at
  // q / S in phase q mod S.
  void import(std::int64_t segment, std::int64_t d, std::int64_t h) {
    const PoolAxis& w = s_.g.axes[2];
    const std::int64_t unit = s_.cut.unit;
    const std::int64_t columns = (s_.windows - 1) * w.stride + w.extent();
    const std::int64_t origin = first_window_ * w.stride - w.start_padding;  // the position of column 0
    const std::int64_t begin = std::clamp<std::int64_t>(-origin, 0, columns);
    const std::int64_t end = std::clamp<std::int64_t>(w.input - origin, begin, columns);
    const RowPlace place{n_, plane_ + segment, d, h, origin + begin, end - begin};
    I* phases = phase_keys_ + segment * s_.pitch;
    I* phases_of_bits = with_bits_ ? phase_bits_ + segment * s_.pitch : nullptr;
    const bool direct = w.stride == 1;
    I* keys = direct ? phases : linear_;
    I* bits = !with_bits_ ? nullptr : direct ? phases_of_bits : linear_bits_;
    constexpr I kLowest = std::numeric_limits<I>::min();
    if (begin < end) {
      each_run(x_, data_, unit, place,
               [&](const T* from, std::int64_t stride, std::int64_t n, std::int64_t readable, std::int64_t at) {
                 import_keys(from, stride, n, readable, keys + begin * unit + at,
                             bits == nullptr ? nullptr : bits + begin * unit + at);
                 if (stride == 1) prefetch(from + 2 * x_.view.strides[3], n);
               });
    }
    fill(keys, begin * unit, kLowest);
    fill(keys + end * unit, (columns - end) * unit, kLowest);
    if (direct) return;
    split(linear_, columns, phases);
    if (with_bits_) split(linear_bits_, columns, phases_of_bits);
  }

  void split(const I* from, std::int64_t columns, I* phases) const {
    const std::int64_t stride = s_.g.axes[2].stride;
    const std::int64_t unit = s_.cut.unit;
    if (unit == 1 && stride == 2) {
      return split_pairs(from, (columns + 1) / 2, phases, phases + layout_.phase_lanes);
    }
    const Lanes<I> d;
    for (std::int64_t phase = 0; phase < std::min(stride, columns); ++phase) {
      I* to = phases + phase * layout_.phase_lanes;
      std::int64_t j = 0;
      for (std::int64_t q = phase; q < columns; q += stride, ++j) {
        if (unit == 1) {
          to[j] = from[q];
        } else {
          for (std::int64_t c = 0; c < unit; c += lanes(d)) {
            hn::StoreU(hn::LoadU(d, from + q * unit + c), d, to + j * unit + c);
          }
        }
      }
    }
  }

  void reduce(I* keys, I* taps, I* bits) const {
    const Lanes<I> d;
    const PoolAxis& w = s_.g.axes[2];
    const std::int64_t n = (planes_ - 1) * s_.pitch + s_.windows * s_.cut.unit;
    const std::int64_t* tap_lane = s_.tap_lane.data();
    for (std::int64_t i = 0; i < n; i += lanes(d)) {
      auto best = hn::Set(d, std::numeric_limits<I>::min());
      auto tap = hn::LoadU(d, first_ + i);
      // A key that takes over from nothing is the lowest of an integer type, and so are its bits.
      auto value = hn::Set(d, static_cast<I>(std::bit_cast<Bits<T>>(lowest<T>())));
      for (std::int64_t k = 0; k < w.window; ++k) {
        const std::int64_t at = tap_lane[k] + i;
        const auto key = hn::LoadU(d, phase_keys_ + at);
        const auto greater = hn::Gt(key, best);
        best = hn::IfThenElse(greater, key, best);
        tap = hn::IfThenElse(greater, hn::Set(d, static_cast<I>(k)), tap);
        if (bits != nullptr) value = hn::IfThenElse(greater, hn::LoadU(d, phase_bits_ + at), value);
      }
      hn::StoreU(best, d, keys + i);
      hn::StoreU(tap, d, taps + i);
      if (bits != nullptr) hn::StoreU(value, d, bits + i);
    }
  }

  const PoolSetup& s_;
  const PoolTensor& x_;
  const T* data_;
  const Layout& layout_;
  bool with_bits_;
  std::int64_t* tags_;
  I *linear_, *linear_bits_, *phase_keys_, *phase_bits_, *first_, *keys_, *taps_, *bits_;
  std::int64_t n_ = 0, plane_ = 0, planes_ = 0, first_window_ = 0;
};

// ---- Over the rows of a window ---------------------------------------------------------------------------

// A row of x that a row of windows reads, and the number of its first tap.
template <class T>
struct WindowSource {
  typename ReducedRows<T>::Row row;
  PoolLane<T> base;
};

// The winners of one row of windows, n lanes of it: the tap's number in its window, or -1; and, unless
// null, the bits there. `sources` has room for as many rows as a window has.
template <class T>
HWY_INLINE void find_winners(ReducedRows<T>& rows, const PoolGeometry& g, std::int64_t od, std::int64_t oh,
                             std::int64_t n, WindowSource<T>* sources, PoolLane<T>* taps, PoolLane<T>* bits) {
  using I = PoolLane<T>;
  const Lanes<I> d;
  int count = 0;
  for (std::int64_t kd = g.axes[0].first_tap(od); kd < g.axes[0].end_tap(od); ++kd) {
    for (std::int64_t kh = g.axes[1].first_tap(oh); kh < g.axes[1].end_tap(oh); ++kh) {
      sources[count++] = {rows.row(g.axes[0].position(od, kd), g.axes[1].position(oh, kh)),
                          static_cast<I>(g.tap_number({kd, kh, 0}))};
    }
  }
  const auto lowest_bits = hn::Set(d, static_cast<I>(std::bit_cast<Bits<T>>(lowest<T>())));
  if (count == 0) {
    for (std::int64_t i = 0; i < n; i += lanes(d)) {
      hn::StoreU(hn::Set(d, I{-1}), d, taps + i);
      if (bits != nullptr) hn::StoreU(lowest_bits, d, bits + i);
    }
    return;
  }
  for (std::int64_t i = 0; i < n; i += lanes(d)) {
    auto best = hn::LoadU(d, sources[0].row.keys + i);
    auto tap = hn::Add(hn::LoadU(d, sources[0].row.taps + i), hn::Set(d, sources[0].base));
    auto value = bits == nullptr ? best : hn::LoadU(d, sources[0].row.bits + i);
    for (int r = 1; r < count; ++r) {
      const WindowSource<T>& source = sources[r];
      const auto key = hn::LoadU(d, source.row.keys + i);
      const auto greater = hn::Gt(key, best);
      best = hn::IfThenElse(greater, key, best);
      tap = hn::IfThenElse(greater, hn::Add(hn::LoadU(d, source.row.taps + i), hn::Set(d, source.base)), tap);
      if (bits != nullptr) value = hn::IfThenElse(greater, hn::LoadU(d, source.row.bits + i), value);
    }
    hn::StoreU(hn::Or(tap, hn::BroadcastSignBit(tap)), d, taps + i);
    if (bits != nullptr) hn::StoreU(hn::IfThenElse(hn::Lt(tap, hn::Zero(d)), lowest_bits, value), d, bits + i);
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_MAX_POOL_CPU_ROWS_INL_H

// SPDX-License-Identifier: Apache-2.0
// Slice and its gradient. The output is written once, upwards in memory; past the cache it leaves in whole lines,
// however short its runs are. Where input and output have different innermost axes, panels are transposed on the way.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/slice/cpu.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "backends/cpu/panels.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/runs-inl.h"
#include "backends/cpu/transpose-inl.h"
#include "ops/slice/cpu_packed.h"
#include "ops/slice/movement.h"
#include "ops/slice/slice.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#ifndef BP_OPS_SLICE_CPU_ONCE
#define BP_OPS_SLICE_CPU_ONCE
namespace bp::cpu {

// A movement whose input is innermost along another axis than its output, in panels.
struct Panels {
  int across = -1;  // the axis; none where runs are read as they are
  int outer = 0;    // this many axes, without that one, are walked around the panels
  PanelCut cut;
  std::int64_t count = 0;

  Panels(const Movement& m, std::int64_t element) {
    const MoveAxis& run = m.run();
    if (run.count < PanelCut::kLeast || std::abs(run.in_stride) <= PanelCut::kNear) return;
    for (int i = 0; i < m.rank - 1; ++i) {
      if (std::abs(m.axes[i].in_stride) == 1 && m.axes[i].count >= PanelCut::kLeast) across = i;
    }
    if (across < 0) return;
    outer = m.rank - 2;
    cut = PanelCut(m.axes[across].size, around(m).size, run.size, element);
    count = cut.columns * cut.layers * cut.rows;
    for (int i = 0; i < outer; ++i) {
      if (i != across) count *= m.axes[i].size;
    }
  }

  // The axis around the runs, of which a panel has several where they are short.
  [[nodiscard]] MoveAxis around(const Movement& m) const {
    return across < m.rank - 2 ? m.axes[m.rank - 2] : MoveAxis{};
  }
};

// Elements [first, last) of the output, in the order of its memory; or such panels.
struct MovePart {
  const Movement* movement;
  const Panels* panels;
  void* out;
  const void* in;
  std::int64_t first, last;
  std::size_t element;  // bytes
  bool past_cache;
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// ---- More that a run is made of, see runs-inl.h -----------------------------------------------------------

template <class T>
struct Zeros {
  static constexpr std::int64_t kSpare = 0;
  [[nodiscard]] HWY_INLINE T one(std::int64_t) const { return T{0}; }
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t) const {
    return hn::Zero(d);
  }
};

// A zero behind every element.
template <class T>
struct Widened {
  static constexpr std::int64_t kSpare = 0;
  const T* from;
  [[nodiscard]] HWY_INLINE T one(std::int64_t i) const { return i % 2 == 0 ? from[i / 2] : T{0}; }
#if HWY_TARGET != HWY_SCALAR
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    const hn::RepartitionToWide<D> pairs;
    const hn::Rebind<T, decltype(pairs)> half;
    const auto v = hn::PromoteTo(pairs, hn::LoadU(half, from + ((i + 1) >> 1)));
    if (i % 2 == 0) return hn::BitCast(d, v);
    return hn::BitCast(d, hn::ShiftLeft<8 * sizeof(T)>(v));  // begins with the zero of the element before
  }
#endif
};

// Whether vectors are whole lines, and the end of one and the beginning of another make a new one.
template <class T>
inline constexpr bool kJoins = HWY_TARGET == HWY_AVX3 && sizeof(T) >= 2;

// The last k lanes of a, then the first ones of b.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V joined([[maybe_unused]] D d, V a, [[maybe_unused]] V b, [[maybe_unused]] std::int64_t k) {
#if HWY_TARGET == HWY_AVX3
  using T = hn::TFromD<D>;
  const auto order = hn::Iota(d, static_cast<T>(lanes(d) - k)).raw;
  if constexpr (sizeof(T) == 2) return V{_mm512_permutex2var_epi16(a.raw, order, b.raw)};
  if constexpr (sizeof(T) == 4) return V{_mm512_permutex2var_epi32(a.raw, order, b.raw)};
  if constexpr (sizeof(T) == 8) return V{_mm512_permutex2var_epi64(a.raw, order, b.raw)};
#endif
  return a;
}

// ---- Writing in order ------------------------------------------------------------------------------------

// Takes the elements of a contiguous piece of the output in order. Past the cache it streams whole lines: long runs
// directly, short ones from a stage where they meet. Only the lines at both ends, which may be a neighbour's too, are
// stored as usual.
template <class T>
class Writer {
 public:
  static constexpr std::int64_t kLine = 64 / sizeof(T);
  static constexpr std::int64_t kRoom = 4096 / sizeof(T);

  void begin(T* out, bool streams) {
    streams_ = streams;
    held_ = streams ? static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) % 64 / sizeof(T)) : 0;
    foreign_ = held_;
    out_ = out - held_;
  }

  // Where up to room() elements may be written, which then are placed; kRoom - kFull of them always.
  HWY_INLINE T* place() { return streams_ ? stage() + held_ : out_; }
  [[nodiscard]] HWY_INLINE std::int64_t room() const { return kRoom - held_; }
  HWY_INLINE void placed(std::int64_t n) {
    if (!streams_) {
      out_ += n;
      return;
    }
    held_ += n;
    if constexpr (kWidest > 0) {
      if (held_ >= kFull) flush();
    }
  }

  // n elements, from the source's first on.
  template <class Source>
  HWY_NOINLINE void add(const Source& source, std::int64_t n) {
    if constexpr (kWidest > 0) {
      if (streams_ && n >= kDirect) return add_lines(source, n);
    }
    put(place(), source, 0, n);
    placed(n);
  }
  HWY_INLINE void add_zeros(std::int64_t n) {
    if (n > 0) add(Zeros<T>{}, n);
  }
  // Runs of n elements, a line at least, that follow each other, each in_stride further on: where two meet in a line,
  // they do so in a register. Calls before(r) before run r.
  template <class Source, class F>
  HWY_INLINE void add_joined(const T* from, std::int64_t in_stride, std::int64_t n, std::int64_t count, F&& before) {
    const Line d;
    before(0);
    put(place(), Source{from}, 0, n);
    held_ += n;
    flush();
    T* out = out_;
    std::int64_t rest = held_;  // of the run before
    for (std::int64_t r = 1; r < count; ++r, from += in_stride) {
      before(r);
      const Source last{from}, here{from + in_stride};
      hn::Stream(joined(d, last.vector(d, n - kLine), here.vector(d, 0), rest), d, out);
      out += kLine;
      std::int64_t i = kLine - rest;
      for (; i + kLine <= n; i += kLine, out += kLine) stream_line(here, i, out);
      rest = n - i;
    }
    out_ = out;
    held_ = rest;
    copy_line(Source{from}, n - kLine, stage() + held_ - kLine);
  }
  // n elements, in_stride apart, each with step - 1 zeros behind it.
  void add_spread(const T* from, std::int64_t in_stride, std::int64_t step, std::int64_t n) {
    while (n > 0) {
      const std::int64_t some = std::clamp<std::int64_t>(room() / step, 1, n);
      if (step > room()) {
        add(Straight<T>{from}, 1);
        add_zeros(step - 1);
      } else {
        T* to = place();
        if (step > 1) put(to, Zeros<T>{}, 0, some * step);
        for (std::int64_t i = 0; i < some; ++i) to[i * step] = from[i * in_stride];
        placed(some * step);
      }
      n -= some;
      if (n > 0) from += some * in_stride;
    }
  }

  void finish() {
    if (!streams_) return;
    if constexpr (kWidest > 0) flush();
    put(out_ + foreign_, Straight<T>{stage()}, foreign_, held_);
  }

 private:
  static constexpr std::int64_t kDirect = 4 * kLine;  // runs of so many do not pass through the stage
  static constexpr std::int64_t kFull = kRoom / 2;    // when the stage is flushed

  T* stage() { return memory_ + kLine; }

  // The ends go by the stage. What is written there behind the line in hand, or before it, is not used.
  template <class Source>
  HWY_INLINE void add_lines(const Source& source, std::int64_t n) {
    copy_line(source, 0, stage() + held_);
    std::int64_t i = kLine - held_ % kLine;
    held_ += i;
    flush();
    T* out = out_;
    for (; i + kLine <= n; i += kLine, out += kLine) stream_line(source, i, out);
    out_ = out;
    held_ = n - i;
    copy_line(source, n - kLine, stage() + held_ - kLine);
  }

  // The whole lines of the stage; what is left moves to its front.
  HWY_NOINLINE void flush() {
    if (held_ < kLine) return;
    std::int64_t i = 0;
    if (foreign_ > 0) {
      put(out_ + foreign_, Straight<T>{stage()}, foreign_, kLine);
      foreign_ = 0;
      i = kLine;
    }
    for (; i + kLine <= held_; i += kLine) stream_line(Straight<T>{stage()}, i, out_ + i);
    out_ += i;
    held_ -= i;
    copy_line(Straight<T>{stage()}, i, stage());
  }

  using Line = hn::CappedTag<T, kLine>;
  template <class Source>
  HWY_INLINE static void stream_line(const Source& source, std::int64_t i, T* to) {
    const Line d;
    for (std::int64_t j = 0; j < kLine; j += lanes(d)) hn::Stream(source.vector(d, i + j), d, to + j);
  }
  template <class Source>
  HWY_INLINE static void copy_line(const Source& source, std::int64_t i, T* to) {
    const Line d;
    for (std::int64_t j = 0; j < kLine; j += lanes(d)) hn::StoreU(source.vector(d, i + j), d, to + j);
  }

  bool streams_ = false;
  T* out_ = nullptr;          // where the next element goes, or the first of the stage
  std::int64_t held_ = 0;     // how many elements the stage holds
  std::int64_t foreign_ = 0;  // how many of them, at its front, are not this writer's
  alignas(64) T memory_[kLine + kRoom + kLine];
};

// ---- The loop nest ---------------------------------------------------------------------------------------

// Runs that are no vectors' work: elements in_stride apart go step apart.
template <class T>
struct Spread {};

template <class T, class Source>
class Mover {
 public:
  Mover(const Movement& movement, bool past_cache) : m_(movement), run_(m_.run()), whole_run_(piece(0, run_.size)) {
    // A block with gaps around it is streamed where it has many lines of its own.
    const std::int64_t block = m_.packed < m_.rank ? bytes(m_.axes[m_.packed].size * m_.axes[m_.packed].inner) : 0;
    streams_ = kWidest > 0 && past_cache && block >= 1024;
    if (m_.rank == 1) return;
    const MoveAxis& rows = m_.axes[m_.rank - 2];
    runs_are_short_ = kVectors && bytes(rows.step * rows.inner) <= kShort && bytes(kStep * run_.count) < kShort;
    if constexpr (kMayMeet) {
      runs_meet_ = streams_ && runs_are_short_ && rows.step == 1 && run_.is_full() &&
                   run_.count >= Writer<T>::kLine + Source::kSpare;
    }
    // Runs that follow each other upwards in the input are what the processor expects; others it must be told of.
    span_ = bytes((run_.count - 1) * std::abs(run_.in_stride) + 1);
    const std::int64_t apart = bytes(rows.in_stride);
    if (span_ >= 128 && (run_.in_stride < 0 || apart < 0 || apart - span_ > 64))
      ahead_ = std::max<std::int64_t>(kPrefetched / span_, 1);
    span_ = std::min(span_, kPrefetched);
  }

  // Elements [lo, hi) of what the axes from `level` on make; zeros where there is no input.
  void move(int level, T* out, const T* in, std::int64_t lo, std::int64_t hi) {
    if (level == m_.packed) {
      writer_.begin(out + lo, streams_);
      in == nullptr ? writer_.add_zeros(hi - lo) : move_packed(level, in, nullptr, lo, hi);
      return writer_.finish();
    }
    if (level == m_.rank - 1) return move_apart(out, in, lo, hi);
    const MoveAxis& axis = m_.axes[level];
    for (std::int64_t p = lo / axis.inner; p * axis.inner < hi; ++p) {
      const std::int64_t beyond = p - axis.first;
      const std::int64_t k = beyond / axis.step;
      const bool moved = in != nullptr && beyond >= 0 && beyond % axis.step == 0 && k < axis.count;
      move(level + 1, out + p * axis.out_stride, moved ? in + k * axis.in_stride : nullptr,
           std::max<std::int64_t>(lo - p * axis.inner, 0), std::min(hi - p * axis.inner, axis.inner));
    }
  }

 private:
  static constexpr std::int64_t kShort = 512;        // bytes
  static constexpr std::int64_t kPrefetched = 4096;  // bytes
  static constexpr bool kVectors = !std::is_same_v<Source, Spread<T>>;
  static constexpr std::int64_t kStep = std::is_same_v<Source, Widened<T>> ? 2 : 1;
  static constexpr bool kMayMeet = kJoins<T> && kVectors && kStep == 1;

  // A range of a run: zeros, groups of an element and the zeros behind it, an element whose zeros are cut, zeros.
  struct Piece {
    std::int64_t before, k, groups, lone, after;
  };

  static constexpr std::int64_t bytes(std::int64_t elements) { return elements * static_cast<std::int64_t>(sizeof(T)); }

  [[nodiscard]] Piece piece(std::int64_t lo, std::int64_t hi) const {
    const std::int64_t k = lo <= run_.first ? 0 : (lo - run_.first + run_.step - 1) / run_.step;
    const std::int64_t begin = run_.first + k * run_.step;
    if (k >= run_.count || begin >= hi) return {hi - lo, 0, 0, 0, 0};
    const std::int64_t groups = std::min(run_.count - k, (hi - begin) / run_.step);
    const std::int64_t end = begin + groups * run_.step;
    const std::int64_t lone = k + groups < run_.count && end < hi ? 1 : 0;
    return {begin - lo, k, groups, lone, hi - end - lone};
  }

  void add_run(const Piece& p, const T* in) {
    writer_.add_zeros(p.before);
    const T* from = in + p.k * run_.in_stride;
    if constexpr (kVectors) {
      writer_.add(Source{from}, kStep * p.groups);
    } else {
      writer_.add_spread(from, run_.in_stride, run_.step, p.groups);
    }
    if (p.lone > 0) writer_.add(Straight<T>{from + p.groups * run_.in_stride}, 1);
    writer_.add_zeros(p.after);
  }

  // Whole runs with `gap` zeros behind each. The width of the vectors is chosen once for all.
  template <std::size_t kBytes = kWidest>
  HWY_INLINE void put_short_runs(T* to, const T* from, std::int64_t in_stride, std::int64_t count, std::int64_t gap) {
    const Piece p = whole_run_;
    const std::int64_t moved = kStep * p.groups;
    const std::int64_t after = p.after + gap;
    if constexpr (kBytes > 0) {
      if (!fits<kBytes, T, Source>(moved)) {
        return put_short_runs<kNarrower<T, kBytes>>(to, from, in_stride, count, gap);
      }
    }
    for (std::int64_t r = 0; r < count; ++r) {
      if (p.before > 0) put(to, Zeros<T>{}, 0, p.before);
      to += p.before;
      put_fitting<kBytes>(to, Source{from + r * in_stride}, 0, moved);
      to += moved;
      if (p.lone > 0) *to++ = from[r * in_stride + p.groups * run_.in_stride];
      if (after > 0) put(to, Zeros<T>{}, 0, after);
      to += after;
    }
  }

  // The same as move, of axes that follow each other; `next` is the input of the block behind this one, if known.
  void move_packed(int level, const T* in, const T* next, std::int64_t lo, std::int64_t hi) {
    if (level == m_.rank - 1) return add_run(piece(lo, hi), in);
    const MoveAxis& axis = m_.axes[level];
    const std::int64_t apart = axis.step * axis.inner;
    // The first position with input that ends behind lo.
    const std::int64_t beyond = lo - (axis.first + 1) * axis.inner;
    std::int64_t k = beyond < 0 ? 0 : beyond / apart + 1;
    std::int64_t at = lo;
    for (std::int64_t count = 0; k < axis.count; k += count) {
      const std::int64_t begin = axis.first * axis.inner + k * apart;
      if (begin >= hi) break;
      const T* here = in + k * axis.in_stride;
      const std::int64_t from = std::max(at, begin);
      const std::int64_t to = std::min(begin + axis.inner, hi);
      writer_.add_zeros(from - at);
      at = to;
      count = 1;
      if (level < m_.rank - 2) {
        move_packed(level + 1, here, k + 1 < axis.count ? here + axis.in_stride : next, from - begin, to - begin);
      } else if (runs_are_short_ && from == begin && begin + apart <= hi) {
        count = std::min(axis.count - k, (hi - begin) / apart);
        const auto ask_for = [&](std::int64_t i) { prefetch(axis, k + i, in, next); };
        if constexpr (kMayMeet) {
          if (runs_meet_) writer_.template add_joined<Source>(here, axis.in_stride, run_.count, count, ask_for);
        }
        if (!runs_meet_) {
          count = std::min(count, writer_.room() / apart);
          for (std::int64_t i = 0; i < count; ++i) ask_for(i);
          if constexpr (kVectors) put_short_runs(writer_.place(), here, axis.in_stride, count, apart - axis.inner);
          writer_.placed(count * apart);
        }
        at = begin + count * apart;
      } else {
        prefetch(axis, k, in, next);
        add_run(to - from == axis.inner ? whole_run_ : piece(from - begin, to - begin), here);
      }
    }
    writer_.add_zeros(hi - at);
  }

  // Asks for the run that comes ahead_ runs after run k; into the second cache, which takes more requests at once.
  // Always inlined: GCC thinks that a function which only prefetches does nothing.
  HWY_INLINE void prefetch(const MoveAxis& axis, std::int64_t k, const T* in, const T* next) const {
    if (ahead_ == 0) return;
    const std::int64_t later = k + ahead_;
    const T* run = nullptr;
    if (later < axis.count) {
      run = in + later * axis.in_stride;
    } else if (next != nullptr && later < 2 * axis.count) {
      run = next + (later - axis.count) * axis.in_stride;
    } else {
      return;
    }
    const T* lowest = run_.in_stride < 0 ? run + run_.in_stride * (run_.count - 1) : run;
    for (std::int64_t i = 0; i < span_; i += 64) __builtin_prefetch(reinterpret_cast<const char*>(lowest) + i, 0, 2);
  }

  // A run of an output whose elements do not follow each other.
  void move_apart(T* out, const T* in, std::int64_t lo, std::int64_t hi) const {
    T* to = out + lo * run_.out_stride;
    const auto add = [&](T v) {
      *to = v;
      to += run_.out_stride;
    };
    const auto add_zeros = [&](std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) add(T{0});
    };
    if (in == nullptr) return add_zeros(hi - lo);
    const Piece p = piece(lo, hi);
    add_zeros(p.before);
    for (std::int64_t i = 0; i < p.groups + p.lone; ++i) {
      add(in[(p.k + i) * run_.in_stride]);
      if (i < p.groups) add_zeros(run_.step - 1);
    }
    add_zeros(p.after);
  }

  const Movement& m_;
  const MoveAxis& run_;  // the innermost axis
  const Piece whole_run_;
  bool streams_ = false;
  bool runs_are_short_ = false;
  bool runs_meet_ = false;  // short ones without gaps, in lines that are streamed
  std::int64_t span_ = 0;   // the bytes of input that a run spans, as far as they are prefetched
  std::int64_t ahead_ = 0;  // how many runs ahead; 0: none is prefetched
  Writer<T> writer_;
};

template <class T, class Source>
void move_part(const MovePart& part) {
  Mover<T, Source>(*part.movement, part.past_cache)
      .move(0, static_cast<T*>(part.out), static_cast<const T*>(part.in), part.first, part.last);
}

template <class T>
void move_elements(const MovePart& part) {
  const MoveAxis& run = part.movement->run();
  if (run.step == 1 && run.in_stride == 1) return move_part<T, Straight<T>>(part);
  if (run.step == 1 && run.in_stride == -1) return move_part<T, Reversed<T>>(part);
  if (run.step == 1 && run.in_stride == 2) return move_part<T, Thinned<T>>(part);
  if constexpr (sizeof(T) < 8) {
    if (run.step == 2 && run.in_stride == 1) return move_part<T, Widened<T>>(part);
  }
  move_part<T, Spread<T>>(part);
}

// ---- Panels ----------------------------------------------------------------------------------------------

template <class T>
class PanelMover {
 public:
  explicit PanelMover(const MovePart& part) : part_(part), m_(*part.movement), panels_(*part.panels) {}

  void run() {
    Panel next = panel(part_.first);
    for (std::int64_t i = part_.first + 1; i <= part_.last; ++i) {
      const Panel here = next;
      next = i < part_.last ? panel(i) : Panel{};
      move(here, next.in);
    }
  }

 private:
  struct Panel {
    T* out = nullptr;
    const T* in = nullptr;  // all of it is zeros
    MoveAxis across{}, around{}, run{};
  };

  [[nodiscard]] Panel panel(std::int64_t number) const {
    const PanelCut& cut = panels_.cut;
    Panel p{static_cast<T*>(part_.out), static_cast<const T*>(part_.in)};
    const auto next_of = [&](std::int64_t count) {
      const std::int64_t k = number % count;
      number /= count;
      return k;
    };
    const auto part_of = [&](const MoveAxis& axis, std::int64_t first, std::int64_t each) {
      const MoveAxis part = axis.part(first, std::min(first + each, axis.size));
      p.out += first * axis.out_stride;
      if (part.count == 0) p.in = nullptr;
      if (p.in != nullptr) p.in += axis.first_from(first) * axis.in_stride;
      return part;
    };
    p.across = part_of(m_.axes[panels_.across], next_of(cut.columns) * cut.width, cut.width);
    p.run = part_of(m_.run(), next_of(cut.rows) * cut.height, cut.height);
    p.around = part_of(panels_.around(m_), next_of(cut.layers) * cut.depth, cut.depth);
    for (int i = panels_.outer - 1; i >= 0; --i) {
      if (i != panels_.across) part_of(m_.axes[i], next_of(m_.axes[i].size), 1);
    }
    // From the lowest address on.
    if (p.in != nullptr && p.across.in_stride < 0) p.in -= p.across.count - 1;
    return p;
  }

  void move(const Panel& here, const T* next) {
    MoveAxis across = here.across, around = here.around, run = here.run;
    const std::int64_t pitch = around.count * run.count;
    const T* from = nullptr;
    if (here.in != nullptr) {
      for (std::int64_t i = 0; i < around.count; ++i) {
        const std::int64_t there = i * around.in_stride;
        turn_panel(here.in + there, run.in_stride, run.count, across.count, turned_ + i * run.count, pitch,
                   next == nullptr ? next : next + there);
      }
      from = across.in_stride < 0 ? turned_ + (across.count - 1) * pitch : turned_;
    }
    across.in_stride *= pitch;
    around.in_stride = run.count;
    run.in_stride = 1;
    Movement m;
    movement::append(m, across);
    if (around.size > 1) movement::append(m, around);
    movement::append(m, run);
    movement::finish(m);
    MovePart part = part_;
    part.movement = &m;
    part.out = here.out;
    part.in = from;
    part.first = 0;
    part.last = across.size * around.size * run.size;
    move_elements<T>(part);
  }

  const MovePart& part_;
  const Movement& m_;
  const Panels& panels_;
  alignas(64) T turned_[PanelCut::kBytes / sizeof(T)];
};

void MoveAny(const MovePart& part) {
  visit_size(part.element,
             [&]<class T>() { part.panels->across < 0 ? move_elements<T>(part) : PanelMover<T>(part).run(); });
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(MoveAny);

namespace {

// Part borders on whole cache lines of a packed output, whatever its type.
constexpr std::int64_t kBorder = 64;

class SliceKernel final : public Kernel {
 public:
  SliceKernel(const Tensor& out, std::uint64_t bytes, const Movement& movement, const Settings& settings,
              bool past_cache = false)
      : team_(settings),
        movement_(movement),
        element_(size_of(out.dtype)),
        panels_(movement_, static_cast<std::int64_t>(element_)),
        count_(out.count()),
        bytes_(bytes),
        past_cache_(past_cache || is_past_cache(bytes)) {}

  void run(const Bindings& bindings) const override {
    if (count_ == 0) return;
    const auto moved = [&](auto* base, std::int64_t elements) {
      return base + elements * static_cast<std::int64_t>(element_);
    };
    MovePart whole{.movement = &movement_,
                   .panels = &panels_,
                   .out = moved(bindings.output<std::byte>(0), movement_.out_offset),
                   .in = moved(bindings.input<std::byte>(0), movement_.in_offset),
                   .first = 0,
                   .last = count_,
                   .element = element_,
                   .past_cache = past_cache_};
    const bool in_panels = panels_.across >= 0;
    const std::int64_t items = in_panels ? panels_.count : count_ / kBorder + 1;
    team_.run_items(items, bytes_, [&](std::int64_t first, std::int64_t last, int) {
      MovePart part = whole;
      part.first = in_panels ? first : first * kBorder;
      part.last = in_panels ? last : std::min(last * kBorder, count_);
      if (part.first < part.last) BP_DISPATCH(MoveAny)(part);
    });
  }

 private:
  Team team_;
  Movement movement_;
  std::size_t element_;
  Panels panels_;
  std::int64_t count_;
  std::uint64_t bytes_;
  bool past_cache_;
};

}  // namespace

std::unique_ptr<Kernel> make_slice(std::shared_ptr<const SlicePlan> plan, const Settings& settings) {
  return std::make_unique<SliceKernel>(plan->part, Slice::describe(*plan).bytes, slice_movement(*plan), settings);
}

std::unique_ptr<Kernel> make_copy(const Tensor& from, const Tensor& to, const Settings& settings, bool past_cache) {
  SlicePlan plan{.whole = from, .part = to};
  for (int i = 0; i < from.rank; ++i) plan.axes[static_cast<std::size_t>(i)] = {0, from.sizes[i], 1};
  return std::make_unique<SliceKernel>(to, Slice::describe(plan).bytes, slice_movement(plan), settings, past_cache);
}

std::unique_ptr<Kernel> make_slice_grad(std::shared_ptr<const SliceGradPlan> plan, const Settings& settings) {
  return std::make_unique<SliceKernel>(plan->whole, SliceGrad::describe(*plan).bytes, slice_grad_movement(*plan),
                                       settings);
}

}  // namespace bp::cpu
#endif

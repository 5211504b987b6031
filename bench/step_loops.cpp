// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "step_loops.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/simd-inl.h"
#include "steps.h"

HWY_BEFORE_NAMESPACE();
namespace bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = bp::cpu::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DB = hn::Rebind<std::uint8_t, D>;
using V = hn::Vec<D>;
using VB = hn::Vec<DB>;

// ---- Steps of one vector ---------------------------------------------------------------------------------

// Adds dy where the window's winner is this tap, as the gradient of max pooling does for each window that reaches an
// element.
HWY_INLINE void gather(V& sum, VB winners, V dy, int tap) {
  sum = simd::add_if(simd::byte_is(D(), winners, tap), sum, dy);
}

// A greater value takes over, and its number with it.
template <class Values, class Numbers>
HWY_INLINE void search(Values& best, Numbers& winner, Values v, Numbers tap) {
  const auto is_greater = hn::Gt(v, best);
  best = hn::IfThenElse(is_greater, v, best);
  winner = hn::IfThenElse(hn::RebindMask(hn::DFromV<Numbers>(), is_greater), tap, winner);
}

// Both are rounded.
HWY_INLINE void add_term(V& sum, V weight, V v) { sum = hn::Add(sum, hn::Mul(weight, v)); }

HWY_INLINE void add_bits(V& bits, V v) { bits = hn::Xor(bits, v); }

// ---- Loops -----------------------------------------------------------------------------------------------

HWY_INLINE float sum_of(V a, V b, V c, V e, V f, V g, V h, V i) {
  return hn::GetLane(hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, i))));
}

// Four rows of dx are one tile: two vectors of windows serve four sums each.
std::size_t gather_loop(StepData& data) {
  const D d;
  const std::size_t n = hn::Lanes(d);
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (std::size_t visit = 0; visit < StepData::kVisits; visit += 2 * n) {
    const std::size_t i = visit % StepData::kElements;
    const VB w = hn::LoadU(DB(), &data.winners[i]), w_next = hn::LoadU(DB(), &data.winners[i + n]);
    const V v = hn::LoadU(d, &data.values[i]), v_next = hn::LoadU(d, &data.values[i + n]);
    gather(s0, w, v, 0);
    gather(s1, w, v, 1);
    gather(s2, w, v, 2);
    gather(s3, w, v, 3);
    gather(s4, w_next, v_next, 0);
    gather(s5, w_next, v_next, 1);
    gather(s6, w_next, v_next, 2);
    gather(s7, w_next, v_next, 3);
  }
  data.sink = sum_of(s0, s1, s2, s3, s4, s5, s6, s7);
  return 4 * StepData::kVisits;
}

// A column of a row of 5x5 windows, as the gradient of max pooling makes it where masks select lanes: one of five sums,
// the one of the row that its winners are in, takes the dy of up to five windows; elsewhere 25 sums ask. Four columns
// at a time, which do not wait for each other.
std::size_t offer_loop(StepData& data) {
#if HWY_TARGET == HWY_AVX3
  constexpr int kColumns = 4, kWindow = 5;
  const D d;
  const std::size_t n = hn::Lanes(d);
  V sums[kColumns][kWindow];
#pragma GCC unroll 4
  for (auto& column : sums) {
#pragma GCC unroll 5
    for (V& sum : column) sum = hn::Zero(d);
  }
  for (std::size_t visit = 0; visit < StepData::kVisits; visit += kColumns * n) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const std::size_t i = visit % StepData::kElements + static_cast<std::size_t>(c) * n;
      const VB row = hn::LoadU(DB(), &data.winners[i]);
      const VB column = hn::LoadU(DB(), &data.winners[StepData::kElements - n - i]);
      const V v = hn::LoadU(d, &data.values[i]);
      hn::Mask<D> in_row[kWindow];
      V sum = v;
#pragma GCC unroll 5
      for (int r = 0; r < kWindow; ++r) {
        in_row[r] = simd::byte_is(d, row, r);
        sum = hn::IfThenElse(in_row[r], sums[c][r], sum);
      }
#pragma GCC unroll 5
      for (int k = 0; k < kWindow; ++k) sum = simd::add_if(simd::byte_is(d, column, k), sum, v);
#pragma GCC unroll 5
      for (int r = 0; r < kWindow; ++r) sums[c][r] = hn::IfThenElse(in_row[r], sum, sums[c][r]);
    }
  }
  V all = hn::Zero(d);
#pragma GCC unroll 4
  for (const auto& column : sums)
    all = hn::Add(all, hn::Add(hn::Add(column[0], column[1]), hn::Add(column[2], hn::Add(column[3], column[4]))));
  data.sink = hn::GetLane(all);
  return StepData::kVisits;
#else
  return gather_loop(data) / 25;
#endif
}

// Four rows of windows are one tile, and a value is in a window of each.
template <class Value>
std::size_t search_loop(StepData& data, const Value* values) {
  const hn::ScalableTag<Value> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t n = hn::Lanes(d);
  auto b0 = hn::Zero(d), b1 = b0, b2 = b0, b3 = b0, b4 = b0, b5 = b0, b6 = b0, b7 = b0;
  auto w0 = hn::Zero(di), w1 = w0, w2 = w0, w3 = w0, w4 = w0, w5 = w0, w6 = w0, w7 = w0;
  const auto t0 = hn::Set(di, 0), t1 = hn::Set(di, 1), t2 = hn::Set(di, 2), t3 = hn::Set(di, 3);
  for (std::size_t visit = 0; visit < StepData::kVisits; visit += 2 * n) {
    const std::size_t i = visit % StepData::kElements;
    const auto v = hn::LoadU(d, values + i), v_next = hn::LoadU(d, values + i + n);
    search(b0, w0, v, t0);
    search(b1, w1, v, t1);
    search(b2, w2, v, t2);
    search(b3, w3, v, t3);
    search(b4, w4, v_next, t0);
    search(b5, w5, v_next, t1);
    search(b6, w6, v_next, t2);
    search(b7, w7, v_next, t3);
  }
  const auto winners = hn::Or(hn::Or(hn::Or(w0, w1), hn::Or(w2, w3)), hn::Or(hn::Or(w4, w5), hn::Or(w6, w7)));
  const auto best = hn::Max(hn::Max(hn::Max(b0, b1), hn::Max(b2, b3)), hn::Max(hn::Max(b4, b5), hn::Max(b6, b7)));
  data.sink = static_cast<float>(hn::GetLane(best)) + static_cast<float>(hn::GetLane(winners));
  return 4 * StepData::kVisits;
}

// Each value is a term of two sums.
std::size_t term_loop(StepData& data) {
  const D d;
  const std::size_t n = hn::Lanes(d);
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const V near = hn::Set(d, 0.75f), far = hn::Set(d, 0.25f);
  for (std::size_t visit = 0; visit < StepData::kVisits; visit += 4 * n) {
    const std::size_t i = visit % StepData::kElements;
    const V v0 = hn::LoadU(d, &data.values[i]), v1 = hn::LoadU(d, &data.values[i + n]);
    const V v2 = hn::LoadU(d, &data.values[i + 2 * n]), v3 = hn::LoadU(d, &data.values[i + 3 * n]);
    add_term(s0, near, v0);
    add_term(s1, far, v0);
    add_term(s2, near, v1);
    add_term(s3, far, v1);
    add_term(s4, near, v2);
    add_term(s5, far, v2);
    add_term(s6, near, v3);
    add_term(s7, far, v3);
  }
  data.sink = sum_of(s0, s1, s2, s3, s4, s5, s6, s7);
  return 2 * StepData::kVisits;
}

template <class T>
std::size_t widen_loop(StepData& data) {
  const D d;
  const std::size_t n = hn::Lanes(d);
  const auto* halves = reinterpret_cast<const T*>(data.halves.data());
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (std::size_t visit = 0; visit < StepData::kVisits; visit += 4 * n) {
    const std::size_t i = visit % StepData::kElements;
    add_bits(s0, simd::load(d, halves + i));
    add_bits(s1, simd::load(d, halves + i + n));
    add_bits(s2, simd::load(d, halves + i + 2 * n));
    add_bits(s3, simd::load(d, halves + i + 3 * n));
  }
  data.sink = sum_of(s0, s1, s2, s3, s0, s1, s2, s3);
  return StepData::kVisits;
}

template <class T>
std::size_t round_loop(StepData& data) {
  const D d;
  auto* rounded = reinterpret_cast<T*>(data.rounded.data());
  for (std::size_t visit = 0; visit < StepData::kVisits; visit += hn::Lanes(d)) {
    const std::size_t i = visit % StepData::kElements;
    simd::store(d, hn::LoadU(d, &data.values[i]), rounded + i);
  }
  return StepData::kVisits;
}

std::size_t step_loop(Step step, StepData& data) {
  switch (step) {
    case Step::gather:
      return gather_loop(data);
    case Step::offer:
      return offer_loop(data);
    case Step::search:
      return search_loop(data, data.values.data());
    case Step::search_keys:
      return search_loop(data, reinterpret_cast<const std::int16_t*>(data.halves.data()));
    case Step::term:
      return term_loop(data);
    case Step::widen_f16:
      return widen_loop<bp::f16>(data);
    case Step::round_f16:
      return round_loop<bp::f16>(data);
    case Step::widen_bf16:
      return widen_loop<bp::bf16>(data);
    case Step::round_bf16:
      return round_loop<bp::bf16>(data);
  }
  return 0;
}

}  // namespace bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bench {

HWY_EXPORT(step_loop);

StepData::StepData() : rounded{}, sink(0) {
  for (std::size_t i = 0; i < kElements; ++i) {
    values[i] = static_cast<float>(i * 37 % 101) - 50;
    halves[i] = static_cast<std::uint16_t>(0x3c00 + i);
    winners[i] = static_cast<std::uint8_t>(i * 7 % 9);
  }
}

std::size_t run_step(Step step, StepData& data) { return HWY_DYNAMIC_DISPATCH(step_loop)(step, data); }

}  // namespace bench
#endif

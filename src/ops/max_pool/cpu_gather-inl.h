// SPDX-License-Identifier: Apache-2.0
// Sums of the gradient of max pooling: each element asks the windows that reach it whether it is their winner. Compiled
// once for each instruction set.

#if defined(BP_OPS_MAX_POOL_CPU_GATHER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_MAX_POOL_CPU_GATHER_INL_H
#undef BP_OPS_MAX_POOL_CPU_GATHER_INL_H
#else
#define BP_OPS_MAX_POOL_CPU_GATHER_INL_H
#endif

#include "backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// A window that can be the winner's: where its row's winners and dy stand, and the tap that the element is in it.
template <class A, class W>
struct Candidate {
  const W* winners;
  const A* dy;
  std::int64_t tap;
};

// Winners wait as bytes where their numbers fit, which a vector load widens.
template <class A, class W>
HWY_INLINE auto load_winners(const W* p) {
  const hn::RebindToSigned<Lanes<A>> d;
  if constexpr (sizeof(W) == sizeof(A)) {
    return hn::LoadU(d, p);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<W, decltype(d)>(), p));
  }
}

// The sum of a few candidates.
template <class A, class W>
class Sum {
 public:
  Sum(const Candidate<A, W>* candidates, int count) : candidates_(candidates), count_(count) {}

  // One vector of sums at i.
  HWY_INLINE auto at(std::int64_t i) const {
    auto sum = hn::Zero(Lanes<A>());
    for (int k = 0; k < count_; ++k) sum = hn::Add(sum, term(candidates_[k], i));
    return sum;
  }

 private:
  static HWY_INLINE auto term(const Candidate<A, W>& c, std::int64_t i) {
    const Lanes<A> d;
    const hn::RebindToSigned<Lanes<A>> di;
    const auto tap = hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(c.tap));
    return hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(load_winners<A>(c.winners + i), tap)), hn::LoadU(d, c.dy + i));
  }

  const Candidate<A, W>* candidates_;
  int count_;
};

// Where sums go: into a block in scratch memory, which takes up to two vectors beyond a run; or at once into dx, where
// runs are whole vectors there, by ordinary or by non-temporal stores (which drain while the next sums are made).
enum class Way { block, store, stream };

template <Way kWay, class A, class T, class V>
HWY_INLINE void emit(V v, A* block, T* dx, std::int64_t i) {
  const Lanes<A> d;
  if constexpr (kWay == Way::block) {
    hn::StoreU(v, d, block + i);
  } else if constexpr (kWay == Way::store) {
    store(d, v, dx + i);
  } else {
    stream(d, v, dx + i);
  }
}

// Runs that are summed alike: `count` of them, n lanes each, `step` apart in scratch and `out_step` apart in the
// output.
struct GatherRuns {
  std::int64_t count, n, step, out_step;
};

// out[i] = the sum over the candidates at at + i.
template <Way kWay, class A, class W, class T>
HWY_INLINE void gather(const Sum<A, W>& sum, std::int64_t at, const GatherRuns& runs, A* block, T* dx) {
  const Lanes<A> d;
  for (std::int64_t r = 0; r < runs.count; ++r) {
    const std::int64_t from = at + r * runs.step;
    const std::int64_t to = r * runs.out_step;
    for (std::int64_t i = 0; i < runs.n; i += lanes(d)) emit<kWay>(sum.at(from + i), block, dx, to + i);
  }
}

// The same for columns of two phases: out[2i] from the first, out[2i + 1] from the second; n columns in all.
template <Way kWay, class A, class W, class T>
HWY_INLINE void gather_pairs(const Sum<A, W>& even, const Sum<A, W>& odd, std::int64_t odd_at, const GatherRuns& runs,
                             A* block, T* dx) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  HWY_ALIGN A pairs[2 * hn::MaxLanes(Lanes<A>())];
  for (std::int64_t r = 0; r < runs.count; ++r) {
    const std::int64_t from = r * runs.step;
    const std::int64_t to = r * runs.out_step;
    for (std::int64_t i = 0; i < runs.n; i += 2 * step) {
      const auto a = even.at(from + i / 2), b = odd.at(odd_at + from + i / 2);
      if constexpr (kWay == Way::block) {
        hn::StoreInterleaved2(a, b, d, block + to + i);
      } else {
        hn::StoreInterleaved2(a, b, d, pairs);
        emit<kWay>(hn::Load(d, pairs), block, dx, to + i);
        if (i + step < runs.n) emit<kWay>(hn::Load(d, pairs + step), block, dx, to + i + step);
      }
    }
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_MAX_POOL_CPU_GATHER_INL_H

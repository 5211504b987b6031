// SPDX-License-Identifier: Apache-2.0
// Do two strided views touch a common byte?
//
// A view touches base + sum(stride_i * a_i) + b, 0 <= a_i < size_i, 0 <= b < element size. Two views meet where the
// difference of two such sums is the distance of their bases. With every axis turned so that its coefficient is
// positive, that is: sum(c_k * u_k) = target, 0 <= u_k <= bound_k. The search goes through the coefficients from the
// largest; what the smaller ones can reach and their common divisor leave few values at each, usually one.
#include "core/tensor.h"

#include "core/checked.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace bp {

namespace {

__extension__ typedef __int128 Wide;  // distances of two 63-bit ranges

struct Term {
  std::int64_t coefficient = 0;
  std::int64_t bound = 0;
};

constexpr int kMaxTerms = 2 * kMaxRank + 2;
constexpr int kMaxSteps = 20'000;

class Search {
 public:
  void add(std::int64_t coefficient, std::int64_t bound) {
    if (bound == 0 || coefficient == 0) return;
    // Equal strides of the two views are one term, or every way to split it would be searched.
    for (int i = 0; i < count_; ++i) {
      if (terms_[i].coefficient != coefficient) continue;
      if (const Checked sum = bp::add(terms_[i].bound, bound)) {
        terms_[i].bound = *sum;
        return;
      }
    }
    terms_[count_++] = {coefficient, bound};
  }

  Sharing solve(Wide target) {
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term& a, const Term& b) { return a.coefficient > b.coefficient; });
    for (int i = count_; i-- > 0;) {
      reach_[i] = reach_[i + 1] + Wide{terms_[i].coefficient} * terms_[i].bound;
      divisor_[i] = std::gcd(divisor_[i + 1], terms_[i].coefficient);
    }
    return from(0, target);
  }

 private:
  Sharing from(int i, Wide target) {
    if (target < 0 || target > reach_[i]) return Sharing::no;
    if (target == 0) return Sharing::yes;
    if (target % divisor_[i] != 0) return Sharing::no;  // reach > 0 here, so the divisor is not 0
    if (++steps_ > kMaxSteps) return Sharing::maybe;
    // u is at least what the smaller terms cannot cover, at most what keeps the rest from being negative.
    const Wide coefficient = terms_[i].coefficient;
    const Wide rest = reach_[i + 1];
    const Wide least = target > rest ? (target - rest + coefficient - 1) / coefficient : 0;
    const Wide most = std::min<Wide>(terms_[i].bound, target / coefficient);
    for (Wide u = most; u >= least; --u) {
      const Sharing found = from(i + 1, target - u * coefficient);
      if (found != Sharing::no) return found;
      if (++steps_ > kMaxSteps) return Sharing::maybe;
    }
    return Sharing::no;
  }

  std::array<Term, kMaxTerms> terms_{};
  std::array<Wide, kMaxTerms + 1> reach_{};
  std::array<std::int64_t, kMaxTerms + 1> divisor_{};
  int count_ = 0;
  int steps_ = 0;
};

void add_axes(Search& search, const Tensor& tensor) {
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype));
  for (int i = 0; i < tensor.rank; ++i) search.add(*magnitude(tensor.strides[i]) * element, tensor.sizes[i] - 1);
  search.add(1, element - 1);
}

Wide address(const void* data) { return static_cast<Wide>(reinterpret_cast<std::uintptr_t>(data)); }

}  // namespace

ByteRange byte_range(const Tensor& tensor) {
  if (tensor.empty()) return {};
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype));
  ByteRange range{0, element};
  for (int i = 0; i < tensor.rank; ++i) {
    const std::int64_t reach = tensor.strides[i] * (tensor.sizes[i] - 1) * element;
    (reach < 0 ? range.low : range.high) += reach;
  }
  return range;
}

Sharing sharing(const Tensor& a, const void* a_data, const Tensor& b, const void* b_data) {
  if (a.empty() || b.empty()) return Sharing::no;
  const ByteRange a_range = byte_range(a);
  const ByteRange b_range = byte_range(b);
  const Wide a_low = address(a_data) + a_range.low;
  const Wide a_high = address(a_data) + a_range.high;
  const Wide b_low = address(b_data) + b_range.low;
  const Wide b_high = address(b_data) + b_range.high;
  if (a_high <= b_low || b_high <= a_low) return Sharing::no;
  // Turned to start at its low end, view a touches a_low + sum(|s| a); turned to start at its high end, view b touches
  // b_high - 1 - sum(|s| b). They meet where both sums add up to the distance of the two ends.
  Search search;
  add_axes(search, a);
  add_axes(search, b);
  return search.solve(b_high - 1 - a_low);
}

}  // namespace bp
